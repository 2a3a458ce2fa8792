"""The change log: one entry for every change, in the order of commits, nothing lost, nothing repeated."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from frontdesk.errors import ChangesRewoundError, ChangesTrimmedError
from frontdesk.messages.ids import new_id
from frontdesk.store import BEGINNING, ChangeRow, DocumentRow, NewChange, Owner, Position, Store, UsageRow
from frontdesk.testing.store_contract import steps
from frontdesk.testing.store_contract.steps import NAMESPACE, NOW, add, change, message, new, path, place, row, tree
from frontdesk.tree import plans

WRITERS = 8
PATIENCE = 60.0
"""Seconds until committed entries must be settled: other transactions may still be running."""


async def settled(store: Store, count: int, after: Position | None = None, limit: int = 1000) -> list[ChangeRow]:
    """The next entries, as soon as so many are settled."""
    async with asyncio.timeout(PATIENCE):
        while True:
            entries = await store.changes(NAMESPACE, after, limit)
            if len(entries) >= min(count, limit):
                return entries
            await asyncio.sleep(0.005)


async def logged(store: Store) -> list[tuple[str, str | None, Any]]:
    """(kind, session id, detail) of every committed entry."""
    entries = await store.changes(NAMESPACE, None, 1000, settled=False)
    return [(entry.kind, entry.session_id, msgspec.json.decode(entry.detail or "null")) for entry in entries]


def document(label: str, version: int = 1) -> DocumentRow:
    return DocumentRow(label=label, version=version, content="secret", created_at=NOW)


class ChangeLogContract:
    async def test_an_entry_can_be_added_without_a_change(self, store: Store) -> None:
        await add(store, "s", "m1")
        before = await row(store, "s")
        entry = NewChange(kind="compaction.started", detail='{"trigger":"manual"}')
        assert await store.log_change(NAMESPACE, "s", NOW + 7, entry)
        assert not await store.log_change(NAMESPACE, "missing", NOW, entry)
        assert not await store.log_change("elsewhere", "s", NOW, entry)
        assert await row(store, "s") == before
        added = (await settled(store, 3))[-1]
        assert (added.kind, added.session_id, added.at) == ("compaction.started", "s", NOW + 7)
        assert added.detail == entry.detail
        assert await store.apply(plans.change_row(before, NOW, name="not disturbed"))
        await steps.delete_session(store, "s")
        assert [kind for kind, _, _ in await logged(store)] == ["session.deleted"]

    async def test_every_change_of_a_session_is_logged_once_and_in_order(self, store: Store) -> None:
        made, _ = await store.create(new("s", parent_session_id="elsewhere"))
        await add(store, "s", "m1", "m2", "m3")
        await steps.replace(store, "s", message("m2", "changed"))
        await steps.cover(store, "s", "o", "m1", "m2")
        await steps.uncover(store, "s", "o")
        await steps.delete(store, "s", "m3")
        await change(store, "s", lambda seen: plans.switch(seen, seen.rows.found[0].place, NOW), "m1")
        await store.apply(plans.change_row(await row(store, "s"), NOW, status="archived", end_reason="new"))
        await store.apply(plans.change_row(await row(store, "s"), NOW, name="private", metadata='{"a": "private"}'))
        await store.put_document(NAMESPACE, Owner("session", "s"), document("memory"))
        await store.put_document(NAMESPACE, Owner("namespace"), document("shared"))
        await store.add_usage(NAMESPACE, "s", UsageRow(id="u", at=NOW, day="2026-01-01", input_tokens=1))
        await change(store, "s", lambda seen: plans.clear_messages(seen.rows, NOW))
        assert await logged(store) == [
            ("session.created", "s", {"parent": "elsewhere"}),
            ("message.appended", "s", None),
            ("message.updated", "s", None),
            ("compaction.added", "s", {"id": "o", "kind": "summary"}),
            ("compaction.removed", "s", {"id": "o"}),
            ("message.deleted", "s", {"ids": ["m3"]}),
            ("head.moved", "s", None),
            ("session.changed", "s", {"status": "archived", "end_reason": "new", "changed": ["end_reason", "status"]}),
            ("session.changed", "s", {"changed": ["metadata", "name"]}),
            ("block.changed", "s", {"label": "memory", "scope": "session"}),
            ("block.changed", None, {"label": "shared", "scope": "namespace"}),
            ("usage.added", "s", None),
            ("messages.cleared", "s", None),
        ]
        entries = await settled(store, 13)
        assert {entry.session for entry in entries} == {made.number, 0}
        assert {entry.at for entry in entries} == {NOW}
        assert entries == await store.changes(NAMESPACE, None, 1000, settled=False)
        assert sorted(entry.position for entry in entries) == [entry.position for entry in entries]
        assert min(entry.position for entry in entries) > BEGINNING
        assert await store.last_change(NAMESPACE) == entries[-1].position

    async def test_entries_contain_the_place_of_a_message_and_the_number_of_the_changed_row(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await add(store, "s", "other", parent="m1")
        await steps.fork(store, "s", "f", "m2")
        await steps.replace(store, "f", message("m1", "changed"))
        await steps.cover(store, "f", "o", "m1", "m2")
        entries = await store.changes(NAMESPACE, None, 100, settled=False)
        appended = [entry for entry in entries if entry.kind == "message.appended"]
        first, other = await place(store, "s", "m1"), await place(store, "s", "other")
        assert [(entry.segment, entry.first, entry.last) for entry in appended] == [(first.segment, 0, 2), (*other, 0)]
        seen = await tree(store, "f")
        [updated] = [entry for entry in entries if entry.kind == "message.updated"]
        [edit] = [edit for edit in seen.rows.edits if edit.kind == "replaced"]
        assert (updated.segment, updated.first, updated.last, updated.number) == (*first, 0, edit.number)
        [covered] = [entry for entry in entries if entry.kind == "compaction.added"]
        assert covered.number == seen.overlays[0].number
        [forked] = [entry for entry in entries if entry.session_id == "f" and entry.kind == "session.created"]
        assert forked.session == seen.session.number

    async def test_an_append_logs_the_session_it_creates_and_only_its_new_messages(self, store: Store) -> None:
        await add(store, "s", "m1")
        await add(store, "s", "m1")
        await add(store, "s", "m1", "m2", "m2", "m3")
        entries = await store.changes(NAMESPACE, None, 100, settled=False)
        assert [entry.kind for entry in entries[:2]] == ["session.created", "message.appended"]
        runs = [(entry.segment, at) for entry in entries[1:] for at in range(entry.first, entry.last + 1)]
        assert runs == [(entries[1].segment, at) for at in range(3)]

    async def test_a_call_that_changes_nothing_is_not_logged(self, store: Store) -> None:
        made, _ = await store.create(new("s"))
        await add(store, "s", "m1", "m2", "m3")
        await steps.delete(store, "s", "m1")
        await store.put_document(NAMESPACE, Owner("session", "s"), document("memory"))
        await store.add_usage(NAMESPACE, "s", UsageRow(id="u", at=NOW, day="2026-01-01"))
        before = await logged(store)
        assert not (await store.create(new("s")))[1]
        assert not await store.apply(plans.change_row(made, NOW, name="late"))
        await steps.settle(store, "s")
        assert not await store.put_document(NAMESPACE, Owner("session", "s"), document("memory"))
        assert await store.put_document(NAMESPACE, Owner("session", "s"), document("frontdesk:own"))
        assert not await store.add_usage(NAMESPACE, "s", UsageRow(id="u", at=NOW, day="2026-01-01"))
        assert await logged(store) == before

    async def test_deleting_messages_logs_the_compactions_that_are_removed_with_them(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3", "m4")
        await steps.cover(store, "s", "o", "m1", "m2")
        await steps.delete(store, "s", "m4", "m2", "m1")
        assert (await logged(store))[-3:] == [
            ("message.deleted", "s", {"ids": ["m1", "m2"]}),
            ("message.deleted", "s", {"ids": ["m4"]}),
            ("compaction.removed", "s", {"id": "o"}),
        ]

    async def test_a_reader_can_continue_from_any_position(self, store: Store) -> None:
        for number in range(7):
            await add(store, f"s{number % 3}", f"m{number}")
        whole = await settled(store, 10)
        assert len(whole) == 10
        for start in range(10):
            assert await store.changes(NAMESPACE, whole[start].position, 1000) == whole[start + 1 :]
            assert await store.changes(NAMESPACE, whole[start].position, 2) == whole[start + 1 : start + 3]
            assert await store.changes(NAMESPACE, whole[start].position.before, 1000) == whole[start:]
        assert await store.changes(NAMESPACE, BEGINNING, 1000) == whole

    async def test_the_position_of_another_log_is_refused(self, store: Store) -> None:
        await add(store, "s", "m1")
        entries = await settled(store, 2)
        epochs = {entry.position.epoch for entry in entries}
        assert len(epochs) == 1
        assert await store.last_change(NAMESPACE) == entries[-1].position
        for position in (entries[0].position, Position(2**50, 0)):
            with pytest.raises(ChangesRewoundError) as caught:
                await store.changes(NAMESPACE, position._replace(epoch=max(epochs) + 1), 10)
            assert await store.changes(NAMESPACE, caught.value.position, 10) == entries
        assert await store.changes(NAMESPACE, entries[0].position._replace(epoch=0), 10) == entries[1:]

    async def test_each_namespace_has_its_own_log(self, store: Store) -> None:
        assert await store.last_change(NAMESPACE) == BEGINNING
        assert await store.changes("nowhere", None, 10) == []
        await add(store, "s", "m1", namespace="there")
        await add(store, "s", "m1", "m2")
        assert [kind for kind, _, _ in await logged(store)] == ["session.created", "message.appended"]
        assert (await settled(store, 2))[1].last == 1
        assert len(await store.changes("there", None, 10, settled=False)) == 2
        await steps.delete_session(store, "s")
        assert len(await store.changes("there", None, 10, settled=False)) == 2

    async def test_the_log_of_a_deleted_session_contains_only_its_deletion(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await steps.delete(store, "s", "m2")
        await add(store, "t", "m1")
        before = await settled(store, 5)
        await steps.delete_session(store, "s")
        after = await settled(store, 3)
        assert await logged(store) == [
            ("session.created", "t", None),
            ("message.appended", "t", None),
            ("session.deleted", None, {"id": "s"}),
        ]
        assert after[-1].session == before[0].session
        assert after[-1].position > before[-1].position
        await add(store, "s", "m1")
        assert [entry[:2] for entry in (await logged(store))[3:]] == [
            ("session.created", "s"),
            ("message.appended", "s"),
        ]

    async def test_the_oldest_entries_can_be_trimmed_but_never_the_newest(self, store: Store) -> None:
        for number in range(6):
            await add(store, "s", f"m{number}", now=NOW + number)
        whole = await settled(store, 7)
        assert await store.trim_changes(NAMESPACE, NOW, 100) == 0
        assert await store.trim_changes(NAMESPACE, NOW + 9, 2) == 2
        assert await store.trim_changes(NAMESPACE, NOW + 3, 100) == 2
        assert await store.changes(NAMESPACE, None, 100) == whole[4:]
        assert await store.changes(NAMESPACE, whole[3].position, 100) == whole[4:]
        for start in (BEGINNING, *(entry.position for entry in whole[:3])):
            with pytest.raises(ChangesTrimmedError):
                await store.changes(NAMESPACE, start, 100)
        assert await store.trim_changes(NAMESPACE, NOW + 9, 100) == 2
        assert await store.changes(NAMESPACE, None, 100) == whole[6:]
        assert await store.trim_changes("nowhere", NOW + 9, 100) == 0
        await add(store, "s", "later", now=NOW + 9)
        assert (await settled(store, 2))[-1].position > whole[-1].position

    async def test_no_entry_after_a_given_position_is_trimmed(self, store: Store) -> None:
        for number in range(4):
            await add(store, "s", f"m{number}", now=NOW)
        whole = await settled(store, 5)
        assert await store.trim_changes(NAMESPACE, NOW + 9, 100, until=BEGINNING) == 0
        assert await store.trim_changes(NAMESPACE, NOW + 9, 100, until=whole[2].position) == 3
        assert await store.changes(NAMESPACE, whole[2].position, 100) == whole[3:]

    async def test_scrubbing_removes_the_entries_of_deleted_sessions_and_keeps_counting_positions(
        self, store: Store
    ) -> None:
        await add(store, "s", "m1")
        await store.create(new("t", parent_session_id="s"))
        await steps.delete_session(store, "s")
        row = await store.get(NAMESPACE, "t")
        assert row is not None
        assert await store.apply(plans.change_row(row, NOW, parent_session_id=None))
        before = await settled(store, 3)
        await store.scrub(NAMESPACE)
        after = await settled(store, 3)
        assert [entry.kind for entry in after] == ["session.created", "session.deleted", "session.changed"]
        assert [entry.position for entry in after] == [entry.position for entry in before]
        assert after[0].detail == ""
        await steps.delete_session(store, "t")
        await store.scrub(NAMESPACE)
        await store.scrub("nowhere")
        newest = await store.last_change(NAMESPACE)
        await add(store, "u", "m1")
        assert (await settled(store, 4))[-1].position > newest

    async def test_positions_are_not_reused_after_sessions_were_deleted(self, store: Store) -> None:
        await store.create(new("s", parent_session_id="p"))
        await settled(store, 1)
        await steps.delete_session(store, "s")
        [gone] = await settled(store, 1)
        await store.create(new("t"))
        assert (await settled(store, 2))[1].position > gone.position

    async def test_a_waiting_reader_is_woken_by_a_write_through_the_same_store(self, store: Store) -> None:
        await store.wait_for_change(0.01)
        waiting = asyncio.create_task(store.wait_for_change(3600))
        async with asyncio.timeout(PATIENCE):
            while not waiting.done():
                await add(store, "s", new_id())
                await asyncio.sleep(0)
        await waiting

    async def test_a_reader_that_follows_many_writers_misses_nothing_and_sees_nothing_twice(self, store: Store) -> None:
        sessions = [f"s{number}" for number in range(4)]
        count = 25

        async def write(writer: int) -> None:
            for number in range(count):
                name = sessions[(writer + number) % len(sessions)]
                await add(store, name, f"{writer}-{number}-a", f"{writer}-{number}-b")

        async def follow() -> dict[tuple[int, int], str | None]:
            seen: dict[tuple[int, int], str | None] = {}
            after: Position | None = None
            async with asyncio.timeout(PATIENCE):
                while len(seen) < 2 * WRITERS * count:
                    entries = await store.changes(NAMESPACE, after, 7)
                    for entry in entries:
                        assert after is None or entry.position > after
                        after = entry.position
                        for at in range(entry.first, entry.last + 1) if entry.kind == "message.appended" else ():
                            assert (entry.segment, at) not in seen
                            assert at == 0 or (entry.segment, at - 1) in seen
                            seen[entry.segment, at] = entry.session_id
                    await asyncio.sleep(0 if entries else 0.001)
            return seen

        following = asyncio.create_task(follow())
        await asyncio.gather(*(write(writer) for writer in range(WRITERS)))
        seen = await following
        for name in sessions:
            written = await path(store, name)
            assert len(written) == len([1 for session_id in seen.values() if session_id == name])
