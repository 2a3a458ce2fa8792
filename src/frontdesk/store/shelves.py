"""Shelves as stores see them: bytes under ordered keys, for what is not a conversation. A separate protocol, because a
store can do without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from frontdesk.store.states import OwnerFilter, StateOwner, Swept

UNLIMITED = 2**31 - 1


class ShelfKey(NamedTuple):
    """Identifies a shelf: `name` says what it is for, `id` distinguishes the shelves under a name."""

    namespace: str
    name: str
    id: str


class Blob(NamedTuple):
    """Bytes under a key."""

    key: bytes
    value: bytes


class BlobRange(NamedTuple):
    """The blobs with keys from `first` on and before `end`, in the order of their bytes, or `backwards`: at most
    `limit` of them."""

    first: bytes
    end: bytes
    limit: int = UNLIMITED
    backwards: bool = False


class ShelfVersion(NamedTuple):
    """`number` grows with every write to a shelf, `edition` with those that delete. A shelf that is deleted and created
    again repeats neither."""

    number: int
    edition: int


class ShelfQuery(NamedTuple):
    """The ids of shelves under a name, in their order by code points: the first `limit` of those that begin with
    `prefix` and come after `after`."""

    namespace: str
    name: str
    limit: int
    prefix: str = ""
    after: str = ""


class ShelfRead(NamedTuple):
    """What was found in each range, and the version of the shelf; None if there is no shelf."""

    version: ShelfVersion | None
    found: list[list[Blob]]


class ShelfWrite(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a shelf, which is created if it is new: first `delete`, then `put` (which replaces) and `add`
    (which keeps what is there). Without an `owner`, that of the shelf stays.

    It is refused unless the number of the shelf's version is `if_number`, its edition is `if_edition`, and there is
    nothing in the ranges of `if_empty`, as far as these are given."""

    key: ShelfKey
    put: tuple[Blob, ...] = ()
    add: tuple[Blob, ...] = ()
    delete: tuple[BlobRange, ...] = ()
    owner: StateOwner | None = None
    if_number: int | None = None
    if_edition: int | None = None
    if_empty: tuple[BlobRange, ...] = ()

    def allows(self, version: ShelfVersion | None) -> bool:
        """Whether a shelf with this version, or (None) one that does not exist yet, may be written to."""
        number, edition = version or (None, None)
        return self.if_number in (None, number) and self.if_edition in (None, edition)


@runtime_checkable
class ShelfStore(Protocol):
    """A store of shelves. Each method is atomic. Engine failures are raised as `StoreError`s, and after `close` every
    method raises `StoreClosedError`."""

    async def read_shelf(self, key: ShelfKey, ranges: Sequence[BlobRange]) -> ShelfRead:
        """What is in these ranges. The version is not newer than what was found: a write that names it is refused if
        the shelf was changed in between."""

    async def write_shelf(self, write: ShelfWrite) -> ShelfVersion | None:
        """Change a shelf. Returns its new version, or None, and changes nothing, if the write is refused."""

    async def delete_shelf(self, key: ShelfKey) -> bool:
        """Remove a shelf with all that is on it. False if there was none."""

    async def list_shelves(self, query: ShelfQuery) -> list[str]:
        """The ids of shelves under a name."""

    async def delete_owned_shelves(self, namespace: str, owners: OwnerFilter, limit: int) -> Swept:
        """Remove up to `limit` shelves that belong to these owners, under all names."""
