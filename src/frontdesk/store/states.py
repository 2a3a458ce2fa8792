"""Typed states as stores see them: values under (namespace, id, name) that expire. A separate protocol, because states
can be kept in another store than sessions."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

MAX_STATE_NAME = 100
_AFTER_SURROGATES = "\ue000"
_LAST_CHARACTER = "\U0010ffff"


class StateKey(NamedTuple):
    """Identifies a state: `id` is the id of its session, or any other; `name` distinguishes the states of an id."""

    namespace: str
    id: str
    name: str


class StateOwner(NamedTuple):
    """The key of the guest that a state belongs to."""

    agent: str
    channel: str
    peer: str
    thread: str | None


class OwnerFilter(NamedTuple):
    """Chooses owners by the parts that are given; None matches every value."""

    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    thread: str | None = None

    def matches(self, owner: StateOwner) -> bool:
        return all(wanted in (None, part) for wanted, part in zip(self, owner, strict=True))


class StateWrite(msgspec.Struct, frozen=True):
    """What a write stores. The caller generates a new `mark` for each write, so equal marks mean the same write.
    `ttl` is in microseconds, None means never; `type_version` is the caller's, for values of an older type."""

    value: str
    mark: str
    ttl: int | None
    type_version: int = 1
    owner: StateOwner | None = None


class StateRow(msgspec.Struct, frozen=True):
    """A state as stored. Times are microseconds since the epoch by the store's clock. `version` counts the writes."""

    value: str
    mark: str
    version: int
    ttl: int | None
    created_at: int
    accessed_at: int
    type_version: int
    owner: StateOwner | None

    @property
    def expires_at(self) -> int | None:
        return None if self.ttl is None else self.accessed_at + self.ttl

    def is_live(self, now: int) -> bool:
        return self.ttl is None or now < self.accessed_at + self.ttl


class StateQuery(NamedTuple):
    """The states under a name, in the order of their ids by code points: the first `limit` of those from `first` on,
    before `end` (None: no end) and after `after`."""

    namespace: str
    name: str
    limit: int
    first: str = ""
    end: str | None = None
    after: str = ""


class ListedState(NamedTuple):
    """A state of a list. The value of `row` is empty: a list does not read values."""

    id: str
    row: StateRow


class Swept(NamedTuple):
    """How many states a batch removed that were there, and whether there may be more to do."""

    removed: int
    more: bool


def prefix_end(prefix: str) -> str | None:
    """The first text that comes after all texts with a prefix, by code points; None if there is no such text."""
    rest = prefix.rstrip(_LAST_CHARACTER)
    if not rest:
        return None
    last = chr(ord(rest[-1]) + 1)
    return rest[:-1] + (_AFTER_SURROGATES if "\ud800" <= last < _AFTER_SURROGATES else last)


@runtime_checkable
class StateStore(Protocol):
    """A store of states. An expired state is never returned, listed or counted, whether or not it has been swept.

    All methods may be called from several event loops and tasks at once. They open the store if it is not open yet.
    Those that concern one state are atomic. A write that is repeated with the same mark takes effect once. Engine
    failures are raised as `StoreError`s, damaged states as `StoreCorruptError`, and after `close` every method raises
    `StoreClosedError`. No other errors are raised, and a failure is never reported as "not found"."""

    @property
    def url(self) -> str | None:
        """A URL that identifies the store to other processes, without user, password and options. None if no other
        process can open it."""

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

    async def create_state(self, key: StateKey, write: StateWrite) -> StateRow | None:
        """Create a state, with version 1. Returns None, and changes nothing, if there is one already."""

    async def replace_state(self, key: StateKey, write: StateWrite, seen: str) -> StateRow | None:
        """Replace everything that was written of a state, increment its version and move its expiry. Returns None, and
        changes nothing, if there is none or its mark is not `seen`."""

    async def list_states(self, query: StateQuery) -> list[ListedState]:
        """States under a name. Their expiry does not change."""

    async def count_states(self, namespace: str, name: str) -> int:
        """How many states there are under a name."""

    async def delete_state(self, key: StateKey, seen: str | None = None) -> bool:
        """Remove a state. Returns False, and changes nothing, if there was none, or its mark is not `seen`."""

    async def delete_states(self, namespace: str, id: str) -> int:
        """Remove the states with this id, under all names. Returns how many were removed."""

    async def clear_states(self, namespace: str, name: str, limit: int) -> Swept:
        """Remove up to `limit` states under a name."""

    async def delete_owned_states(self, namespace: str, owners: OwnerFilter, limit: int) -> Swept:
        """Remove up to `limit` states that belong to these owners, under all names."""

    async def sweep_states(self, limit: int) -> Swept:
        """Check up to `limit` states, of any namespace, that may have expired, and remove those that have."""
