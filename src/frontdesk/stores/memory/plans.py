"""Applying plans to the memory store: all of a plan, or nothing."""

from __future__ import annotations

from msgspec.structs import asdict, replace

from frontdesk.store import SEGMENT_SIZE, EditRow, Lineage, NewFork, OverlayRow, Place, Plan, SessionRow, Span
from frontdesk.stores.memory import append, documents, index, leases, log, sessions, vectors
from frontdesk.stores.memory.rows import MessageRow, Rows, key_of
from frontdesk.tree import guards
from frontdesk.tree.sessions import fork_row, new_row
from frontdesk.tree.texts import removed_texts


def apply(rows: Rows, plan: Plan) -> bool:
    guarded = [rows.sessions.get(number) for number, _ in plan.guards]
    session = guards.check(plan, guarded, None if guarded[0] is None else leases.turn_of(rows, guarded[0]))
    if session is None:
        return False
    for new in guards.made_by(plan):
        guards.check_free(plan, session, new, sessions.taken(rows, new))
    revision = session.revision + 1
    _change_messages(rows, session, plan)
    overlays = _change_overlays(rows, session, plan, revision)
    edits = _change_edits(rows, session, plan, revision)
    for tree in plan.delete_lineage:
        del rows.forks_of[rows.lineage.pop(tree).ancestor][tree]
    _change_session(rows, session, plan, revision)
    for entry in plan.log:
        added = overlays if entry.kind == "compaction.added" else edits
        number = 0 if entry.adds is None else added[entry.adds]
        log.write(rows, session.namespace, session.number, plan.now, entry, number)
    made = None
    if plan.fork is not None:
        made = _fork(rows, session, plan.fork, revision)
    if plan.create is not None:
        made = sessions.insert(rows, new_row(plan.create, next(rows.numbers)))
    if plan.hand_over is not None and made is not None:
        leases.hand_over(rows, session.namespace, session.number, made.number)
        documents.copy_labels(rows, session, made, plan.hand_over)
    if plan.view is not None:
        rows.views[session.number] = plan.view
    if plan.drop_prompt:
        documents.drop(rows, session.number)
    for number in plan.delete_sessions:
        _forget(rows, rows.sessions.pop(number))
    removed = removed_texts(plan)
    index.forget(rows, session.namespace, removed)
    vectors.forget(rows, session.namespace, removed)
    if plan.append is not None:
        append.append(rows, plan.append)
    return True


def _change_messages(rows: Rows, session: SessionRow, plan: Plan) -> None:
    for place, message, change in plan.replace_rows:
        row = rows.messages[place.segment][place.position]
        rows.messages[place.segment][place.position] = MessageRow(message, row.running + change, row.family)
        segment = rows.segments[place.segment]
        rows.segments[place.segment] = replace(segment, tokens=segment.tokens + change)
    for span in plan.delete_rows:
        _delete_messages(rows, session, span)
    for number, last in plan.set_last:
        rows.segments[number] = replace(rows.segments[number], last=last)
    for number, shared in plan.set_shared:
        rows.segments[number] = replace(rows.segments[number], shared=shared)
    for number in plan.delete_segments:
        _delete_messages(rows, session, Span(number, 0, SEGMENT_SIZE, None))
        rows.segments_of[rows.segments.pop(number).tree].remove(number)
        rows.messages.pop(number, None)


def _delete_messages(rows: Rows, session: SessionRow, span: Span) -> None:
    stored = rows.messages.get(span.segment, {})
    for position in [position for position in stored if span.first <= position <= span.last]:
        key = session.family, stored.pop(position).message.id
        rows.places[key].remove(Place(span.segment, position))
        if not rows.places[key]:
            del rows.places[key]


def _change_overlays(rows: Rows, session: SessionRow, plan: Plan, revision: int) -> list[int]:
    """Returns the numbers of those that were added."""
    added = []
    for overlay in plan.add_overlays:
        number = next(rows.numbers)
        rows.overlays[number] = OverlayRow(number=number, tree=session.tree, revision=revision, **asdict(overlay))
        rows.overlays_of[session.tree][number] = None
        added.append(number)
    for number in plan.mark_overlays:
        rows.overlays[number] = replace(rows.overlays[number], stale=True)
    for number in plan.cut_overlays:
        rows.overlays[number] = rows.overlays[number].cut()
    for number in plan.delete_overlays:
        del rows.overlays_of[rows.overlays.pop(number).tree][number]
    return added


def _change_edits(rows: Rows, session: SessionRow, plan: Plan, revision: int) -> list[int]:
    """Returns the numbers of those that were added."""
    added = []
    for edit in plan.add_edits:
        number = next(rows.numbers)
        rows.edits[number] = EditRow(number=number, tree=session.tree, revision=revision, **asdict(edit))
        rows.edits_of[session.tree][number] = None
        added.append(number)
    for number in plan.delete_edits:
        del rows.edits_of[rows.edits.pop(number).tree][number]
    return added


def _change_session(rows: Rows, session: SessionRow, plan: Plan, revision: int) -> None:
    changed = replace(session, revision=revision, **guards.new_values(plan, session))
    if plan.take_key and session.agent is not None:
        changed = replace(changed, key_current=sessions.may_take_key(rows, session))
    if plan.fresh_tree:
        changed = replace(changed, tree=next(rows.numbers))
    sessions.put(rows, changed)


def _fork(rows: Rows, source: SessionRow, fork: NewFork, revision: int) -> SessionRow:
    row = sessions.insert(rows, fork_row(fork, source, next(rows.numbers)))
    if fork.view is not None:
        rows.views[row.number] = fork.view
    rows.lineage[row.tree] = Lineage(row.tree, source.tree, revision)
    rows.forks_of[source.tree][row.tree] = revision
    for number, position in fork.share:
        segment = rows.segments[number]
        rows.segments[number] = replace(segment, shared=max(segment.shared, position))
    documents.copy(rows, source, row, fork.documents)
    return row


def _forget(rows: Rows, row: SessionRow) -> None:
    """Remove what is kept for a session that was just deleted."""
    del rows.by_id[row.namespace, row.id]
    if row.key_current:
        rows.by_key.pop(key_of(row), None)
    rows.by_family[row.family].discard(row.number)
    rows.views.pop(row.number, None)
    rows.usage.pop(row.number, None)
    documents.forget(rows, row.number)
    log.forget(rows, row)
    rows.states.delete_all(row.namespace, row.id)
    for table in (rows.leases, rows.waiters, rows.queued):
        for key in [key for key in table if key[1] == row.number]:
            del table[key]
