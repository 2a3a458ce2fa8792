"""Appends: the place of a message, duplicate ids, refused appends, and the values of the session that change."""

from __future__ import annotations

import pytest

from frontdesk.errors import HeadMovedError, InvalidRangeError, MessageNotFoundError, SessionNotFoundError
from frontdesk.messages.stored import StoredMessage
from frontdesk.store import Append, Place, Store
from frontdesk.testing.store_contract.steps import (
    NAMESPACE,
    NOW,
    add,
    cover,
    delete,
    message,
    new,
    path,
    place,
    row,
    settle,
    tree,
)

RAW_TEXTS = (
    '{"content":"nul \\u0000 and \\ud83e\\udd8a escaped"}',
    '{"content": "big", "n": 123456789012345678901234567890, "f": 1.10e+5, "z": -0.0}',
    '{ "b":1,\t"a":2,"b":3 }',
    '{"content":"会話 🦊 e\u0301 \u00e9 \u202e \ufeff"}',
    '{"content":"' + "long " * 20_000 + '"}',
    '{"content":"\'; drop table messages; -- %s $1 ?"}',
)


class AppendContract:
    async def test_an_append_for_an_existing_session_does_not_create_one(self, store: Store) -> None:
        wanted = Append(
            namespace=NAMESPACE, session_id="s", messages=(message("m1"),), fresh=(False,), now=NOW, existing=True
        )
        with pytest.raises(SessionNotFoundError):
            await store.append(wanted)
        assert await store.get(NAMESPACE, "s") is None
        await add(store, "s", "m0")
        assert not (await store.append(wanted)).created

    async def test_the_first_append_creates_the_session(self, store: Store) -> None:
        result = await add(store, "s", "m1", now=NOW + 5)
        made = result.session
        assert made == await row(store, "s")
        assert (made.created_at, made.updated_at, made.last_active_at) == (NOW + 5,) * 3
        assert (made.message_count, made.status, made.key_current) == (1, "active", False)

    async def test_an_append_follows_the_head(self, store: Store) -> None:
        results = [await add(store, "s", id) for id in ("m1", "m2", "m3")]
        assert [result.rows[0].parent_id for result in results] == [None, "m1", "m2"]
        assert await path(store, "s") == ["m1", "m2", "m3"]

    async def test_a_batch_is_chained(self, store: Store) -> None:
        result = await add(store, "s", "m1", "m2", "m3")
        assert [(row.inserted, row.parent_id) for row in result.rows] == [(True, None), (True, "m1"), (True, "m2")]
        assert await path(store, "s") == ["m1", "m2", "m3"]

    async def test_a_given_parent_opens_a_branch_and_moves_the_head(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        result = await add(store, "s", "b1", "b2", parent="m1")
        assert [row.parent_id for row in result.rows] == ["m1", "b1"]
        assert await path(store, "s") == ["m1", "b1", "b2"]
        assert await path(store, "s", "m3") == ["m1", "m2", "m3"]

    async def test_an_append_can_continue_an_older_branch(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await add(store, "s", "b1", parent="m1")
        await add(store, "s", "m3", parent="m2")
        assert await path(store, "s") == ["m1", "m2", "m3"]
        assert (await place(store, "s", "m3")).segment == (await place(store, "s", "m2")).segment

    async def test_no_parent_starts_a_new_root(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        result = await add(store, "s", "r1", parent=None)
        assert result.rows[0].parent_id is None
        assert await path(store, "s") == ["r1"]
        seen = await tree(store, "s")
        assert len(seen.children(None)) == 2

    async def test_an_unknown_parent_is_refused_and_nothing_is_written(self, store: Store) -> None:
        with pytest.raises(MessageNotFoundError) as raised:
            await add(store, "s", "m1", parent="missing")
        assert (raised.value.message_id, raised.value.session_id) == ("missing", "s")
        assert await store.get(NAMESPACE, "s") is None

    async def test_a_parent_of_another_session_is_unknown(self, store: Store) -> None:
        await add(store, "other", "m1")
        before = (await add(store, "s", "x1")).session
        with pytest.raises(MessageNotFoundError):
            await add(store, "s", "x2", parent="m1")
        assert await row(store, "s") == before

    async def test_a_deleted_parent_is_unknown(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await delete(store, "s", "m2")
        with pytest.raises(MessageNotFoundError):
            await add(store, "s", "x", parent="m2")

    # duplicate ids

    async def test_appending_an_existing_id_changes_nothing_and_reports_the_duplicate(self, store: Store) -> None:
        before = (await add(store, "s", message("m1", "first"), "m2")).session
        result = await add(store, "s", message("m1", "second", tokens=50), now=NOW + 9)
        assert result.rows[0].inserted is False
        assert result.rows[0].existing == message("m1", "first")
        assert result.rows[0].parent_id is None
        assert result.session == before == await row(store, "s")

    async def test_the_same_id_twice_in_one_request_is_inserted_once(self, store: Store) -> None:
        result = await add(store, "s", message("m1", "first"), message("m1", "second"), "m2")
        assert [(row.inserted, row.parent_id) for row in result.rows] == [(True, None), (False, None), (True, "m1")]
        assert result.rows[1].existing == message("m1", "first")
        assert result.session.message_count == 2

    async def test_a_batch_without_a_parent_skips_duplicates_and_continues_after_the_head(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        result = await add(store, "s", "m4", "m1", "m5", "m2")
        assert [(row.inserted, row.parent_id) for row in result.rows] == [
            (True, "m3"),
            (False, None),
            (True, "m4"),
            (False, "m1"),
        ]
        assert await path(store, "s") == ["m1", "m2", "m3", "m4", "m5"]

    async def test_a_batch_of_duplicates_leaves_the_head(self, store: Store) -> None:
        before = (await add(store, "s", "m1", "m2", "m3")).session
        await add(store, "s", "m2", "m1")
        assert await row(store, "s") == before

    async def test_a_batch_with_a_parent_is_a_path_that_known_messages_must_be_on(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        result = await add(store, "s", "m2", "b3", "b4", parent="m1")
        assert [(row.inserted, row.parent_id) for row in result.rows] == [(False, "m1"), (True, "m2"), (True, "b3")]
        assert await path(store, "s") == ["m1", "m2", "b3", "b4"]
        before = await row(store, "s")
        for ids, parent in ((("x", "m3"), "m2"), (("m3", "x"), "m1"), (("m1", "m3"), None), (("x", "x"), "m3")):
            with pytest.raises(InvalidRangeError):
                await add(store, "s", *ids, parent=parent)
        assert await row(store, "s") == before

    async def test_a_path_that_is_sent_again_changes_nothing(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await add(store, "s", "b2", "b3", parent="m1")
        before = (await add(store, "s", "m3", parent="m2")).session
        result = await add(store, "s", "b2", "b3", parent="m1")
        assert [(row.inserted, row.parent_id) for row in result.rows] == [(False, "m1"), (False, "b2")]
        assert await row(store, "s") == before

    async def test_the_same_id_in_another_session_is_another_message(self, store: Store) -> None:
        await add(store, "s", "m1")
        assert (await add(store, "t", "m1")).rows[0].inserted

    async def test_a_deleted_id_may_be_used_again(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await delete(store, "s", "m2")
        result = await add(store, "s", "m2")
        assert (result.rows[0].inserted, result.rows[0].parent_id) == (True, "m3")
        assert await path(store, "s") == ["m1", "m3", "m2"]

    async def test_a_retry_changes_nothing_even_if_its_parent_was_deleted(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await delete(store, "s", "m1")
        assert (await add(store, "s", "m2", parent="m1")).rows[0].inserted is False

    # expected head

    async def test_an_append_succeeds_if_the_head_is_the_expected_one(self, store: Store) -> None:
        await add(store, "s", "m1")
        assert (await add(store, "s", "m2", expected_head="m1")).rows[0].inserted

    async def test_a_different_head_refuses_the_whole_batch_and_is_reported(self, store: Store) -> None:
        before = (await add(store, "s", "m1", "m2")).session
        with pytest.raises(HeadMovedError) as raised:
            await add(store, "s", "m1", "m3", expected_head="m1")
        assert (raised.value.expected, raised.value.head, raised.value.session_id) == ("m1", "m2", "s")
        assert await row(store, "s") == before

    async def test_an_expected_head_in_a_missing_session_is_refused_and_creates_no_session(self, store: Store) -> None:
        with pytest.raises(HeadMovedError) as raised:
            await add(store, "s", "m1", expected_head="m0")
        assert raised.value.head is None
        assert await store.get(NAMESPACE, "s") is None

    async def test_no_head_can_be_expected(self, store: Store) -> None:
        assert (await add(store, "s", "m1", expected_head=None)).created
        with pytest.raises(HeadMovedError) as raised:
            await add(store, "s", "m2", expected_head=None)
        assert (raised.value.expected, raised.value.head) == (None, "m1")
        assert (await add(store, "s", "m1", expected_head=None)).rows[0].inserted is False
        await delete(store, "s", "m1")
        assert (await add(store, "s", "m3", expected_head=None)).rows[0].inserted
        assert await path(store, "s") == ["m3"]

    async def test_a_retry_succeeds_although_the_head_has_moved(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        result = await add(store, "s", "m2", "m3", expected_head="m1")
        assert [row.inserted for row in result.rows] == [False, False]

    async def test_a_moved_head_is_reported_before_an_unknown_parent(self, store: Store) -> None:
        await add(store, "s", "m1")
        with pytest.raises(HeadMovedError):
            await add(store, "s", "m2", expected_head="m0", parent="missing")

    # what changes in the session

    async def test_counters_head_and_activity_move_with_the_message(self, store: Store) -> None:
        await store.create(new("s"))
        first = (await add(store, "s", message("m1", tokens=3), message("m2", tokens=4), now=NOW + 1)).session
        assert (first.message_count, first.view_tokens, first.view_messages) == (2, 7, 2)
        assert (first.view, first.tail, first.head) == ("plain", 0, await place(store, "s", "m2"))
        assert (first.created_at, first.updated_at, first.last_active_at) == (NOW, NOW + 1, NOW + 1)
        second = (await add(store, "s", message("m3", tokens=5), now=NOW - 1)).session
        assert (second.message_count, second.view_tokens, second.view_messages) == (3, 12, 3)
        assert (second.updated_at, second.last_active_at) == (NOW + 1, NOW + 1)
        assert second == await row(store, "s")

    async def test_extending_a_segment_keeps_the_revision_and_opening_one_raises_it(self, store: Store) -> None:
        created, _ = await store.create(new("s"))
        first = (await add(store, "s", "m1", "m2")).session.revision
        assert first > created.revision
        assert (await add(store, "s", "m3")).session.revision == first
        branch = (await add(store, "s", "b1", parent="m1")).session.revision
        assert branch > first
        assert (await add(store, "s", "m4", parent="m3")).session.revision > branch

    async def test_a_branch_makes_the_view_stale(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        assert (await add(store, "s", "b1", parent="m1")).session.view == "stale"
        assert (await settle(store, "s")).view != "stale"
        assert (await add(store, "s", "m3", parent="m2")).session.view == "stale"

    async def test_a_new_root_starts_a_plain_view(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await cover(store, "s", "o", "m1", "m1")
        await settle(store, "s")
        made = (await add(store, "s", message("r1", tokens=9), parent=None)).session
        assert (made.view, made.tail, made.view_tokens, made.view_messages) == ("plain", 0, 9, 1)
        read = await store.view(NAMESPACE, "s")
        assert read is not None
        assert [[m.id for m in piece.messages] for piece in read.pieces] == [["r1"]]

    async def test_an_append_extends_a_stored_view(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "o", "m1", "m2")
        stored = await settle(store, "s")
        third = await place(store, "s", "m3")
        assert (stored.view, stored.tail, stored.view_tokens, stored.view_messages) == ("stored", third.position, 5, 2)
        more = (await add(store, "s", message("m4", tokens=4))).session
        assert (more.view, more.tail, more.view_tokens, more.view_messages) == ("stored", third.position, 9, 3)

    async def test_positions_of_deleted_messages_are_never_reused(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        gone = await place(store, "s", "m2")
        await delete(store, "s", "m2")
        await add(store, "s", "m3")
        assert await place(store, "s", "m3") == Place(gone.segment, gone.position + 1)
        assert await path(store, "s") == ["m1", "m3"]

    @pytest.mark.parametrize("raw", RAW_TEXTS, ids=["escapes", "numbers", "layout", "unicode", "long", "sql"])
    async def test_the_raw_text_comes_back_byte_for_byte(self, store: Store, raw: str) -> None:
        given = StoredMessage("m", "tool", 2**40, NOW - 2**50, raw, '{"text":"\\u0000"}')
        await add(store, "s", given)
        seen = await tree(store, "s")
        [piece] = await store.read(seen.lay(seen.session.head))
        assert piece.messages == (given,)
