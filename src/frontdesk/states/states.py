"""`States[T]`: the public interface to the states of one type and name."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from frontdesk import cursors
from frontdesk.checks import check_count, check_text
from frontdesk.config.attempts import Attempts
from frontdesk.config.runtime import Runtime
from frontdesk.deadlines import not_counted, one_call
from frontdesk.errors import (
    ConfigurationError,
    InvalidIdError,
    InvalidInputError,
    InvalidKeyError,
    StateExistsError,
    StateNotFoundError,
    StateVersionError,
    StoreFullError,
    StoreReadOnlyError,
)
from frontdesk.keys import SessionKey
from frontdesk.messages.ids import check_id, new_id
from frontdesk.moments import to_datetime
from frontdesk.record import Record
from frontdesk.records import Page
from frontdesk.states.codec import StateCodec
from frontdesk.states.expiry import (
    DEFAULT_TTL,
    USUAL_TTL,
    UsualTTL,
    check_ttl,
    choose_ttl,
    sweep_forever,
    work_off,
)
from frontdesk.states.migration import Migrate, StateReader
from frontdesk.states.recorded_stores import RecordedStores
from frontdesk.states.update_queues import QueuedUpdate, UpdateQueues
from frontdesk.store import (
    MAX_STATE_NAME,
    StateKey,
    StateOwner,
    StateQuery,
    StateRow,
    StateStore,
    StateWrite,
    prefix_end,
)

T = TypeVar("T")
_PAGE = 50
_MAX_PAGE = 1000


@dataclass(frozen=True, slots=True)
class StateInfo(Record):
    """Information about a state, without its value. `version` counts its writes, from 1. `type_version` is the
    `version` of the `states()` that wrote it last.

    `expires_at` is None for a state that never expires, `owner` for one that belongs to no guest."""

    id: str
    name: str
    version: int
    created_at: datetime
    last_accessed_at: datetime
    expires_at: datetime | None
    owner: SessionKey | None
    type_version: int


class States(Generic[T]):
    """The states of one type under one name, one value per id. Made by `SessionManager.states`.

    Returned values are copies: changing one does not change the stored state. An expired state counts as missing. A
    state with the id of a session is deleted with it. A state with an `owner` is also deleted when
    `SessionManager.erase` erases that guest; a write without an `owner` keeps the current one. Every call may raise
    `InvalidIdError` and `StoreError`s; a failure of the store is never reported as "not found"."""

    def __init__(
        self,
        runtime: Runtime,
        kind: type[T],
        *,
        name: str = "sessions",
        default: Callable[[str], T | Awaitable[T]] | None = None,
        ttl: timedelta | None = DEFAULT_TTL,
        store: StateStore | str | None = None,
        version: int = 1,
        migrate: Migrate[T] | None = None,
    ) -> None:
        check_id(name, "name of states")
        if len(name) > MAX_STATE_NAME:
            raise InvalidIdError(f"a name of states must have at most {MAX_STATE_NAME} characters, not {len(name)}")
        if default is not None and not callable(default):
            raise ConfigurationError(
                "default must be a callable from a session id to a state: wrap a value in a lambda"
            )
        self._runtime = runtime
        self._codec = StateCodec(kind)
        self._reader = StateReader(self._codec, version, migrate)
        self._type_version = version
        self._name = name
        self._default = default
        self._ttl = choose_ttl(ttl)
        self._state_store = runtime.state_store(store)
        self._queues = runtime.shared(UpdateQueues)

    def __repr__(self) -> str:
        return f"States({self._codec.name}, name={self._name!r}, namespace={self._runtime.namespace!r})"

    async def create(
        self,
        id: str | None = None,
        *,
        value: T | None = None,
        ttl: timedelta | UsualTTL | None = USUAL_TTL,
        owner: SessionKey | None = None,
    ) -> tuple[str, T]:
        """Create a state with this value, or with the default one. Without an `id`, one is generated. `ttl` applies to
        this state only; None means that it never expires.

        Raises `StateExistsError`, and `InvalidStateError` for a value that cannot be stored."""
        key, belongs_to = self._key(new_id() if id is None else id), self._owner(owner)
        row, stored = await self._create(key, value, self._ttl_or(ttl, self._ttl), belongs_to)
        if row is None:
            raise StateExistsError(key.id, key.name, key.namespace)
        return key.id, stored

    @one_call
    async def get_or_create(self, id: str, *, owner: SessionKey | None = None) -> T:
        """The state. If there is none, it is created with the default value, for this owner. A state without an owner
        gets this one. Concurrent callers get the same state. Raises `StateMismatchError`."""
        key, belongs_to = self._key(id), self._owner(owner)
        attempts = self._attempts(key)
        while True:
            await attempts.another()
            row = await self._store.get_state(key)
            if row is None:
                row, value = await self._create(key, None, self._ttl, belongs_to)
                if row is not None:
                    return value
            elif belongs_to is None or row.owner is not None or await self._tie(key, row, belongs_to):
                return await self._reader.read(row, key)

    async def get(self, id: str) -> T | None:
        """The state, or None. Reading it postpones its expiry, unless the store is read-only or full, and writes
        nothing else. Raises `StateMismatchError`."""
        key = self._key(id)
        row = await self._read(key)
        return None if row is None else await self._reader.read(row, key)

    async def get_versioned(self, id: str) -> tuple[T, StateInfo] | None:
        """The state with its information, both of the same version; otherwise like `get`."""
        key = self._key(id)
        row = await self._read(key)
        return None if row is None else (await self._reader.read(row, key), self._info(key.id, row))

    async def _read(self, key: StateKey) -> StateRow | None:
        """A state whose expiry is postponed, if the store can be written to."""
        try:
            return await self._store.get_state(key)
        except (StoreReadOnlyError, StoreFullError):
            return await self._store.peek_state(key)

    @one_call
    async def set(
        self,
        id: str,
        value: T,
        *,
        ttl: timedelta | UsualTTL | None = USUAL_TTL,
        owner: SessionKey | None = None,
        if_version: int | None = None,
        if_created_at: datetime | None = None,
    ) -> None:
        """Replace the state with this value, whatever it is now, or create it. `ttl=None` means that it never expires;
        without `ttl`, a state keeps the one it has. Raises `InvalidStateError`, and `StateVersionError` if the version
        of the state is not `if_version` (0: there is none). A state that was deleted and created again counts its
        versions from 1 again: `if_created_at` distinguishes the two."""
        key, belongs_to = self._key(id), self._owner(owner)
        text, _ = self._codec.encode(value, key.id)
        self._ttl_or(ttl, None)
        async with self._queues.join(await self._writable_store(), key) as update:
            attempts = self._attempts(key)
            while True:
                await attempts.another()
                present = await self._store.peek_state(key)
                _check_version(key, present, if_version, if_created_at)
                usual = self._ttl if present is None else present.ttl
                write = self._write_after(present, text, self._ttl_or(ttl, usual), belongs_to)
                if await self._put(update, key, present, write):
                    return

    @one_call
    async def update(
        self,
        id: str,
        fn: Callable[[T], T | Awaitable[T]],
        *,
        create: bool = False,
        owner: SessionKey | None = None,
    ) -> T:
        """Replace the state with the result of `fn(state)` and return it. No other change is ever overwritten. With
        `create`, a state that does not exist is created as `fn(default value)`.

        `fn` returns the whole new state. It may be async; if it is sync, it should be quick. It may be called more than
        once: first with the state as this process knows it, and again with the stored state if that is different. If
        it raises for the stored state, that error is raised and nothing is written. Raises `StateNotFoundError`,
        `InvalidStateError`, `StateMismatchError`, and `ConcurrentChangeError` if other changes came first every time.
        """
        key, belongs_to = self._key(id), self._owner(owner)
        store = await self._writable_store()
        async with self._queues.join(store, key) as update:
            current = update.row
            cached = self._queues.take_cached(store, key) if current is None else None
            attempts = self._attempts(key)
            while True:
                await attempts.another()
                if cached is None and current is None:
                    current = await self._current(update, key, create=create)
                base = cached or current
                try:
                    text, value = await self._changed(update, key, base, fn)
                except Exception:
                    if cached is None:
                        raise
                    cached = None  # the cached row may be outdated: only an error for the stored state counts
                    continue
                ttl = self._ttl if base is None else base.ttl
                if await self._put(update, key, base, self._write_after(base, text, ttl, belongs_to)):
                    return value
                cached = current = None

    @one_call
    async def delete(self, id: str, *, if_version: int | None = None, if_created_at: datetime | None = None) -> bool:
        """Remove the state; False if there was none. Raises `StateVersionError`, and removes nothing, if the version of
        the state is not `if_version`, or it was not created at `if_created_at`: see `set`."""
        key = self._key(id)
        if if_version is None:
            return await self._store.delete_state(key)
        attempts = self._attempts(key)
        while True:
            await attempts.another()
            present = await self._store.peek_state(key)
            _check_version(key, present, if_version, if_created_at)
            if present is None:
                return False
            if await self._store.delete_state(key, present.mark):
                return True

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
        return self._info(key.id, row)

    async def list(self, *, prefix: str = "", limit: int = _PAGE, cursor: str | None = None) -> Page[StateInfo]:
        """A page of the states whose ids begin with `prefix`, in the order of their ids. Does not postpone their
        expiry. All pages together contain every state that exists throughout, once. Raises `InvalidCursorError`.
        """
        check_count(limit, "limit", most=_MAX_PAGE)
        if limit is None:
            raise InvalidInputError("limit must be a whole number, not None")
        namespace = self._runtime.namespace
        call = ["states", namespace, self._name, check_text(prefix, "prefix")]
        after = "" if cursor is None else str(cursors.unseal(cursor, call)[0])
        query = StateQuery(namespace, self._name, limit + 1, prefix, prefix_end(prefix), after)
        found = await self._store.list_states(query)
        shown = [self._info(listed.id, listed.row) for listed in found[:limit]]
        return Page(shown, cursors.seal([shown[-1].id], call) if len(found) > limit else None)

    async def count(self) -> int:
        """How many states there are."""
        return await self._store.count_states(self._runtime.namespace, self._name)

    async def clear(self) -> int:
        """Remove all states under this name, batch by batch; returns how many there were. If it is interrupted, call it
        again."""
        store = self._store
        return await work_off(lambda limit: store.clear_states(self._runtime.namespace, self._name, limit))

    @property
    def _store(self) -> StateStore:
        """The store, for an operation; from the first one on, expired states are swept in the background."""
        self._runtime.use()
        store = self._state_store
        self._runtime.background.spawn(sweep_forever(store), f"sweep states {id(store)}", endless=True)
        return store

    async def _writable_store(self) -> StateStore:
        store = self._store
        await self._runtime.shared(RecordedStores).record(self._runtime, store)
        return store

    def _attempts(self, key: StateKey) -> Attempts:
        return Attempts(self._state_store, f"the state {key.id!r}", id=key.id, name=key.name)

    def _key(self, id: str) -> StateKey:
        return StateKey(self._runtime.namespace, check_id(id, "state id"), self._name)

    def _owner(self, owner: SessionKey | None) -> StateOwner | None:
        if owner is None:
            return None
        if not isinstance(owner, SessionKey):
            raise InvalidKeyError(f"an owner must be a SessionKey, not {type(owner).__name__}")
        return StateOwner(*self._runtime.stored_key(owner).parts)

    def _ttl_or(self, ttl: timedelta | UsualTTL | None, usual: int | None) -> int | None:
        if isinstance(ttl, UsualTTL):
            return usual
        return None if ttl is None else check_ttl(ttl)

    def _info(self, id: str, row: StateRow) -> StateInfo:
        return StateInfo(
            id=id,
            name=self._name,
            version=row.version,
            created_at=to_datetime(row.created_at),
            last_accessed_at=to_datetime(row.accessed_at),
            expires_at=None if row.expires_at is None else to_datetime(row.expires_at),
            owner=None if row.owner is None else SessionKey(*row.owner),
            type_version=row.type_version,
        )

    async def _new_value(self, key: StateKey) -> T:
        value: T = self._codec.default() if self._default is None else await _resolve(self._default(key.id))
        return value

    async def _create(
        self, key: StateKey, value: T | None, ttl: int | None, owner: StateOwner | None
    ) -> tuple[StateRow | None, T]:
        text, stored = self._codec.encode(await self._new_value(key) if value is None else value, key.id)
        store = await self._writable_store()
        return await store.create_state(key, self._write_after(None, text, ttl, owner)), stored

    async def _tie(self, key: StateKey, row: StateRow, owner: StateOwner) -> bool:
        """Give an owner to a row that has none, and is otherwise as it was; False if it is not the current one."""
        write = StateWrite(row.value, secrets.token_hex(8), row.ttl, row.type_version, owner)
        return await (await self._writable_store()).replace_state(key, write, row.mark) is not None

    def _write_after(self, base: StateRow | None, text: str, ttl: int | None, owner: StateOwner | None) -> StateWrite:
        """The write that follows a row: the owner stays, unless another one is given."""
        if owner is None and base is not None:
            owner = base.owner
        return StateWrite(text, secrets.token_hex(8), ttl, self._type_version, owner)

    async def _current(self, update: QueuedUpdate, key: StateKey, *, create: bool) -> StateRow | None:
        asked_at = update.queue.tick()
        row = await self._store.get_state(key)
        update.queue.hand_on(row, asked_at)
        if row is None and not create:
            raise StateNotFoundError(key.id, key.name, key.namespace)
        return row

    async def _changed(
        self, update: QueuedUpdate, key: StateKey, base: StateRow | None, fn: Callable[[T], Any]
    ) -> tuple[str, T]:
        """What `fn` makes of a row, or of a new value: the text to store and the value."""
        before = await self._new_value(key) if base is None else await self._reader.read(base, key)
        result = await update.run(fn, before)
        return self._codec.encode(result, key.id)

    async def _put(self, update: QueuedUpdate, key: StateKey, base: StateRow | None, write: StateWrite) -> bool:
        """Write what follows a row; False if that is not the current one any more."""
        store, queue = self._store, update.queue
        asked_at = queue.tick()
        queue.hand_on(None, asked_at)
        if base is None:
            written = await store.create_state(key, write)
        else:
            written = await store.replace_state(key, write, base.mark)
        if written is None:
            return False
        queue.hand_on(written, asked_at)
        self._queues.cache(store, key, written)
        return True


def _check_version(
    key: StateKey, present: StateRow | None, if_version: int | None, if_created_at: datetime | None
) -> None:
    """Raises `StateVersionError` if a state is not the one that the caller has seen."""
    version = 0 if present is None else present.version
    same = if_created_at is None or present is None or to_datetime(present.created_at) == if_created_at
    if if_version is not None and (version != if_version or not same):
        raise StateVersionError(key.id, key.name, if_version, version)


async def _resolve(result: Any) -> Any:
    with not_counted():
        return await result if inspect.isawaitable(result) else result
