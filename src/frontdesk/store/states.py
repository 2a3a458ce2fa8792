"""Typed states as stores see them: values under (namespace, id, name) that expire. A separate protocol, because states
can be kept in another store than sessions."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

MAX_STATE_NAME = 100


class StateKey(NamedTuple):
    """Identifies a state: `id` is the id of its session, `name` distinguishes the states of a session."""

    namespace: str
    id: str
    name: str


class StateRow(msgspec.Struct, frozen=True):
    """A state as stored. Times are microseconds since the epoch by the store's clock; `ttl` None means never.

    The caller generates a new `mark` for each write. Equal marks mean the same write. `version` counts the writes."""

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
    """A store of states. An expired state is never returned, whether or not it has been swept.

    All methods may be called from several event loops and tasks at once. They open the store if it is not open yet.
    Every method except `sweep_states` is atomic. A write that is repeated with the same mark takes effect once. Engine
    failures are raised as `StoreError`s, and after `close` every method raises `StoreClosedError`. No other errors are
    raised, and a failure is never reported as "not found"."""

    async def open(self) -> None:
        """Connect. A store that was closed is opened again."""

    async def close(self) -> None:
        """Finish running operations and release all resources. Idempotent."""

    async def get_state(self, key: StateKey) -> StateRow | None:
        """The state. Its expiry is moved to `ttl` from now; its value is not written."""

    async def peek_state(self, key: StateKey) -> StateRow | None:
        """The state. Its expiry does not change."""

    async def touch_state(self, key: StateKey) -> bool:
        """Move the expiry of a state to `ttl` from now. False if there is none."""

    async def create_state(self, key: StateKey, value: str, ttl: int | None, mark: str) -> StateRow | None:
        """Create a state, with version 1. Returns None, and changes nothing, if there is one already."""

    async def replace_state(self, key: StateKey, value: str, mark: str, seen: str) -> StateRow | None:
        """Replace the value of a state, increment its version and move its expiry. Returns None, and changes nothing,
        if there is none or its mark is not `seen`."""

    async def delete_state(self, key: StateKey) -> bool:
        """Remove a state. False if there was none."""

    async def delete_states(self, namespace: str, id: str) -> int:
        """Remove the states with this id, under all names. Returns how many were removed."""

    async def sweep_states(self, limit: int) -> Swept:
        """Check up to `limit` states, of any namespace, that may have expired, and remove those that have."""
