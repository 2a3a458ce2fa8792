"""The web backend of the recipes: two workers, several tenants, and streams that end when the server stops."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from tests.apps.conftest import APPS
from tests.models.scripted_server import Answer, ScriptedServer
from tests.models.steps import Request
from tests.waiting import PATIENCE, eventually


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def server(provider: ScriptedServer, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The backend in two worker processes, and its address."""
    provider.otherwise = Answer("Welcome.")
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "web_backend:app", "--workers", "2", "--port", str(port)]
    environment = {**os.environ, "STORE": f"sqlite:///{tmp_path}/web.db", "PYTHONPATH": str(APPS)}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the workers too
        process.wait()


@pytest.fixture
async def client(server: tuple[subprocess.Popen[bytes], str]) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server[1], timeout=PATIENCE) as client:

        async def is_up() -> bool:
            try:
                return (await client.get("/openapi.json")).status_code == 200
            except httpx.TransportError:
                return False

        await eventually(is_up)
        yield client


async def ask(client: httpx.AsyncClient, tenant: str, guest: str, text: str) -> str:
    response = await client.post(f"/guests/{guest}/messages", json={"text": text}, headers={"x-tenant": tenant})
    assert response.status_code == 200, response.text
    return "".join(json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: "))


async def read(client: httpx.AsyncClient, path: str, tenant: str) -> Any:
    response = await client.get(path, headers={"x-tenant": tenant})
    assert response.status_code == 200, response.text
    return response.json()


async def test_every_worker_answers_every_guest_and_tenants_stay_apart(client: httpx.AsyncClient) -> None:
    guests = [f"guest-{number}" for number in range(6)]
    for question in ("first", "second"):
        answers = await asyncio.gather(
            *(ask(client, tenant, guest, f"{question} of {guest}") for tenant in ("acme", "globex") for guest in guests)
        )
        assert answers == ["Welcome."] * 12
    for guest in guests:
        said = [message["content"] for message in await read(client, f"/guests/{guest}/messages", "acme")]
        assert said == [f"first of {guest}", "Welcome.", f"second of {guest}", "Welcome."]
    assert len((await read(client, "/sessions", "acme"))["items"]) == 6
    assert (await read(client, "/sessions", "initech"))["items"] == []


async def test_questions_of_one_guest_at_once_are_answered_one_after_the_other(client: httpx.AsyncClient) -> None:
    await asyncio.gather(*(ask(client, "acme", "ana", f"question {number}") for number in range(6)))
    roles = [message["role"] for message in await read(client, "/guests/ana/messages", "acme")]
    assert roles == ["user", "assistant"] * 6


async def next_event(lines: AsyncIterator[str]) -> tuple[str, str]:
    """The id and the kind of the next event."""
    event: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        if not line and event:
            return event["id"], event["event"]
        event[name] = value
    raise AssertionError("the stream has ended")


async def test_events_resume_after_the_last_one(client: httpx.AsyncClient) -> None:
    await ask(client, "acme", "ana", "hello")
    headers = {"x-tenant": "acme", "last-event-id": "start"}
    async with client.stream("GET", "/guests/ana/events", headers=headers) as stream:
        lines = stream.aiter_lines()
        first, second = await next_event(lines), await next_event(lines)
    async with client.stream("GET", "/guests/ana/events", headers={**headers, "last-event-id": first[0]}) as stream:
        assert await next_event(stream.aiter_lines()) == second
    assert first[1] == "session.created"


def test_it_runs_in_a_test_client(provider: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE", f"sqlite:///{tmp_path}/web.db")
    provider.script(Answer("Welcome."))
    with TestClient(import_module("web_backend").app, headers={"x-tenant": "acme"}) as client:
        client.post("/guests/ana/messages", json={"text": "hello"})
        assert [message["content"] for message in client.get("/guests/ana/messages").json()] == ["hello", "Welcome."]
        assert client.post("/guests/ana/new").json()["message_count"] == 0


async def test_an_open_stream_does_not_keep_the_server_from_stopping(
    server: tuple[subprocess.Popen[bytes], str], client: httpx.AsyncClient, provider: ScriptedServer
) -> None:
    process, _ = server
    answering, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(request: Request) -> Answer:
        loop.call_soon_threadsafe(answering.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(PATIENCE)
        return Answer("Here I am.")

    provider.script(slow)
    headers = {"x-tenant": "acme"}
    async with client.stream("GET", "/guests/ana/events", headers=headers) as stream:
        answer = asyncio.create_task(ask(client, "acme", "ana", "Are you there?"))
        await asyncio.wait_for(answering.wait(), PATIENCE)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            async for _ in stream.aiter_lines():
                pass  # until the server ends the stream
        go_on.set()
        assert await answer == "Here I am."  # answers in progress are completed
    assert await asyncio.to_thread(process.wait, PATIENCE) == 0
