"""PostgreSQL behind a real transaction pooler: the whole contract, and a proof that the pooler is one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from frontdesk.errors import StoreError
from frontdesk.store import Store
from frontdesk.stores.postgres import PostgresStore
from frontdesk.testing import StoreContract
from frontdesk.testing.store_contract.steps import NAMESPACE, add, path
from tests.servers.pooler import SERVER_CONNECTIONS, TransactionPooler
from tests.stores.dumps import PostgresSchema
from tests.stores.engines import OnPostgres

CLIENTS = 64


@pytest.fixture
def pooled_url(pooler: TransactionPooler, postgres_url: str) -> str:
    """The same empty database, through the pooler."""
    return pooler.url(postgres_url)


class TestBehindPgBouncer(OnPostgres, StoreContract):
    TestRandomHistories = None  # takes minutes, since no statement stays prepared behind the pooler

    @pytest.fixture
    async def store(self, pooler: TransactionPooler, postgres_schema: PostgresSchema) -> AsyncIterator[Store]:
        url = pooler.url(postgres_schema.database)
        store = PostgresStore.from_url(f"{url}?pooler=transaction&schema={postgres_schema.name}")
        yield store
        await store.close()


async def read_and_write(store: PostgresStore, number: int) -> None:
    """Some of every kind of call with arguments."""
    session_id = f"s{number % 8}"
    for round in range(5):
        await add(store, session_id, f"{number}-{round}")
        await store.get(NAMESPACE, session_id)
        lease = await store.acquire_lease(NAMESPACE, session_id, f"work {number}", f"holder {number}", 60_000_000)
        assert lease is not None
        await store.trees(NAMESPACE, [session_id], find=[f"{number}-{round}"])
        assert await store.renew_lease(NAMESPACE, session_id, f"work {number}", lease.number, 0)


async def test_the_pooler_uses_another_connection_for_every_transaction(pooled_url: str) -> None:
    connections = [await asyncpg.connect(pooled_url, statement_cache_size=0) for _ in range(SERVER_CONNECTIONS)]
    transactions = [connection.transaction() for connection in connections]
    for transaction in transactions:
        await transaction.start()
    for transaction in transactions:
        await transaction.rollback()
    served_by = [await connections[0].fetchval("SELECT pg_backend_pid()") for _ in range(2 * SERVER_CONNECTIONS)]
    assert len(set(served_by)) == SERVER_CONNECTIONS
    for connection in connections:
        await connection.close()


async def test_64_clients_share_a_few_connections_and_nothing_is_lost(pooled_url: str) -> None:
    stores = [PostgresStore.from_url(f"{pooled_url}?pooler=transaction") for _ in range(4)]
    await asyncio.gather(*(read_and_write(stores[number % 4], number) for number in range(CLIENTS)))
    written = [id for number in range(8) for id in await path(stores[0], f"s{number}")]
    assert sorted(written) == sorted(f"{number}-{round}" for number in range(CLIENTS) for round in range(5))
    for store in stores:
        await store.close()


async def test_a_store_that_does_not_know_of_the_pooler_fails_and_says_what_to_do(pooled_url: str) -> None:
    told, untold = PostgresStore.from_url(f"{pooled_url}?pooler=transaction"), PostgresStore.from_url(pooled_url)
    await told.open()
    work = (read_and_write(untold, number) for number in range(CLIENTS))
    failures = [error for error in await asyncio.gather(*work, return_exceptions=True) if error is not None]
    assert any(isinstance(error, StoreError) and "pooler=transaction" in str(error) for error in failures)
    await asyncio.gather(*(read_and_write(told, number) for number in range(CLIENTS, CLIENTS + 4)))
    for store in (told, untold):
        await store.close()


async def test_stores_that_open_at_once_bring_the_schema_up_to_date_once(pooled_url: str) -> None:
    stores = [PostgresStore.from_url(f"{pooled_url}?pooler=transaction") for _ in range(10)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(add(store, "s", f"m{number}") for number, store in enumerate(stores)))
    assert sorted(await path(stores[0], "s")) == [f"m{number}" for number in range(10)]
    for store in stores:
        await store.close()
