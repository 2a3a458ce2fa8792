"""The schema's version, and the migrations that lead to it: numbered SQL files, forward only."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from frontdesk.errors import SchemaVersionError, StoreURLError
from frontdesk.stores.postgres.engine import Connection

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def quote_schema(name: str) -> str:
    """The schema's name as it stands in SQL. Raises `StoreURLError` for what is not a plain name."""
    if not _NAME.fullmatch(name) or name.startswith("pg_"):
        raise StoreURLError(
            f"schema={name!r} is not a name: use up to 63 letters, digits and underscores, not beginning with pg_"
        )
    return f'"{name}"'


@cache
def migrations() -> tuple[str, ...]:
    """The migrations in their order; the version of a schema is how many of them it has had."""
    folder = files(__package__).joinpath("migrations")
    found = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(folder.joinpath(name).read_text("utf-8") for name in found)


async def migrate(connection: Connection, schema: str) -> None:
    """Bring a (quoted) schema up to date. Raises `SchemaVersionError` if it is newer than this code.

    A schema that is up to date is only read, so that a role without the right to change it can use it.
    """
    if await _version(connection, schema) == len(migrations()):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"frontdesk schema {schema}")
        version = await _version(connection, schema)
        if version is None:
            await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            await connection.execute(f"CREATE TABLE {schema}.schema_version (version integer NOT NULL)")
            await connection.execute(f"INSERT INTO {schema}.schema_version VALUES (0)")
            version = 0
        for text in migrations()[version:]:
            await connection.execute(text.replace("{schema}", schema))
        await connection.execute(f"UPDATE {schema}.schema_version SET version = $1", len(migrations()))


async def _version(connection: Connection, schema: str) -> int | None:
    # By the catalogue's rows: `to_regclass` may remember that the table was missing before the lock was waited for.
    there = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = $1 AND c.relname = 'schema_version')",
        schema.strip('"'),
    )
    if not there:
        return None
    version = int(await connection.fetchval(f"SELECT version FROM {schema}.schema_version"))
    if version > len(migrations()):
        raise SchemaVersionError(
            f"the schema {schema} has version {version}, this Frontdesk knows up to {len(migrations())}:"
            " upgrade the package",
            schema=schema,
            version=version,
            known=len(migrations()),
        )
    return version
