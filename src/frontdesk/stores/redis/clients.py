"""Finding the server for a key: the only one, or in a cluster the primary of the key's slot.

The driver's own cluster client is not used: while a cluster recovers, it closes connections that other tasks are using.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

from redis import exceptions as redis_errors
from redis.asyncio import BlockingConnectionPool, Connection, SSLConnection
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot

from frontdesk.stores.redis.url import RedisAddress

Node = tuple[str, int]
MakePool = Callable[[Node], BlockingConnectionPool]

_CONNECT_SECONDS = 5.0


class SlotRange(NamedTuple):
    """The slots from `first` to `last`, and the node that serves them."""

    first: int
    last: int
    node: Node


def pool_factory(address: RedisAddress, pool: int, timeout: float) -> MakePool:
    """A function that makes the pool of a node, in which callers wait for a connection."""

    def make(node: Node) -> BlockingConnectionPool:
        return BlockingConnectionPool(
            max_connections=pool,
            timeout=timeout,
            connection_class=SSLConnection if address.tls else Connection,
            host=node[0],
            port=node[1],
            db=address.database,
            socket_timeout=timeout,
            socket_connect_timeout=min(timeout, _CONNECT_SECONDS),
            retry=Retry(NoBackoff(), 0),  # only the engine knows which commands can be sent again
            **address.login,
        )

    return make


class Clients:
    """The pools of one event loop, by node, and the known slot ranges."""

    def __init__(self, address: RedisAddress, make: MakePool) -> None:
        self._address = address
        self._make = make
        self._pools: dict[Node, BlockingConnectionPool] = {}
        self._ranges: list[SlotRange] = []
        self._refreshing = asyncio.Lock()
        self._refreshes = 0
        self._in_use: set[AbstractConnection] = set()
        self._is_closed = False

    def for_node(self, node: Node) -> BlockingConnectionPool:
        """The pool of a node."""
        if node not in self._pools:
            self._pools[node] = self._make(node)
        return self._pools[node]

    async def exchange(
        self, pool: BlockingConnectionPool, *commands: tuple[Any, ...], sent: Callable[[], None] | None = None
    ) -> Any:
        """The answer to the last of some commands, which go over one connection. `sent` is called once there is one."""
        answer = None
        connection = await pool.get_connection()  # type: ignore[no-untyped-call]
        self._in_use.add(connection)
        try:
            if self._is_closed:  # while the connection was made
                raise redis_errors.ConnectionError("the connections were closed")
            if sent is not None:
                sent()
            for command in commands:
                await connection.send_command(*command)
                answer = await connection.read_response()
            return answer
        finally:
            self._in_use.discard(connection)
            if self._is_closed:
                await connection.disconnect()
            await pool.release(connection)

    async def for_key(self, key: str) -> tuple[Node, BlockingConnectionPool]:
        """The node of a key, and its pool. Raises `ClusterDownError` if no node serves its slot."""
        if not self._address.cluster:
            node = self._address.nodes[0]
            return node, self.for_node(node)
        if not self._ranges:
            await self.refresh_slots(self._refreshes)
        slot = key_slot(key.encode())
        number = bisect_right(self._ranges, slot, key=lambda known: known.first) - 1
        if number < 0 or self._ranges[number].last < slot:
            raise redis_errors.ClusterDownError("CLUSTERDOWN a slot is not served")
        node = self._ranges[number].node
        return node, self.for_node(node)

    @property
    def refreshes(self) -> int:
        """How often the slot ranges were read."""
        return self._refreshes

    async def refresh_slots(self, refreshes: int) -> None:
        """Read the slot ranges from the nodes, unless another task did since there were `refreshes`.

        Raises the error of the last node if none of them replied."""
        if not self._address.cluster:
            return
        async with self._refreshing:
            if refreshes != self._refreshes:
                return
            known = list({each.node for each in self._ranges})
            random.shuffle(known)
            failure: Exception = redis_errors.ConnectionError("no node is known")
            for node in dict.fromkeys((*known, *self._address.nodes)):
                try:
                    self._ranges = _ranges(await self.exchange(self.for_node(node), ("CLUSTER", "SLOTS")), node)
                except (redis_errors.RedisError, OSError) as error:
                    failure = error
                else:
                    self._refreshes += 1
                    return
            raise failure

    async def close(self) -> None:
        """Close all connections. One that is being made is closed as soon as it is there."""
        self._is_closed = True
        for pool in [*self._pools.values()]:
            await pool.disconnect(inuse_connections=False)
        for connection in [*self._in_use]:
            await connection.disconnect()


def _ranges(reply: list[Any], asked: Node) -> list[SlotRange]:
    """The ranges in a reply to CLUSTER SLOTS. For a node that does not know its own host, that is the one asked."""
    found = []
    for first, last, (host, port, *_), *_ in reply:
        name = host.decode() if isinstance(host, bytes) else host
        found.append(SlotRange(first, last, (name if name and name != "?" else asked[0], port)))
    return sorted(found)
