"""Search by meaning, with small embeddings made by hand.

One knows the colours of things. The others embed a corpus in which half of the questions use other words than the
texts: some know which words mean the same, and some know nothing."""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import pytest

from frontdesk import (
    EmbeddingError,
    ModelError,
    SearchResults,
    Session,
    SessionInfo,
    SessionKey,
    SessionManager,
    Store,
)
from tests.public_api.steps import user
from tests.waiting import eventually

Vectors = list[list[float]]
Opened = Callable[..., Awaitable[SessionManager]]

COLOURS = {"red": 0, "tomato": 0, "rose": 0, "green": 1, "grass": 1, "frog": 1, "blue": 2, "sky": 2, "sea": 2}


def found(results: SearchResults) -> list[str]:
    return [hit.message_id for hit in results]


class Colours:
    """An embedding that knows the colours of things and records its calls; it can be made to fail."""

    name = "colours-1"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.broken: Exception | None = None
        self.refused = ""

    def __call__(self, texts: list[str]) -> Vectors:
        if self.broken is not None:
            raise self.broken
        if self.refused and any(self.refused in text for text in texts):
            raise ModelError("too long", model=self.name)
        self.asked += texts
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        numbers = [0.0, 0.0, 0.0, 0.1]
        for word in text.lower().split():
            if word in COLOURS:
                numbers[COLOURS[word]] += 1.0
        return numbers


def hanging(texts: list[str]) -> Any:
    return asyncio.Event().wait()


