"""One time limit for a call that asks its store several times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import apsw
import pytest

from frontdesk import ConcurrentChangeError, SessionKey, SessionManager, StoreUnavailableError
from frontdesk.calls import call
from frontdesk.config.background import Background
from frontdesk.deadlines import began, is_in_call, leave_out, not_counted, one_call
from frontdesk.store import DocumentName, DocumentRow, Owner, Plan, StateKey, StateRow, StateWrite
from frontdesk.stores.memory import MemoryStore
from frontdesk.stores.postgres import PostgresStore
from frontdesk.stores.redis import RedisStore
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.testing.store_contract.steps import NAMESPACE, new
from tests.waiting import PATIENCE

T = TypeVar("T")


class Cart(TypedDict):
    count: int


class Overtaken(MemoryStore):
    """While it is `contested`, another writer is first whenever something is written."""

    timeout = 0.2
    contested = False

    async def apply(self, plan: Plan) -> bool:
        return not self.contested and await super().apply(plan)

    async def put_document(self, namespace: str, owner: Owner, document: DocumentRow, **options: Any) -> bool:
        return not self.contested and await super().put_document(namespace, owner, document, **options)

    async def rewrite_document(self, *given: Any, **options: Any) -> bool:
        return not self.contested and await super().rewrite_document(*given, **options)

    async def replace_state(self, key: StateKey, write: StateWrite, seen: str) -> StateRow | None:
        return None if self.contested else await super().replace_state(key, write, seen)


async def test_a_write_that_others_overtake_every_time_ends_with_the_time_limit_and_changes_nothing() -> None:
    store = Overtaken()
    manager = SessionManager(store).with_context("notes")
    session, states = manager.session("chat"), manager.states(Cart, name="cart")
    await session.append({"id": "m1", "role": "user", "content": "before"})
    await session.replace_context_block("notes", "before")
    await session.set_system_prompt("before")
    await states.set("chat", {"count": 1})
    store.contested = True
    writes: list[Awaitable[object]] = [
        session.rename("after"),
        session.update_message({"id": "m1", "role": "user", "content": "after"}),
        session.replace_context_block("notes", "after"),
        session.append_context_block("notes", "after"),
        session.restore_context_block("notes", 1),
        session.forget_block_history("notes"),
        session.set_system_prompt("after"),
        states.set("chat", {"count": 2}),
        states.update("chat", lambda cart: {"count": 2}),
    ]
    async with asyncio.timeout(PATIENCE):
        for write in writes:
            with pytest.raises(ConcurrentChangeError, match=r"others \d+ times in a row, and nothing was written"):
                await write
    assert [message.text for message in await session.history()] == ["before"]
    assert (await session.context_block("notes")).content == "before"
    assert await states.get("chat") == {"count": 1}


async def test_what_a_users_function_takes_is_not_counted() -> None:
    seconds = 0.0

    async def think() -> None:
        nonlocal seconds
        assert not is_in_call()
        started = time.monotonic()
        await asyncio.sleep(0.01)
        seconds = time.monotonic() - started

    @one_call
    async def ask() -> float:
        before = began()
        await call(think)
        return began() - before

    assert await ask() >= seconds > 0


async def test_an_update_may_take_longer_than_its_store() -> None:
    store = Overtaken()
    states = SessionManager(store).states(Cart, name="cart")
    await states.set("chat", {"count": 1})

    async def think(cart: Cart) -> Cart:
        await asyncio.sleep(2 * store.timeout)
        return {"count": cart["count"] + 1}

    assert await states.update("chat", think) == {"count": 2}


async def test_the_functions_of_the_updates_before_are_not_counted_either() -> None:
    counted_from: list[float] = []
    took: list[float] = []

    class Noting(MemoryStore):
        async def replace_state(self, key: StateKey, write: StateWrite, seen: str) -> StateRow | None:
            counted_from.append(began())
            return await super().replace_state(key, write, seen)

    async def think(cart: Cart) -> Cart:
        started = time.monotonic()
        await asyncio.sleep(0.01)
        took.append(time.monotonic() - started)
        return {"count": cart["count"] + 1}

    def think_quickly(cart: Cart) -> Cart:
        started = time.monotonic()
        time.sleep(0.01)
        took.append(time.monotonic() - started)
        return {"count": cart["count"] + 1}

    states = SessionManager(Noting()).states(Cart, name="cart")
    await states.set("chat", {"count": 0})
    started = time.monotonic()
    await asyncio.gather(*(states.update("chat", each) for each in (think, think_quickly, think)))
    # An update whose function takes longer than this lets the others go first.
    assert counted_from[-1] - started >= sum(min(each, 0.05) for each in took)


class Noted(MemoryStore):
    """Notes for each task whether its requests are part of a call."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: dict[asyncio.Future[Any] | None, list[bool]] = {}

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if iscoroutinefunction(value) and not name.startswith("_"):
            self.requests.setdefault(asyncio.current_task(), []).append(is_in_call())
        return value


