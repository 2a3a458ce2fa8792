"""The threads around the file: one that writes and commits in groups, a few that read, and how callers wait for them.

A caller passes a function of a connection and awaits its result: one hop to the thread, and one back. Nothing here
knows what the functions do."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TypeVar
from weakref import WeakSet

from frontdesk.errors import StoreClosedError
from frontdesk.stores.bell import Bell
from frontdesk.stores.sqlite.connections import Connection, Database
from frontdesk.stores.sqlite.workers import Checkpointer, Delivery, Job, ReaderThread, WriterThread

T = TypeVar("T")
MAX_WAITING = 10_000


class SQLiteEngine:
    """Runs operations on a database: writes in the order they came, reads at the same time. Safe for threads and
    loops."""

    def __init__(self, database: Database, readers: int) -> None:
        self._database = database
        self._max_readers = readers
        self._closed = False
        self.bell = Bell()
        self._start_afresh()
        with _engines_lock:
            _engines.add(self)

    def _start_afresh(self) -> None:
        self._gate = threading.Lock()
        self._writes: SimpleQueue[Job | None] = SimpleQueue()
        self._reads: SimpleQueue[Job | None] = SimpleQueue()
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()
        self._reading: set[ReaderThread] = set()
        self._readers: list[ReaderThread] = []
        self._checkpointer = Checkpointer(self._database)
        self._writer = WriterThread(self._database, self._writes, self._checkpointer, self._admit)

    async def write(self, operation: Callable[[Connection], T]) -> T:
        """What `operation` returns, once it is committed. It may be run twice, but takes effect once or not at all.

        Raises what it raises, then without effect, and `StoreError`s. A caller that is cancelled while it waits does
        not know whether it took effect.
        """
        while self._writes.qsize() >= MAX_WAITING:
            await self._room()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._gate:
            self._refuse_if_closed()
            self._writer.start_once()
            self._writes.put((operation, loop, future))
        result = await future
        self.bell.ring()
        return result

    async def read(self, operation: Callable[[Connection], T]) -> T:
        """What `operation` returns; all that it reads is of one moment."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._gate:
            self._refuse_if_closed()
            if len(self._reading) + self._reads.qsize() >= len(self._readers) < self._max_readers:
                self._readers.append(ReaderThread(self._database, self._reads, self._reading))
                self._readers[-1].start_once()
            self._reads.put((operation, loop, future))
        return await future

    async def empty_wal(self) -> None:
        """Copy all that is committed into the file, and empty the log. Raises `StoreUnavailableError` if a reader in
        another process stays in the way."""
        with self._gate:
            self._refuse_if_closed()
            readers = [*self._readers]
        await asyncio.to_thread(self._writer.empty_wal, readers)

    def reopen(self) -> None:
        """Allow operations again after `close`."""
        with self._gate:
            if self._closed:
                self._start_afresh()
                self._closed = False

    async def close(self) -> None:
        """Finish the operations in progress and end the threads. Idempotent."""
        with self._gate:
            self._closed = True
            # `reopen` may start other threads while these end.
            threads = [*self._readers], self._reads, self._checkpointer, self._writes, self._writer
        self._admit(len(self._waiting))
        self.bell.ring()
        await asyncio.to_thread(_join, *threads)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            path = self._database.path
            raise StoreClosedError(f"the store of {path!r} was closed: open it again", path=path)

    async def _room(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        # The writer takes far less than MAX_WAITING at a time: it will look again and find this one.
        self._waiting.append((loop, future))
        await future

    def _admit(self, places: int | None = None) -> None:
        """Let waiting callers continue, as many as there is room for."""
        if not self._waiting:
            return
        delivery = Delivery()
        for _ in range(MAX_WAITING - self._writes.qsize() if places is None else places):
            if not self._waiting:
                break
            delivery.add(*self._waiting.popleft(), (None, None))
        delivery.send()

    # A connection's locks belong to the process, but SQLite's records of them would be copied by a fork: a child would
    # believe that it holds locks which it does not. So nothing may be open on a file while a process forks.

    def pause(self) -> None:
        self._gate.acquire()
        for worker in self._workers():
            worker.pause()

    def resume(self) -> None:
        for worker in self._workers():
            worker.resume()
        self._gate.release()

    def resume_in_child(self) -> None:
        """The child has none of the threads, and no callers that wait for them."""
        self.bell = Bell()
        self._start_afresh()

    def _workers(self) -> Iterator[ReaderThread | WriterThread | Checkpointer]:
        yield self._writer
        yield self._checkpointer
        yield from self._readers


def _join(
    readers: list[ReaderThread],
    reads: SimpleQueue[Job | None],
    checkpointer: Checkpointer,
    writes: SimpleQueue[Job | None],
    writer: WriterThread,
) -> None:
    """Let the threads finish what is queued, and end them."""
    for _ in readers:
        reads.put(None)
    for reader in readers:
        reader.join()
    checkpointer.stop()
    checkpointer.join()
    writes.put(None)
    writer.join()


_engines: WeakSet[SQLiteEngine] = WeakSet()
_engines_lock = threading.Lock()


def _before_fork() -> None:
    _engines_lock.acquire()
    for engine in _engines:
        engine.pause()


def _after_fork_in_parent() -> None:
    for engine in _engines:
        engine.resume()
    _engines_lock.release()


def _after_fork_in_child() -> None:
    for engine in _engines:
        engine.resume_in_child()
    _engines_lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
