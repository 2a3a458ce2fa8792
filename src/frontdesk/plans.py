"""Pure: turns a wanted change of a session into the `Plan` that a store applies. Decides what may be changed in place
(what one session alone sees) and what must be recorded as an edit (what others see too).

A plan that changes what is seen leaves the view "stale"; the next reader computes it and hands it back (`settle`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from frontdesk.messages import StoredMessage
from frontdesk.store import (
    EditRow,
    NewEdit,
    NewFork,
    NewOverlay,
    NewSession,
    OverlayRow,
    Place,
    Plan,
    SegmentRow,
    SessionRow,
    Span,
    TreeRows,
    ViewRow,
)
from frontdesk.tree import Tree, View, count, whole_view

EVERYTHING = 1 << 40


def change_row(session: SessionRow, now: int, **values: Any) -> Plan:
    """Set columns of a session's row that have nothing to do with its messages."""
    return Plan(guards=_guard(session), now=now, set={**values, "updated_at": now})


def changed_row(session: SessionRow, plan: Plan) -> SessionRow:
    """The row as it reads once `change_row` is applied."""
    return msgspec.structs.replace(session, revision=session.revision + 1, **plan.set)


def settle(tree: Tree, view: View, tokens: int, messages: int, now: int) -> Plan:
    """Store a view that a change had left to be computed."""
    known = {
        "view": "stored" if view.row.items or view.row.before else "plain",
        "tail": view.tail,
        "view_tokens": tokens,
        "view_messages": messages,
    }
    return Plan(guards=_guard(tree.session), now=now, head=tree.session.head, set=known, view=view.row)


def with_totals(session: SessionRow, tokens: int, messages: int) -> SessionRow:
    """The row as it reads once its view is settled."""
    return msgspec.structs.replace(session, view_tokens=tokens, view_messages=messages)


def switch(tree: Tree, leaf: Place, now: int) -> Plan:
    """Make a message the head."""
    return Plan(guards=_guard(tree.session), now=now, set={"head": leaf, "view": "stale", "updated_at": now})


def fork(tree: Tree, new: NewSession, at: Place | None, now: int) -> Plan:
    """A session that sees the path to `at` as it is now, and shares it."""
    session = tree.session
    path = tree.path(at)
    known = at == session.head and session.view != "stale"
    made = NewFork(
        session=new,
        base=at,
        view=ViewRow(tuple(whole_view(session, tree.rows.view)), at) if known and at else None,
        view_tokens=session.view_tokens if known else 0,
        view_messages=session.view_messages if known else 0,
        message_count=count(tree.lay(at, overlays=False)),
        compaction_count=sum(1 for overlay in tree.overlays if _lies_on(path, overlay)),
        share=tuple(place for place in path if place.position > tree.segments[place.segment].shared),
    )
    return Plan(guards=_guard(session), now=now, fork=made)


def add_overlay(tree: Tree, overlay: NewOverlay, now: int) -> Plan:
    """Lay an overlay over a range."""
    return Plan(
        guards=_guard(tree.session),
        now=now,
        set={"view": "stale", "compacted_at": now, "updated_at": now},
        add={"compaction_count": 1},
        add_overlays=(overlay,),
    )


def remove_overlay(tree: Tree, overlay: OverlayRow, now: int) -> Plan:
    """Take an overlay away; what it covered is seen again."""
    mine = _alone(tree, overlay)
    return Plan(
        guards=_guard(tree.session),
        now=now,
        set={"view": "stale", "updated_at": now},
        add={"compaction_count": -1},
        delete_overlays=(overlay.number,) if mine else (),
        add_edits=() if mine else (NewEdit(kind="overlay-gone", overlay=overlay.number),),
    )


