"""`Patience`: how long one connection waits for the locks of other processes. One deadline per call, whichever locks it
meets on its way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

import apsw

T = TypeVar("T")
BUSY = (apsw.BusyError, apsw.LockedError, apsw.ProtocolError)


class Patience:
    """Waits until `deadline`, and not at all while it is `hurried`, which another thread may set at any time."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.deadline = 0.0
        self.hurried = False
        self.cut_off: float | None = None

    def start(self, since: float | None = None, timeout: float | None = None) -> None:
        """Wait for `timeout` seconds at most (`self.timeout`, if not given), counted from `since` or from now."""
        began = time.monotonic() if since is None else since
        self.deadline = began + (self.timeout if timeout is None else timeout)

    def gives_up(self) -> bool:
        """SQLite's progress handler: whether to interrupt a statement, after `hurry` or at `cut_off`."""
        return self.hurried or (self.cut_off is not None and time.monotonic() >= self.cut_off)

    @property
    def is_over(self) -> bool:
        return self.hurried or time.monotonic() >= self.deadline

    def wait(self, earlier: int) -> bool:
        """SQLite's busy handler: whether to try again, after a pause that differs between processes."""
        if self.is_over:
            return False
        time.sleep(0.0005 * (1 + (os.getpid() + 5 * earlier) % 8))
        return True

    def persist(self, step: Callable[[], T]) -> T:
        """Repeat a step while it fails for a lock: SQLite does not call the busy handler for every lock."""
        while True:
            try:
                return step()
            except BUSY:
                if self.is_over:
                    raise
                time.sleep(0.002)
