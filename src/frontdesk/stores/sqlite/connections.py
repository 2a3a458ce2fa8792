"""Opens connections to the file, and translates the errors of the engine."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal, NamedTuple, Protocol
from urllib.parse import quote

import apsw
import msgspec

from frontdesk.errors import (
    FrontdeskError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from frontdesk.stores.sqlite.files import OpenedFile
from frontdesk.stores.sqlite.patience import BUSY, Patience
from frontdesk.stores.sqlite.phrases import prepare
from frontdesk.stores.sqlite.schema import migrate, missing

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CACHE_KIB = 16_384
_WAL_KEPT = 16 << 20
_OPEN = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
_STEPS_BETWEEN_CHECKS = 4_000
"""of SQLite's virtual machine: about 0.3 milliseconds"""
_UNREADABLE = (UnicodeDecodeError, msgspec.DecodeError)
"""what reading a damaged value raises"""


class Cursor(Protocol):
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class SQLiteConnection(Protocol):
    """What an operation may do with a connection: the engine begins and ends its transaction."""

    def execute(self, statements: str, bindings: Any = None, /) -> Cursor: ...
    def executemany(self, statements: str, sequenceofbindings: Any, /) -> Cursor: ...
    def changes(self) -> int: ...
    def set_rollback_hook(self, callable: Callable[[], None] | None) -> None: ...


class Stamp(NamedTuple):
    """What changes when a file is written to, although it was expected not to be."""

    modified: int
    size: int
    has_wal: bool


class DatabaseFile:
    """One file and how it is opened. Each connection is used by one thread at a time."""

    def __init__(self, path: str, *, synchronous: Literal["full", "normal"], busy_timeout: float) -> None:
        self.path = path
        self.synchronous = synchronous
        self.busy_timeout = busy_timeout
        self.file = OpenedFile(path)

    def open(self, patience: Patience, *, write: bool) -> tuple[apsw.Connection, Stamp | None]:
        """A connection to the file, whose schema is up to date; it may be a read-only one.

        One that takes no locks, because it cannot, comes with a stamp: it is good as long as `stamp` returns the same.
        Raises `StoreReplacedError` if this is not the file that was opened first.
        """
        self.file.check()
        opened: tuple[apsw.Connection, Stamp | None]
        try:
            opened = self._open(self.path, patience, write), None
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            if not self._frozen():
                raise
            stamp = self.stamp()
            opened = self._open(f"file:{quote(self.path)}?immutable=1", patience, write), stamp
        self.file.opened()
        return opened

    def _open(self, name: str, patience: Patience, write: bool) -> apsw.Connection:
        connection = apsw.Connection(name, flags=_OPEN if self.file.is_known else _OPEN | apsw.SQLITE_OPEN_CREATE)
        try:
            connection.set_busy_handler(patience.wait)
            connection.set_progress_handler(patience.gives_up, _STEPS_BETWEEN_CHECKS)
            # Without it SQLite plans a statement again whenever a bound value might allow a partial index.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            self._prepare(connection, patience)
            prepare(connection)
            # On macOS, fsync alone leaves data in the cache of the drive.
            connection.execute(
                f"PRAGMA synchronous={self.synchronous}; PRAGMA fullfsync=on; PRAGMA checkpoint_fullfsync=on;"
                f" PRAGMA wal_autocheckpoint=0; PRAGMA temp_store=memory;"
                f" PRAGMA cache_size=-{_CACHE_KIB}; PRAGMA journal_size_limit={_WAL_KEPT};"
                f" PRAGMA secure_delete=on; PRAGMA query_only={int(not write)}"
            ).fetchall()
        except BaseException:
            connection.close(True)
            raise
        return connection

    def _prepare(self, connection: apsw.Connection, patience: Patience) -> None:
        outdated = patience.persist(lambda: missing(connection, self.path))
        if connection.readonly("main"):
            if outdated:
                raise StoreReadOnlyError(
                    f"{self.path!r} needs a newer schema and cannot be written to: open it once with write permission",
                    path=self.path,
                )
            return
        mode = patience.persist(lambda: connection.execute("PRAGMA journal_mode=wal").fetchall()[0][0])
        if mode != "wal":
            raise StoreError(f"{self.path!r} cannot have a write-ahead log: put it on a local disk", path=self.path)
        if outdated:
            patience.persist(lambda: connection.execute("BEGIN IMMEDIATE"))
            try:
                migrate(connection, self.path)
                connection.execute("COMMIT")
            finally:
                roll_back(connection)

    def _frozen(self) -> bool:
        """Whether the file can be read without its log: this process cannot write it, and the log is empty."""
        writable = os.access(self.path, os.W_OK) and os.access(os.path.dirname(self.path), os.W_OK)
        return not writable and os.path.exists(self.path) and not self._has_wal()

    def _has_wal(self) -> bool:
        try:
            return os.stat(self.path + "-wal").st_size > 0
        except OSError:
            return False

    def stamp(self) -> Stamp:
        status = os.stat(self.path)
        return Stamp(status.st_mtime_ns, status.st_size, self._has_wal())

    def translate(
        self, error: BaseException, connection: apsw.Connection | None = None, *, committing: bool = False
    ) -> BaseException:
        """The error to raise for an error of SQLite, or of a value that cannot be read; others are returned as they
        are. `committing` says that a commit failed: what it wrote may be found when the file is opened again."""
        if isinstance(error, _UNREADABLE):
            translated: FrontdeskError = StoreCorruptError(
                f"{self.path!r} contains a damaged record: restore a backup ({type(error).__name__})", path=self.path
            )
        elif isinstance(error, apsw.Error):
            system_errno = 0 if connection is None else connection.system_errno
            translated = _translated(error, self.path, system_errno, committing)
        else:
            return error
        translated.__cause__ = error
        return translated


