"""Plans: each one is applied completely or not at all, and has the effects that the session layer relies on."""

from __future__ import annotations

from typing import Any

import pytest

from frontdesk.store import Append, NewEdit, NewOverlay, OverlayItem, Place, Plan, Span, Store, ViewRow
from frontdesk.testing.inputs import StoredText
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
from frontdesk.tree import edits, plans, replacing


def appending(*ids: str) -> Append:
    messages = tuple(message(id) for id in ids)
    return Append(
        namespace=NAMESPACE, session_id="s", messages=messages, fresh=(False,) * len(ids), now=NOW, existing=True
    )


class PlanContract:
    # messages that are appended by a plan

    async def test_a_plan_can_remove_messages_and_append_others(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        seen = await tree(store, "s", "m2", "m3", family=True)
        removed = {row.place: row.id for row in seen.rows.found}
        plan = replacing.replace_all(seen, removed, appending("m3", "m4"), all_go=False)
        assert plan is not None
        before = await store.last_change(NAMESPACE)
        assert await store.apply(plan)
        assert await path(store, "s") == ["m1", "m3", "m4"]
        changed = await settle(store, "s")
        assert (changed.message_count, changed.view_messages) == (3, 3)
        kinds = [entry.kind for entry in await store.changes(NAMESPACE, before, 10, settled=False)]
        assert kinds == ["message.deleted", "message.appended"]
        assert not await store.apply(plan)
        assert await path(store, "s") == ["m1", "m3", "m4"]

    async def test_a_plan_can_replace_everything(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f")
        seen = await tree(store, "s", "m1", "m2", family=True)
        removed = {row.place: row.id for row in seen.rows.found}
        plan = replacing.replace_all(seen, removed, appending("m2", "m5"), all_go=True)
        assert plan is not None
        assert await store.apply(plan)
        assert await path(store, "s") == ["m2", "m5"]
        assert await path(store, "f") == ["m1", "m2"]
        assert (await row(store, "s")).message_count == 2

    async def test_a_plan_that_only_appends_leaves_the_view(self, store: Store) -> None:
        before = (await add(store, "s", "m1")).session
        plan = replacing.replace_all(await tree(store, "s"), {}, appending("m2"), all_go=False)
        assert plan is not None
        await add(store, "s", "x")
        assert not await store.apply(plan)
        plan = replacing.replace_all(await tree(store, "s"), {}, appending("m2"), all_go=False)
        assert plan is not None
        assert await store.apply(plan)
        changed = await row(store, "s")
        assert (changed.view, changed.view_messages, changed.tail) == (before.view, 3, before.tail)
        assert await path(store, "s") == ["m1", "x", "m2"]

    # guards

    async def test_a_plan_raises_the_revision_and_sets_its_values(self, store: Store) -> None:
        made, _ = await store.create(new("s"))
        values: dict[str, Any] = {
            "name": "n",
            "status": "archived",
            "end_reason": "new",
            "model": None,
            "source": "x",
            "tags": '["t"]',
            "metadata": '{"a":1}',
            "summary": "text",
            "max_tokens": 7,
            "compacted_at": NOW + 1,
            "ended_at": NOW + 2,
            "last_active_at": NOW + 3,
        }
        assert await store.apply(plans.change_row(made, NOW + 4, **values))
        changed = await row(store, "s")
        assert {name: getattr(changed, name) for name in values} == values
        assert (changed.revision, changed.updated_at, changed.created_at) == (made.revision + 1, NOW + 4, NOW)

    async def test_a_plan_made_from_an_older_revision_is_refused(self, store: Store) -> None:
        made, _ = await store.create(new("s"))
        assert await store.apply(plans.change_row(made, NOW, name="first"))
        before = await row(store, "s")
        assert not await store.apply(plans.change_row(made, NOW, name="second"))
        assert await row(store, "s") == before

    async def test_one_failed_guard_refuses_the_whole_plan(self, store: Store) -> None:
        session = (await add(store, "s", "m1", "m2")).session
        other, _ = await store.create(new("other"))
        assert session.head is not None
        plan = Plan(
            guards=((session.number, session.revision), (other.number, other.revision + 1)),
            now=NOW,
            set={"name": "changed", "head": None},
            add={"message_count": 5},
            view=ViewRow((), session.head),
            delete_rows=(Span(session.head.segment, 0, 1, None),),
            set_last=(Place(session.head.segment, -1),),
            add_overlays=(
                NewOverlay(
                    id="o",
                    kind="reset",
                    start=session.head,
                    end=session.head,
                    summary=None,
                    tokens=0,
                    created_at=NOW,
                ),
            ),
            add_edits=(NewEdit(kind="removed", segment=session.head.segment, first=0, last=1),),
            delete_sessions=(other.number,),
        )
        assert not await store.apply(plan)
        assert await row(store, "s") == session
        assert await row(store, "other") == other
        assert await path(store, "s") == ["m1", "m2"]
        rows = (await tree(store, "s")).rows
        assert (rows.overlays, rows.edits, rows.view) == ((), (), ViewRow())

    async def test_the_guard_of_a_deleted_session_fails(self, store: Store) -> None:
        made, _ = await store.create(new("s"))
        await delete_session(store, "s")
        assert not await store.apply(plans.change_row(made, NOW, name="late"))

    async def test_a_plan_with_an_expected_head_is_refused_if_the_head_has_moved(self, store: Store) -> None:
        await add(store, "s", "m1")
        seen = await tree(store, "s")
        after = (await add(store, "s", "m2")).session
        plan = plans.store_view(seen, seen.view(seen.session.head), 3, 1, NOW)
        assert plan.guards == ((after.number, after.revision),)
        assert not await store.apply(plan)
        assert await row(store, "s") == after

    async def test_an_append_at_the_end_does_not_invalidate_plans(self, store: Store) -> None:
        before = (await add(store, "s", "m1")).session
        await add(store, "s", "m2")
        assert await store.apply(plans.change_row(before, NOW, name="named"))
        assert await path(store, "s") == ["m1", "m2"]

    # views

    async def test_a_stored_view_is_returned_unchanged(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3", "m4")
        await fork(store, "s", "f")
        await replace(store, "f", message("m1", "changed"))
        await cover(store, "f", "o", "m2", "m3")
        seen = await tree(store, "f")
        await settle(store, "f")
        rows = (await tree(store, "f")).rows
        assert rows.view == seen.view(seen.session.head).row
        assert len(rows.view.items) == 3
        assert rows.session.view == "stored"

    async def test_switching_makes_another_message_the_head(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await add(store, "s", "b1", parent="m1")
        await change(store, "s", lambda seen: plans.switch(seen, seen.rows.found[0].place, NOW), "m2")
        assert await path(store, "s") == ["m1", "m2"]
        await add(store, "s", "m3")
        assert await path(store, "s") == ["m1", "m2", "m3"]

    async def test_an_append_after_an_earlier_head_opens_a_branch(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await change(store, "s", lambda seen: plans.switch(seen, seen.rows.found[0].place, NOW), "m1")
        await settle(store, "s")
        session = (await add(store, "s", message("b1", tokens=5))).session
        assert await path(store, "s") == ["m1", "b1"]
        assert (session.view, session.view_tokens, session.view_messages, session.tail) == ("stored", 8, 2, 0)

    # messages

    async def test_deleting_from_the_middle_keeps_the_rest_connected(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3", "m4")
        await delete(store, "s", "m2", "m3")
        assert await path(store, "s") == ["m1", "m4"]
        session = await row(store, "s")
        assert session.message_count == 2
        [first, last] = await store.read((await tree(store, "s")).lay(session.head))
        assert (first.before_id, last.before_id) == (None, "m1")

    async def test_deleting_the_head_moves_it_to_the_message_before(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await delete(store, "s", "m2", "m3")
        session = await row(store, "s")
        assert session.head == await place(store, "s", "m1")
        result = await add(store, "s", "m4")
        assert result.rows[0].parent_id == "m1"
        assert await path(store, "s") == ["m1", "m4"]

    async def test_after_deleting_everything_a_session_can_start_again(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await delete(store, "s", "m1", "m2")
        session = await row(store, "s")
        assert (session.head, session.message_count, session.view, session.view_tokens) == (None, 0, "plain", 0)
        result = await add(store, "s", message("m3", tokens=6))
        assert result.rows[0].parent_id is None
        assert (result.session.view_tokens, result.session.view_messages) == (6, 1)

    async def test_a_replaced_message_keeps_its_place(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        before = await place(store, "s", "m2")
        await replace(store, "s", message("m2", "changed", tokens=40))
        assert await place(store, "s", "m2") == before
        assert await texts(store, "s") == {"m1": "text of m1", "m2": "changed", "m3": "text of m3"}

    @pytest.mark.parametrize("changed", ["m1", "m2", "m3"])
    async def test_sums_are_correct_after_a_replacement_and_later_appends(self, store: Store, changed: str) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await replace(store, "s", message(changed, "changed", tokens=40))
        assert (await row(store, "s")).view_tokens == 46
        await add(store, "s", message("m4", tokens=5))
        seen = await tree(store, "s")
        assert await measure(store, seen, seen.lay(seen.session.head)) == 51
        assert (await row(store, "s")).view_tokens == 51

    async def test_a_replacement_outside_a_stored_view_does_not_count_in_it(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await change(store, "s", lambda seen: plans.switch(seen, seen.rows.found[0].place, NOW), "m1")
        await settle(store, "s")
        await replace(store, "s", message("m3", "changed", tokens=40))
        session = await row(store, "s")
        assert session.view == "stale" or session.view_tokens == 3

    async def test_clearing_keeps_the_session_and_removes_its_messages(self, store: Store) -> None:
        await store.create(new("s", name="kept", tags='["t"]'))
        await add(store, "s", "m1", "m2")
        await cover(store, "s", "o", "m1", "m2")
        old = await tree(store, "s")
        items = old.lay(old.session.head, overlays=False)
        await change(store, "s", lambda seen: plans.clear_messages(seen.rows, NOW + 1))
        session = await row(store, "s")
        assert (session.name, session.tags, session.updated_at) == ("kept", '["t"]', NOW + 1)
        assert (session.head, session.message_count, session.compaction_count, session.view) == (None, 0, 0, "plain")
        assert session.tree != old.session.tree
        rows = (await tree(store, "s", "m1", family=True)).rows
        assert (rows.segments, rows.overlays, rows.edits, rows.found) == ((), (), (), ())
        assert [piece.messages for piece in await store.read(items)] == [()]
        assert (await add(store, "s", "m1")).rows[0].inserted
        assert await path(store, "s") == ["m1"]

    async def test_a_deleted_session_is_removed_and_its_id_is_free(self, store: Store) -> None:
        await store.create(new("s", agent="a", channel="b", peer="c"))
        await add(store, "s", "m1")
        old = await tree(store, "s")
        await delete_session(store, "s")
        assert await store.get(old.session.namespace, "s") is None
        assert await store.get_current(old.session.namespace, ("a", "b", "c", None)) is None
        assert [piece.messages for piece in await store.read(old.lay(old.session.head))] == [()]
        again, is_new = await store.create(new("s", agent="a", channel="b", peer="c"))
        assert is_new
        assert again.message_count == 0
        assert again.number != old.session.number

    # overlays

    async def test_an_overlay_replaces_its_range_and_newer_ones_win(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3", "m4")
        await cover(store, "s", "old", "m1", "m2")
        assert await view(store, "s") == ["old", "m3", "m4"]
        await cover(store, "s", "new", "m2", "m3")
        assert await view(store, "s") == ["m1", "new", "m4"]
        await uncover(store, "s", "new")
        assert await view(store, "s") == ["old", "m3", "m4"]
        session = await row(store, "s")
        assert (session.compaction_count, session.compacted_at) == (1, NOW)

    async def test_an_overlay_without_a_summary_hides_its_range(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "o", "m1", "m2", summary=None)
        assert await view(store, "s") == ["m3"]

    async def test_a_change_under_a_summary_makes_it_stale_and_a_deletion_cuts_it(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3", "m4")
        await cover(store, "s", "first", "m1", "m1")
        await cover(store, "s", "second", "m2", "m3")
        await delete(store, "s", "m2")
        await replace(store, "s", message("m1", "changed"))
        seen = {overlay.id: (overlay.kind, overlay.stale) for overlay in (await tree(store, "s")).overlays}
        assert seen == {"first": ("summary", True), "second": ("truncate", True)}
        assert await view(store, "s") == ["first", "m4"]

    async def test_the_text_of_a_cut_summary_stays_only_while_another_session_sees_it(
        self, store: Store, stored_text: StoredText
    ) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "o", "m1", "m2", summary="the password is swordfish")
        await fork(store, "s", "f")
        await delete(store, "s", "m1")
        assert await view(store, "s") == ["m3"]
        assert await view(store, "f") == ["o", "m3"]
        [piece] = await store.read([OverlayItem((await tree(store, "f")).overlays[0].number, 0, None)])
        assert piece.overlay is not None
        assert piece.overlay.summary == "the password is swordfish"
        await delete(store, "f", "m2")
        assert await view(store, "f") == ["m3"]
        [piece] = await store.read([OverlayItem(piece.overlay.number, 0, None)])
        assert piece.overlay is not None
        assert piece.overlay.summary is None
        assert "swordfish" not in await stored_text()

    async def test_the_text_of_a_cut_summary_goes_with_the_last_session_that_sees_it(
        self, store: Store, stored_text: StoredText
    ) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "o", "m1", "m2", summary="the password is swordfish")
        await fork(store, "s", "f")
        await delete(store, "f", "m1")
        await delete_session(store, "s")
        assert [overlay.kind for overlay in (await tree(store, "f")).overlays] == ["truncate"]
        assert "swordfish" not in await stored_text()

    async def test_of_two_sessions_that_cut_a_summary_at_once_one_removes_its_text(
        self, store: Store, stored_text: StoredText
    ) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "o", "m1", "m2", summary="the password is swordfish")
        await fork(store, "s", "f")
        seen = [await tree(store, session_id, "m1", family=True) for session_id in ("s", "f")]
        made = [edits.delete_messages(each, [at(each, "m1")], NOW) for each in seen]
        assert [await store.apply(plan) for plan in made] == [True, False]
        await delete(store, "f", "m1")
        assert "swordfish" not in await stored_text()

    async def test_a_new_overlay_takes_the_place_of_the_cut_ones_in_its_range(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3", "m4")
        await cover(store, "s", "inner", "m1", "m2")
        await cover(store, "s", "outer", "m1", "m3")
        await delete(store, "s", "m1")
        await cover(store, "s", "again", "m2", "m3")
        assert [overlay.id for overlay in (await tree(store, "s")).overlays] == ["again"]
        assert (await row(store, "s")).compaction_count == 1
        await uncover(store, "s", "again")
        assert await view(store, "s") == ["m2", "m3", "m4"]

    async def test_an_overlay_survives_the_deletion_of_its_last_message_but_not_of_all(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "o", "m2", "m3")
        await delete(store, "s", "m3")
        assert await view(store, "s") == ["m1"]
        await add(store, "s", "m4")
        assert await view(store, "s") == ["m1", "m4"]
        await delete(store, "s", "m2")
        assert await view(store, "s") == ["m1", "m4"]
        assert (await row(store, "s")).compaction_count == 0

    async def test_a_stored_overlay_is_read_with_all_its_values(self, store: Store) -> None:
        await add(store, "s", "m1")
        seen = await tree(store, "s")
        assert seen.session.head is not None
        overlay = NewOverlay(
            id="o",
            kind="truncate",
            start=seen.session.head,
            end=seen.session.head,
            summary="会話 \U0001f98a",
            tokens=2**33,
            created_at=NOW + 5,
            stale=True,
            details='{"model":"x"}',
        )
        assert await store.apply(plans.add_overlay(seen, overlay, NOW))
        [kept] = (await tree(store, "s")).overlays
        for name in overlay.__struct_fields__:
            assert getattr(kept, name) == (None if name == "summary" else getattr(overlay, name))

    # the smallest parts of a plan

    async def test_edits_are_returned_unchanged_until_they_are_deleted(self, store: Store) -> None:
        session = (await add(store, "s", "m1", "m2")).session
        assert session.head is not None
        segment = session.head.segment
        given = (
            NewEdit(kind="removed", segment=segment, first=0, last=1),
            NewEdit(kind="replaced", segment=segment, first=1, last=1, tokens=-2, message=message("m2", "x")),
            NewEdit(kind="adjusted", segment=segment, first=0, last=0, tokens=2**33),
            NewEdit(kind="overlay-gone", overlay=77),
            NewEdit(kind="overlay-stale", overlay=78),
            NewEdit(kind="overlay-cut", overlay=78, segment=segment, first=1, last=1),
        )
        guard = ((session.number, session.revision),)
        assert await store.apply(Plan(guards=guard, now=NOW, add_edits=given))
        edits = sorted((await tree(store, "s")).rows.edits, key=lambda edit: edit.number)
        kept = [{name: getattr(edit, name) for name in NewEdit.__struct_fields__} for edit in edits]
        assert kept == [{name: getattr(edit, name) for name in edit.__struct_fields__} for edit in given]
        assert {(edit.tree, edit.revision) for edit in edits} == {(session.tree, session.revision + 1)}
        numbers = tuple(edit.number for edit in edits)
        guard = ((session.number, session.revision + 1),)
        assert await store.apply(Plan(guards=guard, now=NOW, delete_edits=numbers[:-1]))
        assert [edit.number for edit in (await tree(store, "s")).rows.edits] == [numbers[-1]]

    async def test_a_plan_sets_the_ends_of_segments(self, store: Store) -> None:
        session = (await add(store, "s", "m1", "m2")).session
        assert session.head is not None
        segment = session.head.segment
        guard = ((session.number, session.revision),)
        plan = Plan(guards=guard, now=NOW, set_last=(Place(segment, 0),), set_shared=(Place(segment, 1),))
        assert await store.apply(plan)
        [kept] = (await tree(store, "s")).rows.segments
        assert (kept.last, kept.shared, kept.next) == (0, 1, 2)

    async def test_deleting_to_the_end_of_one_segment_keeps_the_next(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        session = (await add(store, "s", "b1", "b2", parent="m1")).session
        first = await place(store, "s", "m1")
        guard = ((session.number, session.revision),)
        beyond = Span(first.segment, 1, (1 << 24) - 1, None)
        assert await store.apply(Plan(guards=guard, now=NOW, delete_rows=(beyond,)))
        assert await path(store, "s") == ["m1", "b1", "b2"]
        [piece] = await store.read([Span(first.segment, 0, 2, None)])
        assert [m.id for m in piece.messages] == ["m1"]
