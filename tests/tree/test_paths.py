"""Where a message is on a path, and what comes before and after it: the same as in the path when it is laid out."""

from __future__ import annotations

from random import Random

import pytest

from frontdesk.store import EditRow, Place, TreeRows, ViewRow
from frontdesk.tree.items import count, first_items, last_items, position_of
from frontdesk.tree.tree import Tree
from tests.tree.test_visibility import FIRST, LINEAGE, SECOND, removed, replaced, session


def forked_tree(edits: list[EditRow]) -> Tree:
    """Of the session that was forked from another one at 5 of segment 1, and appended 0..1 to segment 2."""
    return Tree(
        TreeRows(
            session=session(2, Place(1, 5)),
            view=ViewRow(),
            segments=(FIRST, SECOND),
            overlays=(),
            edits=tuple(edits),
            lineage=tuple(LINEAGE),
            forked_until=-1,
        )
    )


@pytest.mark.parametrize("seed", range(30))
def test_positions_and_neighbours_are_those_of_the_path(seed: int) -> None:
    random = Random(seed)
    edits = [
        removed(2, 1, first, first + random.randrange(2)) for first in random.sample(range(5), random.randrange(4))
    ]
    edits += [replaced(2, 2, position, "new") for position in random.sample(range(6), random.randrange(3))]
    tree = forked_tree(edits)
    path = tree.path(Place(2, 1))
    items = tree.lay(Place(2, 1), overlays=False)
    places = [Place(segment, at) for segment, last in path for at in range(last + 1) if tree.sees(Place(segment, at))]
    assert len(places) == count(items)
    for position, place in enumerate(places):
        assert tree.position_on(path, place) == position_of(items, place) == position
        assert tree.item_at(place) == last_items(first_items(items, position + 1), 1)[0]
        assert tree.before(place) == (places[position - 1] if position else None)
        assert tree.after(path, place) == (places[position + 1] if position + 1 < len(places) else None)


def test_a_message_after_the_end_of_a_path_has_no_position_on_it() -> None:
    tree = forked_tree([])
    path = tree.path(Place(1, 3))
    assert tree.position_on(path, Place(1, 3)) == 3
    assert tree.position_on(path, Place(1, 4)) is None
    assert tree.position_on(path, Place(2, 0)) is None
    assert tree.after(path, Place(1, 3)) is None
