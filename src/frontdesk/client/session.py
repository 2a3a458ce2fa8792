"""`RemoteSession` and `RemoteTurn`: a session that a server keeps. They have the types of `Session` and `Turn`; what
they send is in `calls` and `session_calls`."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from frontdesk.client.calls import OF_SESSION, remote
from frontdesk.client.connection import HTTPRequest
from frontdesk.client.remote import RemoteHandle
from frontdesk.client.session_calls import CALLS
from frontdesk.client.turns import RemoteHolding, hold
from frontdesk.client.values import to_body, write_message
from frontdesk.errors import ConfigurationError, TurnLostError
from frontdesk.keys import SessionKey
from frontdesk.messages import Message
from frontdesk.records import SessionInfo
from frontdesk.session import Session, Turn
from frontdesk.session.turns import DEFAULT_TTL, TurnRequest, turn_request

R = TypeVar("R")


@remote({**OF_SESSION, **CALLS})
class RemoteSession(Session):
    """A handle on one session of a server. Creating a handle does no I/O; the first write creates the session."""

    def __init__(self, handle: RemoteHandle) -> None:
        self._remote = handle

    def __repr__(self) -> str:
        return f"RemoteSession({self._remote.name!r}, url={self._remote.connection.url!r})"

    @property
    def id(self) -> str:
        return self._remote.id

    @property
    def key(self) -> SessionKey | None:
        return self._remote.known_key

    def turn(self, *, message: Any = None, **options: Any) -> AbstractAsyncContextManager[Any]:
        request, written = _request(message, options)
        return hold(self._remote, request, written, lambda holding: RemoteTurn(holding))

    def add_context(self, *_: Any, **__: Any) -> None:
        raise _set_up("add_context")

    def remove_context(self, *_: Any, **__: Any) -> bool:
        raise _set_up("remove_context")


@remote({**OF_SESSION, **CALLS})
class RemoteTurn(Turn):
    """A turn of a session of a server."""

    def __init__(self, holding: RemoteHolding) -> None:
        known = holding.handle
        self._kept = holding
        self._remote = RemoteHandle(
            known.connection, holding.session_id, known_key=known.known_key, number=holding.number
        )

    def __repr__(self) -> str:
        return f"RemoteTurn({self.number}, session={self.id!r}, url={self._remote.connection.url!r})"

    @property
    def id(self) -> str:
        return self._remote.id

    @property
    def key(self) -> SessionKey | None:
        return self._remote.known_key

    @property
    def number(self) -> int:
        return self._kept.number

    @property
    def lost(self) -> bool:
        return self._kept.lost

    @property
    def interrupted(self) -> bool:
        return self._kept.interrupted

    async def run(self, work: Awaitable[R]) -> R:
        return await self._kept.run(work)

    async def new(self) -> Turn:
        if self.lost:
            raise TurnLostError(self.id, self.number)
        request = HTTPRequest("POST", f"/turn/{self.number}/new", keyed=True, long=True)
        info: SessionInfo = await self._remote.ask(request, SessionInfo)
        return RemoteTurn(self._kept.move(info.id))

    async def compact_and_split(self, summary: str | None = None, name: str | None = None) -> Turn:
        if self.lost:
            raise TurnLostError(self.id, self.number)
        body = to_body({"summary": summary, "name": name})
        request = HTTPRequest("POST", f"/turn/{self.number}/split", body=body, keyed=True, long=True)
        info: SessionInfo = await self._remote.ask(request, SessionInfo)
        return RemoteTurn(self._kept.move(info.id))

    async def take_queued(self) -> Message | None:
        request = HTTPRequest("POST", f"/turn/{self.number}/take-queued", keyed=True)
        message: Message | None = await self._remote.ask(request, Message | None, "message")
        return message

    def turn(self, *, message: Any = None, **options: Any) -> AbstractAsyncContextManager[Any]:
        request, written = _request(message, options)
        if written is None:
            return self._kept.nested(self)
        outside = self._kept.handle
        at_once = TurnRequest(wait=0.0, ttl=request.ttl, on_busy=request.on_busy, message=None)
        return hold(outside, at_once, written, lambda holding: RemoteTurn(holding))

    def add_context(self, *_: Any, **__: Any) -> None:
        raise _set_up("add_context")

    def remove_context(self, *_: Any, **__: Any) -> bool:
        raise _set_up("remove_context")


def _request(message: Any, options: dict[str, Any]) -> tuple[TurnRequest, dict[str, Any] | None]:
    """The request that the arguments of `turn` make, and the message for a request. Raises `InvalidInputError`."""
    given = {"wait": None, "ttl": DEFAULT_TTL, "on_busy": "wait", **options}
    if unknown := given.keys() - {"wait", "ttl", "on_busy"}:
        raise TypeError(f"turn() has no argument {min(unknown)!r}")
    request = turn_request(given["wait"], given["ttl"], given["on_busy"], message)
    return request, None if message is None else write_message(message, needs_id=True)


def _set_up(name: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is part of the setup, which belongs to the server: declare it on its manager")
