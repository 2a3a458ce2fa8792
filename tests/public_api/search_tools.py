"""The tools that let a model search and read other conversations, and the scope that limits them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from frontdesk import ConfigurationError, InvalidInputError, SessionInfo, SessionManager, Store, Tool
from frontdesk.messages.tokens import estimate_tokens
from tests.public_api.steps import say, user

SECRET = "the vault opens with a marzipan key"


def is_public(info: SessionInfo) -> bool:
    return "public" in info.tags


def tools_of(manager: SessionManager, **options: Any) -> tuple[Tool, Tool]:
    tools = manager.tools(**{"scope": "namespace", **options})
    return tools["search_sessions"], tools["read_any_session"]


def found_in(answer: str) -> list[str]:
    """The ids of the messages in an answer, in order."""
    return re.findall(r"^\[.*· message ([\w:-]+)\]$", answer, re.MULTILINE)


class SearchToolTests:
    # session_search

    async def test_a_hit_is_shown_with_title_date_role_session_and_message(self, manager: SessionManager) -> None:
        await manager.create("Trip to\nLisbon", id="trip")
        await manager.append("trip", user("m1", "We fly from gate B12.") | {"created_at": "2025-03-04T10:00:00Z"})
        search, _ = tools_of(manager)
        answer = await search(query="which gate?")
        [head, snippet, _, hint] = answer.splitlines()
        assert head == "[Trip to Lisbon · 2025-03-04 · user · session trip · message m1]"
        assert snippet == "We fly from **gate** B12."
        assert "read_any_session" in hint
        assert "more" not in hint

    async def test_hits_are_narrowed_by_session_role_and_dates(self, manager: SessionManager) -> None:
        for session_id, role, day in (("a", "user", 1), ("a", "assistant", 2), ("b", "user", 3)):
            message = {"id": f"{session_id}{day}", "role": role, "content": f"lamp {day}"}
            await manager.append(session_id, message | {"created_at": f"2025-01-0{day}T12:00:00Z"})
        search, _ = tools_of(manager)
        for arguments, expected in (
            ({}, ["b3", "a2", "a1"]),
            ({"session": "a"}, ["a2", "a1"]),
            ({"role": "user"}, ["b3", "a1"]),
            ({"after": "2025-01-02", "before": "2025-01-03"}, ["a2"]),
            ({"after": "2025-01-03T09:30:00Z"}, ["b3"]),
            ({"session": "a", "role": "user", "before": "2026"}, ["a1"]),
            ({"skip": 1, "limit": 1}, ["a2"]),
        ):
            assert found_in(await search(query="lamp", **arguments)) == expected

    async def test_the_answer_contains_the_number_of_further_hits_and_how_to_get_them(
        self, manager: SessionManager
    ) -> None:
        await manager.session("a").append_all([user(f"m{number}", f"lamp {number}") for number in range(7)])
        search, _ = tools_of(manager)
        seen: list[str] = []
        skip = 0
        while True:
            answer = await search(query="lamp", limit=3, skip=skip)
            seen += found_in(answer)
            more = re.search(r"\((\d+) more: search again with skip=(\d+)\.", answer)
            if more is None:
                break
            assert int(more[1]) == 7 - len(seen)
            skip = int(more[2])
        assert sorted(seen) == [f"m{number}" for number in range(7)]
        assert await search(query="lamp", skip=7) == "No more results: there are 7."

    @pytest.mark.parametrize("budget", [200, 600, 2_000])
    async def test_an_answer_stays_within_its_budget_and_counts_what_did_not_fit(
        self, manager: SessionManager, budget: int
    ) -> None:
        texts = [f"lamp {'word ' * 60}{number}" for number in range(40)]
        await manager.session("a").append_all([user(f"m{number}", text) for number, text in enumerate(texts)])
        search, read = tools_of(manager, max_tokens=budget)
        answer = await search(query="lamp", limit=40)
        assert estimate_tokens(answer) <= budget
        assert f"({40 - len(found_in(answer))} more" in answer
        window = await read(session_id="a", around="m20", before=20, after=19)
        assert estimate_tokens(window) <= budget
        assert "m20" in window
        with pytest.raises(InvalidInputError):
            manager.tools(scope="namespace", max_tokens=199)

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({}, '"query" is missing'),
            ({"query": "x", "limit": 0}, "from 1 to 50"),
            ({"query": "x", "after": "yesterday"}, "YYYY-MM-DD"),
            ({"query": "x", "before": "2025-13-01"}, "YYYY-MM-DD"),
            ({"query": "x", "role": 'user" session:"'}, "one word"),
            ({"query": "x", "session": ""}, "no conversation ''"),
            ({"query": "x", "session": "nowhere"}, "no conversation 'nowhere'"),
        ],
    )
    async def test_an_invalid_search_is_explained(
        self, manager: SessionManager, arguments: dict[str, Any], said: str
    ) -> None:
        search, _ = tools_of(manager)
        answer = await search(**arguments)
        assert answer.startswith("Error: ")
        assert said in answer

    async def test_sessions_and_summaries_are_shown_as_such(self, manager: SessionManager) -> None:
        await manager.create("Marzipan recipes", id="a")
        session = manager.session("a")
        await say(session, "m1", "m2", "m3")
        await session.add_compaction("They spoke of walnuts.", "m1", "m2")
        search, read = tools_of(manager)
        assert "· session a · its name and summary]" in await search(query="marzipan")
        answer = await search(query="walnuts")
        [summary] = re.findall(r"· summary (frontdesk-summary:[\w-]+)\]", answer)
        assert found_in(await read(session_id="a", around=summary, after=0, before=0)) == ["m1"]

    async def test_ids_that_could_be_misread_are_quoted_and_can_be_passed_back(self, manager: SessionManager) -> None:
        odd = 'a] "b" · message x\ny'
        await manager.append(odd, user(odd, "the lamp"))
        search, read = tools_of(manager)
        answer = await search(query="lamp")
        assert r'session "a] \"b\" · message x\ny" · message "a] \"b\" · message x\ny"]' in answer
        assert "the lamp" in await read(session_id=odd, around=odd)
        assert "the **lamp**" in await search(query="lamp", session=odd)

    # read_session

    async def test_a_window_shows_the_surrounding_messages_and_how_many_were_left_out(
        self, manager: SessionManager
    ) -> None:
        await manager.create("Numbers", id="a")
        await say(manager.session("a"), *(f"m{number}" for number in range(20)))
        _, read = tools_of(manager)
        answer = await read(session_id="a", around="m7", before=2, after=1)
        assert found_in(answer) == ["m5", "m6", "m7", "m8"]
        assert "session a · messages 6 to 9 of 20]" in answer
        assert answer.startswith("[Numbers · ")
        assert "5 earlier not shown: read on with around=m5, before=10." in answer
        assert "11 later not shown: read on with around=m8, after=10." in answer
        assert found_in(await read(session_id="a")) == [f"m{number}" for number in range(9, 20)]
        assert found_in(await read(session_id="a", around="m0", before=50, after=50)) == [f"m{n}" for n in range(20)]

    async def test_compacted_messages_and_other_branches_can_be_read(self, manager: SessionManager) -> None:
        session = manager.session("a")
        await say(session, "m1", "m2", "m3")
        await session.append(user("side1"), parent="m1")
        await session.append(user("side2"))
        await session.switch("m3")
        await session.add_compaction("earlier", "m1", "m2")
        _, read = tools_of(manager)
        assert found_in(await read(session_id="a", around="m2")) == ["m1", "m2", "m3"]
        answer = await read(session_id="a", around="side1")
        assert found_in(answer) == ["m1", "side1", "side2"]
        assert "on another branch than the current one" in answer

    async def test_a_huge_message_is_shortened_and_its_neighbours_are_still_shown(
        self, manager: SessionManager
    ) -> None:
        texts = ["before", "lamp " * 50_000, "after"]
        await manager.session("a").append_all([user(f"m{number}", text) for number, text in enumerate(texts)])
        _, read = tools_of(manager, max_tokens=400)
        answer = await read(session_id="a", around="m1")
        assert found_in(answer) == ["m0", "m1", "m2"]
        assert re.search(r"… \(2\d\d,\d\d\d more characters\)", answer)
        assert estimate_tokens(answer) <= 400

    async def test_reading_something_missing_is_explained(self, manager: SessionManager) -> None:
        await manager.create(id="empty")
        await say(manager.session("a"), "m1")
        _, read = tools_of(manager)
        assert "no conversation 'nowhere'" in await read(session_id="nowhere")
        assert "nothing" in await read(session_id="a", around="nothing")
        assert "frontdesk-summary:none" in await read(session_id="a", around="frontdesk-summary:none")
        assert (await read(session_id="empty")).endswith("There are no messages to show.")

    # scope

    @pytest.fixture
    async def guarded(self, manager: SessionManager) -> SessionManager:
        """A public session, and a hidden one with a secret, a title, a summary, a key and forks."""
        await manager.create("Open house", id="open", tags=["public"])
        await manager.append("open", user("o1", "the vault is in the cellar"))
        hidden = await manager.create("Marzipan affairs", id="hidden", tags=["private"])
        await hidden.append_all([user("h1", "hello vault"), user("h2", SECRET), user("h3", "goodbye vault")])
        await hidden.set_summary("About the marzipan key")
        return manager

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_nothing_of_a_hidden_session_is_shown(self, guarded: SessionManager, is_async: bool) -> None:
        async def sees(info: SessionInfo) -> bool:
            return is_public(info)

        search, read = tools_of(guarded, scope=sees if is_async else is_public)
        answer = await search(query="vault")
        assert found_in(answer) == ["o1"]
        assert "more" not in answer
        for query in (
            "marzipan",
            f'"{SECRET}"',
            "marzi*",
            "session:hidden",
            'session:"Marzipan affairs"',
            "session:hidden vault",
            "tag:private",
            "tag:private vault",
            "role:user marzipan",
        ):
            assert await search(query=query) == "No results found.", query
        assert await search(query="vault", skip=1) == "No more results: there are 1."
        assert "marzipan" not in (await search(query="-cellar")).lower()
        assert "hidden" not in await search(query="after:2000")
        assert SECRET not in await read(session_id="open")

    async def test_a_hidden_session_looks_like_a_missing_one(self, guarded: SessionManager) -> None:
        search, read = tools_of(guarded, scope=is_public)
        for guess in ({}, {"around": "h2"}, {"around": "nothing"}, {"around": "frontdesk-summary:x"}):
            answers = [await read(session_id=name, **guess) for name in ("hidden", "absent")]
            assert answers[0] == answers[1].replace("absent", "hidden")
            assert answers[0].startswith("Error: ")
        answers = [await search(query="vault", session=name) for name in ("hidden", "absent")]
        assert answers[0] == answers[1].replace("absent", "hidden")
        around = [await read(session_id="open", around=name) for name in ("h2", "x2")]
        assert around[0] == around[1].replace("x2", "h2")

    async def test_a_visible_fork_shows_its_messages_even_if_its_source_is_hidden(
        self, guarded: SessionManager
    ) -> None:
        """The fork of a hidden session is visible: messages that both share are found as those of the fork."""
        fork = await guarded.fork("hidden", at="h2", new_id="leak", name="Told to the public")
        await fork.remove_tags("private")
        await fork.add_tags("public")
        await guarded.append("hidden", user("h4", "the hidden one is the more recent"))
        search, read = tools_of(guarded, scope=is_public)
        answer = await search(query="marzipan")
        assert found_in(answer) == ["h2"]
        assert "[Told to the public · " in answer
        assert "session leak" in answer
        assert "hidden" not in answer
        assert "affairs" not in answer
        assert found_in(await read(session_id="leak")) == ["h1", "h2"]
        assert sorted(found_in(await search(query="vault"))) == ["h1", "h2", "o1"]

    async def test_messages_that_a_fork_removed_or_changed_stay_hidden_with_its_source(
        self, guarded: SessionManager
    ) -> None:
        fork = await guarded.fork("hidden", new_id="redacted", name="Redacted")
        await fork.remove_tags("private")
        await fork.add_tags("public")
        await fork.set_summary(None)
        await fork.update_message(user("h2", "the vault opens with a [redacted] key"))
        await fork.delete_messages(["h3"])
        await guarded.append("hidden", user("h4", "marzipan again"))
        search, read = tools_of(guarded, scope=is_public)
        assert await search(query="marzipan") == "No results found."
        assert await search(query="goodbye") == "No results found."
        assert found_in(await search(query="redacted")) == ["h2"]
        assert found_in(await search(query="hello")) == ["h1"]
        assert "marzipan" not in await read(session_id="redacted", around="h2")
        assert (await read(session_id="redacted", around="h3")).startswith("Error: ")
        assert (await read(session_id="redacted", around="h4")).startswith("Error: ")

    async def test_a_hidden_fork_does_not_hide_the_messages_of_its_source(self, guarded: SessionManager) -> None:
        fork = await guarded.fork("open", new_id="copy", name="Secret copy")
        await fork.remove_tags("public")
        await fork.append(user("c1", "marzipan in the cellar"))
        search, _ = tools_of(guarded, scope=is_public)
        answer = await search(query="cellar")
        assert found_in(answer) == ["o1"]
        assert "[Open house · " in answer
        assert "copy" not in answer

    async def test_summaries_are_hidden_by_the_same_rule(self, guarded: SessionManager) -> None:
        hidden = guarded.session("hidden")
        await hidden.add_compaction("A walnut was mentioned.", "h1", "h2")
        search, _ = tools_of(guarded, scope=is_public)
        assert await search(query="walnut") == "No results found."
        fork = await guarded.fork("hidden", new_id="leak", name="Told")
        await fork.remove_tags("private")
        await fork.add_tags("public")
        await hidden.append(user("h9", "later"))
        answer = await search(query="walnut")
        assert "[Told · " in answer
        assert "session leak · summary frontdesk-summary:" in answer

    async def test_counts_include_only_visible_messages(self, manager: SessionManager) -> None:
        for number in range(30):
            await manager.create(id=f"s{number}", tags=["public"] if number % 5 == 0 else [])
            texts = [user(f"s{number}-{index}", f"lamp {number} {index}") for index in range(5)]
            await manager.session(f"s{number}").append_all(texts)
        search, _ = tools_of(manager, scope=is_public)
        answer = await search(query="lamp", limit=10)
        assert len(found_in(answer)) == 10
        assert "(20 more: search again with skip=10." in answer
        assert len(found_in(await search(query="lamp", limit=50, skip=10))) == 20

    async def test_a_scope_that_raises_hides_everything(self, guarded: SessionManager) -> None:
        def broken(info: SessionInfo) -> bool:
            raise RuntimeError(SECRET)

        search, read = tools_of(guarded, scope=broken)
        for answer in (await search(query="vault"), await read(session_id="open"), await read(session_id="hidden")):
            assert answer.startswith("Error: ")
            assert "marzipan" not in answer

    @pytest.mark.parametrize(
        "scope", ["public", "guest", "session", "agent", None, 7, {}, {"color": "red"}, ["a"]], ids=repr
    )
    async def test_an_operator_names_a_scope_that_exists(self, manager: SessionManager, scope: Any) -> None:
        with pytest.raises(ConfigurationError):
            manager.tools(scope=scope)
        with pytest.raises(TypeError):
            manager.tools()  # type: ignore[call-arg]

    @pytest.mark.parametrize("scope", [{"sessions": "abc"}, {"peer": 7}, {"tag": None}, {"sessions": [""]}], ids=repr)
    async def test_filters_of_a_scope_are_checked(self, manager: SessionManager, scope: Any) -> None:
        with pytest.raises(InvalidInputError):
            manager.tools(scope=scope)
        with pytest.raises(InvalidInputError):
            await manager.session("s").tools(scope=scope)

    async def test_another_namespace_is_out_of_reach(self, store: Store, guarded: SessionManager) -> None:
        stranger = SessionManager(store, namespace=f"{guarded.namespace}-other")
        search, read = tools_of(stranger)
        assert await search(query="vault") == "No results found."
        assert "no conversation 'hidden'" in await read(session_id="hidden")

    # searchable history

    async def test_a_searchable_history_finds_messages_of_other_sessions(self, store: Store, namespace: str) -> None:
        desk = SessionManager(store, namespace=namespace)
        desk.with_searchable_history("past", description="Earlier talks", scope="namespace")
        await desk.create("Travel", id="old")
        await desk.append("old", user("m1", "We fly from gate B12."))
        session = desk.session("now")
        await session.append_all([user("n1", "which gate was it?"), user("n2", "hello"), user("n3", "again")])
        assert "PAST (Earlier talks) [searchable]" in await session.freeze_system_prompt()
        search = (await session.tools())["search_context"]
        answer = await search(label="past", query="gate")
        assert found_in(answer) == ["m1"]
        assert "[Travel · " in answer
        await session.add_compaction("They said hello.", "n1", "n2")
        assert sorted(found_in(await search(label="past", query="gate"))) == ["m1", "n1"]
        assert await search(label="past", query="umbrella") == "No results found."

    async def test_a_searchable_history_respects_its_scope(self, store: Store, guarded: SessionManager) -> None:
        desk = SessionManager(store, namespace=guarded.namespace).with_searchable_history("past", scope=is_public)
        search = (await desk.session("now").tools())["search_context"]
        answer = await search(label="past", query="vault")
        assert found_in(answer) == ["o1"]
        assert "more" not in answer
        assert await search(label="past", query="marzipan") == "No results found."
        with pytest.raises(ConfigurationError):
            desk.with_searchable_history("late")
