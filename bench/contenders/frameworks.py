"""Agent frameworks that run a scripted agent with a store of their own, with ours, and with none that lasts.

One function each: it makes an agent whose model is a script, and returns what one run of it is. Frameworks are imported
when they are measured, because most of them take seconds to import."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from bench.payload import message
from frontdesk import SessionManager, sync

Kind = Literal["own", "ours", "memory"]
Run = Callable[[str, str], Awaitable[str]]
"""one run in a conversation, given its name and what the user says; returns the answer"""


@dataclass(frozen=True)
class Place:
    """Which kind of store an agent gets, and where its files are. What is opened is closed at the end of `stack`."""

    kind: Kind
    directory: Path
    stack: AsyncExitStack

    @property
    def url(self) -> str:
        return f"sqlite:///{self.directory}/frontdesk.db"

    async def manager(self) -> SessionManager:
        return await self.stack.enter_async_context(SessionManager(self.url))

    def sync_manager(self) -> sync.SessionManager:
        return self.stack.enter_context(sync.SessionManager(self.url))

    async def settle(self) -> None:
        """Bring the search index up to date, which a pause between two runs is for."""
        async with SessionManager(self.url) as manager:
            await manager.search("settle")


class Framework(NamedTuple):
    name: str
    ours: str
    own: str | None
    """its own durable store, if it ships one"""
    settings: str
    """journal and durability of its own store, or why there is none"""
    memory: str
    """what keeps the conversation in memory: no store can cost less"""
    prepare: Callable[[Place], Awaitable[Run]]
    reason: str = "its store keeps JSON, without ids, tokens, a change log or a search index"
    """why a run with ours may cost more"""


def answer(read: Sequence[Any]) -> str:
    """What every script answers: how many messages it was sent, and some prose."""
    return f"{len(read)} messages: {message(len(read))['content']}"


async def _openai_agents(place: Place) -> Run:
    from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
    from agents.memory import SQLiteSession
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    from frontdesk.integrations.openai_agents import FrontdeskSession

    class Script(Model):  # type: ignore[misc]
        async def get_response(self, system_instructions: str | None, input: Any, *args: Any, **kwargs: Any) -> Any:
            text = ResponseOutputText(text=answer(input), type="output_text", annotations=[])
            output = ResponseOutputMessage(
                id=f"msg_{uuid4().hex}", content=[text], role="assistant", status="completed", type="message"
            )
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    class ListSession:
        def __init__(self, session_id: str) -> None:
            self.session_id = session_id
            self.session_settings = None
            self._items: list[Any] = []

        async def get_items(self, limit: int | None = None) -> list[Any]:
            return list(self._items)

        async def add_items(self, items: list[Any]) -> None:
            self._items += items

        async def pop_item(self) -> Any:
            return self._items.pop() if self._items else None

        async def clear_session(self) -> None:
            self._items.clear()

    set_tracing_disabled(True)
    agent = Agent("guide", instructions="You are a guide.", model=Script())
    manager = await place.manager() if place.kind == "ours" else None

    @cache
    def session(name: str) -> Any:
        if manager is not None:
            return FrontdeskSession(manager, name)
        return SQLiteSession(name, place.directory / "own.db") if place.kind == "own" else ListSession(name)

    async def run(name: str, text: str) -> str:
        return str((await Runner.run(agent, text, session=session(name))).final_output)

    return run


async def _langgraph(place: Place) -> Run:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import START, MessagesState, StateGraph

    from frontdesk.integrations.langgraph import FrontdeskSaver

    async def script(state: Any) -> dict[str, Any]:
        return {"messages": [AIMessage(answer(state["messages"]))]}

    saver: Any = InMemorySaver()
    if place.kind == "ours":
        saver = FrontdeskSaver(await place.manager())
    elif place.kind == "own":
        saver = await place.stack.enter_async_context(AsyncSqliteSaver.from_conn_string(f"{place.directory}/own.db"))
    builder = StateGraph(MessagesState)
    builder.add_node("script", script)
    builder.add_edge(START, "script")
    graph = builder.compile(checkpointer=saver)

    async def run(name: str, text: str) -> str:
        state = await graph.ainvoke({"messages": [("user", text)]}, {"configurable": {"thread_id": name}})
        return str(state["messages"][-1].content)

    return run


async def _google_adk(place: Place) -> Run:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.adk.sessions.sqlite_session_service import SqliteSessionService
    from google.genai.types import Content, GenerateContentResponseUsageMetadata, Part

    from frontdesk.integrations.google_adk import FrontdeskSessionService

    class Script(BaseLlm):  # type: ignore[misc]
        async def generate_content_async(self, request: Any, stream: bool = False) -> AsyncIterator[Any]:
            content = Content(role="model", parts=[Part(text=answer(request.contents))])
            usage = GenerateContentResponseUsageMetadata(prompt_token_count=1, candidates_token_count=1)
            yield LlmResponse(content=content, usage_metadata=usage)

    service: Any = InMemorySessionService()
    if place.kind == "ours":
        service = FrontdeskSessionService(await place.manager())
    elif place.kind == "own":
        service = SqliteSessionService(f"{place.directory}/own.db")
    agent = LlmAgent(name="guide", model=Script(model="script"), instruction="You are a guide.")
    runner = Runner(app_name="guide", agent=agent, session_service=service, auto_create_session=True)

    async def run(name: str, text: str) -> str:
        given = Content(role="user", parts=[Part(text=text)])
        said = [event async for event in runner.run_async(user_id="ana", session_id=name, new_message=given)]
        return str(said[-1].content.parts[0].text)

    return run


async def _pydantic_ai(place: Place) -> Run:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel

    from frontdesk.integrations.pydantic_ai import FrontdeskHistory

    agent = Agent(FunctionModel(lambda messages, _: ModelResponse(parts=[TextPart(answer(messages))])))
    manager = await place.manager() if place.kind == "ours" else None
    kept: dict[str, list[Any]] = {}

    async def run(name: str, text: str) -> str:
        if manager is None:
            result = await agent.run(text, message_history=kept.get(name))
            kept[name] = result.all_messages()
        else:
            history = FrontdeskHistory(manager, name)
            result = await agent.run(text, message_history=await history.load())
            await history.save(result.new_messages())
        return str(result.output)

    return run


async def _strands(place: Place) -> Run:
    from strands import Agent
    from strands.models import Model
    from strands.session import FileSessionManager, RepositorySessionManager

    from frontdesk.integrations.strands import FrontdeskSessionRepository

    class Script(Model):  # type: ignore[misc]
        def update_config(self, **config: Any) -> None: ...

        def get_config(self) -> Any:
            return {}

        def structured_output(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": answer(messages)}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}

    repository = FrontdeskSessionRepository(place.sync_manager()) if place.kind == "ours" else None
    kept: dict[str, list[Any]] = {}

    async def run(name: str, text: str) -> str:
        options: dict[str, Any] = {"messages": kept.setdefault(name, [])}
        if repository is not None:
            options = {"session_manager": RepositorySessionManager(name, repository)}
        elif place.kind == "own":
            options = {"session_manager": FileSessionManager(name, str(place.directory))}
        agent = Agent(Script(), agent_id="guide", callback_handler=None, **options)
        return str(await agent.invoke_async(text)).strip()

    return run


async def _claude_agent_sdk(place: Place) -> Run:
    from claude_agent_sdk import InMemorySessionStore

    from frontdesk.integrations.claude_agent_sdk import FrontdeskSessionStore

    store: Any = FrontdeskSessionStore(await place.manager()) if place.kind == "ours" else InMemorySessionStore()

    def entry(role: str, content: str) -> Any:
        return {"type": role, "uuid": str(uuid4()), "message": {"role": role, "content": content}}

    async def run(name: str, text: str) -> str:
        """What the SDK does with a store: the command of Claude Code, which is the agent, is left out."""
        key: Any = {"project_key": "guide", "session_id": name}
        asked = entry("user", text)
        said = answer([*(await store.load(key) or ()), asked])
        await store.append(key, [asked, entry("assistant", said)])
        return said

    return run


async def _agent_framework(place: Place) -> Run:
    from agent_framework import (
        Agent,
        BaseChatClient,
        ChatResponse,
        FileHistoryProvider,
        FunctionInvocationLayer,
        InMemoryHistoryProvider,
        Message,
    )

    from frontdesk.integrations.agent_framework import FrontdeskHistoryProvider

    class Script(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc]
        async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
            return ChatResponse(messages=[Message("assistant", [answer(messages)])])

    history: Any = InMemoryHistoryProvider()
    if place.kind == "ours":
        history = FrontdeskHistoryProvider(await place.manager())
    elif place.kind == "own":
        history = FileHistoryProvider(place.directory / "own")
    agent = Agent(Script(), name="guide", context_providers=[history])

    @cache
    def session(name: str) -> Any:
        return agent.create_session(session_id=name)

    async def run(name: str, text: str) -> str:
        return str((await agent.run(text, session=session(name))).text)

    return run


async def _llama_index(place: Place) -> Run:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.chat_engine import SimpleChatEngine
    from llama_index.core.llms.mock import MockFunctionCallingLLM
    from llama_index.core.memory import Memory
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

    from frontdesk.integrations.llama_index import FrontdeskMemoryStore

    model = MockFunctionCallingLLM(
        response_generator=lambda messages, **options: ChatMessage(role="assistant", content=answer(messages))
    )
    if place.kind == "ours":
        store: Any = FrontdeskMemoryStore(place.sync_manager())
    else:
        file = place.directory / "own.db" if place.kind == "own" else ":memory:"
        store = SQLAlchemyChatStore("chats", f"sqlite+aiosqlite:///{file}")

    async def run(name: str, text: str) -> str:
        memory = Memory.from_defaults(session_id=name, chat_store=store)
        return str(await SimpleChatEngine.from_defaults(llm=model, memory=memory).achat(text))

    return run


async def _langchain(place: Place) -> Run:
    from langchain_community.chat_message_histories import SQLChatMessageHistory
    from langchain_core._api import LangChainDeprecationWarning
    from langchain_core.chat_history import InMemoryChatMessageHistory
    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.runnables import RunnableLambda
    from langchain_core.runnables.history import RunnableWithMessageHistory
    from sqlalchemy.ext.asyncio import create_async_engine

    from frontdesk.integrations.langchain import FrontdeskChatHistory

    warnings.simplefilter("ignore", LangChainDeprecationWarning)
    manager = await place.manager() if place.kind == "ours" else None
    engine = create_async_engine(f"sqlite+aiosqlite:///{place.directory}/own.db")
    place.stack.push_async_callback(engine.dispose)

    @cache
    def history(session_id: str) -> Any:
        if manager is not None:
            return FrontdeskChatHistory(manager, session_id)
        if place.kind == "own":
            return SQLChatMessageHistory(session_id, connection=engine, async_mode=True)
        return InMemoryChatMessageHistory()

    async def script(messages: Any) -> Any:
        return AIMessage(answer(messages))

    chain = RunnableWithMessageHistory(RunnableLambda(script), history)

    async def run(name: str, text: str) -> str:
        said = await chain.ainvoke([HumanMessage(text)], {"configurable": {"session_id": name}})
        return str(said.content)

    return run


NOT_MEASURED = {"AI SDK": "its agents run in JavaScript, and it ships no durable store"}
"""frameworks with an integration that no agent in Python can run, and why there is nothing to compare"""
_WAL = "WAL, FULL, commit each"
_ROLLBACK = "rollback journal, FULL, commit each"
_FILES = "files, not synced"
FRAMEWORKS = (
    Framework("OpenAI Agents SDK", "FrontdeskSession", "SQLiteSession", _WAL, "a list", _openai_agents),
    Framework("LangGraph", "FrontdeskSaver", "AsyncSqliteSaver", _WAL, "InMemorySaver", _langgraph),
    Framework(
        "Google ADK",
        "FrontdeskSessionService",
        "SqliteSessionService",
        _ROLLBACK,
        "InMemorySessionService",
        _google_adk,
    ),
    Framework("Pydantic AI", "FrontdeskHistory", None, "it ships no durable store", "a list", _pydantic_ai),
    Framework(
        "Strands",
        "FrontdeskSessionRepository",
        "FileSessionManager",
        _FILES,
        "a list",
        _strands,
        "files are written without being synced; ours are transactions, and Strands calls them from its own thread",
    ),
    Framework(
        "Claude Agent SDK",
        "FrontdeskSessionStore",
        None,
        "it ships no durable store",
        "InMemorySessionStore",
        _claude_agent_sdk,
    ),
    Framework(
        "Agent Framework",
        "FrontdeskHistoryProvider",
        "FileHistoryProvider",
        _FILES,
        "InMemoryHistoryProvider",
        _agent_framework,
        "lines are added to a file without being synced; ours is a transaction with a search index",
    ),
    Framework(
        "LlamaIndex",
        "FrontdeskMemoryStore",
        "SQLAlchemyChatStore",
        _ROLLBACK,
        "SQLite in memory",
        _llama_index,
        "`Memory` reads the conversation several times in a run, each time through another thread",
    ),
    Framework(
        "LangChain",
        "FrontdeskChatHistory",
        "SQLChatMessageHistory",
        _ROLLBACK,
        "InMemoryChatMessageHistory",
        _langchain,
    ),
)
