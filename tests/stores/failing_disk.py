"""A disk that fails: a VFS of SQLite between the store and the real files. Reads, writes and syncs fail at random,
writes are cut short, and `losing_power` remembers what a disk may hold that lost some of what was not synced."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import apsw

SECTOR = 512
_REAL = apsw.vfs_names()[0]
_CODES = {
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "size": apsw.SQLITE_IOERR_FSTAT,
    "delete": apsw.SQLITE_IOERR_DELETE,
}


class FailingDisk(apsw.VFS):
    """The default VFS until it is closed. `rate` is the chance that an operation fails, and `fail_next` names a kind of
    operation whose next one fails."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.rate = 0.0
        self.fail_next: str | None = None
        self.faults: Counter[str] = Counter()
        self.operations = 0
        self.moments: list[tuple[tuple[int, int, int], dict[str, bytes]]] = []
        self._mark: Callable[[], tuple[int, int, int]] | None = None
        self._every = 0
        self._lock = threading.RLock()
        self._synced: dict[str, bytearray] = {}
        self._unsynced: dict[str, list[tuple[int, bytes | None]]] = {}
        super().__init__(f"failing-{seed}-{id(self)}", _REAL, makedefault=True)

    @contextmanager
    def failing(self, rate: float) -> Iterator[None]:
        """Let operations fail in this block."""
        self.rate = rate
        try:
            yield
        finally:
            self.rate = 0.0

    @contextmanager
    def losing_power(self, mark: Callable[[], tuple[int, int, int]], every: int) -> Iterator[None]:
        """At one of `every` operations in this block, remember in `moments` what the disk would hold, with the mark
        that was taken before."""
        self._mark, self._every = mark, every
        try:
            yield
        finally:
            self._mark = None

    def close(self) -> None:
        self.unregister()

    # what SQLite calls

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        if name is not None:
            self.may_fail("open")
        return _FailingFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.may_fail("delete")
        super().xDelete(filename, syncdir)
        with self._lock:
            self._synced.pop(filename, None)
            self._unsynced.pop(filename, None)

    # faults

    def may_fail(self, operation: str) -> None:
        with self._lock:
            self.operations += 1
            if self._mark is not None and self.random.randrange(self._every) == 0:
                self.moments.append((self._mark(), self._lose_power()))
            if operation == self.fail_next:
                self.fail_next = None
            elif not self.rate or self.random.random() >= self.rate:
                return
            self.faults[operation] += 1
            if operation == "open":
                raise apsw.CantOpenError("the disk failed")
            if operation == "write" and self.random.random() < 0.4:
                raise apsw.FullError("the disk is full")
            error = apsw.IOError("the disk failed")
            error.extendedresult = _CODES[operation]  # type: ignore[attr-defined]
            raise error

    # power

    def opened(self, name: str) -> None:
        """A file that was there before is on the disk as it is."""
        with self._lock:
            if name not in self._synced:
                self._synced[name] = bytearray(Path(name).read_bytes())
                self._unsynced[name] = []

    def written(self, name: str, offset: int, data: bytes | None) -> None:
        """Without data: the file was cut off at the offset."""
        with self._lock:
            self._unsynced[name].append((offset, data))

    def synced(self, name: str) -> None:
        with self._lock:
            for offset, data in self._unsynced[name]:
                _apply(self._synced[name], offset, data)
            self._unsynced[name] = []

    def _lose_power(self) -> dict[str, bytes]:
        """The files as a disk may hold them: what was not synced is there, or not, sector by sector, in any order."""
        return {name: self._without_power(name) for name in self._synced}

    def _without_power(self, name: str) -> bytes:
        content = bytearray(self._synced[name])
        kept = self.random.choice((0.0, 0.5, 0.9, 1.0))
        for offset, data in self._unsynced[name]:
            if data is None:
                sectors: list[tuple[int, bytes | None]] = [(offset, None)]
            else:
                sectors = [(offset + at, data[at : at + SECTOR]) for at in range(0, len(data), SECTOR)]
            for sector in sectors:
                if self.random.random() < kept:
                    _apply(content, *sector)
        return bytes(content)


class _FailingFile(apsw.VFSFile):
    """One open file. Connections share what is known of a name, as they share the file."""

    def __init__(self, disk: FailingDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(_REAL, name, flags)
        self._name = None if name is None else name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if self._name is not None:
            disk.opened(self._name)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.may_fail("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        try:
            self._disk.may_fail("write")
        except apsw.Error:
            part = bytes(data[: self._disk.random.randrange(len(data))])
            if part:
                self._write(part, offset)
            raise
        self._write(bytes(data), offset)

    def _write(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if self._name is not None:
            self._disk.written(self._name, offset, data)

    def xTruncate(self, newsize: int) -> None:
        self._disk.may_fail("truncate")
        super().xTruncate(newsize)
        if self._name is not None:
            self._disk.written(self._name, newsize, None)

    def xSync(self, flags: int) -> None:
        self._disk.may_fail("sync")
        super().xSync(flags)
        if self._name is not None:
            self._disk.synced(self._name)

    def xFileSize(self) -> int:
        self._disk.may_fail("size")
        return super().xFileSize()


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
