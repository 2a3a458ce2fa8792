"""The threads: each owns one connection, takes jobs from a queue and delivers their results."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any

import apsw

from frontdesk.errors import FrontdeskError
from frontdesk.stores.sqlite.connections import BUSY, Connection, Database, Stamp, roll_back

MAX_BATCH = 512
WAL_PAGES_TO_CHECKPOINT = 1_024
WAL_PAGES_TO_STOP_AT = 16_384
_LOST = (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.ReadOnlyError)

Job = tuple[Callable[[Connection], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]
Outcome = tuple[Any, BaseException | None]


class Delivery:
    """Outcomes on their way to the loops that wait for them: each loop is woken once."""

    def __init__(self) -> None:
        self._by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Outcome]]] = {}

    def add(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Outcome) -> None:
        self._by_loop.setdefault(loop, []).append((future, outcome))

    def send(self) -> None:
        for loop, outcomes in self._by_loop.items():
            _call(loop, _resolve_all, outcomes)


def deliver(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], outcome: Outcome) -> None:
    """Send a single outcome on its way."""
    _call(loop, _resolve, future, outcome)


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: Any) -> None:
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        pass  # the loop was closed: nothing waits there any more


def _resolve_all(outcomes: list[tuple[asyncio.Future[Any], Outcome]]) -> None:
    for future, outcome in outcomes:
        _resolve(future, outcome)


def _resolve(future: asyncio.Future[Any], outcome: Outcome) -> None:
    result, error = outcome
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class _Worker:
    """A daemon thread with a connection that is opened when needed. `lock` is held while the connection is in use."""

    name = "worker"
    writes = False

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._connection: apsw.Connection | None = None
        self._stamp: Stamp | None = None

    def start_once(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name=f"frontdesk-{self.name}", daemon=True)
            self._thread.start()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def pause(self) -> None:
        """Wait until the current job is done, and keep nothing open until `resume`."""
        self._lock.acquire()
        if self._connection is not None:
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._disconnect()

    def resume(self) -> None:
        self._lock.release()

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Wait until the current job is done, and start no other meanwhile."""
        with self._lock:
            yield

    def _main(self) -> None:
        try:
            self._run()
        finally:
            with self._lock:
                self._disconnect()

    @abstractmethod
    def _run(self) -> None:
        """What the thread does until it is stopped."""

    def _connect(self) -> apsw.Connection:
        if self._stamp is not None and self._stamp != self._database.stamp():
            self._disconnect()
        if self._connection is None:
            self._connection, self._stamp = self._database.open(write=self.writes)
            self._opened(self._connection)
        return self._connection

    def _opened(self, connection: apsw.Connection) -> None:
        """Called with each new connection."""

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close(True)
        self._connection = self._stamp = None

    def _failed(self, error: BaseException) -> BaseException:
        """The error to raise; a connection that may be broken is closed."""
        translated = self._database.translate(error, self._connection)
        if isinstance(error, _LOST):
            self._disconnect()
        return translated


class ReaderThread(_Worker):
    """Runs one operation at a time, each in a read transaction. It is in `reading` while it is busy."""

    name = "reader"

    def __init__(self, database: Database, jobs: SimpleQueue[Job | None], reading: set[ReaderThread]) -> None:
        super().__init__(database)
        self._jobs = jobs
        self._reading = reading

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            operation, loop, future = job
            self._reading.add(self)
            with self._lock:
                outcome = self._read(operation)
            self._reading.discard(self)
            deliver(loop, future, outcome)

    def _read(self, operation: Callable[[Connection], Any]) -> Outcome:
        try:
            connection = self._connect()
            try:
                return _in_snapshot(connection, operation), None
            except BUSY:
                return self._database.patiently(lambda: _in_snapshot(connection, operation)), None
        except BaseException as error:
            return None, self._failed(error)


def _in_snapshot(connection: apsw.Connection, operation: Callable[[Connection], Any]) -> Any:
    connection.execute("BEGIN")
    try:
        return operation(connection)
    finally:
        roll_back(connection)


