"""Proxies between a client and a server on 127.0.0.1 that break what passes through them, on purpose or at random."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Self
from urllib.parse import urlsplit

_CHUNK = 65_536


class Proxy:
    """Passes everything through. It can be taken down, so that connections are refused, and up again, and it can be
    frozen: then it accepts connections, and passes nothing."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._handling: set[asyncio.Task[None]] = set()
        self._thawed = asyncio.Event()
        self._thawed.set()

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        """The server's PostgreSQL URL, through this proxy."""
        return self._target._replace(netloc=f"postgres@127.0.0.1:{self._port}", query="sslmode=disable").geturl()

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, start_serving=False)
        self._port = self._server.sockets[0].getsockname()[1]
        await self._server.start_serving()

    async def down(self) -> None:
        """Refuse connections, and cut those that are open, or about to be."""
        assert self._server is not None
        self._server.close()
        self.cut()
        handling = self._handling - {asyncio.current_task()}
        for task in handling:
            task.cancel()
        await asyncio.gather(*handling, return_exceptions=True)
        await self._server.wait_closed()

    async def restore(self) -> None:
        """Accept connections, whether it is down or up."""
        if self._server is None or not self._server.is_serving():
            await self.up()

    def cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or not self._server.is_serving():  # accepted just before it was taken down
            writer.transport.abort()
            return
        # A task of its own: the driver of the streams logs an error if this one is cancelled.
        handling = asyncio.create_task(self._handle(reader, writer))
        self._handling.add(handling)
        handling.add_done_callback(self._handling.discard)
        with self._opened(writer):  # here, since a task that is cancelled before it begins cleans up nothing
            await asyncio.wait([handling])

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            there, back = await asyncio.open_connection(self._target.hostname, self._target.port)
            with self._opened(back):
                await self._relay(reader, back, there, writer)

    @contextmanager
    def _opened(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        self._open.add(writer)
        try:
            yield
        finally:
            writer.transport.abort()
            self._open.discard(writer)

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Pass on both directions until one of them ends."""
        directions = [
            asyncio.ensure_future(self._pass(reader, back)),
            asyncio.ensure_future(self._pass(there, writer, answers=True)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool = False) -> None:
        while data := await source.read(_CHUNK):
            await self._thawed.wait()
            sink.write(data)
            await sink.drain()


class PostgresProxy(Proxy):
    """Knows PostgreSQL's messages: it can lose one reply, and records the names of prepared statements.

    When the server has replied completely to a message that contains `lose_answer_to`, `on_loss` is awaited, and the
    connection is cut."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.lose_answer_to: bytes | None = None
        self.on_loss: Callable[[], Awaitable[object]] | None = None
        self.lost = 0
        self.statement_names: set[bytes] = set()

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        answer = asyncio.create_task(self._answer(there, writer))
        losing = False
        try:
            size = int.from_bytes(await reader.readexactly(4))
            back.write(size.to_bytes(4) + await reader.readexactly(size - 4))
            while True:
                kind, length = await reader.readexactly(1), await reader.readexactly(4)
                body = await reader.readexactly(int.from_bytes(length) - 4)
                if kind == b"P":
                    self.statement_names.add(body.split(b"\0", 1)[0])
                await self._thawed.wait()
                back.write(kind + length + body)
                await back.drain()
                losing = losing or (self.lose_answer_to is not None and self.lose_answer_to in body)
                if losing and kind in (b"S", b"Q"):
                    answer.cancel()
                    await asyncio.gather(answer, return_exceptions=True)
                    await self._finished(there)
                    return
        finally:
            answer.cancel()
            await asyncio.gather(answer, return_exceptions=True)

    async def _finished(self, there: asyncio.StreamReader) -> None:
        """Let the server reply completely, but drop the reply."""
        self.lose_answer_to = None
        self.lost += 1
        answer = b""
        while answer[-6:-1] != b"Z\0\0\0\5":
            answer += await there.read(_CHUNK)
        if self.on_loss is not None:
            await self.on_loss()

    async def _answer(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await there.read(_CHUNK):
            await self._thawed.wait()
            writer.write(data)
            await writer.drain()
        writer.close()

    def stop_listening(self) -> None:
        """Refuse connections from now on, and keep those that are open. `up` accepts them again."""
        assert self._server is not None
        self._server.close()


class FaultyProxy(Proxy):
    """Breaks connections at random points of what passes, the same for the same seed and the same bytes.

    About every `every` bytes of a direction one of these happens: the connection is cut, before a piece or in the
    middle of it; a piece is late; or the connection is cut, and the last request arrives twice. `calm` ends
    that for connections that are opened later."""

    def __init__(self, url: str, seed: int, *, every: int = 20_000, longest_delay: float = 0.05) -> None:
        super().__init__(url)
        self._random = Random(seed)
        self._every = every
        self._longest_delay = longest_delay
        self._is_calm = False
        self._clients: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        """of the connections to the server"""
        self.faults: dict[str, int] = {"cut": 0, "truncated": 0, "delayed": 0, "duplicated": 0}

    def calm(self) -> None:
        self._is_calm = True

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._clients[back] = writer
        try:
            await super()._relay(reader, back, there, writer)
        finally:
            del self._clients[back]

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool = False) -> None:
        random = Random(self._random.getrandbits(64))
        left = random.expovariate(1 / self._every)
        while data := await source.read(_CHUNK):
            left -= len(data)
            if left > 0 or self._is_calm:
                sink.write(data)
                await sink.drain()
                continue
            left = random.expovariate(1 / self._every)
            kind = random.choice(("cut", "truncated", "delayed", "delayed" if answers else "duplicated"))
            self.faults[kind] += 1
            if kind == "delayed":
                await asyncio.sleep(random.uniform(0, self._longest_delay))
                sink.write(data)
                await sink.drain()
                continue
            pieces = {"cut": b"", "truncated": data[: random.randrange(len(data))], "duplicated": data + data}
            if kind == "duplicated":
                self._clients[sink].transport.abort()  # a client never gets two answers to one request
            sink.write(pieces[kind])
            await sink.drain()
            if kind == "duplicated":
                await asyncio.sleep(random.uniform(0, self._longest_delay))  # the server may work in the meantime
            return
