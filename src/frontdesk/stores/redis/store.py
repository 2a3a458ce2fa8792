"""`RedisStore`: states as hashes that expire on the server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Self
from urllib.parse import quote

from frontdesk.deadlines import one_call
from frontdesk.errors import StoreCorruptError, StoreError
from frontdesk.store import ListedState, OwnerFilter, StateKey, StateOwner, StateQuery, StateRow, StateWrite, Swept
from frontdesk.stores.redis import scripts
from frontdesk.stores.redis.engine import MAY_HAVE_HAPPENED, NOTHING_WRITTEN, RedisEngine
from frontdesk.stores.redis.index import IndexedState, StateIndex, entries_of
from frontdesk.stores.redis.url import check_options, parse_url

_FACTS = 7
"""how many fields a reply has before others follow"""


class RedisStore:
    """A `StateStore` on Redis 6.2 or newer, or Valkey, for any number of processes, threads and event loops.

    `pool` is the maximum number of connections for each event loop. `timeout` is how long a call may take in total:
    waiting for a connection, for a server that restarts or a cluster that replaces a node, and sending again. For calls
    that go through many states, it is the limit of each step. Only the primary acknowledges a change: if it fails
    before the change is replicated, the change is lost. Raises `StoreURLError` for invalid options. Connects at first
    use.
    """

    def __init__(self, url: str, *, pool: int = 50, timeout: float = 30.0) -> None:
        address, options = parse_url(url)
        pool, timeout = options.get("pool", pool), options.get("timeout", timeout)
        check_options(pool, timeout)
        self._name = str(address)
        self._url = address.url
        self._engine = RedisEngine(address, pool=pool, timeout=timeout)
        self._index = StateIndex(self._engine, self._peek_facts)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The store at a URL: `redis://user:password@host:6379/0` (`rediss://` with TLS), or the nodes of a cluster,
        `redis+cluster://host:6379,other:6379` (`rediss+cluster://`). Options are `pool=50` and `timeout=30`, and with
        TLS also `ssl_ca_certs`, `ssl_certfile` and `ssl_keyfile`.

        Raises `StoreURLError` for anything else."""
        return cls(url)

    def __repr__(self) -> str:
        return f"RedisStore({self._name!r})"

    @property
    def url(self) -> str:
        return self._url

    @property
    def timeout(self) -> float:
        """How many seconds a call may take."""
        return self._engine.timeout

    async def open(self) -> None:
        self._engine.reopen()
        await self._engine.send("", "PING", repeatable=True)

    async def close(self) -> None:
        await self._engine.close()

    async def get_state(self, key: StateKey) -> StateRow | None:
        return _row(key, await self._run(scripts.SLIDE, key, "value"))

    async def peek_state(self, key: StateKey) -> StateRow | None:
        return _row(key, await self._run(scripts.PEEK, key, "value"))

    async def touch_state(self, key: StateKey) -> bool:
        return await self._run(scripts.SLIDE, key, "") is not None

    @one_call
    async def create_state(self, key: StateKey, write: StateWrite) -> StateRow | None:
        entries = entries_of(key, write.owner)
        await self._index.put(entries, write.ttl)
        reply = await self._run(scripts.CREATE, key, *_arguments(write))
        with _after_change():
            await self._confirm(entries, write.ttl, written=reply is not None)
        return _row(key, reply, write.value)

    @one_call
    async def replace_state(self, key: StateKey, write: StateWrite, seen: str) -> StateRow | None:
        arguments = (*_arguments(write), seen)
        reply = await self._run(scripts.REPLACE, key, *arguments, "")
        if reply == 0:
            reply = await self._replace_indexed(key, write, arguments)
        return _row(key, reply and reply[:_FACTS], write.value)

    async def _replace_indexed(self, key: StateKey, write: StateWrite, arguments: tuple[str, ...]) -> Any:
        """Replace a state whose entries change, too."""
        entries = entries_of(key, write.owner)
        await self._index.put(entries, write.ttl)
        reply = await self._run(scripts.REPLACE, key, *arguments, "indexed")
        with _after_change():
            await self._confirm(entries, write.ttl, written=reply is not None)
            if reply is not None and (old := _owner(reply[-1])) not in (None, write.owner):
                await self._index.settle([IndexedState(key, old)])
        return reply

    async def _confirm(self, entries: list[IndexedState], ttl: int | None, *, written: bool) -> None:
        """Put the entries of a state that was written again, as the index demands; or take back those of one that was
        not."""
        if written:
            await self._index.put(entries, ttl)
        else:
            await self._index.settle(entries)

    async def list_states(self, query: StateQuery) -> list[ListedState]:
        """Cost follows the page, plus the ids whose states have expired since the last sweep."""
        listed: list[ListedState] = []
        async with aclosing(self._index.ids(query)) as pages:
            async for keys in pages:
                rows = await asyncio.gather(*map(self._peek_facts, keys))
                listed += [ListedState(key.id, row) for key, row in zip(keys, rows, strict=True) if row is not None]
                if len(listed) >= query.limit:
                    break
        return listed[: query.limit]

    async def count_states(self, namespace: str, name: str) -> int:
        """Looks at every state under the name."""
        count = 0
        async for keys in self._index.ids(StateQuery(namespace, name, sys.maxsize)):
            count += sum(row is not None for row in await asyncio.gather(*map(self._peek_facts, keys)))
        return count

    @one_call
    async def delete_state(self, key: StateKey, seen: str | None = None) -> bool:
        return await self._delete(key, seen=seen) == 1

    async def delete_states(self, namespace: str, id: str) -> int:
        names_key = _names(namespace, id)
        deleted = 0
        while names := await self._engine.send(names_key, "SMEMBERS", names_key, repeatable=True):
            keys = [StateKey(namespace, id, name.decode()) for name in names]
            with _after_change():
                deleted += sum(await asyncio.gather(*map(self._delete, keys)))
        return deleted

    async def clear_states(self, namespace: str, name: str, limit: int) -> Swept:
        async with aclosing(self._index.ids(StateQuery(namespace, name, limit))) as pages:
            keys: list[StateKey] = await anext(pages, [])
        with _after_change():
            removed = await asyncio.gather(*map(self._delete, keys))
        return Swept(sum(removed), more=bool(keys))

    async def delete_owned_states(self, namespace: str, owners: OwnerFilter, limit: int) -> Swept:
        removed = 0
        async with aclosing(self._index.owned(namespace, owners)) as pages:
            async for entries in pages:
                some = entries[: limit - removed]
                with _after_change():
                    removed += sum(await asyncio.gather(*(self._delete(entry.key, entry.owner) for entry in some)))
                    await self._index.settle(some)
                if len(some) < len(entries) or removed == limit:
                    return Swept(removed, more=True)
        return Swept(removed, more=False)

    async def sweep_states(self, limit: int) -> Swept:
        """The server removes expired states. This removes their entries from the index."""
        return Swept(0, await self._index.sweep(limit))

    async def _delete(self, key: StateKey, owner: StateOwner | None = None, *, seen: str | None = None) -> int:
        """Delete a state, if it has this owner and this mark (None: any); returns how many were deleted."""
        only = ("", "") if owner is None else ("owner", _owner_text(owner))
        deleted, found = await self._run(scripts.DELETE, key, *only, seen or "", repeatable=False)
        if seen is not None and not deleted:
            return 0
        with _after_change():
            await self._index.settle(entries_of(key, _owner(found)))
        return int(deleted)

    async def _peek_facts(self, key: StateKey) -> StateRow | None:
        """The state without its value."""
        return _row(key, await self._run(scripts.PEEK, key, ""), "")

    async def _run(self, script: scripts.Script, key: StateKey, *arguments: str, repeatable: bool = True) -> Any:
        keys = [_key(key), _names(key.namespace, key.id)]
        try:
            return await self._engine.run(script, keys, [key.name, *arguments], repeatable=repeatable)
        except StoreCorruptError:
            raise _damaged(key) from None


