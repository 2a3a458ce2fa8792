"""A transcript of 1,000,000 messages is sent while it is read: the memory of the server stays as it was."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from frontdesk import SessionManager
from tests.server.test_events import SERVER
from tests.waiting import PATIENCE, eventually

MESSAGES = 1_000_000
_BATCH = 10_000
_MEGABYTE = 1024


def peak_memory(process: int) -> int:
    """The most memory that a process has used so far, in kB."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1])


async def count_lines(client: httpx.AsyncClient, path: str) -> int:
    lines = 0
    async with client.stream("GET", path) as answer:
        assert answer.status_code == 200
        async for portion in answer.aiter_bytes():
            lines += portion.count(b"\n")
    return lines


@pytest.mark.long
@pytest.mark.timeout(2400)
async def test_a_session_of_a_million_messages_is_streamed_in_flat_memory(tmp_path: Path) -> None:
    async with SessionManager(f"sqlite:///{tmp_path}/agents.db?synchronous=normal") as manager:
        session = manager.session("long")
        for first in range(0, MESSAGES, _BATCH):
            numbers = range(first, first + _BATCH)
            await session.append_all(
                [
                    {"id": f"m{number}", "role": "user", "content": f"reading {number}: all is well"}
                    for number in numbers
                ]
            )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = subprocess.Popen([sys.executable, str(SERVER), str(port), str(tmp_path)])
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:

            async def answers() -> bool:
                try:
                    return (await client.get("readyz")).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(answers)
            path = "v1/sessions/long/transcript"
            assert await count_lines(client, f"{path}?limit=20000") == 20_000
            before = peak_memory(program.pid)
            assert await count_lines(client, path) == MESSAGES
            assert await count_lines(client, f"{path}?reverse=true") == MESSAGES
            assert peak_memory(program.pid) - before < 30 * _MEGABYTE
    finally:
        program.terminate()
        program.wait()
