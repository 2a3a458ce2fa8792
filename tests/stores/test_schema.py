"""Schemas of the SQL stores: how they are created, migrated, recognised and refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import apsw
import asyncpg
import pytest

from frontdesk.errors import SchemaVersionError
from frontdesk.store import Append
from frontdesk.stores.postgres import PostgresStore
from frontdesk.stores.postgres import schema as postgres_schema
from frontdesk.stores.postgres.connection import Connection, Statements
from frontdesk.stores.schema import FoundSchema, Schema, load
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.stores.sqlite import schema as sqlite_schema

FIRST, SECOND = "CREATE TABLE a (x)", "CREATE TABLE b (y)"
NAMESPACE = "test"


# the rules


def test_an_empty_database_needs_the_whole_schema() -> None:
    assert Schema(FIRST, SECOND).missing(None, "it") == (FIRST, SECOND)


def test_a_database_of_an_earlier_release_needs_the_later_migrations() -> None:
    assert Schema(FIRST, SECOND).missing(Schema(FIRST).recorded(), "it") == (SECOND,)
    assert Schema(FIRST, SECOND).missing(Schema(FIRST, SECOND).recorded(), "it") == ()


def test_a_newer_database_is_refused() -> None:
    with pytest.raises(SchemaVersionError, match="upgrade the package"):
        Schema(FIRST).missing(Schema(FIRST, SECOND).recorded(), "it")


@pytest.mark.parametrize(
    "found",
    [Schema("CREATE TABLE a (z)").recorded(), Schema("CREATE TABLE a (z)", SECOND).recorded(), FoundSchema(0, None)],
    ids=["another first version", "another history", "no hash"],
)
def test_a_database_that_no_release_created_is_refused(found: FoundSchema) -> None:
    with pytest.raises(SchemaVersionError, match="unreleased"):
        Schema(FIRST, SECOND).missing(found, "it")


def test_comments_and_white_space_do_not_change_a_schema() -> None:
    assert Schema("-- why\nCREATE TABLE\n  a (x)").recorded() == Schema(FIRST).recorded()


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_store_loads_the_schema_of_its_package(store: str) -> None:
    assert load(f"frontdesk.stores.{store}").version >= 1


# SQLite


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A file with one session."""
    store = SQLiteStore(tmp_path / "file.db")
    await store.append(Append(namespace=NAMESPACE, session_id="s", messages=(), fresh=(), now=1))
    await store.close()
    return tmp_path / "file.db"


async def refused(path: Path) -> SchemaVersionError:
    """Open a file that is refused and not changed."""
    before = path.read_bytes()
    store = SQLiteStore(path)
    with pytest.raises(SchemaVersionError) as raised:
        await store.get(NAMESPACE, "s")
    await store.close()
    assert path.read_bytes() == before
    return raised.value


def change(path: Path, statement: str) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(statement)
        connection.pragma("wal_checkpoint", "truncate")


async def test_sqlite_refuses_a_newer_schema(file: Path) -> None:
    change(file, "UPDATE schema_version SET version = 1000")
    error = await refused(file)
    assert "upgrade the package" in str(error)
    assert error.details["version"] == 1000


async def test_sqlite_refuses_an_unreleased_schema(file: Path) -> None:
    change(file, "UPDATE schema_version SET hash = 'another'")
    assert "unreleased" in str(await refused(file))


async def test_sqlite_refuses_a_schema_without_a_hash(file: Path) -> None:
    change(file, "DROP TABLE schema_version; PRAGMA user_version = 9")
    assert "unreleased" in str(await refused(file))


async def test_sqlite_runs_a_migration_once_and_keeps_what_is_stored(file: Path) -> None:
    later = Schema(sqlite_schema.SCHEMA.texts[0], "CREATE TABLE later (x); INSERT INTO later VALUES (1)")
    with closing(apsw.Connection(str(file))) as connection:
        for _ in range(2):
            with connection:
                sqlite_schema.migrate(connection, str(file), later)
        assert connection.execute("SELECT count(*) FROM later").get == 1
        assert connection.execute("SELECT id FROM sessions").get == "s"
        assert sqlite_schema.missing(connection, str(file), later) == ()
    assert "upgrade the package" in str(await refused(file))


# PostgreSQL


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to a database with one session."""
    store = PostgresStore.from_url(postgres_url)
    await store.append(Append(namespace=NAMESPACE, session_id="s", messages=(), fresh=(), now=1))
    await store.close()
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE frontdesk.schema_version SET version = version + 1", "upgrade the package"),
        ("UPDATE frontdesk.schema_version SET hash = 'another'", "unreleased"),
        ("ALTER TABLE frontdesk.schema_version DROP COLUMN hash", "unreleased"),
    ],
)
async def test_postgres_refuses_what_it_does_not_know(
    connection: asyncpg.Connection, postgres_url: str, statement: str, reason: str
) -> None:
    await connection.execute(statement)
    # A write would be refused for another reason.
    database = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only = on')
    store = PostgresStore.from_url(postgres_url)
    with pytest.raises(SchemaVersionError, match=reason):
        await store.get(NAMESPACE, "s")
    await store.close()


async def test_postgres_runs_a_migration_once_and_keeps_what_is_stored(
    connection: asyncpg.Connection, postgres_url: str
) -> None:
    later = Schema(
        postgres_schema.SCHEMA.texts[0], "CREATE TABLE {schema}.later AS SELECT count(*) FROM {schema}.sessions"
    )
    others = [await asyncpg.connect(postgres_url) for _ in range(4)]
    statements = Statements('"frontdesk"')
    await asyncio.gather(*(postgres_schema.migrate(Connection(other, statements), later) for other in others))
    for other in others:
        await other.close()
    assert await connection.fetchval("SELECT count FROM frontdesk.later") == 1
    assert await connection.fetchval("SELECT id FROM frontdesk.sessions") == "s"
    store = PostgresStore.from_url(postgres_url)
    with pytest.raises(SchemaVersionError, match="upgrade the package"):
        await store.open()
    await store.close()
