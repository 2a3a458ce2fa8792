"""The events of a server as a stream that continues where it was cut off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from frontdesk.client.calls import OF_MANAGER
from frontdesk.client.connection import HTTPRequest
from frontdesk.client.failures import error_of, parse_problem
from frontdesk.client.remote import Remote, iterate_lines
from frontdesk.client.values import read_answer
from frontdesk.errors import StoreClosedError, StoreUnavailableError
from frontdesk.events.feed import Event
from frontdesk.events.streams import StreamEnd
from frontdesk.unattended import sleep

_PAUSE = 0.2
_MOST_FAILURES = 10
"""times in a row that the server cannot be reached before the stream ends with an error"""


async def until_now(remote: Remote, query: dict[str, Any]) -> AsyncIterator[Event]:
    """The events that exist now."""
    async with remote.connection.stream(HTTPRequest("GET", "/events", {**query, "follow": "false"})) as response:
        async for line in iterate_lines(response):
            yield read_answer(line, Event, None)


async def follow(remote: Remote, query: dict[str, Any], end: StreamEnd) -> AsyncIterator[Event]:
    """The events from `after` in the query on, or from now on, until the end is set. When the connection is lost, or
    the server is started again, the stream continues after the last event."""
    position: str | None = query.pop("after", None)
    failures = 0
    while not end.is_set:
        try:
            if position is None:
                position = await remote.send(OF_MANAGER["position"], {}, str)
            async for event in _stream(remote, query, position, end):
                failures, position = 0, event.position
                yield event
        except StoreClosedError:
            if remote.connection.is_closed:
                return
            raise
        except StoreUnavailableError:
            failures += 1
            if failures > _MOST_FAILURES:
                raise
        if not end.is_set:
            await end.wait(sleep(_PAUSE * (1 + failures)))


async def _stream(remote: Remote, query: dict[str, Any], position: str, end: StreamEnd) -> AsyncIterator[Event]:
    request = HTTPRequest("GET", "/events", {**query, "after": position})
    async with remote.connection.stream(request, endless=True) as response:
        portions, rest = response.aiter_bytes(), b""
        while (portion := await _next(portions, end)) is not None:
            *blocks, rest = (rest + portion).split(b"\n\n")
            for block in blocks:
                event = _parse(block)
                if event is not None:
                    yield event


async def _next(portions: AsyncIterator[bytes], end: StreamEnd) -> bytes | None:
    """The next bytes; None if the answer has ended, or the stream should end."""
    found: bytes | None = None

    async def read() -> None:
        nonlocal found
        found = await anext(portions, None)

    await end.wait(read())
    return None if end.is_set else found


def _parse(block: bytes) -> Event | None:
    """The event in a block of lines; None for a comment. Raises the error that the server reports as its last event."""
    fields = dict(line.partition(b": ")[::2] for line in block.split(b"\n"))
    if b"data" not in fields:
        return None
    if fields.get(b"event") == b"problem":
        raise error_of(500, parse_problem(fields[b"data"]))
    event: Event = read_answer(fields[b"data"], Event, None)
    return event
