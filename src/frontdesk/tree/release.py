"""Pure: what goes when a session lets go of messages, because nobody else sees it. Apart from `plans`, because it
reasons about a whole family.

What stays, stays for the sake of others, who may be letting go of it at the same moment. So a plan guards a *witness*
for each such thing, one session that sees it: of two that count on each other, only one gets its way, and the other
looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from frontdesk.messages import StoredMessage
from frontdesk.store import SEGMENT_SIZE, EditRow, Place, SegmentRow, SessionRow, Span, TreeRows
from frontdesk.tree.tree import Tree

Guards = tuple[tuple[int, int], ...]

_SEEN_FOR_EVER = 1 << 62


class Witnesses:
    """Other sessions, few, that see what one lets go of and what is kept for them."""

    def __init__(self, others: Sequence[Tree]) -> None:
        self._others = others
        self._chosen: list[Tree] = []

    def of(self, sees: Callable[[Tree], bool]) -> None:
        """Choose one that sees something, unless one of those chosen does, or nobody."""
        if not any(sees(view) for view in self._chosen):
            self._chosen += next(([view] for view in self._others if sees(view)), [])

    def of_message(self, leaving: Tree, place: Place) -> None:
        """The same for a message, and for the content that the leaving session sees in it."""
        shown = leaving.replaced.get(place)
        self.of(lambda view: view.sees(place))
        self.of(lambda view: view.sees(place) and view.replaced.get(place) == shown)

    def of_overlay(self, number: int) -> None:
        self.of(lambda view: any(overlay.number == number for overlay in view.overlays))

    def of_reach(self, segment: int, position: int) -> None:
        self.of(lambda view: view.reach(segment) >= position)

    def of_inherited(self, tree: int, revision: int) -> None:
        self.of(lambda view: view.inherits(tree, revision))

    @property
    def guards(self) -> Guards:
        return tuple((view.session.number, view.session.revision) for view in self._chosen)


def release(rows: TreeRows, leaving: SessionRow) -> dict[str, Any]:
    """What goes when one session lets go of its tree, as values of a `Plan`."""
    living = [session for session in rows.sessions if session.number != leaving.number]
    views = [Tree(rows, session) for session in living]
    visible, shared = _reach_of(rows.segments, living)
    dropped = {segment.number for segment in rows.segments if visible[segment.number] < 0}
    overlays = {overlay.number for view in views for overlay in view.overlays}
    replacing = {edit.number for view in views for place, edit in view.replaced.items() if view.sees(place)}
    inherited, lines = _inheritance(rows, living)

    def is_kept(edit: EditRow) -> bool:
        if edit.kind == "replaced":
            return edit.number in replacing
        if edit.revision > inherited.get(edit.tree, -1):
            return False
        return edit.segment not in dropped if edit.overlay is None else edit.overlay in overlays

    edits = [edit for edit in rows.edits if is_kept(edit)]
    replaced = sorted({Place(edit.segment, edit.first) for edit in edits if edit.kind == "replaced"})
    beyond = [
        Span(segment.number, visible[segment.number] + 1, SEGMENT_SIZE - 1, None)
        for segment in rows.segments
        if segment.number not in dropped and visible[segment.number] < segment.next - 1
    ]
    removed = [Span(edit.segment, edit.first, edit.last, None) for edit in edits if edit.kind == "removed"]
    return {
        "delete_segments": tuple(sorted(dropped)),
        "delete_rows": (*beyond, *(span for run in removed for span in seen_by_none(views, run))),
        "set_shared": tuple(
            Place(segment.number, shared[segment.number])
            for segment in rows.segments
            if segment.number not in dropped and shared[segment.number] != segment.shared
        ),
        "delete_overlays": tuple(row.number for row in rows.overlays if row.number not in overlays),
        "delete_edits": tuple(row.number for row in rows.edits if not is_kept(row)),
        "replace_rows": tuple(row for place in replaced for row in hidden_row(place, views)),
        "delete_lineage": tuple(line.tree for line in rows.lineage if line.tree not in lines),
    }


def release_guards(rows: TreeRows, leaving: SessionRow, released: dict[str, Any]) -> Guards:
    """The session itself, those whose next fork could share again what is shared no more, and the witnesses.

    No other session needs one: what nobody sees can be seen again by nobody, for a fork sees what its source saw."""
    trees = {segment.number: segment.tree for segment in rows.segments}
    owners = {trees[place.segment] for place in released["set_shared"]}
    guards = {leaving.number: leaving.revision}
    guards |= {other.number: other.revision for other in rows.sessions if other.tree in owners}
    return tuple((guards | dict(_witnesses(rows, leaving))).items())


def _witnesses(rows: TreeRows, leaving: SessionRow) -> Guards:
    """One for each piece of the tree that the session sees and others keep."""
    view = Tree(rows, leaving)
    others = [Tree(rows, session) for session in rows.sessions if session.number != leaving.number]
    witnesses = Witnesses(others)
    for number in [segment.number for segment in view.visible_segments()] if others else ():
        kept = min(view.reach(number), max(other.reach(number) for other in others))
        if kept >= 0:
            witnesses.of_reach(number, kept)
    for overlay in view.overlays:
        witnesses.of_overlay(overlay.number)
    for edit in rows.edits:
        if view.inherits(edit.tree, edit.revision):
            witnesses.of_inherited(edit.tree, edit.revision)
        if edit.kind in ("removed", "replaced"):
            for position in range(edit.first, edit.last + 1):
                if view.sees(Place(edit.segment, position)):
                    witnesses.of_message(view, Place(edit.segment, position))
    for line in rows.lineage:
        if view.inherits(line.tree, 0):
            witnesses.of_inherited(line.tree, 0)
    return witnesses.guards


def _inheritance(rows: TreeRows, living: Sequence[SessionRow]) -> tuple[dict[int, int], set[int]]:
    """Tree -> the last revision of it that any living session sees, and the trees whose lineage leads there."""
    above = {line.tree: line for line in rows.lineage}
    inherited = {session.tree: _SEEN_FOR_EVER for session in living}
    walked: set[int] = set()
    for tree in list(inherited):
        while tree not in walked and (line := above.get(tree)):
            walked.add(tree)
            inherited[line.ancestor] = max(inherited.get(line.ancestor, -1), line.until)
            tree = line.ancestor
    return inherited, walked


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


def hidden_row(
    place: Place, views: Iterable[Tree], message: StoredMessage | None = None
) -> tuple[tuple[Place, StoredMessage, int], ...]:
    """A new content for the row at a place (`message`, if given) where each of the sessions that see it has replaced
    it: the old one is nobody's any more."""
    for view in views:
        if view.sees(place):
            edit = view.replaced.get(place)
            if edit is None or edit.message is None:
                return ()
            message = message or edit.message
    return () if message is None else ((place, message, 0),)


def seen_by_none(views: Sequence[Tree], run: Span) -> list[Span]:
    """The parts of a run of messages that none of these sessions sees."""
    unseen = [
        Place(run.segment, position)
        for position in range(run.first, run.last + 1)
        if not any(view.sees(Place(run.segment, position)) for view in views)
    ]
    return list(joined(unseen))


def joined(places: Iterable[Place]) -> Iterable[Span]:
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
