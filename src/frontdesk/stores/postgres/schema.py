"""The schema in a database: checks, creates and upgrades it. The rules are in `stores.schema`."""

from __future__ import annotations

import re

from frontdesk.errors import StoreURLError
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.schema import FoundSchema, Schema, load

SCHEMA = load(__package__)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def quote_schema(name: str) -> str:
    """The schema's name as it is written in SQL. Raises `StoreURLError` for what is not a plain name."""
    if not _NAME.fullmatch(name) or name.startswith("pg_"):
        raise StoreURLError(
            f"schema={name!r} is not a name: use up to 63 letters, digits and underscores, not beginning with pg_"
        )
    return f'"{name}"'


async def migrate(connection: Connection, schema: Schema = SCHEMA) -> None:
    """Bring the connection's schema up to date.

    Raises `SchemaVersionError` if it is newer than this code or unreleased. A schema that is up to date is only read,
    so that a role without the right to change it can use it.
    """
    if not await _missing(connection, schema):
        return
    async with connection.transaction():
        lock = f"frontdesk schema {connection.schema}"
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", lock)
        texts = await _missing(connection, schema)
        if len(texts) == schema.version:
            await connection.execute("CREATE SCHEMA IF NOT EXISTS {schema}")
            await connection.execute(
                "CREATE TABLE {schema}.schema_version (version integer NOT NULL, hash text NOT NULL)"
            )
        for text in texts:
            await connection.execute(text)
        await connection.execute("DELETE FROM {schema}.schema_version")
        await connection.execute("INSERT INTO {schema}.schema_version VALUES ($1, $2)", *schema.recorded())


async def _missing(connection: Connection, schema: Schema) -> tuple[str, ...]:
    name = connection.schema
    return schema.missing(await _found(connection), f"schema {name}", schema=name)


async def _found(connection: Connection) -> FoundSchema | None:
    # By the catalogue's rows: `to_regclass` may remember that the table was missing before the lock was waited for.
    columns = await connection.fetch(
        "SELECT a.attname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
        " JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid"
        " WHERE n.nspname = $1 AND c.relname = 'schema_version'",
        connection.schema.strip('"'),
    )
    if not columns:
        return None
    if not any(column["attname"] == "hash" for column in columns):
        return FoundSchema(0, None)
    return FoundSchema(*await connection.fetch_one("SELECT version, hash FROM {schema}.schema_version"))