CALLS: dict[str, Callable[[SessionManager], Awaitable[object]]] = {
    "append to a key without a session": lambda manager: manager.append(
        SessionKey("desk", "web", "ana"), {"role": "user", "content": "hello"}
    ),
    "history": lambda manager: manager.session(SessionKey("desk", "web", "eve")).history(format="openai"),
    "prepare": lambda manager: manager.session("chat").prepare("openai"),
    "search": lambda manager: manager.search("hello"),
    "search in a session": lambda manager: manager.session("chat").search("hello"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_all_requests_of_a_call_are_part_of_it(name: str) -> None:
    store = Noted()
    async with SessionManager(store).with_context("notes").with_cached_prompt() as manager:
        for session in ("chat", SessionKey("desk", "web", "eve")):
            await manager.append(session, {"role": "user", "content": "hello"})
        task = asyncio.ensure_future(CALLS[name](manager))
        await task
    assert store.requests[task]
    assert all(store.requests[task])


async def test_background_work_is_not_part_of_the_call_that_starts_it() -> None:
    inherited: list[bool] = []

    async def work() -> None:
        inherited.append(is_in_call())

    @one_call
    async def start() -> None:
        await Background().spawn(work(), "work")

    await start()
    assert inherited == [False]


async def test_a_task_that_outlives_its_call_has_a_time_limit_of_its_own() -> None:
    is_over = asyncio.Event()

    async def work() -> bool:
        assert is_in_call()
        await is_over.wait()
        return is_in_call()

    @one_call
    async def start() -> asyncio.Task[bool]:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        return task

    task = await start()
    is_over.set()
    assert not await task


# each store counts from when the call began


@one_call
async def after(seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    """Do some work that begins when so much of the time of the call is over."""
    leave_out(-seconds)
    with pytest.raises(StoreUnavailableError, match="nothing was written") as caught:
        await work()
    assert not caught.value.uncertain


async def outside(work: Awaitable[T]) -> T:
    """Do some work as another call."""
    with not_counted():
        return await work


async def test_postgres_is_not_asked_when_the_time_is_over(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.open()
    name = DocumentName(Owner("namespace"), "notes")
    await store.get_documents(NAMESPACE, [name])
    await after(store.timeout, lambda: store.get_documents(NAMESPACE, [name]))
    await store.get_documents(NAMESPACE, [name])
    await store.close()


async def test_redis_is_not_asked_when_the_time_is_over(redis_url: str) -> None:
    store = RedisStore(redis_url)
    key = StateKey(NAMESPACE, "chat", "cart")
    await store.get_state(key)
    await after(store.timeout, lambda: store.get_state(key))
    assert await store.get_state(key) is None
    await store.close()


async def test_on_sqlite_the_call_that_began_first_gives_up_waiting_for_a_lock_first(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    store = SQLiteStore(path, busy_timeout=PATIENCE)
    await store.create(new("first"))
    other = apsw.Connection(path)
    other.execute("BEGIN IMMEDIATE")
    later: list[asyncio.Task[object]] = []

    async def write() -> None:
        later.append(asyncio.create_task(outside(store.create(new("later")))))
        await asyncio.sleep(0)
        await store.create(new("late"))

    await after(PATIENCE, write)
    assert not later[0].done()
    other.execute("ROLLBACK")
    await later[0]
    assert await store.get(NAMESPACE, "late") is None
    await store.close()
    other.close()
