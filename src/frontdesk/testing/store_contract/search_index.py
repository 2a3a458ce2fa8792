"""The search index: texts are found by their terms, phrases and facets, and leave it when their owner is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from frontdesk.store import (
    Address,
    IndexBatch,
    IndexMatch,
    IndexQuery,
    IndexState,
    IndexText,
    NewSession,
    Place,
    Position,
    SessionSelection,
    Store,
)
from frontdesk.testing.store_contract.steps import (
    NAMESPACE,
    NOW,
    add,
    change,
    cover,
    delete,
    delete_session,
    fork,
    message,
    place,
    replace,
    row,
    tree,
    uncover,
)
from frontdesk.tree import plans

START = IndexState(made_with="test", position=Position(0, 0))


async def put(store: Store, *texts: IndexText, namespace: str = NAMESPACE) -> None:
    """Write texts to the index, whatever its state is."""
    found = await store.index_state(namespace)
    state = None if found is None else found.state
    assert await store.write_index(IndexBatch(namespace=namespace, replaces=state, state=START, texts=texts))


async def of_message(
    store: Store, session_id: str, id: str, words: str = "", facets: Sequence[str] = ("km",), at: int = NOW
) -> IndexText:
    """The index text of a message, as if its content were `words`."""
    here = await place(store, session_id, id)
    [piece] = await store.read((await tree(store, session_id)).between(here, here))
    content = piece.messages[0].raw
    terms = (words or msgspec.json.decode(content)["content"]).split()
    return IndexText(address=Address("message", *here), at=at, terms=terms, facets=facets, content=(content,))


async def index_all(store: Store, session_id: str, texts: dict[str, str]) -> None:
    """Append messages with these texts and write them to the index."""
    await add(store, session_id, *(message(id, words) for id, words in texts.items()))
    await put(store, *[await of_message(store, session_id, id) for id in texts])


async def find(store: Store, *seek: str, limit: int = 100, **values: Any) -> list[IndexMatch]:
    given: dict[str, Any] = {"namespace": NAMESPACE, "facets": (("km", "ke", "ko", "ks"),), "limit": limit, **values}
    return await store.matches(IndexQuery(seek=seek, **given))


async def found(store: Store, *seek: str, **values: Any) -> set[int]:
    """The positions of the messages that match."""
    return {match.address.position for match in await find(store, *seek, **values)}


class SearchIndexContract:
    async def test_texts_are_found_by_any_term_with_its_positions(self, store: Store) -> None:
        await index_all(store, "s", {"a": "red fox red", "b": "blue fox", "c": "green"})
        first, second = await find(store, "red", "blue", count=("fox", "none"))
        assert (first.address.position, second.address.position) == (1, 0)
        assert {term: list(at) for term, at in second.places.items()} == {"red": [0, 2], "fox": [1]}
        assert (second.length, second.at, second.place) == (3, NOW, Place(*second.address[1:]))
        assert {match.family for match in (first, second)} == {(await row(store, "s")).family}

    async def test_a_prefix_finds_every_term_that_starts_with_it(self, store: Store) -> None:
        await index_all(store, "s", {"a": "deploy deployment", "b": "depot", "c": "dep/lo.py", "d": "other"})
        assert await found(store, "dep*") == {0, 1, 2}
        [match] = await find(store, "deploy*")
        assert list(match.places["deploy*"]) == [0, 1]
        assert await store.frequencies(NAMESPACE, ["dep*", "deploy", "none", "none*"]) == [3, 1, 0, 0]
        assert sorted(await store.terms(NAMESPACE, "depl", 10)) == ["deploy", "deployment"]
        assert len(await store.terms(NAMESPACE, "dep", 2)) == 2
        assert await store.terms(NAMESPACE, "none", 10) == []

    async def test_messages_that_are_not_in_the_index_are_listed(self, store: Store) -> None:
        await index_all(store, "s", {"a": "red", "b": "blue"})
        await add(store, "s", message("c", "green"), message("d", "grey"))
        segment = (await place(store, "s", "a")).segment
        whole = Address("message", segment, 0), Address("message", segment, 3)
        assert await store.unindexed(NAMESPACE, [whole]) == [Address("message", segment, at) for at in (2, 3)]
        parts = [(Address("message", segment, at), Address("message", segment, at)) for at in (0, 2)]
        assert await store.unindexed(NAMESPACE, parts) == [Address("message", segment, 2)]
        assert await store.unindexed(NAMESPACE, []) == []

    async def test_phrases_are_required_and_excluded_in_word_order(self, store: Store) -> None:
        await index_all(store, "s", {"a": "one two three", "b": "two one three", "c": "one three two"})
        assert await found(store, "one", phrases=((("one", "two"),),)) == {0}
        assert await found(store, "one", excluded=((("one", "two"),),)) == {1, 2}
        assert await found(store, phrases=((("one",), ("three", "two")),)) == {2}
        assert await found(store, excluded=((("two", "one"),), (("one", "two"),))) == {2}

    async def test_every_group_of_facets_is_required(self, store: Store) -> None:
        await add(store, "s", "a", "b", "c")
        for id, facets in (("a", ("km", "red", "y1")), ("b", ("km", "blue", "y1")), ("c", ("km", "red", "y2"))):
            await put(store, await of_message(store, "s", id, "word", facets))
        assert await found(store, "word", facets=(("red",), ("y1", "y2"))) == {0, 2}
        assert await found(store, "word", facets=(("red", "blue"), ("y1",))) == {0, 1}
        assert await found(store, facets=(("blue",),)) == {1}
        assert await found(store, "red") == set()

    async def test_ranges_narrow_the_search(self, store: Store) -> None:
        for name in ("s", "t"):
            await index_all(store, name, {f"{name}{number}": "word" for number in range(6)})
        segment = (await place(store, "s", "s0")).segment
        first, fourth = Address("message", segment, 1), Address("message", segment, 4)
        ranges = ((first, first._replace(position=2)), (fourth, fourth._replace(position=1 << 20)))
        matches = await find(store, "word", ranges=ranges)
        assert [match.address.position for match in matches] == [5, 4, 2, 1]
        assert {match.address.number for match in matches} == {segment}
        one = matches[0].address
        wanted = ((one, one), (Address("message", segment, 1 << 20),) * 2, (Address("session", 1),) * 2)
        assert [match.address for match in await find(store, ranges=wanted)] == [one]
        assert await find(store, "word", ranges=()) == await find(store, ranges=()) == []

    async def test_many_ranges_narrow_the_search_as_few_do(self, store: Store) -> None:
        ranges = []
        for number in range(30):
            await index_all(store, f"s{number}", {f"m{number}-{at}": f"word w{at}" for at in range(4)})
            segment = (await place(store, f"s{number}", f"m{number}-0")).segment
            ranges.append((Address("message", segment, number % 2), Address("message", segment, 2)))
        new = await row(store, "s7")
        named = Address("session", new.number)
        await put(store, IndexText(address=named, at=NOW, terms=["word"], facets=("ks",), content=(new.name, None)))
        few = [match.address for one in reversed(ranges) for match in await find(store, "word", ranges=(one,))]
        assert len(few) == 15 * 3 + 15 * 2
        many = [match.address for match in await find(store, "word", ranges=(*ranges, (named, named)))]
        assert many == [*few, named]
        later = await find(store, "word", ranges=(*ranges, (named, named)), after=few[10], limit=20)
        assert [match.address for match in later] == few[11:31]
        assert len(await find(store, "w2", ranges=tuple(ranges))) == 30
        assert await find(store, "w3", ranges=tuple(ranges)) == []

    async def test_selected_sessions_narrow_the_search_to_their_families(self, store: Store) -> None:
        keys = {"s": ("bot", "web", "ana"), "t": ("bot", "web", "ben"), "u": ("bot", "mail", "ana")}
        families = {}
        for name, (agent, channel, peer) in keys.items():
            new = NewSession(
                namespace=NAMESPACE, id=name, now=NOW, agent=agent, channel=channel, peer=peer, tags=f'["{peer}","all"]'
            )
            families[(await store.create(new))[0].family] = name
            await index_all(store, name, {f"{name}{number}": "word" for number in range(2)})
        await index_all(store, "none", {"n": "word"})
        for given, expected in (
            ({"peer": "ana"}, "su"),
            ({"agent": "bot"}, "stu"),
            ({"agent": "bot", "channel": "web", "peer": "ana"}, "s"),
            ({"tags": ("all",)}, "stu"),
            ({"tags": ("all", "ben")}, "t"),
            ({"tags": ("ana", "ben")}, ""),
            ({"peer": "ana' OR '1' = '1"}, ""),
            ({"thread": "x"}, ""),
        ):
            matches = await find(store, "word", sessions=SessionSelection(**given))
            assert {families[match.family] for match in matches} == set(expected), given
        assert len(await find(store, "word", sessions=SessionSelection())) == 7

    async def test_a_search_continues_after_the_last_text_of_a_page(self, store: Store) -> None:
        for name in ("s", "t"):
            await index_all(store, name, {f"{name}{number}": "word" for number in range(5)})
            new = await row(store, name)
            names = IndexText(
                address=Address("session", new.number), at=NOW, terms=["word"], facets=("ks",), content=(new.name, None)
            )
            await put(store, names)
        every = [match.address for match in await find(store, "word")]
        assert len(every) == 12
        paged: list[Address] = []
        while page := await find(store, "word", limit=5, after=paged[-1] if paged else None):
            paged += [match.address for match in page]
        assert paged == every
        segment = every[0].number
        within = ((Address("message", segment), Address("message", segment, 3)),)
        [match] = await find(store, "word", ranges=within, after=Address("message", segment, 1))
        assert match.address == Address("message", segment, 0)

    async def test_if_there_are_too_many_matches_the_latest_are_returned(self, store: Store) -> None:
        await index_all(store, "s", {f"m{number}": "word" for number in range(9)})
        assert [match.address.position for match in await find(store, "word", limit=3)] == [8, 7, 6]

    async def test_terms_with_special_characters_are_safe(self, store: Store) -> None:
        terms = ["'; drop table sessions; --", '"', "'", "\\", "a:b", "foo/bar.py", "$1", "c++", "&|!()<->:*x"]
        terms = [term.replace(" ", "") for term in terms] + ["部署", "🦊", "é", "-", "not", "and", "near", "x" * 128]
        await add(store, "s", *map(str, range(len(terms))))
        await put(store, *[await of_message(store, "s", str(at), term) for at, term in enumerate(terms)])
        for at, term in enumerate(terms):
            assert await found(store, term) == {at}
            assert await found(store, phrases=(((term,),),)) == {at}
            assert await store.frequencies(NAMESPACE, [term]) == [1]
            assert term in await store.terms(NAMESPACE, term[:1], 100)

    async def test_every_part_of_a_long_text_is_found(self, store: Store) -> None:
        words = [f"t{number}" for number in range(30_000)] + ["same"] * 300
        await add(store, "s", "a", "b")
        await put(store, await of_message(store, "s", "a", " ".join(words)), await of_message(store, "s", "b", "t1"))
        [match] = await find(store, "t29999", count=("t0", "t4095", "same"))
        assert match.length == 30_300
        assert [list(match.places[term]) for term in ("t0", "t4095", "t29999")] == [[0], [4095], [29_999]]
        assert set(match.places["same"]) <= set(range(30_000, 30_300))
        for start in range(4_060, 4_130):
            assert await found(store, phrases=((tuple(words[start : start + 8]),),)) == {0}
        found_row = await store.index_state(NAMESPACE)
        assert found_row == (START, 2, 30_301)

    async def test_namespaces_do_not_mix(self, store: Store) -> None:
        await index_all(store, "s", {"a": "word"})
        for namespace in ("other", "1", "here2"):
            await add(store, "s", "a", namespace=namespace)
            await put(store, namespace=namespace)
            assert await find(store, "word", namespace=namespace) == []
            assert await store.frequencies(namespace, ["word"]) == [0]
            assert await store.terms(namespace, "word", 10) == []
            assert await store.families(namespace, 0, 10) != await store.families(NAMESPACE, 0, 10)
        assert await store.frequencies(NAMESPACE, ["word"]) == [1]

    async def test_a_batch_is_written_only_if_the_state_is_the_one_it_replaces(self, store: Store) -> None:
        await add(store, "s", "a")
        text = await of_message(store, "s", "a", "word")
        later = IndexState(made_with="test", position=Position(7, 1), cursor=5, usable=False)
        assert await store.index_state(NAMESPACE) is None
        assert not await store.write_index(IndexBatch(namespace=NAMESPACE, replaces=START, state=later, texts=[text]))
        assert await store.write_index(IndexBatch(namespace=NAMESPACE, replaces=None, state=later, texts=[text]))
        assert not await store.write_index(IndexBatch(namespace=NAMESPACE, replaces=None, state=START))
        assert not await store.write_index(IndexBatch(namespace=NAMESPACE, replaces=START, state=START))
        assert await store.index_state(NAMESPACE) == (later, 1, 1)

    async def test_writing_a_text_again_replaces_it(self, store: Store) -> None:
        await add(store, "s", "a")
        await put(store, await of_message(store, "s", "a", "old word"))
        await put(store, await of_message(store, "s", "a", "new"))
        assert [await found(store, term) for term in ("old", "word", "new")] == [set(), set(), {0}]
        assert await store.index_state(NAMESPACE) == (START, 1, 1)

    async def test_texts_deleted_or_changed_in_the_meantime_are_left_out(self, store: Store) -> None:
        await add(store, "s", "a", "b", "c")
        texts = [await of_message(store, "s", id, "word") for id in ("a", "b", "c")]
        session = await row(store, "s")
        named = IndexText(
            address=Address("session", session.number), at=NOW, terms=["word"], facets=["ks"], content=("", None)
        )
        await delete(store, "s", "a")
        await replace(store, "s", message("b", "another text"))
        await change(store, "s", lambda seen: plans.change_row(seen.session, NOW, name="another name"))
        await put(store, *texts, named)
        assert [match.address for match in await find(store, "word")] == [texts[2].address]
        assert await store.index_state(NAMESPACE) == (START, 1, 1)

    async def test_deleted_or_replaced_messages_leave_the_index_at_once(self, store: Store) -> None:
        texts = {f"m{number}": f"word w{number}" for number in range(6)}
        await index_all(store, "s", texts)
        await delete(store, "s", "m1", "m2")
        assert await found(store, "word") == {0, 3, 4, 5}
        await replace(store, "s", message("m3", "changed"))
        assert await found(store, "word") == {0, 4, 5}
        assert await store.frequencies(NAMESPACE, ["w1"]) in ([0], [1])
        await change(store, "s", lambda seen: plans.clear_messages(seen.rows, NOW))
        assert await found(store, "word") == set()
        assert await store.index_state(NAMESPACE) == (START, 0, 0)

    async def test_summaries_edits_and_names_leave_the_index_with_their_owners(self, store: Store) -> None:
        await index_all(store, "s", {"a": "word", "b": "word"})
        await cover(store, "s", "o1", "a", "b")
        await fork(store, "s", "f")
        await replace(store, "f", message("a", "changed"))
        seen = await tree(store, "f")
        [edit] = seen.replaced.values()
        session = await row(store, "f")
        addresses = [
            Address("overlay", seen.overlays[0].number),
            Address("edit", edit.number),
            Address("session", session.number),
        ]
        texts = [
            IndexText(address=address, at=NOW, terms=["more"], facets=["ko"], content=content)
            for address, content in zip(addresses, ((), (), (session.name, session.summary)), strict=True)
        ]
        await put(store, *texts)
        matches = {match.address: match for match in await find(store, "more")}
        assert set(matches) == set(addresses)
        assert [matches[address].place for address in addresses] == [None, Place(edit.segment, edit.first), None]
        assert {match.family for match in matches.values()} == {session.family}
        await change(store, "f", lambda seen: plans.change_row(seen.session, NOW, summary="another"))
        assert {match.address for match in await find(store, "more")} == set(addresses[:2])
        await delete_session(store, "f")
        assert {match.address for match in await find(store, "more")} == set(addresses[:1])
        await uncover(store, "s", "o1")
        assert await find(store, "more") == []
        await delete_session(store, "s")
        assert await store.index_state(NAMESPACE) == (START, 0, 0)

    async def test_a_summary_that_is_cut_leaves_the_index_and_does_not_come_back(self, store: Store) -> None:
        await index_all(store, "s", {"a": "word", "b": "word"})
        await cover(store, "s", "o1", "a", "b")
        await fork(store, "s", "f")
        [overlay] = (await tree(store, "s")).overlays
        text = IndexText(address=Address("overlay", overlay.number), at=NOW, terms=["more"], facets=["ko"], content=())
        await put(store, text)
        await delete(store, "s", "a")
        assert [match.address for match in await find(store, "more")] == [text.address]
        await delete(store, "f", "b")
        assert await find(store, "more") == []
        await put(store, text)  # by a worker that had read the summary before
        assert await find(store, "more") == []

    async def test_messages_that_a_fork_still_sees_stay_in_the_index(self, store: Store) -> None:
        await index_all(store, "s", {"a": "word", "b": "word", "c": "word"})
        await fork(store, "s", "f", "b")
        await delete_session(store, "s")
        assert await found(store, "word") == {0, 1}

    async def test_segments_sessions_and_trees_can_be_read_in_bulk(self, store: Store) -> None:
        for name in ("s", "t", "u"):
            await add(store, name, f"{name}1", f"{name}2")
        await fork(store, "s", "f")
        await add(store, "s", "side", parent="s1")
        families = [(await row(store, name)).family for name in ("s", "t", "u")]
        assert await store.families(NAMESPACE, 0, 10) == families
        assert await store.families(NAMESPACE, families[0], 1) == families[1:2]
        relatives = await store.relatives(NAMESPACE, [families[0], families[2]])
        assert {session.id for session in relatives} == {"s", "f", "u"}
        numbers = [(await row(store, name)).number for name in ("u", "f")]
        assert await store.sessions(NAMESPACE, [*numbers, 1 << 50]) == [await row(store, name) for name in ("u", "f")]
        trees = await store.trees(NAMESPACE, ["f", "none", "t"])
        assert [rows.session.id for rows in trees] == ["f", "t"]
        assert trees[0] == (await tree(store, "f")).rows
        assert await store.trees(NAMESPACE, ["f"], family=True) == [(await tree(store, "f", family=True)).rows]
        seen = await tree(store, "s")
        numbers = [segment.number for segment in seen.rows.segments]
        segments = await store.segments(NAMESPACE, [*numbers, 1 << 50])
        assert sorted(segments, key=lambda segment: segment.number) == list(seen.rows.segments)

    async def test_some_sessions_of_a_family_are_read_by_tree_or_by_activity(self, store: Store) -> None:
        await add(store, "s", message("a", "red"))
        for name in ("f", "g", "h"):
            await fork(store, "s", name)
        every = {name: await row(store, name) for name in ("s", "f", "g", "h")}
        family = [every["s"].family]
        owned = await store.relatives(NAMESPACE, family, trees=[every["s"].tree, every["g"].tree, 1 << 50])
        assert {session.id for session in owned} == {"s", "g"}
        by_activity = sorted(every.values(), key=lambda one: (one.last_active_at, one.number), reverse=True)
        assert await store.relatives(NAMESPACE, family, latest=3) == by_activity[:3]
        assert await store.relatives(NAMESPACE, [*family, 1 << 50], latest=9) == by_activity

    async def test_the_owners_of_edits_and_overlays_are_known(self, store: Store) -> None:
        await add(store, "s", message("a", "red"), message("b", "blue"))
        await fork(store, "s", "f")
        await replace(store, "f", message("a", "green"))
        await cover(store, "s", "o", "a", "b")
        seen, forked = await tree(store, "s"), await tree(store, "f")
        edit = Address("edit", next(row.number for row in forked.rows.edits if row.kind == "replaced"))
        overlay = Address("overlay", seen.rows.overlays[0].number)
        found = await store.owner_trees(NAMESPACE, [edit, overlay, Address("edit", 1 << 50)])
        assert found == {edit: forked.session.tree, overlay: seen.session.tree}
        assert await store.owner_trees(NAMESPACE, []) == {}

    async def test_empty_bulk_reads_return_nothing(self, store: Store) -> None:
        assert await store.segments(NAMESPACE, []) == []
        assert await store.sessions(NAMESPACE, []) == []
        assert await store.relatives(NAMESPACE, []) == []
        assert await store.trees(NAMESPACE, []) == []
        assert await store.families(NAMESPACE, 0, 5) == []
        assert await store.frequencies(NAMESPACE, []) == []
        assert await find(store, "word") == []
