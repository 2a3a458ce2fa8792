"""What an append decides, from facts alone: in which order it is refused, and which rows it writes."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from frontdesk.errors import (
    FrontdeskError,
    HeadMovedError,
    InvalidRangeError,
    MessageNotFoundError,
    SessionEndedError,
    SessionNotFoundError,
    TurnLostError,
)
from frontdesk.store import FOLLOW_HEAD, SEGMENT_SIZE, Append, AppendedRow, Place, SegmentRow, SessionRow
from frontdesk.testing.store_contract.steps import NOW, message
from frontdesk.tree.append import Facts, Writes, decide
from frontdesk.tree.duplicates import KnownMessage

SEGMENT = SegmentRow(7, 1, None, 2, 3, -1, 9)
SESSION = SessionRow(
    number=1,
    namespace="n",
    id="s",
    tree=1,
    family=1,
    created_at=NOW,
    updated_at=NOW,
    last_active_at=NOW,
    message_count=3,
    view_messages=3,
    view_tokens=9,
    head=Place(7, 2),
)
ENDED = replace(SESSION, status="archived", end_reason="new", ended_at=NOW, agent="a")
HERE = Facts(SESSION, "m3", {7: SEGMENT})


def request(*ids: str, **values: Any) -> Append:
    messages = tuple(message(id) for id in ids)
    return Append(
        **{
            "namespace": "n",
            "session_id": "s",
            "messages": messages,
            "fresh": (False,) * len(ids),
            "now": NOW + 5,
            **values,
        }
    )


def decided(request: Append, facts: Facts = HERE) -> Writes:
    numbers = count(20)
    return decide(request, facts, lambda kind: next(numbers))


def known(id: str, position: int, parent_id: str | None) -> KnownMessage:
    return KnownMessage(Place(7, position), message(id), parent_id)


# refusals


def test_refusals_come_in_one_order() -> None:
    # Each of these is wrong in every way that is left, and each step repairs what was refused first.
    wrong = request("m4", fence=5, existing=True, expected_head="m1", parent="nobody")
    awake = Facts(SESSION, "m3", {7: SEGMENT}, turn=5)
    steps: list[tuple[Append, Facts, type[FrontdeskError]]] = [
        (wrong, Facts(None), TurnLostError),
        (replace(wrong, fence=None), Facts(None), SessionNotFoundError),
        (wrong, Facts(ENDED, "m3", {7: SEGMENT}, turn=5), SessionEndedError),
        (wrong, awake, HeadMovedError),
        (replace(wrong, expected_head="m3"), awake, MessageNotFoundError),
    ]
    for given, facts, error in steps:
        with pytest.raises(error):
            decided(given, facts)


def test_a_fence_holds_only_under_the_number_of_the_turn() -> None:
    assert decided(request("m4", fence=5), replace(HERE, turn=5)).result.rows[0].inserted
    for turn in (None, 4, 6):
        with pytest.raises(TurnLostError):
            decided(request("m4", fence=5), replace(HERE, turn=turn))


def test_messages_that_are_all_known_are_answered_whatever_else_is_wrong() -> None:
    facts = replace(HERE, session=ENDED, known={"m2": known("m2", 1, "m1")})
    writes = decided(request("m2", expected_head="m1", parent="nobody"), facts)
    assert writes.result.rows == (AppendedRow(False, "m1", message("m2")),)
    assert (writes.result.session, writes.runs, writes.log) == (ENDED, (), ())


def test_a_number_is_drawn_only_when_nothing_can_be_refused_any_more() -> None:
    def draw(kind: str) -> int:
        raise AssertionError(kind)

    for given in (request("m1", fence=1), request("m1", existing=True), request("m1", expected_head="m0")):
        with pytest.raises(FrontdeskError):
            decide(given, Facts(None), draw)


# waking


def test_a_session_that_timed_out_wakes_and_another_one_wants_reopen() -> None:
    timed_out = replace(HERE, session=replace(ENDED, end_reason="timeout"), key_is_free=True)
    for given, facts in (
        (request("m4"), timed_out),
        (request("m4", reopen=True), replace(HERE, session=ENDED, key_is_free=True)),
    ):
        writes = decided(given, facts)
        session = writes.result.session
        assert (session.status, session.end_reason, session.ended_at, session.key_current) == (
            "active",
            None,
            None,
            True,
        )
        assert (session.revision, writes.woken) == (SESSION.revision + 1, True)
        assert [entry.kind for entry in writes.log] == ["session.changed", "message.appended"]


def test_a_session_that_wakes_does_not_take_its_key_from_another() -> None:
    facts = replace(HERE, session=replace(ENDED, end_reason="timeout"), key_is_free=False)
    assert not decided(request("m4"), facts).result.session.key_current


# rows


def test_messages_extend_the_segment_of_the_head_with_running_sums() -> None:
    writes = decided(request("m4", "m5"))
    assert writes.result.rows == (AppendedRow(True, "m3"), AppendedRow(True, "m4"))
    [run] = writes.runs
    assert (run.segment, run.first, list(run.running)) == (7, 3, [12, 15])
    assert list(writes.grown) == [SegmentRow(7, 1, None, 4, 5, -1, 15)]
    session = writes.result.session
    assert (session.head, session.message_count, session.view_messages, session.view_tokens) == (Place(7, 4), 5, 5, 15)
    assert (session.view, session.revision, session.last_active_at) == ("plain", SESSION.revision, NOW + 5)
    [entry] = writes.log
    assert (entry.kind, entry.segment, entry.first, entry.last) == ("message.appended", 7, 3, 4)


@pytest.mark.parametrize("ids", [("m4",), ("m4", "m5", "m6")])
def test_the_common_append_decides_what_the_general_one_does(ids: tuple[str, ...]) -> None:
    # A known message that is not in the request rules the short way out, and changes nothing else.
    short, general = decided(request(*ids)), decided(request(*ids), replace(HERE, known={"m1": known("m1", 0, None)}))
    assert short.result == general.result
    assert list(short.grown) == list(general.grown)
    assert list(short.log) == list(general.log)
    assert [(run.segment, run.first, list(run.messages), list(run.running)) for run in short.runs] == [
        (run.segment, run.first, list(run.messages), list(run.running)) for run in general.runs
    ]


def test_a_new_session_is_written_whole() -> None:
    writes = decided(request("m1"), Facts(None))
    session = writes.result.session
    assert writes.result.created
    assert (session.number, session.tree, session.head, session.message_count) == (20, 20, Place(21, 0), 1)
    assert list(writes.opened) == [SegmentRow(21, 20, None, 0, 1, -1, 3)]


def test_a_message_after_an_older_one_opens_a_segment_and_leaves_the_view_stale() -> None:
    writes = decided(request("m4", parent="m2"), replace(HERE, parent=Place(7, 1)))
    assert list(writes.opened) == [SegmentRow(20, 1, Place(7, 1), 0, 1, -1, 3)]
    session = writes.result.session
    assert (session.head, session.view, session.revision) == (Place(20, 0), "stale", SESSION.revision + 1)


def test_a_new_root_is_all_of_the_view() -> None:
    session = decided(request("m4", parent=None)).result.session
    assert (session.head, session.view, session.tail) == (Place(20, 0), "plain", 0)
    assert (session.view_messages, session.view_tokens, session.message_count) == (1, 3, 4)


def test_the_first_message_of_a_fork_begins_its_tail() -> None:
    fork = replace(SESSION, number=2, tree=2, base=Place(7, 2), view="stored", tail=3)
    session = decided(request("m4"), replace(HERE, session=fork)).result.session
    assert (session.head, session.view, session.tail, session.view_messages) == (Place(20, 0), "stored", 0, 4)


def test_known_messages_are_skipped_and_the_others_continue_after_the_head() -> None:
    facts = replace(HERE, known={"m1": known("m1", 0, None)})
    writes = decided(request("m4", "m1", "m5"), facts)
    assert [row.inserted for row in writes.result.rows] == [True, False, True]
    assert [row.parent_id for row in writes.result.rows] == ["m3", None, "m4"]
    [run] = writes.runs
    assert (run.segment, run.first, [stored.id for stored in run.messages]) == (7, 3, ["m4", "m5"])
    assert writes.result.session.revision == SESSION.revision


def test_a_path_may_begin_with_known_messages_that_follow_each_other() -> None:
    facts = replace(HERE, parent=Place(7, 0), known={"m2": known("m2", 1, "m1")})
    writes = decided(request("m2", "m4", parent="m1"), facts)
    assert [(row.inserted, row.parent_id) for row in writes.result.rows] == [(False, "m1"), (True, "m2")]
    assert writes.opened[0].parent == Place(7, 1)
    assert decided(request("m1", "m4", parent=None), replace(HERE, known={"m1": known("m1", 0, None)})).runs


ON_PATH = {
    "m1": known("m1", 0, None),
    "m2": known("m2", 1, "m1"),
    "m3": known("m3", 2, "m2"),
}


@pytest.mark.parametrize(
    ("ids", "parent"),
    [
        (("m4", "m3"), "m2"),
        (("m3", "m4"), "m1"),
        (("m2", "m4"), None),
        (("m1", "m3"), None),
        (("m2", "m1"), "m1"),
        (("m2", "m3"), None),
        (("m4", "m4"), "m3"),
        (("m4", "m5", "m4"), None),
    ],
)
def test_a_known_message_that_does_not_follow_the_one_before_it_is_no_path(
    ids: tuple[str, ...], parent: str | None
) -> None:
    place = None if parent is None else ON_PATH[parent].place
    facts = replace(HERE, parent=place, known={id: ON_PATH[id] for id in ids if id in ON_PATH})
    with pytest.raises(InvalidRangeError):
        decided(request(*ids, parent=parent), facts)


def test_a_path_that_is_sent_again_is_answered_even_if_its_parent_is_gone() -> None:
    facts = replace(HERE, known={id: ON_PATH[id] for id in ("m2", "m3")})
    writes = decided(request("m2", "m3", parent="gone"), facts)
    assert [(row.inserted, row.parent_id) for row in writes.result.rows] == [(False, "m1"), (False, "m2")]
    assert (writes.runs, writes.result.session) == ((), SESSION)


def test_a_known_message_alone_is_answered_whatever_parent_is_given() -> None:
    facts = replace(HERE, parent=Place(7, 0), known={"m3": ON_PATH["m3"]})
    assert decided(request("m3", parent="m1"), facts).result.rows == (AppendedRow(False, "m2", message("m3")),)
    with pytest.raises(InvalidRangeError):
        decided(request("m3", parent="m1", is_path=True), facts)
    assert decided(request("m3", parent="m2", is_path=True), replace(facts, parent=Place(7, 1))).runs == ()


def test_no_head_can_be_expected() -> None:
    assert decided(request("m1", expected_head=None), Facts(None)).result.created
    empty = replace(SESSION, head=None)
    assert decided(request("m1", expected_head=None), Facts(empty)).runs
    with pytest.raises(HeadMovedError) as raised:
        decided(request("m4", expected_head=None))
    assert (raised.value.expected, raised.value.head) == (None, "m3")


def test_an_id_given_twice_is_stored_once_and_what_follows_goes_on_after_it() -> None:
    writes = decided(request("m4", "m4", "m5"))
    rows = writes.result.rows
    assert rows == (AppendedRow(True, "m3"), AppendedRow(False, "m3", message("m4")), AppendedRow(True, "m4"))
    [run] = writes.runs
    assert [stored.id for stored in run.messages] == ["m4", "m5"]


def test_what_an_earlier_attempt_of_the_same_call_stored_counts_as_inserted() -> None:
    own = KnownMessage(Place(7, 2), message("m3"), "m2", is_own=True)
    assert decided(request("m3"), replace(HERE, known={"m3": own})).result.rows == (AppendedRow(True, "m2"),)


def test_an_id_given_twice_counts_as_inserted_once_at_a_second_attempt_too() -> None:
    own = KnownMessage(Place(7, 2), message("m3"), "m2", is_own=True)
    rows = decided(request("m3", "m3"), replace(HERE, known={"m3": own})).result.rows
    assert rows == (AppendedRow(True, "m2"), AppendedRow(False, "m2", message("m3")))


def test_a_full_segment_is_followed_by_a_new_one() -> None:
    full = SegmentRow(7, 1, None, SEGMENT_SIZE - 2, SEGMENT_SIZE - 1, -1, 9)
    facts = replace(HERE, session=replace(SESSION, head=Place(7, SEGMENT_SIZE - 2)), segments={7: full})
    writes = decided(request("m4", "m5", "m6"), facts)
    assert [(run.segment, run.first, len(run.messages)) for run in writes.runs] == [
        (7, SEGMENT_SIZE - 1, 1),
        (20, 0, 2),
    ]
    assert (writes.result.session.head, writes.result.session.view) == (Place(20, 1), "stale")


def test_positions_after_a_removed_end_are_not_used_again() -> None:
    shortened = SegmentRow(7, 1, None, 0, 3, -1, 9)
    facts = replace(HERE, session=replace(SESSION, head=Place(7, 0)), segments={7: shortened})
    assert decided(request("m4"), facts).result.session.head == Place(7, 3)


def test_time_never_runs_backwards() -> None:
    session = decided(request("m4", now=NOW - 5)).result.session
    assert (session.last_active_at, session.updated_at) == (NOW, NOW)


def test_an_append_of_nothing_creates_the_session_and_writes_no_rows() -> None:
    assert FOLLOW_HEAD is request().parent
    writes = decided(request(), Facts(None))
    assert (writes.result.rows, writes.result.created, writes.runs) == ((), True, ())
    assert decided(request()).result.session == SESSION
