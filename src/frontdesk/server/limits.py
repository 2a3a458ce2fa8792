"""Limits: the size of bodies, the rate of requests by key, and which callers are on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from ipaddress import ip_address

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from frontdesk.server.problems import RefusedError, refusal

_MOST_BUCKETS = 10_000
IMPORT = "/v1/import"
"""the address whose body has no limit: it is not read before the caller is known, and never as a whole"""


class Buckets:
    """A bucket of tokens for each key: it holds `burst`, and gets `rate` more every second."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> float:
        """Take a token. Returns 0, or how many seconds to wait for the next one."""
        now = self._clock()
        level, at = self._levels.get(key, (float(self._burst), now))
        level = min(self._burst, level + (now - at) * self._rate)
        if level < 1:
            self._levels[key] = (level, now)
            return (1 - level) / self._rate
        if len(self._levels) >= _MOST_BUCKETS:
            self._levels.clear()
        self._levels[key] = (level - 1, now)
        return 0.0


class BodyLimit:
    """Refuses a body that is too large: at once if its length is declared, otherwise when it gets too long. The body of
    an import may have any size."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"].removeprefix(scope.get("root_path", "").rstrip("/")) == IMPORT:
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and int(declared) > self._most:
            await self._refuse(scope, receive, send)
            return
        received = 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._most:
                raise _TooLargeError
            return message

        async def unless_too_large(message: Message) -> None:
            if received <= self._most:
                await send(message)

        try:
            await self._app(scope, limited, unless_too_large)
        except _TooLargeError:
            pass  # the app may also have answered that it could not read the body
        if received > self._most:
            await self._refuse(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, after as much of the rest was read as a client usually sends before it looks for an answer."""
        left, more = self._most, True
        while more and left > 0:
            message = await receive()
            left -= len(message.get("body", b"")) or 1
            more = message.get("more_body", False)
        text = f"the body is larger than {self._most} bytes"
        await refusal(RefusedError(413, "body_too_large", text))(scope, receive, send)


class _TooLargeError(Exception):
    """A body that got too long while it was read."""


def is_local(request: HTTPConnection) -> bool:
    """Whether a request comes from this machine, and was sent to it by a name of this machine: a page of another site
    can make a browser send requests here under its own name, or from its own origin."""
    host = request.client.host if request.client is not None else ""
    origin = request.headers.get("origin")
    named = request.headers.get("host", "")
    is_same_origin = origin is None or origin.partition("://")[2] == named
    return is_loopback(host) and is_loopback(_name(named)) and is_same_origin


def _name(host: str) -> str:
    """The host without its port."""
    return host[1 : host.find("]")] if host.startswith("[") else host.rpartition(":")[0] or host


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
