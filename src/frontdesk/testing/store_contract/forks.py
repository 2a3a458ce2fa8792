"""Forks: one row, isolated both ways, and bytes that go when nobody sees them any more."""

from __future__ import annotations

import msgspec
import pytest

from frontdesk.errors import SessionExistsError
from frontdesk.store import Place, Span, Store
from frontdesk.testing.store_contract.steps import (
    NAMESPACE,
    NOW,
    add,
    at,
    change,
    cover,
    delete,
    delete_session,
    fork,
    fork_at_head,
    measure,
    message,
    new,
    path,
    place,
    replace,
    row,
    settle,
    texts,
    tree,
    uncover,
    view,
)
from frontdesk.tree import edits, forks, plans


async def raw_texts(store: Store, at: Place) -> list[str]:
    """What the row at a place says, whoever sees it."""
    [piece] = await store.read([Span(at.segment, at.position, at.position, None)])
    return [msgspec.json.decode(stored.raw)["content"] for stored in piece.messages]


async def _path(store: Store, session_id: str) -> list[Place]:
    """The segments on the way to the head, each with its last position on it."""
    seen = await tree(store, session_id)
    return seen.path(seen.session.head)


class ForkContract:
    async def test_a_fork_sees_the_path_to_its_point_and_no_more(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await add(store, "s", "b1", parent="m1")
        await fork(store, "s", "f", "m2")
        assert await path(store, "f") == ["m1", "m2"]
        session = await row(store, "f")
        assert (session.message_count, session.head, session.base) == (2, *[await place(store, "s", "m2")] * 2)
        seen = await tree(store, "f", "m3", "b1")
        assert (seen.find("m3"), seen.find("b1")) == (None, None)
        assert len(seen.leaves()) == 1

    async def test_a_fork_at_the_head_takes_the_known_view_with_it(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "o", "m1", "m2")
        await settle(store, "s")
        await fork(store, "s", "f")
        forked = await row(store, "f")
        assert (forked.view, forked.view_tokens, forked.view_messages, forked.compaction_count) == ("stored", 5, 2, 1)
        after = (await add(store, "f", message("f1", tokens=4))).session
        assert after.revision == forked.revision + 1
        assert (after.view, after.tail, after.view_tokens, after.view_messages) == ("stored", 0, 9, 3)
        assert await view(store, "f") == ["o", "m3", "f1"]

    async def test_a_fork_elsewhere_computes_its_view_when_it_is_read(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await fork(store, "s", "f", "m1")
        assert (await row(store, "f")).view == "stale"
        settled = await settle(store, "f")
        assert (settled.view_tokens, settled.view_messages) == (3, 1)

    async def test_a_fork_of_an_empty_session_is_empty(self, store: Store) -> None:
        await store.create(new("s"))
        await fork(store, "s", "f")
        forked = await row(store, "f")
        assert (forked.head, forked.view, forked.message_count) == (None, "plain", 0)
        await add(store, "f", "m1")
        assert await path(store, "f") == ["m1"]
        assert await path(store, "s") == []

    async def test_a_fork_raises_the_source_and_marks_what_is_shared(self, store: Store) -> None:
        before = (await add(store, "s", "m1", "m2", "m3")).session
        await fork(store, "s", "f", "m2")
        rows = (await tree(store, "s")).rows
        assert rows.session.revision == before.revision + 1 == rows.forked_until
        assert rows.session.message_count == 3
        assert [segment.shared for segment in rows.segments] == [1]

    async def test_a_taken_id_refuses_the_fork_and_leaves_nothing_behind(self, store: Store) -> None:
        before = (await add(store, "s", "m1")).session
        other, _ = await store.create(new("f", name="mine"))
        seen = await tree(store, "s")
        with pytest.raises(SessionExistsError):
            await store.apply(forks.fork(seen, new("f", name="yours"), seen.session.head, NOW))
        assert await row(store, "s") == before
        assert await row(store, "f") == other
        rows = (await tree(store, "s", family=True)).rows
        assert (rows.forked_until, rows.lineage, len(rows.sessions), rows.segments[0].shared) == (-1, (), 1, -1)

    # apart

    async def test_appends_go_to_their_own_side(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await add(store, "s", message("same", "in the source"))
        await add(store, "f", message("same", "in the fork"))
        assert await texts(store, "s") == {"m1": "text of m1", "m2": "text of m2", "same": "in the source"}
        assert await texts(store, "f") == {"m1": "text of m1", "m2": "text of m2", "same": "in the fork"}

    async def test_an_inherited_id_is_a_duplicate_in_the_fork(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await fork(store, "s", "f", "m2")
        result = await add(store, "f", "m1", "m3")
        assert [(row.inserted, row.parent_id) for row in result.rows] == [(False, None), (True, "m1")]

    async def test_an_inherited_message_can_be_a_parent(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await add(store, "f", "b1", parent="m1")
        assert await path(store, "f") == ["m1", "b1"]
        assert await path(store, "s") == ["m1", "m2"]

    @pytest.mark.parametrize(("changing", "other"), [("s", "f"), ("f", "s")])
    async def test_a_deletion_is_seen_on_its_own_side_only(self, store: Store, changing: str, other: str) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await fork(store, "s", "f")
        await delete(store, changing, "m2", "m3")
        assert await path(store, changing) == ["m1"]
        assert await path(store, other) == ["m1", "m2", "m3"]
        assert ((await row(store, changing)).message_count, (await row(store, other)).message_count) == (1, 3)
        assert (await add(store, changing, "m2")).rows[0].inserted
        assert not (await add(store, other, "m2")).rows[0].inserted

    @pytest.mark.parametrize(("changing", "other"), [("s", "f"), ("f", "s")])
    async def test_a_replacement_is_seen_on_its_own_side_only(self, store: Store, changing: str, other: str) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await replace(store, changing, message("m1", "changed", tokens=10))
        assert (await texts(store, changing))["m1"] == "changed"
        assert (await texts(store, other))["m1"] == "text of m1"
        assert (await add(store, changing, "m1")).rows[0].existing == message("m1", "changed", tokens=10)
        for name, tokens in ((changing, 13), (other, 6)):
            seen = await tree(store, name)
            assert await measure(store, seen, seen.lay(seen.session.head)) == tokens

    async def test_an_overlay_is_inherited_if_it_was_there_before_the_fork(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "before", "m1", "m2")
        await cover(store, "s", "beyond", "m3", "m3")
        await fork(store, "s", "f", "m2")
        await uncover(store, "s", "before")
        await cover(store, "s", "after", "m1", "m1")
        await cover(store, "f", "mine", "m2", "m2", summary=None)
        assert await view(store, "f") == ["m1"]
        await uncover(store, "f", "mine")
        assert await view(store, "f") == ["before"]
        assert await view(store, "s") == ["after", "m2", "beyond"]

    async def test_a_fork_of_a_fork_inherits_from_both(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await replace(store, "f", message("m1", "changed by f"))
        await add(store, "f", "f1")
        await fork(store, "f", "g")
        await replace(store, "f", message("m1", "changed again"))
        await delete(store, "s", "m2")
        await add(store, "g", "g1")
        assert await texts(store, "g") == {
            "m1": "changed by f",
            "m2": "text of m2",
            "f1": "text of f1",
            "g1": "text of g1",
        }
        assert await path(store, "s") == ["m1"]

    # by row and view alone

    async def test_a_fork_at_the_head_needs_only_the_row_and_its_view(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3", "m4")
        await add(store, "s", "b1", "b2", parent="m2")
        await cover(store, "s", "aside", "m3", "m4")
        await cover(store, "s", "o", "m1", "m2")
        await settle(store, "s")
        await add(store, "s", "b3")
        made = await fork_at_head(store, "s", "f")
        assert made is not None
        assert dict(made.share) == {place.segment: place.position for place in await _path(store, "s")}
        forked = await row(store, "f")
        assert (forked.message_count, forked.compaction_count, forked.view) == (5, 1, "stored")
        assert await path(store, "f") == ["m1", "m2", "b1", "b2", "b3"]
        assert await view(store, "f") == ["o", "b1", "b2", "b3"]
        await replace(store, "s", message("m1", "changed"))
        await delete(store, "s", "b1")
        assert (await texts(store, "f"))["m1"] == "text of m1"
        assert await path(store, "f") == ["m1", "m2", "b1", "b2", "b3"]

    async def test_a_fork_shares_again_what_a_fork_that_went_had_shared(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await add(store, "s", "b1", parent="m1")
        await fork(store, "s", "f")
        await settle(store, "s")
        await delete_session(store, "f")
        assert (await row(store, "s")).view == "stored"
        assert await fork_at_head(store, "s", "g") is not None
        await replace(store, "s", message("m1", "changed"))
        assert await texts(store, "g") == {"m1": "text of m1", "b1": "text of b1"}

    async def test_where_the_view_is_not_known_the_tree_is_needed(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await cover(store, "s", "o", "m1", "m1")
        assert await fork_at_head(store, "s", "f") is None
        assert await store.get(NAMESPACE, "f") is None

    async def test_a_new_root_leaves_the_earlier_one_out_of_a_fork(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await cover(store, "s", "o", "m1", "m2")
        await settle(store, "s")
        await add(store, "s", "r1", parent=None)
        assert await fork_at_head(store, "s", "f") is not None
        forked = await row(store, "f")
        assert (forked.message_count, forked.compaction_count) == (1, 0)
        assert await path(store, "f") == ["r1"]

    # forks of forks

    async def test_every_fork_adds_one_row_of_lineage_however_deep_it_is(self, store: Store) -> None:
        depth = 40
        await add(store, "f0", "m0")
        for number in range(depth):
            made = await fork_at_head(store, f"f{number}", f"f{number + 1}")
            assert made is not None
            assert len(made.share) == 1
            await add(store, f"f{number + 1}", f"m{number + 1}")
        deepest = (await tree(store, f"f{depth}")).rows
        assert len(deepest.lineage) == depth == len((await tree(store, "f0", family=True)).rows.lineage)
        assert deepest.session.message_count == depth + 1
        assert await path(store, f"f{depth}") == [f"m{number}" for number in range(depth + 1)]

    @pytest.mark.parametrize("gone", [("f",), ("s",), ("s", "f"), ("f", "s")])
    async def test_a_fork_keeps_what_it_inherits_through_those_that_are_gone(
        self, store: Store, gone: tuple[str, ...]
    ) -> None:
        await add(store, "s", "m1", "m2", "m3", "m4")
        await replace(store, "s", message("m1", "changed by s"))
        await cover(store, "s", "o", "m2", "m2")
        await fork(store, "s", "f")
        await delete(store, "f", "m3")
        await add(store, "f", "f1")
        await fork(store, "f", "g")
        await replace(store, "f", message("m1", "changed too late"))
        await uncover(store, "s", "o")
        for session_id in gone:
            await delete_session(store, session_id)
        inherited = {"m1": "changed by s", "m2": "text of m2", "m4": "text of m4"}
        assert await texts(store, "g") == {**inherited, "f1": "text of f1"}
        assert await view(store, "g") == ["m1", "o", "m4", "f1"]
        assert [row.inserted for row in (await add(store, "g", "m1", "m3")).rows] == [False, True]
        assert (await add(store, "g", "m1")).rows[0].existing == message("m1", "changed by s")

    async def test_lineage_stays_while_a_living_session_descends_through_it(self, store: Store) -> None:
        await add(store, "s", "m1")
        for source, made in (("s", "f"), ("f", "g"), ("g", "h")):
            await fork(store, source, made)
        await delete_session(store, "f")
        await change(store, "g", lambda seen: plans.clear_messages(seen.rows, NOW))
        lineage = (await tree(store, "h")).rows.lineage
        assert len(lineage) == 3
        assert {line.ancestor for line in lineage} - {line.tree for line in lineage} == {(await row(store, "s")).tree}
        assert (await tree(store, "g")).rows.lineage == ()
        assert (await tree(store, "s")).rows.forked_until >= 0
        await delete_session(store, "h")
        assert (await tree(store, "s")).rows.forked_until == -1
        assert (await tree(store, "s", family=True)).rows.lineage == ()

    # what goes

    async def test_a_source_that_is_deleted_leaves_its_fork_whole(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "o", "m1", "m1")
        await fork(store, "s", "f", "m2")
        beyond = await place(store, "s", "m3")
        await delete_session(store, "s")
        assert await path(store, "f") == ["m1", "m2"]
        assert await view(store, "f") == ["o", "m2"]
        assert await raw_texts(store, beyond) == []
        assert not (await add(store, "f", "m1")).rows[0].inserted

    async def test_a_source_that_is_cleared_leaves_its_fork_whole(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await change(store, "s", lambda seen: plans.clear_messages(seen.rows, NOW))
        assert (await add(store, "s", "m1")).rows[0].inserted
        assert await path(store, "f") == ["m1", "m2"]
        assert await path(store, "s") == ["m1"]

    async def test_a_message_deleted_by_all_who_saw_it_is_gone(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        shared = await place(store, "s", "m1")
        await delete(store, "s", "m1")
        assert await raw_texts(store, shared) == ["text of m1"]
        await delete(store, "f", "m1")
        assert await raw_texts(store, shared) == []

    async def test_a_message_deleted_by_one_goes_with_the_last_other_that_saw_it(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        shared = await place(store, "s", "m1")
        await delete(store, "f", "m1")
        await delete_session(store, "s")
        assert await raw_texts(store, shared) == []
        assert await path(store, "f") == ["m2"]

    async def test_a_text_that_all_have_replaced_is_gone(self, store: Store) -> None:
        await add(store, "s", message("m1", "secret"), "m2")
        await fork(store, "s", "f")
        shared = await place(store, "s", "m1")
        await replace(store, "s", message("m1", "one"))
        await replace(store, "f", message("m1", "two"))
        assert "secret" not in await raw_texts(store, shared)
        assert ((await texts(store, "s"))["m1"], (await texts(store, "f"))["m1"]) == ("one", "two")

    async def test_a_replacement_goes_with_the_message_it_replaced(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await replace(store, "f", message("m1", "one"))
        await replace(store, "f", message("m1", "two"))
        edits = (await tree(store, "s", family=True)).rows.edits
        assert [edit.message for edit in edits if edit.message] == [message("m1", "two")]
        await delete(store, "f", "m1")
        edits = (await tree(store, "s", family=True)).rows.edits
        assert [edit.message for edit in edits if edit.message] == []

    async def test_an_inherited_replacement_that_was_replaced_again_stays_hidden(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await replace(store, "s", message("m1", "inherited"))
        await fork(store, "s", "g")
        await replace(store, "g", message("m1", "mine"))
        await delete_session(store, "s")
        await delete_session(store, "f")
        assert (await texts(store, "g"))["m1"] == "mine"
        edits = (await tree(store, "g", family=True)).rows.edits
        assert [edit.message for edit in edits if edit.message] == [message("m1", "mine")]

    async def test_a_message_that_was_shared_once_can_be_replaced_again(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await replace(store, "s", message("m1", "one", tokens=10))
        await delete_session(store, "f")
        await replace(store, "s", message("m1", "two", tokens=20))
        assert await texts(store, "s") == {"m1": "two", "m2": "text of m2"}
        assert (await settle(store, "s")).view_tokens == 23

    async def test_what_two_forks_shared_is_still_shared_with_one(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await add(store, "s", "b1", parent="m1")
        await fork(store, "s", "f", "b1")
        await fork(store, "s", "g", "b1")
        await delete_session(store, "g")
        await replace(store, "s", message("m1", "changed"))
        assert await texts(store, "f") == {"m1": "text of m1", "b1": "text of b1"}
        await delete(store, "s", "m1", "b1")
        assert await path(store, "f") == ["m1", "b1"]

    async def test_an_overlay_that_nobody_sees_any_more_is_gone(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "inherited", "m1", "m1")
        await cover(store, "s", "beyond", "m2", "m3")
        await fork(store, "s", "f", "m1")
        await delete_session(store, "s")
        assert [overlay.id for overlay in (await tree(store, "f", family=True)).rows.overlays] == ["inherited"]
        await uncover(store, "f", "inherited")
        assert (await tree(store, "f", family=True)).rows.overlays == ()

    async def test_a_stored_view_stays_right_when_the_rest_of_the_family_leaves(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await replace(store, "f", message("m1", "changed"))
        await settle(store, "f")
        await delete_session(store, "s")
        assert (await row(store, "f")).view == "stored"
        assert await texts(store, "f") == {"m1": "changed", "m2": "text of m2"}
        await replace(store, "f", message("m1", "changed again", tokens=20))
        assert (await texts(store, "f"))["m1"] == "changed again"
        seen = await tree(store, "f")
        assert await measure(store, seen, seen.lay(seen.session.head)) == 23

    async def test_the_last_session_of_a_family_takes_everything_with_it(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await cover(store, "s", "o", "m1", "m2")
        await fork(store, "s", "f")
        await replace(store, "f", message("m1", "changed"))
        await add(store, "f", "f1")
        family = await tree(store, "f", "m1", family=True)
        items = [Span(segment.number, 0, 9, None) for segment in family.rows.segments]
        assert at(family, "m1").segment in family.segments
        await delete_session(store, "s")
        await delete_session(store, "f")
        assert [piece.messages for piece in await store.read(items)] == [()] * len(items)
        assert await store.get(NAMESPACE, "f") is None

    async def test_a_plan_made_before_a_fork_is_refused(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        seen = await tree(store, "s", "m1", family=True)
        plan = edits.delete_messages(seen, [at(seen, "m1")], NOW)
        await fork(store, "s", "f")
        assert not await store.apply(plan)
        assert await path(store, "f") == ["m1", "m2"]

    async def test_a_release_made_before_a_fork_of_the_fork_takes_nothing_from_it(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await cover(store, "s", "o", "m1", "m1")
        await fork(store, "s", "f")
        plan = plans.delete_session((await tree(store, "s", family=True)).rows, NOW)
        await fork(store, "f", "g")
        assert not await store.apply(plan)
        await delete_session(store, "s")
        for session_id in ("f", "g"):
            assert await path(store, session_id) == ["m1", "m2"]
            assert len((await tree(store, session_id)).overlays) == 1

    async def test_a_release_is_refused_if_the_owner_shares_again_meanwhile(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        plan = plans.delete_session((await tree(store, "f", family=True)).rows, NOW)
        await fork(store, "s", "g")
        assert not await store.apply(plan)
        await delete_session(store, "f")
        await delete(store, "s", "m1")
        assert await path(store, "g") == ["m1", "m2"]
