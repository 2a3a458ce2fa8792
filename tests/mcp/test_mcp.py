"""The server of the Model Context Protocol, used with the official client, over standard input and output and over
HTTP."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import MCPError, StdioServerParameters
from mcp.client.client import Client
from mcp_types import CallToolResult, TextContent, TextResourceContents

from frontdesk import SessionKey, SessionManager

ANA, BEN = SessionKey("concierge", "web", "ana"), SessionKey("concierge", "web", "ben")


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    path = tmp_path / "desk.db"
    async with SessionManager(f"sqlite:///{path}").with_context("memory", scope="guest") as manager:
        for key, id, said in ((ANA, "ana-1", "a room with a view"), (BEN, "ben-1", "a room in the cellar")):
            session = await manager.create(id, id=id, key=key)
            await session.append({"id": f"{id}-q", "role": "user", "content": said})
            await session.append({"id": f"{id}-a", "role": "assistant", "content": "Booked. See search_sessions."})
        await manager.add_compaction("ana-1", "Ana booked.", "ana-1-q", "ana-1-q")
    return path


@asynccontextmanager
async def over_stdio(store: Path, *arguments: str) -> AsyncIterator[Client]:
    line = ["-m", "frontdesk", "mcp", "--store", str(store), *arguments]
    async with Client(StdioServerParameters(command=sys.executable, args=line)) as client:
        yield client


@asynccontextmanager
async def over_http(store: Path, *arguments: str) -> AsyncIterator[Client]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    line = ["-m", "frontdesk", "mcp", "--store", str(store), "--http", "--port", str(port), *arguments]
    process = await asyncio.create_subprocess_exec(sys.executable, *line, stderr=asyncio.subprocess.DEVNULL)
    try:
        while True:
            assert process.returncode is None
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)  # it is not listening yet
                continue
            writer.close()
            await writer.wait_closed()
            break
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            yield client
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 60)


TRANSPORTS = [pytest.param(over_stdio, id="stdio"), pytest.param(over_http, id="http")]


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("connect", TRANSPORTS)
async def test_a_guest_reaches_its_own_conversations_and_no_others(store: Path, connect: object) -> None:
    async with connect(store, "--guest", "concierge:web:ana", "--block", "memory:guest") as client:  # type: ignore[operator]
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == {
            *("session_search", "read_session", "list_sessions"),
            *("update_context", "expand_summary", "append_message"),
        }
        found = text_of(await client.call_tool("session_search", {"query": "room"}))
        assert "view" in found
        assert "cellar" not in found
        read = text_of(await client.call_tool("read_session", {"session_id": "ana-1"}))
        assert "See search_sessions." in read  # what was said stays as it is
        listed = text_of(await client.call_tool("list_sessions", {}))
        assert "ana-1" in listed
        assert "ben-1" not in listed
        question = {"session_id": "ana-1", "question": "room"}
        assert "a room with a view" in text_of(await client.call_tool("expand_summary", question))

        done = text_of(await client.call_tool("append_message", {"role": "user", "content": "and breakfast"}))
        assert "ana-1" in done
        note = {"session_id": "ana-1", "label": "memory", "content": "Likes views."}
        assert "version 1" in text_of(await client.call_tool("update_context", note))

        listed_resources = await client.list_resources()
        assert [str(resource.uri) for resource in listed_resources.resources] == ["frontdesk://sessions/ana-1"]
        (said,) = (await client.read_resource("frontdesk://sessions/ana-1")).contents
        assert isinstance(said, TextResourceContents)
        assert said.text.endswith("and breakfast")
        (block,) = (await client.read_resource("frontdesk://sessions/ana-1/blocks/memory")).contents
        assert isinstance(block, TextResourceContents)
        assert block.text == "Likes views."
        for name, arguments in (
            ("read_session", {"session_id": "ben-1"}),
            ("expand_summary", {"session_id": "ben-1", "question": "room"}),
            ("update_context", {**note, "session_id": "ben-1"}),
            ("append_message", {"session_id": "ben-1", "role": "user", "content": "hi"}),
        ):
            refused, unknown = [
                await client.call_tool(name, {**arguments, "session_id": id}) for id in ("ben-1", "nobody")
            ]
            assert refused.is_error
            assert text_of(refused).replace("ben-1", "nobody") == text_of(unknown)
        with pytest.raises(MCPError):
            await client.read_resource("frontdesk://sessions/ben-1")
        with pytest.raises(MCPError):
            await client.read_resource("file:///etc/passwd")
    async with SessionManager(f"sqlite:///{store}") as manager:
        assert len(await manager.history("ben-1")) == 2


async def test_an_agent_and_the_namespace_reach_further_and_read_only_cannot_write(store: Path) -> None:
    async with over_stdio(store, "--agent", "concierge", "--read-only") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {
            *("session_search", "read_session", "list_sessions", "expand_summary")
        }
        assert "cellar" in text_of(await client.call_tool("session_search", {"query": "room"}))
        refused = await client.call_tool("append_message", {"session_id": "ana-1", "role": "user", "content": "x"})
        assert refused.is_error
    async with over_stdio(store, "--agent", "somebody") as client:
        assert "no conversations" in text_of(await client.call_tool("list_sessions", {}))
    async with over_stdio(store, "--all") as client:
        assert "ben-1" in text_of(await client.call_tool("list_sessions", {"limit": 1}))
        bad = await client.call_tool("list_sessions", {"limit": "many"})
        assert bad.is_error


async def test_a_scope_must_be_named_and_http_listens_on_loopback_only(store: Path) -> None:
    for arguments, code in (([], 2), (["--all", "--agent", "x"], 2), (["--all", "--http", "--host", "0.0.0.0"], 2)):
        line = ["-m", "frontdesk", "mcp", "--store", str(store), *arguments]
        process = await asyncio.create_subprocess_exec(sys.executable, *line, stderr=asyncio.subprocess.PIPE)
        _, said = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == code
        assert b"Traceback" not in said
