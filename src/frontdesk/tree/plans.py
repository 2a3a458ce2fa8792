"""Pure: turns a wanted change of a session into the `Plan` that a store applies. Decides what may be changed in place
(what one session alone sees) and what must be recorded as an edit (what others see too).

A plan that changes what is seen leaves the view "stale"; the next reader computes it and hands it back (`settle`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from frontdesk.messages import StoredMessage
from frontdesk.store import (
    EditRow,
    NewEdit,
    NewOverlay,
    OverlayRow,
    Place,
    Plan,
    SessionRow,
    Span,
    TreeRows,
    ViewRow,
    changes,
)
from frontdesk.tree.forks import with_path_known
from frontdesk.tree.items import count
from frontdesk.tree.release import Guards, Witnesses, hidden_row, joined, release, release_guards, seen_by_none
from frontdesk.tree.tree import Tree, View


def change_row(session: SessionRow, now: int, **values: Any) -> Plan:
    """Set columns of a session's row that have nothing to do with its messages."""
    return Plan(
        guards=_guard(session), now=now, set={**values, "updated_at": now}, log=(changes.session_changed(values),)
    )


def changed_row(session: SessionRow, plan: Plan) -> SessionRow:
    """The row as it reads once `change_row` is applied."""
    return replace(session, revision=session.revision + 1, **plan.set)


def settle(tree: Tree, view: View, tokens: int, messages: int, now: int) -> Plan:
    """Store a view that a change had left to be computed."""
    known = {
        "view": "stored" if view.row.items or view.row.before else "plain",
        "tail": view.tail,
        "view_tokens": tokens,
        "view_messages": messages,
    }
    row = with_path_known(tree, view.row)
    return Plan(guards=_guard(tree.session), now=now, head=tree.session.head, set=known, view=row)


def with_totals(session: SessionRow, tokens: int, messages: int) -> SessionRow:
    """The row as it reads once its view is settled."""
    return replace(session, view_tokens=tokens, view_messages=messages)


def reset(tree: Tree, overlay: NewOverlay, now: int) -> Plan:
    """Hide a range for a new beginning: prompt and blocks stay, and it does not count as a compaction made."""
    plan = add_overlay(tree, overlay, now)
    kept = {name: value for name, value in plan.set.items() if name != "compacted_at"}
    return replace(plan, set=kept, drop_prompt=False)


def switch(tree: Tree, leaf: Place, now: int) -> Plan:
    """Make a message the head."""
    values = {"head": leaf, "view": "stale", "updated_at": now}
    return Plan(guards=_guard(tree.session), now=now, set=values, log=(changes.head_moved(leaf),))


def add_overlay(tree: Tree, overlay: NewOverlay, now: int) -> Plan:
    """Lay an overlay over a range."""
    return Plan(
        guards=_guard(tree.session),
        now=now,
        set={**_unknown_view(tree.session.head), "compacted_at": now, "updated_at": now},
        add={"compaction_count": 1},
        add_overlays=(overlay,),
        drop_prompt=True,
        log=(changes.compaction_added(overlay.id, overlay.kind),),
    )


def remove_overlay(tree: Tree, overlay: OverlayRow, now: int) -> Plan:
    """Take an overlay away; what it covered is seen again. Wants the whole family where others may see the overlay."""
    others = _others(tree)
    mine = _alone(tree, overlay, others)
    return Plan(
        guards=_guards_letting_go(tree, others, (), [overlay]),
        now=now,
        set={**_unknown_view(tree.session.head), "updated_at": now},
        add={"compaction_count": -1},
        delete_overlays=(overlay.number,) if mine else (),
        add_edits=() if mine else (NewEdit(kind="overlay-gone", overlay=overlay.number),),
        delete_edits=tuple(edit.number for edit in tree.rows.edits if mine and edit.overlay == overlay.number),
        log=(changes.compaction_removed(overlay),),
    )