class WriterThread(_Worker):
    """Runs operations in the order they came; those that arrive during a commit are committed together by the next."""

    name = "writer"
    writes = True

    def __init__(
        self,
        database: Database,
        jobs: SimpleQueue[Job | None],
        checkpointer: Checkpointer,
        admit: Callable[[], None],
    ) -> None:
        super().__init__(database)
        self._jobs = jobs
        self._checkpointer = checkpointer
        self._admit = admit
        self._wal_pages = 0

    def _run(self) -> None:
        while batch := self._take():
            with self._lock:
                outcomes = self._commit(batch)
            if len(batch) == 1:
                deliver(*batch[0][1:], outcomes[0])
            else:
                delivery = Delivery()
                for (_, loop, future), outcome in zip(batch, outcomes, strict=True):
                    delivery.add(loop, future, outcome)
                delivery.send()
            self._admit()
            if self._wal_pages >= WAL_PAGES_TO_CHECKPOINT:
                with self._lock:
                    self._checkpointer.relieve(self._connection, self._wal_pages)

    def empty_wal(self, readers: Sequence[ReaderThread]) -> None:
        """Called from another thread: between two transactions.

        First while none of these readers reads, since reads that overlap without end keep the log from being emptied.
        If that takes longer than a second, a reader in another process is in the way: these readers continue, and this
        waits for the other one."""
        with self.idle():
            try:
                connection = self._connect()
                if not self._truncate(connection, readers):
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.Error as error:
                raise self._failed(error) from None

    def _truncate(self, connection: apsw.Connection, readers: Sequence[ReaderThread]) -> bool:
        with ExitStack() as idle:
            for reader in readers:
                idle.enter_context(reader.idle())
            connection.set_busy_handler(self._database.patience(1.0))
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except BUSY:
                return False
            finally:
                connection.set_busy_handler(self._database.patience())
        return True

    def _take(self) -> list[Job]:
        """What is waiting, at least one job; nothing after the end was asked for."""
        batch: list[Job] = []
        job = self._jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) == MAX_BATCH or self._jobs.empty():
                return batch
            job = self._jobs.get()
        self._jobs.put(None)  # for the next time round
        return batch

    def _opened(self, connection: apsw.Connection) -> None:
        connection.set_wal_hook(self._note_wal)

    def _note_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _commit(self, batch: list[Job]) -> list[Outcome]:
        try:
            connection = self._connect()
            try:
                connection.execute("BEGIN IMMEDIATE")
            except BUSY:
                self._database.patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        except BaseException as error:
            translate = self._database.translate
            outcomes: list[Outcome] = [(None, translate(error, self._connection)) for _ in batch]
            self._failed(error)
            return outcomes
        try:
            outcomes = [_attempt(connection, operation) for operation, _, _ in batch]
            connection.execute("COMMIT")
            return outcomes
        except BaseException as error:
            translated = self._failed(error)
            self._roll_back()
        if len(batch) == 1:
            return [(None, translated)]
        return [outcome for job in batch for outcome in self._commit([job])]

    def _roll_back(self) -> None:
        try:
            if self._connection is not None:
                roll_back(self._connection)
        except apsw.Error:
            self._disconnect()


def _attempt(connection: apsw.Connection, operation: Callable[[Connection], Any]) -> Outcome:
    """An operation that is refused before it wrote anything does not affect the others in the transaction."""
    before = connection.total_changes()
    try:
        return operation(connection), None
    except FrontdeskError as error:
        if connection.total_changes() != before:
            raise
        return None, error


class Checkpointer(_Worker):
    """Copies the write-ahead log into the file while the writer goes on, and lets the writer finish between two
    transactions."""

    name = "checkpointer"
    writes = True

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        self._nearly_done = False
        self._asked_at = 0

    def relieve(self, writer: apsw.Connection | None, pages: int) -> None:
        """Called by the writer between two transactions when the log has grown to `pages`."""
        if writer is None:
            return
        if pages < self._asked_at:
            self._asked_at = 0
        if self._nearly_done:
            self._nearly_done = False
            _checkpoint(writer, apsw.SQLITE_CHECKPOINT_PASSIVE)
        elif pages >= self._asked_at + WAL_PAGES_TO_CHECKPOINT:
            self._asked_at = pages
            if pages >= WAL_PAGES_TO_STOP_AT:
                self._stop_the_log(writer)
            else:
                self._wanted.put(True)
                self.start_once()

    def stop(self) -> None:
        self._wanted.put(False)

    def _run(self) -> None:
        while self._wanted.get():
            with self._lock:
                try:
                    _checkpoint(self._connect(), apsw.SQLITE_CHECKPOINT_PASSIVE)
                except (apsw.Error, FrontdeskError):
                    self._disconnect()
            self._nearly_done = True

    def _stop_the_log(self, writer: apsw.Connection) -> None:
        """Readers that overlap without end would keep the log growing. Wait for those that use it now: later ones read
        from the file."""
        writer.set_busy_handler(self._database.patience(1.0))
        _checkpoint(writer, apsw.SQLITE_CHECKPOINT_RESTART)
        writer.set_busy_handler(self._database.patience())


def _checkpoint(connection: apsw.Connection, mode: int) -> None:
    try:
        connection.wal_checkpoint(mode=mode)
    except apsw.Error:
        pass  # another checkpoint is running, a reader is in the way or the disk is full: the log keeps everything
