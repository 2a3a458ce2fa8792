"""Typos: a word that no text contains finds similar words, and the hit says so, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontdesk import SessionKey, SessionManager
from frontdesk.search.request import distance, similar
from tests.public_api.steps import user
from tests.search.test_limits import UnindexedStore
from tests.search.test_relevance import store_url

words = st.text(alphabet="abc", max_size=6)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def manager(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionManager]:
    async with SessionManager(store_url(request, tmp_path)) as manager:
        texts = ("the deployment failed", "a trip to Zanzibar", "we bought a piano", "the plan of the week", "a planet")
        for number, text in enumerate(texts):
            await manager.append("chat", {"id": f"m{number}", "role": "user", "content": text})
        await manager.reindex()
        yield manager


async def test_a_word_that_no_text_contains_finds_similar_words(manager: SessionManager) -> None:
    for query, found, corrected in (
        ("zanzibr", "m1", ("zanzibr", "zanzibar")),
        ("deploymnet", "m0", ("deploymnet", "deployment")),
        ("when did we buy the piaon?", "m2", ("piaon", "piano")),
    ):
        for results in (await manager.search(query), await manager.session("chat").search(query)):
            assert (results[0].message_id, results[0].corrected) == (found, (corrected,))
            assert "**" in results[0].snippet


async def test_typos_are_recognised_before_texts_are_indexed(manager: SessionManager) -> None:
    await manager.session("chat").append_all([user("n1", "a bowl of marzipan"), user("n2", "another plan")])
    for results in (await manager.search("marzipam"), await manager.session("chat").search("marzipam")):
        assert [(hit.message_id, hit.corrected) for hit in results] == [("n1", (("marzipam", "marzipan"),))]
        assert results[0].snippet == "a bowl of **marzipan**"
    assert (await manager.search("marzipan"))[0].corrected == ()
    # Both kinds of texts are looked through: the right word is found, whichever of them has it.
    assert {hit.corrected for hit in await manager.search("zanzibar marzipan")} == {()}
    assert [hit.message_id for hit in await manager.search("zanzibr")] == ["m1"]


async def test_typos_are_recognised_without_an_index() -> None:
    async with SessionManager(UnindexedStore()) as manager:
        await manager.append("chat", user("n1", "a bowl of marzipan"))
        [hit] = await manager.search("marzipam")
        assert (hit.message_id, hit.corrected) == ("n1", (("marzipam", "marzipan"),))


async def test_a_word_that_some_text_contains_is_not_changed(manager: SessionManager) -> None:
    results = await manager.search("planet")
    assert [(hit.message_id, hit.corrected) for hit in results] == [("m4", ())]


async def test_a_similar_word_ranks_below_the_right_one(manager: SessionManager) -> None:
    await manager.append("chat", {"id": "m9", "role": "user", "content": "the failed week"})
    await manager.reindex()
    results = await manager.search("wekk failed")
    assert results[0].message_id == "m9"
    assert len(await manager.search("xylophone")) == 0


async def test_a_file_name_that_is_known_in_part_is_no_typo(manager: SessionManager) -> None:
    texts = ("the file reports.csv is here", "a report", "another csv", "the report as a csv")
    await manager.session("files").append_all([user(f"f{number}", text) for number, text in enumerate(texts)])
    await manager.reindex()
    results = await manager.search("report.csv")
    assert results[0].message_id == "f0"
    assert {hit.corrected for hit in results} == {()}


async def test_only_words_that_were_typed_are_taken_for_typos(manager: SessionManager) -> None:
    await manager.session("names").append_all([user("n1", "nodesj"), user("n2", "the piano"), user("n3", "deplay")])
    await manager.reindex()
    for query in ("node.js", "xylophone.piano", "deployments*"):  # "nodejs" is a spelling of the first
        assert {hit.corrected for hit in await manager.search(query)} <= {()}, query
    assert [hit.message_id for hit in await manager.search("node.js")] == []


async def test_a_word_of_the_query_counts_in_full_if_another_one_is_a_typo_of_it(manager: SessionManager) -> None:
    [right], [both] = await manager.search("zanzibar"), await manager.search("zanzibar zanzibr")
    assert (both.score, both.corrected) == (right.score, ())


async def test_a_hit_names_the_word_that_its_text_contains(manager: SessionManager) -> None:
    await manager.session("words").append_all([user("w1", "Organisations-plan"), user("w2", "the ORGANIZATION")])
    await manager.reindex()
    found = {hit.message_id: hit.corrected for hit in await manager.search("organizatoin")}
    assert found == {"w1": (("organizatoin", "organisations"),), "w2": (("organizatoin", "organization"),)}


@pytest.mark.parametrize("is_key", [False, True])
async def test_what_others_wrote_does_not_change_what_is_taken_for_a_typo(
    manager: SessionManager, is_key: bool
) -> None:
    """Otherwise a guest could find out whether others have used a word, by writing one that is similar to it."""
    ana, ben = ((SessionKey("bot", "web", name) if is_key else name) for name in ("ana", "ben"))
    await manager.session(ana).append({"id": "a1", "role": "user", "content": "the marzipan is mine"})
    await manager.session(ben).append({"id": "b1", "role": "user", "content": "another piano"})
    await manager.reindex()
    tool = (await manager.session(ana).tools())["session_search"]

    async def found() -> list[object]:
        hits = await manager.session(ana).search("marzipam")
        return [await tool(query="marzipam"), *((hit.message_id, hit.corrected) for hit in hits)]

    before = await found()
    assert before[1:] == [("a1", (("marzipam", "marzipan"),))]
    said = [user(f"c{number}", f"marzipa{letter}") for number, letter in enumerate("abcdefghijklmopqrstuvwxyz")]
    await manager.session(ben).append_all(said)
    for _ in range(2):
        assert await found() == before
        assert (await manager.search("marzipam"))[0].message_id == "c12"
        await manager.reindex()


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("restarant", "restaurant"),
        ("giutar", "guitar"),
        ("gguitar", "guitar"),
        ("potery", "pottery"),
        ("recieve", "receive"),
    ],
)
async def test_common_typos_are_recognised(manager: SessionManager, typed: str, written: str) -> None:
    await manager.append("chat", user("t1", f"my {written}"))
    await manager.reindex()
    [hit] = await manager.search(typed)
    assert (hit.message_id, hit.snippet) == ("t1", f"my **{written}**")


def test_terms_with_the_fewest_differences_come_first() -> None:
    assert list(similar("zanzibr", "zanzibr", ["zanzibar", "zebra", "zoo"])) == ["zanzibar"]
    assert similar("lamp", "lamp", ["camp", "land", "lamb"]) == {"camp": 1, "lamb": 1}
    assert similar("marzipans", "marzipan", ["marzipen", "marzapen"]) == {"marzipen": 1, "marzapen": 2}
    assert similar("cats", "cat", []) == {}


@given(words, words)
def test_the_distance_is_symmetric_and_zero_for_the_same(first: str, second: str) -> None:
    assert distance(first, second, 9) == distance(second, first, 9)
    assert (distance(first, second, 9) == 0) == (first == second)


def test_neighbouring_letters_that_are_exchanged_are_one_difference() -> None:
    assert distance("piano", "paino", 2) == 1
    assert distance("piano", "pano", 2) == 1
    assert distance("piano", "violin", 2) == 3
