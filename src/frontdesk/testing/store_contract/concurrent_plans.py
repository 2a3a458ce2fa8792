"""Two sessions that remove the same row at once: both plans are made before either of them is applied."""

from __future__ import annotations

from frontdesk.store import Item, OverlayItem, Span, Store
from frontdesk.testing.store_contract.steps import (
    NOW,
    add,
    at,
    cover,
    delete,
    delete_session,
    fork,
    message,
    path,
    replace,
    tree,
    uncover,
)
from frontdesk.tree import edits, plans


async def all_items(store: Store, session_id: str) -> list[Item]:
    """Everything that is stored for the family of a session."""
    rows = (await tree(store, session_id, family=True)).rows
    overlays = [OverlayItem(overlay.number, overlay.tokens, None) for overlay in rows.overlays]
    return [*(Span(segment.number, 0, 9, None) for segment in rows.segments), *overlays]


async def is_nothing_left(store: Store, items: list[Item]) -> bool:
    pieces = await store.read(items)
    return all(piece.messages == () and piece.overlay is None for piece in pieces)


class ConcurrentPlanContract:
    async def test_two_forks_deleted_at_once_remove_the_messages_of_their_deleted_source(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await cover(store, "s", "o", "m1", "m1")
        for name in ("f", "g"):
            await fork(store, "s", name)
        await delete_session(store, "s")
        items = await all_items(store, "f")
        first, second = [plans.delete_session((await tree(store, name, family=True)).rows, NOW) for name in ("f", "g")]
        assert await store.apply(first)
        assert not await store.apply(second)
        await delete_session(store, "g")
        assert await is_nothing_left(store, items)

    async def test_a_session_and_its_forks_deleted_at_once_leave_nothing(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        for name in ("f", "g"):
            await fork(store, "s", name)
        items = await all_items(store, "s")
        at_once = [plans.delete_session((await tree(store, name, family=True)).rows, NOW) for name in ("s", "f", "g")]
        assert [await store.apply(plan) for plan in at_once] == [True, False, False]
        for name in ("f", "g"):
            await delete_session(store, name)
        assert await is_nothing_left(store, items)

    async def test_a_message_that_two_sessions_delete_at_once_is_removed(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        items: list[Item] = [Span(at(await tree(store, "s", "m1"), "m1").segment, 0, 0, None)]
        views = [await tree(store, name, "m1", family=True) for name in ("s", "f")]
        first, second = [edits.delete_messages(view, [at(view, "m1")], NOW) for view in views]
        assert await store.apply(first)
        assert not await store.apply(second)
        await delete(store, "f", "m1")
        assert await is_nothing_left(store, items)
        assert await path(store, "s") == await path(store, "f") == ["m2"]

    async def test_a_summary_that_two_sessions_remove_at_once_is_removed(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await cover(store, "s", "o", "m1", "m1")
        await fork(store, "s", "f")
        views = [await tree(store, name, family=True) for name in ("s", "f")]
        first, second = [plans.remove_overlay(view, view.overlays[0], NOW) for view in views]
        assert await store.apply(first)
        assert not await store.apply(second)
        await uncover(store, "f", "o")
        assert (await tree(store, "s", family=True)).rows.overlays == ()

    async def test_a_text_that_two_sessions_replace_at_once_is_removed(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        segment = at(await tree(store, "s", "m1"), "m1").segment
        views = [await tree(store, name, "m1", family=True) for name in ("s", "f")]
        changed = message("m1", "changed")
        first, second = [edits.replace_message(view, at(view, "m1"), changed, 3, NOW) for view in views]
        assert await store.apply(first)
        assert not await store.apply(second)
        await replace(store, "f", changed)
        (piece,) = await store.read([Span(segment, 0, 0, None)])
        assert piece.messages == (changed,)
