"""The thread that copies the write-ahead log into the file while the writer continues."""

from __future__ import annotations

from queue import SimpleQueue

import apsw

from frontdesk.errors import FrontdeskError
from frontdesk.stores.sqlite.connections import DatabaseFile
from frontdesk.stores.sqlite.patience import Patience
from frontdesk.stores.sqlite.workers import Worker

WAL_PAGES_TO_CHECKPOINT = 1_024
WAL_PAGES_TO_STOP_AT = 16_384


class Checkpointer(Worker):
    """Copies the write-ahead log into the file while the writer continues, and lets the writer finish between two
    transactions."""

    name = "checkpointer"
    writes = True

    def __init__(self, database: DatabaseFile) -> None:
        super().__init__(database)
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        self._nearly_done = False
        self._asked_at = 0

    def is_due(self, pages: int) -> bool:
        """Whether `relieve` would do something now."""
        if pages < WAL_PAGES_TO_CHECKPOINT:
            return False
        return self._nearly_done or not self._asked_at <= pages < self._asked_at + WAL_PAGES_TO_CHECKPOINT

    def relieve(self, writer: apsw.Connection, patience: Patience, pages: int) -> None:
        """Called by the writer between two transactions when the log has grown to `pages`."""
        if pages < self._asked_at:
            self._asked_at = 0
        if self._nearly_done:
            self._nearly_done = False
            _checkpoint(writer, apsw.SQLITE_CHECKPOINT_PASSIVE)
        elif pages >= self._asked_at + WAL_PAGES_TO_CHECKPOINT:
            self._asked_at = pages
            if pages >= WAL_PAGES_TO_STOP_AT:
                # Readers that overlap without end would keep the log growing. Wait for those that use it now: later
                # ones read from the file.
                patience.start(timeout=1.0)
                _checkpoint(writer, apsw.SQLITE_CHECKPOINT_RESTART)
            else:
                self._wanted.put(True)
                self.start_once()

    def stop(self) -> None:
        self._wanted.put(False)

    def _run(self) -> None:
        while self._wanted.get():
            with self._active():
                try:
                    self._patience.start()
                    _checkpoint(self._connect(), apsw.SQLITE_CHECKPOINT_PASSIVE)
                except (apsw.Error, FrontdeskError):
                    self._disconnect()
            self._nearly_done = True


def _checkpoint(connection: apsw.Connection, mode: int) -> None:
    try:
        connection.wal_checkpoint(mode=mode)
    except apsw.Error:
        pass  # another checkpoint is running, a reader is in the way or the disk is full: the log keeps everything
