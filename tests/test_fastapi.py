"""Records as responses of real FastAPI routes, and event streams of a real server that is asked to stop."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Body, FastAPI

from frontdesk import (
    Appended,
    Compaction,
    ContextUsage,
    Event,
    Message,
    Page,
    SearchResults,
    SessionInfo,
    SessionKey,
    SessionManager,
    Stats,
    SweepReport,
    Usage,
)
from tests.waiting import PATIENCE, eventually

KEY = SessionKey("concierge", "web", "ana")
SERVER = Path(__file__).with_name("shutdown_server.py")


def make_app(manager: SessionManager) -> FastAPI:
    app = FastAPI()

    @app.get("/sessions")
    async def sessions() -> Page[SessionInfo]:
        return await manager.list()

    @app.get("/sessions/{id}")
    async def session(id: str) -> SessionInfo | None:
        return await manager.get(id)

    @app.get("/sessions/{id}/messages")
    async def messages(id: str) -> list[Message]:
        return await manager.history(id)

    @app.post("/sessions/{id}/messages")
    async def append(id: str, message: Annotated[Message, Body()]) -> Appended:
        return await manager.append(id, message)

    @app.get("/sessions/{id}/compactions")
    async def compactions(id: str) -> list[Compaction]:
        return await manager.session(id).compactions()

    @app.get("/sessions/{id}/context")
    async def context(id: str) -> ContextUsage:
        return await manager.session(id).context_usage()

    @app.get("/search")
    async def search(query: str) -> SearchResults:
        return await manager.search(query)

    @app.get("/usage")
    async def usage() -> Usage:
        return await manager.usage(by=["day", "agent", "peer"])

    @app.get("/events")
    async def events() -> list[Event]:
        return [event async for event in manager.events(after="start", follow=False)]

    @app.get("/stats", response_model=Stats)
    async def stats() -> Stats:
        return await manager.stats()

    @app.get("/sweep", response_model=None)
    async def sweep() -> SweepReport:
        return await manager.sweep()

    return app


@pytest.fixture
async def manager() -> AsyncIterator[SessionManager]:
    async with SessionManager("memory://") as manager:
        await manager.create("Ana's trip", id="chat", key=KEY, tags=["vip"], metadata={"plan": 1})
        await manager.session("chat").append_all(
            [{"id": f"m{number}", "role": "user", "content": f"Room {number}"} for number in range(1, 5)]
        )
        await manager.add_compaction("chat", "Rooms 1 and 2", "m1", "m2")
        at = datetime(2026, 1, 2, tzinfo=UTC)
        await manager.add_usage("chat", input_tokens=5, cost="0.25", model="large", at=at)
        yield manager


@pytest.fixture
async def client(manager: SessionManager) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_app(manager))
    async with httpx.AsyncClient(transport=transport, base_url="http://desk") as client:
        yield client


async def test_routes_return_records_as_to_dict_writes_them(manager: SessionManager, client: httpx.AsyncClient) -> None:
    session = manager.session("chat")
    info = await session.info()
    expected: dict[str, Any] = {
        "/sessions": await manager.list(),
        "/sessions/chat": info,
        "/sessions/chat/messages": await session.history(),
        "/sessions/chat/compactions": [*await session.compactions()],
        "/sessions/chat/context": await session.context_usage(),
        "/search?query=room": await manager.search("room"),
        "/usage": await manager.usage(by=["day", "agent", "peer"]),
        "/events": [event async for event in manager.events(after="start", follow=False)],
        "/stats": await manager.stats(),
    }
    for path, value in expected.items():
        response = await client.get(path)
        assert response.status_code == 200, path
        written = [each.to_dict() for each in value] if isinstance(value, list) else value.to_dict()
        assert response.json() == json.loads(json.dumps(written)), path
        assert written, path
    [row] = (await client.get("/usage")).json()["rows"]
    assert (row["day"], row["agent"], row["peer"], row["cost"]) == ("2026-01-02", "concierge", "ana", "0.25")
    assert (await client.get("/sweep")).json()["ran"] is True
    assert (await client.get("/sessions/missing")).json() is None


async def test_a_route_takes_a_message_and_returns_what_was_appended(client: httpx.AsyncClient) -> None:
    body = {"id": "m9", "role": "tool", "tool_call_id": "c", "content": "42"}
    answer = (await client.post("/sessions/chat/messages", json=body)).json()
    assert (answer["inserted"], answer["message"]["id"], answer["message"]["role"]) == (True, "m9", "tool")
    assert (await client.post("/sessions/chat/messages", json={"content": "no role"})).status_code == 422


async def test_the_documentation_of_the_api_describes_the_records(client: httpx.AsyncClient) -> None:
    schema = (await client.get("/openapi.json")).json()["components"]["schemas"]
    names = {"SessionInfo", "Usage", "UsageGroup", "Event", "SearchHit", "Compaction", "Stats", "SessionKey"}
    assert names <= set(schema)
    assert set(schema["Event"]["properties"]) == {field.name for field in dataclasses.fields(Event)}


async def test_asdict_works_on_what_every_call_returns(manager: SessionManager) -> None:
    session = manager.session("chat")
    appended = await session.append({"role": "user", "content": "One more"})
    records: list[Any] = [
        await manager.list(),
        await session.info(),
        appended,
        await manager.search("room"),
        await manager.usage(),
        *[event async for event in manager.events(after="start", follow=False)],
        *await session.compactions(),
        await session.context_usage(),
        await manager.stats(),
        await manager.sweep(),
        await manager.recover(),
        await manager.search_info(),
    ]
    for record in records:
        fields = dataclasses.asdict(record)
        assert list(fields) == [field.name for field in dataclasses.fields(record)]
    assert dataclasses.asdict(appended)["message"] == appended.message


# a server with an open event stream


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_open_event_stream_does_not_keep_a_server_from_stopping(tmp_path: Path, number: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    server = subprocess.Popen([sys.executable, str(SERVER), str(port), str(tmp_path)], env=environment)
    try:
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            await eventually(lambda: _answers(url))
            async with client.stream("GET", f"{url}/events") as stream:
                await client.post(f"{url}/say")
                lines = stream.aiter_lines()
                assert "session.created" in await anext(lines)
                slow = asyncio.create_task(client.post(f"{url}/slow"))
                await eventually(lambda: (tmp_path / "slow").exists())
                server.send_signal(number)
                async for _ in lines:
                    pass
            # The stream ended by itself, and the request in progress could still write.
            assert (await slow).json() == {"inserted": True}
        assert await asyncio.to_thread(server.wait, PATIENCE) in (0, -number)
    finally:
        server.kill()
        server.wait()


async def _answers(url: str) -> bool:
    try:
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            return (await client.get(f"{url}/ready")).status_code == 200
    except httpx.TransportError:
        return False
