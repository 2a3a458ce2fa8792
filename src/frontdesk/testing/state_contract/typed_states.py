"""What `manager.states(...)` promises to its users, over the store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from frontdesk.errors import (
    InvalidIdError,
    InvalidStateError,
    StateExistsError,
    StateMismatchError,
    StateNotFoundError,
)
from frontdesk.manager.manager import SessionManager
from frontdesk.states import States
from frontdesk.store import StateKey, StateStore, StateWrite
from frontdesk.testing.state_contract.steps import MILLISECOND, pass_time


@dataclass
class Basket:
    owner: str = ""
    count: int = 0
    weight: float = 0.0
    items: list[str] = field(default_factory=list)


def add_one(basket: Basket) -> Basket:
    return replace(basket, count=basket.count + 1)


class TypedStateContract:
    @pytest.fixture
    async def manager(self, namespace: str) -> AsyncIterator[SessionManager]:
        async with SessionManager("memory://", namespace=namespace) as manager:
            yield manager

    @pytest.fixture
    def states(self, manager: SessionManager, store: StateStore) -> States[Basket]:
        return manager.states(Basket, default=lambda id: Basket(owner=id), store=store)

    async def test_a_new_state_has_the_default_value_and_an_id(self, states: States[Basket]) -> None:
        id, basket = await states.create()
        assert basket == Basket(owner=id)
        assert await states.get(id) == basket
        assert (await states.create())[0] != id

    async def test_creating_an_existing_state_raises_and_keeps_the_first(self, states: States[Basket]) -> None:
        await states.create("chat")
        await states.update("chat", add_one)
        with pytest.raises(StateExistsError, match="'chat'"):
            await states.create("chat")
        assert await states.get("chat") == Basket("chat", 1)

    async def test_many_concurrent_get_or_create_calls_get_one_state(
        self, manager: SessionManager, store: StateStore
    ) -> None:
        numbers = iter(range(1000))
        states = manager.states(Basket, default=lambda id: Basket(id, next(numbers)), store=store)
        found = await asyncio.gather(*(states.get_or_create("chat") for _ in range(40)))
        assert found == [await states.get("chat")] * 40
        assert (await states.info("chat")).version == 1

    async def test_of_two_concurrent_create_calls_one_succeeds(self, states: States[Basket]) -> None:
        for number in range(10):
            made = await asyncio.gather(*(states.create(f"chat{number}") for _ in range(2)), return_exceptions=True)
            assert [type(each) for each in made].count(StateExistsError) == 1

    async def test_200_tasks_lose_no_increment(self, states: States[Basket]) -> None:
        await states.create("chat")
        baskets = await asyncio.gather(*(states.update("chat", add_one) for _ in range(200)))
        assert sorted(basket.count for basket in baskets) == list(range(1, 201)), (
            "each sees the state that its change made"
        )
        assert (await states.info("chat")).version == 201

    async def test_threads_with_their_own_event_loops_lose_no_increment(self, states: States[Basket]) -> None:
        await states.create("chat")
        failures: list[BaseException] = []

        async def work() -> None:
            await asyncio.gather(*(states.update("chat", add_one) for _ in range(25)))

        def run() -> None:
            try:
                asyncio.run(work())
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert failures == []
        assert await states.get("chat") == Basket("chat", 200)

    async def test_increments_survive_concurrent_reads_touches_and_deletes_of_other_states(
        self, states: States[Basket]
    ) -> None:
        await states.create("chat")

        async def disturb(number: int) -> None:
            await states.get("chat")
            await states.touch("chat")
            await states.get_or_create(f"other{number}")
            await states.delete(f"other{number}")

        await asyncio.gather(
            *(states.update("chat", add_one) for _ in range(50)), *(disturb(number) for number in range(50))
        )
        assert await states.get("chat") == Basket("chat", 50)

    async def test_an_async_update_function_may_be_slow(self, states: States[Basket]) -> None:
        await states.create("chat")

        async def slowly(basket: Basket) -> Basket:
            await asyncio.sleep(0.002)
            return add_one(basket)

        await asyncio.gather(*(states.update("chat", slowly) for _ in range(20)))
        assert await states.get("chat") == Basket("chat", 20)

    async def test_an_update_that_was_overtaken_runs_again_on_the_current_value(
        self, states: States[Basket], manager: SessionManager, store: StateStore
    ) -> None:
        other = manager.states(Basket, store=store)
        await states.create("chat")
        seen: list[int] = []

        async def overtaken(basket: Basket) -> Basket:
            seen.append(basket.count)
            if len(seen) == 1:
                await from_another_thread(lambda: other.update("chat", lambda basket: replace(basket, count=10)))
            return add_one(basket)

        assert (await states.update("chat", overtaken)).count == 11
        assert seen == [0, 10]

    async def test_an_exception_in_an_update_function_is_raised_and_nothing_is_written(
        self, states: States[Basket]
    ) -> None:
        await states.create("chat")

        def refuse(basket: Basket) -> Basket:
            basket.count = 99
            raise PermissionError("no")

        with pytest.raises(PermissionError, match="no"):
            await states.update("chat", refuse)
        assert await states.get("chat") == Basket("chat")
        assert (await states.update("chat", add_one)).count == 1

    async def test_an_update_works_on_the_stored_value_and_not_on_a_cached_one(
        self, states: States[Basket], namespace: str, store: StateStore
    ) -> None:
        """Another process changed or removed the state since this one wrote it."""

        def take(basket: Basket) -> Basket:
            if basket.count == 0:
                raise LookupError("sold out")
            return replace(basket, count=basket.count - 1)

        async with SessionManager("memory://", namespace=namespace) as elsewhere:
            other = elsewhere.states(Basket, store=store)
            await states.create("chat")
            await states.update("chat", lambda basket: replace(basket, count=0))
            await other.update("chat", lambda basket: replace(basket, count=5))
            assert (await states.update("chat", take)).count == 4
            await other.update("chat", lambda basket: replace(basket, count=0))
            with pytest.raises(LookupError):
                await states.update("chat", take)
            await states.update("chat", add_one)
            await other.delete("chat")
            with pytest.raises(StateNotFoundError):
                await states.update("chat", add_one)
            await states.create("chat")
            assert (await states.update("chat", add_one)).count == 1

    async def test_changing_a_returned_value_does_not_change_the_stored_one(self, states: States[Basket]) -> None:
        basket = await states.get_or_create("chat")
        basket.items.append("mine")
        kept: list[Basket] = []

        def keep(basket: Basket) -> Basket:
            kept.append(basket)
            return basket

        updated = await states.update("chat", keep)
        kept[0].items.append("later")
        updated.items.append("later still")
        assert await states.get("chat") == Basket("chat")

    async def test_an_invalid_state_is_refused_and_nothing_is_written(self, states: States[Basket]) -> None:
        await states.create("chat")
        bad: list[object] = [None, {}, Basket(count="three"), Basket(weight=float("nan")), Basket(owner="\ud800")]  # type: ignore[arg-type]
        for value in bad:
            with pytest.raises(InvalidStateError, match="'chat'"):
                await states.update("chat", lambda basket, value=value: value)  # type: ignore[misc]
        assert (await states.info("chat")).version == 1

    async def test_calls_for_a_missing_state_raise_not_found(self, states: States[Basket]) -> None:
        assert await states.get("chat") is None
        assert not await states.delete("chat")
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: states.update("chat", add_one),
            lambda: states.touch("chat"),
            lambda: states.info("chat"),
        ]
        for call in calls:
            with pytest.raises(StateNotFoundError, match="'chat'"):
                await call()
        assert await states.get("chat") is None

    async def test_an_update_concurrent_with_a_delete_does_not_restore_the_state(self, states: States[Basket]) -> None:
        await states.create("chat")

        async def deleted_meanwhile(basket: Basket) -> Basket:
            assert await states.delete("chat")
            return add_one(basket)

        with pytest.raises(StateNotFoundError):
            await states.update("chat", deleted_meanwhile)
        assert await states.get("chat") is None

    async def test_a_state_has_its_given_ttl(self, states: States[Basket]) -> None:
        await states.create("short", ttl=timedelta(milliseconds=90_500))
        await states.create("usual")
        await states.update("short", add_one)
        await states.get("short")
        short, usual = await states.info("short"), await states.info("usual")
        assert short.expires_at is not None
        assert usual.expires_at is not None
        assert short.expires_at - short.last_accessed_at == timedelta(milliseconds=90_500)
        assert usual.expires_at - usual.last_accessed_at == timedelta(minutes=30)

    async def test_milliseconds_are_a_valid_ttl_and_none_means_for_ever(
        self, states: States[Basket], manager: SessionManager, store: StateStore
    ) -> None:
        await states.create("chat", ttl=timedelta(milliseconds=3))
        await pass_time(6 * MILLISECOND)
        assert await states.get("chat") is None
        for_ever = manager.states(Basket, name="kept", ttl=None, store=store)
        await for_ever.create("chat")
        assert (await for_ever.info("chat")).expires_at is None

    async def test_an_expired_state_can_be_created_again(self, states: States[Basket]) -> None:
        await states.create("chat", ttl=timedelta(milliseconds=2))
        await pass_time(5 * MILLISECOND)
        assert await states.get_or_create("chat") == Basket("chat")
        await states.create("other", ttl=timedelta(milliseconds=2))
        await pass_time(5 * MILLISECOND)
        assert (await states.create("other"))[1] == Basket("other")

    async def test_names_and_namespaces_do_not_mix(
        self, states: States[Basket], manager: SessionManager, store: StateStore, namespace: str
    ) -> None:
        await states.create("chat")
        assert await manager.states(Basket, name="other", store=store).get("chat") is None
        async with SessionManager("memory://", namespace=f"{namespace}2") as other:
            assert await other.states(Basket, store=store).get("chat") is None

    async def test_deleting_a_session_deletes_its_states_in_other_stores(
        self, states: States[Basket], manager: SessionManager, store: StateStore
    ) -> None:
        carts = manager.states(Basket, name="carts", store=store)
        for id in ("chat", "kept", "no session"):
            await states.create(id)
            await carts.create(id)
        await manager.create(id="chat")
        await manager.create(id="kept")
        assert await manager.delete("chat")
        assert not await manager.delete("no session")
        assert [await carts.get(id) for id in ("chat", "no session")] == [None, None]
        assert [await states.get(id) for id in ("chat", "no session")] == [None, None]
        assert await states.get("kept")

    async def test_a_stored_value_that_does_not_fit_the_type_is_reported_and_kept(
        self, states: States[Basket], store: StateStore, namespace: str
    ) -> None:
        key = StateKey(namespace, "chat", "sessions")
        await store.create_state(key, StateWrite('{"count": "the secret"}', "x", None))
        for call in (states.get("chat"), states.update("chat", add_one), states.get_or_create("chat")):
            with pytest.raises(StateMismatchError, match="'chat'") as raised:
                await call
            assert "the secret" not in str(raised.value)
        row = await store.peek_state(key)
        assert row is not None
        assert row.value == '{"count": "the secret"}'

    async def test_invalid_ids_are_refused(self, states: States[Basket]) -> None:
        for id in ("", "x" * 513, "a\0b", "\ud800", 7):
            with pytest.raises(InvalidIdError):
                await states.get_or_create(id)  # type: ignore[arg-type]


async def from_another_thread(call: Callable[[], Awaitable[object]]) -> None:
    """Call from an event loop in another thread, which does not share the queue of this one."""

    async def run() -> None:
        await call()

    await asyncio.to_thread(lambda: asyncio.run(run()))
