"""Load over HTTP: a server in another process, and connections that each send one request after the other."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).parents[1]
_CLOCK = "schedstat"


class Server(NamedTuple):
    """A running server."""

    port: int
    process: int

    def cpu_time(self) -> int:
        """Nanoseconds that all its threads have used."""
        tasks = Path(f"/proc/{self.process}/task").iterdir()
        return sum(int((task / _CLOCK).read_text().split()[0]) for task in tasks)


@contextmanager
def serving(kind: str, store: str) -> Iterator[Server]:
    """A server of `bench.http_app`, until the block ends."""
    program = subprocess.Popen(
        [sys.executable, "-m", "bench.http_app", kind, store], cwd=_HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdin is not None
    assert program.stdout is not None
    try:
        yield Server(int(program.stdout.readline()), program.pid)
    finally:
        program.stdin.close()
        try:
            program.wait(30)
        finally:
            program.kill()
            program.stdout.close()


class Connection:
    """One connection that stays open. It understands as much of HTTP as these servers send."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The body of an answer. Raises `AssertionError` unless it is 200 or 201."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answered = await self._reader.readuntil(b"\r\n\r\n")
        fields = answered.lower()
        length = int(fields.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        content = await self._reader.readexactly(length)
        if fields.split(b" ", 2)[1] not in (b"200", b"201"):
            raise AssertionError(f"{method} {path}: {content[:500]!r}")
        return content

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def connected(port: int, count: int) -> AsyncIterator[list[Connection]]:
    opened = [Connection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(count)]
    try:
        yield opened
    finally:
        for connection in opened:
            await connection.close()


Request = tuple[str, str, bytes]


class Load:
    """Sends requests over all connections at once, and remembers how long each took."""

    def __init__(self, connections: list[Connection], request: Callable[[int], Request], count: int) -> None:
        self._connections = connections
        self._request = request
        self._count = count
        self.latencies: list[float] = []

    async def run(self) -> None:
        await asyncio.gather(*(self._send(number, each) for number, each in enumerate(self._connections)))

    async def _send(self, number: int, connection: Connection) -> None:
        for _ in range(self._count):
            start = time.perf_counter()
            await connection.send(*self._request(number))
            self.latencies.append(time.perf_counter() - start)

    @property
    def p99(self) -> float:
        """In milliseconds, without the first round, which does not count."""
        counted = sorted(self.latencies[self._count * len(self._connections) :])
        return counted[int(len(counted) * 0.99)] * 1000