class SemanticSearchTests:
    @pytest.fixture
    def colours(self) -> Colours:
        return Colours()

    @pytest.fixture
    async def opened(self, store: Store, namespace: str) -> AsyncIterator[Opened]:
        """A function that opens managers with an embedding."""
        async with AsyncExitStack() as stack:

            async def open_one(embed: Any, dimensions: int = 4, *, elsewhere: str = "", **more: Any) -> SessionManager:
                knowing = SessionManager(store, namespace=namespace + elsewhere)
                knowing.with_embeddings(embed, dimensions=dimensions, **more)
                return await stack.enter_async_context(knowing)

            yield open_one

    @pytest.fixture
    async def knowing(self, opened: Opened, colours: Colours) -> SessionManager:
        return await opened(colours)

    @pytest.fixture
    async def garden(self, knowing: SessionManager) -> Session:
        """A session about coloured things, with vectors."""
        session = knowing.session("garden")
        await session.append_all([user(f"m-{word}", f"one {word} here") for word in ("tomato", "grass", "sky", "rose")])
        await knowing.reindex()
        return session

    async def test_texts_with_the_same_meaning_are_found(self, knowing: SessionManager, garden: Session) -> None:
        for search in (knowing.search, garden.search):
            assert found(await search("something red"))[:2] in (["m-tomato", "m-rose"], ["m-rose", "m-tomato"])
            assert found(await search("sea"))[0] == "m-sky"
            hit = (await search("sea"))[0]
            assert (hit.snippet, hit.role, hit.session_id) == ("one sky here", "user", "garden")
            assert hit.score > 0

    async def test_matches_by_words_come_before_matches_by_meaning(
        self, knowing: SessionManager, garden: Session
    ) -> None:
        results = found(await garden.search("rose"))
        assert results[:2] == ["m-rose", "m-tomato"]

    async def test_a_search_can_be_by_words_only(self, knowing: SessionManager, garden: Session) -> None:
        for search in (knowing.search, garden.search):
            assert found(await search("rose", meaning=False)) == ["m-rose"]
            assert found(await search("sea", meaning=False)) == []

    async def test_the_scope_is_part_of_a_search_by_meaning(self, knowing: SessionManager) -> None:
        """More texts of others are nearer than are compared with the filters."""
        for number in range(300):
            key = SessionKey("bot" if number else "cook", "web", f"guest {number}")
            await knowing.create(id=f"g{number}", key=key)
        await knowing.append("g0", user("own", "one red tomato and one blue sky"))
        await knowing.append("g1", user("other", "one rose and a bit of sea"))
        await knowing.append_all("crowd", [user(f"x{number}", "tomato rose") for number in range(300)])
        await knowing.reindex()

        def is_cook(info: SessionInfo) -> bool:
            return info.key is not None and info.key.agent == "cook"

        for scope in ("guest", "agent", "session", {"agent": "cook"}, is_cook):
            search = (await knowing.session("g0").tools(scope=scope))["session_search"]  # type: ignore[arg-type]
            answer = await search(query="something red")
            assert "message own]" in answer, scope
            assert "other" not in answer, scope
            assert "crowd" not in answer, scope
        answer = await knowing.tools(scope={"agent": "bot"})["search_sessions"](query="something red")
        assert "message other]" in answer
        assert "own" not in answer
        assert "crowd" not in answer
        assert found(await knowing.search("something red", agent="bot")) == ["other"]

    async def test_search_info_contains_vectors(
        self, knowing: SessionManager, garden: Session, manager: SessionManager
    ) -> None:
        info = await knowing.search_info()
        assert (info.mode, info.dimensions, info.embedding_model) == ("hybrid", 4, "colours-1")
        assert (info.texts, info.vectors, info.embedding_error) == (4, 4, None)
        plain = await manager.search_info()
        assert (plain.mode, plain.dimensions, plain.embedding_model, plain.vectors) == ("lexical", None, None, 0)

    async def test_vectors_are_made_in_the_background_and_each_text_is_embedded_once(
        self, knowing: SessionManager, colours: Colours
    ) -> None:
        session = knowing.session("chat")
        await session.append_all([user("m1", "tomato soup"), user("m2", "a green frog")])
        assert found(await knowing.search("soup"))[0] == "m1"

        async def has(number: int) -> bool:
            info = await knowing.search_info()
            return (info.texts, info.vectors) == (number, number)

        await eventually(lambda: has(2))
        await session.append(user("m3", "the sky above"))
        await eventually(lambda: has(3))
        assert sorted(text for text in colours.asked if text not in ("soup", "blue")) == [
            "a green frog",
            "the sky above",
            "tomato soup",
        ]
        assert found(await knowing.search("blue"))[0] == "m3"

    async def test_texts_without_a_vector_are_found_by_their_words(
        self, knowing: SessionManager, garden: Session
    ) -> None:
        await garden.append(user("m-new", "a red bicycle"))
        for search in (knowing.search, garden.search):
            assert found(await search("bicycle"))[0] == "m-new"
            assert set(found(await search("red bicycle"))[:3]) >= {"m-new"}

    async def test_filters_apply_to_matches_by_meaning(self, knowing: SessionManager, garden: Session) -> None:
        await knowing.session("other").append_all(
            [
                {"id": "o-rose", "role": "assistant", "content": "a rose there", "created_at": "2020-01-01T00:00:00Z"},
                {"id": "o-frog", "role": "user", "content": "a frog there", "created_at": "2020-01-02T00:00:00Z"},
            ]
        )
        await knowing.session("other").add_tags("work")
        await knowing.reindex()
        assert found(await knowing.search("red role:assistant")) == ["o-rose"]
        assert found(await knowing.search("red before:2020-01-02")) == ["o-rose"]
        assert found(await knowing.search("red tag:work")) == ["o-rose", "o-frog"]
        assert found(await knowing.search("red", session="other")) == ["o-rose", "o-frog"]
        assert found(await knowing.search("red tag:nothing")) == []
        assert set(found(await knowing.search("red -rose -frog"))) == {"m-tomato", "m-grass", "m-sky"}
        assert found(await knowing.search('red "frog there"')) == ["o-frog"]
        assert found(await garden.search("red role:assistant")) == []
        assert "o-rose" not in found(await garden.search("red"))
        assert found(await knowing.search("red", newest=True)) == []

    async def test_a_page_continues_where_the_previous_one_ended(
        self, knowing: SessionManager, garden: Session
    ) -> None:
        whole = found(await knowing.search("red rose grass"))
        pages: list[str] = []
        results = await knowing.search("red rose grass", limit=1)
        while True:
            pages += found(results)
            if results.next_cursor is None:
                break
            results = await knowing.search("red rose grass", limit=1, cursor=results.next_cursor)
        assert pages == whole
        assert len(whole) == results.total == 4
        grouped = await knowing.search("red rose grass", group=True)
        assert found(grouped) == whole

    async def test_a_message_shared_by_forks_is_returned_once(self, knowing: SessionManager, garden: Session) -> None:
        fork = await knowing.fork("garden", new_id="fork")
        await fork.append(user("f1", "a red fox"))
        await knowing.reindex()
        results = await knowing.search("something red")
        assert sorted(found(results)) == ["f1", "m-grass", "m-rose", "m-sky", "m-tomato"]
        assert {hit.session_id for hit in results if hit.message_id != "f1"} == {"garden"}
        assert "f1" not in found(await garden.search("something red"))
        assert set(found(await fork.search("something red"))) == set(found(results))
        await knowing.delete("garden")
        assert {hit.session_id for hit in await knowing.search("something red")} == {"fork"}

    async def test_deleted_messages_are_not_found_and_have_no_vector(
        self, knowing: SessionManager, garden: Session, colours: Colours
    ) -> None:
        await garden.delete_messages(["m-rose"])
        assert "m-rose" not in found(await knowing.search("something red"))
        assert (await knowing.search_info()).vectors == 3
        colours.refused = "frog"  # no new vector comes in the background
        await garden.update_message({"id": "m-tomato", "role": "user", "content": "one frog here"})
        assert "m-tomato" not in found(await knowing.search("something red"))
        assert (await knowing.search_info()).vectors == 2
        colours.refused = ""
        await knowing.reindex()
        assert found(await knowing.search("something green"))[0] in ("m-tomato", "m-grass")
        await garden.clear_messages()
        assert found(await knowing.search("something red")) == []
        assert (await knowing.search_info()).vectors == 0

    async def test_names_of_sessions_and_summaries_are_found_by_meaning(self, knowing: SessionManager) -> None:
        session = await knowing.create("To the sea", id="trip")
        await session.append_all([user(f"m{number}", f"number {number}") for number in range(4)])
        await session.add_compaction("we saw a frog", "m0", "m1")
        await knowing.reindex()
        results = await knowing.search("blue")
        assert (results[0].kind, results[0].session_id) == ("session", "trip")
        assert (await knowing.search("green"))[0].kind == "summary"
        assert (await session.search("green"))[0].kind == "summary"
        await session.rename("To the rose")
        await knowing.reindex()
        assert (await knowing.search("red"))[0].kind == "session"

    async def test_namespaces_do_not_mix(
        self, knowing: SessionManager, garden: Session, opened: Opened, colours: Colours
    ) -> None:
        other = await opened(colours, elsewhere="-other")
        await other.append("garden", user("x-rose", "another rose"))
        await other.reindex()
        assert found(await other.search("red")) == ["x-rose"]
        assert found(await other.session("garden").search("red")) == ["x-rose"]
        assert "x-rose" not in found(await knowing.search("red"))
        assert (await other.search_info()).vectors == 1

    async def test_if_embedding_fails_search_uses_words(
        self, knowing: SessionManager, garden: Session, colours: Colours, caplog: pytest.LogCaptureFixture
    ) -> None:
        colours.broken = RuntimeError("secret rose")
        assert found(await knowing.search("secret rose")) == ["m-rose"]
        assert found(await garden.search("secret rose")) == ["m-rose"]
        info = await knowing.search_info()
        assert (info.mode, info.embedding_error) == ("lexical", "the embedding failed (RuntimeError): try again")
        assert len([record for record in caplog.records if record.name == "frontdesk.search"]) == 1
        assert "rose" not in caplog.text
        await garden.append(user("m-new", "a red bicycle"))
        with pytest.raises(EmbeddingError):
            await knowing.reindex()
        assert found(await knowing.search("bicycle")) == ["m-new"]
        assert (await knowing.search_info()).vectors == 4
        colours.broken = None
        assert (await knowing.reindex()).mode == "hybrid"
        assert "m-new" in found(await knowing.search("tomato"))[:3]

    async def test_missing_vectors_are_made_once_embedding_works_again(
        self, knowing: SessionManager, colours: Colours
    ) -> None:
        colours.broken = RuntimeError("down")
        await knowing.append("chat", user("m1", "a tomato"))

        async def failed() -> bool:
            return (await knowing.search_info()).embedding_error is not None

        await eventually(failed)
        colours.broken = None

        async def has_vectors() -> bool:
            info = await knowing.search_info()
            return (info.vectors, info.texts, info.mode) == (1, 1, "hybrid")

        await eventually(has_vectors)
        assert found(await knowing.search("red")) == ["m1"]

    async def test_an_embedding_that_hangs_times_out(self, opened: Opened, garden: Session) -> None:
        patient = await opened(hanging, timeout=0.05)
        assert found(await patient.search("rose")) == ["m-rose"]
        assert "0.05 s" in str((await patient.search_info()).embedding_error)

    async def test_a_text_that_the_model_refuses_does_not_block_the_others(
        self, knowing: SessionManager, colours: Colours
    ) -> None:
        colours.refused = "poison"
        texts = ["tomato", "poison ivy", "sky", "grass", "rose"]
        await knowing.session("chat").append_all([user(f"m{number}", text) for number, text in enumerate(texts)])
        info = await knowing.reindex()
        assert (info.texts, info.vectors, info.mode) == (5, 4, "hybrid")
        assert set(found(await knowing.search("red"))[:2]) == {"m0", "m4"}
        assert found(await knowing.search("ivy"))[0] == "m1"

    async def test_a_different_model_raises_with_instructions_and_works_after_a_reindex(
        self, knowing: SessionManager, opened: Opened, garden: Session
    ) -> None:
        other = await opened(lambda texts: [Colours().vector(text)[:3] for text in texts], 3)
        assert found(await other.search("rose")) == ["m-rose"]
        info = await other.search_info()
        assert (info.mode, info.vectors) == ("lexical", 0)
        assert "4 dimensions, not 3" in str(info.embedding_error)
        info = await other.reindex()
        assert (info.mode, info.vectors, info.dimensions) == ("hybrid", 4, 3)
        assert found(await other.search("sea"))[0] == "m-sky"
        assert found(await knowing.search("sea")) == []
        renamed = Colours()
        renamed.name = "colours-2"
        await knowing.reindex()
        third = await opened(renamed)
        assert found(await third.search("sea")) == []
        assert "'colours-1', not 'colours-2'" in str((await third.search_info()).embedding_error)
        assert (await third.reindex()).mode == "hybrid"
        assert found(await third.search("sea"))[0] == "m-sky"

    async def test_vectors_of_the_wrong_size_raise(self, opened: Opened) -> None:
        wrong = await opened(Colours(), 5)
        await wrong.append("chat", user("m1", "a rose"))
        with pytest.raises(EmbeddingError, match="vector of 5 numbers"):
            await wrong.reindex()
        assert found(await wrong.search("rose")) == ["m1"]

    @pytest.mark.parametrize("kind", ["good", "random", "same", "spelling"])
    async def test_a_good_embedding_finds_more_and_a_poor_one_hardly_less(
        self, manager: SessionManager, opened: Opened, kind: str
    ) -> None:
        corpus, words = Corpus(), manager
        for session in range(0, len(corpus.texts), 10):
            texts = list(enumerate(corpus.texts))[session : session + 10]
            await words.session(f"s{session}").append_all([user(f"m{number}", text) for number, text in texts])
        both = await opened(corpus.embeddings()[kind], 32)
        assert (await both.reindex()).vectors == len(corpus.texts)
        depths = (1, 5, 10, 20)
        lexical, fused = await corpus.recall(words.search, *depths), await corpus.recall(both.search, *depths)
        for depth, before, after in zip(depths, lexical, fused, strict=True):
            if kind == "good":
                assert after >= before + 1.0, (depth, before, after)
            else:
                assert after >= before - 1.0, (depth, before, after)


