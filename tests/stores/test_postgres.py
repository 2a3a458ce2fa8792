"""What is specific to PostgreSQL; what every store guarantees is in the contract."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from frontdesk import SessionManager
from frontdesk.errors import (
    StoreClosedError,
    StoreError,
    StoreReadOnlyError,
    StoreUnavailableError,
    StoreURLError,
)
from frontdesk.messages import StoredMessage
from frontdesk.store import Append, AppendResult, DocumentRow, Owner, OwnerQuery, StatsQuery
from frontdesk.stores.postgres import PostgresStore
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import PostgresProxy
from tests.waiting import eventually

NAMESPACE = "tests"


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.from_url(postgres_url)
    yield store
    await store.close()


async def add(store: PostgresStore, session_id: str, *ids: str, raw: str = "{}", fresh: bool = False) -> AppendResult:
    messages = tuple(StoredMessage(id, "user", 1, 1, raw) for id in ids)
    return await store.append(
        Append(namespace=NAMESPACE, session_id=session_id, messages=messages, fresh=(fresh,) * len(ids), now=1)
    )


async def ids_in(store: PostgresStore, session_id: str) -> list[str]:
    read = await store.view(NAMESPACE, session_id)
    assert read is not None
    return [message.id for message in read.pieces[0].messages]


# URLs


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("pool=0", "pool=0"),
        ("pool=many", "pool='many' is not a number"),
        ("pool=2&pool=3", "given twice"),
        ("pooler=session", "pooler=transaction"),
        ("timeout=-1", "timeout=-1.0"),
        ("timeout=nan", "timeout=nan"),
        ("connect_timeout=0", "connect_timeout=0"),
        ("schema=a-b", "schema='a-b' is not a name"),
        ("schema=pg_mine", "pg_"),
        ("sslmod=require", "known are connect_timeout, pool, pooler, schema, timeout, and of the driver"),
    ],
)
def test_an_invalid_option_is_refused(query: str, complaint: str) -> None:
    with pytest.raises(StoreURLError, match=complaint):
        PostgresStore.from_url(f"postgresql://user:s3cret@localhost/db?{query}")


async def test_options_of_the_driver_pass_through(postgres_url: str) -> None:
    store = PostgresStore.from_url(f"{postgres_url}?application_name=desk&pool=2&schema=Other&timeout=5")
    await add(store, "s", "m")
    connection = await asyncpg.connect(postgres_url)
    assert await connection.fetchval('SELECT count(*) FROM "Other".messages') == 1
    assert await connection.fetchval("SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'desk'")
    await connection.close()
    await store.close()


async def test_options_reach_the_server(store: PostgresStore, postgres_url: str) -> None:
    await add(store, "s", "m")
    reading = PostgresStore.from_url(f"{postgres_url}?options=-c%20default_transaction_read_only%3Don")
    assert await ids_in(reading, "s") == ["m"]
    with pytest.raises(StoreReadOnlyError):
        await add(reading, "s", "n")
    await reading.close()


async def test_connections_have_a_name_by_default(store: PostgresStore, postgres_url: str) -> None:
    await store.open()
    connection = await asyncpg.connect(postgres_url)
    named = (
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'frontdesk' AND datname = current_database()"
    )
    assert await connection.fetchval(named) == 1
    await connection.close()


@pytest.mark.parametrize("url", ["postgresql://a:1,b,[::1]:3/desk", "postgresql:///desk?host=a,b,::1&port=1,5432,3"])
def test_several_hosts_are_named_with_their_ports(url: str) -> None:
    assert repr(PostgresStore.from_url(url)).startswith("PostgresStore('a:1,b:5432,::1:3/desk'")


def test_a_url_of_several_hosts_identifies_the_store_without_its_password() -> None:
    store = PostgresStore.from_url("postgresql://user:s3cret@a:1,b/desk?timeout=3")
    assert store.url == "postgresql://a:1,b:5432/desk?schema=frontdesk"


async def test_a_password_is_never_shown() -> None:
    store = PostgresStore.from_url("postgres://user:s3cret@127.0.0.1:9/db?timeout=2&password=s3cret")
    with pytest.raises(StoreUnavailableError) as caught:
        await store.get(NAMESPACE, "s")
    await store.close()
    shown = "".join(traceback.format_exception(caught.value)) + repr(store) + repr(caught.value.details)
    with pytest.raises(StoreURLError) as malformed:
        PostgresStore.from_url("postgresql://user:s3cret@host:port/db")
    assert "s3cret" not in shown + str(malformed.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgres://user:s3cret@127.0.0.1:9/desk",
        "postgresql:///?host=127.0.0.1&port=9&dbname=desk&user=ana&password=s3cret",
    ],
)
async def test_a_server_that_cannot_be_reached_is_named(url: str) -> None:
    store = PostgresStore.from_url(url)
    with pytest.raises(
        StoreUnavailableError, match=r"^PostgreSQL at 127\.0\.0\.1:9/desk cannot be reached.*; nothing was written$"
    ) as caught:
        await store.get(NAMESPACE, "s")
    await store.close()
    assert "s3cret" not in str(caught.value)


# appends


async def test_appends_in_flight_share_transactions(store: PostgresStore, postgres_url: str) -> None:
    await asyncio.gather(*(add(store, f"s{number}", "first") for number in range(32)))
    await asyncio.gather(*(add(store, f"s{number}", f"{number}-{turn}") for turn in range(10) for number in range(32)))
    connection = await asyncpg.connect(postgres_url)
    later = "FROM frontdesk.messages WHERE id <> 'first'"
    messages = await connection.fetchval(f"SELECT count(*) {later}")
    transactions = await connection.fetchval(f"SELECT count(DISTINCT xmin::text) {later}")
    await connection.close()
    assert messages == 32 * 10
    assert transactions <= 8


async def test_requests_for_one_session_keep_the_order_of_their_arrival(store: PostgresStore) -> None:
    ids = [f"m{number:03}" for number in range(300)]
    results = await asyncio.gather(*(add(store, "s", id) for id in ids))
    assert await ids_in(store, "s") == ids
    assert [result.session.message_count for result in results] == list(range(1, 301))
    assert [result.rows[0].parent_id for result in results] == [None, *ids[:-1]]


async def test_a_locked_session_does_not_block_others(store: PostgresStore, postgres_url: str) -> None:
    await asyncio.gather(*(add(store, session_id, "first") for session_id in ("locked", "a", "b")))
    connection = await asyncpg.connect(postgres_url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("SELECT FROM frontdesk.sessions WHERE id = 'locked' FOR UPDATE")
    waiting = [asyncio.create_task(add(store, "locked", f"m{number}")) for number in range(3)]
    for number in range(5):
        await asyncio.gather(add(store, "a", f"m{number}"), add(store, "b", f"m{number}"))
    assert not any(task.done() for task in waiting)
    await transaction.commit()
    await connection.close()
    await asyncio.gather(*waiting)
    assert await ids_in(store, "locked") == ["first", "m0", "m1", "m2"]


async def test_a_text_that_is_written_while_its_owner_is_erased_does_not_stay(
    store: PostgresStore, postgres_url: str
) -> None:
    guest = Owner("guest", None, "bot", "web", "ana")
    await store.put_document(NAMESPACE, guest, DocumentRow(label="memory", version=1, content="one", created_at=1))
    connection = await asyncpg.connect(postgres_url)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("SELECT FROM frontdesk.document_owners FOR UPDATE")
    await connection.execute(
        "INSERT INTO frontdesk.documents (ns, session, label_digest, key_digest, label, key, version, content,"
        " description, author, created_at) SELECT ns, session, label_digest, key_digest, label, key, 2, 'two',"
        " description, author, created_at FROM frontdesk.documents"
    )
    erasing = asyncio.create_task(store.delete_documents(OwnerQuery(namespace=NAMESPACE, peer="ana")))

    async def is_waiting() -> bool:
        here = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return bool(await connection.fetchval(f"SELECT count(*) > 0 {here}"))

    await eventually(is_waiting)
    await transaction.commit()
    assert await erasing == 2
    assert await connection.fetchval("SELECT count(*) FROM frontdesk.documents") == 0
    await connection.close()


async def test_a_session_that_stays_locked_is_reported(postgres_url: str) -> None:
    store, patient = PostgresStore.from_url(f"{postgres_url}?timeout=0.5"), PostgresStore.from_url(postgres_url)
    await add(patient, "s", "first")
    connection = await asyncpg.connect(postgres_url)
    async with connection.transaction():
        await connection.execute("SELECT FROM frontdesk.sessions FOR UPDATE")
        with pytest.raises(StoreUnavailableError, match="in time"):
            await add(store, "s", "second")
    await connection.close()
    await add(patient, "s", "second")
    assert await ids_in(patient, "s") == ["first", "second"]
    await store.close()
    await patient.close()


async def test_a_request_that_cannot_be_stored_fails_alone(store: PostgresStore) -> None:
    await asyncio.gather(*(add(store, session_id, "first") for session_id in ("a", "b")))
    good, bad, also_good = await asyncio.gather(
        add(store, "a", "m"), add(store, "b", "m", raw='"\0 secret"'), add(store, "a", "n"), return_exceptions=True
    )
    assert isinstance(good, AppendResult)
    assert isinstance(also_good, AppendResult)
    assert isinstance(bad, StoreError)
    assert "secret" not in "".join(traceback.format_exception(bad))
    assert await ids_in(store, "b") == ["first"]


async def test_ids_of_512_four_byte_characters_are_stored(store: PostgresStore) -> None:
    session_id, first, second = (chr(0x1F600 + number) * 511 + "🜁" for number in range(3))
    await add(store, session_id, first)
    await add(store, session_id, second)
    assert not (await add(store, session_id, first)).rows[0].inserted
    assert await ids_in(store, session_id) == [first, second]


# connections


async def test_it_continues_after_a_restart_of_the_server() -> None:
    with PostgresServer() as server:
        store = PostgresStore.from_url(server.create_database())
        await asyncio.gather(*(add(store, f"s{number}", "before") for number in range(8)))
        await asyncio.to_thread(server.restart)
        await asyncio.gather(*(add(store, f"s{number}", "after") for number in range(8)))
        assert await ids_in(store, "s7") == ["before", "after"]
        await store.close()


async def test_a_server_that_is_down_is_reported_and_found_again(postgres_url: str) -> None:
    async with PostgresProxy(postgres_url) as wire:
        store = PostgresStore.from_url(f"{wire.url}&timeout=5")
        await add(store, "s", "before")
        await wire.down()
        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                await add(store, "s", "meanwhile")
            with pytest.raises(StoreUnavailableError):
                await store.get(NAMESPACE, "s")
        await wire.up()
        await add(store, "s", "after")
        assert await ids_in(store, "s") == ["before", "after"]
        await store.close()


@pytest.mark.parametrize("fresh", [True, False])
async def test_an_append_whose_answer_was_lost_is_written_once_and_counts_as_inserted(
    postgres_url: str, fresh: bool
) -> None:
    async with PostgresProxy(postgres_url) as wire:
        store = PostgresStore.from_url(wire.url)
        await add(store, "s", "first")
        wire.lose_answer_to = b"the-lost-one"
        result = await add(store, "s", "the-lost-one", "first", "another", fresh=fresh)
        assert wire.lost == 1
        assert [(row.inserted, row.parent_id) for row in result.rows] == [
            (True, "first"),
            (False, None),
            (True, "the-lost-one"),
        ]
        again = await add(store, "s", "the-lost-one")
        assert not again.rows[0].inserted
        assert again.session.message_count == 3
        await store.close()


@pytest.mark.parametrize(
    ("lost", "more"),
    [(b"the raw text", {}), (b"the raw text", {"parent": "first"}), (b"COMMIT", {"dequeue": True})],
    ids=["at the head", "decided", "decided in a transaction"],
)
async def test_an_append_that_was_committed_and_not_answered_counts_as_inserted(
    postgres_url: str, lost: bytes, more: dict[str, Any]
) -> None:
    async with PostgresProxy(postgres_url) as wire:
        store = PostgresStore.from_url(wire.url)
        await add(store, "s", "first")
        late = (StoredMessage("late", "user", 1, 1, '"the raw text"'),)
        wire.lose_answer_to = lost
        result = await store.append(
            Append(namespace=NAMESPACE, session_id="s", messages=late, fresh=(True,), now=1, **more)
        )
        assert wire.lost == 1
        assert [(row.inserted, row.parent_id) for row in result.rows] == [(True, "first")]
        assert result.session.message_count == 2
        assert await ids_in(store, "s") == ["first", "late"]
        await store.close()


async def test_behind_a_transaction_pooler_no_statement_has_a_name(postgres_url: str) -> None:
    async with PostgresProxy(postgres_url) as wire:
        store = PostgresStore.from_url(f"{wire.url}&pooler=transaction")
        await asyncio.gather(*(add(store, f"s{number}", "first", "second") for number in range(8)))
        assert await ids_in(store, "s0") == ["first", "second"]
        await store.trees(NAMESPACE, ["s0"], find=["first"], family=True)
        await store.stats(StatsQuery(namespace=NAMESPACE))
        await store.close()
        assert wire.statement_names == {b""}


@dataclass
class Cart:
    item: str = ""


async def test_a_read_only_database_is_reported(store: PostgresStore, postgres_url: str) -> None:
    await add(store, "s", "m")
    await SessionManager(store).states(Cart).create("a", value=Cart("tea"))
    await store.close()
    connection = await asyncpg.connect(postgres_url)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    await connection.close()
    reading = PostgresStore.from_url(postgres_url)
    assert await ids_in(reading, "s") == ["m"]
    with pytest.raises(StoreReadOnlyError):
        await add(reading, "s", "n")
    states = SessionManager(reading).states(Cart)
    assert await states.get("a") == Cart("tea")
    with pytest.raises(StoreReadOnlyError):
        await states.set("a", Cart("milk"))
    await reading.close()


async def test_after_close_calls_are_refused_and_pending_ones_are_finished(
    store: PostgresStore, postgres_url: str
) -> None:
    await store.open()
    appends = [asyncio.create_task(add(store, f"s{number}", "m")) for number in range(20)]
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    assert all(result.rows[0].inserted for result in await asyncio.gather(*appends))
    with pytest.raises(StoreClosedError):
        await store.get(NAMESPACE, "s0")


# schema


async def test_a_role_that_may_only_use_the_schema_can_use_it(store: PostgresStore, postgres_url: str) -> None:
    await store.open()
    connection = await asyncpg.connect(postgres_url)
    role = "user_" + await connection.fetchval("SELECT md5(current_database())")
    await connection.execute(
        f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA frontdesk TO {role};"
        f"GRANT ALL ON ALL TABLES IN SCHEMA frontdesk TO {role};"
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA frontdesk TO {role}"
    )
    limited = PostgresStore.from_url(urlsplit(postgres_url)._replace(query=f"user={role}").geturl())
    await add(limited, "s", "m")
    assert await ids_in(limited, "s") == ["m"]
    await limited.close()
    await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    await connection.close()


WRITER = """
import asyncio, sys
from frontdesk.messages import StoredMessage
from frontdesk.store import Append
from frontdesk.stores.postgres import PostgresStore

async def main(url, name, number):
    store = PostgresStore.from_url(url)
    await asyncio.gather(*(
        store.append(Append(namespace="tests", session_id="s", now=1, fresh=(False,),
            messages=(StoredMessage(f"{name}-{n}", "user", 1, 1, "{}"),)))
        for n in range(number)
    ))
    await store.open()
    await store.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def run_processes(url: str, processes: int, appends: int) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, url, str(number), str(appends)]) for number in range(processes)
    ]
    assert [process.wait() for process in running] == [0] * processes


async def test_ten_processes_may_open_an_empty_database_at_once(store: PostgresStore, postgres_url: str) -> None:
    await asyncio.to_thread(run_processes, postgres_url, 10, 0)
    await add(store, "s", "m")
    assert await ids_in(store, "s") == ["m"]


async def test_eight_processes_append_to_one_session(store: PostgresStore, postgres_url: str) -> None:
    await asyncio.to_thread(run_processes, postgres_url, 8, 25)
    session = await store.get(NAMESPACE, "s")
    assert session is not None
    assert session.message_count == 200
    assert sorted(await ids_in(store, "s")) == sorted(f"{name}-{number}" for name in range(8) for number in range(25))
