"""`FrontdeskSessionRepository` and `FrontdeskStorage` in real runs of Strands agents, whose model is a scripted server,
next to the storage of Strands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.models.anthropic import AnthropicModel
from strands.multiagent import GraphBuilder
from strands.session import FileSessionManager, RepositorySessionManager, SnapshotSessionManager
from strands.session.session_manager import SessionManager as StrandsSessionManager
from strands.session.session_repository import SessionRepository
from strands.storage import InMemoryStorage, Storage
from strands.types.content import Message
from strands.types.exceptions import SessionException, StorageError
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from frontdesk import SessionKey, sync
from frontdesk.integrations.strands import FrontdeskSessionRepository, FrontdeskStorage
from tests.models.scripted_server import Answer, ScriptedServer, ToolCall

ANA = SessionKey("guide", "strands", "ana")
WEATHER = Answer(tool_calls=(ToolCall("toolu_1", "weather", {"city": "Lima"}),))


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: sunny"


@pytest.fixture
def model(server: ScriptedServer) -> AnthropicModel:
    arguments = {"api_key": "key", "base_url": server.anthropic_url, "max_retries": 0}
    return AnthropicModel(client_args=arguments, model_id="claude-sonnet-5", max_tokens=100)


@pytest.fixture
def repository(sync_manager: sync.SessionManager) -> FrontdeskSessionRepository:
    return FrontdeskSessionRepository(sync_manager)


def guide(model: AnthropicModel, session: StrandsSessionManager[Any], **options: Any) -> Agent:
    return Agent(model, tools=[weather], session_manager=session, callback_handler=None, agent_id="guide", **options)


def kept(repository: SessionRepository, session_id: str = "ana", **page: Any) -> list[tuple[int, Message]]:
    listed = repository.list_messages(session_id, "guide", **page)
    return [(each.message_id, each.to_message()) for each in listed]


def plain(messages: list[Message]) -> list[Any]:
    """Messages without what differs from run to run."""
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def test_an_agent_is_stored_and_restored_as_by_strands_itself(
    repository: FrontdeskSessionRepository, server: ScriptedServer, model: AnthropicModel, tmp_path: Path
) -> None:
    outcomes = []
    makers: list[Callable[[], RepositorySessionManager]] = [
        lambda: FileSessionManager("ana", str(tmp_path)),
        lambda: RepositorySessionManager("ana", repository),
    ]
    for session in makers:
        server.script(WEATHER, Answer("Sunny."), Answer("Bye."))
        agent = guide(model, session())
        agent.state.set("city", "Lima")
        agent("Weather in Lima?")
        first = agent.messages
        restored = guide(model, session())
        assert restored.messages == first
        assert restored.state.get("city") == "Lima"
        restored("Thanks")
        listed = session().session_repository.list_messages("ana", "guide")
        numbers = [each.message_id for each in listed]
        outcomes.append((plain([each.to_message() for each in listed]), numbers, server.requests[-1].body["messages"]))
    assert outcomes[0] == outcomes[1]
    assert outcomes[1][1] == [0, 1, 2, 3, 4, 5]
    assert server.refused == []
    roles = [message.role for message in repository.conversation("ana", "guide").history()]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]


def test_messages_come_back_exactly_and_their_words_are_found(
    repository: FrontdeskSessionRepository, sync_manager: sync.SessionManager
) -> None:
    messages: list[Any] = [
        {"role": "user", "content": [{"text": "Look at this"}, image(b"\xff\x00")], "tracking_id": "t1"},
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                {"toolUse": {"toolUseId": "c1", "name": "weather", "input": {"city": "Lima", "n": None}}},
            ],
            "metadata": {"usage": {"inputTokens": 3}, "custom": {"x": [1, 2.5]}},
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"json": {"a": 1}}]}}],
        },
        {"role": "assistant", "content": [{"somethingNew": {"z": 1}}, {"text": "Sunny"}]},
        {"role": "assistant", "content": [{"somethingNew": {"z": 1}}, {"text": "Sunny"}], "tracking_id": "t1"},
    ]
    start(repository, messages)
    listed = repository.list_messages("ana", "guide")
    assert [each.to_message() for each in listed] == messages
    assert repository.read_message("ana", "guide", 2) == listed[2]
    assert repository.read_message("ana", "guide", 9) is None
    assert kept(repository, limit=1, offset=3) == kept(repository)[3:4]
    assert kept(repository, offset=9) == []
    assert len(sync_manager.search("Sunny")) == 2
    sent = repository.conversation("ana", "guide").history(format="openai")
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "assistant"]


def image(data: bytes) -> dict[str, Any]:
    return {"image": {"format": "png", "source": {"bytes": data}}}


def start(repository: SessionRepository, messages: list[Any]) -> None:
    repository.create_session(Session("ana", SessionType.AGENT))
    repository.create_agent("ana", SessionAgent("guide", {}, {}))
    for number, message in enumerate(messages):
        repository.create_message("ana", "guide", SessionMessage(message, number))


def said(text: str, role: str = "user") -> Any:
    return {"role": role, "content": [{"text": text}]}


def test_a_redacted_message_shows_only_what_replaces_it(
    repository: FrontdeskSessionRepository, sync_manager: sync.SessionManager
) -> None:
    start(repository, [said("the password is hunter"), said("ok", "assistant")])
    message = repository.read_message("ana", "guide", 0)
    assert message is not None
    created = message.created_at
    message.redact_message = said("[redacted]")
    message.created_at = "2001-01-01T00:00:00+00:00"
    repository.update_message("ana", "guide", message)
    assert kept(repository)[0] == (0, said("[redacted]"))
    assert repository.list_messages("ana", "guide")[0].created_at == created
    assert len(sync_manager.search("hunter")) == 0
    assert "hunter" not in str(repository.conversation("ana", "guide").history(format="openai"))
    with pytest.raises(SessionException):
        repository.update_message("ana", "guide", SessionMessage(said("x"), 7))


def test_a_summary_replaces_what_it_covers_and_offsets_lose_nothing(repository: FrontdeskSessionRepository) -> None:
    start(repository, [said(f"words {number}", "user" if number % 2 == 0 else "assistant") for number in range(8)])
    conversation = repository.conversation("ana", "guide")
    ids = [message.id for message in conversation.transcript()]
    made = conversation.add_compaction("They talked.", ids[0], ids[3])
    listed = kept(repository)
    assert len(listed) == 5
    assert "They talked." in str(listed[0])
    assert [text for _, text in listed[1:]] == [
        said(f"words {n}", "user" if n % 2 == 0 else "assistant") for n in range(4, 8)
    ]
    assert kept(repository, offset=2) == listed
    assert kept(repository, offset=4) == listed[1:]
    assert listed[-1][0] == 7
    conversation.undo_compaction(made.id)
    assert len(kept(repository)) == 8


def test_a_window_of_strands_is_restored(
    repository: FrontdeskSessionRepository, server: ScriptedServer, model: AnthropicModel
) -> None:
    def window() -> dict[str, Any]:
        return {"conversation_manager": SlidingWindowConversationManager(window_size=2)}

    server.script(*(Answer(f"answer {number}") for number in range(4)))
    agent = guide(model, RepositorySessionManager("ana", repository), **window())
    for number in range(4):
        agent(f"question {number}")
    restored = guide(model, RepositorySessionManager("ana", repository), **window())
    assert restored.messages == agent.messages
    assert len(restored.messages) == 2
    assert repository.conversation("ana", "guide").path_length() == 8


def test_other_frameworks_continue_a_conversation_and_strands_continues_theirs(
    repository: FrontdeskSessionRepository, server: ScriptedServer, model: AnthropicModel
) -> None:
    server.script(Answer("Hello."), Answer("It was sunny."))
    guide(model, RepositorySessionManager("ana", repository))("Hi")
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lima"}'}}
    repository.conversation("ana", "guide").append_all(
        [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Lima: sunny"},
            {"role": "assistant", "content": "Sunny."},
        ]
    )
    guide(model, RepositorySessionManager("ana", repository))("And before?")
    kinds = [message["content"][0]["type"] for message in server.requests[-1].body["messages"]]
    assert kinds == ["text", "text", "text", "tool_use", "tool_result", "text", "text"]
    assert server.refused == []
    assert [number for number, _ in kept(repository)] == list(range(8))


def test_sessions_and_agents_are_kept_apart_and_deleted_together(
    repository: FrontdeskSessionRepository, sync_manager: sync.SessionManager
) -> None:
    start(repository, [said("hello")])
    with pytest.raises(SessionException):
        repository.create_session(Session("ana", SessionType.AGENT))
    repository.create_agent("ana", SessionAgent("helper", {"n": 1}, {}))
    repository.create_message("ana", "helper", SessionMessage(said("from the helper"), 0))
    repository.create_session(Session("ana/x", SessionType.AGENT))
    repository.create_agent("ana/x", SessionAgent("guide", {}, {}))
    assert kept(repository) == [(0, said("hello"))]
    assert kept(repository, "ana/x") == []
    changed = SessionAgent("helper", {"n": 2}, {})
    repository.update_agent("ana", changed)
    assert repository.read_agent("ana", "helper") == changed
    with pytest.raises(SessionException):
        repository.update_agent("ana", SessionAgent("nobody", {}, {}))
    with pytest.raises(SessionException):
        repository.list_messages("ana", "nobody")

    repository.delete_session("ana")
    assert repository.read_session("ana") is None
    assert repository.read_agent("ana", "helper") is None
    assert len(sync_manager.search("hello")) == 0
    assert repository.read_agent("ana/x", "guide") is not None
    with pytest.raises(SessionException):
        repository.delete_session("ana")


def test_erasing_a_guest_leaves_nothing(
    repository: FrontdeskSessionRepository, sync_manager: sync.SessionManager
) -> None:
    start(repository, [said("hello")])
    storage = FrontdeskStorage(sync_manager, ANA)
    asyncio.run(storage.write("a", b"1" * 2_000_000))
    report = sync_manager.erase(peer="ana")
    assert (report.sessions, report.states, report.shelves) == (1, 2, 1)
    assert repository.read_session("ana") is None
    assert asyncio.run(storage.list()) == []


def test_a_graph_of_agents_is_stored_and_restored(
    repository: FrontdeskSessionRepository, server: ScriptedServer, model: AnthropicModel
) -> None:
    server.script(Answer("Sunny."))
    builder = GraphBuilder()
    builder.add_node(Agent(model, agent_id="guide", tools=[weather], callback_handler=None), "guide")
    builder.set_entry_point("guide")
    builder.set_max_node_executions(5)
    builder.set_session_manager(RepositorySessionManager("ana", repository))
    graph = builder.build()
    graph("Weather?")
    stored = repository.read_multi_agent("ana", graph.id)
    assert stored == graph.serialize_state()


# storage


@pytest.fixture(params=["strands", "frontdesk"])
def storage(request: pytest.FixtureRequest, sync_manager: sync.SessionManager) -> Storage:
    return InMemoryStorage() if request.param == "strands" else FrontdeskStorage(sync_manager, ANA)


async def test_bytes_are_stored_as_by_strands_itself(storage: Storage) -> None:
    large = bytes(range(256)) * 10_000
    assert isinstance(storage, Storage)
    for key, data in (("s/b", b"\x00\xff"), ("s/a", b""), ("t", large), ("s/a", b"weather in Lima")):
        await storage.write(key, data)
    assert [await storage.read(key) for key in ("s/a", "s/b", "t", "u")] == [
        b"weather in Lima",
        b"\x00\xff",
        large,
        None,
    ]
    assert await storage.list("") == ["s/a", "s/b", "t"]
    assert await storage.list("s/") == ["s/a", "s/b"]
    assert await storage.list("nothing") == []
    assert [found.key for found in await storage.search("Lima")] == ["s/a"]
    await storage.write("t", b"small")
    assert await storage.read("t") == b"small"
    await storage.delete("t")
    await storage.delete("never")
    assert await storage.read("t") is None


async def test_readers_get_the_old_bytes_or_the_new_ones(sync_manager: sync.SessionManager) -> None:
    storage = FrontdeskStorage(sync_manager, ANA)
    versions = [bytes([number]) * 1_500_000 for number in range(4)]
    await storage.write("k", versions[0])
    reads = [storage.read("k") for _ in range(6)]
    found = await asyncio.gather(*reads, *(storage.write("k", version) for version in versions[1:]))
    assert set(found[:6]) <= set(versions)
    assert await storage.read("k") in versions[1:]


async def test_guests_do_not_see_each_other(sync_manager: sync.SessionManager) -> None:
    storage = FrontdeskStorage(sync_manager, SessionKey("a", "b", "c"))
    near = FrontdeskStorage(sync_manager, SessionKey("a", "b", "c/x"))
    await near.write("k", b"1")
    assert await storage.list("") == []
    assert await storage.read("x/k") is None
    with pytest.raises(StorageError):
        await storage.write("k" * 1000, b"1")


def test_a_snapshot_of_an_agent_is_restored(
    sync_manager: sync.SessionManager, server: ScriptedServer, model: AnthropicModel
) -> None:
    server.script(WEATHER, Answer("Sunny."), Answer("Bye."))
    agent = guide(model, SnapshotSessionManager("ana", storage=FrontdeskStorage(sync_manager, ANA)))
    agent("Weather in Lima?")
    restored = guide(model, SnapshotSessionManager("ana", storage=FrontdeskStorage(sync_manager, ANA)))
    assert restored.messages == agent.messages
    restored("Thanks")
    assert len(server.requests[-1].body["messages"]) == 5
    assert server.refused == []