class Corpus:
    """Texts, and a question about each. Each concept has two words, and a text or question uses either."""

    def __init__(self, size: int = 200) -> None:
        rng = random.Random(3)
        syllables = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
        words = list(dict.fromkeys("".join(rng.choices(syllables, k=3)) for _ in range(900)))[:600]
        self._concepts = list(zip(words[::2], words[1::2], strict=True))
        weights = [1 / (index + 10) for index in range(len(self._concepts))]
        meant = [rng.choices(range(len(self._concepts)), weights, k=8) for _ in range(size)]
        self.texts = [self._said(rng, one) for one in meant]
        self.questions = [self._said(rng, rng.sample(one, 3)) for one in meant]

    def _said(self, rng: random.Random, meanings: Iterable[int]) -> str:
        return " ".join(rng.choice(self._concepts[meaning]) for meaning in meanings)

    async def recall(self, search: Callable[..., Any], *depths: int) -> list[float]:
        """The percentage of questions whose text is among the first hits, for each depth."""
        hits = [found(await search(question, limit=max(depths))) for question in self.questions]
        return [
            100 * sum(f"m{number}" in ids[:depth] for number, ids in enumerate(hits)) / len(hits) for depth in depths
        ]

    def embeddings(self) -> dict[str, Callable[[list[str]], Vectors]]:
        known = {word: number for number, pair in enumerate(self._concepts) for word in pair}

        def good(text: str) -> list[float]:
            columns = zip(*(_noise(f"concept {known.get(word, word)}") for word in text.split()), strict=True)
            return [sum(column) for column in columns]

        def spelling(text: str) -> list[float]:
            counts = [0.0] * 32
            for pair in pairwise(text):
                counts[zlib.crc32("".join(pair).encode()) % 32] += 1.0
            return counts

        kinds: dict[str, Callable[[str], list[float]]] = {
            "good": good,
            "random": _noise,
            "same": lambda text: [1.0] * 32,
            "spelling": spelling,
        }
        return {kind: lambda texts, one=one: [one(text) for text in texts] for kind, one in kinds.items()}  # type: ignore[misc]


def _noise(text: str) -> list[float]:
    rng = random.Random(text)
    return [rng.gauss(0, 1) for _ in range(32)]
