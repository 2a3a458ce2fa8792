"""Notices if the file of a store, or its write-ahead log, was deleted or replaced while it is open. A connection would
keep writing to a file that no longer has a name, and everything that it acknowledged would be lost."""

from __future__ import annotations

import os
import threading

from frontdesk.errors import StoreReplacedError

Identity = tuple[int, int]


def identify(path: str) -> Identity | None:
    """What distinguishes the file at a path from every other one, or None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class OpenedFile:
    """The file that a store opened first, and the log that its connections use: a log stays as long as one of them is
    open. Only while no file is known may a connection create one."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._log_path = path + "-wal"
        self._file: Identity | None = None
        self._log: Identity | None = None
        self._connections = 0
        self._lock = threading.Lock()

    @property
    def is_known(self) -> bool:
        return self._file is not None

    def forget(self) -> None:
        """Accept any file again, or none, as when the store was made."""
        self._file = None

    def opened(self) -> None:
        """Called with each new connection."""
        with self._lock:
            self._connections += 1
            self._file = self._file or identify(self.path)
            self._log = self._log or identify(self._log_path)

    def closed(self) -> None:
        """Called when a connection is closed."""
        with self._lock:
            self._connections -= 1
            if not self._connections:
                self._log = None

    def check(self) -> None:
        """Raises `StoreReplacedError` if another file or another log, or none, is there now."""
        if self._file is not None and identify(self.path) != self._file:
            raise _replaced(self.path)
        if self._log is not None and identify(self._log_path) != self._log:
            raise _replaced(self.path, "the write-ahead log of ")


def _replaced(path: str, part: str = "") -> StoreReplacedError:
    return StoreReplacedError(
        f"{part}{path!r} was deleted or replaced while it was open, and nothing of this call was stored: close the"
        " store, restore the file together with its -wal file, and open it again",
        path=path,
    )
