"""The thread that writes: it commits what is waiting in one transaction. Small writes are committed on the event loop
instead, while commits are quick: that saves two switches between threads."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from operator import itemgetter
from queue import SimpleQueue
from typing import Any

import apsw

from frontdesk.errors import FrontdeskError
from frontdesk.stores.sqlite.checkpoints import Checkpointer
from frontdesk.stores.sqlite.connections import DatabaseFile, SQLiteConnection, roll_back
from frontdesk.stores.sqlite.delivery import Delivery, Job, Outcome, deliver
from frontdesk.stores.sqlite.patience import BUSY
from frontdesk.stores.sqlite.workers import ReaderThread, Worker

MAX_BATCH = 512
QUICK_COMMIT = 250e-6
"""seconds that a commit may take on the event loop"""


class WriterThread(Worker):
    """Runs operations in the order they came; those that arrive during a commit are committed together by the next."""

    name = "writer"
    writes = True

    def __init__(
        self,
        database: DatabaseFile,
        jobs: SimpleQueue[Job | None],
        checkpointer: Checkpointer,
        admit: Callable[[], None],
    ) -> None:
        super().__init__(database)
        self._jobs = jobs
        self._checkpointer = checkpointer
        self._admit = admit
        self._left: list[Job] = []
        self._singly = 0
        self._wal_pages = 0
        self._commit_seconds = QUICK_COMMIT

    def _run(self) -> None:
        while batch := self._take():
            self._serve(batch)
            del batch  # its jobs may refer to the store, which is dropped while this waits for the next
            self._admit()
            if self._checkpointer.is_due(self._wal_pages):
                with self._active():
                    self._relieve()

    def _serve(self, batch: list[Job]) -> None:
        with self._active():
            outcomes = self._commit(batch)
        done, self._left = batch[: len(outcomes)], batch[len(outcomes) :] + self._left
        if len(done) == 1:
            deliver(*done[0][1:3], outcomes[0])
        else:
            delivery = Delivery()
            for (_, loop, future, _), outcome in zip(done, outcomes, strict=True):
                delivery.add(loop, future, outcome)
            delivery.send()

    def _relieve(self) -> None:
        if self._connection is not None:
            self._checkpointer.relieve(self._connection, self._patience, self._wal_pages)

    def empty_wal(self, readers: Sequence[ReaderThread]) -> None:
        """Called from another thread: between two transactions.

        First while none of these readers reads, since reads that overlap without end keep the log from being emptied.
        If that takes longer than a second, a reader in another process is in the way: these readers continue, and this
        waits for the other one."""
        began = time.monotonic()
        done = False
        while not done:
            with self._active():
                try:
                    done = self._empty_wal(began, readers)
                except BaseException as error:
                    if not self._was_hurried(error):
                        raise self._failed(error) from None

    def _empty_wal(self, began: float, readers: Sequence[ReaderThread]) -> bool:
        self._patience.start(began)
        connection = self._connect()
        with ExitStack() as idle:
            for reader in readers:
                idle.enter_context(reader.hold())
            self._patience.start(timeout=1.0)
            try:
                self._truncate_wal(connection)
                return True
            except BUSY:
                pass
        self._patience.start(began)
        self._truncate_wal(connection)
        return True

    def _truncate_wal(self, connection: apsw.Connection) -> None:
        self._patience.persist(lambda: connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE))

    def _take(self) -> list[Job]:
        """What is waiting, at least one job; nothing after the end was asked for."""
        batch, self._left = self._left, []
        if self._singly:
            self._singly -= 1
            batch, self._left = batch[:1], batch[1:]
            return batch
        while len(batch) < MAX_BATCH and not (batch and self._jobs.empty()):
            job = self._jobs.get()
            if job is None:
                self._jobs.put(None)  # for the next time round
                break
            batch.append(job)
        batch.sort(key=itemgetter(3))  # the call that began first is the first that has no time left
        return batch

    def _opened(self, connection: apsw.Connection) -> None:
        connection.set_wal_hook(self._note_wal)

    def _note_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _commit(self, batch: list[Job]) -> list[Outcome]:
        """The outcomes of the first jobs of a batch. The others have to be tried again: the lock was not free in time
        for the first ones, or the writer was hurried, or their transaction failed and each gets one of its own."""
        self._patience.start(batch[0][3])
        try:
            connection = self._connect()
            self._patience.persist(lambda: connection.execute("BEGIN IMMEDIATE"))
        except BaseException as error:
            self._roll_back()
            if self._was_hurried(error):
                return []
            refused = self._expired(batch) if isinstance(error, BUSY) else len(batch)
            return _refuse(self._failed(error), refused)
        outcomes = self._transact(connection, batch)
        if not outcomes and not self._patience.hurried:
            self._singly = len(batch)
        return outcomes

    def commit_now(self, batch: list[Job]) -> list[Outcome]:
        """Called on the event loop: as `_commit`, but without any wait. Nothing is done if one would be necessary, if
        commits take long, or if the thread has to look after the log."""
        if self._commit_seconds > QUICK_COMMIT or self._checkpointer.is_due(self._wal_pages) or not self._jobs.empty():
            return []
        if not self._lock.acquire(blocking=False):
            return []
        try:
            if self._connection is None:
                return []
            self._patience.start(timeout=0.0)
            connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            return self._transact(connection, batch)
        except (apsw.InterruptError, *BUSY):
            self._roll_back()
            return []
        except BaseException as error:
            return _refuse(self._failed(error), len(batch))
        finally:
            self._lock.release()

    def _transact(self, connection: apsw.Connection, batch: list[Job]) -> list[Outcome]:
        """Run a batch and commit it. Nothing is returned if the jobs have to be tried again."""
        outcomes: list[Outcome] = []
        committing = False
        try:
            outcomes = [_attempt(connection, operation) for operation, _, _, _ in batch]
            committing = True
            began = time.perf_counter()
            connection.execute("COMMIT")
            self._note_commit(time.perf_counter() - began)
            return outcomes
        except BaseException as error:
            hurried = self._was_hurried(error)
            if hurried and committing and not connection.in_transaction:
                return outcomes
            translated = self._failed(error, committing=committing)
            self._roll_back()
        if hurried:
            return []
        if isinstance(translated, FrontdeskError) and translated.uncertain:
            # Repeating them could store them twice.
            return [
                mine if mine[1] is not None else theirs
                for mine, theirs in zip(outcomes, _refuse(translated, len(outcomes)), strict=True)
            ]
        return [(None, translated)] if len(batch) == 1 else []

    def _note_commit(self, seconds: float) -> None:
        """Estimate what a commit takes: one that waited for another thread of this process says little."""
        known = self._commit_seconds
        self._commit_seconds = seconds if seconds < known else known + (seconds - known) / 8

    def _expired(self, batch: list[Job]) -> int:
        """How many of the first jobs have waited for as long as they may: at least one."""
        latest = time.monotonic() - self._patience.timeout
        return max(1, sum(since <= latest for _, _, _, since in batch))

    def _roll_back(self) -> None:
        try:
            if self._connection is not None:
                roll_back(self._connection)
        except apsw.Error:
            self._disconnect()


def _refuse(error: BaseException, count: int) -> list[Outcome]:
    """An error for each of several callers, who may raise theirs at the same time."""
    if not isinstance(error, FrontdeskError):
        return [(None, error)] * count
    errors = [copy.copy(error) for _ in range(count)]
    for one in errors:
        one.__cause__ = error.__cause__
    return [(None, one) for one in errors]


def _attempt(connection: apsw.Connection, operation: Callable[[SQLiteConnection], Any]) -> Outcome:
    """An operation that is refused before it wrote anything does not affect the others in the transaction."""
    before = connection.total_changes()
    try:
        return operation(connection), None
    except FrontdeskError as error:
        if connection.total_changes() != before:
            raise
        return None, error