def replace_message(tree: Tree, place: Place, message: StoredMessage, tokens_before: int, now: int) -> Plan:
    """Give a message another content at its place; overlays made from the old one become stale."""
    session, segment = tree.session, tree.segments[place.segment]
    change = message.tokens - tokens_before
    stale, marks = _mark_stale(tree, tree.covering([place]))
    in_tail = session.view != "stale" and session.head is not None and place.segment == session.head.segment
    in_tail = in_tail and place.position >= session.tail
    common: dict[str, Any] = {
        "guards": _guard(session),
        "now": now,
        "set": {"updated_at": now} if in_tail else {"view": "stale", "updated_at": now},
        "add": {"view_tokens": change} if in_tail else {},
        "mark_overlays": stale,
    }
    if not tree.owns(segment.number) or place.position <= segment.shared:
        old = tree.replacement(place)
        row_tokens = tokens_before - (old.tokens if old else 0)
        common["set"]["view"] = "stale"
        edit = NewEdit(
            kind="replaced",
            segment=place.segment,
            first=place.position,
            last=place.position,
            tokens=message.tokens - row_tokens,
            message=message,
        )
        superseded = (old.number,) if old and _alone(tree, old) else ()
        return Plan(**common, add_edits=(*marks, edit), delete_edits=superseded)
    if place.position == segment.next - 1:
        head = session.head if session.head and session.head.segment == place.segment else None
        return Plan(**common, head=head, add_edits=marks, replace_rows=((place, message, change),))
    adjusted = NewEdit(kind="adjusted", segment=place.segment, first=place.position, last=place.position, tokens=change)
    edits = (*marks, adjusted) if change else marks
    return Plan(**common, add_edits=edits, replace_rows=((place, message, 0),))


def delete_messages(tree: Tree, places: Sequence[Place], now: int) -> Plan:
    """Remove messages from what the session sees; what stood after them stays connected.

    Wants the whole family where any of the places is shared, so that bytes go as soon as nobody sees them.
    """
    session = tree.session
    runs = list(_runs(places))
    after = Tree(_with_removed(tree, runs), session)
    gone = [overlay for overlay in tree.covering(places) if not count(after.between(overlay.start, overlay.end))]
    touched = [overlay for overlay in tree.covering(places) if overlay not in gone]
    stale, marks = _mark_stale(tree, touched)
    own_gone = tuple(overlay.number for overlay in gone if _alone(tree, overlay))
    others_gone = [
        NewEdit(kind="overlay-gone", overlay=overlay.number) for overlay in gone if not _alone(tree, overlay)
    ]
    head = after.at_or_before(session.head)
    values: dict[str, Any] = {"view": "stale", "updated_at": now}
    if head != session.head:
        values["head"] = head
    return Plan(
        guards=_guards(tree.rows, session),
        now=now,
        head=session.head if head != session.head else None,
        set=values,
        add={"message_count": -len(places), "compaction_count": -len(gone)},
        delete_rows=tuple(_unseen(after, runs)),
        set_last=tuple(
            Place(number, after.last_in(number))
            for number in {place.segment for place in places}
            if tree.owns(number) and after.last_in(number) != tree.last_in(number)
        ),
        mark_overlays=stale,
        delete_overlays=own_gone,
        add_edits=(
            *(NewEdit(kind="removed", segment=run.segment, first=run.first, last=run.last) for run in runs),
            *marks,
            *others_gone,
        ),
    )


def clear_messages(rows: TreeRows, now: int) -> Plan:
    """Give the session an empty tree and remove what nobody sees any more. Wants the whole family."""
    session = rows.session
    values = {
        "head": None,
        "base": None,
        "tail": 0,
        "view": "plain",
        "view_tokens": 0,
        "view_messages": 0,
        "message_count": 0,
        "compaction_count": 0,
        "updated_at": now,
    }
    return Plan(
        guards=_guards(rows, session), now=now, set=values, view=ViewRow(), fresh_tree=True, **_release(rows, session)
    )


def delete_session(rows: TreeRows, now: int) -> Plan:
    """Remove a session and what nobody else sees. Wants the whole family."""
    session = rows.session
    return Plan(guards=_guards(rows, session), now=now, delete_sessions=(session.number,), **_release(rows, session))


