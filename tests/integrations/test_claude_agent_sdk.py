"""`FrontdeskSessionStore` against the conformance kit of the Claude Agent SDK, and its own helpers."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import anyio
from claude_agent_sdk import get_session_messages_from_store, list_sessions_from_store, project_key_for_directory
from claude_agent_sdk.testing import run_session_store_conformance

from frontdesk import SessionKey, SessionManager
from frontdesk.integrations.claude_agent_sdk import FrontdeskSessionStore

KEY: Any = {"project_key": "proj", "session_id": "sess"}


def said(number: int, text: str, role: str = "user", parent: str | None = None) -> dict[str, Any]:
    return {
        "type": role,
        "uuid": f"00000000-0000-4000-8000-{number:012}",
        "parentUuid": parent,
        "sessionId": "00000000-0000-4000-8000-0000000000ff",
        "timestamp": f"2026-01-01T00:00:{number:02}.000Z",
        "message": {"role": role, "content": text},
    }


async def test_it_passes_the_conformance_kit(store_url: str) -> None:
    managers = [SessionManager(store_url, namespace=f"n{n}") for n in range(24)]
    numbers = count()
    await run_session_store_conformance(lambda: FrontdeskSessionStore(managers[next(numbers)]))
    assert next(numbers) > 10
    for manager in managers:
        await manager.close()


def test_it_passes_the_conformance_kit_on_trio(store_url: str) -> None:
    async def run() -> None:
        stores = [FrontdeskSessionStore(SessionManager(store_url, namespace=f"n{n}")) for n in range(24)]
        unused = iter(stores)
        await run_session_store_conformance(lambda: next(unused))
        assert len(list(unused)) < 14
        for store in stores:
            await store.close()

    anyio.run(run, backend="trio")


async def test_entries_are_stored_once_and_found_by_search(manager: SessionManager) -> None:
    store = FrontdeskSessionStore(manager)
    entries: list[Any] = [
        said(1, "Fix the login page"),
        said(2, "Done.", "assistant"),
        {"type": "mode", "mode": "plan"},
    ]
    await asyncio.gather(*(FrontdeskSessionStore(manager).append(KEY, entries[:2]) for _ in range(4)))
    await store.append(KEY, entries[2:])
    assert await store.load(KEY) == entries
    session = manager.session(SessionKey("claude", "proj", "sess"))
    assert [(message.role, message.text) for message in await session.history()][:2] == [
        ("user", "Fix the login page"),
        ("assistant", "Done."),
    ]
    assert [hit.message_id for hit in await manager.search("login")] == [entries[0]["uuid"]]


async def test_the_helpers_of_the_sdk_read_it(manager: SessionManager, tmp_path: Any) -> None:
    store = FrontdeskSessionStore(manager)
    session_id = "00000000-0000-4000-8000-0000000000ff"
    project = project_key_for_directory(str(tmp_path))
    first = said(1, "Fix the login page")
    entries: list[Any] = [first, said(2, "Done.", "assistant", first["uuid"])]
    await store.append({"project_key": project, "session_id": session_id}, entries)
    (listed,) = await list_sessions_from_store(store, directory=str(tmp_path))
    assert listed.session_id == session_id
    assert "login" in listed.summary
    messages = await get_session_messages_from_store(store, session_id, directory=str(tmp_path))
    assert [message.type for message in messages] == ["user", "assistant"]
