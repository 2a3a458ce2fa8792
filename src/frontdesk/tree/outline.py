"""Pure: the shape of a tree as runs, the stretches of messages without a branch. Separate from `Tree`, because only an
overview needs it.

Example: segment 1 holds 0..9, and segment 2 was begun after its message 4. The runs are 0..4 of segment 1, then 5..9 of
segment 1 and all of segment 2, both of which follow the first run."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import NamedTuple

from frontdesk.store import Place
from frontdesk.tree.tree import Tree


class TreeRun(NamedTuple):
    """Messages from one place to another without a branch between them. `parent` is the index of the run that it
    follows (None: it starts at a root)."""

    parent: int | None
    first: Place
    last: Place


def runs_of(tree: Tree) -> list[TreeRun]:
    """All runs that a session sees; a run comes after the one that it follows."""
    begun: defaultdict[Place | None, list[Place]] = defaultdict(list)
    """places, and the first messages of the segments that were begun after them"""
    for segment in tree.visible_segments():
        first = tree.first_from(segment.number, 0)
        if first is not None:
            begun[tree.at_or_before(segment.parent)].append(first)
    cuts: defaultdict[int, list[int]] = defaultdict(list)
    """segments, and the positions in them after which another segment was begun, sorted"""
    for place in sorted(place for place in begun if place is not None):
        cuts[place.segment].append(place.position)
    runs: list[TreeRun] = []
    waiting: list[tuple[int | None, Place]] = [(None, root) for root in reversed(begun[None])]
    while waiting:
        parent, start = waiting.pop()
        last, following = _follow(tree, begun, cuts, start)
        runs.append(TreeRun(parent, start, last))
        waiting += [(len(runs) - 1, place) for place in reversed(following)]
    return runs


def _follow(
    tree: Tree, begun: dict[Place | None, list[Place]], cuts: dict[int, list[int]], place: Place
) -> tuple[Place, list[Place]]:
    """Where the run from a place ends, and the places that follow it: none at a leaf, otherwise two or more."""
    while True:
        positions = cuts.get(place.segment, [])
        index = bisect_left(positions, place.position)
        if index == len(positions):
            return Place(place.segment, tree.last_in(place.segment)), []
        end = Place(place.segment, positions[index])
        own = tree.first_from(end.segment, end.position + 1)
        following = sorted([*begun[end], *([] if own is None else [own])])
        if len(following) != 1:
            return end, following
        place = following[0]
