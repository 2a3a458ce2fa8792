"""`FrontdeskSessionService` next to ADK's own services: the same scenarios have the same outcome. Then what only ours
does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.sessions import BaseSessionService, DatabaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai.types import Blob, Content, FunctionCall, FunctionResponse, Part

from frontdesk import SessionKey, SessionManager
from frontdesk.integrations.google_adk import FrontdeskSessionService
from frontdesk.store import Append, AppendResult, Plan
from frontdesk.stores.memory import MemoryStore
from tests.integrations.conftest import STORES, url_of

SHOP: dict[str, Any] = {"app_name": "shop", "user_id": "ana"}


def said(number: int, text: str = "hello", author: str = "user", **fields: Any) -> Event:
    """An event with a fixed id and time, so that those of different services are equal."""
    role = "user" if author == "user" else "model"
    given: dict[str, Any] = {"content": Content(role=role, parts=[Part(text=text)]), "invocation_id": f"i{number}"}
    return Event(id=f"e{number}", timestamp=1000.0 + number, author=author, **(given | fields))


def changing(number: int, **delta: Any) -> Event:
    return said(number, actions=EventActions(state_delta={name.replace("__", ":"): to for name, to in delta.items()}))


async def reload(service: BaseSessionService, id: str = "s1", config: GetSessionConfig | None = None) -> Session:
    session = await service.get_session(**SHOP, session_id=id, config=config)
    assert session is not None
    return session


def outcome(session: Session) -> dict[str, Any]:
    """All that a session consists of, except for the time of one without events."""
    return session.model_dump(exclude=set() if session.events else {"last_update_time"})


# scenarios


async def state_of_all_scopes(service: BaseSessionService) -> Any:
    first = {"own": 1, "user:name": "Ana", "app:open": True, "temp:gone": 5}
    session = await service.create_session(**SHOP, state=first, session_id="s1")
    created = outcome(session)
    await service.append_event(session, changing(1, own={"a": 1}, user__name=None, app__open=False, temp__now=2.5))
    live = dict(session.state)
    await service.append_event(session, changing(2, own={"b": 2}, user__city="Lima", nothing=None))
    other = await service.create_session(**SHOP, session_id="s2")
    stranger = await service.create_session(app_name="shop", user_id="bo", session_id="s1", state={"user:name": "Bo"})
    elsewhere = await service.create_session(app_name="other", user_id="ana", session_id="s1")
    states = [each.state for each in (other, stranger, elsewhere)]
    user = [await service.get_user_state(app_name="shop", user_id=each) for each in ("ana", "bo", "nobody")]
    return created, live, outcome(await reload(service)), states, user


async def every_field_of_an_event(service: BaseSessionService) -> Any:
    session = await service.create_session(**SHOP, session_id="s1")
    parts = [
        Part(text="hi \u2603 \x7f"),
        Part(inline_data=Blob(data=b"\xff\x00\xfe?", mime_type="image/png")),
        Part(text="hm", thought=True, thought_signature=b"\xfb\xff"),
        Part(function_call=FunctionCall(id="c1", name="weather", args={"city": "Lima", "days": None, "n": 2.0})),
    ]
    actions = EventActions(
        artifact_delta={"map.png": 3}, transfer_to_agent="guide", escalate=True, agent_state={"step": 2}, route="left"
    )
    event = said(
        1,
        author="guide",
        content=Content(role="model", parts=parts),
        actions=actions,
        long_running_tool_ids={"c1", "c0"},
        branch="guide.helper",
        custom_metadata={"score": 0.5, "none": None},
        error_code="X",
        turn_complete=True,
    )
    returned = await service.append_event(session, event)
    assert returned == event
    (stored,) = (await reload(service)).events
    assert stored == event
    return stored.model_dump()


async def limited_reads(service: BaseSessionService) -> Any:
    session = await service.create_session(**SHOP, session_id="s1", state={"k": 0})
    for number in range(1, 8):
        await service.append_event(session, changing(number, k=number))
    configs = [
        GetSessionConfig(num_recent_events=0),
        GetSessionConfig(num_recent_events=3),
        GetSessionConfig(num_recent_events=99),
        GetSessionConfig(after_timestamp=1004.0),
        GetSessionConfig(after_timestamp=5000.0),
        GetSessionConfig(num_recent_events=2, after_timestamp=1003.0),
        GetSessionConfig(),
    ]
    read = [await reload(service, config=config) for config in configs]
    return [([event.id for event in each.events], each.state, each.last_update_time) for each in read]


async def lists(service: BaseSessionService) -> Any:
    for number, (user, id) in enumerate((("ana", "late"), ("bo", "s1"), ("ana", "early")), 1):
        session = await service.create_session(app_name="shop", user_id=user, session_id=id, state={"user:of": user})
        await service.append_event(session, changing(9 - number, app__seen=number, own=id))
    await service.create_session(app_name="other", user_id="ana")
    listed = [
        await service.list_sessions(app_name="shop"),
        await service.list_sessions(app_name="shop", user_id="ana"),
        await service.list_sessions(app_name="shop", user_id="nobody"),
        await service.list_sessions(app_name="nothing"),
    ]
    return [each.model_dump() for each in listed]


async def deletion(service: BaseSessionService) -> Any:
    session = await service.create_session(**SHOP, session_id="s1", state={"user:name": "Ana", "own": 1})
    await service.append_event(session, changing(1, user__city="Lima"))
    await service.delete_session(**SHOP, session_id="s1")
    await service.delete_session(**SHOP, session_id="never")
    gone = await service.get_session(**SHOP, session_id="s1")
    with pytest.raises(SessionNotFoundError):
        await service.append_event(session, said(2))
    still_gone = await service.get_session(**SHOP, session_id="s1")
    again = await service.create_session(**SHOP, session_id="s1")
    return gone, still_gone, again.state, again.events, await service.get_user_state(**SHOP)


async def ids_that_are_taken(service: BaseSessionService) -> Any:
    await service.create_session(**SHOP, session_id="s1", state={"own": 1, "user:name": "Ana"})
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**SHOP, session_id="s1", state={"own": 2, "user:name": "Eve", "app:x": 1})
    made = [await service.create_session(**SHOP) for _ in range(2)]
    assert made[0].id != made[1].id
    return outcome(await reload(service))


async def partial_events(service: BaseSessionService) -> Any:
    session = await service.create_session(**SHOP, session_id="s1")
    await service.append_event(session, said(1, partial=True, actions=EventActions(state_delta={"k": 1})))
    return outcome(session), outcome(await reload(service))


async def values_that_are_no_json(service: BaseSessionService) -> Any:
    session = await service.create_session(**SHOP, session_id="s1", state={"path": Path("/a")})
    await service.append_event(session, changing(1, where=Path("/b"), tags=("x", "y")))
    return {name: str(value) for name, value in (await reload(service)).state.items() if name != "tags"}


async def events_without_content(service: BaseSessionService) -> Any:
    session = await service.create_session(**SHOP, session_id="s1")
    await service.append_event(session, Event(id="e1", author="guide", timestamp=1001.0))
    await service.append_event(session, said(2, content=Content(role="model", parts=[]), author="guide"))
    return outcome(await reload(service))


Scenario = Callable[[BaseSessionService], Awaitable[Any]]
SCENARIOS: list[Scenario] = [
    state_of_all_scopes,
    every_field_of_an_event,
    limited_reads,
    lists,
    deletion,
    ids_that_are_taken,
    partial_events,
    values_that_are_no_json,
    events_without_content,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_a_scenario_ends_as_with_the_services_of_adk(
    manager: SessionManager, tmp_path: Path, scenario: Scenario
) -> None:
    theirs = await scenario(InMemorySessionService())
    async with DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path}/adk.db") as database:
        assert await scenario(database) == theirs
    assert await scenario(FrontdeskSessionService(manager)) == theirs


# what InMemorySessionService does not do


@pytest.fixture
def service(manager: SessionManager) -> FrontdeskSessionService:
    return FrontdeskSessionService(manager)


@pytest.fixture(params=["adk", *STORES])
async def persistent(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseSessionService]:
    if request.param == "adk":
        async with DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path}/adk.db") as database:
            yield database
    else:
        async with SessionManager(url_of(request.param, request, tmp_path)) as manager:
            yield FrontdeskSessionService(manager)


async def test_only_one_of_two_writers_appends_to_what_both_have_loaded(persistent: BaseSessionService) -> None:
    await persistent.create_session(**SHOP, session_id="s1", state={"user:name": "Ana"})
    first, second = await reload(persistent), await reload(persistent)
    await persistent.append_event(first, changing(1, own=1))
    with pytest.raises(StaleSessionError):
        await persistent.append_event(second, changing(2, own=2, user__name="Eve"))
    assert second.events == []
    assert second.state.get("own") is None
    await persistent.append_event(first, said(3))
    stored = await reload(persistent)
    assert [event.id for event in stored.events] == ["e1", "e3"]
    assert stored.state == {"own": 1, "user:name": "Ana"}
    await persistent.append_event(stored, said(4))


async def test_a_session_that_was_built_by_hand_counts_as_loaded_with_its_last_event(
    persistent: BaseSessionService,
) -> None:
    await persistent.append_event(await persistent.create_session(**SHOP, session_id="s1"), said(1))
    by_hand = Session(id="s1", **SHOP, events=[said(1)])
    await persistent.append_event(by_hand, said(2))
    await persistent.append_event(by_hand, said(3))
    with pytest.raises(StaleSessionError):
        await persistent.append_event(Session(id="s1", **SHOP), said(4))
    with pytest.raises(SessionNotFoundError):
        await persistent.append_event(Session(id="s2", **SHOP), said(5))
    assert [event.id for event in (await reload(persistent)).events] == ["e1", "e2", "e3"]


async def test_agents_that_share_a_session_append_at_the_same_time(persistent: BaseSessionService) -> None:
    session = await persistent.create_session(**SHOP, session_id="s1")
    await asyncio.gather(*(persistent.append_event(session, changing(n, **{f"k{n}": n})) for n in range(20)))
    stored = await reload(persistent)
    assert {event.id for event in stored.events} == {f"e{n}" for n in range(20)}
    assert stored.state == {f"k{n}": n for n in range(20)}


async def test_concurrent_changes_of_shared_state_are_all_made(service: FrontdeskSessionService) -> None:
    sessions = [await service.create_session(**SHOP) for _ in range(8)]
    events = [changing(n, **{f"user__{n}": n, f"app__{n}": n}) for n in range(8)]
    await asyncio.gather(*(service.append_event(s, e) for s, e in zip(sessions, events, strict=True)))
    assert await service.get_user_state(**SHOP) == {str(n): n for n in range(8)}
    state = (await reload(service, sessions[0].id)).state
    assert {name for name in state if name.startswith("app:")} == {f"app:{n}" for n in range(8)}


# what only ours does


async def test_an_event_that_is_delivered_again_changes_nothing(service: FrontdeskSessionService) -> None:
    session = await service.create_session(**SHOP, session_id="s1")
    event = changing(1, own=1, user__name="Ana")
    await service.append_event(session, event)
    await service.append_event(session, changing(2, own=2, user__name="Eve"))
    await service.append_event(session, event)
    assert [each.id for each in session.events] == ["e1", "e2"]
    stored = await reload(service)
    assert stored.state == {"own": 2, "user:name": "Eve"}
    await service.append_event(stored, changing(1, own=1, user__name="Ana"))
    assert (await reload(service)).events == session.events
    with pytest.raises(AlreadyExistsError):
        await service.append_event(stored, said(1, "another"))


class KilledError(Exception):
    """The process stops here."""


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_change_of_user_state_happens_if_and_only_if_its_event_is_stored(
    service: FrontdeskSessionService, manager: SessionManager, is_stored: bool
) -> None:
    session = await service.create_session(**SHOP, session_id="s1", state={"user:city": "Rome"})
    conversation = service.conversation(session)
    event = changing(1, user__city="Lima")

    async def stop_in_the_middle() -> None:
        async with service._shared.changing("shop", "ana", event.actions.state_delta, conversation.id, event.id):
            if is_stored:
                await conversation.append(event.model_dump(mode="json", exclude_none=True))
            raise KilledError

    with pytest.raises(KilledError):
        await stop_in_the_middle()
    later = FrontdeskSessionService(manager)
    assert await later.get_user_state(**SHOP) == {"city": "Lima" if is_stored else "Rome"}
    await later.delete_session(**SHOP, session_id="s1")
    assert await later.get_user_state(**SHOP) == {"city": "Lima" if is_stored else "Rome"}


async def test_erasing_a_guest_removes_their_sessions_and_state_and_nothing_of_others(
    service: FrontdeskSessionService, manager: SessionManager
) -> None:
    for user in ("ana", "bo"):
        session = await service.create_session(
            app_name="shop", user_id=user, session_id="s1", state={"user:name": user, "app:open": True}
        )
        await service.append_event(session, changing(1, user__city="Lima"))
    report = await manager.erase(key=SessionKey("shop", "adk", "ana"))
    assert (report.sessions, report.states) == (1, 1)
    assert await service.get_user_state(app_name="shop", user_id="ana") == {}
    assert await service.get_session(**SHOP, session_id="s1") is None
    assert (await service.create_session(**SHOP)).state == {"app:open": True}
    assert await service.get_user_state(app_name="shop", user_id="bo") == {"name": "bo", "city": "Lima"}
    await manager.erase(agent="shop")
    assert (await service.create_session(app_name="shop", user_id="bo")).state == {}


async def test_channels_share_nothing(service: FrontdeskSessionService, manager: SessionManager) -> None:
    web = FrontdeskSessionService(manager, channel="web")
    await service.create_session(**SHOP, session_id="s1", state={"own": 1, "user:name": "Ana", "app:open": True})
    assert (await web.create_session(**SHOP, session_id="s1", state={"user:name": "Eve"})).state == {"user:name": "Eve"}
    await manager.erase(key=SessionKey("shop", "web", "ana"))
    assert await web.get_user_state(**SHOP) == {}
    assert (await reload(service)).state == {"own": 1, "user:name": "Ana", "app:open": True}


async def test_sessions_are_listed_page_by_page(service: FrontdeskSessionService) -> None:
    for number in range(5):
        session = await service.create_session(**SHOP, session_id=f"s{number}", state={"own": number})
        await service.append_event(session, changing(number, own=number * 10))
    await service.create_session(app_name="shop", user_id="bo")
    seen, cursor = [], None
    while True:
        page = await service.list_page(**SHOP, limit=2, cursor=cursor)
        seen += [(session.id, session.state["own"], session.events) for session in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [(f"s{number}", number * 10, []) for number in (4, 3, 2, 1, 0)]


async def test_a_limited_read_of_a_long_session_has_the_whole_state(
    service: FrontdeskSessionService, manager: SessionManager
) -> None:
    session = await service.create_session(**SHOP, session_id="s1", state={"first": 0})
    for number in range(120):
        await service.append_event(session, changing(number, **{f"k{number % 7}": number}))
    none = GetSessionConfig(num_recent_events=0)
    for _ in range(2):
        assert (await reload(service, config=none)).state == (await reload(service)).state == session.state
    await service.append_event(await reload(service, config=none), changing(120, k0="new"))
    assert (await reload(service, config=none)).state["k0"] == "new"
    await service.conversation(session).delete_messages(["e118", "e120"])
    state = (await reload(service, config=none)).state
    assert state == (await reload(service)).state
    assert "new" not in state.values()
    assert 118 not in state.values()


async def test_branches_and_forks_have_the_state_of_their_own_events(
    service: FrontdeskSessionService, manager: SessionManager
) -> None:
    session = await service.create_session(**SHOP, session_id="s1", state={"k": 0})
    for number in range(1, 4):
        await service.append_event(session, changing(number, k=number))
    conversation = service.conversation(session)
    await manager.fork(conversation.id, at="e2", key=SessionKey("shop", "adk", "ana", "fork"))
    assert (await reload(service, "fork")).state == {"k": 2}
    await conversation.switch("e1")
    for config in (None, GetSessionConfig(num_recent_events=1)):
        switched = await reload(service, config=config)
        assert switched.state == {"k": 1}
        assert switched.events[-1].id == "e1"
    await service.append_event(await reload(service), changing(9, k=9))
    assert [event.id for event in (await reload(service)).events] == ["e1", "e9"]


def weather_call(number: int) -> Event:
    call = FunctionCall(id="c1", name="weather", args={"city": "Lima"})
    return said(number, author="guide", content=Content(role="model", parts=[Part(function_call=call)]))


def weather_result(number: int) -> Event:
    result = FunctionResponse(id="c1", name="weather", response={"result": "sunny"})
    return said(number, author="guide", content=Content(role="user", parts=[Part(function_response=result)]))


async def test_a_limited_read_never_separates_a_result_from_its_call(service: FrontdeskSessionService) -> None:
    session = await service.create_session(**SHOP, session_id="s1")
    for event in (said(1), weather_call(2), weather_result(3), said(4, "Sunny", author="guide")):
        await service.append_event(session, event)
    expected = {1: ["e4"], 2: ["e4"], 3: ["e2", "e3", "e4"]}
    for most, ids in expected.items():
        read = await reload(service, config=GetSessionConfig(num_recent_events=most))
        assert [event.id for event in read.events] == ids
    since = await reload(service, config=GetSessionConfig(after_timestamp=1003.0))
    assert [event.id for event in since.events] == ["e4"]


async def test_words_are_found_and_other_frameworks_can_read_them(
    service: FrontdeskSessionService, manager: SessionManager
) -> None:
    session = await service.create_session(**SHOP, session_id="s1")
    for event in (said(1, "Weather in Lima?"), weather_call(2), weather_result(3), said(4, "Sunny", author="guide")):
        await service.append_event(session, event)
    assert {hit.message_id for hit in await manager.search("Lima")} == {"e1", "e2"}
    sent = await service.conversation(session).history(format="openai")
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant"]


def compacted() -> Event:
    """An event that replaces the first four."""
    content = Content(role="model", parts=[Part(text="They talked.")])
    compaction = EventCompaction(start_timestamp=1001.0, end_timestamp=1004.0, compacted_content=content)
    return Event(id="summary", author="user", timestamp=1006.0, actions=EventActions(compaction=compaction))


async def test_a_summary_of_adk_is_an_overlay_and_its_event_stays(service: FrontdeskSessionService) -> None:
    session = await service.create_session(**SHOP, session_id="s1")
    for number in range(1, 6):
        await service.append_event(session, said(number, f"words {number}"))
    await service.append_event(session, compacted())
    assert (await reload(service)).events == session.events
    history = await service.conversation(session).history()
    assert [message.text for message in history] == ["They talked.", "words 5", ""]
    recent = await reload(service, config=GetSessionConfig(num_recent_events=10))
    texts = [seen_text(each) for each in recent.events]
    assert len(texts) == 2
    assert "They talked." in texts[0]
    assert texts[1] == "words 5"
    await service.append_event(recent, said(7))


class DyingStore(MemoryStore):
    """A store whose process stops before it writes a certain kind of change."""

    dies_at: Literal["append", "overlay"] | None = None

    async def append(self, request: Append) -> AppendResult:
        if self.dies_at == "append":
            raise KilledError
        return await super().append(request)

    async def apply(self, plan: Plan) -> bool:
        if self.dies_at == "overlay" and plan.add_overlays:
            raise KilledError
        return await super().apply(plan)


@pytest.mark.parametrize("config", [None, GetSessionConfig(num_recent_events=10)])
async def test_a_summary_of_adk_becomes_an_overlay_if_and_only_if_its_event_is_stored(
    config: GetSessionConfig | None,
) -> None:
    store = DyingStore()
    async with SessionManager(store) as manager:
        service = FrontdeskSessionService(manager)
        session = await service.create_session(**SHOP, session_id="s1")
        conversation = service.conversation(session)
        for number in range(1, 6):
            await service.append_event(session, said(number, f"words {number}"))
        for store.dies_at, texts in (
            ("append", ["words 1", "words 2", "words 3", "words 4", "words 5"]),
            ("overlay", ["They talked.", "words 5", ""]),
        ):
            with pytest.raises(KilledError):
                await service.append_event(session, compacted())
            store.dies_at = None
            session = await reload(FrontdeskSessionService(manager), config=config)
            assert [message.text for message in await conversation.history()] == texts
        await service.append_event(session, compacted())
        (made,) = await conversation.compactions()
        await conversation.undo_compaction(made.id)
        await service.append_event(await reload(service, config=config), said(7))
        assert await conversation.compactions() == []


def seen_text(event: Event) -> str:
    compaction = event.actions.compaction
    content = event.content if compaction is None else compaction.compacted_content
    assert content is not None
    return "".join(part.text or "" for part in content.parts or [])
