"""The change log as a stream of events: one for each thing that happened, with a position to resume from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from frontdesk import cursors
from frontdesk.checks import check_count
from frontdesk.config.runtime import Runtime
from frontdesk.errors import ChangesRewoundError, ChangesTrimmedError, InvalidCursorError, StoreClosedError
from frontdesk.events.filters import EventFilter
from frontdesk.events.streams import OpenStreams, StreamEnd
from frontdesk.messages.stored import StoredMessage
from frontdesk.moments import to_datetime
from frontdesk.record import Record
from frontdesk.store import BEGINNING, ChangeRow, Position, Span, Store

START = "start"
"""as `after`: start with the oldest event that the log still has"""

_ENTRY_BATCH = 256
"""log entries that are read at once"""
_EVENT_BATCH = 128
"""events whose messages are read at once"""
_MOST_RECENT = 1000
_LOOK_BACK = 1024
"""how far back to look first for the last events, in numbers of positions"""
_LOOK_FURTHER = 8
_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
_IDLE_PAUSE = 20.0
"""seconds"""
_COMPLETE = -1
"""in a position: all events of the log entry were returned"""
_MESSAGE_KINDS = ("message.appended", "message.updated", "head.moved")


@dataclass(frozen=True, slots=True)
class Event(Record):
    """Something that happened. Pass its `position` as `after` to continue with the next event.

    `session_id` is None if the event concerns the whole namespace. `message_id` is set if it concerns a message.
    """

    position: str
    at: datetime
    kind: str
    session_id: str | None
    message_id: str | None
    data: dict[str, Any]


class _EntryRange(msgspec.Struct, frozen=True):
    """The events `first..last` of a log entry that has `count` of them."""

    entry: ChangeRow
    ids: list[str]
    first: int
    last: int
    count: int

    @property
    def span(self) -> Span:
        """Where the messages of these events are."""
        return Span(self.entry.segment, self.entry.first + self.first, self.entry.first + self.last, None)


def follow(runtime: Runtime, after: str | None, wanted: EventFilter, *, forever: bool) -> AsyncIterator[Event]:
    """The events after a position (None: from now on) that match a filter.

    Ends when `end_streams` is called; unless `forever`, also after everything that was committed when it began. Raises
    `InvalidCursorError` at once, without I/O."""
    parsed = check_position(after, runtime.namespace)
    start = None if parsed is None else _Start(*parsed)
    return _follow(runtime, start, after is None, wanted, forever, runtime.shared(OpenStreams).open())


def check_position(after: str | None, namespace: str) -> tuple[Position, int] | None:
    """What a position says; None for those that need no reading: the start, and now. Raises `InvalidCursorError`."""
    return None if after in (None, START) else _parse_position(after, namespace)


def end_streams(runtime: Runtime) -> None:
    """End all streams that are open. Safe in any thread."""
    runtime.shared(OpenStreams).end_all()


async def read_recent(runtime: Runtime, count: int, wanted: EventFilter) -> list[Event]:
    """The last `count` events that match a filter, newest first: fewer if the log has no more.

    Looks back in growing steps, so that the cost follows the number of events and not the length of the log. Raises
    `InvalidInputError`."""
    check_count(count, "count", most=_MOST_RECENT)
    store, namespace = runtime.store, runtime.namespace
    newest = await store.last_change(namespace)
    oldest = await store.changes(namespace, None, 1)
    distance, ranges, found = _LOOK_BACK, list[_EntryRange](), 0
    while oldest and newest >= oldest[0].position:
        after = Position(newest.major - distance, 0)  # without an epoch, any number will do
        is_all = after <= oldest[0].position
        ranges = await _ranges_between(runtime, None if is_all else after, newest, wanted)
        found = sum(entry_range.count for entry_range in ranges)
        if is_all or found >= count:
            break
        distance *= _LOOK_FURTHER
    events: list[Event] = []
    for batch in _batches(_skip(ranges, found - count)):
        events += await _events(store, batch, namespace)
    return events[::-1]


async def _ranges_between(
    runtime: Runtime, after: Position | None, until: Position, wanted: EventFilter
) -> list[_EntryRange]:
    """All events of the entries after a position that match a filter. What was removed from the log meanwhile is
    missing."""
    ranges: list[_EntryRange] = []
    while after is None or after < until:
        try:
            entries = await runtime.store.changes(runtime.namespace, after, _ENTRY_BATCH)
        except ChangesTrimmedError:
            after, ranges = None, []
            continue
        if not entries:
            break
        ranges += [_range(entry, 0) for entry in entries if entry.position <= until and wanted.matches(entry)]
        after = entries[-1].position
    return ranges


def _skip(ranges: list[_EntryRange], surplus: int) -> Iterable[_EntryRange]:
    """The ranges without their first `surplus` events."""
    for entry_range in ranges:
        if surplus < entry_range.count:
            yield msgspec.structs.replace(entry_range, first=max(surplus, 0))
        surplus -= entry_range.count


async def newest_position(runtime: Runtime) -> str:
    """The position after all settled entries."""
    return _seal(await runtime.store.last_change(runtime.namespace), _COMPLETE, runtime.namespace)


class _Start(NamedTuple):
    """The position of an entry, and which of its events was returned last."""

    position: Position
    returned: int

    @property
    def after(self) -> Position:
        """Where to read from: an entry with more events to return is read again."""
        return self.position if self.returned == _COMPLETE else self.position.before


async def _follow(
    runtime: Runtime, start: _Start | None, from_now: bool, wanted: EventFilter, forever: bool, end: StreamEnd
) -> AsyncIterator[Event]:
    try:
        newest, unsettled = await _committed(runtime.store, runtime.namespace)
        skipped = set(unsettled) if from_now else set()
        after = newest if from_now else None if start is None else start.after
        reader = _FeedReader(runtime, after, forever, max(unsettled, default=newest), end)
        async for entries in reader.batches():
            ranges = [
                _range(entry, start.returned + 1 if start is not None and entry.position == start.position else 0)
                for entry in entries
                if entry.position not in skipped and wanted.matches(entry)
            ]
            for batch in _batches(ranges):
                for event in await _events(runtime.store, batch, runtime.namespace):
                    yield event
    except StoreClosedError:
        if not (end.is_set or runtime.closed):
            raise
    except ChangesRewoundError as error:
        raise ChangesRewoundError(runtime.namespace, _resume(error.position, runtime.namespace)) from None


def _resume(position: Position, namespace: str) -> str:
    """What a caller passes as `after` to continue after a position of the store."""
    return START if position == BEGINNING else _seal(position, _COMPLETE, namespace)


async def trim(runtime: Runtime, keep: int, most: int | None = None) -> int:
    """Remove log entries older than `keep` microseconds, all of them or about `most`; returns how many were removed.

    Entries that the search index has not processed yet are kept."""
    store, namespace = runtime.store, runtime.namespace
    index = await store.index_state(namespace)
    until = None if index is None else index.state.position
    removed = 0
    while not runtime.background.closing and (most is None or removed < most):
        trimmed = await store.trim_changes(namespace, runtime.now() - keep, _ENTRY_BATCH, until=until)
        removed += trimmed
        if trimmed < _ENTRY_BATCH:
            break
    return removed


class _FeedReader:
    """Reads the log from a position on, and waits at its end for more."""

    def __init__(
        self, runtime: Runtime, after: Position | None, forever: bool, newest: Position, end: StreamEnd
    ) -> None:
        self._runtime = runtime
        self._after = after
        self._forever = forever
        self._newest = newest
        self._end = end
        self._noticed: int | None = None

    async def batches(self) -> AsyncIterator[list[ChangeRow]]:
        store, namespace = self._runtime.store, self._runtime.namespace
        pauses = _Pauses()
        complete = False
        while not self._end.is_set:
            entries = await store.changes(namespace, self._after, _ENTRY_BATCH)
            if entries:
                yield entries
                self._after = entries[-1].position
                pauses.begin()
                continue
            if complete:
                return
            # An entry that is committed is not settled while an older transaction is still running.
            complete = not self._forever and await store.last_change(namespace) >= self._newest
            if not complete:
                await self._wait(pauses)

    async def _wait(self, pauses: _Pauses) -> None:
        """Wait for a notice, or until it is time to look. Only if everything is settled can that be long: nothing else
        is noticed when an entry becomes settled."""
        store, namespace = self._runtime.store, self._runtime.namespace
        if pauses.may_be_long and not await store.changes(namespace, self._after, 1, settled=False):
            pauses.lengthen()
        before = self._noticed

        async def wait() -> None:
            self._noticed = await store.wait_for_change(pauses.seconds, self._noticed)

        await self._end.wait(wait())
        if self._noticed == before or before is None:
            pauses.grow()
        else:
            pauses.begin()


class _Pauses:
    """How long to wait at the end of the log: from short to half a second, and once everything is settled to long."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.seconds = _FIRST_PAUSE
        self._longest = _LONGEST_PAUSE

    def grow(self) -> None:
        self.seconds = min(1.5 * self.seconds, self._longest)

    @property
    def may_be_long(self) -> bool:
        return self.seconds >= _LONGEST_PAUSE == self._longest

    def lengthen(self) -> None:
        self.seconds = self._longest = _IDLE_PAUSE


