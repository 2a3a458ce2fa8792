"""Forks: one row each, isolated from their source in both directions."""

from __future__ import annotations

import pytest

from frontdesk.errors import SessionExistsError
from frontdesk.store import Place, Store
from frontdesk.testing.store_contract.steps import (
    NAMESPACE,
    NOW,
    add,
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
from frontdesk.tree import forks, plans


async def _path(store: Store, session_id: str) -> list[Place]:
    """The segments on the path to the head, each with its last position on the path."""
    seen = await tree(store, session_id)
    return seen.path(seen.session.head)


class ForkContract:
    async def test_a_fork_sees_the_path_to_its_fork_point_and_nothing_else(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await add(store, "s", "b1", parent="m1")
        await fork(store, "s", "f", "m2")
        assert await path(store, "f") == ["m1", "m2"]
        session = await row(store, "f")
        assert (session.message_count, session.head, session.base) == (2, *[await place(store, "s", "m2")] * 2)
        seen = await tree(store, "f", "m3", "b1")
        assert (seen.find("m3"), seen.find("b1")) == (None, None)
        assert len(seen.leaves()) == 1

    async def test_a_fork_at_the_head_inherits_the_stored_view(self, store: Store) -> None:
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

    async def test_a_fork_at_another_message_starts_with_a_stale_view(self, store: Store) -> None:
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

    async def test_a_fork_raises_the_revision_of_its_source_and_marks_the_shared_messages(self, store: Store) -> None:
        before = (await add(store, "s", "m1", "m2", "m3")).session
        await fork(store, "s", "f", "m2")
        rows = (await tree(store, "s")).rows
        assert rows.session.revision == before.revision + 1 == rows.forked_until
        assert rows.session.message_count == 3
        assert [segment.shared for segment in rows.segments] == [1]

    async def test_a_fork_with_a_taken_id_is_refused_and_changes_nothing(self, store: Store) -> None:
        before = (await add(store, "s", "m1")).session
        other, _ = await store.create(new("f", name="mine"))
        seen = await tree(store, "s")
        with pytest.raises(SessionExistsError):
            await store.apply(forks.fork(seen, new("f", name="yours"), seen.session.head, NOW))
        assert await row(store, "s") == before
        assert await row(store, "f") == other
        rows = (await tree(store, "s", family=True)).rows
        assert (rows.forked_until, rows.lineage, len(rows.sessions), rows.segments[0].shared) == (-1, (), 1, -1)

    # isolation

    async def test_appends_to_source_and_fork_do_not_affect_each_other(self, store: Store) -> None:
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
        assert [(row.inserted, row.parent_id) for row in result.rows] == [(False, None), (True, "m2")]

    async def test_an_inherited_message_can_be_a_parent(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await add(store, "f", "b1", parent="m1")
        assert await path(store, "f") == ["m1", "b1"]
        assert await path(store, "s") == ["m1", "m2"]

    @pytest.mark.parametrize(("changing", "other"), [("s", "f"), ("f", "s")])
    async def test_a_deletion_is_visible_only_in_its_own_session(self, store: Store, changing: str, other: str) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await fork(store, "s", "f")
        await delete(store, changing, "m2", "m3")
        assert await path(store, changing) == ["m1"]
        assert await path(store, other) == ["m1", "m2", "m3"]
        assert ((await row(store, changing)).message_count, (await row(store, other)).message_count) == (1, 3)
        assert (await add(store, changing, "m2")).rows[0].inserted
        assert not (await add(store, other, "m2")).rows[0].inserted

    @pytest.mark.parametrize(("changing", "other"), [("s", "f"), ("f", "s")])
    async def test_a_replacement_is_visible_only_in_its_own_session(
        self, store: Store, changing: str, other: str
    ) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await replace(store, changing, message("m1", "changed", tokens=10))
        assert (await texts(store, changing))["m1"] == "changed"
        assert (await texts(store, other))["m1"] == "text of m1"
        assert (await add(store, changing, "m1")).rows[0].existing == message("m1", "changed", tokens=10)
        for name, tokens in ((changing, 13), (other, 6)):
            seen = await tree(store, name)
            assert await measure(store, seen, seen.lay(seen.session.head)) == tokens

    async def test_an_overlay_is_inherited_if_it_is_older_than_the_fork(self, store: Store) -> None:
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

    # without loading the tree

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

    async def test_a_new_fork_shares_messages_that_a_deleted_fork_had_shared(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await add(store, "s", "b1", parent="m1")
        await fork(store, "s", "f")
        await settle(store, "s")
        await delete_session(store, "f")
        assert (await row(store, "s")).view == "stored"
        assert await fork_at_head(store, "s", "g") is not None
        await replace(store, "s", message("m1", "changed"))
        assert await texts(store, "g") == {"m1": "text of m1", "b1": "text of b1"}

    async def test_a_fork_without_the_tree_is_impossible_while_the_view_is_stale(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await cover(store, "s", "o", "m1", "m1")
        assert await fork_at_head(store, "s", "f") is None
        assert await store.get(NAMESPACE, "f") is None

    async def test_a_fork_after_a_new_root_leaves_out_the_earlier_root(self, store: Store) -> None:
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
    async def test_a_fork_keeps_what_it_inherited_through_deleted_sessions(
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

    async def test_lineage_stays_while_an_existing_session_descends_through_it(self, store: Store) -> None:
        await add(store, "s", "m1")
        for source, made in (("s", "f"), ("f", "g"), ("g", "h")):
            await fork(store, source, made)
        await delete_session(store, "f")
        await change(store, "g", lambda seen: plans.clear_messages(seen.rows, NOW))
        lineage = (await tree(store, "h")).rows.lineage
        assert len(lineage) == 3
        assert {link.ancestor for link in lineage} - {link.tree for link in lineage} == {(await row(store, "s")).tree}
        assert (await tree(store, "g")).rows.lineage == ()
        assert (await tree(store, "s")).rows.forked_until >= 0
        await delete_session(store, "h")
        assert (await tree(store, "s")).rows.forked_until == -1
        assert (await tree(store, "s", family=True)).rows.lineage == ()