def replace_message(tree: Tree, place: Place, message: StoredMessage, tokens_before: int, now: int) -> Plan:
    """Give a message another content at its place; overlays made from the old one become stale.

    Wants the whole family where the change `touches_others`.
    """
    session, segment, others = tree.session, tree.segments[place.segment], _others(tree)
    change = message.tokens - tokens_before
    stale, marks = _mark_stale(tree, tree, tree.covering([place]), others)
    in_tail = session.view != "stale" and session.head is not None and place.segment == session.head.segment
    in_tail = in_tail and session.head is not None and session.tail <= place.position <= session.head.position
    common: dict[str, Any] = {
        "guards": _guards_letting_go(tree, others, [place], ()),
        "now": now,
        "set": {"updated_at": now} if in_tail else {**_unknown_view(session.head), "updated_at": now},
        "add": {"view_tokens": change} if in_tail else {},
        "mark_overlays": stale,
        "log": (changes.message_updated(place),),
    }
    old = tree.replaced.get(place)
    if old or tree.shares(place):
        row_tokens = tokens_before - (old.tokens if old else 0)
        common["set"] |= _unknown_view(session.head)
        common["log"] = (changes.message_updated(place, adds=0),)
        edit = NewEdit(
            kind="replaced",
            segment=place.segment,
            first=place.position,
            last=place.position,
            tokens=message.tokens - row_tokens,
            message=message,
        )
        return Plan(
            **common,
            add_edits=(edit, *marks),
            delete_edits=_superseded(tree, [place], others),
            replace_rows=hidden_row(place, others, message) if tree.rows.sessions or not tree.shares(place) else (),
        )
    if place.position == segment.next - 1:
        head = session.head if session.head and session.head.segment == place.segment else None
        return Plan(**common, head=head, add_edits=marks, replace_rows=((place, message, change),))
    before = [edit for edit in _own_edits(tree, "adjusted") if (edit.segment, edit.first) == place]
    total = change + sum(edit.tokens for edit in before)
    adjusted = NewEdit(kind="adjusted", segment=place.segment, first=place.position, last=place.position, tokens=total)
    return Plan(
        **common,
        add_edits=(*marks, adjusted) if total else marks,
        delete_edits=tuple(edit.number for edit in before),
        replace_rows=((place, message, 0),),
    )


def _own_edits(tree: Tree, kind: str) -> list[EditRow]:
    """The edits of a kind that this session made and no fork inherited: they may be merged."""
    return [edit for edit in tree.rows.edits if edit.kind == kind and not is_shared(tree, edit)]


def _grown(tree: Tree, runs: Sequence[Span]) -> tuple[list[Span], list[int]]:
    """Removed runs joined with those beside them, and the edits that they take the place of."""
    grown: list[Span] = []
    merged: list[int] = []
    earlier = _own_edits(tree, "removed")
    ends = {(edit.segment, edit.last): edit for edit in earlier}
    starts = {(edit.segment, edit.first): edit for edit in earlier}
    for run in runs:
        first, last = run.first, run.last
        if (left := ends.pop((run.segment, first - 1), None)) is not None:
            first = left.first
            merged.append(left.number)
        if (right := starts.get((run.segment, last + 1))) is not None:
            last = right.last
            merged.append(right.number)
            ends.pop((right.segment, right.last), None)
        grown.append(Span(run.segment, first, last, None))
    return grown, merged


def touches_others(tree: Tree, places: Sequence[Place]) -> bool:
    """Whether other sessions may see these messages, or an overlay over them."""
    return (
        any(tree.shares(place) for place in places)
        or any(is_shared(tree, overlay) for overlay in tree.covering(places))
        or any(is_shared(tree, edit) for place in places if (edit := tree.replaced.get(place)))
    )


def is_shared(tree: Tree, row: OverlayRow | EditRow) -> bool:
    """Whether other sessions may see an overlay or an edit."""
    return row.tree != tree.session.tree or row.revision <= tree.rows.forked_until


def delete_messages(tree: Tree, places: Sequence[Place], now: int) -> Plan:
    """Remove messages from what the session sees; what stood after them stays connected.

    Wants the whole family where the change `touches_others`, so that bytes go as soon as nobody sees them.
    """
    session, others = tree.session, _others(tree)
    runs = list(joined(places))
    grown, merged = _grown(tree, runs)
    after = Tree(_with_removed(tree, runs), session)
    covering = tree.covering(places)
    gone = [overlay for overlay in covering if not count(after.between(overlay.start, overlay.end))]
    stale, marks = _mark_stale(tree, after, [overlay for overlay in covering if overlay not in gone], others)
    own_gone = {overlay.number for overlay in gone if _alone(tree, overlay, others)}
    head = after.at_or_before(session.head)
    values: dict[str, Any] = {**_unknown_view(head), "updated_at": now}
    if head != session.head:
        values["head"] = head
    return Plan(
        guards=_guards_letting_go(tree, others, places, gone),
        now=now,
        head=session.head if head != session.head else None,
        set=values,
        add={"message_count": -count(runs), "compaction_count": -len(gone)},
        delete_rows=tuple(_unseen(tree, others, runs)),
        replace_rows=tuple(row for place in set(places) for row in hidden_row(place, others)),
        set_last=tuple(
            Place(number, after.last_in(number))
            for number in {place.segment for place in places}
            if tree.owns(number) and after.last_in(number) != tree.last_in(number)
        ),
        mark_overlays=stale,
        delete_overlays=tuple(own_gone),
        add_edits=(
            *(NewEdit(kind="removed", segment=run.segment, first=run.first, last=run.last) for run in grown),
            *marks,
            *(NewEdit(kind="overlay-gone", overlay=row.number) for row in gone if row.number not in own_gone),
        ),
        delete_edits=(
            *merged,
            *_superseded(tree, places, others),
            *(edit.number for edit in tree.rows.edits if edit.overlay in own_gone),
        ),
        log=(*changes.messages_deleted(runs, tree.rows.found), *map(changes.compaction_removed, gone)),
    )


