"""What a session sees, from a few rows: the example of `Visibility`, and replacements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from frontdesk.store import EditRow, Lineage, Place, SegmentRow, SessionRow, TreeRows, ViewRow
from frontdesk.testing.store_contract.steps import NOW, message
from frontdesk.tree.duplicates import find_places, known_messages, places_to_read
from frontdesk.tree.release import release, release_tree_guards
from frontdesk.tree.visibility import Visibility

# A appended 0..9 to segment 1, B was forked from A at 5, and appended 0..1 to segment 2.
FIRST = SegmentRow(1, 1, None, 9, 10, 5, 30)
SECOND = SegmentRow(2, 2, Place(1, 5), 1, 2, -1, 6)
LINEAGE = [Lineage(2, 1, until=3)]


def session(tree: int, base: Place | None = None) -> SessionRow:
    values = {"number": tree, "namespace": "n", "id": str(tree), "tree": tree, "family": 1, "base": base}
    return SessionRow(**values, created_at=NOW, updated_at=NOW, last_active_at=NOW)  # type: ignore[arg-type]


def seen_by(tree: int, *edits: EditRow) -> Visibility:
    base = None if tree == 1 else Place(1, 5)
    return Visibility(session(tree, base), [FIRST, SECOND], edits, LINEAGE)


def removed(tree: int, revision: int, first: int, last: int) -> EditRow:
    return EditRow(number=1, tree=tree, revision=revision, kind="removed", segment=1, first=first, last=last)


def replaced(tree: int, revision: int, position: int, text: str) -> EditRow:
    return EditRow(
        number=1,
        tree=tree,
        revision=revision,
        kind="replaced",
        segment=1,
        first=position,
        last=position,
        message=message("m", text),
    )


def positions(visible: Visibility, segment: int) -> list[int]:
    return [at for at in range(12) if visible.sees(Place(segment, at))]


def test_a_fork_sees_what_its_source_had_where_it_was_forked() -> None:
    assert positions(seen_by(1), 1) == [*range(10)]
    assert positions(seen_by(1), 2) == []
    assert positions(seen_by(2), 1) == [*range(6)]
    assert positions(seen_by(2), 2) == [0, 1]


def test_a_removal_is_inherited_only_if_it_was_made_before_the_fork() -> None:
    late, early = removed(1, 4, 3, 3), removed(1, 3, 3, 3)
    assert positions(seen_by(1, late), 1) == [0, 1, 2, *range(4, 10)]
    assert positions(seen_by(2, late), 1) == [*range(6)]
    assert positions(seen_by(2, early), 1) == [0, 1, 2, 4, 5]
    assert positions(seen_by(1, removed(2, 1, 3, 3)), 1) == [*range(10)]


def test_the_message_before_is_the_nearest_that_is_seen_on_the_way_to_the_root() -> None:
    assert seen_by(2).before(Place(2, 0)) == Place(1, 5)
    assert seen_by(2, removed(2, 1, 4, 4), removed(2, 1, 5, 5)).before(Place(2, 0)) == Place(1, 3)
    assert seen_by(2, removed(2, 1, 0, 5)).before(Place(2, 0)) is None


def test_of_several_replacements_the_nearest_and_then_the_latest_wins() -> None:
    edits = [
        replaced(1, 2, 4, "old"),
        replaced(1, 3, 4, "inherited"),
        replaced(1, 4, 4, "later"),
        replaced(2, 1, 4, "own"),
    ]

    def shown(visible: Visibility) -> str:
        edit = visible.replaced[Place(1, 4)]
        assert edit.message is not None
        return edit.message.raw

    assert "later" in shown(seen_by(1, *edits))
    assert "inherited" in shown(seen_by(2, *edits[:3]))
    assert "own" in shown(seen_by(2, *edits))


def test_known_messages_are_those_that_the_session_sees_with_their_content_and_parent() -> None:
    visible = seen_by(2, replaced(2, 1, 4, "changed"), removed(2, 1, 3, 3))
    found = [("a", Place(1, 8)), ("a", Place(1, 4)), ("b", Place(1, 9)), ("c", Place(2, 0))]
    places = find_places(visible, found)
    assert places == {"a": Place(1, 4), "c": Place(2, 0)}
    wanted = places_to_read(visible, places.values())
    assert wanted == {Place(1, 4), Place(1, 2), Place(2, 0), Place(1, 5)}
    known = known_messages(visible, places, {place: message(f"{place.segment}:{place.position}") for place in wanted})
    assert known["a"].message == message("m", "changed")
    assert (known["a"].parent_id, known["c"].parent_id) == ("1:2", "1:5")


def test_a_family_looks_at_each_row_once_however_many_sessions_it_has() -> None:
    class Counted(tuple[Any, ...]):
        walks = 0

        def __iter__(self) -> Iterator[Any]:
            Counted.walks += 1
            return super().__iter__()

    forks = range(2, 102)
    sessions = (session(1), *(session(tree, Place(1, 5)) for tree in forks))
    rows = TreeRows(
        session=sessions[1],
        view=ViewRow(),
        segments=Counted([FIRST, *(SegmentRow(tree, tree, Place(1, 5), 1, 2, -1, 6) for tree in forks)]),
        overlays=(),
        edits=(),
        lineage=Counted(Lineage(tree, 1, until=3) for tree in forks),
        forked_until=3,
        sessions=sessions,
    )
    released = release(rows, sessions[1])
    assert (released.delete_segments, released.delete_lineage) == ((2,), (2,))
    assert release_tree_guards(rows, sessions[1], released)
    assert Counted.walks < len(forks)