async def _committed(store: Store, namespace: str) -> tuple[Position, list[Position]]:
    """The newest settled position, and the later ones that are committed but not settled."""
    newest = after = await store.last_change(namespace)
    unsettled: list[Position] = []
    while entries := await store.changes(namespace, after, _ENTRY_BATCH, settled=False):
        unsettled += [entry.position for entry in entries]
        after = unsettled[-1]
    return newest, unsettled


def _range(entry: ChangeRow, first: int) -> _EntryRange:
    ids: list[str] = entry.data["ids"] if entry.kind == "message.deleted" else []
    count = len(ids) or (entry.last - entry.first + 1 if _names_messages(entry) else 1)
    return _EntryRange(entry, ids, first, count - 1, count)


def _names_messages(entry: ChangeRow) -> bool:
    """Whether it is about messages that can be read; a head that moved before the first message names none."""
    return entry.kind in _MESSAGE_KINDS and entry.segment > 0


def _session_of(entry: ChangeRow) -> str | None:
    if entry.kind == "session.deleted":
        return entry.data.get("id")
    return entry.session_id


def _batches(ranges: Iterable[_EntryRange]) -> Iterable[list[_EntryRange]]:
    """The ranges in batches of at most `_EVENT_BATCH` events; a range that does not fit is split."""
    batch: list[_EntryRange] = []
    room = _EVENT_BATCH
    for entry_range in ranges:
        first = entry_range.first
        while first <= entry_range.last:
            last = min(entry_range.last, first + room - 1)
            batch.append(msgspec.structs.replace(entry_range, first=first, last=last))
            room -= last - first + 1
            first = last + 1
            if not room:
                yield batch
                batch, room = [], _EVENT_BATCH
    if batch:
        yield batch


