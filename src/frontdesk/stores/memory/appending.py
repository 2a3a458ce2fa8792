"""Appending to the memory store: gathers the facts that `tree.append` decides by, and writes what it decides."""

from __future__ import annotations

from collections.abc import Iterable

from frontdesk.store import TURN, Append, AppendResult, Place, SegmentRow, SessionRow
from frontdesk.stores.memory.leases import Leases
from frontdesk.stores.memory.reading import Reading
from frontdesk.stores.memory.rows import MessageRow, key_of
from frontdesk.tree.append import Facts, Known, Writes, decide, find_places, known_messages, places_to_read
from frontdesk.tree.visibility import Visibility


class Appending(Reading, Leases):
    """`append`, as one step."""

    async def append(self, request: Append) -> AppendResult:
        with self._held():
            writes = decide(request, self._facts(request), lambda kind: next(self._numbers))
            self._write(writes, request)
            return writes.result

    def _facts(self, request: Append) -> Facts:
        session = self._get(request.namespace, request.session_id)
        if session is None:
            return Facts(None)
        known, parent = self._look_up(session, request)
        places = [session.head, parent, *(one.place for one in known.values())]
        return Facts(
            session,
            None if session.head is None else self._rows[session.head.segment][session.head.position].message.id,
            {place.segment: self._segments[place.segment] for place in places if place is not None},
            self._turn_of(session),
            known,
            parent,
            self._by_key.get(key_of(session), session.number) == session.number,
        )

    def _look_up(self, session: SessionRow, request: Append) -> tuple[dict[str, Known], Place | None]:
        """The messages that the session sees already, and the place of the given parent."""
        ids = [message.id for message, fresh in zip(request.messages, request.fresh, strict=True) if not fresh]
        wanted = [*ids, request.parent] if isinstance(request.parent, str) else ids
        found = [(id, place) for id in wanted for place in self._ids.get((session.family, id), ())]
        if not found:
            return {}, None
        edits = self._edits_of(session)
        visible = Visibility(session, self._way_up(session, found), edits, self._lines_of([session.tree]))
        places = find_places(visible, found)
        parent = places.get(request.parent) if isinstance(request.parent, str) else None
        known = {id: places[id] for id in ids if id in places}
        wanted_rows = places_to_read(visible, known.values())
        rows = {at: self._rows[at.segment][at.position].message for at in wanted_rows}
        return known_messages(visible, known, rows), parent

    def _way_up(self, session: SessionRow, found: Iterable[tuple[str, Place]]) -> list[SegmentRow]:
        """The segments of some places and of the session's base, and all on the way from them to the root."""
        segments: dict[int, SegmentRow] = {}
        for place in (session.base, *(place for _, place in found)):
            while place is not None and place.segment not in segments:
                segment = segments[place.segment] = self._segments[place.segment]
                place = segment.parent
        return list(segments.values())

    def _write(self, writes: Writes, request: Append) -> None:
        session = writes.result.session
        if writes.result.created:
            self._insert(session)
        for segment in writes.opened:
            self._owned[session.tree].append(segment.number)
        for segment in (*writes.opened, *writes.grown):
            self._segments[segment.number] = segment
        for run in writes.runs:
            for position, (message, running) in enumerate(zip(run.messages, run.running, strict=True), run.first):
                self._rows[run.segment][position] = MessageRow(message, running, session.family)
                self._ids.setdefault((session.family, message.id), []).append(Place(run.segment, position))
        self._sessions[session.number] = session
        if session.key_current:
            self._by_key[key_of(session)] = session.number
        for entry in writes.log:
            self._write_log(session.namespace, session.number, request.now, entry)
        if request.dequeue:
            queued = self._queued.get((session.namespace, session.number, TURN), {})
            for message in request.messages:
                queued.pop(message.id, None)
