"""A consistent copy of the file while it is in use. It blocks neither readers nor writers."""

from __future__ import annotations

import errno
import os

import apsw


def back_up(source: str, target: str) -> None:
    """Write a copy of a database to a file that does not exist yet. It appears under its name when it is complete.

    Raises `FileExistsError` and other `OSError`s, and `apsw.Error`."""
    if os.path.exists(target):
        raise FileExistsError(errno.EEXIST, "the file exists already", target)
    partial = f"{target}.partial"
    open(partial, "wb").close()  # empty, as SQLite wants it; what prevents it is an error of the system
    connection = apsw.Connection(source, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(60_000)
        connection.execute("VACUUM INTO ?", (partial,)).fetchall()
    finally:
        connection.close(True)
    with open(partial, "rb+") as file:
        os.fsync(file.fileno())
    os.replace(partial, target)
