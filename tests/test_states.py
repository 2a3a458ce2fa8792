"""Typed states: supported types, where states are stored, how long they live, and how mistakes are reported."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, NamedTuple, NotRequired, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

import frontdesk.sync
from frontdesk import (
    ConfigurationError,
    InvalidIdError,
    InvalidInputError,
    InvalidStateError,
    SessionManager,
    StateExistsError,
    StateMismatchError,
    StateNotFoundError,
    StateTooLargeError,
    StoreClosedError,
    StoreUnavailableError,
    StoreURLError,
)
from frontdesk.states import DEFAULT_TTL, expiry
from frontdesk.store import StateWrite, Swept, prefix_end
from frontdesk.stores.memory import MemoryStore
from tests.waiting import PATIENCE

X = TypeVar("X")


@dataclass(frozen=True)
class Plain:
    n: int = 0
    tags: list[str] = field(default_factory=list)
    seen: datetime | None = None
    price: Decimal = Decimal(0)


class Struct(msgspec.Struct):
    n: int = 0
    names: set[str] = set()


class Typed(TypedDict):
    n: NotRequired[int]
    text: NotRequired[str]


class Pair(NamedTuple):
    left: int = 0
    right: str = ""


class Model(pydantic.BaseModel):
    n: int = pydantic.Field(default=0, alias="number")
    inner: list[Plain] = []

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return 2 * self.n


@dataclass
class Box(Generic[X]):
    content: X


@dataclass
class Needy:
    n: int


class TestTypes:
    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (Plain, Plain(3, ["a"], datetime(2026, 1, 2, 3, 4, 5, 6, UTC), Decimal("1.10"))),
            (Struct, Struct(3, {"a", "b"})),
            (Typed, {"n": 3, "text": "\0 é 🦊"}),
            (Model, Model(number=3, inner=[Plain(1)])),
            (Box[int], Box(3)),
            (Pair, Pair(3, "a")),
        ],
        ids=["dataclass", "struct", "typed dict", "pydantic", "generic", "named tuple"],
    )
    async def test_a_value_of_each_type_is_read_back_unchanged(self, kind: Any, value: Any) -> None:
        async with SessionManager("memory://") as manager:
            states = manager.states(kind, default=lambda id: value)
            assert (await states.create("chat"))[1] == value
            assert await states.update("chat", lambda state: state) == value
            assert await states.get("chat") == value

    async def test_a_new_value_is_made_without_arguments_or_by_the_default(self) -> None:
        async with SessionManager("memory://") as manager:
            for kind, fresh in ((Plain, Plain()), (Struct, Struct()), (Typed, {}), (Model, Model()), (Pair, Pair())):
                assert await manager.states(kind, name=kind.__name__).get_or_create("chat") == fresh

            async def slowly(id: str) -> Needy:
                await asyncio.sleep(0)
                return Needy(len(id))

            assert await manager.states(Needy, default=slowly).get_or_create("chat") == Needy(4)
            with pytest.raises(ConfigurationError, match=r"Needy.*default="):
                await manager.states(Needy).get_or_create("other")

    @pytest.mark.parametrize("kind", [int, dict, dict[str, int], str, None, "Plain", Plain()])
    def test_an_unsupported_type_is_refused(self, kind: Any) -> None:
        with pytest.raises(ConfigurationError, match="dataclass"):
            SessionManager("memory://").states(kind)

    def test_a_type_with_fields_that_are_not_json_is_refused(self) -> None:
        @dataclass
        class Odd:
            either: list[int] | set[int]

        with pytest.raises(ConfigurationError, match="Odd"):
            SessionManager("memory://").states(Odd)

    def test_pydantic_is_not_imported_by_us(self) -> None:
        code = (
            "import asyncio, sys, dataclasses, frontdesk\n"
            "C = dataclasses.make_dataclass('C', [('n', int, 0)])\n"
            "async def main():\n"
            "    async with frontdesk.SessionManager('memory://') as manager:\n"
            "        await manager.states(C).get_or_create('x')\n"
            "asyncio.run(main())\n"
            "print(sorted({'pydantic', 'redis'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"

    async def test_an_error_about_a_pydantic_value_does_not_quote_it(self) -> None:
        store = MemoryStore()
        async with SessionManager(store) as manager:
            states = manager.states(Model)
            await store.create_state(states._key("chat"), StateWrite('{"n": "the secret"}', "m", None))
            with pytest.raises(StateMismatchError, match=r"'chat'.*n: int_parsing") as raised:
                await states.get("chat")
            assert "the secret" not in str(raised.value)

    async def test_a_subclass_would_lose_its_fields_and_is_refused(self) -> None:
        @dataclass(frozen=True)
        class More(Plain):
            more: int = 1

        async with SessionManager("memory://") as manager:
            states = manager.states(Plain)
            await states.create("chat")
            with pytest.raises(InvalidStateError, match="must be a Plain, not More"):
                await states.update("chat", lambda plain: More(plain.n))

    async def test_a_value_that_is_too_large_is_refused(self) -> None:
        async with SessionManager("memory://") as manager:
            states = manager.states(Plain)
            await states.create("chat")
            with pytest.raises(StateTooLargeError, match="'chat'"):
                await states.update("chat", lambda plain: replace(plain, tags=["x" * (1 << 20)]))
            with pytest.raises(StateTooLargeError):
                await states.update("chat", lambda plain: replace(plain, tags=["é" * (1 << 19)]))
            assert (await states.update("chat", lambda plain: replace(plain, tags=["x" * (1 << 19)]))).n == 0

    async def test_an_update_inside_its_own_update_is_refused_instead_of_waiting_for_itself(self) -> None:
        async with SessionManager("memory://") as manager:
            states = manager.states(Plain)
            await states.create("chat")

            async def nested(plain: Plain) -> Plain:
                return await states.update("chat", lambda inner: inner)

            with pytest.raises(InvalidInputError, match="inside its own update"):
                await states.update("chat", nested)

            async def update_other(plain: Plain) -> Plain:
                await states.get_or_create("other")
                await states.update("other", lambda other: replace(other, n=1))
                return replace(plain, n=2)

            assert (await states.update("chat", update_other)).n == 2


class TestExpiry:
    async def ttl_of(self, **options: Any) -> timedelta | None:
        async with SessionManager("memory://") as manager:
            states = manager.states(Plain, **options)
            await states.create("chat")
            info = await states.info("chat")
            return None if info.expires_at is None else info.expires_at - info.last_accessed_at

    async def test_the_argument_overrides_the_environment_and_that_the_default(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert await self.ttl_of() == timedelta(minutes=30)
        monkeypatch.setenv("SESSION_TTL_SECONDS", "86400")
        assert await self.ttl_of() == timedelta(days=1)
        assert await self.ttl_of(ttl=timedelta(minutes=30)) == timedelta(minutes=30)
        assert await self.ttl_of(ttl=None) is None
        monkeypatch.setenv("SESSION_TTL_SECONDS", "90.5")
        assert await self.ttl_of() == timedelta(seconds=90.5)
        monkeypatch.setenv("SESSION_TTL_SECONDS", "")
        assert await self.ttl_of() == DEFAULT_TTL

    @pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "1e999999999", "inf", "1e99", "0.0001"])
    def test_a_variable_that_is_not_a_time_is_refused(self, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SESSION_TTL_SECONDS", text)
        with pytest.raises(ConfigurationError, match="SESSION_TTL_SECONDS"):
            SessionManager("memory://").states(Plain)

    @pytest.mark.parametrize(
        "ttl", [timedelta(0), timedelta(seconds=-1), timedelta(microseconds=999), timedelta.max, 5]
    )
    async def test_an_invalid_ttl_is_refused(self, ttl: Any) -> None:
        async with SessionManager("memory://") as manager:
            with pytest.raises(InvalidInputError, match="ttl"):
                manager.states(Plain, ttl=ttl)
            with pytest.raises(InvalidInputError, match="ttl"):
                await manager.states(Plain).create(ttl=ttl)

    async def test_expired_states_are_swept_in_the_background_until_the_manager_is_closed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(expiry, "SWEEP_SECONDS", 0.01)
        store = Watched()
        async with asyncio.timeout(PATIENCE), SessionManager(store) as manager:
            states = manager.states(Plain)
            for number in range(5):
                await states.create(f"chat{number}", ttl=timedelta(milliseconds=1))
            await states.create("kept")
            await store.swept(5)
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("sweep states")]

    async def test_a_sweep_that_fails_is_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(expiry, "SWEEP_SECONDS", 0.01)
        store = Watched(failures=3)
        async with SessionManager(store) as manager:
            await manager.states(Plain).create("chat", ttl=timedelta(milliseconds=1))
            async with asyncio.timeout(PATIENCE):
                await store.swept(1)


class Watched(MemoryStore):
    """A memory store that reports when it has swept, and fails the first few times."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self._failures = failures
        self._removed = 0
        self._happened = asyncio.Condition()

    async def sweep_states(self, limit: int) -> Swept:
        self._failures -= 1
        if self._failures >= 0:
            raise StoreUnavailableError("not now")
        swept = await super().sweep_states(limit)
        async with self._happened:
            self._removed += swept.removed
            self._happened.notify_all()
        return swept

    async def swept(self, many: int) -> None:
        async with self._happened:
            await self._happened.wait_for(lambda: self._removed == many)


