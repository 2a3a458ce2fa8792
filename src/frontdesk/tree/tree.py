"""Pure: paths, overlays, views and sums over the shape of a session's messages.

Example, used below: segment 1 holds 0..9. A branch was begun after its message 4: segment 2 (parent: 4 of segment 1)
holds 0..3. The head is 3 of segment 2, and overlay 7, a summary, covers 1..3 of segment 1.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import NamedTuple

from msgspec.structs import replace

from frontdesk.store import (
    Columns,
    EditItem,
    EditRow,
    FoundMessage,
    Item,
    OverlayItem,
    OverlayRow,
    Place,
    SegmentRow,
    SessionRow,
    Span,
    TreeRows,
    ViewRow,
)
from frontdesk.tree.items import last_items
from frontdesk.tree.visibility import SEGMENT_END, Segments, Visibility


class View(NamedTuple):
    """What comes before the tail, and where the tail begins."""

    row: ViewRow
    tail: int


class Tree(Visibility):
    """What one session sees of its family: which messages, on which paths, under which overlays.

    Built from rows that hold at least this session's segments, overlays and edits; `session` may be any living session
    of a family that was loaded whole.
    """

    def __init__(self, rows: TreeRows, session: SessionRow | None = None, *, relative: Tree | None = None) -> None:
        segments, lineage = (rows.segments, rows.lineage) if relative is None else (relative.segments, relative.lineage)
        super().__init__(session or rows.session, segments, rows.edits, lineage)
        self.rows = rows
        self._replaced_in = _positions(self.replaced)
        self._places_of = _places(rows.found)
        self._adjusted = _adjustments(self.edits)
        self.overlays = self._visible_overlays()

    def of(self, session: SessionRow) -> Tree:
        """What another session of the same family sees."""
        return Tree(self.rows, session, relative=self)

    def at(self, session: SessionRow) -> Tree:
        """The same tree with a later row of the session, at the same revision: since then, appends can only have
        extended the segment of the head."""
        later = copy(self)
        later.session = session
        segments = self.rows.segments
        head = session.head
        if head is not None and head.position >= self.segments[head.segment].next:
            extended = {"last": head.position, "next": head.position + 1}
            segments = tuple(replace(row, **extended) if row.number == head.segment else row for row in segments)
            later.segments = Segments(segments)
        later.rows = replace(self.rows, session=session, segments=segments)
        return later

    def _visible_overlays(self) -> list[OverlayRow]:
        """Newest first, each ending at the last message that is left of its range.

        Where several edits mark an overlay, the nearest one wins: they are sorted so that it comes last."""
        gone = {edit.overlay for edit in self.edits if edit.kind == "overlay-gone"}
        stale = {edit.overlay for edit in self.edits if edit.kind == "overlay-stale"}
        cuts = sorted((edit for edit in self.edits if edit.kind == "overlay-cut"), key=self.distance, reverse=True)
        cut = {edit.overlay for edit in cuts}
        ends = {edit.overlay: Place(edit.segment, edit.first) for edit in cuts if edit.segment}
        seen = []
        for overlay in self.rows.overlays:
            if overlay.number in gone or not self.inherits(overlay.tree, overlay.revision):
                continue
            if overlay.number in stale:
                overlay = replace(overlay, stale=True)
            if overlay.number in cut:
                overlay = replace(overlay.cut(), end=ends.get(overlay.number, overlay.end))
            if self.reaches(overlay.start) and self.reaches(overlay.end):
                seen.append(overlay)
        return sorted(seen, key=lambda overlay: -overlay.number)

    def find(self, message_id: str) -> Place | None:
        """Where the session sees a message, among those that were looked up with the tree."""
        return next((place for place in self._places_of.get(message_id, ()) if self.sees(place)), None)

    def adjustment(self, place: Place) -> int:
        """What changes in place have added to a row's tokens since the running sums were written."""
        return sum(tokens for position, tokens in self._adjusted.get(place.segment, ()) if position == place.position)

    def visible_segments(self) -> list[SegmentRow]:
        """The segments that hold messages which this session may see, in the order they were opened."""
        inherited = set(self.inherited_segments())
        return [s for s in self.rows.segments if s.tree == self.session.tree or s.number in inherited]

    def segment_items(self, segment: int) -> list[Item]:
        """All messages of a segment that this session sees."""
        items: list[Item] = []
        self._lay_run(items, segment, 0, self.reach(segment))
        return items

    # branches

    def children(self, parent: Place | None) -> list[Place]:
        """The messages that follow a message directly (the roots, for None), in the order of their segments."""
        found: set[Place | None] = set()
        if parent is not None:
            found.add(self.first_from(parent.segment, parent.position + 1))
        for segment in self.visible_segments():
            if self.at_or_before(segment.parent) == parent:
                found.add(self.first_from(segment.number, 0))
        return sorted(place for place in found if place is not None)

    def leaves(self) -> list[Place]:
        """The messages that nothing follows, in the order of their segments: 9 of segment 1, and 3 of segment 2."""
        inner = {self.at_or_before(s.parent) for s in self.visible_segments() if self.last_in(s.number) >= 0}
        ends = [Place(s.number, self.last_in(s.number)) for s in self.visible_segments()]
        return [end for end in ends if end.position >= 0 and end not in inner]

    # paths and views

    def path(self, leaf: Place | None) -> list[Place]:
        """The segments from the root to a leaf, each with its last position on this path.

        To the head: (1, 4), (2, 3)."""
        path = []
        place = leaf
        while place is not None:
            path.append(place)
            place = self.segments[place.segment].parent
        path.reverse()
        return path

    def position_on(self, path: Sequence[Place], place: Place) -> int | None:
        """How many messages come before a place on a path; None if it is not on the path.

        On the path to the head, 1 of segment 2 has the position 6."""
        position = 0
        for segment, last in path:
            if segment == place.segment:
                return position + self.count_before(place) if place.position <= last else None
            position += self.count_before(Place(segment, last + 1))
        return None

    def after(self, path: Sequence[Place], place: Place) -> Place | None:
        """The nearest message after a place that is on a path."""
        position = place.position + 1
        for segment, last in path[next(i for i, end in enumerate(path) if end.segment == place.segment) :]:
            found = self.first_from(segment, position)
            if found is not None and found.position <= last:
                return found
            position = 0
        return None

    def shows_summary(self, number: int) -> bool:
        """Whether the session sees the text of an overlay."""
        return any(overlay.number == number and overlay.kind == "summary" for overlay in self.overlays)

    def lay(
        self,
        leaf: Place | None,
        *,
        overlays: bool = True,
        among: Sequence[OverlayRow] | None = None,
        cut: bool = False,
    ) -> list[Item]:
        """The items from the root to a leaf: all messages, or the outermost overlays (only those `among` some, if
        given) and the messages that none of them covers.

        At the head: 0 of segment 1, overlay 7, 4 of segment 1, and 0..3 of segment 2. An overlay that only hides what
        it covers (it truncates, or resets) is no item; but with `cut`, one that used to be a summary is."""
        path = self.path(leaf)
        covers = self.outermost(path, among) if overlays else []
        items: list[Item] = []
        for index, (segment, last) in enumerate(path):
            position = 0
            for start, end, overlay in covers:
                if index < start[0] or index > end[0]:
                    continue
                # An overlay may begin in one segment and end in a later one: all of those between are covered.
                first_covered = start[1] if index == start[0] else 0
                last_covered = end[1] if index == end[0] else SEGMENT_END
                self._lay_run(items, segment, position, min(first_covered - 1, last))
                if index == start[0] and (overlay.kind == "summary" or (cut and overlay.is_cut)):
                    before = self.before(overlay.start)
                    items.append(OverlayItem(number=overlay.number, tokens=overlay.tokens, before=before))
                position = last_covered + 1
            self._lay_run(items, segment, position, last)
        return items

    def _lay_run(self, items: list[Item], segment: int, first: int, last: int) -> None:
        """Add the messages of a stretch of a segment: spans of rows, and an item of its own for each replaced one.

        0..9, 3 removed and 6 replaced: the span 0..2, the span 4..5, the edit of 6, and the span 7..9."""
        before: Place | None = None
        for run_first, run_last in self.present(segment, first, last):
            position = run_first
            before = before or self.before(Place(segment, run_first))
            replaced = self._replaced_in.get(segment, ())
            for at in replaced[bisect_left(replaced, run_first) : bisect_right(replaced, run_last)]:
                place = Place(segment, at)
                if at > position:
                    items.append(Span(segment, position, at - 1, before))
                    before = Place(segment, at - 1)
                items.append(self._edit_item(place, before))
                before = place
                position = at + 1
            if position <= run_last:
                items.append(Span(segment, position, run_last, before))
            before = Place(segment, run_last)

    def _edit_item(self, place: Place, before: Place | None) -> EditItem:
        edit = self.replaced[place]
        return EditItem(edit.number, edit.message.tokens if edit.message else 0, place, before)

    def item_at(self, place: Place) -> Item:
        """The message at a place."""
        before = self.before(place)
        if place in self.replaced:
            return self._edit_item(place, before)
        return Span(place.segment, place.position, place.position, before)

    def outermost(
        self, path: Sequence[Place], among: Sequence[OverlayRow] | None = None
    ) -> list[tuple[tuple[int, int], tuple[int, int], OverlayRow]]:
        """The overlays that apply to a path, in its order, each with its start and end as (index in path, position).

        The newest one wins: an older one that overlaps it is left out, inside of it or not. `taken` is sorted and
        disjoint, so that only the neighbours of the next one need to be looked at."""
        index = {place.segment: i for i, place in enumerate(path)}
        taken: list[tuple[tuple[int, int], tuple[int, int], OverlayRow]] = []
        starts: list[tuple[int, int]] = []
        for overlay in self.overlays if among is None else among:
            start, end = _on(path, index, overlay.start), _on(path, index, overlay.end)
            if start is None or end is None:
                continue
            at = bisect_right(starts, start)
            if (at == 0 or taken[at - 1][1] < start) and (at == len(starts) or end < starts[at]):
                starts.insert(at, start)
                taken.insert(at, (start, end, overlay))
        return taken

    def covering(self, places: Iterable[Place]) -> list[OverlayRow]:
        """Every overlay, outermost or not, whose range holds one of these places.

        The range of an overlay is on the path to its end, whichever branch is seen now."""
        places = list(places)
        found = []
        for overlay in self.overlays:
            path = self.path(overlay.end)
            index = {place.segment: i for i, place in enumerate(path)}
            start = _on(path, index, overlay.start)
            if start and any((here := _on(path, index, place)) is not None and start <= here for place in places):
                found.append(overlay)
        return found

    def covered_items(self, overlay: OverlayRow) -> list[Item]:
        """The messages under an overlay."""
        return self.between(overlay.start, overlay.end)

    def between(self, start: Place, end: Place) -> list[Item]:
        """The messages from one place to another on the path of the second."""
        path = self.path(end)
        items: list[Item] = []
        for segment, last in path[next(i for i, p in enumerate(path) if p.segment == start.segment) :]:
            self._lay_run(items, segment, start.position if segment == start.segment else 0, last)
        return items

    def precedes(self, start: Place, end: Place) -> bool:
        """Whether `start` is `end` or comes before it on its path."""
        return any(place.segment == start.segment and start.position <= place.position for place in self.path(end))

    def view(self, head: Place | None) -> View:
        """The view at a head, with its open end split off as the tail."""
        if head is None:
            return View(ViewRow(), 0)
        return split_tail(self.lay(head), head, self.segments[head.segment], owned=self.owns(head.segment))

    # sums

    def needed_sums(self, items: Iterable[Item]) -> list[Place]:
        """The places whose rows `tokens` needs: the first and the last of each span."""
        return [place for item in items if isinstance(item, Span) for place in _ends(item)]

    def tokens(self, items: Iterable[Item], sums: Mapping[Place, tuple[int, int]]) -> int:
        """The tokens of these items, by arithmetic on the running sums.

        Messages of 5, 3 and 4 tokens have the running sums 5, 8 and 12. The last two are 12 - 8 + 3. If the second one
        was changed in place to 6 tokens, the sums stay, and an adjustment says +3: 12 - 8 + (6 - 3) + 3."""
        total = 0
        for item in items:
            if not isinstance(item, Span):
                total += item.tokens
                continue
            first, last = _ends(item)
            first_tokens = sums[first][0] - self.adjustment(first)
            total += sums[last][1] - sums[first][1] + first_tokens
            for position, tokens in self._adjusted.get(item.segment, ()):
                if item.first <= position <= item.last:
                    total += tokens
        return total


