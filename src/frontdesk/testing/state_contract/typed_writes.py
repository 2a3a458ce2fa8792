"""What `manager.states(...)` promises about values that are set, created by an update, listed, owned and migrated."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from frontdesk.errors import (
    ConfigurationError,
    InvalidCursorError,
    InvalidInputError,
    InvalidKeyError,
    InvalidStateError,
    StateMismatchError,
)
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.states import States
from frontdesk.store import StateStore
from frontdesk.testing.state_contract.steps import MILLISECOND, pass_time
from frontdesk.testing.state_contract.typed_states import Basket, add_one

ADA = SessionKey("bot", "web", "ada")


class TypedWriteContract:
    async def test_a_state_can_be_created_with_a_value(self, states: States[Basket]) -> None:
        id, basket = await states.create(value=Basket("ada", 3))
        assert basket == await states.get(id) == Basket("ada", 3)
        with pytest.raises(InvalidStateError):
            await states.create(value={"owner": "ada"})  # type: ignore[arg-type]

    async def test_never_can_be_asked_for_one_state(self, states: States[Basket]) -> None:
        await states.create("kept", ttl=None)
        assert (await states.info("kept")).expires_at is None
        await states.update("kept", add_one)
        assert (await states.info("kept")).expires_at is None, "an update keeps the time-to-live"

    async def test_set_creates_or_replaces(self, states: States[Basket]) -> None:
        await states.set("chat", Basket("ada", 1))
        assert await states.get("chat") == Basket("ada", 1)
        await states.set("chat", Basket("ben", 2))
        assert await states.get("chat") == Basket("ben", 2)
        assert (await states.info("chat")).version == 2
        with pytest.raises(InvalidStateError):
            await states.set("chat", None)  # type: ignore[arg-type]

    async def test_set_keeps_the_time_to_live_unless_one_is_given(self, states: States[Basket]) -> None:
        async def ttl() -> timedelta | None:
            info = await states.info("chat")
            return None if info.expires_at is None else info.expires_at - info.last_accessed_at

        await states.set("chat", Basket())
        assert await ttl() == timedelta(minutes=30)
        await states.set("chat", Basket(), ttl=timedelta(hours=8))
        await states.set("chat", Basket("changed"))
        assert await ttl() == timedelta(hours=8)
        await states.set("chat", Basket(), ttl=None)
        assert await ttl() is None
        await states.set("chat", Basket(), ttl=timedelta(milliseconds=1))
        await pass_time(4 * MILLISECOND)
        assert await states.get("chat") is None
        with pytest.raises(InvalidInputError, match="ttl"):
            await states.set("chat", Basket(), ttl=timedelta(0))

    async def test_concurrent_sets_and_updates_lose_no_update(self, states: States[Basket]) -> None:
        await states.set("chat", Basket())
        await asyncio.gather(
            *(states.update("chat", add_one) for _ in range(20)),
            *(states.set(f"other{number % 3}", Basket(count=number)) for number in range(20)),
        )
        assert await states.get("chat") == Basket(count=20)
        assert await states.count() == 4

    async def test_an_update_can_create(self, states: States[Basket]) -> None:
        assert await states.update("chat", add_one, create=True) == Basket("chat", 1)
        assert await states.update("chat", add_one, create=True) == Basket("chat", 2)

    async def test_200_updates_that_create_lose_nothing_and_seldom_run_again(self, states: States[Basket]) -> None:
        calls = 0

        async def count(basket: Basket) -> Basket:
            nonlocal calls
            calls += 1
            await asyncio.sleep(0)
            return add_one(basket)

        await asyncio.gather(*(states.update("chat", count, create=True) for _ in range(200)))
        assert await states.get("chat") == Basket("chat", 200)
        assert calls < 400, "no storm of repetitions"

    async def test_an_update_function_that_waits_does_not_hold_up_other_updates(self, states: States[Basket]) -> None:
        await states.create("chat")
        passed = asyncio.Event()
        seen: list[int] = []

        async def wait(basket: Basket) -> Basket:
            seen.append(basket.count)
            await passed.wait()
            return replace(basket, items=[*basket.items, "waited"])

        waiting = asyncio.ensure_future(states.update("chat", wait))
        for _ in range(5):
            await states.update("chat", add_one)
        assert not waiting.done()
        passed.set()
        assert (await waiting) == Basket("chat", 5, items=["waited"])
        assert seen[0] <= 5
        assert seen[-1] == 5, "computed again from the state as it is now"

    async def test_a_waiting_update_can_be_cancelled(self, states: States[Basket]) -> None:
        await states.create("chat")
        began = asyncio.Event()

        async def wait(basket: Basket) -> Basket:
            began.set()
            await asyncio.Event().wait()
            return basket

        for others in (0, 3):
            began.clear()
            waiting = asyncio.ensure_future(states.update("chat", wait))
            await began.wait()
            for _ in range(others):
                await states.update("chat", add_one)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert (await states.update("chat", add_one)).count == 4

    async def test_a_list_has_every_state_once_in_pages(self, states: States[Basket]) -> None:
        ids = sorted(f"{kind}:{number}" for kind in ("user%", "user_", "group") for number in range(7))
        for id in ids:
            await states.create(id, owner=ADA)
        await states.create("gone", ttl=timedelta(milliseconds=1))
        await pass_time(4 * MILLISECOND)
        found: list[str] = []
        cursor = None
        while True:
            page = await states.list(limit=4, cursor=cursor)
            found += [info.id for info in page]
            cursor = page.next_cursor
            if cursor is None:
                break
            await states.update(found[0], add_one)
        assert found == ids
        [first, *_] = await states.list(limit=1)
        assert (first.owner, first.version, first.name) == (ADA, 7 - 1, "sessions")
        assert [info.id for info in await states.list(prefix="user%")] == [id for id in ids if "%" in id]
        assert len(await states.list(prefix="nobody")) == 0
        assert await states.count() == len(ids)

    async def test_a_cursor_belongs_to_its_list(self, states: States[Basket]) -> None:
        for number in range(3):
            await states.create(f"chat{number}")
        cursor = (await states.list(limit=1)).next_cursor
        assert cursor is not None
        with pytest.raises(InvalidCursorError):
            await states.list(prefix="c", cursor=cursor)
        for limit in (0, 1001, None, "3"):
            with pytest.raises(InvalidInputError, match="limit"):
                await states.list(limit=limit)  # type: ignore[arg-type]

    async def test_clearing_removes_all_states_of_the_name(
        self, states: States[Basket], manager: SessionManager, store: StateStore
    ) -> None:
        other = manager.states(Basket, name="other", store=store)
        await other.create("chat0")
        for number in range(5):
            await states.create(f"chat{number}")
        assert await states.clear() == 5
        assert await states.count() == 0
        assert await states.clear() == 0
        assert await other.count() == 1

    async def test_an_owner_is_given_by_every_write_and_kept_by_the_others(self, states: States[Basket]) -> None:
        ben = SessionKey("bot", "web", "ben", "t")
        await states.create("created", owner=ADA)
        await states.get_or_create("got", owner=ADA)
        await states.update("updated", add_one, create=True, owner=ADA)
        await states.set("set", Basket(), owner=ADA)
        for id in ("created", "got", "updated", "set"):
            assert (await states.info(id)).owner == ADA
            await states.update(id, add_one)
            await states.set(id, Basket("changed"))
            await states.get_or_create(id, owner=ben)
            assert (await states.info(id)).owner == ADA
        await states.set("nobody's", Basket(count=3))
        for owner in (None, ADA, ben):
            assert await states.get_or_create("nobody's", owner=owner) == Basket(count=3)
        assert (await states.info("nobody's")).owner == ADA
        await states.update("updated", add_one, owner=ben)
        await states.set("set", Basket(), owner=ben)
        assert (await states.info("updated")).owner == (await states.info("set")).owner == ben
        with pytest.raises(InvalidKeyError):
            await states.create(owner="bot:web:ada")  # type: ignore[arg-type]

    async def test_an_erasure_removes_what_the_guest_owns_and_nothing_else(
        self, states: States[Basket], manager: SessionManager, store: StateStore
    ) -> None:
        notes = manager.states(Basket, name="notes", ttl=None, store=store)
        await manager.create(id="chat", key=ADA)
        await states.create("chat")
        await notes.set("mail:ada@example.org", Basket(), owner=ADA)
        await notes.set("thread", Basket(), owner=replace(ADA, thread="t"))
        for id, owner in (("ben", SessionKey("bot", "web", "ben")), ("nobody", None)):
            await notes.set(id, Basket(), owner=owner)
        report = await manager.erase(peer="ada")
        assert (report.sessions, report.states) == (1, 3)
        assert [info.id for info in await notes.list()] == ["ben", "nobody"]
        assert await states.count() == 0
        assert (await manager.erase(peer="ben")).states == 1


@dataclass
class NewBasket:
    """What `Basket` has become: the count is in another field, and the weight is in grams."""

    amount: int
    owner: str = ""
    grams: int = 0
    items: list[str] = field(default_factory=list)


def migrate(stored: Any, version: int) -> NewBasket:
    assert version == 1
    return NewBasket(stored["count"], stored["owner"], round(1000 * stored["weight"]), stored["items"])


class MigrationContract:
    @pytest.fixture
    def migrated(self, manager: SessionManager, store: StateStore) -> States[NewBasket]:
        return manager.states(NewBasket, store=store, version=2, migrate=migrate)

    async def test_an_older_value_is_migrated_when_it_is_read_and_stored_by_the_next_write(
        self, states: States[Basket], migrated: States[NewBasket]
    ) -> None:
        for id in ("read", "got", "updated"):
            await states.create(id, value=Basket("ada", 3, 1.5, ["tea"]))
        fresh = NewBasket(3, "ada", 1500, ["tea"])
        assert await migrated.get("read") == fresh
        assert await migrated.get_or_create("got") == fresh
        assert await states.get("read") == Basket("ada", 3, 1.5, ["tea"]), "reading writes nothing"
        assert (await migrated.info("read")).type_version == 1
        updated = await migrated.update("updated", lambda basket: replace(basket, amount=basket.amount + 1))
        assert updated == replace(fresh, amount=4) == await migrated.get("updated")
        assert (await migrated.info("updated")).type_version == 2

    async def test_a_worker_of_the_older_deploy_does_not_overwrite_a_newer_value(
        self, states: States[Basket], migrated: States[NewBasket]
    ) -> None:
        await migrated.set("chat", NewBasket(3))
        for call in (states.get("chat"), states.update("chat", add_one), states.get_or_create("chat")):
            with pytest.raises(StateMismatchError, match="version 2"):
                await call
        assert await migrated.get("chat") == NewBasket(3)

    async def test_a_value_that_does_not_fit_is_migrated_without_a_version_too(
        self, states: States[Basket], manager: SessionManager, store: StateStore
    ) -> None:
        await states.create("chat", value=Basket("ada", 3))

        async def slowly(stored: Any, version: int) -> Any:
            return {"amount": stored["count"]}

        assert await manager.states(NewBasket, store=store, migrate=slowly).get("chat") == NewBasket(3)

    async def test_without_migrate_a_value_that_does_not_fit_is_reported(
        self, states: States[Basket], manager: SessionManager, store: StateStore
    ) -> None:
        await states.create("chat")
        later = manager.states(NewBasket, store=store, version=2)
        with pytest.raises(StateMismatchError, match="`migrate`"):
            await later.get("chat")
        await later.set("chat", NewBasket(1))
        assert await later.get("chat") == NewBasket(1), "set replaces what cannot be read"

    async def test_what_migrate_raises_or_returns_wrongly_is_raised(
        self, states: States[Basket], manager: SessionManager, store: StateStore
    ) -> None:
        await states.create("chat")

        def made(result: Any) -> States[NewBasket]:
            return manager.states(NewBasket, store=store, version=2, migrate=lambda stored, version: result)

        with pytest.raises(StateMismatchError):
            await made({"colour": 1}).get("chat")
        with pytest.raises(InvalidStateError):
            await made(None).get("chat")
        for version in (0, True, "2"):
            with pytest.raises(ConfigurationError, match="version"):
                manager.states(NewBasket, store=store, version=version)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="migrate"):
            manager.states(NewBasket, store=store, migrate=3)  # type: ignore[arg-type]
