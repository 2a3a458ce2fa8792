"""Pure: decides which messages of its family a session sees, and with which content. Separate from `Tree`, because an
append needs only this, and for a few segments."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from frontdesk.errors import DamagedRecordError
from frontdesk.store import SEGMENT_SIZE, EditRow, Lineage, Place, SegmentRow, SessionRow

SEGMENT_END = 1 << 60
_EVERY_REVISION = 1 << 62


class Segments(dict[int, SegmentRow]):
    """Segments by number. Raises `DamagedRecordError` for one that rows refer to and that is not there, for one that is
    longer than a segment can be, and if a way up does not end."""

    def __init__(self, segments: Iterable[SegmentRow]) -> None:
        super().__init__((segment.number, segment) for segment in segments)
        for segment in self.values():
            if max(segment.last, segment.next - 1) >= SEGMENT_SIZE:
                raise DamagedRecordError("segment", None, segment.number)
        ending: set[int] = set()
        for number in self:
            way: set[int] = set()
            while number in self and number not in ending:
                if number in way:
                    raise DamagedRecordError("segment", None, number)
                way.add(number)
                parent = self[number].parent
                if parent is None:
                    break
                number = parent.segment
            ending |= way

    def __missing__(self, number: int) -> SegmentRow:
        raise DamagedRecordError("segment", None, number)


class Visibility:
    """What one session sees: its own messages, and those that it inherited up to where it was forked, without the
    removed ones.

    Example: session A appended 0..9 to segment 1, B was forked at 5, and then A removed 3. Segment 1 belongs to A. A
    sees 0..2 and 4..9. B reaches up to 5, and A's edit was made after the fork, so that B sees 0..5.

    `segments` must hold each segment that is asked about and the way from it to the root, and the way to the session's
    base; `lineage` the way up from the session's tree. Edits of other segments and other trees are ignored. Both can be
    those of a relative, so that a family of thousands looks at each row once, and not once for each session.
    """

    def __init__(
        self,
        session: SessionRow,
        segments: Segments | Iterable[SegmentRow],
        edits: Iterable[EditRow],
        lineage: dict[int, Lineage] | Iterable[Lineage],
    ) -> None:
        if any(place is not None and place.position >= SEGMENT_SIZE for place in (session.head, session.base)):
            raise DamagedRecordError("session", session.id)
        self.session = session
        self.segments = segments if isinstance(segments, Segments) else Segments(segments)
        self.lineage = lineage if isinstance(lineage, dict) else {link.tree: link for link in lineage}
        self._reach = self._inherited()
        self._rank = self._ranks()
        until = {tree: revision for tree, (_, revision) in self._rank.items()}
        self.edits = [edit for edit in edits if edit.revision <= until.get(edit.tree, -1)]
        self._removed = _removed_runs(self.edits)
        self._removed_sums: dict[int, list[int]] = {}
        self.replaced = self._winning_replacements()

    def _inherited(self) -> dict[int, int]:
        """Segment -> last position that is seen there, for the segments of other trees on the way to the base."""
        reach: dict[int, int] = {}
        place = self.session.base
        while place is not None:
            reach[place.segment] = place.position
            place = self.segments[place.segment].parent
        return reach

    def _ranks(self) -> dict[int, tuple[int, int]]:
        """Tree -> (how far up the lineage, last revision that is seen)."""
        tree = self.session.tree
        ranks = {tree: (0, _EVERY_REVISION)}
        while link := self.lineage.get(tree):
            tree = link.ancestor
            if tree in ranks:
                raise DamagedRecordError("lineage", None, tree)
            ranks[tree] = (len(ranks), link.until)
        return ranks

    def _winning_replacements(self) -> dict[Place, EditRow]:
        """Of several replacements of a message, the one of the nearest tree, and of that the latest."""
        best: dict[Place, EditRow] = {}
        for edit in self.edits:
            if edit.kind != "replaced":
                continue
            place = Place(edit.segment, edit.first)
            if place not in best or self.distance(edit) < self.distance(best[place]):
                best[place] = edit
        return best

    def distance(self, edit: EditRow) -> tuple[int, int]:
        """Orders inherited edits: those of nearer trees first, and of one tree the latest first."""
        return self._rank[edit.tree][0], -edit.revision

    def inherits(self, tree: int, revision: int) -> bool:
        """Whether this session has what a tree recorded at a revision."""
        rank = self._rank.get(tree)
        return rank is not None and revision <= rank[1]

    def owns(self, segment: int) -> bool:
        return self.segments[segment].tree == self.session.tree

    def shares(self, place: Place) -> bool:
        """Whether another session may see what is at a place."""
        return not self.owns(place.segment) or place.position <= self.segments[place.segment].shared

    def reach(self, segment: int) -> int:
        """The last position of a segment that this session may see."""
        if self.owns(segment):
            return self.segments[segment].next - 1
        return self._reach.get(segment, -1)

    def reaches(self, place: Place) -> bool:
        """Whether a place belongs to this session, with or without a message in it."""
        segment = self.segments.get(place.segment)
        if segment is None:
            return False
        if segment.tree == self.session.tree:
            return place.position < segment.next
        return place.position <= self._reach.get(place.segment, -1)

    def sees(self, place: Place) -> bool:
        """Whether there is a message at a place for this session."""
        return self.reaches(place) and self._skip_removed(place.segment, place.position) == place.position

    def at_or_before(self, place: Place | None) -> Place | None:
        """The nearest message at a place or before it on its path."""
        while place is not None:
            position = self._skip_removed(place.segment, place.position)
            if position >= 0:
                return Place(place.segment, position)
            place = self.segments[place.segment].parent
        return None

    def before(self, place: Place) -> Place | None:
        """The nearest message before a place."""
        if place.position > 0:
            return self.at_or_before(Place(place.segment, place.position - 1))
        return self.at_or_before(self.segments[place.segment].parent)

    def inherited_segments(self) -> Iterable[int]:
        """The segments on the way to the base."""
        return self._reach

    def last_in(self, segment: int) -> int:
        """The last message of a segment that this session sees, -1 if none."""
        return self._skip_removed(segment, self.reach(segment))

    def first_from(self, segment: int, position: int) -> Place | None:
        """The first message of a segment at a position or after it."""
        run = self._removed_run(segment, position)
        if run is not None:
            position = run[1] + 1
        return Place(segment, position) if position <= self.reach(segment) else None

    def count_before(self, place: Place) -> int:
        """How many messages of the segment come before a place."""
        runs = self._removed.get(place.segment, [])
        if place.segment not in self._removed_sums:
            self._removed_sums[place.segment] = [0, *accumulate(last - first + 1 for first, last in runs)]
        index = bisect_right(runs, (place.position, -1))
        inside = max(0, runs[index - 1][1] + 1 - place.position) if index else 0
        return place.position - self._removed_sums[place.segment][index] + inside

    def present(self, segment: int, first: int, last: int, *, gap: int = 1) -> list[tuple[int, int]]:
        """What is left of the positions `first..last` of a segment without the removed ones, as runs. Where fewer than
        `gap` in a row were removed, a run continues."""
        runs = []
        for gone_first, gone_last in self._removed.get(segment, ()):
            if gone_last < first or gone_last - gone_first + 1 < gap:
                continue
            if gone_first > last:
                break
            if gone_first > first:
                runs.append((first, gone_first - 1))
            first = gone_last + 1
        if first <= last:
            runs.append((first, last))
        return runs

    def count(self, segment: int) -> int:
        """How many messages of a segment this session sees."""
        return self.count_before(Place(segment, self.reach(segment) + 1))

    def _skip_removed(self, segment: int, position: int) -> int:
        """The position itself, or the one before the run of removed messages that it is in."""
        run = self._removed_run(segment, position)
        return position if run is None else run[0] - 1

    def _removed_run(self, segment: int, position: int) -> tuple[int, int] | None:
        """The run of removed messages that a position is in."""
        runs = self._removed.get(segment)
        index = bisect_right(runs, (position, SEGMENT_END)) if runs else 0
        return runs[index - 1] if runs and index and position <= runs[index - 1][1] else None


def _removed_runs(edits: Iterable[EditRow]) -> dict[int, list[tuple[int, int]]]:
    """Segment -> sorted runs of positions without a message. Runs that touch are joined, so that one step skips them:
    removed 2..3 and 4..4 are 2..4."""
    runs: dict[int, list[tuple[int, int]]] = {}
    for edit in edits:
        if edit.kind == "removed":
            runs.setdefault(edit.segment, []).append((edit.first, edit.last))
    joined: dict[int, list[tuple[int, int]]] = {}
    for segment, unsorted in runs.items():
        out: list[tuple[int, int]] = []
        for first, last in sorted(unsorted):
            if out and first <= out[-1][1] + 1:
                out[-1] = (out[-1][0], max(last, out[-1][1]))
            else:
                out.append((first, last))
        joined[segment] = out
    return joined
