"""LangGraph's SQLite checkpointer with the messages of a conversation as its state."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import add_messages

from bench.payload import messages


class LangGraphSaver:
    """Only `aput` is timed, not the graph that calls it: the state it writes is the whole list of messages."""

    settings = "WAL, FULL, commit each"

    def __init__(self, name: str = "LangGraph AsyncSqliteSaver") -> None:
        self.name = name

    async def open(self, directory: Path) -> None:
        self._stack = AsyncExitStack()
        self._saver = await self._open(directory)
        self._state: dict[str, list[Any]] = {}
        self._configs: dict[str, Any] = {}

    async def _open(self, directory: Path) -> Any:
        saver = AsyncSqliteSaver.from_conn_string(str(directory / "checkpoints.db"))
        return await self._stack.enter_async_context(saver)

    async def close(self) -> None:
        await self._stack.aclose()

    async def append(self, session: str, number: int) -> None:
        await self.append_many(session, range(number, number + 1))

    async def append_many(self, session: str, numbers: range) -> None:
        state = self._state.setdefault(session, [])
        state.extend(add_messages([], messages(numbers)))
        versions = {"messages": self._saver.get_next_version(None, None)}
        checkpoint = empty_checkpoint() | {"channel_values": {"messages": state}, "channel_versions": versions}
        config = self._configs.get(session) or {"configurable": {"thread_id": session, "checkpoint_ns": ""}}
        self._configs[session] = await self._saver.aput(config, checkpoint, {"source": "loop", "step": 1}, versions)

    async def read_all(self, session: str) -> int:
        config = {"configurable": {"thread_id": session, "checkpoint_ns": ""}}
        found = await self._saver.aget_tuple(config)
        return len(found.checkpoint["channel_values"]["messages"])

    async def read_last(self, session: str, count: int) -> int:
        return min(count, await self.read_all(session))


class LangGraphMemory(LangGraphSaver):
    """Keeps serialised checkpoints in memory: what a saver cannot do without."""

    settings = "nothing is kept"

    async def _open(self, directory: Path) -> Any:
        return InMemorySaver()
