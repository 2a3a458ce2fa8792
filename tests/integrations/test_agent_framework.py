"""`FrontdeskHistoryProvider` in real runs of agents of Microsoft's Agent Framework, with a scripted chat client. The
history provider of the framework does the same, for comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    HistoryProvider,
    InMemoryHistoryProvider,
    Message,
    ResponseStream,
)

from frontdesk import InvalidInputError, SessionKey, SessionManager
from frontdesk.integrations.agent_framework import FrontdeskHistoryProvider

CALL = [Content.from_function_call("c1", "weather", arguments='{"city": "Lima"}')]


class ScriptedClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """Answers with the contents of its script, and keeps what it was sent."""

    def __init__(self, *answers: list[Content]) -> None:
        super().__init__()
        self.answers = list(answers)
        self.sent: list[list[Message]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Any:
        self.sent.append(list(messages))
        contents = self.answers.pop(0)
        return _streamed(contents) if stream else _whole(contents)


async def _whole(contents: list[Content]) -> ChatResponse:
    return ChatResponse(messages=[Message("assistant", contents)])


def _streamed(contents: list[Content]) -> ResponseStream[ChatResponseUpdate, ChatResponse]:
    async def updates() -> Any:
        for content in contents:
            yield ChatResponseUpdate(contents=[content], role="assistant")

    return ResponseStream(updates(), finalizer=ChatResponse.from_updates)


def weather(city: str) -> str:
    """The weather in a city."""
    return f"{city}: sunny"


def text(*words: str) -> list[Content]:
    return [Content.from_text(word) for word in words]


def agent(client: ScriptedClient, history: HistoryProvider) -> Agent:
    return Agent(client, "You are a guide.", name="guide", tools=[weather], context_providers=[history])


def plain(messages: Sequence[Message]) -> list[Any]:
    """Messages without what the framework makes at random."""
    shown = []
    for message in messages:
        contents = [{**content.to_dict(), "id": None} for content in message.contents]
        shown.append((message.role, message.author_name, contents))
    return shown


@pytest.fixture
def history(manager: SessionManager) -> FrontdeskHistoryProvider:
    return FrontdeskHistoryProvider(manager, agent="guide")


async def save(history: FrontdeskHistoryProvider, *messages: Message) -> list[dict[str, Any]]:
    await history.save_messages("ana", messages)
    return [message.to_dict() for message in await history.get_messages("ana")]


@pytest.mark.parametrize("stream", [False, True])
async def test_runs_are_stored_and_loaded_as_by_the_provider_of_the_framework(
    manager: SessionManager, stream: bool
) -> None:
    sent = []
    makers: list[Any] = [InMemoryHistoryProvider, lambda: FrontdeskHistoryProvider(manager, agent="guide")]
    for provider in makers:
        client = ScriptedClient(CALL, text("Sunny."), text("Bye."))
        first = agent(client, provider())
        session = first.create_session(session_id="ana")
        for words in ("Weather in Lima?", "Thanks"):
            runner = agent(client, provider())
            if stream:
                await runner.run(words, session=session, stream=True).get_final_response()
            else:
                await runner.run(words, session=session)
        sent.append([plain(messages) for messages in client.sent])
    assert sent[0] == sent[1]
    assert [role for role, _, _ in sent[1][-1]] == ["user", "assistant", "tool", "assistant", "user"]
    conversation = manager.session(SessionKey("guide", "agent-framework", "ana"))
    roles = [message.role for message in await conversation.history()]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_messages_come_back_exactly_and_other_frameworks_can_read_them(
    history: FrontdeskHistoryProvider, manager: SessionManager
) -> None:
    messages = [
        Message("user", ["Look at this", Content.from_data(b"\xff\x00", "image/png")], message_id="m1"),
        Message("assistant", [Content.from_text_reasoning(text="hm", protected_data="x"), *CALL], author_name="guide"),
        Message("tool", [Content.from_function_result("c1", result={"sky": "sunny"})]),
        Message("assistant", text("Sunny", "today"), additional_properties={"score": 0.5, "none": None}),
        Message("assistant", [Content.from_uri("https://example.com/a.png", media_type="image/png")]),
        Message("system", text("Be short.")),
    ]
    assert await save(history, *messages) == [message.to_dict() for message in messages]
    assert {hit.role for hit in await manager.search("today")} == {"assistant"}
    sent = await history.conversation("ana").history(format="openai")
    assert [message["role"] for message in sent][:4] == ["user", "assistant", "tool", "assistant"]
    assert sent[1]["tool_calls"][0]["function"]["name"] == "weather"
    assert sent[0]["content"][1]["image_url"]["url"] == "data:image/png;base64,/wA="


async def test_a_conversation_that_is_sent_again_is_stored_once(history: FrontdeskHistoryProvider) -> None:
    first = [Message("user", ["Hi"]), Message("assistant", ["Hello"])]
    await save(history, *first)
    more = [Message("user", ["Bye"]), Message("assistant", ["Goodbye"])]
    assert len(await save(history, *first, *more)) == 4
    assert len(await save(history, *more)) == 4
    assert len(await save(history, Message("user", ["Goodbye?"]))) == 5
    assert len(await save(history, Message("user", ["Goodbye?"]))) == 6
    assert len(await save(history)) == 6
    known = Message("user", ["Once"], message_id="m1")
    assert len(await save(history, known)) == 7
    assert len(await save(history, known)) == 7


async def test_a_summary_replaces_what_it_covers(history: FrontdeskHistoryProvider) -> None:
    call, result = Message("assistant", CALL), Message("tool", [Content.from_function_result("c1", result="sunny")])
    await save(history, Message("user", ["Weather?"]), call, result, Message("assistant", ["Sunny."]))
    conversation = history.conversation("ana")
    ids = [message.id async for message in conversation.transcript()]
    made = await conversation.add_compaction("It is sunny.", ids[0], ids[2])
    client = ScriptedClient(text("Yes."))
    guide = agent(client, history)
    await guide.run("Sure?", session=guide.create_session(session_id="ana"))
    (sent,) = client.sent
    assert [message.role for message in sent] == ["user", "assistant", "user"]
    assert "It is sunny." in sent[0].text
    await conversation.undo_compaction(made.id)
    assert len(await history.get_messages("ana")) == 6


async def test_a_conversation_of_another_framework_is_continued(history: FrontdeskHistoryProvider) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Lima"}'}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,/wA="}}
    await history.conversation("ana").append_all(
        [
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}, image]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Lima: sunny"},
            {"role": "assistant", "content": "Sunny."},
        ]
    )
    client = ScriptedClient(text("Yes."))
    guide = agent(client, history)
    await guide.run("Sure?", session=guide.create_session(session_id="ana"))
    (sent,) = client.sent
    kinds = [[content.type for content in message.contents] for message in sent]
    assert kinds == [["text", "data"], ["function_call"], ["function_result"], ["text"], ["text"]]
    assert sent[2].contents[0].result == "Lima: sunny"


async def test_custom_tools_and_files_that_are_no_uris_do_not_stop_a_conversation(
    history: FrontdeskHistoryProvider,
) -> None:
    file = {"type": "file", "file": {"file_data": "JVBERi0=", "filename": "a.pdf"}}
    call = {"id": "c3", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    await history.conversation("ana").append_all(
        [
            {"role": "user", "content": [{"type": "text", "text": "List it."}, file]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c3", "content": "suite"},
        ]
    )
    asked, called, result = await history.get_messages("ana")
    assert [content.text for content in asked.contents] == ["List it.", "[file]"]
    assert [(content.name, content.arguments) for content in called.contents] == [("shell", '{"input":"ls"}')]
    assert result.contents[0].result == "suite"


async def test_sessions_are_kept_apart_and_one_without_an_id_is_refused(
    history: FrontdeskHistoryProvider, manager: SessionManager
) -> None:
    await save(history, Message("user", ["Hi"]))
    assert await history.get_messages("bo") == []
    assert await FrontdeskHistoryProvider(manager, agent="other").get_messages("ana") == []
    with pytest.raises(InvalidInputError):
        await history.get_messages(None)
    with pytest.raises(InvalidInputError):
        await history.save_messages(None, [Message("user", ["Hi"])])


async def test_a_provider_can_record_without_loading(manager: SessionManager) -> None:
    record = FrontdeskHistoryProvider(manager, agent="audit", load_messages=False, store_inputs=False)
    client = ScriptedClient(text("Hello."), text("Bye."))
    guide = Agent(client, context_providers=[InMemoryHistoryProvider(), record])
    session = guide.create_session(session_id="ana")
    await guide.run("Hi", session=session)
    await guide.run("Bye", session=session)
    assert [len(messages) for messages in client.sent] == [1, 3]
    assert [message.text for message in await record.get_messages("ana")] == ["Hello.", "Bye."]