async def _events(store: Store, ranges: Sequence[_EntryRange], namespace: str) -> list[Event]:
    spans = [entry_range.span for entry_range in ranges if _names_messages(entry_range.entry)]
    messages = iter(await _messages(store, spans) if spans else [])
    events: list[Event] = []
    for entry_range in ranges:
        entry = entry_range.entry
        for index in range(entry_range.first, entry_range.last + 1):
            data: dict[str, Any] = {}
            message_id = entry_range.ids[index] if entry_range.ids else None
            if _names_messages(entry):
                message = next(messages)
                if message is None:
                    continue  # deleted since: there is nothing left to report
                message_id, data = message.id, {"role": message.role}
            elif entry.detail and message_id is None and entry.kind != "session.deleted":
                data = entry.data
            events.append(_event(entry_range, index, message_id, data, namespace))
    return events


def _event(entry_range: _EntryRange, index: int, message_id: str | None, data: dict[str, Any], namespace: str) -> Event:
    entry = entry_range.entry
    returned = index if index < entry_range.count - 1 else _COMPLETE
    return Event(
        position=_seal(entry.position, returned, namespace),
        at=to_datetime(entry.at),
        kind=entry.kind,
        session_id=_session_of(entry),
        message_id=message_id,
        data=data,
    )


async def _messages(store: Store, spans: Sequence[Span]) -> list[StoredMessage | None]:
    """The message at each position of these spans; None where it has been deleted since."""
    pieces = await store.read(spans)
    if all(len(piece.messages) == span.last - span.first + 1 for piece, span in zip(pieces, spans, strict=True)):
        return [message for piece in pieces for message in piece.messages]
    single = [Span(span.segment, at, at, None) for span in spans for at in range(span.first, span.last + 1)]
    return [piece.messages[0] if piece.messages else None for piece in await store.read(single)]


def _seal(position: Position, returned: int, namespace: str) -> str:
    return cursors.seal([*position, returned], ["events", namespace])


def _parse_position(after: str | None, namespace: str) -> tuple[Position, int]:
    try:
        match cursors.unseal(after, ["events", namespace]):  # type: ignore[arg-type]
            case [int(major), int(minor), int(epoch), int(returned)]:
                return Position(major, minor, epoch), returned
    except InvalidCursorError:
        pass
    raise InvalidCursorError(
        "this is not the position of an event in this namespace: pass the `position` of an event,"
        f" {START!r} for everything in the log, or None for what happens from now on"
    )
