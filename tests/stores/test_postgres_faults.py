"""PostgreSQL when answers are lost, servers stop and peers are silent: what calls report, and how long they take."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypedDict

import asyncpg
import pytest

from frontdesk import SessionManager
from frontdesk.errors import MessageTooLargeError, StoreError, StoreUnavailableError
from frontdesk.messages import StoredMessage
from frontdesk.store import Append, StateKey, StateWrite
from frontdesk.stores.postgres import PostgresStore
from frontdesk.testing.store_contract.steps import NAMESPACE, NOW, add, delete, delete_session, message, new, path
from tests.servers.proxy import PostgresProxy
from tests.waiting import PATIENCE, eventually, results_within


@pytest.fixture
async def proxy(postgres_url: str) -> AsyncIterator[PostgresProxy]:
    async with PostgresProxy(postgres_url) as proxy:
        yield proxy


@pytest.fixture
async def direct(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """The same database, without the proxy."""
    store = PostgresStore.from_url(postgres_url)
    yield store
    await store.close()


@pytest.fixture
async def store(proxy: PostgresProxy, direct: PostgresStore) -> AsyncIterator[PostgresStore]:
    """Gives up after two seconds."""
    await add(direct, "s", "first")  # without a limit, because the schema is created first
    store = PostgresStore.from_url(f"{proxy.url}&timeout=2")
    await store.open()
    yield store
    await store.close()


async def lose_connection_after(proxy: PostgresProxy, text: bytes) -> None:
    """The server stores what contains a text. The client gets no answer, and no connection any more."""

    async def refuse() -> None:
        proxy.stop_listening()
        proxy.cut()

    proxy.lose_answer_to, proxy.on_loss = text, refuse


# what may have happened


def append_of(text: str) -> Append:
    return Append(
        namespace=NAMESPACE,
        session_id="s",
        messages=(StoredMessage(f"id of {text}", "user", 1, NOW, text),),
        fresh=(True,),
        now=NOW,
    )


WRITES: dict[str, tuple[bytes, Callable[[PostgresStore], Awaitable[object]]]] = {
    "append": (b"the text", lambda store: store.append(append_of("the text"))),
    "append after a parent": (
        b"decided text",
        lambda store: add(store, "s", message("m1", "decided text"), "m2", parent="first"),
    ),
    "create": (b"the new one", lambda store: store.create(new("the new one"))),
    "state": (
        b"the value",
        lambda store: store.create_state(
            StateKey(NAMESPACE, "id", "name"), StateWrite(value="the value", mark="m", ttl=None)
        ),
    ),
    "transaction": (b"COMMIT", lambda store: delete(store, "s", "first")),
}


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_whose_answer_was_lost_may_have_happened(
    store: PostgresStore, proxy: PostgresProxy, name: str
) -> None:
    text, write = WRITES[name]
    await lose_connection_after(proxy, text)
    with pytest.raises(StoreUnavailableError, match="may have happened") as caught:
        await write(store)
    assert proxy.lost == 1
    assert caught.value.uncertain
    assert caught.value.details["uncertain"] is True


async def test_an_append_that_may_have_happened_can_be_repeated_with_the_ids_of_the_error(
    store: PostgresStore, proxy: PostgresProxy
) -> None:
    manager = SessionManager(store, namespace=NAMESPACE)
    await lose_connection_after(proxy, b"pay 100 EUR")
    with pytest.raises(StoreUnavailableError) as caught:
        await manager.append("s", {"role": "user", "content": "pay 100 EUR"})
    await proxy.up()
    [message_id] = caught.value.details["message_ids"]
    again = await manager.append("s", {"role": "user", "content": "pay 100 EUR"}, id=message_id)
    assert not again.inserted
    assert await path(store, "s") == ["first", message_id]


async def test_a_write_that_was_never_sent_has_not_happened(
    store: PostgresStore, proxy: PostgresProxy, direct: PostgresStore
) -> None:
    await proxy.down()
    for write in (store.append(append_of("x")), store.create(new("y")), delete(store, "s", "first")):
        with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:\d+/.* cannot be reached") as caught:
            await write
        assert not caught.value.uncertain
    assert await path(direct, "s") == ["first"]
    assert await direct.get(NAMESPACE, "y") is None


async def test_a_call_that_only_prepared_its_store_has_not_happened(proxy: PostgresProxy) -> None:
    """The answer that is lost is that to the first look at the schema, before anything of the call was sent."""
    for name in ("append", "create", "transaction", "read"):
        store = PostgresStore.from_url(f"{proxy.url}&timeout=1")
        await lose_connection_after(proxy, b"schema_version")
        write = WRITES[name][1] if name in WRITES else lambda store: store.get(NAMESPACE, "s")
        with pytest.raises(StoreUnavailableError) as caught:
            await write(store)
        assert not caught.value.uncertain, name
        await proxy.up()
        await store.close()


async def test_an_append_that_was_lost_before_its_role_lost_access_may_have_happened(
    proxy: PostgresProxy, postgres_url: str, store: PostgresStore
) -> None:
    admin = await asyncpg.connect(postgres_url)
    role = "role_" + await admin.fetchval("SELECT md5(current_database())")
    await admin.execute(f"CREATE ROLE {role} LOGIN SUPERUSER")
    limited = PostgresStore.from_url(proxy.url.replace("postgres@", f"{role}@"))
    await add(limited, "s", "second")

    async def lock_out() -> None:
        await admin.execute(f"ALTER ROLE {role} NOLOGIN")
        proxy.cut()

    proxy.lose_answer_to, proxy.on_loss = b"the text", lock_out
    with pytest.raises(StoreError, match="may have happened") as caught:
        await add(limited, "s", message("late", '"the text"'))
    assert caught.value.uncertain
    assert await path(store, "s") == ["first", "second", "late"]
    await limited.close()
    await admin.execute(f"DROP ROLE {role}")
    await admin.close()


READS: dict[str, Callable[[PostgresStore], Awaitable[object]]] = {
    "session": lambda store: store.get(NAMESPACE, "s"),
    "state": lambda store: store.get_state(StateKey(NAMESPACE, "id", "name")),
}


@pytest.mark.parametrize("name", READS)
async def test_a_read_never_may_have_happened(store: PostgresStore, proxy: PostgresProxy, name: str) -> None:
    proxy.freeze()
    with pytest.raises(StoreUnavailableError, match="in time") as caught:
        await READS[name](store)
    assert not caught.value.uncertain
    proxy.thaw()


async def test_an_append_in_a_turn_that_was_lost_after_it_is_answered_as_stored(
    store: PostgresStore, proxy: PostgresProxy, direct: PostgresStore
) -> None:
    manager, other = (SessionManager(each, namespace=NAMESPACE) for each in (store, direct))

    async def take_over() -> None:
        lease = await direct.get_lease(NAMESPACE, "s", "turn")
        assert lease is not None
        assert await direct.renew_lease(NAMESPACE, "s", "turn", lease.number, 0)
        assert await direct.acquire_lease(NAMESPACE, "s", "turn", "another", 60_000_000)

    async with manager.session("s").turn() as turn:
        proxy.lose_answer_to, proxy.on_loss = b"written in time", take_over
        appended = await turn.append({"role": "user", "content": "written in time"})
    assert proxy.lost == 1
    assert appended.inserted
    assert [m.text async for m in other.session("s").transcript()][1:] == ["written in time"]


@pytest.mark.parametrize("session_id", ["s", "made by the append"])
async def test_a_session_that_was_deleted_after_the_append_is_not_made_again(
    store: PostgresStore, proxy: PostgresProxy, direct: PostgresStore, session_id: str
) -> None:
    async def delete_it() -> None:
        if await direct.get(NAMESPACE, session_id) is None:
            proxy.lose_answer_to = b"the raw text"  # it was not made yet: that takes another statement
        else:
            await delete_session(direct, session_id)

    proxy.lose_answer_to, proxy.on_loss = b"the raw text", delete_it
    with pytest.raises(StoreUnavailableError, match="deleted since") as caught:
        await add(store, session_id, message("late", "the raw text"))
    assert caught.value.uncertain
    assert proxy.lost >= 1
    assert await direct.get(NAMESPACE, session_id) is None


async def test_a_message_that_was_deleted_after_the_append_is_not_stored_again(
    store: PostgresStore, proxy: PostgresProxy, direct: PostgresStore
) -> None:
    proxy.lose_answer_to = b"the raw text"
    proxy.on_loss = lambda: delete(direct, "s", "late")
    with pytest.raises(StoreUnavailableError, match="deleted since"):
        await add(store, "s", message("late", "the raw text"))
    assert await path(direct, "s") == ["first"]


class Cart(TypedDict):
    items: list[str]


async def test_an_update_that_another_replaced_before_it_was_sent_again_is_not_made_twice(
    store: PostgresStore, proxy: PostgresProxy, direct: PostgresStore
) -> None:
    here, there = (SessionManager(each, namespace=NAMESPACE).states(Cart, name="cart") for each in (store, direct))
    await there.set("ana", {"items": []})
    proxy.lose_answer_to = b"tea"
    proxy.on_loss = lambda: there.update("ana", lambda cart: {"items": [*cart["items"], "milk"]})
    with pytest.raises(StoreUnavailableError, match="may have happened") as caught:
        await here.update("ana", lambda cart: {"items": [*cart["items"], "tea"]})
    assert caught.value.uncertain
    assert await there.get("ana") == {"items": ["tea", "milk"]}


async def test_a_state_that_another_replaced_before_it_was_made_again_is_not_called_present(
    store: PostgresStore, proxy: PostgresProxy, direct: PostgresStore
) -> None:
    here, there = (SessionManager(each, namespace=NAMESPACE).states(Cart, name="cart") for each in (store, direct))
    proxy.lose_answer_to = b"tea"
    proxy.on_loss = lambda: there.set("ana", {"items": ["milk"]})
    with pytest.raises(StoreUnavailableError, match="may have happened") as caught:
        await here.create("ana", value={"items": ["tea"]})
    assert caught.value.uncertain


async def test_more_than_postgresql_takes_at_once_is_refused_before_anything_is_sent(store: PostgresStore) -> None:
    raw = "x" * 10_000_000
    messages = tuple(StoredMessage(f"m{number}", "user", 1, NOW, raw) for number in range(101))
    request = Append(namespace=NAMESPACE, session_id="s", messages=messages, fresh=(True,) * 101, now=NOW)
    with pytest.raises(MessageTooLargeError, match="in several calls"):
        await store.append(request)
    assert await path(store, "s") == ["first"]


# waiting inside the time limit


async def test_an_outage_that_is_shorter_than_the_time_limit_is_not_noticed(
    proxy: PostgresProxy, postgres_url: str
) -> None:
    store = PostgresStore.from_url(f"{proxy.url}&timeout={PATIENCE}")
    await add(store, "s", "first")
    for number in range(3):
        calls = [
            asyncio.create_task(call)
            for call in (
                *(add(store, f"s{session}", f"m{number}") for session in range(8)),
                *(store.view(NAMESPACE, "s") for _ in range(8)),
                add(store, "s", f"m{number}"),
            )
        ]
        await asyncio.sleep(0.001 * number)
        await proxy.down()
        calls += [asyncio.create_task(add(store, f"s{session}", f"n{number}")) for session in range(8)]
        await asyncio.sleep(0.2)
        assert not all(call.done() for call in calls)
        await proxy.up()
        await asyncio.gather(*calls)
    assert await path(store, "s") == ["first", "m0", "m1", "m2"]
    assert sorted(await path(store, "s7")) == ["m0", "m1", "m2", "n0", "n1", "n2"]
    await store.close()


async def test_killed_server_processes_are_not_noticed(direct: PostgresStore, postgres_url: str) -> None:
    await direct.open()
    killer = await asyncpg.connect(postgres_url)
    finished = False

    async def work(worker: int) -> None:
        number = 0
        while not finished:
            number += 1
            await add(direct, f"s{worker}", f"m{number}")
            assert len(await path(direct, f"s{worker}")) == number

    workers = [asyncio.create_task(work(worker)) for worker in range(6)]
    for _ in range(20):
        await killer.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        await asyncio.sleep(0.1)
    finished = True
    await asyncio.gather(*workers)
    await killer.close()


async def test_no_call_takes_longer_than_the_time_limit(store: PostgresStore, proxy: PostgresProxy) -> None:
    await asyncio.gather(*(store.get(NAMESPACE, "s") for _ in range(10)))
    proxy.freeze()
    # More than there are connections, so that some wait for one, and some for a batch.
    calls = [
        *(store.get(NAMESPACE, "s") for _ in range(15)),
        *(store.append(append_of(f"{number}")) for number in range(15)),
        *(delete(store, "s", "first") for _ in range(5)),
    ]
    failed = await results_within(3.5, calls)  # one that waited twice would need 4 seconds
    assert all(isinstance(each, StoreUnavailableError) for each in failed)
    proxy.thaw()
    assert await path(store, "s")


async def test_a_turn_that_cannot_be_taken_is_not_waited_for_twice(store: PostgresStore, proxy: PostgresProxy) -> None:
    """Once for the turn, and once to release it in case it was granted."""
    session = SessionManager(store, namespace=NAMESPACE).session("s")
    await session.head()
    proxy.freeze()
    [failed] = await results_within(3.5, [session.turn().__aenter__()])
    assert isinstance(failed, StoreUnavailableError)
    proxy.thaw()


async def test_calls_that_open_a_store_at_once_wait_no_longer_than_the_time_limit(proxy: PostgresProxy) -> None:
    proxy.freeze()
    store = PostgresStore.from_url(f"{proxy.url}&timeout=1")
    calls = [store.append(append_of(f"{number}")) for number in range(10)]
    reads = [store.get(NAMESPACE, "s") for _ in range(5)]
    failed = await results_within(4, [*calls, *reads])  # one after the other they would need 10 seconds
    assert all(isinstance(each, StoreUnavailableError) and not each.uncertain for each in failed)
    proxy.thaw()
    await store.close()


async def test_cancelled_calls_leave_nothing_in_the_log(
    direct: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "asyncio")
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    await add(direct, "s", "first")
    for round in range(30):
        calls = [
            asyncio.ensure_future(call)
            for call in (
                add(direct, "s", f"m{round}"),
                direct.view(NAMESPACE, "s"),
                delete(direct, "s", f"m{round - 1}"),
                direct.create(new(f"s{round}")),
            )
        ]
        await asyncio.sleep(0.001 * (round % 7))
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    await add(direct, "s", "last")
    await direct.close()
    assert reported == []
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    await direct.open()


def test_a_manager_whose_loop_ends_leaves_nothing_open(postgres_url: str) -> None:
    async def use() -> None:
        manager = SessionManager(postgres_url)
        await manager.append("s", {"role": "user", "content": "hello"})

    asyncio.run(use())


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # the driver says so
async def test_managers_that_are_dropped_without_close_leave_no_connections(postgres_url: str) -> None:
    async def use_and_forget() -> None:
        manager = SessionManager(postgres_url)
        await asyncio.gather(*(manager.append(f"s{n}", {"role": "user", "content": "hello"}) for n in range(5)))
        await manager._runtime.store.wait_for_change(0.1)  # which opens a connection that listens

    counting = await asyncpg.connect(postgres_url)

    async def none_is_open() -> bool:
        gc.collect()
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return bool(await counting.fetchval(f"SELECT count(*) = 0 {others}"))

    for _ in range(3):
        await use_and_forget()
    await eventually(none_is_open)
    await counting.close()