@contextmanager
def _after_change() -> Iterator[None]:
    """What fails in this block fails after a state was changed, or may have been."""
    try:
        yield
    except StoreError as error:
        text = str(error).replace(NOTHING_WRITTEN, MAY_HAVE_HAPPENED)
        raise type(error)(text, **{**error.details, "uncertain": True}) from error


def _tag(namespace: str, id: str) -> str:
    """The part of a key that determines its slot. Both ids are escaped, so no two pairs have the same tag."""
    return f"frontdesk:{{{quote(namespace, safe='')}:{quote(id, safe='')}}}"


def _key(key: StateKey) -> str:
    return f"{_tag(key.namespace, key.id)}:state:{quote(key.name, safe='')}"


def _names(namespace: str, id: str) -> str:
    return f"{_tag(namespace, id)}:states"


def _arguments(write: StateWrite) -> tuple[str, ...]:
    ttl = "" if write.ttl is None else str(write.ttl)
    return write.value, write.mark, ttl, str(write.type_version), _owner_text(write.owner)


def _owner_text(owner: StateOwner | None) -> str:
    return "" if owner is None else "\0".join(part or "" for part in owner)


def _owner(text: bytes) -> StateOwner | None:
    if not text:
        return None
    agent, channel, peer, thread = text.decode(errors="replace").split("\0")
    return StateOwner(agent, channel, peer, thread or None)


def _row(key: StateKey, reply: Any, value: str | None = None) -> StateRow | None:
    """The state in a reply, which contains its value unless that is given."""
    if reply is None:
        return None
    mark, version, ttl, created_at, accessed_at, type_version, owner, *rest = reply
    try:
        return StateRow(
            value=_text(rest) if value is None else value,
            mark=mark.decode(),
            version=int(version),
            ttl=int(ttl) if ttl else None,
            created_at=int(created_at),
            accessed_at=int(accessed_at),
            type_version=int(type_version),
            owner=_owner(owner),
        )
    except ValueError:
        raise _damaged(key) from None


def _text(rest: list[bytes | None]) -> str:
    if not rest or rest[0] is None:
        raise ValueError("there is no value")
    return rest[0].decode()


def _damaged(key: StateKey) -> StoreCorruptError:
    return StoreCorruptError(
        f"the state {key.id!r} in {key.name!r} of namespace {key.namespace!r} is damaged in Redis: delete it, and"
        " create it again",
        id=key.id,
        name=key.name,
        namespace=key.namespace,
    )
