"""The schema's version, and the migrations that lead to it: numbered SQL files, forward only."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import apsw

from frontdesk.errors import SchemaVersionError, StoreError

APPLICATION_ID = 0x46444B31
"""marks the file as ours ("FDK1")"""


@cache
def migrations() -> tuple[str, ...]:
    """The migrations in their order; the version of a schema is how many of them it has had."""
    folder = files(__package__).joinpath("migrations")
    found = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(folder.joinpath(name).read_text("utf-8") for name in found)


def read_version(connection: apsw.Connection, path: str) -> int:
    """The version of the schema, 0 in an empty file.

    Raises `SchemaVersionError` if it is newer than this code, `StoreError` if the file is some other program's.
    """
    ((version, application, tables),) = connection.execute(
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)"
        " FROM pragma_user_version, pragma_application_id"
    ).fetchall()
    assert isinstance(version, int)
    if application != APPLICATION_ID and (application or version or tables):
        raise StoreError(
            f"{path!r} is a database of another program: name a new file for Frontdesk",
            path=path,
            application=application,
        )
    if version > len(migrations()):
        raise SchemaVersionError(
            f"the schema of {path!r} has version {version}, this Frontdesk knows up to {len(migrations())}:"
            " upgrade the package",
            path=path,
            version=version,
            known=len(migrations()),
        )
    return version


def migrate(connection: apsw.Connection, path: str) -> None:
    """Bring the schema up to date. Wants a connection in a transaction that may write."""
    version = read_version(connection, path)
    for number, text in enumerate(migrations()[version:], version + 1):
        connection.execute(text).fetchall()
        connection.execute(f"PRAGMA user_version = {number}").fetchall()
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()
