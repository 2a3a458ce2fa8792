"""The append in the memory store: gathers the facts for `tree.append`, and writes the rows that it returns."""

from __future__ import annotations

from collections.abc import Iterable

from frontdesk.store import TURN, Append, AppendResult, Place, SegmentRow, SessionRow
from frontdesk.stores.memory import leases, log, reading, sessions
from frontdesk.stores.memory.rows import MessageRow, Rows
from frontdesk.tree.append import Facts, Writes, decide
from frontdesk.tree.duplicates import KnownMessage, find_places, known_messages, places_to_read
from frontdesk.tree.visibility import Visibility


def append(rows: Rows, request: Append) -> AppendResult:
    writes = decide(request, _facts(rows, request), lambda kind: next(rows.numbers))
    _write(rows, request, writes)
    return writes.result


def _facts(rows: Rows, request: Append) -> Facts:
    session = rows.get(request.namespace, request.session_id)
    if session is None:
        return Facts(None)
    known, parent = _look_up(rows, session, request)
    places = [session.head, parent, *[one.place for one in known.values()]]
    return Facts(
        session,
        None if session.head is None else rows.message_at(session.head).id,
        {place.segment: rows.segments[place.segment] for place in places if place is not None},
        None if request.fence is None else leases.turn_of(rows, session),
        known,
        parent,
        session.status != "active" and sessions.may_take_key(rows, session),
    )


def _look_up(rows: Rows, session: SessionRow, request: Append) -> tuple[dict[str, KnownMessage], Place | None]:
    """The messages that the session sees already, and the place of the given parent."""
    ids = [message.id for message, fresh in zip(request.messages, request.fresh, strict=True) if not fresh]
    parent_id = request.parent if isinstance(request.parent, str) else None
    wanted = ids if parent_id is None else [*ids, parent_id]
    found = [(id, place) for id in wanted for place in rows.places.get((session.family, id), ())]
    if not found:
        return {}, None
    segments = _way_up(rows, session.base, *(place for _, place in found))
    edits, lineage = reading.edits_of(rows, session.tree), reading.lineage_of(rows, [session.tree])
    visible = Visibility(session, segments, edits, lineage)
    places = find_places(visible, found)
    known = {id: places[id] for id in ids if id in places}
    stored = {place: rows.message_at(place) for place in places_to_read(visible, known.values())}
    return known_messages(visible, known, stored), None if parent_id is None else places.get(parent_id)


def _way_up(rows: Rows, *places: Place | None) -> Iterable[SegmentRow]:
    """The segments of these places, and all on the way from them to the root."""
    segments: dict[int, SegmentRow] = {}
    for place in places:
        while place is not None and place.segment not in segments:
            segment = segments[place.segment] = rows.segments[place.segment]
            place = segment.parent
    return segments.values()


def _write(rows: Rows, request: Append, writes: Writes) -> None:
    session = writes.result.session
    if writes.result.created:
        sessions.insert(rows, session)
    else:
        sessions.put(rows, session)
    for segment in writes.opened:
        rows.segments_of[session.tree].append(segment.number)
    for segment in (*writes.opened, *writes.grown):
        rows.segments[segment.number] = segment
    for run in writes.runs:
        for position, (message, running) in enumerate(zip(run.messages, run.running, strict=True), run.first):
            rows.messages[run.segment][position] = MessageRow(message, running, session.family)
            rows.places.setdefault((session.family, message.id), []).append(Place(run.segment, position))
    for entry in writes.log:
        log.write(rows, session.namespace, session.number, request.now, entry)
    if request.dequeue:
        queued = rows.queued.get((session.namespace, session.number, TURN), {})
        for message in request.messages:
            queued.pop(message.id, None)
