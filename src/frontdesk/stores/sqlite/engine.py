"""The threads around the file: one that writes and commits in groups, a few that read, and how callers wait for them.

A caller passes a function of a connection and awaits its result: one hop to the thread, and one back. Nothing here
knows what the functions do."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import TypeVar

from frontdesk import deadlines
from frontdesk.errors import StoreClosedError
from frontdesk.stores.bell import Bell
from frontdesk.stores.sqlite.checkpoints import Checkpointer
from frontdesk.stores.sqlite.connections import DatabaseFile, SQLiteConnection
from frontdesk.stores.sqlite.delivery import Delivery, Job, Outcome, resolve
from frontdesk.stores.sqlite.workers import ReaderThread
from frontdesk.stores.sqlite.writer import MAX_BATCH, WriterThread
from frontdesk.unattended import sleep

T = TypeVar("T")
MAX_WAITING = 10_000
QUICK_READ = 400e-6
"""seconds up to which a kind of read is run on the event loop"""


class SQLiteEngine:
    """Runs operations on a database: writes in the order they came, reads at the same time. Safe for threads and
    loops."""

    def __init__(self, database: DatabaseFile, readers: int) -> None:
        self._database = database
        self._max_readers = readers
        self._closed = False
        self.bell = Bell()
        self._seconds: dict[object, float] = {}
        self._start_afresh()
        with _engines_lock:
            _engines.add(self)

    def _start_afresh(self) -> None:
        self._gate = threading.Lock()
        self._writes: SimpleQueue[Job | None] = SimpleQueue()
        self._reads: SimpleQueue[Job | None] = SimpleQueue()
        self._waiting = _WaitingCallers(self._writes)
        self._small: list[Job] = []
        self._reading: set[ReaderThread] = set()
        self._readers: list[ReaderThread] = []
        self._checkpointer = Checkpointer(self._database)
        self._writer = WriterThread(self._database, self._writes, self._checkpointer, self._waiting.admit)
        # The threads know nothing of the engine: they end with an engine that is dropped without `close`.
        stop = weakref.finalize(self, _stop, self._readers, self._reads, self._checkpointer, self._writes)
        stop.atexit = False

    async def write(self, operation: Callable[[SQLiteConnection], T], *, small: bool = False) -> T:
        """What `operation` returns, once it is committed. It may be run twice, but takes effect once or not at all. One
        that is `small` may be run on the event loop.

        Raises what it raises, then without effect, and `StoreError`s. A caller that is cancelled while it waits does
        not know whether it took effect.
        """
        while self._writes.qsize() >= MAX_WAITING:
            await self._waiting.wait()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job: Job = (operation, loop, future, deadlines.began())
        leads = False
        with self._gate:
            self._refuse_if_closed()
            if small and not self._writer.hold().locked() and self._has_room_for_small(loop):
                leads = not self._small
                self._small.append(job)
            else:
                self._queue([job])
        if leads:
            await self._lead()
        result = await future
        self.bell.ring()
        return result

    def _has_room_for_small(self, loop: asyncio.AbstractEventLoop) -> bool:
        return not self._small or (self._small[0][1] is loop and len(self._small) < MAX_BATCH)

    def _queue(self, jobs: Iterable[Job]) -> None:
        self._writer.start_once()
        for job in jobs:
            self._writes.put(job)

    async def _lead(self) -> None:
        """Commit the small jobs, once the tasks that are ready to run now have added theirs."""
        try:
            await sleep(0)
        except asyncio.CancelledError:
            self._commit_small()
            raise
        self._commit_small()

    def _commit_small(self) -> None:
        with self._gate:
            jobs, self._small = self._small, []
            outcomes = self._writer.commit_now(jobs) if jobs else []
            self._queue(jobs[len(outcomes) :])
        for (_, _, future, _), outcome in zip(jobs, outcomes, strict=False):
            resolve(future, outcome)

    async def read(self, operation: Callable[[SQLiteConnection], T], *, kind: object = None) -> T:
        """What `operation` returns; all that it reads is of one moment. Operations of a `kind` that was quick before
        are run on the event loop."""
        if self._seconds.get(kind, 1.0) <= QUICK_READ and (outcome := self._read_now(operation)) is not None:
            result, error = outcome
            if error is not None:
                raise error
            return result  # type: ignore[no-any-return]
        if kind is not None:
            operation = self._timed(operation, kind)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._gate:
            self._refuse_if_closed()
            if len(self._reading) + self._reads.qsize() >= len(self._readers) < self._max_readers:
                self._readers.append(ReaderThread(self._database, self._reads, self._reading))
                self._readers[-1].start_once()
            self._reads.put((operation, loop, future, deadlines.began()))
        return await future

    def _read_now(self, operation: Callable[[SQLiteConnection], T]) -> Outcome | None:
        with self._gate:
            self._refuse_if_closed()
            idle = self._readers and not self._reading and self._reads.empty()
            return self._readers[0].read_now(operation) if idle else None

    def _timed(self, operation: Callable[[SQLiteConnection], T], kind: object) -> Callable[[SQLiteConnection], T]:
        """The operation, which notes how long it took."""
        seconds = self._seconds

        def run(connection: SQLiteConnection) -> T:
            began = time.perf_counter()
            result = operation(connection)
            seconds[kind] = time.perf_counter() - began
            return result

        return run

    async def empty_wal(self) -> None:
        """Copy all that is committed into the file, and empty the log. Raises `StoreUnavailableError` if a reader in
        another process stays in the way."""
        with self._gate:
            self._refuse_if_closed()
            readers = [*self._readers]
        await asyncio.to_thread(self._writer.empty_wal, readers)

    def reopen(self) -> None:
        """Allow operations again after `close`, on any file that is there now."""
        with self._gate:
            if self._closed:
                self._database.file.forget()
                self._start_afresh()
                self._closed = False

    async def close(self) -> None:
        """Finish the operations in progress and end the threads. Idempotent."""
        with self._gate:
            self._closed = True
            small, self._small = self._small, []
            self._queue(small)
            # `reopen` may start other threads while these end.
            threads = self._readers, self._reads, self._checkpointer, self._writes, self._writer
        self._waiting.admit_all()
        self.bell.ring()
        await asyncio.to_thread(_join, *threads)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            path = self._database.path
            raise StoreClosedError(f"the store of {path!r} was closed: open it again", path=path)

    # A connection's locks belong to the process, but SQLite's records of them would be copied by a fork: a child would
    # believe that it holds locks which it does not. So nothing may be open on a file while a process forks.

    def pause(self) -> None:
        self._gate.acquire()
        for worker in self._workers():
            worker.hurry()
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


class _WaitingCallers:
    """Callers that wait because too many writes are queued."""

    def __init__(self, writes: SimpleQueue[Job | None]) -> None:
        self._writes = writes
        self._callers: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        # The writer takes far less than MAX_WAITING at a time: it will look again and find this one.
        self._callers.append((loop, future))
        await future

    def admit(self) -> None:
        """Let callers continue, as many as there is room for."""
        if self._callers:
            self._admit(MAX_WAITING - self._writes.qsize())

    def admit_all(self) -> None:
        self._admit(len(self._callers))

    def _admit(self, places: int) -> None:
        delivery = Delivery()
        for _ in range(places):
            if not self._callers:
                break
            delivery.add(*self._callers.popleft(), (None, None))
        delivery.send()


def _stop(
    readers: list[ReaderThread],
    reads: SimpleQueue[Job | None],
    checkpointer: Checkpointer,
    writes: SimpleQueue[Job | None],
) -> None:
    """Let the threads end when they have finished what is queued."""
    for _ in readers:
        reads.put(None)
    checkpointer.stop()
    writes.put(None)


def _join(
    readers: list[ReaderThread],
    reads: SimpleQueue[Job | None],
    checkpointer: Checkpointer,
    writes: SimpleQueue[Job | None],
    writer: WriterThread,
) -> None:
    """End the threads, the writer last: it copies the log into the file when no other connection is open."""
    for _ in readers:
        reads.put(None)
    for reader in readers:
        reader.join()
    checkpointer.stop()
    checkpointer.join()
    writes.put(None)
    writer.join()


_engines: weakref.WeakSet[SQLiteEngine] = weakref.WeakSet()
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
