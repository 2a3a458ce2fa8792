"""`States[T]`: the states of one type and name, as a user reads and changes them."""

from __future__ import annotations

import asyncio
import inspect
import random
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from frontdesk.config.runtime import Runtime
from frontdesk.errors import (
    ConcurrentChangeError,
    ConfigurationError,
    InvalidIdError,
    StateExistsError,
    StateNotFoundError,
)
from frontdesk.messages import check_id, new_id
from frontdesk.records import to_datetime
from frontdesk.states.lifetimes import DEFAULT_TTL, check_ttl, chosen_ttl, sweep_forever
from frontdesk.states.queueing import Lines
from frontdesk.states.values import Values
from frontdesk.store import MAX_STATE_NAME, StateKey, StateRow, StateStore

T = TypeVar("T")
_ATTEMPTS = 200
_EAGER_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class StateInfo:
    """What is known of a state beside its value. `expires_at` None means never; `version` counts the writes from 1."""

    id: str
    name: str
    version: int
    created_at: datetime
    last_accessed_at: datetime
    expires_at: datetime | None


class States(Generic[T]):
    """The states of one type under one name: a value for each session id, made by `SessionManager.states`.

    What is handed out is a copy: changing it changes nothing that is stored. An expired state is not there. Every call
    may raise `InvalidIdError` and `StoreError`s; a failure of the store is never taken for "not found"."""

    def __init__(
        self,
        runtime: Runtime,
        kind: type[T],
        *,
        name: str = "sessions",
        default: Callable[[str], T | Awaitable[T]] | None = None,
        ttl: timedelta | None = DEFAULT_TTL,
        store: StateStore | str | None = None,
    ) -> None:
        check_id(name, "name of states")
        if len(name) > MAX_STATE_NAME:
            raise InvalidIdError(f"a name of states has at most {MAX_STATE_NAME} characters, not {len(name)}")
        if default is not None and not callable(default):
            raise ConfigurationError("default is a callable from a session id to a state: wrap a value in a lambda")
        self._runtime = runtime
        self._values = Values(kind)
        self._name = name
        self._default = default
        self._ttl = chosen_ttl(ttl)
        self._kept_in = runtime.state_store(store)
        self._lines = runtime.shared(Lines)

    def __repr__(self) -> str:
        return f"States({self._values.name}, name={self._name!r}, namespace={self._runtime.namespace!r})"

    async def create(self, id: str | None = None, *, ttl: timedelta | None = None) -> tuple[str, T]:
        """A new state with the default value, under an id that is made if none is given; `ttl` is for this state alone.

        Raises `StateExistsError` if there is one, `InvalidStateError` for a default that cannot be stored."""
        key = self._key(new_id() if id is None else id)
        row, value = await self._make(key, self._ttl if ttl is None else check_ttl(ttl))
        if row is None:
            raise StateExistsError(key.id, key.name, key.namespace)
        return key.id, value

    async def get_or_create(self, id: str) -> T:
        """The state, made with the default value if there is none. All who ask at once get the same one."""
        key = self._key(id)
        for attempt in range(_ATTEMPTS):
            row = await self._store.get_state(key)
            if row is not None:
                return self._read(row, key)
            row, value = await self._make(key, self._ttl)
            if row is not None:
                return value
            await _pause(attempt)
        raise _overtaken(key)

    async def get(self, id: str) -> T | None:
        """The state, or None. Moves its expiry; the value is not written. Raises `StateMismatchError`."""
        key = self._key(id)
        row = await self._store.get_state(key)
        return None if row is None else self._read(row, key)

    async def update(self, id: str, fn: Callable[[T], T | Awaitable[T]]) -> T:
        """Replace the state by what `fn` makes of it, and give that. No other change is ever overwritten.

        `fn` is sync (then it should be quick) or async; it returns the whole new state. It is tried on the state as
        this process knows it, and run again on the one that is there if another change came first. What it raises about
        that one is raised, and nothing is written. Raises `StateNotFoundError`, `InvalidStateError`,
        `StateMismatchError`, and `ConcurrentChangeError` if it lost against others all the time.
        """
        key = self._key(id)
        store = self._store
        async with self._lines.stand(store, key) as (line, seen):
            guess = self._lines.recall(store, key) if seen is None else None
            for attempt in range(_ATTEMPTS):
                if guess is None and seen is None:
                    asked_at = line.now()
                    seen = await store.get_state(key)
                    line.leave(seen, asked_at)
                    if seen is None:
                        raise StateNotFoundError(key.id, key.name, key.namespace)
                base = guess or seen
                assert base is not None
                try:
                    text, value = self._values.settle(await _result(fn(self._read(base, key))), key.id)
                except Exception:
                    if guess is None:
                        raise
                    guess = None  # a refusal counts only against what is there now
                    continue
                asked_at = line.now()
                line.leave(None, asked_at)
                written = await store.replace_state(key, text, _mark(), base.mark)
                if written is not None:
                    line.leave(written, asked_at)
                    self._lines.remember(store, key, written)
                    return value
                if guess is None:
                    await _pause(attempt)
                guess = seen = None
        raise _overtaken(key)

    async def delete(self, id: str) -> bool:
        """Remove the state; False if there was none."""
        return await self._store.delete_state(self._key(id))

    async def touch(self, id: str) -> None:
        """Move the expiry of the state, without reading it. Raises `StateNotFoundError`."""
        key = self._key(id)
        if not await self._store.touch_state(key):
            raise StateNotFoundError(key.id, key.name, key.namespace)

    async def info(self, id: str) -> StateInfo:
        """What is known of the state; looking does not move its expiry. Raises `StateNotFoundError`."""
        key = self._key(id)
        row = await self._store.peek_state(key)
        if row is None:
            raise StateNotFoundError(key.id, key.name, key.namespace)
        return StateInfo(
            id=key.id,
            name=key.name,
            version=row.version,
            created_at=to_datetime(row.created_at),
            last_accessed_at=to_datetime(row.accessed_at),
            expires_at=None if row.expires_at is None else to_datetime(row.expires_at),
        )

    @property
    def _store(self) -> StateStore:
        """The store, for doing something with it; the sweep of what has expired runs beside from here on."""
        self._runtime.use()
        store = self._kept_in
        self._runtime.background.spawn(sweep_forever(store), f"sweep states {id(store)}", endless=True)
        return store

    def _key(self, id: str) -> StateKey:
        return StateKey(self._runtime.namespace, check_id(id, "state id"), self._name)

    def _read(self, row: StateRow, key: StateKey) -> T:
        return self._values.read(row.value, key.id, key.name)

    async def _make(self, key: StateKey, ttl: int | None) -> tuple[StateRow | None, T]:
        made = self._values.fresh() if self._default is None else await _result(self._default(key.id))
        text, value = self._values.settle(made, key.id)
        return await self._store.create_state(key, text, ttl, _mark()), value


async def _result(made: Any) -> Any:
    return await made if inspect.isawaitable(made) else made


def _mark() -> str:
    return secrets.token_hex(8)


async def _pause(attempt: int) -> None:
    """Give way to whoever was first; the longer it takes, the longer."""
    if attempt >= _EAGER_ATTEMPTS:
        await asyncio.sleep(random.uniform(0, min(0.001 * attempt, 0.05)))  # noqa: S311 (not a secret)


def _overtaken(key: StateKey) -> ConcurrentChangeError:
    return ConcurrentChangeError(
        f"the state {key.id!r} was changed by others {_ATTEMPTS} times in a row: try again", id=key.id, name=key.name
    )
