"""A session of 1,000,000 messages is sent while it is read: the server needs no more memory for it than for one of
100,000, however slowly its callers read."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from frontdesk import SessionManager
from tests.server.live import server_process

FEW, MANY = 100_000, 1_000_000
_BATCH = 10_000
_MEGABYTE = 1024
TRANSCRIPT = "v1/sessions/long/transcript"


def peak_memory(process: int) -> int:
    """The most memory that a process has used so far, in kB."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1])


async def fill(folder: Path, messages: int) -> None:
    folder.mkdir()
    async with SessionManager(f"sqlite:///{folder}/agents.db?synchronous=normal") as manager:
        session = manager.session("long")
        for first in range(0, messages, _BATCH):
            numbers = range(first, first + _BATCH)
            await session.append_all(
                [
                    {"id": f"m{number}", "role": "user", "content": f"reading {number}: all is well"}
                    for number in numbers
                ]
            )


async def count_lines(answer: httpx.Response) -> int:
    lines = 0
    assert answer.status_code == 200
    async for portion in answer.aiter_bytes():
        lines += portion.count(b"\n")
    return lines


async def peak_of_reading(folder: Path, messages: int) -> int:
    """The most memory that a server uses for two slow callers: each begins to read, and reads on when another caller
    has read everything."""
    async with server_process(folder) as (client, process):
        for path, other in ((TRANSCRIPT, "v1/export"), ("v1/export", f"{TRANSCRIPT}?reverse=true")):
            async with client.stream("GET", path) as slow:
                async with client.stream("GET", other) as answer:
                    assert await count_lines(answer) >= messages
                assert await count_lines(slow) >= messages
        return peak_memory(process.pid)


@pytest.mark.long
@pytest.mark.timeout(2400)
async def test_a_session_of_a_million_messages_is_streamed_in_flat_memory(tmp_path: Path) -> None:
    peaks = []
    for messages in (FEW, MANY):
        folder = tmp_path / str(messages)
        await fill(folder, messages)
        peaks.append(await peak_of_reading(folder, messages))
    assert peaks[1] - peaks[0] < 30 * _MEGABYTE
