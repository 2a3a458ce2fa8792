"""Which server to ask about a key: the only one, or the primary of its slot in a cluster whose nodes come and go.

The driver's own cluster client closes connections under the feet of other tasks while a cluster heals, hence this one.
"""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

from redis import exceptions as refusals
from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.crc import key_slot

from frontdesk.stores.redis.url import Address

Node = tuple[str, int]
Make = Callable[[Node], Any]

_CONNECT_SECONDS = 5.0


class Range(NamedTuple):
    """The slots from `first` to `last`, and who serves them."""

    first: int
    last: int
    node: Node


def maker(address: Address, pool: int, timeout: float) -> Make:
    """A function that makes the client of a node, with a pool of its own in which callers wait for a connection."""

    def make(node: Node) -> Any:
        connections = BlockingConnectionPool(
            max_connections=pool,
            timeout=timeout,
            connection_class=SSLConnection if address.tls else Connection,
            host=node[0],
            port=node[1],
            db=address.database,
            socket_timeout=timeout,
            socket_connect_timeout=min(timeout, _CONNECT_SECONDS),
            retry=Retry(NoBackoff(), 0),  # only who sends knows what can be sent again
            **address.login,
        )
        return Redis.from_pool(connections)

    return make


class Clients:
    """The clients of one event loop, by node, and what is known of the slots."""

    def __init__(self, address: Address, make: Make) -> None:
        self._address = address
        self._make = make
        self._clients: dict[Node, Any] = {}
        self._ranges: list[Range] = []
        self._looking = asyncio.Lock()
        self._looks = 0

    def at(self, node: Node) -> Any:
        """The client of a node."""
        if node not in self._clients:
            self._clients[node] = self._make(node)
        return self._clients[node]

    async def of(self, key: str) -> Any:
        """The client to ask about a key. Raises `ClusterDownError` if nobody serves its slot."""
        if not self._address.cluster:
            return self.at(self._address.nodes[0])
        if not self._ranges:
            await self.look_again(self._looks)
        slot = key_slot(key.encode())
        number = bisect_right(self._ranges, slot, key=lambda known: known.first) - 1
        if number < 0 or self._ranges[number].last < slot:
            raise refusals.ClusterDownError("CLUSTERDOWN a slot is not served")
        return self.at(self._ranges[number].node)

    @property
    def looks(self) -> int:
        """How often the nodes were asked who serves what."""
        return self._looks

    async def look_again(self, looks: int) -> None:
        """Ask the nodes who serves what, unless somebody did since `looks`. Raises what the last of them said."""
        if not self._address.cluster:
            return
        async with self._looking:
            if looks != self._looks:
                return
            known = list({each.node for each in self._ranges})
            random.shuffle(known)
            failure: Exception = refusals.ConnectionError("no node is known")
            for node in dict.fromkeys((*known, *self._address.nodes)):
                try:
                    self._ranges = _ranges(await self.at(node).execute_command("CLUSTER", "SLOTS"), node)
                except (refusals.RedisError, OSError) as error:
                    failure = error
                else:
                    self._looks += 1
                    return
            raise failure

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()


def _ranges(reply: list[Any], asked: Node) -> list[Range]:
    """What CLUSTER SLOTS says. A node that does not know its own name is where it was asked."""
    found = []
    for first, last, (host, port, *_), *_ in reply:
        name = host.decode() if isinstance(host, bytes) else host
        found.append(Range(first, last, (name if name and name != "?" else asked[0], port)))
    return sorted(found)
