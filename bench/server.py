"""The CPU time of a PostgreSQL server on this machine, which the CPU time of the client does not include."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import asyncpg

_PROC = Path("/proc")


async def clock_with_server(url: str) -> Callable[[], int] | None:
    """A clock for the CPU time of this process and the server at a URL, in nanoseconds; None if it cannot be read."""
    connection = await asyncpg.connect(url)
    try:
        backend: int = await connection.fetchval("SELECT pg_backend_pid()")
        server = _parent(backend)
    finally:
        await connection.close()
    if server is None or not (_PROC / str(server) / "schedstat").exists():
        return None
    return lambda: time.process_time_ns() + sum(map(_cpu_time, [server, *_children(server)]))


def _parent(process: int) -> int | None:
    try:
        return int((_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _children(process: int) -> list[int]:
    text = (_PROC / str(process) / "task" / str(process) / "children").read_text()
    return [int(child) for child in text.split()]


def _cpu_time(process: int) -> int:
    try:
        return int((_PROC / str(process) / "schedstat").read_text().split()[0])
    except OSError:
        return 0  # it has ended since
