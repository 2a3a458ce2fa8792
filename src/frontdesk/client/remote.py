"""What sends the calls of a client and of its sessions. A session remembers between two requests what its key was
resolved to, and the turn that it writes in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from types import NoneType
from typing import Any

import httpx2

from frontdesk.client.calls import Call
from frontdesk.client.connection import HTTPRequest, ServerConnection
from frontdesk.client.failures import error_of, parse_problem
from frontdesk.client.values import read_answer
from frontdesk.errors import ConfigurationError
from frontdesk.http.addresses import KEY_HEADER, SESSION_HEADER, TURN_HEADER, read_header, write_header, write_ref
from frontdesk.keys import SessionKey
from frontdesk.messages import check_id

_PROBLEM = b'{"problem":'
"""how the last line of an answer begins that could not be finished"""


class Remote:
    """Sends the calls on a namespace."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection

    async def send(self, call: Call, arguments: Mapping[str, Any], result: Any) -> Any:
        """The result of a call."""
        return await self.ask(call.request(arguments), result, call.field)

    async def ask(self, request: HTTPRequest, result: Any, field: str | None = None) -> Any:
        """The same for a request that is written out."""
        response = await self.connection.send(self._complete(request))
        self._learn(response)
        return None if result is NoneType else read_answer(response.content, result, field)

    async def lines(self, call: Call, arguments: Mapping[str, Any], kind: Any) -> AsyncIterator[Any]:
        """The items of an answer that has one on each line."""
        async with self.connection.stream(self._complete(call.request(arguments))) as response:
            self._learn(response)
            async for line in iterate_lines(response):
                if line.startswith(_PROBLEM):
                    raise error_of(response.status_code, parse_problem(line[len(_PROBLEM) : -1]))
                yield read_answer(line, kind, None)

    def _complete(self, request: HTTPRequest) -> HTTPRequest:
        return request

    def _learn(self, response: httpx2.Response) -> None:
        """What the answer says about the session."""


class RemoteHandle(Remote):
    """Sends the calls on one session, by id or by key, and in the turn `number` if there is one."""

    def __init__(
        self,
        connection: ServerConnection,
        ref: str | SessionKey,
        *,
        known_key: SessionKey | None = None,
        number: int | None = None,
    ) -> None:
        super().__init__(connection)
        self.key = ref if isinstance(ref, SessionKey) else None
        self.number = number
        self._id = None if isinstance(ref, SessionKey) else check_id(ref, "session id")
        self._known_key = known_key

    @property
    def id(self) -> str:
        """The session's id. Raises `ConfigurationError` before the first request of a handle that was made from a
        key."""
        if self._id is None:
            raise ConfigurationError(f"the session under key {str(self.key)!r} is not known before the first call")
        return self._id

    @property
    def name(self) -> str:
        """The id, or the key while the id is not known."""
        return self._id if self._id is not None else str(self.key)

    @property
    def known_key(self) -> SessionKey | None:
        """The key that the session is stored under, as far as it is known; before the first request the given one."""
        return self._known_key or self.key

    def forget_id(self) -> None:
        """Resolve the key again at the next request."""
        if self.key is not None:
            self._id = None

    def _complete(self, request: HTTPRequest) -> HTTPRequest:
        headers = dict(request.headers)
        ref: str | SessionKey = self.id if self.key is None else self.key
        if self.key is not None and self._id is not None:
            headers[SESSION_HEADER] = write_header(self._id)
        if self.number is not None:
            headers[TURN_HEADER] = str(self.number)
        return replace(request, path=f"/sessions/{write_ref(ref)}{request.path}", headers=headers)

    def _learn(self, response: httpx2.Response) -> None:
        session_id, key = response.headers.get(SESSION_HEADER), response.headers.get(KEY_HEADER)
        if session_id is not None and self.key is not None:
            self._id = read_header(session_id)
        if key is not None:
            self._known_key = SessionKey.parse(read_header(key))


async def iterate_lines(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The lines of an answer. Only a line break ends one: a text may contain other separators."""
    rest = b""
    async for portion in response.aiter_bytes():
        *whole, rest = (rest + portion).split(b"\n")
        for line in whole:
            yield line
    if rest:
        yield rest
