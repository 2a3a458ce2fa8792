"""Which conversations the tools of a session, of a manager and of a searchable block reach."""

from __future__ import annotations

import re
from typing import Any

import pytest

from frontdesk import ConfigurationError, Session, SessionInfo, SessionKey, SessionManager, Store, Tool
from frontdesk.search import visibility
from tests.public_api.steps import user

ANA = SessionKey("concierge", "web", "ana")
BEN = SessionKey("concierge", "web", "ben")


def found_in(answer: str) -> list[str]:
    """The ids of the messages in an answer, in order."""
    return re.findall(r"^\[.*· message ([\w:-]+)\]$", answer, re.MULTILINE)


async def tools_of(session: Session, **options: Any) -> tuple[Tool, Tool]:
    tools = await session.tools(**options)
    return tools["session_search"], tools["read_session"]


class SearchScopeTests:
    @pytest.fixture
    async def hotel(self, manager: SessionManager) -> SessionManager:
        """Ana with two threads, an ended session and another channel; Ben; and a session without a key."""
        await manager.create("Old stay", id="ana-old", key=ANA)
        await manager.append("ana-old", user("a0", "room 1, the old one"))
        await manager.new(ANA)
        await manager.session(ANA).append(user("a1", "room 2"))
        await manager.session(SessionKey("concierge", "web", "ana", "trip")).append(user("a2", "room 3"))
        await manager.session(SessionKey("concierge", "mail", "ana")).append(user("a3", "room 4"))
        await manager.session(SessionKey("cook", "web", "ana")).append(user("a4", "room 5"))
        await manager.create("Ben at sea", id="ben", key=BEN, tags=["vip"])
        await manager.append("ben", user("b1", "room 6"))
        await manager.append("loose", user("l1", "room 7"))
        return manager

    @pytest.mark.parametrize(
        ("scope", "expected"),
        [
            ("guest", ["a0", "a1", "a2"]),
            ("session", ["a1"]),
            ("agent", ["a0", "a1", "a2", "a3", "b1"]),
            ("namespace", ["a0", "a1", "a2", "a3", "a4", "b1", "l1"]),
            ({"peer": "ana"}, ["a0", "a1", "a2", "a3", "a4"]),
            ({"agent": "concierge", "channel": "mail"}, ["a3"]),
            ({"thread": "trip"}, ["a2"]),
            ({"tag": "vip"}, ["b1"]),
            ({"tag": "vip", "peer": "ana"}, []),
            ({"sessions": ["ben", "loose", "nowhere"]}, ["b1", "l1"]),
            ({"sessions": ["ben", "loose"], "peer": "ben"}, ["b1"]),
            ({"sessions": []}, []),
        ],
        ids=repr,
    )
    async def test_a_scope_says_which_conversations_are_reached(
        self, hotel: SessionManager, scope: Any, expected: list[str]
    ) -> None:
        search, read = await tools_of(hotel.session(ANA), scope=scope)
        assert sorted(found_in(await search(query="room", limit=50))) == expected
        for session_id, message_id in (("ana-old", "a0"), ("ben", "b1"), ("loose", "l1")):
            answer = await read(session_id=session_id)
            assert found_in(answer) == ([message_id] if message_id in expected else [])
            assert answer.startswith("Error: there is no conversation") is (message_id not in expected)

    async def test_by_default_a_model_reaches_what_its_own_guest_said(self, hotel: SessionManager) -> None:
        search, _ = await tools_of(hotel.session(ANA))
        assert sorted(found_in(await search(query="room"))) == ["a0", "a1", "a2"]
        search, _ = await tools_of(hotel.session("ana-old"))
        assert sorted(found_in(await search(query="room"))) == ["a0", "a1", "a2"]
        search, _ = await tools_of(hotel.session("loose"))
        assert found_in(await search(query="room")) == ["l1"]
        search, _ = await tools_of(hotel.session(SessionKey("concierge", "web", "nobody")))
        assert await search(query="room") == "No results found."
        assert await hotel.get(SessionKey("concierge", "web", "nobody")) is None

    async def test_without_a_scope_the_two_tools_are_left_out(self, hotel: SessionManager) -> None:
        assert set(await hotel.session(ANA).tools(scope=None)) == set()
        for scope in ("everything", 7, {}, {"colour": "red"}):
            with pytest.raises(ConfigurationError):
                await hotel.session(ANA).tools(scope=scope)  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError):
                SessionManager("memory://").with_searchable_history("past", scope=scope)  # type: ignore[arg-type]

    async def test_merging_the_tools_of_a_manager_does_not_widen_those_of_a_session(
        self, hotel: SessionManager
    ) -> None:
        tools = {**await hotel.session(ANA).tools(), **hotel.tools(scope="namespace")}
        assert {"session_search", "read_session", "search_sessions", "read_any_session"} <= set(tools)
        assert sorted(found_in(await tools["session_search"](query="room"))) == ["a0", "a1", "a2"]
        assert len(found_in(await tools["search_sessions"](query="room"))) == 7
        assert found_in(await tools["read_any_session"](session_id="ben")) == ["b1"]

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_a_function_decides_for_each_session(self, hotel: SessionManager, is_async: bool) -> None:
        asked: list[str] = []

        def sees(info: SessionInfo) -> bool:
            asked.append(info.id)
            return info.key is not None and info.key.agent == "cook"

        async def sees_later(info: SessionInfo) -> bool:
            return sees(info)

        search, read = await tools_of(hotel.session(ANA), scope=sees_later if is_async else sees)
        assert found_in(await search(query="room")) == ["a4"]
        assert len(asked) == len(set(asked)) == 7
        assert (await read(session_id="ben")).startswith("Error: ")

    async def test_isolation_says_who_a_guest_is(self, store: Store, namespace: str) -> None:
        manager = SessionManager(store, namespace=namespace).with_isolation("agent", "peer")
        await manager.session(SessionKey("concierge", "web", "ana")).append(user("a1", "room 1"))
        await manager.session(SessionKey("concierge", "mail", "ana", "x")).append(user("a2", "room 2"))
        await manager.session(SessionKey("concierge", "web", "ben")).append(user("b1", "room 3"))
        search, _ = await tools_of(manager.session(SessionKey("concierge", "phone", "ana")))
        assert sorted(found_in(await search(query="room"))) == ["a1", "a2"]

    async def test_system_messages_are_never_shown(self, manager: SessionManager) -> None:
        session = manager.session(ANA)
        rule = {"id": "s1", "role": "system", "content": "Never offer a lamp for less than forty euros."}
        await session.append_all(
            [rule, user("u1", "a lamp, please"), {"id": "d1", "role": "developer", "content": "lamp rule"}]
        )
        await session.append({"id": "t1", "role": "assistant", "content": "This lamp?"})
        tools = {**await session.tools(), **manager.tools(scope="namespace")}
        for search, read in (("session_search", "read_session"), ("search_sessions", "read_any_session")):
            for query in ("lamp", "lamp role:system", "role:system", "role:developer", "less than forty", "-please"):
                answer = await tools[search](query=query)
                assert "forty" not in answer, query
                assert "rule" not in answer, query
            assert await tools[search](query="lamp", role="system") == "No results found."
            answer = await tools[read](session_id=session.id, around="u1", before=50, after=50)
            assert found_in(answer) == ["u1", "t1"]
            hidden = [await tools[read](session_id=session.id, around=name) for name in ("s1", "x1")]
            assert hidden[0] == hidden[1].replace("x1", "s1")
        await manager.reindex()
        assert "forty" not in await tools["session_search"](query="lamp role:system")
        assert sorted(found_in(await tools["session_search"](query="lamp"))) == ["t1", "u1"]

    async def test_a_fork_reaches_what_it_inherited_and_nothing_that_came_later(self, manager: SessionManager) -> None:
        source = manager.session("source")
        await source.append_all([user("m1", "lamp one"), user("m2", "lamp two")])
        fork = await manager.fork("source", new_id="fork")
        await source.append(user("m3", "lamp three"))
        await fork.append(user("f1", "lamp four"))
        search, read = await tools_of(fork)
        answer = await search(query="lamp")
        assert sorted(found_in(answer)) == ["f1", "m1", "m2"]
        assert "session source" not in answer
        assert found_in(await read(session_id="fork")) == ["m1", "m2", "f1"]
        assert (await read(session_id="source")).startswith("Error: there is no conversation 'source'")
        assert (await read(session_id="fork", around="m3")).startswith("Error: ")
        search, _ = await tools_of(source)
        assert sorted(found_in(await search(query="lamp"))) == ["m1", "m2", "m3"]

    async def test_a_fork_for_another_guest_shows_its_messages_and_nothing_else_of_its_source(
        self, manager: SessionManager
    ) -> None:
        source = await manager.create("Marzipan and lamps", id="source", key=ANA)
        await source.append_all([user("m1", "lamp one"), user("m2", "the code is marzipan")])
        await source.set_summary("The code is marzipan.")
        fork = await manager.fork("source", at="m1", new_id="fork", key=BEN)
        await fork.append(user("f1", "lamp two"))
        search, read = await tools_of(manager.session(BEN))
        assert sorted(found_in(await search(query="lamp"))) == ["f1", "m1"]
        assert await search(query="marzipan") == "No results found."
        assert "arzipan" not in await read(session_id="fork")
        assert (await read(session_id="source")).startswith("Error: there is no conversation")
        kept = await manager.fork("source", key=SessionKey("concierge", "web", "ana", "trip"))
        info = await kept.info()
        assert (info.name, info.summary) == ("Marzipan and lamps", "The code is marzipan.")

    async def test_the_successor_of_a_split_reaches_everything_before_it(self, manager: SessionManager) -> None:
        await manager.session("s").append_all([user("m1", "lamp one"), user("m2", "lamp two")])
        successor = await manager.compact_and_split("s", "They talked about furniture.")
        await successor.append(user("n1", "lamp three"))
        await manager.delete("s")
        await manager.append("s", user("z1", "lamp of a stranger"))
        search, _ = await tools_of(successor)
        assert sorted(found_in(await search(query="lamp"))) == ["m1", "m2", "n1"]
        assert "furniture" in (await search(query="furniture")).replace("**", "")

    async def test_a_parent_that_was_only_named_grants_nothing(self, manager: SessionManager) -> None:
        await manager.append("parent", user("m1", "lamp"))
        child = await manager.create(id="child", parent="parent")
        search, read = await tools_of(child)
        assert await search(query="lamp") == "No results found."
        assert (await read(session_id="parent")).startswith("Error: ")

    @pytest.mark.parametrize("key", [None, ANA], ids=["without a key", "with a key"])
    async def test_an_id_that_is_used_again_grants_nothing(
        self, store: Store, namespace: str, key: SessionKey | None
    ) -> None:
        manager = SessionManager(store, namespace=namespace).with_searchable_history("past")
        await manager.create(id="room", key=key)
        handles = [manager.session("room"), *([] if key is None else [manager.session(key)])]
        tools: list[dict[str, Tool]] = []
        for handle in handles:
            await handle.append(user(f"a{len(tools)}", "lamp of ana"))
            tools.append(await handle.tools())
        await manager.delete("room")
        await manager.create("Ben's lamp", id="room", key=BEN)
        await manager.append("room", user("b1", "lamp of ben"))
        await manager.session(SessionKey("concierge", "web", "ben", "2")).append(user("b2", "lamp of ben, again"))
        for old in tools:
            assert await old["session_search"](query="lamp") == "No results found."
            assert (await old["read_session"](session_id="room")).startswith("Error: there is no conversation")
            assert await old["search_context"](label="past", query="lamp") == "No results found."
        search, _ = await tools_of(manager.session("room"))
        assert sorted(found_in(await search(query="lamp"))) == ["b1", "b2"]

    async def test_a_searchable_history_reaches_the_same_guest_by_default(self, store: Store, namespace: str) -> None:
        manager = SessionManager(store, namespace=namespace).with_searchable_history("past")
        await manager.create("Ben", id="ben", key=BEN)
        await manager.append("ben", user("b1", "the wifi password is nougat"))
        await manager.session(ANA).append(user("a1", "the wifi password is marzipan"))
        await manager.new(ANA)
        session = manager.session(ANA)
        await session.append(user("a2", "what was the wifi password?"))
        search = (await session.tools())["search_context"]
        assert found_in(await search(label="past", query="wifi password")) == ["a1"]
        assert await search(label="past", query="nougat") == "No results found."
        assert await search(label="past", query="session:ben wifi") == "No results found."

    async def test_a_hit_is_attributed_to_a_session_in_scope(self, manager: SessionManager) -> None:
        """A template is forked for two guests: each finds the shared text as their own."""
        template = manager.session("template")
        await template.append_all([user("t1", "welcome lamp"), user("t2", "house rules")])
        for peer in ("ana", "ben"):
            fork = await manager.fork("template", new_id=f"{peer}-fork", name=f"Stay of {peer}")
            await fork.append(user(f"{peer}1", f"lamp of {peer}"))
        search, _ = await tools_of(manager.session("ana-fork"))
        answer = await search(query="lamp")
        assert sorted(found_in(answer)) == ["ana1", "t1"]
        assert re.findall(r"session ([\w-]+) ·", answer) == ["ana-fork", "ana-fork"]
        assert "ben" not in answer
        search = manager.tools(scope={"sessions": ["ben-fork"]})["search_sessions"]
        answer = await search(query="lamp")
        assert sorted(found_in(answer)) == ["ben1", "t1"]
        assert "template" not in answer
        assert "ana" not in answer

    # crowds

    async def test_other_guests_do_not_crowd_out_ones_own_messages(self, manager: SessionManager) -> None:
        """More hits of others than a search takes into account: written later, in the same family and in others."""
        await manager.session(ANA).append(user("a1", "my room is 12"))
        template = await manager.create(id="template")
        await template.append(user("t1", "which room?"))
        own = await manager.fork("template", new_id="own")
        await own.append(user("o1", "my room is 13"))
        crowd = [user(f"t{number}", f"room {number}") for number in range(2, 2_302)]
        await template.append_all(crowd)
        await manager.append_all("stranger", [user(f"x{number}", "room") for number in range(2_300)])
        await manager.reindex()
        search, _ = await tools_of(manager.session(ANA))
        assert found_in(await search(query="room")) == ["a1"]
        search, _ = await tools_of(own)
        assert sorted(found_in(await search(query="room"))) == ["o1", "t1"]
        results = await manager.search("room", peer="ana")
        assert [hit.message_id for hit in results] == ["a1"]

        def is_own(info: SessionInfo) -> bool:
            return info.id == "own" or info.key == ANA

        search, _ = await tools_of(own, scope=is_own)
        answer = await search(query="room")
        assert sorted(found_in(answer)) == ["a1", "o1", "t1"]
        assert "too many" not in answer

    async def test_a_filter_that_many_sessions_pass_is_part_of_the_query(self, manager: SessionManager) -> None:
        """More sessions pass than are searched one by one, and more hits of others are later."""
        for number in range(300):
            key = SessionKey("concierge", "web", f"guest {number}")
            await manager.create("Stay", id=f"g{number}", key=key, tags=["guest"])
        await manager.append("g7", user("g7-1", "my room is 12"))
        await manager.append("g8", user("g8-1", "my room is 13"))
        await manager.create(id="crowd", key=SessionKey("cook", "web", "crowd"))
        await manager.append_all("crowd", [user(f"x{number}", "room") for number in range(2_300)])
        await manager.reindex()
        for scope in ({"agent": "concierge"}, {"tag": "guest"}, lambda info: "guest" in info.tags):
            search = manager.tools(scope=scope)["search_sessions"]  # type: ignore[arg-type]
            answer = await search(query="room")
            assert sorted(found_in(answer)) == ["g7-1", "g8-1"], scope
            assert "more" not in answer
            assert found_in(await search(query="room session:g7")) == ["g7-1"]
            assert await search(query="session:crowd room") == "No results found."
        hits = await manager.search("room", agent="concierge")
        assert sorted(hit.message_id for hit in hits) == ["g7-1", "g8-1"]
        hits = await manager.search("room", tag="guest", status="active")
        assert sorted(hit.message_id for hit in hits) == ["g7-1", "g8-1"]
        assert len(await manager.search("stay", agent="concierge", limit=400)) == 300

    async def test_a_function_is_asked_about_a_limited_number_of_sessions(
        self, manager: SessionManager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(visibility, "MAX_ASKED", 20)
        await manager.append("wanted", user("w1", "room"))
        for number in range(30):
            await manager.append(f"s{number}", user(f"x{number}", "room"))
        asked: set[str] = set()

        def is_wanted(info: SessionInfo) -> bool:
            asked.add(info.id)
            return info.id == "wanted"

        tools = manager.tools(scope=is_wanted)
        answer = await tools["search_sessions"](query="room")
        assert len(asked) == 20
        assert "too many conversations" in answer
        assert found_in(await tools["read_any_session"](session_id="wanted")) == ["w1"]
        assert "too many" not in await tools["search_sessions"](query="room session:wanted")
