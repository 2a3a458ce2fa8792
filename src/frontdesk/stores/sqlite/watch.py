"""Notices that other processes have written to a file. One timer serves all stores of an event loop that have the same
file: a reader of the log that waits costs nothing in the meantime."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from frontdesk.stores.bell import Bell

_EVERY = 0.5
"""seconds"""


class _Watch:
    """Rings the bells of those that wait when the file, or its write-ahead log, was written to."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: str) -> None:
        self._loop = loop
        self._path = path
        self._bells: Counter[Bell] = Counter()
        self._stamp: tuple[tuple[int, int, int], ...] = ()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, bell: Bell) -> None:
        self._bells[bell] += 1
        if self._timer is None:
            self._look()

    def remove(self, bell: Bell) -> None:
        self._bells[bell] -= 1
        if not self._bells[bell]:
            del self._bells[bell]

    def _look(self) -> None:
        before, self._stamp = self._stamp, tuple(map(_stamp, (self._path, f"{self._path}-wal")))
        # After a time without anyone who waits, everything may have changed.
        if self._stamp != before:
            for bell in self._bells:
                bell.ring()
        self._timer = self._loop.call_later(_EVERY, self._look) if self._bells else None


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Watch]] = WeakKeyDictionary()


@contextmanager
def watched(path: str, bell: Bell) -> Iterator[None]:
    """Ring a bell, as long as this is open, soon after another process has written to a file."""
    loop = asyncio.get_running_loop()
    watches = _watches.setdefault(loop, {})
    watch = watches.get(path)
    if watch is None:
        watch = watches[path] = _Watch(loop, path)
    watch.add(bell)
    try:
        yield
    finally:
        watch.remove(bell)


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns
