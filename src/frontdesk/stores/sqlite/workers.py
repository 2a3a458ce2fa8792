"""What the threads of a store have in common (each owns one connection, which is opened when needed), and the thread
that reads."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

import apsw

from frontdesk.stores.sqlite.connections import DatabaseFile, SQLiteConnection, Stamp, roll_back
from frontdesk.stores.sqlite.delivery import Job, Outcome, deliver
from frontdesk.stores.sqlite.patience import BUSY, Patience

LONGEST_BLOCK = 0.001
"""seconds that one read may take on the event loop"""
_LOST = (apsw.IOError, apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.ReadOnlyError)


class Worker:
    """A daemon thread with a connection that is opened when needed. `lock` is held while the connection is in use."""

    name = "worker"
    writes = False

    def __init__(self, database: DatabaseFile) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._patience = Patience(database.busy_timeout)
        self._resumed = threading.Event()
        self._resumed.set()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._joined = False
        self._connection: apsw.Connection | None = None
        self._stamp: Stamp | None = None

    def start_once(self) -> None:
        """Start the thread, unless it was started or joined before."""
        if self._thread is None:
            with self._starting:
                if self._thread is None and not self._joined:
                    thread = threading.Thread(target=self._main, name=f"frontdesk-{self.name}", daemon=True)
                    thread.start()
                    self._thread = thread

    def join(self) -> None:
        """Wait for the end of the thread. One that is started at this moment is waited for, too."""
        with self._starting:
            self._joined = True
            thread = self._thread
        if thread is not None:
            thread.join()

    def hurry(self) -> None:
        """Give up waiting for a lock, or a long statement, soon: it will be repeated after `resume`."""
        self._resumed.clear()
        self._patience.hurried = True

    def pause(self) -> None:
        """Wait until the current job is done or was given up, and keep nothing open until `resume`."""
        self._lock.acquire()
        if self._connection is not None:
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._disconnect()

    def resume(self) -> None:
        self._patience.hurried = False
        self._lock.release()
        self._resumed.set()

    def hold(self) -> threading.Lock:
        """Enter it to wait until the current job is done; no other is started until it is left."""
        return self._lock

    @contextmanager
    def _active(self) -> Iterator[None]:
        """Use the connection, unless it is paused: then wait for `resume`."""
        self._resumed.wait()
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
        """The connection, after a check that it still belongs to the file at this path."""
        if self._stamp is not None and self._stamp != self._database.stamp():
            self._disconnect()
        if self._connection is None:
            self._connection, self._stamp = self._database.open(self._patience, write=self.writes)
            self._opened(self._connection)
        else:
            self._database.file.check()
        return self._connection

    def _opened(self, connection: apsw.Connection) -> None:
        """Called with each new connection."""

    def _disconnect(self) -> None:
        connection, self._connection, self._stamp = self._connection, None, None
        if connection is not None:
            self._database.file.closed()
            with suppress(apsw.Error):  # the disk failed while the log was copied into the file: the log keeps it
                connection.close(True)

    def _failed(self, error: BaseException, *, committing: bool = False) -> BaseException:
        """The error to raise; a connection that may be broken is closed."""
        translated = self._database.translate(error, self._connection, committing=committing)
        if isinstance(error, _LOST):
            self._disconnect()
        return translated

    def _was_hurried(self, error: BaseException) -> bool:
        """Whether the error only means that `hurry` was called."""
        return isinstance(error, apsw.InterruptError) or (isinstance(error, BUSY) and self._patience.hurried)


class ReaderThread(Worker):
    """Runs one operation at a time, each in a read transaction. It is in `reading` while it is busy."""

    name = "reader"

    def __init__(self, database: DatabaseFile, jobs: SimpleQueue[Job | None], reading: set[ReaderThread]) -> None:
        super().__init__(database)
        self._jobs = jobs
        self._reading = reading

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._serve(*job)
            del job  # it may refer to the store, which is dropped while this waits for the next

    def _serve(
        self,
        operation: Callable[[SQLiteConnection], Any],
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
        since: float,
    ) -> None:
        self._reading.add(self)
        outcome = None
        while outcome is None:
            with self._active():
                outcome = self._read(operation, since)
        self._reading.discard(self)
        deliver(loop, future, outcome)

    def _read(self, operation: Callable[[SQLiteConnection], Any], since: float) -> Outcome | None:
        """What the operation returned or raised; None if it was hurried and must be repeated."""
        self._patience.start(since)
        try:
            connection = self._connect()
            return self._patience.persist(lambda: _in_snapshot(connection, operation)), None
        except BaseException as error:
            if self._was_hurried(error):
                return None
            return None, self._failed(error)

    def read_now(self, operation: Callable[[SQLiteConnection], Any]) -> Outcome | None:
        """Called on the event loop: what the operation returned or raised, or None if it would have to wait, or takes
        longer than a loop should be blocked. Then it must be repeated by a thread."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self._connection is None:
                return None
            self._patience.start(timeout=0.0)
            self._patience.cut_off = time.monotonic() + LONGEST_BLOCK
            return _in_snapshot(self._connect(), operation), None
        except (apsw.InterruptError, *BUSY):
            return None
        except BaseException as error:
            return None, self._failed(error)
        finally:
            self._patience.cut_off = None
            self._lock.release()


def _in_snapshot(connection: apsw.Connection, operation: Callable[[SQLiteConnection], Any]) -> Any:
    try:
        connection.execute("BEGIN")
        return operation(connection)
    finally:
        roll_back(connection)