def split_tail(items: list[Item], head: Place, segment: SegmentRow, *, owned: bool) -> View:
    """Split the open end off a view: the run that the next appends extend. It is not stored, so that they need not
    change what is stored.

    Of the items 0..4 of segment 1 and 0..3 of segment 2, only the first one is stored, and the tail begins at 0. The
    tail is empty if the next append does not extend the last item: it is an overlay or an edit, rows after the head
    were removed (the next position is then `segment.next`), or the segment is another session's or has grown past the
    head (the next append opens a new segment)."""
    extendable = owned and head.position == segment.last
    final = items[-1] if items else None
    if (
        extendable
        and isinstance(final, Span)
        and (final.segment, final.last) == head
        and head.position == segment.next - 1
    ):
        return View(ViewRow(items=tuple(items[:-1]), before=final.before), final.first)
    tail = segment.next if extendable else head.position + 1
    return View(ViewRow(items=tuple(items), before=head), tail)


def whole_view(session: SessionRow, view: ViewRow) -> list[Item]:
    """The items of a known view, its tail included."""
    if session.view == "plain":
        view = ViewRow()
    items = list(view.items)
    if session.head is not None and session.tail <= session.head.position:
        items.append(Span(session.head.segment, session.tail, session.head.position, view.before))
    return items


