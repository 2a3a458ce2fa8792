"""Random work on sessions with searches in between, compared with a model that keeps a plain copy of every session and
looks through all texts. The model knows nothing of indexes, segments or families."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, ClassVar

import pytest

from frontdesk import InvalidRangeError, SearchHit, SearchResults, Session, SessionKey, SessionManager, Store
from frontdesk.messages import new_id
from frontdesk.search import candidates, corpus, follower, index, texts

WORDS = ("amber", "birch", "cedar", "dune", "fjord", "grove")
ROLES = ("user", "assistant")
PEERS = ("ana", "ben", "cleo")
TAGS = ("red", "blue")
START = datetime(2024, 1, 1, tzinfo=UTC)
OpenedAgain = Callable[[], Awaitable[Store]]


@dataclass(eq=False)
class Text:
    """A text that can be found. Sessions that share a message share its text: it is found once."""

    id: str
    words: list[str]
    kind: str = "message"
    role: str = ""
    at: datetime | None = None
    given: dict[str, Any] = field(default_factory=dict)
    """the message as it was given"""


@dataclass
class Copy:
    """A session as a copy of everything that it sees: texts and parents by message id, and summaries with the ids that
    they cover."""

    texts: dict[str, Text] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)
    head: str | None = None
    summaries: dict[str, tuple[Text, list[str]]] = field(default_factory=dict)
    name: Text | None = None
    peer: str | None = None
    tags: set[str] = field(default_factory=set)

    def path(self, leaf: str | None) -> list[str]:
        way: list[str] = []
        while leaf is not None:
            way.append(leaf)
            leaf = self.parents[leaf]
        return way[::-1]

    def delete(self, id: str) -> None:
        del self.texts[id]
        parent = self.parents.pop(id)
        self.parents = {child: parent if other == id else other for child, other in self.parents.items()}
        self.head = parent if self.head == id else self.head
        self.summaries = {name: (text, ids) for name, (text, ids) in self.summaries.items() if id not in ids}

    def fork(self, at: str | None) -> Copy:
        way = self.path(at)
        summaries = {name: (text, ids) for name, (text, ids) in self.summaries.items() if set(ids) <= set(way)}
        shared = {id: self.texts[id] for id in way}
        parents = {id: self.parents[id] for id in way}
        return Copy(shared, parents, at, summaries, tags=set(self.tags))

    def all_texts(self, *, names: bool) -> Iterator[Text]:
        yield from self.texts.values()
        yield from (text for text, _ in self.summaries.values())
        if names and self.name is not None:
            yield self.name


@dataclass(frozen=True)
class Question:
    """A query, and which texts it should find."""

    query: str
    finds: Callable[[Text], bool]
    has_several_words: bool = False


def questions(pick: random.Random) -> Question:
    one, two, three = pick.sample(WORDS, 3)
    day = START + timedelta(days=pick.randrange(30))

    def before(text: Text) -> bool:
        return text.at is not None and text.at < day

    asked = [
        Question(one, lambda text: one in text.words),
        Question(f"{one} {two}", lambda text: one in text.words or two in text.words, has_several_words=True),
        Question(f'"{one} {two}"', lambda text: f" {one} {two} " in f" {' '.join(text.words)} "),
        Question(f"{one} -{two}", lambda text: one in text.words and two not in text.words),
        Question(f"{one[:3]}*", lambda text: any(word.startswith(one[:3]) for word in text.words)),
        Question(f"{three} role:user", lambda text: three in text.words and text.role == "user"),
        Question(f"{one} before:{day:%Y-%m-%d}", lambda text: one in text.words and before(text)),
        Question(
            f"{one} {two} role:assistant -{three}",
            lambda text: _is_answer(text, one, two, three),
            has_several_words=True,
        ),
    ]
    return pick.choice(asked)


def _is_answer(text: Text, one: str, two: str, three: str) -> bool:
    return (one in text.words or two in text.words) and three not in text.words and text.role == "assistant"


class RandomWork:
    """Applies random steps to a manager and to the model, and compares what they find."""

    def __init__(self, store: Store, opened_again: OpenedAgain, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._opened_again = opened_again
        self._random = random.Random(seed)
        self._monkeypatch = monkeypatch
        self.manager = SessionManager(store, namespace=f"search-{new_id()}")
        self._model: dict[str, Copy] = {}
        self._serial = 0
        self.searches = 0
        self._steps: list[tuple[int, Callable[[], Awaitable[Any]]]] = [
            (30, self._append),
            (8, self._append_elsewhere),
            (8, self._begin),
            (10, self._fork),
            (10, self._update),
            (10, self._delete_messages),
            (6, self._compact),
            (3, self._undo),
            (4, self._rename),
            (3, self._switch),
            (3, self._clear),
            (3, self._pop),
            (4, self._replace),
            (4, self._delete_session),
            (1, self._erase),
            (4, self._index_in_part),
            (2, self._reindex_in_part),
            (1, self._reopen),
            (24, self._search),
        ]

    async def run(self, steps: int) -> None:
        weights = [weight for weight, _ in self._steps]
        works = [work for _, work in self._steps]
        for _ in range(steps):
            if len(self._model) > 12:
                await self._delete_session()
            await self._random.choices(works, weights)[0]()
        await self._compare_everything()

    # choosing

    def _next(self, letter: str) -> str:
        self._serial += 1
        return f"{letter}{self._serial}"

    def _words(self) -> list[str]:
        return [*self._random.choices(WORDS, k=self._random.randint(0, 3)), self._next("n")]

    def _session(self, *, with_texts: bool = False) -> tuple[str, Session, Copy] | None:
        names = [name for name, copy in self._model.items() if copy.texts or not with_texts]
        if not names:
            return None
        name = self._random.choice(names)
        return name, self.manager.session(name), self._model[name]

    def _message(self, copy: Copy, parent: str | None) -> dict[str, Any]:
        """A new message, which the model has already."""
        id, words, role = self._next("m"), self._words(), self._random.choice(ROLES)
        at = START + timedelta(days=self._random.randrange(30), hours=1)
        given = {"id": id, "role": role, "content": " ".join(words), "created_at": at.isoformat()}
        copy.texts[id] = Text(id, words, role=role, at=at, given=given)
        copy.parents[id], copy.head = parent, id
        return given

    # steps

    async def _begin(self) -> None:
        if len(self._model) >= 8:
            return
        name, words = self._next("s"), self._words()
        copy = Copy(name=Text(name, words, "session"))
        tags = self._random.sample(TAGS, self._random.randint(0, 2))
        key = None
        if self._random.random() < 0.5:
            copy.peer = self._random.choice(PEERS)
            key = SessionKey("bot", name, copy.peer)
        copy.tags = set(tags)
        self._model[name] = copy
        await self.manager.create(" ".join(words), id=name, key=key, tags=tags)

    async def _append(self) -> None:
        chosen = self._session()
        if chosen is None:
            await self._begin()
            return
        _, session, copy = chosen
        messages = [self._message(copy, copy.head) for _ in range(self._random.choice((1, 1, 2, 5)))]
        await session.append_all(messages)

    async def _append_elsewhere(self) -> None:
        chosen = self._session(with_texts=True)
        if chosen is not None:
            _, session, copy = chosen
            parent = self._random.choice([None, *copy.texts])
            await session.append(self._message(copy, parent), parent=parent)

    async def _fork(self) -> None:
        chosen = self._session(with_texts=True)
        if chosen is None or len(self._model) >= 12:
            return
        name, _, copy = chosen
        at = self._random.choice([copy.head, *copy.texts])
        if at is None:
            return
        made, words = self._next("s"), self._words()
        self._model[made] = copy.fork(at)
        self._model[made].name = Text(made, words, "session")
        await self.manager.fork(name, at, new_id=made, name=" ".join(words))

    async def _update(self) -> None:
        chosen = self._session(with_texts=True)
        if chosen is not None:
            _, session, copy = chosen
            old = copy.texts[self._random.choice(list(copy.texts))]
            words = self._words()
            given = {"id": old.id, "role": old.role, "content": " ".join(words)}
            copy.texts[old.id] = Text(old.id, words, role=old.role, at=old.at, given=given)
            await session.update_message(given)

    async def _delete_messages(self) -> None:
        chosen = self._session(with_texts=True)
        if chosen is not None:
            _, session, copy = chosen
            ids = self._random.sample(list(copy.texts), min(self._random.randint(1, 3), len(copy.texts)))
            for id in ids:
                copy.delete(id)
            await session.delete_messages(ids)

    async def _compact(self) -> None:
        chosen = self._session(with_texts=True)
        if chosen is not None:
            _, session, copy = chosen
            way = copy.path(self._random.choice(list(copy.texts)))
            covered = way[self._random.randrange(len(way)) :]
            words = self._words()
            with suppress(InvalidRangeError):
                made = await session.add_compaction(" ".join(words), covered[0], covered[-1])
                copy.summaries[made.id] = Text(made.id, words, "summary"), covered

    async def _undo(self) -> None:
        chosen = self._session(with_texts=True)
        if chosen is not None and chosen[2].summaries:
            _, session, copy = chosen
            name = self._random.choice(list(copy.summaries))
            del copy.summaries[name]
            await session.undo_compaction(name)

    async def _rename(self) -> None:
        chosen = self._session()
        if chosen is not None:
            name, session, copy = chosen
            words = self._words()
            copy.name = Text(name, words, "session")
            await session.rename(" ".join(words))

    async def _switch(self) -> None:
        chosen = self._session(with_texts=True)
        if chosen is not None:
            _, session, copy = chosen
            copy.head = self._random.choice(list(copy.texts))
            await session.switch(copy.head)

    async def _clear(self) -> None:
        chosen = self._session(with_texts=True)
        if chosen is not None:
            _, session, copy = chosen
            copy.texts, copy.parents, copy.head, copy.summaries = {}, {}, None, {}
            await session.clear_messages()

    async def _pop(self) -> None:
        chosen = self._session(with_texts=True)
        if chosen is not None and chosen[2].head is not None:
            _, session, copy = chosen
            copy.delete(copy.head or "")
            await session.pop()

    async def _replace(self) -> None:
        """Keep the beginning of the path, and replace everything else."""
        chosen = self._session(with_texts=True)
        if chosen is not None:
            _, session, copy = chosen
            way = copy.path(copy.head)
            kept = [copy.texts[id] for id in way[: self._random.randint(0, len(way))]]
            for id in set(copy.texts) - {text.id for text in kept}:
                copy.delete(id)
            copy.head = kept[-1].id if kept else None
            given = [text.given for text in kept]
            given += [self._message(copy, copy.head) for _ in range(self._random.randint(0, 2))]
            await session.replace_messages(given)

    async def _delete_session(self) -> None:
        chosen = self._session()
        if chosen is not None:
            name, _, _ = chosen
            del self._model[name]
            await self.manager.delete(name)

    async def _erase(self) -> None:
        """Forks of an erased session are erased, too: which those are is the subject of other tests."""
        peer = self._random.choice(PEERS)
        await self.manager.erase(peer=peer)
        for name in list(self._model):
            if await self.manager.get(name) is None:
                del self._model[name]
        assert all(copy.peer != peer for copy in self._model.values())

    # the index

    async def _index_in_part(self) -> None:
        """Bring the index up to date in batches of a random size, and break off after some of them."""
        with self._interrupted() as progress, suppress(InterruptedError):
            await index.update(self.manager._runtime, progress)

    async def _reindex_in_part(self) -> None:
        with self._interrupted() as progress, suppress(InterruptedError):
            await self.manager.reindex(progress)

    def _interrupted(self) -> _Interrupted:
        return _Interrupted(self._random, self._monkeypatch)

    async def _reopen(self) -> None:
        """Close everything, and continue as another process would."""
        await self.manager.close()
        self.manager = SessionManager(await self._opened_again(), namespace=self.manager.namespace)

    # searching

    async def _search(self) -> None:
        self.searches += 1
        question = questions(self._random)
        way = self._random.randrange(5)
        chosen = self._session()
        if way == 0 and chosen is not None:
            await self._search_session(chosen, question)
        elif way == 1:
            peer = self._random.choice(PEERS)
            await self._search_all(question, lambda copy: copy.peer == peer, peer=peer)
        elif way == 2:
            tag = self._random.choice(TAGS)
            await self._search_all(question, lambda copy: tag in copy.tags, tag=tag)
        else:
            await self._search_all(question, lambda copy: True)

    async def _search_session(self, chosen: tuple[str, Session, Copy], question: Question) -> None:
        name, session, copy = chosen
        results = await session.search(question.query, limit=1_000)
        expected = [text for text in copy.all_texts(names=False) if question.finds(text)]
        self._compare(question, results, expected, [name])

    async def _search_all(self, question: Question, accepts: Callable[[Copy], bool], **filters: str) -> None:
        results = await self.manager.search(question.query, limit=1_000, **filters)  # type: ignore[arg-type]
        names = [name for name, copy in self._model.items() if accepts(copy)]
        seen = dict.fromkeys(text for name in names for text in self._model[name].all_texts(names=True))
        expected = [text for text in seen if question.finds(text)]
        self._compare(question, results, expected, names)

    def _compare(self, question: Question, results: SearchResults, expected: list[Text], names: list[str]) -> None:
        found = Counter(_described(hit) for hit in results)
        assert found == Counter((text.kind, text.id) for text in expected), question.query
        assert results.total == len(expected)
        assert results.total_is_exact
        assert results.next_cursor is None
        for hit in results:
            assert hit.session_id in names
            shown = {(text.kind, text.id) for text in self._model[hit.session_id].all_texts(names=True)}
            assert _described(hit) in shown, f"{hit.session_id} does not see {hit.message_id}"

    async def _compare_everything(self) -> None:
        for word in WORDS:
            question = Question(word, lambda text, word=word: word in text.words)  # type: ignore[misc]
            await self._search_all(question, lambda copy: True)
            for name, copy in self._model.items():
                await self._search_session((name, self.manager.session(name), copy), question)


class PagedWork(RandomWork):
    """The same, but reads all pages of each search."""

    async def _search_session(self, chosen: tuple[str, Session, Copy], question: Question) -> None:
        name, session, copy = chosen
        expected = [text for text in copy.all_texts(names=False) if question.finds(text)]
        newest = self._random.random() < 0.3
        await self._compare_pages(question, partial(session.search, question.query, newest=newest), expected, [name])

    async def _search_all(self, question: Question, accepts: Callable[[Copy], bool], **filters: str) -> None:
        names = [name for name, copy in self._model.items() if accepts(copy)]
        seen = dict.fromkeys(text for name in names for text in self._model[name].all_texts(names=True))
        expected = [text for text in seen if question.finds(text)]
        newest, group = (self._random.random() < 0.3 for _ in range(2))
        search = partial(self.manager.search, question.query, newest=newest, group=group, **filters)  # type: ignore[arg-type]
        await self._compare_pages(question, search, expected, names)

    async def _compare_pages(
        self,
        question: Question,
        search: Callable[..., Awaitable[SearchResults]],
        expected: list[Text],
        names: list[str],
    ) -> None:
        limit, cursor, found = self._random.choice((1, 2, 3, 7, 20)), None, Counter[tuple[str, str]]()
        while True:
            results = await search(limit=limit, cursor=cursor)
            found.update(_described(hit) for hit in results)
            assert {hit.session_id for hit in results} <= set(names)
            cursor = results.next_cursor
            if cursor is None:
                break
        wanted = Counter((text.kind, text.id) for text in expected)
        assert found <= wanted, question.query
        # Of several words, only texts with the rarest are found if there are very many.
        assert found == wanted or question.has_several_words, question.query


class _Interrupted:
    """Sets random sizes of batches, and raises `InterruptedError` after some of them."""

    def __init__(self, pick: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self._random = pick
        self._monkeypatch = monkeypatch

    def __enter__(self) -> Callable[[int, int], None]:
        self._monkeypatch.setattr(texts, "BATCH_SIZE", self._random.choice((1, 2, 3, 7, 1_024)))
        self._monkeypatch.setattr(texts, "_FAMILIES", self._random.choice((1, 2, 64)))
        self._monkeypatch.setattr(follower, "LOG_BATCH", self._random.choice((1, 2, 5, 1_000)))
        left = self._random.choice((0, 1, 2, 5, 1_000))

        def progress(done: int, total: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise InterruptedError

        return progress

    def __exit__(self, *error: object) -> None:
        self._monkeypatch.undo()


def _described(hit: SearchHit) -> tuple[str, str]:
    if hit.kind == "session":
        return "session", hit.session_id
    return hit.kind, hit.message_id.removeprefix("frontdesk-summary:")


class SearchRandomTests:
    random_steps: ClassVar[tuple[int, int]] = (1_000, 24_000)
    """how many random steps a test takes, in the suite and in the long tests"""

    @pytest.fixture
    def opened_again(self, store: Store) -> OpenedAgain:
        """Closes the store and opens it again. A store in memory stays as it is."""

        async def open_again() -> Store:
            return store

        return open_again

    @pytest.mark.parametrize("seed", range(4))
    async def test_a_search_finds_what_a_naive_model_finds_after_random_work(
        self, store: Store, opened_again: OpenedAgain, monkeypatch: pytest.MonkeyPatch, seed: int
    ) -> None:
        await _run(RandomWork(store, opened_again, seed, monkeypatch), self.random_steps[0])

    @pytest.mark.long
    @pytest.mark.parametrize("seed", range(100, 105))
    async def test_a_search_finds_what_a_naive_model_finds_after_much_random_work(
        self, store: Store, opened_again: OpenedAgain, monkeypatch: pytest.MonkeyPatch, seed: int
    ) -> None:
        await _run(RandomWork(store, opened_again, seed, monkeypatch), self.random_steps[1])

    @pytest.mark.parametrize("seed", range(200, 202))
    async def test_the_pages_of_a_search_have_everything_once_after_random_work(
        self, store: Store, opened_again: OpenedAgain, few_at_a_time: pytest.MonkeyPatch, seed: int
    ) -> None:
        await _run(PagedWork(store, opened_again, seed, few_at_a_time), self.random_steps[0] // 4)

    @pytest.mark.long
    async def test_the_pages_of_a_search_have_everything_once_after_much_random_work(
        self, store: Store, opened_again: OpenedAgain, few_at_a_time: pytest.MonkeyPatch
    ) -> None:
        await _run(PagedWork(store, opened_again, 300, few_at_a_time), self.random_steps[1] // 4)

    @pytest.mark.usefixtures("few_at_a_time")
    @pytest.mark.parametrize("peer", ["ana", None])
    @pytest.mark.parametrize("limit", [2, 100])
    async def test_an_edited_message_that_a_walk_meets_twice_is_counted_once(
        self, manager: SessionManager, peer: str | None, limit: int
    ) -> None:
        names = ["first", "b", "c", "d", "e", "f", "last"]
        for name in names:
            await manager.create(id=name, key=SessionKey("bot", name, "ana"))
            await manager.append(name, {"id": name, "role": "user", "content": "old amber"})
        for name in ("first", "last"):
            # The index has the message and the edit, far from each other: after the fork is gone, both say the same.
            await manager.fork(name, name, new_id="fork")
            await manager.session(name).update_message({"id": name, "role": "user", "content": "new amber"})
            await manager.delete("fork")
        await manager.reindex()
        found, cursor = [], None
        while True:
            results = await manager.search("amber", limit=limit, cursor=cursor, peer=peer)
            found += [hit.message_id for hit in results]
            cursor = results.next_cursor
            assert results.total <= len(names)
            if cursor is None:
                break
        assert sorted(found) == sorted(names)
        assert (results.total, results.total_is_exact) == (len(names), True)

    @pytest.fixture
    def few_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
        """Each lookup takes a few texts and sessions, as in a namespace with millions. Nothing is indexed between two
        pages, because that may change the order of hits."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(candidates, "MAX_CANDIDATES", 6)
            patch.setattr(candidates, "MAX_COMMON_CANDIDATES", 4)
            patch.setattr(corpus, "_MAX_SESSIONS", 2)
            patch.setattr(corpus, "_WIDE_GAP", 3)
            patch.setattr(corpus, "_FEW", 2)
            patch.setattr(index, "start_indexing", lambda runtime: None)
            yield monkeypatch


async def _run(work: RandomWork, steps: int) -> None:
    try:
        await work.run(steps)
    finally:
        await work.manager.close()
    assert work.searches > steps / 10