def _release(rows: TreeRows, leaving: SessionRow) -> dict[str, Any]:
    """What goes, and what may be settled in place, when one session lets go of its tree."""
    living = [session for session in rows.sessions if session.number != leaving.number]
    trees = {session.tree: session for session in living}
    visible, shared = _reach_of(rows.segments, living)
    delete_segments = [segment.number for segment in rows.segments if visible[segment.number] < 0]
    dropped = set(delete_segments)
    delete_rows = [
        Span(segment.number, visible[segment.number] + 1, EVERYTHING, None)
        for segment in rows.segments
        if segment.number not in dropped and visible[segment.number] < segment.next - 1
    ]
    inherited: dict[int, int] = {}
    for line in rows.lineage:
        if line.tree in trees:
            inherited[line.ancestor] = max(inherited.get(line.ancestor, -1), line.until)

    def is_seen(tree: int, revision: int) -> bool:
        return tree in trees or revision <= inherited.get(tree, -1)

    overlays = {
        overlay.number: overlay
        for overlay in rows.overlays
        if is_seen(overlay.tree, overlay.revision) and overlay.end.segment not in dropped
    }
    edits = [
        edit
        for edit in rows.edits
        if is_seen(edit.tree, edit.revision)
        and (edit.segment not in dropped if edit.overlay is None else edit.overlay in overlays)
    ]
    views = [Tree(_rest(rows, living, edits, list(overlays.values())), session) for session in living]
    settled = _settled(views, edits)
    superseded = {
        edit.number
        for view in views
        for edit in edits
        if edit.kind == "replaced" and edit.tree == view.session.tree and edit.revision > inherited.get(edit.tree, -1)
        if view.replacement(Place(edit.segment, edit.first)) != edit
    }
    delete_rows += [
        span
        for edit in edits
        if edit.kind == "removed"
        for span in _seen_by_none(views, Span(edit.segment, edit.first, edit.last, None))
    ]
    return {
        "delete_segments": tuple(delete_segments),
        "delete_rows": tuple(delete_rows),
        "set_shared": tuple(
            Place(segment.number, shared[segment.number])
            for segment in rows.segments
            if segment.number not in dropped and shared[segment.number] != segment.shared
        ),
        "delete_overlays": tuple(row.number for row in rows.overlays if row.number not in overlays),
        "delete_edits": tuple(row.number for row in rows.edits if row not in edits or row.number in superseded),
        "replace_rows": tuple(
            (Place(edit.segment, edit.first), edit.message, 0) for edit in settled if edit.message is not None
        ),
        "settle_edits": tuple(edit.number for edit in settled),
        "delete_lineage": (leaving.tree,),
    }


def _reach_of(segments: Sequence[SegmentRow], living: Sequence[SessionRow]) -> tuple[dict[int, int], dict[int, int]]:
    """Per segment: the last position that any living session sees, and the last that one besides its owner sees."""
    owners = {session.tree for session in living}
    visible = {segment.number: segment.next - 1 if segment.tree in owners else -1 for segment in segments}
    shared = {segment.number: -1 for segment in segments}
    owner = {segment.number: segment.tree for segment in segments}

    def seen(place: Place | None, by: int, is_shared: bool) -> None:
        if place is not None:
            number, position = place
            visible[number] = max(visible[number], position)
            if is_shared or owner[number] != by:
                shared[number] = max(shared[number], position)

    for session in living:
        seen(session.base, session.tree, False)
    for segment in sorted(segments, key=lambda segment: -segment.number):
        if segment.tree in owners or visible[segment.number] >= 0:
            seen(segment.parent, segment.tree, shared[segment.number] >= 0 or segment.tree not in owners)
    return visible, shared


def _rest(
    rows: TreeRows, living: Sequence[SessionRow], edits: Sequence[EditRow], overlays: Sequence[OverlayRow]
) -> TreeRows:
    return TreeRows(
        session=rows.session,
        view=rows.view,
        segments=rows.segments,
        overlays=tuple(overlays),
        edits=tuple(edits),
        lineage=rows.lineage,
        forked_until=rows.forked_until,
        sessions=tuple(living),
    )


