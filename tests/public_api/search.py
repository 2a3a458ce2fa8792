"""Search by words: every message is found, before and after it is indexed, and deleted ones are not."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest

from frontdesk import (
    ConfigurationError,
    InvalidCursorError,
    InvalidInputError,
    SearchResults,
    Session,
    SessionKey,
    SessionManager,
    Store,
)
from frontdesk.tree import plans
from tests.public_api.steps import say, user
from tests.waiting import eventually

Ready = Callable[[], Coroutine[Any, Any, None]]


def found(results: SearchResults) -> list[str]:
    return [hit.message_id for hit in results]


def lamp(id: str, at: str = "2024-01-01", **more: Any) -> dict[str, Any]:
    return {"id": id, "role": "user", "content": "a lamp", "created_at": f"{at}T00:00:00Z", **more}


class SearchTests:
    """Most tests run twice: on messages that are not indexed yet, and on indexed ones."""

    @pytest.fixture(params=["read directly", "indexed"])
    def ready(self, request: pytest.FixtureRequest, manager: SessionManager) -> Ready:
        """To be called before a search."""

        async def get_ready() -> None:
            if request.param == "indexed":
                info = await manager.reindex()
                assert not info.building

        return get_ready

    async def test_words_phrases_prefixes_and_exclusions_are_supported(self, session: Session, ready: Ready) -> None:
        await session.append_all(
            [
                user("m1", "The deployment on Friday failed because the disk was full."),
                user("m2", "We rotate the logs every night, says src/logs/rotate_all.py."),
                user("m3", "请修复parseHTMLFile函数,明天部署"),
                user("m4", "Every night the disk is full."),
            ]
        )
        await ready()
        expected = {
            "deploy": ["m1"],
            "部署": ["m3"],
            "parse": ["m3"],
            "rotate_all": ["m2"],
            '"every night"': ["m2", "m4"],
            '"the disk" -friday': ["m4"],
            "depl*": ["m1"],
            "zzz": [],
            '"night every"': [],
            "-disk role:user": ["m2", "m3"],
        }
        assert {query: sorted(found(await session.search(query))) for query in expected} == expected

    async def test_everything_written_before_a_search_is_found(
        self, manager: SessionManager, session: Session, ready: Ready
    ) -> None:
        for number in range(4):
            await session.append(user(f"m{number}", f"amber {number}"))
            assert len(await session.search("amber")) == len(await manager.search("amber")) == number + 1
            await ready()
        await session.update_message(user("m1", "birch"))
        await session.rename("A walk in the woods")
        assert sorted(found(await manager.search("amber"))) == ["m0", "m2", "m3"]
        assert found(await session.search("birch")) == found(await manager.search("birch")) == ["m1"]
        assert [hit.kind for hit in await manager.search("woods")] == ["session"]
        await session.rename("Another")
        assert not await manager.search("woods")

    async def test_deleted_messages_are_not_found(
        self, manager: SessionManager, session: Session, ready: Ready
    ) -> None:
        await say(session, *(f"amber{number} lamp" for number in range(6)))
        await session.add_compaction("the summary of amber", "amber0 lamp", "amber1 lamp")
        await ready()
        await session.delete_messages(["amber2 lamp", "amber3 lamp"])
        assert len(await session.search("lamp")) == len(await manager.search("lamp")) == 4
        await session.undo_compaction((await session.compactions())[0].id)
        assert not await manager.search("summary")
        await session.clear_messages()
        assert not await session.search("lamp")
        await say(session, "birch lamp")
        await ready()
        assert found(await manager.search("lamp")) == ["birch lamp"]
        assert await manager.delete("chat")
        assert not await manager.search("lamp")

    async def test_each_message_is_returned_for_one_session_that_sees_it(
        self, manager: SessionManager, session: Session, ready: Ready
    ) -> None:
        await session.append_all([user(f"m{number}", f"lamp {number}") for number in range(6)])
        early = await manager.fork("chat", at="m2", new_id="early")
        await early.append(user("e1", "lamp e"))
        late = await manager.fork("chat", new_id="late")
        await late.update_message(user("m1", "lamp changed"))
        await late.delete_messages(["m4"])
        await ready()
        hits = await manager.search("lamp", limit=50)
        assert {hit.session_id: hit.parent_session_id for hit in hits} == {
            "chat": None,
            "early": "chat",
            "late": "chat",
        }
        shown = sorted((hit.message_id, hit.session_id, hit.snippet) for hit in hits)
        own = [(f"m{number}", "chat", f"**lamp** {number}") for number in range(6)]
        assert shown == sorted([*own, ("e1", "early", "**lamp** e"), ("m1", "late", "**lamp** changed")])
        assert sorted(found(await late.search("lamp"))) == ["m0", "m1", "m2", "m3", "m5"]
        assert sorted(found(await early.search("lamp"))) == ["e1", "m0", "m1", "m2"]
        await manager.delete("chat")
        hits = await manager.search("lamp", limit=50)
        assert sorted((hit.message_id, hit.session_id) for hit in hits) == [
            ("e1", "early"),
            ("m0", "late"),
            ("m1", "early"),
            ("m1", "late"),
            ("m2", "late"),
            ("m3", "late"),
            ("m5", "late"),
        ]

    async def test_messages_that_a_fork_inherited_from_a_deleted_session_are_found(
        self, manager: SessionManager, session: Session, ready: Ready
    ) -> None:
        await ready()
        await say(session, "amber lamp", "birch lamp")
        await session.add_compaction("they spoke of lamps", "amber lamp", "birch lamp")
        fork = await manager.fork("chat", new_id="fork")
        await manager.delete("chat")
        await ready()
        assert len(await manager.search("lamp")) == len(await fork.search("lamp")) == 3

    @pytest.mark.parametrize("cleared", ["chat", "fork"])
    @pytest.mark.parametrize("change", ["append", "delete", "update", "switch"])
    async def test_clearing_one_of_two_sessions_leaves_the_other_searchable(
        self, manager: SessionManager, session: Session, ready: Ready, change: str, cleared: str
    ) -> None:
        assert not await manager.search("lamp")  # from now on there is an index
        await session.append_all([user("m1", "lamp 1"), user("m2", "lamp 2")])
        fork = await manager.fork("chat", new_id="fork")
        changed = manager.session(cleared)
        if change == "append":
            await changed.append(user("m3", "lamp 3"))
        elif change == "delete":
            await changed.delete_messages(["m1"])
        elif change == "update":
            await changed.update_message(user("m1", "another lamp"))
        else:
            await changed.switch("m1")
        await changed.clear_messages()
        await ready()
        left = session if cleared == "fork" else fork
        hits = sorted((hit.message_id, hit.session_id, hit.snippet) for hit in await manager.search("lamp"))
        assert hits == [("m1", left.id, "**lamp** 1"), ("m2", left.id, "**lamp** 2")]
        assert sorted(found(await left.search("lamp"))) == ["m1", "m2"]
        assert not await changed.search("lamp")

    async def test_a_cleared_session_is_found_by_its_name(
        self, manager: SessionManager, session: Session, ready: Ready
    ) -> None:
        await manager.create("A walk in the woods", id="chat")
        await say(session, "amber")
        await ready()
        assert [hit.kind for hit in await manager.search("woods")] == ["session"]
        await session.clear_messages()
        assert [(hit.kind, hit.session_id) for hit in await manager.search("woods")] == [("session", "chat")]

    async def test_an_edit_that_a_fork_inherited_from_a_deleted_session_is_found(
        self, manager: SessionManager, session: Session, ready: Ready
    ) -> None:
        assert not await manager.search("lamp")  # from now on there is an index
        await say(session, "amber lamp", "birch lamp")
        middle = await manager.fork("chat", new_id="middle")
        await middle.update_message(user("amber lamp", "cedar lamp"))
        last = await manager.fork("middle", new_id="last")
        await manager.delete("middle")
        await ready()
        assert found(await last.search("cedar")) == found(await manager.search("cedar")) == ["amber lamp"]
        assert found(await manager.search("amber")) == ["amber lamp"]

    async def test_filters_narrow_a_query(
        self, manager: SessionManager, store: Store, namespace: str, ready: Ready
    ) -> None:
        await manager.create("First", id="a", key=SessionKey("bot", "web", "ana"), tags=["x"])
        await manager.create(id="b", key=SessionKey("bot", "mail", "ben", "t1"), tags=["x", "y"])
        await manager.append("a", lamp("a1", "2024-03-05"))
        await manager.append("a", lamp("a2", "2024-04-01", role="assistant"))
        await manager.append("b", lamp("b1", "2025-01-01"))
        await manager.append("c", lamp("c1", "1969-07-20"))
        row = await store.get(namespace, "b")
        assert row is not None
        assert await store.apply(plans.change_row(row, row.updated_at, status="archived"))
        await ready()
        march, april = datetime(2024, 3, 5, tzinfo=UTC), datetime(2024, 4, 1, 0, 0, 1, tzinfo=UTC)
        cases: list[tuple[dict[str, Any], list[str]]] = [
            ({"session": "a"}, ["a1", "a2"]),
            ({"session": "first"}, ["a1", "a2"]),
            ({"agent": "bot"}, ["a1", "a2", "b1"]),
            ({"agent": "bot", "channel": "mail"}, ["b1"]),
            ({"peer": "ana"}, ["a1", "a2"]),
            ({"thread": "t1"}, ["b1"]),
            ({"agent": "nobody"}, []),
            ({"status": "archived"}, ["b1"]),
            ({"status": "active"}, ["a1", "a2", "c1"]),
            ({"archived": False}, ["a1", "a2", "c1"]),
            ({"tag": "x"}, ["a1", "a2", "b1"]),
            ({"tag": "x", "status": "archived"}, ["b1"]),
            ({"role": "assistant"}, ["a2"]),
            ({"role": "ASSISTANT", "agent": "bot"}, ["a2"]),
            ({"role": ["tool", "assistant"]}, ["a2"]),
            ({"role": ("user", "assistant"), "archived": False}, ["a1", "a2", "c1"]),
            ({"after": april}, ["b1"]),
            ({"after": march, "before": april}, ["a1", "a2"]),
            ({"before": march}, ["c1"]),
        ]
        answers = [sorted(found(await manager.search("lamp", **given))) for given, _ in cases]
        assert answers == [expected for _, expected in cases]
        queries = {
            "lamp role:assistant": ["a2"],
            "lamp session:b": ["b1"],
            'lamp session:"FIRST"': ["a1", "a2"],
            "lamp tag:x tag:y": ["b1"],
            "lamp after:2024-04": ["a2", "b1"],
            "lamp after:2024-03-05 before:2024-03-06": ["a1"],
            "lamp before:1970": ["c1"],
            "role:assistant": ["a2"],
        }
        assert {query: sorted(found(await manager.search(query))) for query in queries} == queries
        assert found(await manager.search("", status="archived")) == ["b1"]
        assert found(await manager.session("a").search("lamp", role="user")) == ["a1"]
        assert found(await manager.session("a").search("lamp", after=april)) == []

    async def test_results_can_be_sorted_by_time_and_grouped_by_session(
        self, manager: SessionManager, ready: Ready
    ) -> None:
        for id, session, day, text in (
            ("a1", "a", 1, "lamp lamp lamp"),
            ("b1", "b", 3, "lamp lamp"),
            ("a2", "a", 2, "lamp and many other words that make it worth less"),
        ):
            await manager.append(session, lamp(id, f"2024-01-0{day}", content=text))
        await ready()
        assert found(await manager.search("lamp")) == ["a1", "b1", "a2"]
        assert found(await manager.search("lamp", newest=True)) == ["b1", "a2", "a1"]
        grouped = await manager.search("lamp", group=True)
        assert found(grouped) == ["a1", "a2", "b1"]
        assert {name: len(hits) for name, hits in grouped.by_session.items()} == {"a": 2, "b": 1}

    async def test_a_hit_contains_its_location_and_its_neighbours(
        self, manager: SessionManager, session: Session, ready: Ready
    ) -> None:
        await manager.create("Trees", id="keyed", key=SessionKey("bot", "web", "ana"))
        keyed = manager.session("keyed")
        await say(keyed, "amber", "birch", "cedar", "dune", "elm")
        await keyed.append_all([user("side", "fern"), user("end", "grove")], parent="birch")
        await keyed.switch("elm")
        await keyed.add_compaction("earlier", "amber", "birch")
        await ready()
        [hit] = await manager.search("birch", context=2)
        assert (hit.position, hit.visible, hit.branch) == (1, False, None)
        assert (hit.key, hit.session_name) == (SessionKey("bot", "web", "ana"), "Trees")
        assert [message.id for message in hit.context_before] == ["amber"]
        assert [message.id for message in hit.context_after] == ["cedar", "dune"]
        [hit] = await keyed.search("fern", context=1)
        assert (hit.position, hit.visible, hit.branch) == (None, False, "end")
        assert [message.id for message in (*hit.context_before, *hit.context_after)] == ["birch", "end"]
        [hit] = await keyed.search("elm")
        assert (hit.position, hit.visible, hit.context_before, hit.context_after) == (4, True, (), ())

    async def test_pages_return_every_hit_once_while_messages_are_appended(
        self, manager: SessionManager, session: Session, ready: Ready
    ) -> None:
        await session.append_all([user(f"m{number}", f"lamp {'x ' * number}") for number in range(7)])
        await ready()
        given: list[str] = []
        cursor = None
        while True:
            page = await manager.search("lamp", limit=3, cursor=cursor)
            given += found(page)
            cursor = page.next_cursor
            if cursor is None:
                break
            await session.append(user(f"new{len(given)}", "lamp"))
        assert [id for id in given if id.startswith("m")] == [f"m{number}" for number in range(7)]
        assert len(given) == len(set(given))

    async def test_a_cursor_is_valid_only_for_its_query(self, manager: SessionManager, session: Session) -> None:
        await session.append_all([user(f"m{number}", "lamp") for number in range(3)])
        cursor = (await manager.search("lamp", limit=1)).next_cursor
        assert cursor is not None
        for search in (
            manager.search("other", cursor=cursor),
            manager.search("lamp", cursor=cursor, newest=True),
            manager.search("lamp", cursor=cursor, role="user"),
            session.search("lamp", cursor=cursor),
        ):
            with pytest.raises(InvalidCursorError):
                await search

    async def test_invalid_arguments_are_refused(self, manager: SessionManager, session: Session) -> None:
        limits: list[dict[str, Any]] = [{"limit": 0}, {"limit": None}]
        wrong = [*limits, {"context": -1}, {"context": True}, {"role": 5}, {"role": [5]}, {"after": "May"}]
        for given in wrong:
            with pytest.raises(InvalidInputError):
                await manager.search("lamp", **given)
            with pytest.raises(InvalidInputError):
                await session.search("lamp", **given)
        with pytest.raises(InvalidInputError):
            await manager.search(None)  # type: ignore[arg-type]

    async def test_a_search_indexes_a_large_backlog(self, manager: SessionManager) -> None:
        await manager.session("long").append_all([user(f"m{number}", f"lamp w{number}") for number in range(1_500)])
        assert found(await manager.search("w1499")) == ["m1499"]

        async def is_indexed() -> bool:
            info = await manager.search_info()
            return (info.texts, info.pending, info.building) == (1_500, 0, False)

        await eventually(is_indexed)
        assert len(await manager.search("lamp", limit=2_000)) == 1_500
        assert found(await manager.session("long").search("w7 w8")) == ["m8", "m7"]

    async def test_the_rarest_words_decide_among_very_many_matches(self, manager: SessionManager) -> None:
        texts = [f"common {'rare' if number == 3 else 'usual'} w{number}" for number in range(2_600)]
        messages = [user(f"m{number}", text) for number, text in enumerate(texts)]
        await manager.session("long").append_all(messages)
        for search in (manager.search, manager.session("long").search):
            assert found(await search("common usual rare"))[0] == "m3"
            assert (await search("common")).total == 1_000
            assert found(await search("common w0"))[0] == "m0"

    async def test_the_language_and_the_search_in_reasoning_are_settings(self, store: Store, namespace: str) -> None:
        thought = [{"type": "thinking", "thinking": "secretly", "signature": "s"}, {"type": "text", "text": "Häuser"}]
        async with SessionManager(store, namespace=namespace) as manager:
            await manager.append("chat", {"id": "m1", "role": "assistant", "content": thought})
            await manager.reindex()
            assert not await manager.search("haus")
            assert not await manager.search("secretly")
        async with SessionManager(store, namespace=namespace).with_search(language="german", reasoning=True) as manager:
            info = await manager.search_info()
            assert (info.language, info.reasoning, info.building) == ("german", True, True)
            assert found(await manager.search("haus")) == found(await manager.search("secretly")) == ["m1"]
            assert found(await manager.session("chat").search("haus")) == ["m1"]
            info = await manager.search_info()
            assert (info.mode, info.texts, info.pending, info.building) == ("lexical", 1, 0, False)
        with pytest.raises(ConfigurationError):
            SessionManager(store, namespace=namespace).with_search(language="klingon")

    async def test_the_number_of_texts_stays_right_when_forks_delete_what_they_share(
        self, manager: SessionManager
    ) -> None:
        await manager.append("a", user("m1", "amber amber"))
        await manager.reindex()
        forks = [await manager.fork("a", new_id=f"fork{number}") for number in range(2)]
        for session in (manager.session("a"), forks[0]):
            await session.pop()
            assert (await manager.search_info()).texts == 1
            assert len(await manager.search("amber")) == 1
        await forks[1].replace_messages([])
        assert (await manager.search_info()).texts == 0
        await manager.append("a", user("m2", "amber"))
        assert found(await manager.search("amber")) == ["m2"]
        await manager.reindex()
        assert (await manager.search_info()).texts == 1
        assert found(await manager.search("amber")) == ["m2"]

    async def test_reindexing_reports_its_progress(self, manager: SessionManager) -> None:
        assert (await manager.search_info()).indexed_up_to is None
        for name in ("a", "b"):
            await manager.session(name).append_all([user(f"{name}{number}", "lamp") for number in range(600)])
        reported: list[tuple[int, int]] = []
        info = await manager.reindex(lambda done, total: reported.append((done, total)))
        assert info.texts == 1_200
        assert info.indexed_up_to is not None
        assert reported[-1] == (1_200, 1_200)
        assert reported == sorted(reported)
        assert (await manager.reindex()).texts == 1_200
        with pytest.raises(ConfigurationError):
            await manager.reindex("now")  # type: ignore[arg-type]

    @pytest.mark.parametrize("seed", [1, 2, 3])
    async def test_search_finds_exactly_what_sessions_see_after_random_changes(
        self, manager: SessionManager, seed: int
    ) -> None:
        happening = _Happening(manager, seed)
        for step in range(60):
            await happening.step()
            if step % 12 == 11:
                if step > 24:
                    await manager.reindex()
                await happening.check()


class _Happening:
    """Sessions that are changed and forked at random."""

    def __init__(self, manager: SessionManager, seed: int) -> None:
        self._manager = manager
        self._random = random.Random(seed)
        self._names: list[str] = []
        self._count = 0

    def _text(self) -> str:
        self._count += 1
        return " ".join(self._random.choices(("amber", "birch", "cedar", "dune"), k=3)) + f" n{self._count}"

    async def step(self) -> None:
        if len(self._names) < 2:
            await self._begin()
            return
        session = self._manager.session(self._random.choice(self._names))
        seen = [message.id async for message in session.transcript()]
        roll = self._random.random()
        if roll < 0.35 or not seen:
            await session.append_all([user(f"x{self._count}", self._text()) for _ in range(self._random.randint(1, 3))])
        elif roll < 0.45:
            await session.append(user(f"x{self._count}", self._text()), parent=self._random.choice(seen))
        elif roll < 0.6:
            await self._manager.fork(session.id, at=self._random.choice(seen), new_id=f"s{self._count}")
            self._names.append(f"s{self._count}")
            self._count += 1
        elif roll < 0.75:
            await session.update_message(user(self._random.choice(seen), self._text()))
        elif roll < 0.88:
            await session.delete_messages(self._random.sample(seen, k=min(2, len(seen))))
        elif roll < 0.92:
            await session.clear_messages()
        elif roll < 0.96:
            self._names.remove(session.id)
            await self._manager.delete(session.id)
        else:
            await self._begin()

    async def _begin(self) -> None:
        name = f"s{self._count}"
        self._count += 1
        self._names.append(name)
        await self._manager.append(name, user(f"x{self._count}", self._text()))

    async def check(self) -> None:
        everywhere: set[tuple[str, str]] = set()
        for name in self._names:
            session = self._manager.session(name)
            texts: dict[str, str] = {}
            for leaf in await session.leaves():
                texts |= {message.id: message.text async for message in session.transcript(leaf=leaf.id)}
            for word in ("amber", "cedar"):
                wanted = {id for id, text in texts.items() if word in text}
                hits = await session.search(word, limit=500)
                assert set(found(hits)) == wanted
                assert len(hits) == len(wanted)
            everywhere |= {(id, text) for id, text in texts.items() if "amber" in text}
        hits = await self._manager.search("amber", limit=1_000)
        shown = sorted((hit.message_id, hit.snippet.replace("*", "")) for hit in hits)
        assert shown == sorted(everywhere)
