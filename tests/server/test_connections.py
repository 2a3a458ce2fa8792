"""Connections that send nothing, or a byte now and then, are closed; others are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from frontdesk import SessionManager
from frontdesk.server import ServerSettings, serve
from tests.waiting import PATIENCE

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


@asynccontextmanager
async def connection(
    manager: SessionManager, seconds: float
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server that waits so long for the head of a request."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    settings = ServerSettings(head_timeout=seconds, keep_alive=0.02)
    serving = asyncio.create_task(serve(manager, port=0, settings=settings, on_listening=address.set_result))
    host, _, port = (await address).removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()
        manager.end_events()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("sent", [b"", b"GET", HEAD], ids=["nothing", "a word", "half a head"])
async def test_a_head_that_does_not_arrive_is_not_waited_for(manager: SessionManager, sent: bytes) -> None:
    async with connection(manager, 0.05) as (reader, writer):
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), PATIENCE) == b""


async def test_a_slow_second_request_is_not_waited_for_either(manager: SessionManager) -> None:
    async with connection(manager, 2) as (reader, writer):
        writer.write(HEAD + b"\r\n")
        answer = await asyncio.wait_for(reader.readuntil(b'{"status":"ok"}'), PATIENCE)
        assert answer.startswith(b"HTTP/1.1 200")
        writer.write(HEAD)
        assert await asyncio.wait_for(reader.read(), PATIENCE) == b""


async def test_an_answer_that_takes_longer_than_a_head_may_is_sent(manager: SessionManager) -> None:
    async with connection(manager, 0.5) as (reader, writer):
        writer.write(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in await asyncio.wait_for(reader.readline(), PATIENCE)
        for _ in range(75):  # one every 20 ms, so that the limit passes three times
            await asyncio.wait_for(reader.readuntil(b":\n\n"), PATIENCE)
