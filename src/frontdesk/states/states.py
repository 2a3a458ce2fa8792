"""`States[T]`: the public interface to the states of one type and name."""

from __future__ import annotations

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
from frontdesk.messages.ids import check_id, new_id
from frontdesk.moments import to_datetime
from frontdesk.pauses import sleep
from frontdesk.record import Record
from frontdesk.states.codec import StateCodec
from frontdesk.states.expiry import DEFAULT_TTL, check_ttl, choose_ttl, sweep_forever
from frontdesk.states.update_queues import UpdateQueues
from frontdesk.store import MAX_STATE_NAME, StateKey, StateRow, StateStore

T = TypeVar("T")
_ATTEMPTS = 200
_EAGER_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class StateInfo(Record):
    """What is known about a state apart from its value. `version` counts its writes, from 1.

    `expires_at` is None for a state that never expires."""

    id: str
    name: str
    version: int
    created_at: datetime
    last_accessed_at: datetime
    expires_at: datetime | None


class States(Generic[T]):
    """The states of one type under one name, one value per session id. Made by `SessionManager.states`.

    Returned values are copies: changing one does not change the stored state. An expired state counts as missing. Every
    call may raise `InvalidIdError` and `StoreError`s; a failure of the store is never reported as "not found"."""

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
            raise ConfigurationError(
                "default must be a callable from a session id to a state: wrap a value in a lambda"
            )
        self._runtime = runtime
        self._codec = StateCodec(kind)
        self._name = name
        self._default = default
        self._ttl = choose_ttl(ttl)
        self._state_store = runtime.state_store(store)
        self._queues = runtime.shared(UpdateQueues)

    def __repr__(self) -> str:
        return f"States({self._codec.name}, name={self._name!r}, namespace={self._runtime.namespace!r})"

    async def create(self, id: str | None = None, *, ttl: timedelta | None = None) -> tuple[str, T]:
        """Create a state with the default value. Without an `id`, one is generated; `ttl` applies to this state only.

        Raises `StateExistsError`, and `InvalidStateError` for a default that cannot be stored."""
        key = self._key(new_id() if id is None else id)
        row, value = await self._create(key, self._ttl if ttl is None else check_ttl(ttl))
        if row is None:
            raise StateExistsError(key.id, key.name, key.namespace)
        return key.id, value

    async def get_or_create(self, id: str) -> T:
        """The state; created with the default value if there is none. Concurrent callers get the same state."""
        key = self._key(id)
        for attempt in range(_ATTEMPTS):
            row = await self._store.get_state(key)
            if row is not None:
                return self._decode(row, key)
            row, value = await self._create(key, self._ttl)
            if row is not None:
                return value
            await _back_off(attempt)
        raise _too_many_conflicts(key)

    async def get(self, id: str) -> T | None:
        """The state, or None. Reading it postpones its expiry. Raises `StateMismatchError`."""
        key = self._key(id)
        row = await self._store.get_state(key)
        return None if row is None else self._decode(row, key)

    async def update(self, id: str, fn: Callable[[T], T | Awaitable[T]]) -> T:
        """Replace the state by the result of `fn(state)` and return it. No other change is ever overwritten.

        `fn` returns the whole new state. It may be async; if it is sync, it should be quick. It may be called more than
        once: first with the state as this process knows it, and again with the stored state if that is another one. If
        it raises for the stored state, that error is raised and nothing is written. Raises `StateNotFoundError`,
        `InvalidStateError`, `StateMismatchError`, and `ConcurrentChangeError` if other changes came first every time.
        """
        key = self._key(id)
        store = self._store
        async with self._queues.join(store, key) as (queue, current):
            cached = self._queues.take_cached(store, key) if current is None else None
            for attempt in range(_ATTEMPTS):
                if cached is None and current is None:
                    asked_at = queue.tick()
                    current = await store.get_state(key)
                    queue.hand_on(current, asked_at)
                    if current is None:
                        raise StateNotFoundError(key.id, key.name, key.namespace)
                base = cached or current
                assert base is not None
                try:
                    text, value = self._codec.encode(await _resolve(fn(self._decode(base, key))), key.id)
                except Exception:
                    if cached is None:
                        raise
                    cached = None  # the cached row may be outdated: only an error for the stored state counts
                    continue
                asked_at = queue.tick()
                queue.hand_on(None, asked_at)
                written = await store.replace_state(key, text, _mark(), base.mark)
                if written is not None:
                    queue.hand_on(written, asked_at)
                    self._queues.cache(store, key, written)
                    return value
                if cached is None:
                    await _back_off(attempt)
                cached = current = None
        raise _too_many_conflicts(key)

    async def delete(self, id: str) -> bool:
        """Remove the state; False if there was none."""
        return await self._store.delete_state(self._key(id))

    async def touch(self, id: str) -> None:
        """Postpone the expiry of the state without reading it. Raises `StateNotFoundError`."""
        key = self._key(id)
        if not await self._store.touch_state(key):
            raise StateNotFoundError(key.id, key.name, key.namespace)

    async def info(self, id: str) -> StateInfo:
        """Information about the state. Does not postpone its expiry. Raises `StateNotFoundError`."""
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
        """The store, for an operation; from the first one on, expired states are swept in the background."""
        self._runtime.use()
        store = self._state_store
        self._runtime.background.spawn(sweep_forever(store), f"sweep states {id(store)}", endless=True)
        return store

    def _key(self, id: str) -> StateKey:
        return StateKey(self._runtime.namespace, check_id(id, "state id"), self._name)

    def _decode(self, row: StateRow, key: StateKey) -> T:
        return self._codec.decode(row.value, key.id, key.name)

    async def _create(self, key: StateKey, ttl: int | None) -> tuple[StateRow | None, T]:
        default = self._codec.default() if self._default is None else await _resolve(self._default(key.id))
        text, value = self._codec.encode(default, key.id)
        return await self._store.create_state(key, text, ttl, _mark()), value


async def _resolve(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


def _mark() -> str:
    return secrets.token_hex(8)


async def _back_off(attempt: int) -> None:
    """Let other changes through; longer with each attempt."""
    if attempt >= _EAGER_ATTEMPTS:
        await sleep(random.uniform(0, min(0.001 * attempt, 0.05)))  # noqa: S311 (not a secret)


def _too_many_conflicts(key: StateKey) -> ConcurrentChangeError:
    return ConcurrentChangeError(
        f"the state {key.id!r} was changed by others {_ATTEMPTS} times in a row: try again", id=key.id, name=key.name
    )