class TestStores:
    async def test_the_environment_names_a_store_unless_an_argument_does(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FRONTDESK_STATE_URL", f"sqlite:///{tmp_path}/states.db")
        given = MemoryStore()
        async with SessionManager("memory://") as manager:
            await manager.states(Plain).create("there")
            await manager.states(Plain, store=given).create("here")
            assert await manager.states(Plain).get("here") is None
            await manager.create(id="there")
            await manager.delete("there")
            assert await manager.states(Plain).get("there") is None
            await manager.states(Plain).create("stays")
        assert await given.peek_state(manager.states(Plain, store=given)._key("here")), (
            "a store that was passed in is not closed"
        )
        async with SessionManager("memory://") as another:
            assert await another.states(Plain).get("stays") == Plain()
            assert not await another.delete("stays")
        async with SessionManager("memory://") as another:
            assert await another.states(Plain).get("stays") is None, "deleted by a manager that had not used states"

    async def test_the_managers_own_url_means_its_own_store(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/agents.db"
        async with SessionManager(url) as manager:
            manager.states(Plain, store=url)
            assert manager._runtime.other_state_stores() == []

    async def test_a_store_that_cannot_store_states_is_refused(self) -> None:
        class Bare:
            pass

        for store in (Bare(), 7):
            with pytest.raises(ConfigurationError, match="cannot store states"):
                SessionManager("memory://").states(Plain, store=store)  # type: ignore[arg-type]
        with pytest.raises(StoreURLError, match="redis://"):
            SessionManager("memory://").states(Plain, store="mysql://localhost")

    async def test_names_are_checked(self) -> None:
        for name in ("", "x" * 101, "a\0b"):
            with pytest.raises(InvalidIdError):
                SessionManager("memory://").states(Plain, name=name)

    async def test_after_close_a_state_cannot_be_used(self) -> None:
        manager = SessionManager("memory://")
        states = manager.states(Plain)
        await states.create("chat")
        await manager.close()
        with pytest.raises(StoreClosedError):
            await states.get("chat")

    async def test_using_states_makes_the_settings_final(self) -> None:
        async with SessionManager("memory://") as manager:
            await manager.states(Plain).get("chat")
            with pytest.raises(ConfigurationError):
                manager.with_cached_prompt()


class TestSync:
    def test_states_without_an_event_loop(self, tmp_path: Path) -> None:
        with frontdesk.sync.SessionManager(f"sqlite:///{tmp_path}/agents.db") as manager:
            states = manager.states(Plain, ttl=None)
            assert isinstance(states, frontdesk.sync.States)
            id, plain = states.create()
            assert plain == Plain()
            assert states.update(id, lambda plain: replace(plain, n=plain.n + 1)) == Plain(1)
            assert states.get(id) == Plain(1)
            assert states.info(id).version == 2
            states.touch(id)
            with pytest.raises(StateExistsError):
                states.create(id)
            assert states.delete(id)
            with pytest.raises(StateNotFoundError):
                states.update(id, lambda plain: plain)

    def test_lists_owners_and_migration_without_an_event_loop(self, tmp_path: Path) -> None:
        owner = frontdesk.sync.SessionKey("bot", "web", "ada")
        with frontdesk.sync.SessionManager(f"sqlite:///{tmp_path}/agents.db") as manager:
            states = manager.states(Plain)
            states.create("a", value=Plain(1), ttl=None, owner=owner)
            states.set("b", Plain(2))
            assert states.update("c", lambda plain: replace(plain, n=3), create=True) == Plain(3)
            assert states.get_or_create("d", owner=owner) == Plain()
            page = states.list(limit=3)
            assert [info.id for info in page] == ["a", "b", "c"]
            assert [info.id for info in states.list(limit=3, cursor=page.next_cursor)] == ["d"]
            later = manager.states(Struct, version=2, migrate=lambda stored, version: Struct(stored["n"] * 10))
            assert later.get("b") == Struct(20)
            assert manager.erase(peer="ada").states == 2
            assert states.count() == 2
            assert states.clear() == 2
            assert not manager.forget_state_store("redis://localhost:6379/0")


@pytest.mark.parametrize("prefix", ["", "a", "a\U0010ffff", "\U0010ffff", "\ud7ff", "\U0010ffff\U0010ffff", "\uffff"])
def test_the_end_of_a_prefix_is_the_first_text_after_all_that_begin_with_it(prefix: str) -> None:
    end = prefix_end(prefix)
    inside = [prefix, prefix + "\x01", prefix + "a", prefix + "\U0010ffff" * 3]
    if end is None:
        assert set(prefix) <= {"\U0010ffff"}
        return
    assert all(text < end for text in inside)
    end.encode()
    assert not end.startswith(prefix)
    before = end[:-1] + chr(ord(end[-1]) - 1)
    assert before <= prefix or before.startswith(prefix) or end[-1] == "\ue000"


def test_the_environment_of_these_tests_does_not_configure_states() -> None:
    assert not {"SESSION_TTL_SECONDS", "FRONTDESK_STATE_URL"} & os.environ.keys()
