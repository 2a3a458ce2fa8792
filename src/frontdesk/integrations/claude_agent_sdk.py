"""A session store for the Claude Agent SDK: `ClaudeAgentOptions(session_store=FrontdeskSessionStore(manager))`.

It keeps the transcripts of the CLI in Frontdesk, where they can be read, searched and erased like any conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from urllib.parse import quote

from frontdesk.extras import needs_extra
from frontdesk.integrations.loop_thread import LoopThread
from frontdesk.keys import SessionKey as Address
from frontdesk.manager.manager import SessionManager
from frontdesk.messages import NewMessage, formats, new_id
from frontdesk.records import SessionInfo

with needs_extra(__name__, "claude-agent-sdk"):
    import anyio.to_thread
    import sniffio
    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStore,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
        fold_session_summary,
    )

R = TypeVar("R")


@dataclass
class StoredSummary:
    """What the SDK keeps of a session for its list, and the time of the last entry that it takes into account."""

    mtime: int = 0
    data: dict[str, Any] = field(default_factory=dict)


class FrontdeskSessionStore(SessionStore):
    """Stores the sessions of the SDK under keys: the agent, the project, the session, and for subagents their path.

    An entry with a uuid is stored once, however often it is sent. It works on asyncio and on trio; on trio, the calls
    run in an event loop of their own, in a thread that `close` ends."""

    def __init__(self, manager: SessionManager, *, agent: str = "claude") -> None:
        self._manager = manager
        self._agent = agent
        self._summaries = manager.states(StoredSummary, name="claude-agent-sdk", ttl=None)
        self._thread = LoopThread()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Append entries: all of them, or none."""
        if entries:
            await self._run(lambda: self._append(key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries of a session, None if there is none."""
        return await self._run(lambda: self._load(key))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, without those of subagents."""
        found = await self._run(lambda: self._infos(project_key))
        return [{"session_id": peer, "mtime": _mtime(info)} for peer, thread, info in found if thread is None]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """What the SDK shows in its list of the sessions of a project."""
        return await self._run(lambda: self._list_summaries(project_key))

    async def delete(self, key: SessionKey) -> None:
        """Delete a session with those of its subagents, or the session of one subagent."""
        await self._run(lambda: self._delete(key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The paths of the subagents of a session."""
        found = await self._run(lambda: self._infos(key["project_key"], key["session_id"]))
        return [thread for _, thread, _ in found if thread is not None]

    async def close(self) -> None:
        """Close the manager. On trio, also end the thread."""
        await self._run(self._manager.close)
        self._thread.close()

    async def _run(self, work: Callable[[], Awaitable[R]]) -> R:
        if sniffio.current_async_library() == "asyncio":
            return await work()
        return await anyio.to_thread.run_sync(self._thread.run, work)

    def _address(self, key: SessionKey | SessionListSubkeysKey) -> Address:
        thread = cast("str | None", key.get("subpath"))
        return Address(self._agent, key["project_key"], key["session_id"], thread)

    async def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        address = self._address(key)
        session = self._manager.session(address)
        appended = await session.append_all([_new_message(cast("dict[str, Any]", entry)) for entry in entries])
        new = [entry for entry, result in zip(entries, appended, strict=True) if result.inserted]
        if new and address.thread is None:
            mtime = _mtime(await session.info())
            await self._summaries.update(
                _summary_id(address.channel, address.peer),
                lambda before: _folded(before, key, new, mtime),
                create=True,
                owner=address,
            )

    async def _load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        if await self._manager.get(self._address(key)) is None:
            return None
        transcript = self._manager.session(self._address(key)).transcript()
        return [cast("SessionStoreEntry", message.raw) async for message in transcript]

    async def _infos(self, project: str, peer: str | None = None) -> list[tuple[str, str | None, SessionInfo]]:
        found = self._manager.iterate(agent=self._agent, channel=project, peer=peer)
        return [(info.key.peer, info.key.thread, info) async for info in found if info.key is not None]

    async def _list_summaries(self, project: str) -> list[SessionSummaryEntry]:
        summaries: list[SessionSummaryEntry] = []
        for peer, thread, _ in await self._infos(project):
            stored = None if thread is not None else await self._summaries.get(_summary_id(project, peer))
            if stored is not None:
                summaries.append({"session_id": peer, "mtime": stored.mtime, "data": stored.data})
        return summaries

    async def _delete(self, key: SessionKey) -> None:
        address = self._address(key)
        for peer, thread, info in await self._infos(address.channel, address.peer):
            if address.thread is None or thread == address.thread:
                await self._manager.delete(info.id)
                if thread is None:
                    await self._summaries.delete(_summary_id(address.channel, peer))


def _new_message(entry: dict[str, Any]) -> NewMessage:
    """An entry under its uuid. What is no message (a title, a mode) belongs to the system, and has no text."""
    uuid = entry.get("uuid")
    is_message = formats.recognise(entry) is not None
    return NewMessage(
        entry,
        id=uuid if isinstance(uuid, str) and uuid else new_id(),
        role=None if is_message else "system",
        text=None if is_message else "",
    )


def _folded(before: StoredSummary, key: SessionKey, entries: list[SessionStoreEntry], mtime: int) -> StoredSummary:
    previous: SessionSummaryEntry = {"session_id": key["session_id"], "mtime": before.mtime, "data": before.data}
    folded = fold_session_summary(previous if before.data else None, key, entries)
    return StoredSummary(max(mtime, before.mtime), folded["data"])


def _summary_id(project: str, session_id: str) -> str:
    return f"{quote(project, safe='')}/{session_id}"


def _mtime(info: SessionInfo) -> int:
    return int(info.last_active_at.timestamp() * 1000)
