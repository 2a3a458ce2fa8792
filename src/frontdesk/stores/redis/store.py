"""`RedisStore`: states as hashes that expire on the server."""

from __future__ import annotations

from typing import Any, Self
from urllib.parse import quote

from frontdesk.store import StateKey, StateRow, Swept
from frontdesk.stores.redis import scripts
from frontdesk.stores.redis.engine import RedisEngine
from frontdesk.stores.redis.url import check_options, parse_url


class RedisStore:
    """A `StateStore` on Redis 6.2 or newer, or Valkey, for any number of processes, threads and event loops.

    `pool` is the maximum number of connections for each event loop. `timeout` is how long a call waits for a
    connection, for a reply, or for a cluster to replace a node. Only the primary acknowledges a change: if it fails
    before the change is replicated, the change is lost. Raises `StoreURLError` for invalid options. Connects at first
    use.
    """

    def __init__(self, url: str, *, pool: int = 50, timeout: float = 30.0) -> None:
        address, options = parse_url(url)
        pool, timeout = options.get("pool", pool), options.get("timeout", timeout)
        check_options(pool, timeout)
        self._name = str(address)
        self._engine = RedisEngine(address, pool=pool, timeout=timeout)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The store at a URL: `redis://user:password@host:6379/0` (`rediss://` with TLS), or the nodes of a cluster,
        `redis+cluster://host:6379,other:6379` (`rediss+cluster://`). Options are `pool=50` and `timeout=30`, and with
        TLS also `ssl_ca_certs`, `ssl_certfile` and `ssl_keyfile`.

        Raises `StoreURLError` for anything else."""
        return cls(url)

    def __repr__(self) -> str:
        return f"RedisStore({self._name!r})"

    async def open(self) -> None:
        self._engine.reopen()
        await self._engine.send("", "PING", repeatable=True)

    async def close(self) -> None:
        await self._engine.close()

    async def get_state(self, key: StateKey) -> StateRow | None:
        return _row(await self._run(scripts.SLIDE, key, "value"))

    async def peek_state(self, key: StateKey) -> StateRow | None:
        return _row(await self._run(scripts.PEEK, key))

    async def touch_state(self, key: StateKey) -> bool:
        return await self._run(scripts.SLIDE, key, "") is not None

    async def create_state(self, key: StateKey, value: str, ttl: int | None, mark: str) -> StateRow | None:
        return _row(await self._run(scripts.CREATE, key, value, "" if ttl is None else str(ttl), mark), value)

    async def replace_state(self, key: StateKey, value: str, mark: str, seen: str) -> StateRow | None:
        return _row(await self._run(scripts.REPLACE, key, value, mark, seen), value)

    async def delete_state(self, key: StateKey) -> bool:
        return bool(await self._run(scripts.DELETE, key, repeatable=False))

    async def delete_states(self, namespace: str, id: str) -> int:
        index = _index(namespace, id)
        deleted = 0
        while names := await self._engine.send(index, "SMEMBERS", index, repeatable=True):
            keys = [_key(StateKey(namespace, id, name.decode())) for name in names]
            deleted += await self._engine.run(
                scripts.DELETE_LISTED, [keys[0], index, *keys], list(names), repeatable=False
            )
        return deleted

    async def sweep_states(self, limit: int) -> Swept:
        """Nothing to do: the server removes expired states."""
        self._engine.check_open()
        return Swept(0, False)

    async def _run(self, script: scripts.Script, key: StateKey, *arguments: str, repeatable: bool = True) -> Any:
        keys = [_key(key), _index(key.namespace, key.id)]
        return await self._engine.run(script, keys, [key.name, *arguments], repeatable=repeatable)


def _tag(namespace: str, id: str) -> str:
    """The part of a key that determines its slot. Both ids are escaped, so no two pairs have the same tag."""
    return f"frontdesk:{{{quote(namespace, safe='')}:{quote(id, safe='')}}}"


def _key(key: StateKey) -> str:
    return f"{_tag(key.namespace, key.id)}:state:{quote(key.name, safe='')}"


def _index(namespace: str, id: str) -> str:
    return f"{_tag(namespace, id)}:states"


def _row(reply: Any, value: str | None = None) -> StateRow | None:
    if reply is None:
        return None
    mark, version, ttl, created_at, accessed_at, *rest = reply
    return StateRow(
        value=rest[0].decode() if value is None else value,
        mark=mark.decode(),
        version=int(version),
        ttl=int(ttl) if ttl else None,
        created_at=int(created_at),
        accessed_at=int(accessed_at),
    )
