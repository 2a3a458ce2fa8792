"""The schema of a file: checks, creates and upgrades it. The rules are in `stores.schema`."""

from __future__ import annotations

import apsw

from frontdesk.errors import StoreError
from frontdesk.stores.schema import FoundSchema, Schema, load

APPLICATION_ID = 0x46444B31
"""marks the file as ours ("FDK1")"""

SCHEMA = load(__package__)


def missing(connection: apsw.Connection, path: str, schema: Schema = SCHEMA) -> tuple[str, ...]:
    """The SQL that the file still needs; nothing is written.

    Raises `SchemaVersionError` if its schema is newer than this code or unreleased, `StoreError` if the file belongs
    to another program.
    """
    return schema.missing(_found(connection, path), repr(path), path=path)


def migrate(connection: apsw.Connection, path: str, schema: Schema = SCHEMA) -> None:
    """Bring the schema up to date. Needs a connection in a transaction that may write."""
    for text in missing(connection, path, schema):
        connection.execute(text).fetchall()
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL, hash TEXT NOT NULL) STRICT;"
        "DELETE FROM schema_version"
    ).fetchall()
    connection.execute("INSERT INTO schema_version VALUES (?, ?)", schema.recorded()).fetchall()
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}").fetchall()


def _found(connection: apsw.Connection, path: str) -> FoundSchema | None:
    ((application, user_version, tables, has_version),) = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema),"
        " EXISTS (SELECT * FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version')"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchall()
    if application != APPLICATION_ID and (application or user_version or tables):
        raise StoreError(
            f"{path!r} is the database of another program: choose a new file for Frontdesk",
            path=path,
            application=application,
        )
    if has_version:
        ((version, text),) = connection.execute("SELECT version, hash FROM schema_version").fetchall()
        return FoundSchema(int(version or 0), str(text))
    return FoundSchema(0, None) if tables else None