def roll_back(connection: apsw.Connection) -> None:
    """End a transaction that is still open, whatever state it is in."""
    while connection.in_transaction:
        with suppress(apsw.InterruptError):  # what interrupted the transaction may interrupt its end, too
            connection.execute("ROLLBACK")


def _translated(error: apsw.Error, path: str, system_errno: int, committing: bool) -> FrontdeskError:
    if isinstance(error, BUSY):
        return StoreUnavailableError(
            f"{path!r} stayed locked by another process, and nothing was written: try again, or raise"
            f" busy_timeout ({error})",
            path=path,
        )
    # A commit that was written and then could not be synced may be found when the file is opened again.
    uncertain = committing and isinstance(error, apsw.IOError)
    happened = "the change may have happened: check before trying again" if uncertain else "nothing was written"
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and _is_full(error, system_errno)):
        text = f"no space left for {path!r}; {happened}; free some space ({error})"
        return StoreFullError(text, uncertain=uncertain, path=path)
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError):
        return StoreReadOnlyError(f"{path!r} cannot be written to: check its permissions ({error})", path=path)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return StoreCorruptError(
            f"{path!r} is damaged, or not a SQLite database: restore a backup ({error})", path=path
        )
    if isinstance(error, apsw.CantOpenError) or os.path.isdir(path):
        return StoreError(f"{path!r} cannot be opened: {_obstacle(path)} ({error})", path=path)
    if isinstance(error, apsw.IOError):
        text = f"reading or writing {path!r} failed; {happened}; check the disk ({error})"
        return StoreUnavailableError(text, uncertain=uncertain, path=path)
    return StoreError(f"SQLite reported an error in {path!r}: {error}", path=path)


def _is_full(error: apsw.Error, system_errno: int) -> bool:
    extended: int = getattr(error, "extendedresult", 0)
    return extended == apsw.SQLITE_IOERR_SHMSIZE or system_errno in _NO_SPACE


def _obstacle(path: str) -> str:
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        return f"there is no directory {folder!r}, create it first"
    if os.path.isdir(path):
        return "it is a directory, name a file"
    return "check the permissions of the file and its directory"
