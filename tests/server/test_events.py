"""Event streams over HTTP: live, resumed after a lost connection, and ended when the server stops."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from frontdesk import SessionManager
from frontdesk.server import ServerSettings
from tests.public_api.steps import say
from tests.server.live import live_server, server_process
from tests.waiting import PATIENCE


async def events_of(stream: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The events of a stream, each with the id that resumes after it."""
    fields: dict[str, str] = {}
    async for line in stream.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            event = json.loads(fields["data"])
            assert (fields["id"], fields["event"]) == (event["position"], event["kind"])
            yield event
            fields = {}


async def test_events_arrive_as_they_happen_and_continue_after_the_last_one(
    manager: SessionManager, http: httpx.AsyncClient
) -> None:
    session = manager.session("chat")
    await say(session, "m0")
    async with http.stream("GET", "v1/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = events_of(stream)
        await say(session, "m1", "m2", "m3")
        first = await anext(events)
        assert (first["kind"], first["session_id"], first["message_id"]) == ("message.appended", "chat", "m1")
    await say(session, "m4")
    headers = {"Last-Event-ID": first["position"]}
    async with http.stream("GET", "v1/events", headers=headers) as stream:
        events = events_of(stream)
        assert [(await anext(events))["message_id"] for _ in range(3)] == ["m2", "m3", "m4"]


async def test_the_position_of_the_first_answer_misses_nothing(
    manager: SessionManager, http: httpx.AsyncClient
) -> None:
    position = (await http.get("v1")).json()["position"]
    await say(manager.session("chat"), "m0")
    found = await http.get("v1/events", params={"after": position, "follow": "false"})
    kinds = [json.loads(line)["kind"] for line in found.text.splitlines()]
    assert kinds == ["session.created", "message.appended"]
    limited = await http.get("v1/events", params={"after": "start", "follow": "false", "limit": 1})
    assert len(limited.text.splitlines()) == 1
    altered = await http.get("v1/events", params={"after": "altered"})
    assert (altered.status_code, altered.json()["code"]) == (400, "invalid_cursor")


async def test_a_quiet_stream_is_kept_alive(manager: SessionManager) -> None:
    settings = ServerSettings(keep_alive=0.01)
    async with live_server(manager, settings=settings) as address, httpx.AsyncClient(base_url=address) as client:
        async with client.stream("GET", "v1/events", timeout=PATIENCE) as stream:
            lines = stream.aiter_lines()
            comments = [line async for line in _first(lines, 6)]
            assert comments == [":", ""] * 3
        figures = await client.get("metrics")
        assert "frontdesk_event_streams" in figures.text


async def _first(lines: AsyncIterator[str], number: int) -> AsyncIterator[str]:
    for _ in range(number):
        yield await anext(lines)


async def test_an_open_stream_does_not_keep_the_server_from_stopping(tmp_path: Path) -> None:
    async with server_process(tmp_path) as (client, process):
        async with client.stream("GET", "v1/events") as stream:
            await client.post("v1/sessions", json={"id": "chat"})
            events = events_of(stream)
            assert (await anext(events))["kind"] == "session.created"
            process.send_signal(signal.SIGTERM)
            assert [event async for event in events] == []
        assert await asyncio.to_thread(process.wait, PATIENCE) in (0, -signal.SIGTERM)
