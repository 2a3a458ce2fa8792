"""Writers on PostgreSQL that are in each other's way: a deadlock has not happened, and a lock ends any race."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import msgspec
import pytest

from frontdesk import SessionManager
from frontdesk.store import DocumentName, DocumentRow, Owner, Store
from frontdesk.stores.postgres import PostgresStore
from frontdesk.testing.store_contract.steps import NAMESPACE, NOW, add, row, tree
from frontdesk.testing.store_contract.turns import turn
from frontdesk.tree import plans
from tests.waiting import PATIENCE, eventually

Write = Callable[[Store], Coroutine[Any, Any, None]]
Connect = Callable[[], Coroutine[Any, Any, asyncpg.Connection]]


@pytest.fixture
async def connect(postgres_url: str) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def connect() -> asyncpg.Connection:
            connection = await asyncpg.connect(postgres_url)
            stack.push_async_callback(connection.close)
            return connection

        yield connect


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.from_url(postgres_url)
    yield store
    await store.close()


def text(version: int, content: str) -> DocumentRow:
    return DocumentRow(label="memory", version=version, content=content, created_at=NOW)


async def write_in_a_turn(store: Store) -> None:
    fence = (await turn(store, "ana")).number
    plan = plans.change_row(await row(store, "s"), NOW, name="late", tags='["late"]')
    assert await store.apply(msgspec.structs.replace(plan, fence=fence))
    assert (await row(store, "s")).name == "late"


async def redact(store: Store) -> None:
    name = DocumentName(Owner("session", "s"), "memory")
    assert await store.rewrite_document(NAMESPACE, name, [text(2, "shorter")], 1)
    assert [row.content for row in await store.document_versions(NAMESPACE, name)] == ["shorter"]


async def delete(store: Store) -> None:
    assert await store.apply(plans.delete_session((await tree(store, "s", family=True)).rows, NOW))
    assert await store.get(NAMESPACE, "s") is None


@pytest.mark.parametrize(
    ("write", "table"), [(write_in_a_turn, "session_tags"), (redact, "documents"), (delete, "messages")]
)
async def test_a_write_that_ends_in_a_deadlock_is_done_again(
    store: PostgresStore,
    connect: Connect,
    write: Write,
    table: str,
) -> None:
    """It has locked the session, and waits at a table. Then another transaction, which has locked the log, waits for
    the session, and the write goes on to the log: the write waits last, so that it is the one to be ended."""
    await add(store, "s", "first")
    session = Owner("session", "s")
    assert await store.put_document(NAMESPACE, session, text(1, "longer"))
    first, other, watcher = await connect(), await connect(), await connect()
    await watcher.execute("""DO $$ BEGIN EXECUTE format(
        'ALTER DATABASE %I SET deadlock_timeout = ''10ms''', current_database()); END $$""")
    await store.close()
    await store.open()  # with the short time-out; that of the others would be seconds
    await other.execute("SET deadlock_timeout = '1h'")

    async def are_waiting(count: int) -> None:
        waiting = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"

        async def are_there() -> bool:
            return bool(await watcher.fetchval(waiting) == count)

        await eventually(are_there)

    stopping, locking = first.transaction(), other.transaction()
    await stopping.start()
    await locking.start()
    await first.execute(f"LOCK TABLE frontdesk.{table} IN SHARE MODE")
    writing = asyncio.create_task(write(store))
    await are_waiting(1)
    await other.execute("LOCK TABLE frontdesk.changes IN SHARE MODE")
    wanting = asyncio.create_task(other.execute("SELECT FROM frontdesk.sessions WHERE id = 's' FOR UPDATE"))
    await are_waiting(2)
    await stopping.rollback()
    async with asyncio.timeout(PATIENCE):
        await wanting  # it got the lock that the write has lost
    assert not writing.done()
    await locking.rollback()
    await writing


@pytest.fixture
async def restless_writers(store: PostgresStore, connect: Connect) -> AsyncIterator[None]:
    """They never stop to change the session `s`."""
    await add(store, "s", "first")

    async def never_stop(connection: asyncpg.Connection) -> None:
        while True:
            await connection.execute("UPDATE frontdesk.sessions SET revision = revision + 1 WHERE id = 's'")

    writers = [asyncio.create_task(never_stop(await connect())) for _ in range(4)]
    yield
    for writer in writers:
        writer.cancel()
    await asyncio.gather(*writers, return_exceptions=True)


@pytest.mark.usefixtures("restless_writers")
async def test_a_session_that_others_never_stop_changing_is_changed_while_it_is_held(store: PostgresStore) -> None:
    async def rename() -> bool:
        seen = await row(store, "s")
        return await store.apply(plans.change_row(seen, NOW, name="new"))

    assert await store.hold(NAMESPACE, "s", rename)
    assert (await row(store, "s")).name == "new"


async def test_what_is_done_while_a_session_is_held_is_one_transaction_of_one_task(store: PostgresStore) -> None:
    await add(store, "s", "first")

    async def fail() -> None:
        await store.apply(plans.change_row(await row(store, "s"), NOW, name="new"))
        assert (await row(store, "s")).name == "new"
        assert (await asyncio.create_task(row(store, "s"))).name == ""
        raise OSError("of the caller")

    with pytest.raises(OSError, match="of the caller"):
        await store.hold(NAMESPACE, "s", fail)
    assert (await row(store, "s")).name == ""


async def test_what_is_done_while_a_session_is_held_is_done_again_if_the_connection_is_lost(
    store: PostgresStore, connect: Connect
) -> None:
    await add(store, "s", "first")
    watcher = await connect()
    lost = 0

    async def rename() -> bool:
        nonlocal lost
        is_applied = await store.apply(plans.change_row(await row(store, "s"), NOW, name="new"))
        if not lost:
            lost = await watcher.fetchval("""SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE datname = current_database() AND state = 'idle in transaction'""")
            await row(store, "s")
        return is_applied

    assert await store.hold(NAMESPACE, "s", rename)
    assert lost == 1
    assert (await row(store, "s")).name == "new"


Change = Callable[[SessionManager], Coroutine[Any, Any, object]]
CHANGES: dict[str, Change] = {
    "update_message": lambda manager: manager.session("s").update_message(user("last", "changed")),
    "delete_messages": lambda manager: manager.session("s").delete_messages(["last"]),
    "pop": lambda manager: manager.session("s").pop(),
    "replace_messages": lambda manager: manager.session("s").replace_messages([user("new", "hello")]),
    "clear_messages": lambda manager: manager.session("s").clear_messages(),
    "rename": lambda manager: manager.session("s").rename("new"),
    "suspend": lambda manager: manager.suspend("s"),
    "fork": lambda manager: manager.fork("s"),
    "delete": lambda manager: manager.delete("s"),
}


def user(id: str, text: str) -> dict[str, str]:
    return {"id": id, "role": "user", "content": text}


@pytest.mark.usefixtures("restless_writers")
@pytest.mark.parametrize("name", CHANGES)
async def test_no_change_of_a_session_that_others_never_stop_changing_gives_up(store: PostgresStore, name: str) -> None:
    await add(store, "s", "last")
    async with SessionManager(store, namespace=NAMESPACE) as manager:
        await CHANGES[name](manager)


@pytest.mark.parametrize("name", CHANGES)
async def test_no_change_of_a_session_that_others_never_stop_appending_to_gives_up(
    store: PostgresStore, postgres_url: str, name: str
) -> None:
    async def never_stop(manager: SessionManager) -> None:
        while True:
            await manager.append("s", {"role": "user", "content": "more"})

    async with (
        SessionManager(store, namespace=NAMESPACE) as manager,
        SessionManager(postgres_url, namespace=NAMESPACE) as others,
    ):
        await manager.append("s", user("last", "hello"))
        writers = [asyncio.create_task(never_stop(others)) for _ in range(12)]
        await CHANGES[name](manager)
        for writer in writers:
            writer.cancel()
        ends = await asyncio.gather(*writers, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
