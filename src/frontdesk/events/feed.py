"""The change log as people read it: one event for each thing that happened, with a position to go on from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from frontdesk import cursors
from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidCursorError, StoreClosedError
from frontdesk.messages import StoredMessage
from frontdesk.records import to_datetime
from frontdesk.store import ChangeRow, Position, Span, Store

START = "start"
"""given as `after`: the oldest event that is left"""

_LINES = 256
_PORTION = 128
"""messages that are looked up at once"""
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
"""seconds"""
_WHOLE = -1
"""in a position: nothing of the line is left to give"""
_OF_MESSAGES = ("message.appended", "message.updated", "head.moved")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Event(msgspec.Struct, frozen=True):
    """Something that happened. `position`, given back as `after`, continues behind it.

    `session_id` is None for what a whole namespace shares. `message_id` is that of the message it is about, if any.
    """

    position: str
    at: datetime
    kind: str
    session_id: str | None
    message_id: str | None
    data: dict[str, Any]


class _Part(msgspec.Struct, frozen=True):
    """The events `first..last` of a line, out of `count`."""

    line: ChangeRow
    ids: list[str]
    first: int
    last: int
    count: int


async def follow(runtime: Runtime, after: str | None, session_id: str | None, *, forever: bool) -> AsyncIterator[Event]:
    """The events after a position (None: after now), those of one session if given; ends when the manager is closed,
    and unless `forever` with what was committed at the beginning."""
    place, given = _unsealed(after, runtime.namespace) if after not in (None, START) else (None, _WHOLE)
    resumed = place
    if place is not None and given != _WHOLE:
        place = place[0], place[1] - 1
    try:
        newest, unsettled = await _committed(runtime.store, runtime.namespace)
        passed = set(unsettled) if after is None else set()
        reader = _Reader(runtime, newest if after is None else place, forever, max(unsettled, default=newest))
        async for lines in reader.batches():
            wanted = [line for line in lines if line.position not in passed]
            parts = [_part(line, given + 1 if line.position == resumed else 0) for line in wanted]
            about = [part for part in parts if session_id is None or _session_of(part.line) == session_id]
            for portion in _portions(about):
                for event in await _events(runtime.store, portion, runtime.namespace):
                    yield event
    except StoreClosedError:
        if not runtime.closed:
            raise


async def trim(runtime: Runtime, keep: int, most: int | None = None) -> int:
    """Remove lines of the log that are older than `keep` microseconds, all of them or about `most`; never any that the
    search index has not taken in. Gives how many went."""
    store, namespace = runtime.store, runtime.namespace
    index = await store.index_state(namespace)
    until = None if index is None else index.state.position
    removed = 0
    while not runtime.background.closing and (most is None or removed < most):
        gone = await store.trim_changes(namespace, runtime.now() - keep, _LINES, until=until)
        removed += gone
        if gone < _LINES:
            break
    return removed


class _Reader:
    """Reads on in the log, and waits where it ends."""

    def __init__(self, runtime: Runtime, after: Position | None, forever: bool, end: Position) -> None:
        self._runtime = runtime
        self._after = after
        self._forever = forever
        self._end = end

    async def batches(self) -> AsyncIterator[list[ChangeRow]]:
        store, namespace = self._runtime.store, self._runtime.namespace
        pause = _FIRST_PAUSE
        complete = False
        while not self._runtime.closed:
            lines = await store.changes(namespace, self._after, _LINES)
            if lines:
                yield lines
                self._after = lines[-1].position
                pause = _FIRST_PAUSE
                continue
            if complete:
                return
            # What is committed may have to wait for others before it is settled.
            complete = not self._forever and await store.last_change(namespace) >= self._end
            if not complete:
                await store.wait_for_change(pause)
                pause = min(1.5 * pause, _LONGEST_PAUSE)


async def _committed(store: Store, namespace: str) -> tuple[Position, list[Position]]:
    """The newest settled position, and those behind it that are committed, but not settled."""
    newest = after = await store.last_change(namespace)
    unsettled: list[Position] = []
    while lines := await store.changes(namespace, after, _LINES, settled=False):
        unsettled += [line.position for line in lines]
        after = unsettled[-1]
    return newest, unsettled


def _part(line: ChangeRow, first: int) -> _Part:
    ids: list[str] = _decode(line.detail)["ids"] if line.kind == "message.deleted" else []
    count = len(ids) or (line.last - line.first + 1 if line.kind in _OF_MESSAGES else 1)
    return _Part(line, ids, first, count - 1, count)


def _session_of(line: ChangeRow) -> str | None:
    if line.kind == "session.deleted":
        return str(_decode(line.detail)["id"]) if line.detail else None
    return line.session_id


def _portions(parts: Iterable[_Part]) -> Iterable[list[_Part]]:
    """The parts, the long ones divided, in portions of a bounded number of events."""
    portion: list[_Part] = []
    room = _PORTION
    for part in parts:
        first = part.first
        while first <= part.last:
            last = min(part.last, first + room - 1)
            portion.append(msgspec.structs.replace(part, first=first, last=last))
            room -= last - first + 1
            first = last + 1
            if not room:
                yield portion
                portion, room = [], _PORTION
    if portion:
        yield portion


async def _events(store: Store, parts: Sequence[_Part], namespace: str) -> list[Event]:
    spans = [
        Span(part.line.segment, part.line.first + part.first, part.line.first + part.last, None)
        for part in parts
        if part.line.kind in _OF_MESSAGES
    ]
    messages = iter(await _messages(store, spans) if spans else [])
    events: list[Event] = []
    for part in parts:
        for index in range(part.first, part.last + 1):
            data: dict[str, Any] = {}
            message_id = part.ids[index] if part.ids else None
            if part.line.kind in _OF_MESSAGES:
                message = next(messages)
                if message is None:
                    continue
                message_id, data = message.id, {"role": message.role}
            elif part.line.detail and message_id is None and part.line.kind != "session.deleted":
                data = _decode(part.line.detail)
            events.append(_event(part, index, message_id, data, namespace))
    return events


def _event(part: _Part, index: int, message_id: str | None, data: dict[str, Any], namespace: str) -> Event:
    line = part.line
    given = index if index < part.count - 1 else _WHOLE
    return Event(
        position=cursors.seal([*line.position, given], ["events", namespace]),
        at=to_datetime(line.at),
        kind=line.kind,
        session_id=_session_of(line),
        message_id=message_id,
        data=data,
    )


async def _messages(store: Store, spans: Sequence[Span]) -> list[StoredMessage | None]:
    """The message at each place of these spans; None where it was deleted since."""
    pieces = await store.read(spans)
    if all(len(piece.messages) == span.last - span.first + 1 for piece, span in zip(pieces, spans, strict=True)):
        return [message for piece in pieces for message in piece.messages]
    single = [Span(span.segment, at, at, None) for span in spans for at in range(span.first, span.last + 1)]
    return [piece.messages[0] if piece.messages else None for piece in await store.read(single)]


def _unsealed(after: str | None, namespace: str) -> tuple[Position, int]:
    try:
        match cursors.unseal(after, ["events", namespace]):  # type: ignore[arg-type]
            case [int(first), int(second), int(given)]:
                return (first, second), given
    except InvalidCursorError:
        pass
    raise InvalidCursorError(
        "this is no position of an event in this namespace: pass `event.position` of one that was given,"
        f" {START!r} for all that the log holds, or None for what happens from now on"
    )
