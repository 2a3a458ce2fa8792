"""Pure: the plans that replace or remove single messages. They decide what is changed in place (what one session alone
sees) and what is recorded as an edit (what others see, too)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypedDict

from msgspec.structs import replace

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import (
    Columns,
    Counts,
    EditRow,
    NewEdit,
    OverlayRow,
    Place,
    Plan,
    SessionRow,
    Span,
    TreeRows,
    changes,
)
from frontdesk.tree.items import count
from frontdesk.tree.sharing import (
    Guards,
    cut_texts,
    hidden_row,
    is_shared,
    joined,
    other_trees,
    release_guards,
    rows_to_delete,
    sees_alone,
    superseded,
)
from frontdesk.tree.tree import Tree, unknown_view


def touches_others(tree: Tree, places: Sequence[Place]) -> bool:
    """Whether other sessions may see these messages, or an overlay over them."""
    return (
        any(tree.shares(place) for place in places)
        or any(is_shared(tree, overlay) for overlay in tree.covering(places))
        or any(is_shared(tree, edit) for place in places if (edit := tree.replaced.get(place)))
    )


class _Common(TypedDict):
    guards: Guards
    now: int
    mark_overlays: tuple[int, ...]


def replace_message(tree: Tree, place: Place, message: StoredMessage, tokens_before: int, now: int) -> Plan:
    """Give a message another content at its place; overlays made from the old one become stale.

    `tokens_before` are those of the content that the session sees now. Wants the whole family where the change
    `touches_others`.

    Example: segment 1 holds 0..9 of session A, the head is 9, and the tail of the view begins at 4.
    """
    session, segment, others = tree.session, tree.segments[place.segment], other_trees(tree)
    change = message.tokens - tokens_before
    stale, marks = _mark_stale(tree, tree.covering([place]), others)
    common: _Common = {"guards": release_guards(tree, others, [place], ()), "now": now, "mark_overlays": stale}
    if place in tree.replaced or tree.shares(place):
        return _record_replacement(tree, place, message, tokens_before, common, marks)
    # Only this session sees the row: it is changed in place. In the tail (4..9) the view stays as it is except for its
    # tokens. Elsewhere an overlay may end there, or the path may lead past it: the view must be computed again.
    values: Columns = {"updated_at": now}
    add: Counts = {}
    if _in_tail(session, place):
        add["view_tokens"] = change
    else:
        values = {**unknown_view(session.head), "updated_at": now}
    log = (changes.message_updated(place),)
    if place.position == segment.next - 1:
        # The last row (9): no running sum is based on it, so that it is corrected with the row. An append at the same
        # moment would be based on it, so that the head is guarded, too.
        head = session.head if session.head and session.head.segment == place.segment else None
        rows = ((place, message, change),)
        return Plan(**common, set=values, add=add, head=head, add_edits=marks, replace_rows=rows, log=log)
    # A row further up (5): the running sums of all rows from there on would change. They stay, and an edit says what to
    # add to them. It takes the place of an earlier one for the same row (5 grew by 3, and now shrinks by 1: 2).
    earlier = [edit for edit in _own_edits(tree, "adjusted") if (edit.segment, edit.first) == place]
    total = change + sum(edit.tokens for edit in earlier)
    adjusted = NewEdit(kind="adjusted", segment=place.segment, first=place.position, last=place.position, tokens=total)
    return Plan(
        **common,
        set=values,
        add=add,
        add_edits=(*marks, adjusted) if total else marks,
        delete_edits=tuple(edit.number for edit in earlier),
        replace_rows=((place, message, 0),),
        log=log,
    )


def _record_replacement(
    tree: Tree, place: Place, message: StoredMessage, tokens_before: int, common: _Common, marks: tuple[NewEdit, ...]
) -> Plan:
    """The new content goes into an edit: another session may see the row as it is (B was forked at 5, and A replaces
    3), or this one does not see the row any more but an earlier replacement (A replaces 3 again)."""
    old, others = tree.replaced.get(place), other_trees(tree)
    row_tokens = tokens_before - (old.tokens if old else 0)
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
        # An edit is an item of its own in the view, which must be computed again, even in the tail.
        set={**unknown_view(tree.session.head), "updated_at": common["now"]},
        add_edits=(edit, *marks),
        delete_edits=superseded(tree, [place], others),
        # If B, too, has replaced 3, nobody sees what the row says, and it must not stay behind.
        replace_rows=hidden_row(place, others, message) if tree.rows.sessions or not tree.shares(place) else (),
        log=(changes.message_updated(place, adds=0),),
    )


def _in_tail(session: SessionRow, place: Place) -> bool:
    """Whether a place is in the tail of a view that is known."""
    head = session.head
    return (
        session.view != "stale"
        and head is not None
        and place.segment == head.segment
        and session.tail <= place.position <= head.position
    )


def delete_messages(
    tree: Tree,
    places: Sequence[Place],
    now: int,
    ids: Mapping[Place, str] | None = None,
    *,
    drop_overlays: bool = False,
) -> Plan:
    """Remove messages from what the session sees; what followed them stays connected.

    `ids` are those of the messages, if they were not looked up with the tree. With `drop_overlays`, every overlay over
    one of them is deleted. Wants the whole family where the change `touches_others`, so that bytes are deleted as soon
    as nobody sees them.

    Example: segment 1 holds 0..9 of session A, B was forked at 5, and A removed 6 since. One overlay covers 2..4,
    another one 7..8, and the head is 9. Now A deletes 4, 5, 7, 8 and 9.
    """
    session, others = tree.session, other_trees(tree)
    ids = {row.place: row.id for row in tree.rows.found} if ids is None else ids
    runs = list(joined(places))  # 4..5 and 7..9
    grown, merged = _grown(tree, runs)  # 4..6, in place of the edit that removed 6, and 7..9
    after = Tree(_with_removed(tree, runs), session)
    covering = tree.covering(places)
    # Nothing is left of 7..8: that overlay is deleted. Of 2..4 something is left: that one is cut, and ends at 3.
    gone = [row for row in covering if drop_overlays or not count(after.between(row.start, row.end))]
    # The row of an overlay that only A sees is deleted. One that B sees, too, is only gone for A.
    own_gone = {overlay.number for overlay in gone if sees_alone(tree, overlay, others)}
    cut = cut_texts(tree, [overlay for overlay in covering if overlay.number not in own_gone], others)
    marks = _mark_cut(after, [overlay for overlay in covering if overlay not in gone], cut)
    head = after.at_or_before(session.head)  # 3
    values: Columns = {**unknown_view(head), "updated_at": now}
    if head != session.head:
        values["head"] = head
    return Plan(
        guards=release_guards(tree, others, places, covering),
        now=now,
        # An append at the same moment would follow a message that is removed.
        head=session.head if head != session.head else None,
        set=values,
        add={"message_count": -count(runs), "compaction_count": -len(gone)},
        # The rows 7..9, which nobody else sees; 4 and 5 stay for B.
        delete_rows=tuple(rows_to_delete(tree, others, runs)),
        # If B has replaced 4, nobody sees what its row says.
        replace_rows=tuple(row for place in set(places) for row in hidden_row(place, others)),
        # The next append extends the segment after 3, at position 10: positions are not used again.
        set_last=_new_ends(tree, after, {place.segment for place in places}),
        cut_overlays=cut,
        delete_overlays=tuple(own_gone),
        add_edits=(
            *(NewEdit(kind="removed", segment=run.segment, first=run.first, last=run.last) for run in grown),
            *marks,
            *(NewEdit(kind="overlay-gone", overlay=row.number) for row in gone if row.number not in own_gone),
        ),
        delete_edits=(
            *merged,
            *superseded(tree, places, others),
            *(edit.number for edit in tree.rows.edits if edit.overlay in own_gone),
        ),
        log=(*changes.messages_deleted(runs, ids), *map(changes.compaction_removed, gone)),
    )


def _new_ends(tree: Tree, after: Tree, segments: Collection[int]) -> tuple[Place, ...]:
    """The last messages of the segments that end earlier `after` a deletion."""
    owned = (number for number in segments if tree.owns(number))
    return tuple(
        Place(number, after.last_in(number)) for number in owned if after.last_in(number) != tree.last_in(number)
    )


def cuts_summaries(plan: Plan) -> bool:
    """Whether a deletion may hide a summary that has to be made again."""
    return bool(plan.cut_overlays) or any(edit.kind == "overlay-cut" for edit in plan.add_edits)


def _own_edits(tree: Tree, kind: str) -> list[EditRow]:
    """The edits of a kind that this session made and no fork inherited: they may be merged."""
    return [edit for edit in tree.rows.edits if edit.kind == kind and not is_shared(tree, edit)]


def _grown(tree: Tree, runs: Sequence[Span]) -> tuple[list[Span], list[int]]:
    """Removed runs joined with those that were removed next to them, and the edits that they take the place of.

    Example: 6 is removed, and now 4..5 and 7..9 are. The first run grows to 4..6, and the edit of 6 is deleted. The
    second run stays 7..9: an edit is joined with one run only."""
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
    tree: Tree, overlays: Iterable[OverlayRow], others: Sequence[Tree]
) -> tuple[tuple[int, ...], tuple[NewEdit, ...]]:
    """(summaries to be marked in their own row, marks for those that others see): a message of theirs has changed."""
    own: list[int] = []
    marks: list[NewEdit] = []
    for overlay in overlays:
        if overlay.stale or overlay.kind != "summary":
            continue
        if sees_alone(tree, overlay, others):
            own.append(overlay.number)
        else:
            marks.append(NewEdit(kind="overlay-stale", overlay=overlay.number))
    return tuple(own), tuple(marks)


def _mark_cut(after: Tree, overlays: Iterable[OverlayRow], cut: Collection[int]) -> tuple[NewEdit, ...]:
    """Marks for overlays from whose ranges messages are deleted, except for those that are `cut` in their own row. If
    the last message is deleted, an overlay ends at the one before. An edit says so even if nobody else sees it."""
    marks: list[NewEdit] = []
    for overlay in overlays:
        end = after.at_or_before(overlay.end)
        if end is not None and end != overlay.end:
            at = end.position
            marks.append(NewEdit(kind="overlay-cut", overlay=overlay.number, segment=end.segment, first=at, last=at))
        elif overlay.kind == "summary" and overlay.number not in cut:
            marks.append(NewEdit(kind="overlay-cut", overlay=overlay.number))
    return tuple(marks)
