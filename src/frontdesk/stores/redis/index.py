"""The index of states: which ids there are under a name, and which states belong to an owner.

It is in other slots of a cluster than the states, so a state and its entries cannot change together. The order of the
steps makes up for that. An entry is put before its state is written, and again afterwards. It is removed only if its
state was missing, and if it was not put again since before that was found out. So every state has its entries, and an
entry without a state is skipped by readers, and removed by the next check. Entries are checked when their state may
have expired, and at least once a day."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import NamedTuple
from zlib import crc32

from frontdesk.errors import StoreCorruptError
from frontdesk.moments import now
from frontdesk.store import OwnerFilter, StateKey, StateOwner, StateQuery, StateRow
from frontdesk.stores.redis import scripts
from frontdesk.stores.redis.engine import RedisEngine

BUCKETS = 16
_PAGE = 500
_DAY = 86_400_000_000
_IDS, _OWNED = "i", "o"

Peek = Callable[[StateKey], Awaitable[StateRow | None]]


class IndexedState(NamedTuple):
    """A state in the index: under its id, or under its owner. No part contains NUL, so the text is unique."""

    key: StateKey
    owner: StateOwner | None = None

    def __str__(self) -> str:
        namespace, id, name = self.key
        if self.owner is None:
            return "\0".join((namespace, _IDS, name, id))
        agent, channel, peer, thread = self.owner
        return "\0".join((namespace, _OWNED, peer, agent, channel, thread or "", name, id))

    @classmethod
    def parse(cls, text: bytes) -> IndexedState:
        namespace, kind, *rest, name, id = text.decode().split("\0")
        key = StateKey(namespace, id, name)
        if kind == _IDS:
            return cls(key)
        peer, agent, channel, thread = rest
        return cls(key, StateOwner(agent, channel, peer, thread or None))


def entries_of(key: StateKey, owner: StateOwner | None) -> list[IndexedState]:
    return [IndexedState(key)] if owner is None else [IndexedState(key), IndexedState(key, owner)]


class StateIndex:
    """Sorted entries, in buckets that each have a slot. `peek` reads a state without its value."""

    def __init__(self, engine: RedisEngine, peek: Peek) -> None:
        self._engine = engine
        self._peek = peek

    async def put(self, entries: Sequence[IndexedState], ttl: int | None) -> None:
        """Add the entries of a state, or note that they were put again."""
        after = _DAY if ttl is None else min(ttl, _DAY)
        arguments = [str(after), *map(str, entries)]
        await self._engine.run(scripts.PUT, _bucket_of(entries[0]), arguments, repeatable=True)

    async def ids(self, query: StateQuery) -> AsyncGenerator[list[StateKey]]:
        """The keys of states that a query means, some of which may be gone, page by page."""
        names = f"{query.namespace}\0{_IDS}\0{query.name}\0"
        start = f"({names}{query.after}" if query.after >= query.first else f"[{names}{query.first}"
        end = f"({_end(names)}" if query.end is None else f"({names}{query.end}"
        async for page in self._pages(query.namespace, start, end, min(query.limit, _PAGE)):
            yield [entry.key for entry in page]

    async def owned(self, namespace: str, owners: OwnerFilter) -> AsyncGenerator[list[IndexedState]]:
        """The entries of owners, page by page."""
        prefix = f"{namespace}\0{_OWNED}\0"
        for part in (owners.peer, owners.agent, owners.channel):
            if part is None:
                break
            prefix += f"{part}\0"
        async for page in self._pages(namespace, f"[{prefix}", f"({_end(prefix)}", _PAGE):
            yield [entry for entry in page if entry.owner is not None and owners.matches(entry.owner)]

    async def settle(self, entries: Sequence[IndexedState]) -> None:
        """Remove those of these entries of one namespace whose state is gone or has another owner."""
        if entries:
            keys = _bucket_of(entries[0])
            checks = await self._engine.run(scripts.CHECKS, keys, [*map(str, entries)], repeatable=True)
            await self._settle(keys, entries, [check or b"" for check in checks])

    async def sweep(self, limit: int) -> bool:
        """Check up to `limit` entries of each bucket that are due; returns whether there may be more."""
        return any([await self._sweep(_bucket(number), limit) for number in range(BUCKETS)])

    async def _sweep(self, keys: list[str], limit: int) -> bool:
        due = await self._engine.run(scripts.DUE, keys, [str(limit)], repeatable=True)
        await self._settle(keys, [*map(IndexedState.parse, due[::2])], due[1::2])
        return len(due) == 2 * limit

    async def _settle(self, keys: list[str], entries: Sequence[IndexedState], checks: Sequence[bytes]) -> None:
        following = await asyncio.gather(*map(self._next_check, entries))
        arguments = [part for each in zip(map(str, entries), checks, following, strict=True) for part in each]
        if arguments:
            await self._engine.run(scripts.SETTLE, keys, arguments, repeatable=True)

    async def _next_check(self, entry: IndexedState) -> str:
        """When to check an entry next; empty if there is no such state."""
        at = now()
        try:
            row = await self._peek(entry.key)
        except StoreCorruptError:
            return str(at + _DAY)  # it is there, until somebody deletes it
        if row is None or entry.owner not in (None, row.owner):
            return ""
        return str(at + _DAY if row.expires_at is None else max(at + 1, min(row.expires_at, at + _DAY)))

    async def _pages(self, namespace: str, start: str, end: str, limit: int) -> AsyncGenerator[list[IndexedState]]:
        key = _bucket(_number(namespace))[0]
        while True:
            command = ("ZRANGEBYLEX", key, start, end, "LIMIT", 0, limit)
            found: list[bytes] = await self._engine.send(key, *command, repeatable=True)
            if found:
                yield [*map(IndexedState.parse, found)]
            if len(found) < limit:
                return
            start = f"({found[-1].decode()}"


def _bucket_of(entry: IndexedState) -> list[str]:
    return _bucket(_number(entry.key.namespace))


def _number(namespace: str) -> int:
    return crc32(namespace.encode()) % BUCKETS


def _bucket(number: int) -> list[str]:
    """The keys of a bucket: its entries, and when to check them."""
    return [f"frontdesk:{{states-{number}}}:entries", f"frontdesk:{{states-{number}}}:checks"]


def _end(prefix: str) -> str:
    """The end of all texts that begin with a prefix, which ends with NUL."""
    return f"{prefix[:-1]}\1"
