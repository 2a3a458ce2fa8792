"""Peers that do not answer: a worker that is stopped, hosts that are dead, and transactions that nobody ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from frontdesk import SessionManager
from frontdesk.errors import StoreReadOnlyError, StoreUnavailableError
from frontdesk.stores.bell import Bell
from frontdesk.stores.postgres import PostgresStore, notices
from frontdesk.stores.postgres.connection import IDLE_SECONDS
from frontdesk.stores.postgres.hosts import Hosts
from frontdesk.testing.store_contract.change_log import settled
from frontdesk.testing.store_contract.steps import NAMESPACE, add, path
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy
from tests.servers.replicas import Standby
from tests.waiting import eventually

TCP_OPTIONS = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.from_url(postgres_url)
    yield store
    await store.close()


# stopped workers and forgotten transactions


async def test_a_worker_that_is_stopped_inside_a_transaction_holds_up_others_for_seconds(
    store: PostgresStore, postgres_url: str
) -> None:
    await add(store, "s", "m0")
    before = (await settled(store, 2))[-1].position
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.stores.frozen_worker", postgres_url],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert worker.stdout is not None
    assert await asyncio.to_thread(worker.stdout.readline) == b"inside\n"
    started = asyncio.get_running_loop().time()
    await add(store, "s", "m1")  # waits for the lock of the stopped worker
    await add(store, "other", "m0")
    [*_, last] = await settled(store, 3, before)
    waited = asyncio.get_running_loop().time() - started
    worker.send_signal(signal.SIGCONT)
    assert await asyncio.to_thread(worker.wait) != 0  # its transaction was not committed
    worker.stdout.close()
    assert last.session_id == "other"
    assert await path(store, "s") == ["m0", "m1"]
    assert waited < IDLE_SECONDS + 5


async def test_the_statistics_say_what_events_wait_for(
    postgres: PostgresServer, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A transaction that somebody forgot in another database of the server."""
    elsewhere = postgres.create_database()
    forgotten = await asyncpg.connect(elsewhere, server_settings={"application_name": "nightly report"})
    await forgotten.execute("BEGIN; SELECT pg_current_xact_id()")
    async with SessionManager(postgres_url) as manager:
        await manager.append("s", {"role": "user", "content": "hello"})

        async def is_late() -> bool:
            return (await manager.stats()).event_lag > 5

        await eventually(is_late)
        stats = await manager.stats()
        assert stats.event_lag_cause is not None
        assert f"database {elsewhere.rsplit('/')[-1]} (nightly report), idle in transaction" in stats.event_lag_cause
        warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert any("nightly report" in warning for warning in warnings)
        await forgotten.close()

        async def is_settled() -> bool:
            return (await manager.stats()).event_lag == 0

        await eventually(is_settled)
        assert (await manager.stats()).event_lag_cause is None
    postgres.drop_database(elsewhere)


# several hosts


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port that accepts no connection, and refuses none: its queue is full."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


async def test_the_first_host_that_can_be_reached_is_used(postgres_url: str, black_hole: int) -> None:
    server, _, database = postgres_url.removeprefix("postgresql://postgres@").partition("/")
    url = f"postgresql://postgres@127.0.0.1:{black_hole},127.0.0.1:9,{server}/{database}?connect_timeout=1"
    store = PostgresStore.from_url(url)
    await asyncio.gather(*(add(store, f"s{number}", "m") for number in range(5)))
    assert await path(store, "s4") == ["m"]
    await store.close()


async def test_a_host_that_became_silent_is_left(postgres_url: str) -> None:
    """The connections to it are idle: no statement is lost. The server behind both hosts is the same."""
    async with Proxy(postgres_url) as first, Proxy(postgres_url) as second:
        database = postgres_url.rsplit("/", 1)[1]
        hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
        store = PostgresStore.from_url(f"postgresql://postgres@{hosts}/{database}?sslmode=disable&connect_timeout=1")
        await add(store, "s", "m0")
        await first.down()
        await add(store, "s", "m1")
        await second.down()
        await first.up()
        await add(store, "s", "m2")
        assert await path(store, "s") == ["m0", "m1", "m2"]
        await store.close()


async def test_a_connection_ends_seconds_after_its_peer_has_disappeared(postgres_url: str) -> None:
    """The operating system does that: a test cannot make packets disappear, so it looks at what was asked for."""
    connection = await Hosts(postgres_url, (), seconds=5, settings={}, direct=True).connect()
    peer = connection._transport.get_extra_info("socket")  # type: ignore[attr-defined]
    options = {name: peer.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in TCP_OPTIONS}
    await connection.close()
    silent = options["TCP_KEEPIDLE"] + options["TCP_KEEPINTVL"] * options["TCP_KEEPCNT"]
    assert 0 < silent <= 15, "without data in flight"
    assert 0 < options["TCP_USER_TIMEOUT"] <= 15_000, "with data in flight, in milliseconds"


async def test_the_primary_is_found_after_a_failover() -> None:
    with PostgresServer() as primary:
        source = primary.create_database()
        first = PostgresStore.from_url(source)
        await add(first, "s", "m0")  # so that the standby has the tables from its beginning
        await first.close()
        with Standby(primary) as standby:
            copy = standby.url_of(source)
            hosts = ",".join(url.removeprefix("postgresql://postgres@").split("/")[0] for url in (copy, source))
            store = PostgresStore.from_url(
                f"postgresql://postgres@{hosts}/{source.rsplit('/', 1)[1]}?connect_timeout=2"
            )
            await add(store, "s", "m1")  # by the second host: the first is a standby

            reading = PostgresStore.from_url(copy)

            async def is_copied() -> bool:
                found = await reading.get(NAMESPACE, "s")
                return found is not None and found.message_count == 2

            await eventually(is_copied)
            with pytest.raises(StoreReadOnlyError):
                await add(reading, "s", "refused")
            await reading.close()
            await asyncio.to_thread(primary.halt)
            writing = [asyncio.create_task(add(store, "s", f"m{number}")) for number in (2, 3)]
            await asyncio.sleep(0.5)
            assert not any(task.done() for task in writing)
            await asyncio.to_thread(standby.promote)
            await asyncio.gather(*writing)
            assert sorted(await path(store, "s")) == ["m0", "m1", "m2", "m3"]
            await store.close()


async def test_without_a_primary_the_error_says_so_and_the_log_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_CONNECT_AGAIN", 0.0)
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    with PostgresServer() as primary:
        source = primary.create_database()
        async with SessionManager(source) as manager:
            await manager.append("s", {"role": "user", "content": "hello"})
            with Standby(primary) as standby:
                url = f"{standby.url_of(source)}?target_session_attrs=primary&timeout=1"
                store = PostgresStore.from_url(url)
                with pytest.raises(StoreUnavailableError, match="target_session_attrs"):
                    await store.get("default", "s")
                await store.close()
                hosts = Hosts(url.partition("&")[0], (), seconds=5, settings={}, direct=True)
                listening = notices.Notices(Bell(), "channel", hosts.connect, hosts.connect)
                for _ in range(5):
                    await listening.wait(0.1)
                gc.collect()
                await listening.close()
    assert unhandled == []
