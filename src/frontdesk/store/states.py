"""Typed state as stores see it: values under (namespace, id, name) that expire. A seam of its own, and a small one,
because states may be stored elsewhere than sessions."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

MAX_STATE_NAME = 100


class StateKey(NamedTuple):
    """Where a state is kept: `id` is that of the session it belongs to, `name` distinguishes its states."""

    namespace: str
    id: str
    name: str


class StateRow(msgspec.Struct, frozen=True):
    """A state as stored. Times are microseconds since the epoch by the store's clock; `ttl` None means never.

    The caller makes a new `mark` for each write: equal marks mean the very same write. `version` counts the writes."""

    value: str
    mark: str
    version: int
    ttl: int | None
    created_at: int
    accessed_at: int

    @property
    def expires_at(self) -> int | None:
        return None if self.ttl is None else self.accessed_at + self.ttl

    def is_live(self, now: int) -> bool:
        return self.ttl is None or now < self.accessed_at + self.ttl


class Swept(NamedTuple):
    """How many expired states a sweep removed, and whether there may be more of them."""

    removed: int
    more: bool


@runtime_checkable
class StateStore(Protocol):
    """Keeps states. A state that has expired is not there, whether it is swept or not.

    All methods may be called from several event loops and tasks at once, and open the store if it is not open yet.
    Each but `sweep_states` is one step: no other change comes between what it reads and what it writes. Repeated with
    the same mark, a write takes effect once. Engine failures are raised as `StoreError`s, after `close` as
    `StoreClosedError`; nothing else is ever raised, and a failure is never taken for "not there"."""

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Finish what is in flight and release everything. Idempotent."""

    async def get_state(self, key: StateKey) -> StateRow | None:
        """The state, its expiry moved to `ttl` from now. The value is not written."""

    async def peek_state(self, key: StateKey) -> StateRow | None:
        """The state, its expiry left alone."""

    async def touch_state(self, key: StateKey) -> bool:
        """Move the expiry to `ttl` from now; False if there is none."""

    async def create_state(self, key: StateKey, value: str, ttl: int | None, mark: str) -> StateRow | None:
        """The new state with version 1; None, and nothing changed, if there is one already."""

    async def replace_state(self, key: StateKey, value: str, mark: str, seen: str) -> StateRow | None:
        """The state with its new value, the next version and its expiry moved; None, and nothing changed, if there is
        none, or its mark is not `seen`."""

    async def delete_state(self, key: StateKey) -> bool:
        """Remove a state; False if there was none."""

    async def delete_states(self, namespace: str, id: str) -> int:
        """Remove the states with this id, of every name; returns how many there were."""

    async def sweep_states(self, limit: int) -> Swept:
        """Look at up to `limit` states of any namespace that may have expired, and remove those that have."""