def _settled(views: Sequence[Tree], edits: Sequence[EditRow]) -> list[EditRow]:
    """Replacements of rows that only the replacing session sees now."""
    settled = []
    for edit in edits:
        place = Place(edit.segment, edit.first)
        if edit.kind == "replaced":
            watchers = [view for view in views if view.sees(place)]
            if len(watchers) == 1 and watchers[0].replacement(place) == edit:
                settled.append(edit)
    return settled


def _unseen(after: Tree, runs: Iterable[Span]) -> Iterable[Span]:
    """The parts of removed runs that no session sees any more."""
    others = [Tree(after.rows, other) for other in after.rows.sessions if other.number != after.session.number]
    for run in runs:
        if others:
            yield from _seen_by_none(others, run)
        elif not after.rows.sessions:
            segment = after.segments[run.segment]
            first = max(run.first, segment.shared + 1) if after.owns(run.segment) else run.last + 1
            if first <= run.last:
                yield Span(run.segment, first, run.last, None)
        else:
            yield run


def _seen_by_none(views: Sequence[Tree], run: Span) -> list[Span]:
    unseen = [
        Place(run.segment, position)
        for position in range(run.first, run.last + 1)
        if not any(view.sees(Place(run.segment, position)) for view in views)
    ]
    return list(_runs(unseen))


def _runs(places: Iterable[Place]) -> Iterable[Span]:
    """Neighbouring places joined."""
    run: Span | None = None
    for place in sorted(set(places)):
        if run and run.segment == place.segment and place.position == run.last + 1:
            run = Span(run.segment, run.first, place.position, None)
            continue
        if run:
            yield run
        run = Span(place.segment, place.position, place.position, None)
    if run:
        yield run


def _with_removed(tree: Tree, runs: Iterable[Span]) -> TreeRows:
    """The rows as they will be once these runs are removed."""
    rows = tree.rows
    removed = tuple(
        EditRow(
            number=0,
            tree=tree.session.tree,
            revision=tree.session.revision + 1,
            kind="removed",
            segment=run.segment,
            first=run.first,
            last=run.last,
        )
        for run in runs
    )
    return TreeRows(
        session=rows.session,
        view=rows.view,
        segments=rows.segments,
        overlays=rows.overlays,
        edits=rows.edits + removed,
        lineage=rows.lineage,
        forked_until=rows.forked_until,
        found=rows.found,
        sessions=rows.sessions,
    )


def _mark_stale(tree: Tree, overlays: Iterable[OverlayRow]) -> tuple[tuple[int, ...], tuple[NewEdit, ...]]:
    """(overlays to be marked in their own row, marks for those that others see)."""
    fresh = [overlay for overlay in overlays if not overlay.stale]
    own = tuple(overlay.number for overlay in fresh if _alone(tree, overlay))
    marks = tuple(
        NewEdit(kind="overlay-stale", overlay=overlay.number) for overlay in fresh if not _alone(tree, overlay)
    )
    return own, marks


def _alone(tree: Tree, row: OverlayRow | EditRow) -> bool:
    """Whether only this session sees an overlay or an edit."""
    return row.tree == tree.session.tree and row.revision > tree.rows.forked_until


def _lies_on(path: Sequence[Place], overlay: OverlayRow) -> bool:
    ends = {place.segment: place.position for place in path}
    return all(end.position <= ends.get(end.segment, -1) for end in (overlay.start, overlay.end))


def _guard(session: SessionRow) -> tuple[tuple[int, int], ...]:
    return ((session.number, session.revision),)


def _guards(rows: TreeRows, session: SessionRow) -> tuple[tuple[int, int], ...]:
    others = [(other.number, other.revision) for other in rows.sessions if other.number != session.number]
    return (*_guard(session), *others)
