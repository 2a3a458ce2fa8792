"""Content that forks share: it stays while any session of the family sees it, and is then removed."""

from __future__ import annotations

import msgspec

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
    measure,
    message,
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
from frontdesk.tree import edits, plans


async def raw_texts(store: Store, at: Place) -> list[str]:
    """The text of the row at a place, whether or not a session sees it."""
    [piece] = await store.read([Span(at.segment, at.position, at.position, None)])
    return [msgspec.json.decode(stored.raw)["content"] for stored in piece.messages]


class SharedContentContract:
    async def test_deleting_the_source_leaves_its_fork_complete(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "o", "m1", "m1")
        await fork(store, "s", "f", "m2")
        beyond = await place(store, "s", "m3")
        await delete_session(store, "s")
        assert await path(store, "f") == ["m1", "m2"]
        assert await view(store, "f") == ["o", "m2"]
        assert await raw_texts(store, beyond) == []
        assert not (await add(store, "f", "m1")).rows[0].inserted

    async def test_clearing_the_source_leaves_its_fork_complete(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await change(store, "s", lambda seen: plans.clear_messages(seen.rows, NOW))
        assert (await add(store, "s", "m1")).rows[0].inserted
        assert await path(store, "f") == ["m1", "m2"]
        assert await path(store, "s") == ["m1"]

    async def test_a_message_deleted_in_every_session_that_saw_it_is_removed(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        shared = await place(store, "s", "m1")
        await delete(store, "s", "m1")
        assert await raw_texts(store, shared) == ["text of m1"]
        await delete(store, "f", "m1")
        assert await raw_texts(store, shared) == []

    async def test_a_message_deleted_in_one_session_is_removed_with_the_last_other_session_that_saw_it(
        self, store: Store
    ) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        shared = await place(store, "s", "m1")
        await delete(store, "f", "m1")
        await delete_session(store, "s")
        assert await raw_texts(store, shared) == []
        assert await path(store, "f") == ["m2"]

    async def test_a_text_that_every_session_has_replaced_is_removed(self, store: Store) -> None:
        await add(store, "s", message("m1", "secret"), "m2")
        await fork(store, "s", "f")
        shared = await place(store, "s", "m1")
        await replace(store, "s", message("m1", "one"))
        await replace(store, "f", message("m1", "two"))
        assert "secret" not in await raw_texts(store, shared)
        assert ((await texts(store, "s"))["m1"], (await texts(store, "f"))["m1"]) == ("one", "two")

    async def test_a_replacement_is_removed_with_the_message_it_replaced(self, store: Store) -> None:
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

    async def test_a_message_that_is_no_longer_shared_can_be_replaced_again(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        await replace(store, "s", message("m1", "one", tokens=10))
        await delete_session(store, "f")
        await replace(store, "s", message("m1", "two", tokens=20))
        assert await texts(store, "s") == {"m1": "two", "m2": "text of m2"}
        assert (await settle(store, "s")).view_tokens == 23

    async def test_messages_shared_with_two_forks_are_still_shared_when_one_is_deleted(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await add(store, "s", "b1", parent="m1")
        await fork(store, "s", "f", "b1")
        await fork(store, "s", "g", "b1")
        await delete_session(store, "g")
        await replace(store, "s", message("m1", "changed"))
        assert await texts(store, "f") == {"m1": "text of m1", "b1": "text of b1"}
        await delete(store, "s", "m1", "b1")
        assert await path(store, "f") == ["m1", "b1"]

    async def test_an_overlay_that_no_session_sees_any_more_is_removed(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "inherited", "m1", "m1")
        await cover(store, "s", "beyond", "m2", "m3")
        await fork(store, "s", "f", "m1")
        await delete_session(store, "s")
        assert [overlay.id for overlay in (await tree(store, "f", family=True)).rows.overlays] == ["inherited"]
        await uncover(store, "f", "inherited")
        assert (await tree(store, "f", family=True)).rows.overlays == ()

    async def test_a_stored_view_stays_correct_when_the_rest_of_the_family_is_deleted(self, store: Store) -> None:
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

    async def test_deleting_the_last_session_of_a_family_removes_everything(self, store: Store) -> None:
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

    async def test_a_deletion_planned_before_a_fork_of_the_fork_removes_nothing_that_it_sees(
        self, store: Store
    ) -> None:
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

    async def test_a_deletion_is_refused_if_the_owner_is_forked_again_in_the_meantime(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        plan = plans.delete_session((await tree(store, "f", family=True)).rows, NOW)
        await fork(store, "s", "g")
        assert not await store.apply(plan)
        await delete_session(store, "f")
        await delete(store, "s", "m1")
        assert await path(store, "g") == ["m1", "m2"]