def clear_messages(rows: TreeRows, now: int) -> Plan:
    """Give the session an empty tree and remove what nobody sees any more. Wants the whole family."""
    session = rows.session
    values = {
        **_unknown_view(None),
        "head": None,
        "base": None,
        "message_count": 0,
        "compaction_count": 0,
        "updated_at": now,
    }
    released = release(rows, session)
    return Plan(
        guards=release_guards(rows, session, released),
        now=now,
        set=values,
        view=ViewRow(),
        fresh_tree=True,
        drop_prompt=True,
        log=(changes.messages_cleared(),),
        **released,
    )


def delete_session(rows: TreeRows, now: int) -> Plan:
    """Remove a session and what nobody else sees. Wants the whole family."""
    session = rows.session
    released = release(rows, session)
    guards = release_guards(rows, session, released)
    log = (changes.session_deleted(session.id),)
    return Plan(guards=guards, now=now, delete_sessions=(session.number,), log=log, **released)


def erase_session(rows: TreeRows, now: int) -> Plan:
    """The same, and what is told of it does not say which it was."""
    return replace(delete_session(rows, now), log=(changes.session_erased(),))


def descendants(rows: TreeRows) -> list[SessionRow]:
    """The sessions that were forked from this one, directly or through others. Wants the whole family."""
    above = {line.tree: line.ancestor for line in rows.lineage}

    def stems(tree: int | None) -> bool:
        while tree is not None and tree != rows.session.tree:
            tree = above.get(tree)
        return tree is not None

    return [session for session in rows.sessions if session.number != rows.session.number and stems(session.tree)]


def _superseded(tree: Tree, places: Iterable[Place], others: Sequence[Tree]) -> tuple[int, ...]:
    """The replacements at these places that no session sees once this one has let go of its own."""

    def is_seen(edit: EditRow, place: Place) -> bool:
        if not tree.rows.sessions:
            return is_shared(tree, edit)
        return any(other.replaced.get(place) == edit and other.sees(place) for other in others)

    wanted = set(places)
    replaced = ((edit, Place(edit.segment, edit.first)) for edit in tree.rows.edits if edit.kind == "replaced")
    return tuple(edit.number for edit, place in replaced if place in wanted and not is_seen(edit, place))


def _unseen(tree: Tree, others: Sequence[Tree], runs: Iterable[Span]) -> Iterable[Span]:
    """The parts of removed runs that no other session sees."""
    for run in runs:
        if tree.rows.sessions:
            yield from seen_by_none(others, run)
        elif tree.owns(run.segment):
            first = max(run.first, tree.segments[run.segment].shared + 1)
            if first <= run.last:
                yield Span(run.segment, first, run.last, None)


def _with_removed(tree: Tree, runs: Iterable[Span]) -> TreeRows:
    """The rows as they will be once these runs are removed."""
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
    return replace(tree.rows, edits=tree.rows.edits + removed)


def _mark_stale(
    tree: Tree, after: Tree, overlays: Iterable[OverlayRow], others: Sequence[Tree]
) -> tuple[tuple[int, ...], tuple[NewEdit, ...]]:
    """(overlays to be marked in their own row, marks for those that others see or that lose their last message)."""
    own: list[int] = []
    marks: list[NewEdit] = []
    for overlay in overlays:
        end = after.at_or_before(overlay.end)
        if end is not None and end != overlay.end:
            marks.append(
                NewEdit(
                    kind="overlay-stale",
                    overlay=overlay.number,
                    segment=end.segment,
                    first=end.position,
                    last=end.position,
                )
            )
        elif overlay.stale:
            continue
        elif _alone(tree, overlay, others):
            own.append(overlay.number)
        else:
            marks.append(NewEdit(kind="overlay-stale", overlay=overlay.number))
    return tuple(own), tuple(marks)


def _others(tree: Tree) -> list[Tree]:
    """What the other sessions see, if the whole family was loaded."""
    return [Tree(tree.rows, other) for other in tree.rows.sessions if other.number != tree.session.number]


def _alone(tree: Tree, overlay: OverlayRow, others: Sequence[Tree]) -> bool:
    """Whether only this session sees an overlay."""
    if not tree.rows.sessions:
        return not is_shared(tree, overlay)
    return not any(overlay.number == seen.number for other in others for seen in other.overlays)


def _unknown_view(head: Place | None) -> dict[str, Any]:
    """What a row says of a view that has changed; without a head there is nothing to compute."""
    if head is not None:
        return {"view": "stale"}
    return {"view": "plain", "tail": 0, "view_tokens": 0, "view_messages": 0}


def _guard(session: SessionRow) -> Guards:
    return ((session.number, session.revision),)


def _guards_letting_go(
    tree: Tree, others: Sequence[Tree], places: Iterable[Place], overlays: Iterable[OverlayRow]
) -> Guards:
    """The session, and witnesses of what is left to others."""
    witnesses = Witnesses(others)
    for place in places:
        witnesses.of_message(tree, place)
    for overlay in overlays:
        witnesses.of_overlay(overlay.number)
    return (*_guard(tree.session), *witnesses.guards)
