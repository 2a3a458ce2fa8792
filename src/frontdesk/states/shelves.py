"""Bytes under ordered keys, for data of an application that is not a conversation: checkpoints, caches, items of a
memory. A shelf is read by ranges of keys, and changed in one step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.errors import ConfigurationError, InvalidInputError, InvalidKeyError
from frontdesk.keys import SessionKey
from frontdesk.messages.ids import check_id
from frontdesk.store import (
    MAX_STATE_NAME,
    Blob,
    BlobRange,
    ShelfKey,
    ShelfQuery,
    ShelfRead,
    ShelfStore,
    ShelfVersion,
    ShelfWrite,
    StateOwner,
)

__all__ = ["Blob", "BlobRange", "ShelfRead", "ShelfVersion", "Shelves", "one", "starting_with"]

MAX_KEY_BYTES = 1000
_PAGE = 200


class Shelves:
    """The shelves under one name, one for each id. Made by `SessionManager.shelves`.

    A shelf with an `owner` is deleted when `SessionManager.erase` erases that guest. Every call may raise
    `InvalidIdError`, `InvalidInputError` and `StoreError`s."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        if len(check_id(name, "name of shelves")) > MAX_STATE_NAME:
            raise InvalidInputError(f"a name of shelves must have at most {MAX_STATE_NAME} characters, not {len(name)}")
        self._runtime = runtime
        self._name = name

    def __repr__(self) -> str:
        return f"Shelves({self._name!r}, namespace={self._runtime.namespace!r})"

    async def read(self, id: str, *ranges: BlobRange) -> ShelfRead:
        """What is in each range of keys, and the version of the shelf: None if there is no shelf."""
        return await self._store.read_shelf(self._key(id), [_checked(each) for each in ranges])

    async def write(
        self,
        id: str,
        *,
        put: Mapping[bytes, bytes] | None = None,
        add: Mapping[bytes, bytes] | None = None,
        delete: Sequence[BlobRange] = (),
        owner: SessionKey | None = None,
        if_number: int | None = None,
        if_edition: int | None = None,
        if_empty: Sequence[BlobRange] = (),
    ) -> ShelfVersion | None:
        """Change a shelf in one transaction: delete ranges, then `put` blobs, replacing those with the same keys, and
        `add` those whose keys do not exist yet. A shelf that does not exist is created. Without an `owner`, its owner
        stays.

        Returns the new version. Returns None, and changes nothing, if the number of the shelf's version is not
        `if_number`, if something was deleted from it since `if_edition`, or if there is something in a range of
        `if_empty`."""
        if owner is not None and not isinstance(owner, SessionKey):
            raise InvalidKeyError(f"an owner must be a SessionKey, not {type(owner).__name__}")
        return await self._store.write_shelf(
            ShelfWrite(
                key=self._key(id),
                put=_blobs(put or {}),
                add=_blobs(add or {}),
                delete=tuple(map(_checked, delete)),
                owner=None if owner is None else StateOwner(*self._runtime.stored_key(owner).parts),
                if_number=if_number,
                if_edition=if_edition,
                if_empty=tuple(map(_checked, if_empty)),
            )
        )

    async def delete(self, id: str) -> bool:
        """Delete a shelf with everything on it. False if there is none."""
        return await self._store.delete_shelf(self._key(id))

    async def ids(self, prefix: str = "") -> AsyncIterator[str]:
        """The ids of all shelves that begin with `prefix`, in order."""
        query = ShelfQuery(self._runtime.namespace, self._name, _PAGE, prefix)
        while found := await self._store.list_shelves(query):
            for id in found:
                yield id
            query = query._replace(after=found[-1])

    @property
    def _store(self) -> ShelfStore:
        store: object = self._runtime.store
        if not isinstance(store, ShelfStore):
            raise ConfigurationError(f"{type(store).__name__} cannot store shelves: use another store")
        return store

    def _key(self, id: str) -> ShelfKey:
        return ShelfKey(self._runtime.namespace, self._name, check_id(id, "id of a shelf"))


def one(key: bytes) -> BlobRange:
    """The range of a single key."""
    return BlobRange(key, key + b"\0")


def starting_with(prefix: bytes, *, backwards: bool = False) -> BlobRange:
    """The range of all keys that start with a prefix, which must not consist of the byte 255 alone."""
    rest = prefix.rstrip(b"\xff")
    if not rest:
        raise InvalidInputError(f"no range has all keys that start with {prefix!r}")
    return BlobRange(prefix, rest[:-1] + bytes([rest[-1] + 1]), backwards=backwards)


def _checked(wanted: BlobRange) -> BlobRange:
    if not isinstance(wanted, BlobRange) or not all(isinstance(key, bytes) for key in wanted[:2]):
        raise InvalidInputError("a range of keys must be a BlobRange of bytes")
    return wanted


def _blobs(given: Mapping[bytes, bytes]) -> tuple[Blob, ...]:
    for key, value in given.items():
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise InvalidInputError("the keys and values on a shelf must be bytes")
        if not 0 < len(key) <= MAX_KEY_BYTES:
            raise InvalidInputError(f"a key on a shelf must have 1 to {MAX_KEY_BYTES} bytes, not {len(key)}")
    return tuple(Blob(key, value) for key, value in given.items())
