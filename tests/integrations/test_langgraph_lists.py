"""How a list is stored as a change of an earlier one: random edits, against a list of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from frontdesk.integrations.langgraph import lists
from frontdesk.integrations.langgraph.lists import KnownList
from frontdesk.integrations.langgraph.records import Run

EDITS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 4), st.lists(st.integers(0, 30), max_size=3)),
    max_size=12,
)


def numbers(runs: list[Run]) -> list[int]:
    return [number for first, count in runs for number in range(first, first + count)]


def change(known: KnownList, value: list[bytes], touched: list[bytes], first: int | None) -> lists.ListDraft:
    kept = lists.unchanged(known, value, touched) if known.raws is None else lists.unchanged_raws(known, value)
    return lists.draft(len(value), known.runs, kept, first)


@given(EDITS, st.booleans())
def test_a_changed_list_is_made_of_what_was_stored(edits: list[tuple[int, int, int, list[int]]], raw: bool) -> None:
    stored: dict[int, object] = {}
    known = KnownList([], objects=None if raw else [], raws=[] if raw else None)
    value: list[bytes] = []
    for step, (start, end, added, touched_at) in enumerate(edits):
        new = [b"%d.%d" % (step, number) for number in range(added)]
        touched = [value[at] for at in touched_at if at < len(value)]
        value = [*value[:start], *new, *value[max(start, end) :]]
        draft = change(known, value, touched, None)
        if any(number >= draft.first for number in stored):  # taken: a store refuses the write
            draft = change(known, value, touched, max(stored) + 1)
        stored |= {number: value[at] for number, at in enumerate(draft.new, draft.first)}
        assert [stored[number] for number in numbers(draft.runs)] == value
        if not raw:
            places = {id(each): at for at, each in enumerate(value)}
            assert {value[at] for at in draft.new} >= {each for each in touched if id(each) in places}
            known = KnownList(draft.runs, objects=value, places=places)
        else:
            known = KnownList(draft.runs, raws=value)


def test_an_object_that_is_in_a_list_twice_is_new_at_both_places_if_it_was_touched() -> None:
    a, b, c = [1], [2], [3]
    known = KnownList([(0, 4)], objects=[a, b, a, c], places={id(b): 1, id(a): 2, id(c): 3})
    assert [*lists.unchanged(known, [a, b, a, c, b], [a])] == [(1, 1, 1), (3, 3, 1)]


class Uncomparable:
    def __eq__(self, other: object) -> bool:
        raise ValueError("no truth value")

    __hash__ = None  # type: ignore[assignment]


def test_elements_that_cannot_be_compared_are_distinguished_by_identity() -> None:
    a, b = Uncomparable(), Uncomparable()
    known = KnownList([(0, 2)], objects=[a, b], places={id(a): 0, id(b): 1})
    assert [*lists.unchanged(known, [a, b, Uncomparable()], [])] == [(0, 0, 2)]
    assert [*lists.unchanged(known, [a, Uncomparable()], [])] == [(0, 0, 1)]


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=8),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=8),
)
def test_numbers_are_subtracted_as_sets_are(runs: list[Run], others: list[Run]) -> None:
    assert sorted(numbers(lists.subtract(runs, others))) == sorted({*numbers(runs)} - {*numbers(others)})


def test_a_list_that_was_edited_very_often_is_stored_as_a_whole_again() -> None:
    runs = [(2 * number, 1) for number in range(1_500)]
    draft = lists.draft(1_501, runs, iter([(0, 0, 1_500)]), None)
    assert draft == lists.ListDraft([(2_999, 1_501)], [*range(1_501)], 2_999)
