"""Answers that are sent while they are read: messages as lines, and events as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from starlette.responses import StreamingResponse

from frontdesk.errors import FrontdeskError
from frontdesk.events.feed import Event
from frontdesk.server.metrics import Metrics
from frontdesk.server.problems import failure
from frontdesk.server.wire import NDJSON, encode

T = TypeVar("T")
MESSAGES: dict[int | str, dict[str, Any]] = {200: {"content": {NDJSON: {}}, "description": "One message per line."}}
EVENT_STREAM = "text/event-stream"


async def started(stream: AsyncIterator[T]) -> AsyncIterator[T]:
    """The stream, once its first item was read: what is wrong with the request becomes the answer."""
    nothing: Any = object()
    first = await anext(stream, nothing)

    async def continued() -> AsyncIterator[T]:
        if first is not nothing:
            yield first
            async for item in stream:
                yield item

    return continued()


def event_stream(
    events: AsyncIterator[Event], keep_alive: float, metrics: Metrics, is_admitted: Callable[[], Awaitable[bool]]
) -> StreamingResponse:
    """Events as a browser reads them. A comment is sent while nothing happens, so that no proxy gives up. The stream
    ends when the caller is not admitted any more."""

    async def write() -> AsyncIterator[bytes]:
        with metrics.streams.track_inprogress():
            try:
                async for event in _with_pauses(events, keep_alive):
                    if not await is_admitted():
                        return
                    yield b":\n\n" if event is None else _written(event)
            except FrontdeskError as error:  # the answer has begun: what is wrong becomes its last event
                yield b"event: problem\ndata: %b\n\n" % bytes(failure(error).body)

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(write(), media_type=EVENT_STREAM, headers=headers)


def _written(event: Event) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event.position.encode(), event.kind.encode(), encode(event))


async def _with_pauses(events: AsyncIterator[T], seconds: float) -> AsyncIterator[T | None]:
    """None, then the items of a stream, with another None whenever there was no item for this many seconds."""
    yield None
    following: asyncio.Future[T] | None = None
    try:
        while True:
            if following is None:
                following = asyncio.ensure_future(anext(events))
            await asyncio.wait((following,), timeout=seconds)
            if not following.done():
                yield None
                continue
            done, following = following, None
            try:
                yield done.result()
            except StopAsyncIteration:
                return
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
