"""Connections that do not wait without end for the head of a request: uvicorn has no limit for that, so that a caller
could hold any number of them by sending nothing, or a byte now and then."""

from __future__ import annotations

from asyncio import BaseTransport, TimerHandle
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol


class TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Closes a connection if the head of a request has not arrived `seconds` after its first byte, or after the
    connection was opened. Bodies have the time limit of their request."""

    def __init__(self, seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._seconds = seconds
        self._timer: TimerHandle | None = None

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop()
        super().connection_lost(error)

    def _watch(self) -> None:
        """Start the timer if the next head is expected, and stop it once that has arrived."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._timer is None:
            self._timer = self.loop.call_later(self._seconds, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
