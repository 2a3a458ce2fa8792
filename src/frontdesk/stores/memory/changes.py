"""Applying plans to the memory store: all of a plan, or nothing."""

from __future__ import annotations

from msgspec.structs import replace

from frontdesk.store import (
    SEGMENT_SIZE,
    Address,
    EditRow,
    Lineage,
    NewFork,
    OverlayRow,
    Place,
    Plan,
    SessionRow,
    Span,
)
from frontdesk.stores.memory.documents import Documents
from frontdesk.stores.memory.leases import Leases
from frontdesk.stores.memory.rows import MessageRow, key_of
from frontdesk.stores.memory.states import States
from frontdesk.stores.memory.vectors import Vectors
from frontdesk.tree import guards
from frontdesk.tree.sessions import fork_row, new_row


class Changes(Documents, Leases, States, Vectors):
    """`apply`."""

    async def apply(self, plan: Plan) -> bool:
        with self._held():
            rows = [self._sessions.get(number) for number, _ in plan.guards]
            session = guards.check(plan, rows, None if rows[0] is None else self._turn_of(rows[0]))
            if session is None:
                return False
            for new in guards.made_by(plan):
                guards.check_free(plan, session, new, self._taken(new))
            self._change(session, plan)
            return True

    def _change(self, session: SessionRow, plan: Plan) -> None:
        revision = session.revision + 1
        overlays: list[int] = []
        edits: list[int] = []
        self._change_rows(session, plan)
        for overlay in plan.add_overlays:
            number = next(self._numbers)
            given = {name: getattr(overlay, name) for name in overlay.__struct_fields__}
            self._overlays[number] = OverlayRow(number=number, tree=session.tree, revision=revision, **given)
            self._overlays_of[session.tree][number] = None
            overlays.append(number)
        for number in plan.mark_overlays:
            self._overlays[number] = replace(self._overlays[number], stale=True)
        for edit in plan.add_edits:
            number = next(self._numbers)
            given = {name: getattr(edit, name) for name in edit.__struct_fields__}
            self._edits[number] = EditRow(number=number, tree=session.tree, revision=revision, **given)
            self._edits_of_tree[session.tree][number] = None
            edits.append(number)
        for number in plan.delete_overlays:
            del self._overlays_of[self._overlays.pop(number).tree][number]
            self._unindex(session, Address("overlay", number))
        for number in plan.delete_edits:
            del self._edits_of_tree[self._edits.pop(number).tree][number]
            self._unindex(session, Address("edit", number))
        for tree in plan.delete_lineage:
            del self._forks_of[self._lineage.pop(tree).ancestor][tree]
        values = {**plan.set, **{name: getattr(session, name) + amount for name, amount in plan.add.items()}}
        if plan.take_key and session.agent is not None:
            values["key_current"] = self._by_key.get(key_of(session), session.number) == session.number
        if plan.fresh_tree:
            values["tree"] = next(self._numbers)
        if "name" in plan.set or "summary" in plan.set:
            self._unindex(session, Address("session", session.number))
        changed = self._sessions[session.number] = replace(session, revision=revision, **values)
        if session.key_current and not changed.key_current:
            self._by_key.pop(key_of(session), None)
        elif changed.key_current:
            self._by_key[key_of(changed)] = changed.number
        for line in plan.log:
            added = 0
            if line.adds is not None:
                added = (overlays if line.kind == "compaction.added" else edits)[line.adds]
            self._write_log(session.namespace, session.number, plan.now, line, added)
        if plan.fork is not None:
            self._fork(session, plan.fork, revision)
        if plan.create is not None:
            self._insert(new_row(plan.create, next(self._numbers)))
        if plan.view is not None:
            self._views[session.number] = plan.view
        if plan.drop_prompt:
            self._drop_prompt(session.number)
        for number in plan.delete_sessions:
            self._forget(self._sessions.pop(number))
            self._unindex(session, Address("session", number))
        self._forget_vectors(session.namespace, plan)

    def _change_rows(self, session: SessionRow, plan: Plan) -> None:
        for place, message, change in plan.replace_rows:
            row = self._rows[place.segment][place.position]
            self._rows[place.segment][place.position] = MessageRow(message, row.running + change, row.family)
            self._unindex(session, Address("message", *place))
            segment = self._segments[place.segment]
            self._segments[place.segment] = replace(segment, tokens=segment.tokens + change)
        for span in plan.delete_rows:
            self._delete_rows(session, span)
        for number, last in plan.set_last:
            self._segments[number] = replace(self._segments[number], last=last)
        for number, shared in plan.set_shared:
            self._segments[number] = replace(self._segments[number], shared=shared)
        for number in plan.delete_segments:
            self._delete_rows(session, Span(number, 0, SEGMENT_SIZE, None))
            self._owned[self._segments.pop(number).tree].remove(number)
            self._rows.pop(number, None)

    def _unindex(self, session: SessionRow, address: Address) -> None:
        if session.namespace in self._indexes:
            self._indexes[session.namespace].drop(address)

    def _delete_rows(self, session: SessionRow, span: Span) -> None:
        rows = self._rows.get(span.segment, {})
        for position in [position for position in rows if span.first <= position <= span.last]:
            key = session.family, rows.pop(position).message.id
            self._unindex(session, Address("message", span.segment, position))
            self._ids[key].remove(Place(span.segment, position))
            if not self._ids[key]:
                del self._ids[key]

    def _fork(self, source: SessionRow, fork: NewFork, revision: int) -> None:
        row = self._insert(fork_row(fork, source, next(self._numbers)))
        if fork.view is not None:
            self._views[row.number] = fork.view
        self._lineage[row.tree] = Lineage(row.tree, source.tree, revision)
        self._forks_of[source.tree][row.tree] = revision
        for number, position in fork.share:
            segment = self._segments[number]
            self._segments[number] = replace(segment, shared=max(segment.shared, position))
        self._copy_documents(source, row)

    def _forget(self, row: SessionRow) -> None:
        del self._by_id[row.namespace, row.id]
        if row.key_current:
            self._by_key.pop(key_of(row), None)
        self._by_family[row.family].discard(row.number)
        self._views.pop(row.number, None)
        self._ledger.pop(row.number, None)
        self._forget_documents(row)
        self._forget_log(row)
        self._states.pop((row.namespace, row.id), None)
        for table in (self._leases, self._waiters, self._queued):
            for key in [key for key in table if key[1] == row.number]:
                del table[key]
