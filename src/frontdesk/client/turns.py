"""Turns that are held through a server: taken in steps, so that no request waits long, renewed in the background, and
ended."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from frontdesk.client.connection import HTTPRequest
from frontdesk.client.remote import RemoteHandle
from frontdesk.client.values import to_body
from frontdesk.errors import FrontdeskError, TurnBusyError
from frontdesk.lifecycle.leases import holder
from frontdesk.session.keeping import Keeper, to_the_end
from frontdesk.session.records import TurnInfo
from frontdesk.session.turns import TurnRequest

R = TypeVar("R")
_STEP = 20.0
"""seconds that one request waits for a turn, at most"""


class RemoteHolding(Keeper):
    """A turn that is held through a server."""

    def __init__(self, handle: RemoteHandle, session_id: str, number: int, seconds: float, asked_at: float) -> None:
        super().__init__(session_id, number, seconds, asked_at)
        self.handle = RemoteHandle(handle.connection, session_id, known_key=handle.known_key)
        self._following: RemoteHolding | None = None

    async def renew(self, seconds: float) -> bool:
        request = HTTPRequest("PUT", f"/turn/{self.number}", body=to_body({"ttl": seconds}), repeats=True)
        is_held: bool = await self.handle.ask(request, bool, "held")
        return is_held

    async def current_number(self) -> int | None:
        info: TurnInfo = await self.handle.ask(HTTPRequest("GET", "/turn"), TurnInfo)
        return info.number

    def move(self, session_id: str) -> RemoteHolding:
        """The turn in the session that follows this one. This one is over, and ends that one when it ends."""
        asked_at = self._until - self._seconds
        self._following = RemoteHolding(self.handle, session_id, self.number, self._seconds, asked_at)
        self._following.start_renewal()
        self._over.set()
        return self._following

    async def end(self) -> None:
        """Release the turn, even if the caller is cancelled."""
        self._over.set()
        await to_the_end(self._release())

    async def _release(self) -> None:
        await self.stop_renewal()
        if self._following is not None:
            await self._following.end()
            return
        with suppress(FrontdeskError):  # out of reach, or deleted: the work is done, and the turn expires by itself
            await self.renew(0)


@asynccontextmanager
async def hold(
    handle: RemoteHandle, request: TurnRequest, message: Any, make: Callable[[RemoteHolding], R]
) -> AsyncIterator[R | None]:
    """What `make` makes of the turn while it is held; None if the message (as `write_message` writes it) was queued for
    the present holder."""
    holding = await _take(handle, request, message)
    if holding is None:
        yield None
        return
    holding.start_renewal()
    try:
        yield make(holding)
    finally:
        await holding.end()


async def _take(handle: RemoteHandle, request: TurnRequest, message: Any) -> RemoteHolding | None:
    name = holder()
    started = time.monotonic()
    try:
        while True:
            left = float("inf") if request.wait is None else started + request.wait - time.monotonic()
            asks_again = left > _STEP and request.on_busy in ("wait", "queue")
            wanted = {
                "holder": name,
                "wait": max(0.0, min(left, _STEP)),
                "ttl": request.ttl,
                "on_busy": request.on_busy,
                "new_message": message,
                "keeps_place": asks_again,
            }
            asked_at = time.monotonic()
            try:
                taken = await handle.ask(
                    HTTPRequest("POST", "/turn", body=to_body(wanted), repeats=True), dict[str, str | int | None]
                )
            except TurnBusyError:
                if asks_again:
                    continue
                raise
            session_id, number = taken["session_id"], taken["number"]
            if not isinstance(session_id, str) or not isinstance(number, int):
                return None
            return RemoteHolding(handle, session_id, number, request.ttl, asked_at)
    except TurnBusyError:
        raise
    except BaseException as error:
        # The turn may have been granted meanwhile, and a place in the queue would stop those after it.
        await to_the_end(_leave(handle, name), after=error)
        raise


async def _leave(handle: RemoteHandle, name: str) -> None:
    with suppress(FrontdeskError):
        await handle.ask(HTTPRequest("DELETE", "/turn", {"holder": name}, repeats=True), type(None))
