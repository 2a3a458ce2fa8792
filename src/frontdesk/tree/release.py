"""Pure: decides what is deleted when a session releases its whole tree (because it is deleted, or its messages are
cleared): the rows that no other session sees. Separate from `plans`, because it reasons about a whole family.

Example, used below: A appended 0..9 to segment 1. B was forked from A at 5, and appended 0..2 to segment 2. C was
forked from B at 1 of segment 2, and appended 0..3 to segment 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import SEGMENT_SIZE, EditRow, Place, SegmentRow, SessionRow, Span, TreeRows
from frontdesk.tree.sharing import Guards, Witnesses, hidden_row, other_trees, seen_by_none
from frontdesk.tree.tree import Tree

_EVERY_REVISION = 1 << 62


class Released(NamedTuple):
    """What is deleted and changed, in the fields of a `Plan`."""

    delete_segments: tuple[int, ...]
    delete_rows: tuple[Span, ...]
    set_shared: tuple[Place, ...]
    delete_overlays: tuple[int, ...]
    cut_overlays: tuple[int, ...]
    delete_edits: tuple[int, ...]
    replace_rows: tuple[tuple[Place, StoredMessage, int], ...]
    delete_lineage: tuple[int, ...]


def release(rows: TreeRows, leaving: SessionRow) -> Released:
    """What is deleted and changed when one session releases its tree."""
    living = [session for session in rows.sessions if session.number != leaving.number]
    trees = other_trees(Tree(rows, leaving))
    visible, shared = _visible_and_shared(rows.segments, living)
    # No living session sees a message of it: if C goes, segment 3. If A goes, segment 1 stays, since B and C see 0..5.
    dropped = {segment.number for segment in rows.segments if visible[segment.number] < 0}
    overlays = {overlay.number for tree in trees for overlay in tree.overlays}
    summaries = {overlay.number for tree in trees for overlay in tree.overlays if overlay.kind == "summary"}
    replacing = {edit.number for tree in trees for place, edit in tree.replaced.items() if tree.sees(place)}
    inherited, lineage = _inheritance(rows, living)

    def is_kept(edit: EditRow) -> bool:
        # A replacement is kept while a session sees its content.
        if edit.kind == "replaced":
            return edit.number in replacing
        # No living session has an edit that was made after the last fork of a tree whose session goes: A removed 7
        # after B was forked, and now A goes.
        if edit.revision > inherited.get(edit.tree, -1):
            return False
        # What it is about must still be there: a segment, or an overlay that somebody sees.
        return edit.segment not in dropped if edit.overlay is None else edit.overlay in overlays

    edits = [edit for edit in rows.edits if is_kept(edit)]
    replaced = sorted({Place(edit.segment, edit.first) for edit in edits if edit.kind == "replaced"})
    # The end of a segment after what the others see: of A's segment 1, rows 6..9 go with A.
    beyond = [
        Span(segment.number, visible[segment.number] + 1, SEGMENT_SIZE - 1, None)
        for segment in rows.segments
        if segment.number not in dropped and visible[segment.number] < segment.next - 1
    ]
    # B removed 3, so that only A saw it: the row goes with A, while the edit stays, since B needs it.
    removed = [Span(edit.segment, edit.first, edit.last, None) for edit in edits if edit.kind == "removed"]
    return Released(
        delete_segments=tuple(sorted(dropped)),
        delete_rows=(*beyond, *(span for run in removed for span in seen_by_none(trees, run))),
        # B and C shared segment 1 up to 5 with A. If both go, A shares it with nobody, and changes it in place again.
        set_shared=tuple(
            Place(segment.number, shared[segment.number])
            for segment in rows.segments
            if segment.number not in dropped and shared[segment.number] != segment.shared
        ),
        delete_overlays=tuple(row.number for row in rows.overlays if row.number not in overlays),
        # A's summary covers 2..4, and B deleted 3: if A goes, nobody sees the text.
        cut_overlays=tuple(
            row.number
            for row in rows.overlays
            if row.kind == "summary" and row.number in overlays and row.number not in summaries
        ),
        delete_edits=tuple(row.number for row in rows.edits if not is_kept(row)),
        # A saw the row of 4 as it is, B replaced it. If A goes, nobody sees what the row says.
        replace_rows=tuple(row for place in replaced for row in hidden_row(place, trees)),
        # If B goes, its row of lineage stays while C lives: the path from C to A leads through it.
        delete_lineage=tuple(link.tree for link in rows.lineage if link.tree not in lineage),
    )


def release_tree_guards(rows: TreeRows, leaving: SessionRow, released: Released) -> Guards:
    """The session itself, those whose next fork could share again what is no longer shared, and the witnesses.

    No other session needs a guard: what no session sees cannot become visible again, since a fork sees what its source
    sees."""
    owner_of = {segment.number: segment.tree for segment in rows.segments}
    owners = {owner_of[place.segment] for place in released.set_shared}
    guards = {leaving.number: leaving.revision}
    guards |= {other.number: other.revision for other in rows.sessions if other.tree in owners}
    return tuple((guards | dict(_witnesses(rows, leaving))).items())


def _witnesses(rows: TreeRows, leaving: SessionRow) -> Guards:
    """One for each piece of the tree that the session sees and others keep."""
    tree = Tree(rows, leaving)
    others = other_trees(tree)
    witnesses = Witnesses(others)
    # The last message of each segment that another one sees, too: if A goes, somebody who sees 5 of segment 1.
    for number in [segment.number for segment in tree.visible_segments()] if others else ():
        kept = min(tree.reach(number), max(other.reach(number) for other in others))
        if kept >= 0:
            witnesses.of_reach(number, kept)
    for overlay in tree.overlays:
        witnesses.of_overlay(overlay.number)
    for edit in rows.edits:
        # An edit that was inherited is kept for the sessions that inherited it.
        if tree.inherits(edit.tree, edit.revision):
            witnesses.of_inherited(edit.tree, edit.revision)
        # Where some session removed or replaced a message, others need not see it although they reach it.
        if edit.kind in ("removed", "replaced"):
            for position in range(edit.first, edit.last + 1):
                if tree.sees(Place(edit.segment, position)):
                    witnesses.of_message(tree, Place(edit.segment, position))
    # A row of lineage is kept for the sessions whose ancestors it connects: B's for C.
    for link in rows.lineage:
        if tree.inherits(link.tree, 0):
            witnesses.of_inherited(link.tree, 0)
    return witnesses.guards


def _inheritance(rows: TreeRows, living: Sequence[SessionRow]) -> tuple[dict[int, int], set[int]]:
    """Tree -> the last revision of it that any living session sees, and the trees whose lineage leads there."""
    above = {link.tree: link for link in rows.lineage}
    inherited = {session.tree: _EVERY_REVISION for session in living}
    walked: set[int] = set()
    for tree in list(inherited):
        while tree not in walked and (link := above.get(tree)):
            walked.add(tree)
            inherited[link.ancestor] = max(inherited.get(link.ancestor, -1), link.until)
            tree = link.ancestor
    return inherited, walked


def _visible_and_shared(
    segments: Sequence[SegmentRow], living: Sequence[SessionRow]
) -> tuple[dict[int, int], dict[int, int]]:
    """Per segment: the last position that any living session sees, and the last that one besides its owner sees."""
    owners = {session.tree for session in living}
    visible = {segment.number: segment.next - 1 if segment.tree in owners else -1 for segment in segments}
    shared = {segment.number: -1 for segment in segments}
    owner = {segment.number: segment.tree for segment in segments}

    def note(place: Place | None, seen_by: int, *, is_shared: bool) -> None:
        if place is not None:
            number, position = place
            visible[number] = max(visible[number], position)
            if is_shared or owner[number] != seen_by:
                shared[number] = max(shared[number], position)

    for session in living:
        note(session.base, session.tree, is_shared=False)
    # A segment that is seen leads to its parent, which is seen, too. A parent has the lower number, so that in this
    # order all that leads to a segment is known when it is its turn. Where B's segment 2 is shared (with C), so is the
    # way from there to the root, even if B owned all of it.
    for segment in sorted(segments, key=lambda segment: -segment.number):
        if segment.tree in owners or visible[segment.number] >= 0:
            is_shared = shared[segment.number] >= 0 or segment.tree not in owners
            note(segment.parent, segment.tree, is_shared=is_shared)
    return visible, shared
