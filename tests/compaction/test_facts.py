"""Which facts go and which come back when messages are deleted."""

from __future__ import annotations

from frontdesk.compaction.facts import (
    BlockFacts,
    Extraction,
    add_facts,
    consolidate_facts,
    contains,
    items_within,
    overlap,
    places_of,
    runs_of,
    withdraw,
    without_lines,
)
from frontdesk.compaction.memory import memory_fingerprint
from frontdesk.store import EditItem, Item, Place, Span


def found(*facts: str) -> Extraction:
    return Extraction("memory", "guest", [(1, 0, 3)], list(facts))


def marks(*facts: str) -> set[str]:
    return {memory_fingerprint(fact) for fact in facts}


def test_a_fact_goes_with_its_last_extraction() -> None:
    first, second = found("likes tea", "has a cat"), found("Likes tea.")
    notes = add_facts(BlockFacts(), {"x": first, "y": second}, [])
    assert notes.sources == {"likes tea": ["x", "y"], "has a cat": ["x"]}
    decided = withdraw(notes, {"x": first})
    assert (decided.gone, decided.restored, decided.notes.sources) == (marks("has a cat"), [], {"likes tea": ["y"]})
    assert withdraw(decided.notes, {"x": first}).gone == marks("has a cat")
    assert withdraw(decided.notes, {"y": second}).gone == marks("likes tea")


def test_a_fact_that_was_not_accepted_yet_is_not_added_any_more() -> None:
    notes = BlockFacts(pending=["PIN is 4711", "has a cat"])
    assert withdraw(notes, {"x": found("pin is 4711")}).notes.pending == ["has a cat"]


def test_what_a_consolidation_wrote_goes_with_any_of_its_facts_and_the_others_come_back() -> None:
    first, second = found("likes tea"), found("PIN is 4711", "has a cat")
    notes = add_facts(BlockFacts(), {"x": first, "y": second}, [])
    notes = consolidate_facts(notes, "- likes tea\n- PIN is 4711\n- has a cat\nby hand", "- tea, 4711\n- has a cat")
    decided = withdraw(notes, {"y": second})
    assert decided.gone == marks("PIN is 4711", "has a cat", "tea, 4711")
    assert decided.restored == ["- likes tea", "by hand"]
    assert (decided.notes.merged, decided.notes.lines) == ([], [])


def test_a_line_that_a_consolidation_left_as_it_was_stays() -> None:
    notes = add_facts(BlockFacts(), {"x": found("likes tea"), "y": found("PIN is 4711")}, [])
    notes = consolidate_facts(notes, "- likes tea\n- PIN is 4711", "- likes tea\n- PIN 4711")
    decided = withdraw(notes, {"y": found("PIN is 4711")})
    assert decided.gone == marks("PIN is 4711", "PIN 4711")
    assert decided.restored == ["- likes tea"]


def test_a_second_consolidation_is_traced_back_to_the_facts_of_the_first() -> None:
    notes = add_facts(BlockFacts(), {"x": found("likes tea"), "y": found("PIN is 4711")}, [])
    notes = consolidate_facts(notes, "- likes tea\n- PIN is 4711", "- tea, 4711")
    notes = consolidate_facts(notes, "- tea, 4711\n- has a cat", "- tea, cat, 4711")
    decided = withdraw(notes, {"y": found("PIN is 4711")})
    assert decided.gone == marks("PIN is 4711", "tea, 4711", "tea, cat, 4711")  # the second is in an earlier version
    assert decided.restored == ["- likes tea", "- has a cat"]


def test_a_fact_that_reads_like_a_line_of_a_consolidation_stays_and_goes_as_a_fact() -> None:
    first, second, third = found("likes tea"), found("PIN is 4711"), found("tea, cat")
    notes = add_facts(BlockFacts(), {"x": first, "y": second}, [])
    notes = consolidate_facts(notes, "- likes tea\n- PIN is 4711", "- tea, cat")
    notes = add_facts(notes, {"z": third}, [])
    assert withdraw(notes, {"y": second}).gone == marks("PIN is 4711")
    notes = consolidate_facts(notes, "- tea, cat\n- has a dog", "- tea, cat, dog")
    decided = withdraw(notes, {"z": third})
    assert decided.gone == marks("tea, cat", "tea, cat, dog")
    assert decided.restored == ["- likes tea", "- PIN is 4711", "- has a dog"]


def test_lines_are_removed_whatever_their_bullet_and_nothing_else_changes() -> None:
    content = "Notes:\n\n* Likes tea.\n- has a cat\n"
    assert without_lines(content, marks("likes tea")) == "Notes:\n\n- has a cat"
    assert without_lines(content, marks("PIN")) == content


def test_places_and_runs() -> None:
    items: list[Item] = [Span(1, 3, 5, None), EditItem(7, 10, Place(2, 0), None), Span(3, 0, 1, Place(2, 0))]
    places = places_of(items)
    assert runs_of(places) == [(1, 3, 5), (2, 0, 0), (3, 0, 1)]
    assert contains([(1, 3, 5)], Place(1, 5))
    assert not contains([(1, 3, 5)], Place(2, 5))
    assert overlap([(2, 0, 9), (1, 3, 5)], [(1, 5, 8)])
    assert not overlap([(1, 3, 5)], [(1, 6, 8), (2, 3, 5)])
    assert places_of(items_within(items, [(1, 0, 3), (1, 5, 9), (2, 0, 0)])) == [Place(1, 3), Place(1, 5), Place(2, 0)]
