"""Reads: views, ranges, the structure of a tree, running sums."""

from __future__ import annotations

import msgspec

from frontdesk.store import EditItem, OverlayItem, Place, Span, Store
from frontdesk.testing.store_contract.steps import (
    NAMESPACE,
    NOW,
    add,
    at,
    cover,
    delete,
    fork,
    message,
    new,
    path,
    place,
    replace,
    row,
    settle,
    tree,
)


class ReadContract:
    # views

    async def test_a_view_comes_with_the_session_and_the_stored_view(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3", "m4")
        await cover(store, "s", "o", "m2", "m3", summary="two and three")
        session = await settle(store, "s")
        read = await store.view(NAMESPACE, "s")
        assert read is not None
        assert (read.session, read.view) == (session, (await tree(store, "s")).rows.view)
        assert [type(item) for item in read.items] == [Span, OverlayItem, Span]
        first, summary, last = read.pieces
        assert ([m.id for m in first.messages], first.before_id, first.overlay) == (["m1"], None, None)
        assert summary.overlay is not None
        assert (summary.overlay.id, summary.overlay.summary, summary.before_id) == ("o", "two and three", "m1")
        assert ([m.id for m in last.messages], last.before_id) == (["m4"], "m3")

    async def test_a_view_can_be_read_without_messages(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await cover(store, "s", "o", "m1", "m1")
        await settle(store, "s")
        read = await store.view(NAMESPACE, "s", 0)
        assert read is not None
        assert (read.items, read.pieces) == ((), ())
        assert (read.session, read.view) == (await row(store, "s"), (await tree(store, "s")).rows.view)

    async def test_a_stale_view_is_not_read(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await cover(store, "s", "o", "m1", "m1")
        for last in (None, 1):
            read = await store.view(NAMESPACE, "s", last)
            assert read is not None
            assert (read.session.view, read.items, read.pieces) == ("stale", (), ())

    async def test_an_empty_session_has_an_empty_view(self, store: Store) -> None:
        await store.create(new("s"))
        read = await store.view(NAMESPACE, "s")
        assert read is not None
        assert read.pieces == ()

    async def test_a_missing_session_has_no_view_and_no_tree(self, store: Store) -> None:
        assert await store.view(NAMESPACE, "missing") is None
        assert await store.trees(NAMESPACE, ["missing"]) == []
        assert await store.trees(NAMESPACE, ["missing"], family=True) == []

    async def test_the_last_messages_of_a_view_come_with_the_id_before_them(self, store: Store) -> None:
        await add(store, "s", *(f"m{number}" for number in range(10)))
        head = await place(store, "s", "m9")
        read = await store.view(NAMESPACE, "s", 2)
        assert read is not None
        assert read.items == (
            Span(head.segment, head.position - 1, head.position, Place(head.segment, head.position - 2)),
        )
        assert ([m.id for m in read.pieces[0].messages], read.pieces[0].before_id) == (["m8", "m9"], "m7")

    # ranges

    async def test_pieces_come_in_the_order_of_their_items(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await add(store, "t", "x1")
        s, t = await place(store, "s", "m1"), await place(store, "t", "x1")
        items = [
            Span(t.segment, 0, 0, None),
            Span(s.segment, 1, 2, s),
            Span(s.segment, 0, 0, None),
            Span(s.segment, 1, 2, s),
        ]
        pieces = await store.read(items)
        assert [[m.id for m in piece.messages] for piece in pieces] == [["x1"], ["m2", "m3"], ["m1"], ["m2", "m3"]]
        assert [piece.before_id for piece in pieces] == [None, "m1", None, "m1"]
        assert await store.read([]) == ()

    async def test_messages_come_back_unchanged(self, store: Store) -> None:
        given = [message(f"m{number}", "x" * number, tokens=number) for number in range(1, 700)]
        await add(store, "s", *given)
        first = await place(store, "s", "m1")
        [piece] = await store.read([Span(first.segment, 0, len(given) - 1, None)])
        assert list(piece.messages) == given

    async def test_rows_deleted_in_the_meantime_are_left_out(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "o", "m1", "m1")
        seen = await tree(store, "s")
        [overlay] = seen.overlays
        items = [*seen.lay(seen.session.head, overlays=False), OverlayItem(overlay.number, 2, None)]
        await delete(store, "s", "m1", "m2")
        span, covered = await store.read(items)
        assert [m.id for m in span.messages] == ["m3"]
        assert (covered.overlay, covered.messages) == (None, ())

    async def test_a_replacement_is_read_by_its_edit(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await fork(store, "s", "f")
        await replace(store, "f", message("m2", "changed", tokens=8))
        seen = await tree(store, "f")
        items = seen.lay(seen.session.head)
        assert [type(item) for item in items] == [Span, EditItem, Span]
        _, changed, last = await store.read(items)
        assert (changed.messages, changed.before_id) == ((message("m2", "changed", tokens=8),), "m1")
        assert last.before_id == "m2"

    # trees

    async def test_a_tree_contains_its_segments_unchanged(self, store: Store) -> None:
        await add(store, "s", message("m1", tokens=1), message("m2", tokens=2), message("m3", tokens=4))
        await add(store, "s", message("b1", tokens=8), parent="m1")
        rows = (await tree(store, "s", "m1", "b1")).rows
        trunk, branch = sorted(rows.segments, key=lambda segment: segment.number)
        assert (trunk.tree, trunk.parent, trunk.last, trunk.next, trunk.shared, trunk.tokens) == (
            rows.session.tree,
            None,
            2,
            3,
            -1,
            7,
        )
        assert (branch.parent, branch.last, branch.next, branch.tokens) == (Place(trunk.number, 0), 0, 1, 8)
        assert branch.number > trunk.number > 0
        assert (rows.overlays, rows.edits, rows.lineage, rows.forked_until, rows.sessions) == ((), (), (), -1, ())
        assert {(found.id, found.place, found.tokens) for found in rows.found} == {
            ("m1", Place(trunk.number, 0), 1),
            ("b1", Place(branch.number, 0), 8),
        }

    async def test_a_tree_shows_overlays_without_their_summaries(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await cover(store, "s", "o1", "m1", "m2", summary="a long text")
        await cover(store, "s", "o2", "m1", "m3", summary=None)
        rows = (await tree(store, "s", "m1", "m2", "m3")).rows
        first, second = sorted(rows.overlays, key=lambda overlay: overlay.number)
        assert (first.id, first.kind, first.summary, first.tokens, first.stale) == ("o1", "summary", None, 2, False)
        assert (first.start, first.end) == (await place(store, "s", "m1"), await place(store, "s", "m2"))
        assert (second.id, second.kind, second.created_at, second.details) == ("o2", "reset", NOW, "{}")
        assert (first.revision, second.revision) == (rows.session.revision - 1, rows.session.revision)

    async def test_unknown_ids_are_not_found(self, store: Store) -> None:
        await add(store, "s", "m1")
        await add(store, "t", "x1")
        assert (await tree(store, "s", "x1", "missing", "M1", "m1 ")).rows.found == ()

    async def test_a_deleted_message_is_not_found(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await delete(store, "s", "m1")
        assert (await tree(store, "s", "m1")).find("m1") is None

    async def test_branches_and_leaves_follow_from_the_segments(self, store: Store) -> None:
        await add(store, "s", "m1", "m2", "m3")
        await add(store, "s", "b1", parent="m1")
        await add(store, "s", "c1", parent="m1")
        await add(store, "s", "r1", parent=None)
        ids = ("m1", "m2", "m3", "b1", "c1", "r1")
        seen = await tree(store, "s", *ids)
        names = {at(seen, id): id for id in ids}
        assert {names[child] for child in seen.children(at(seen, "m1"))} == {"m2", "b1", "c1"}
        assert {names[child] for child in seen.children(None)} == {"m1", "r1"}
        assert {names[leaf] for leaf in seen.leaves()} == {"m3", "b1", "c1", "r1"}

    async def test_the_tree_of_a_fork_contains_its_own_and_its_inherited_rows(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await add(store, "s", "b1", parent="m1")
        await cover(store, "s", "before", "m1", "m1")
        await fork(store, "s", "f", "m2")
        await cover(store, "s", "after", "m1", "m1")
        await add(store, "f", "f1")
        source, rows = (await tree(store, "s")).rows, (await tree(store, "f", "m1", "b1", "f1")).rows
        assert rows.session.family == source.session.family
        assert {segment.tree for segment in rows.segments} == {source.session.tree, rows.session.tree}
        assert len(rows.segments) == 2
        assert [overlay.id for overlay in rows.overlays] == ["before"]
        [link] = rows.lineage
        assert (link.tree, link.ancestor) == (rows.session.tree, source.session.tree)
        assert source.forked_until == link.until == source.session.revision - 1
        assert {found.id for found in rows.found} == {"m1", "b1", "f1"}
        assert rows.forked_until == -1

    async def test_a_whole_family_contains_every_existing_session_and_every_segment(self, store: Store) -> None:
        await add(store, "s", "m1", "m2")
        await fork(store, "s", "f", "m1")
        await add(store, "f", "f1")
        await fork(store, "f", "g")
        await add(store, "g", "g1")
        await add(store, "stranger", "m1")
        for name in ("s", "f", "g"):
            rows = (await tree(store, name, family=True)).rows
            assert rows.session == await row(store, name)
            assert {session.id for session in rows.sessions} == {"s", "f", "g"}
            assert len(rows.segments) == 3
            assert len(rows.lineage) == 2

    # sums

    async def test_running_sums_add_up_along_a_segment(self, store: Store) -> None:
        await add(store, "s", message("m1", tokens=1), message("m2", tokens=2))
        await add(store, "s", message("m3", tokens=4))
        await add(store, "s", message("b1", tokens=8), parent="m1")
        m1, b1 = await place(store, "s", "m1"), await place(store, "s", "b1")
        places = [
            Place(m1.segment, 2),
            m1,
            b1,
            Place(m1.segment, 9),
            Place(b1.segment + 1000, 0),
            Place(m1.segment, 1),
            m1,
        ]
        assert await store.sums(places) == [(4, 7), (1, 1), (8, 8), (0, 0), (0, 0), (2, 3), (1, 1)]
        assert await store.sums([]) == []

    async def test_messages_are_counted_by_role_without_reading_them(self, store: Store) -> None:
        result = '{"results":["c1"]}'
        await add(store, "s", message("m1", tokens=1), message("m2", tokens=2))
        await add(store, "s", msgspec.structs.replace(message("m3", tokens=4), derived=result))
        await add(
            store,
            "s",
            msgspec.structs.replace(message("m4", tokens=8), role="assistant", derived='{"text":"\\"results\\":1"}'),
        )
        await add(store, "s", msgspec.structs.replace(message("b1", tokens=16), role="tool"), parent="m1")
        m1, b1 = await place(store, "s", "m1"), await place(store, "s", "b1")
        spans = [Span(m1.segment, 0, 3, None), Span(b1.segment, 0, 0, m1)]
        assert sorted(await store.tally(spans)) == [("assistant", 1, 8), ("tool", 2, 20), ("user", 2, 3)]
        assert await store.tally([Span(m1.segment, 1, 1, None)]) == [("user", 1, 2)]
        assert await store.tally([]) == []

    async def test_a_long_path_is_read_in_order(self, store: Store) -> None:
        ids = [f"m{number:04}" for number in range(1500)]
        for start in range(0, len(ids), 300):
            await add(store, "s", *ids[start : start + 300], fresh=True)
        assert await path(store, "s") == ids