def stored_items(session: SessionRow, view: ViewRow, last: int | None = None) -> list[Item]:
    """The items of a known view, or those of its `last` messages; none of a stale view."""
    items = [] if session.view == "stale" else whole_view(session, view)
    return items if last is None else last_items(items, last)


def _ends(span: Span) -> tuple[Place, Place]:
    return Place(span.segment, span.first), Place(span.segment, span.last)


def _on(path: Sequence[Place], index: Mapping[int, int], place: Place) -> tuple[int, int] | None:
    """A place as (index in the path, position), None if it is not on the path."""
    i = index.get(place.segment)
    return None if i is None or place.position > path[i].position else (i, place.position)


def _positions(places: Iterable[Place]) -> dict[int, list[int]]:
    """Segment -> its positions among these places, sorted."""
    found: dict[int, list[int]] = {}
    for place in sorted(places):
        found.setdefault(place.segment, []).append(place.position)
    return found


def _places(rows: Iterable[FoundMessage]) -> dict[str, list[Place]]:
    """Message id -> the places in the family where there is one with this id."""
    found: dict[str, list[Place]] = {}
    for row in rows:
        found.setdefault(row.id, []).append(row.place)
    return found


def _adjustments(edits: Iterable[EditRow]) -> dict[int, list[tuple[int, int]]]:
    """Segment -> (position, tokens to add) of rows that were changed in place."""
    found: dict[int, list[tuple[int, int]]] = {}
    for edit in edits:
        if edit.kind == "adjusted":
            found.setdefault(edit.segment, []).append((edit.first, edit.tokens))
    return found


def unknown_view(head: Place | None) -> Columns:
    """What a session's row says of a view that has changed; without a head there is nothing to compute."""
    if head is not None:
        return {"view": "stale"}
    return {"view": "plain", "tail": 0, "view_tokens": 0, "view_messages": 0}
