"""Connecting: to the host of a URL, or to the first of several that is a primary. Each host has a time limit, and each
connection notices a peer that is gone."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from frontdesk.stores.postgres.failures import may_pass

_USER_TIMEOUT = 10_000
"""milliseconds after which data that the peer has not acknowledged means that it is gone"""
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
"""seconds without data before a probe, seconds between probes, and probes until the peer counts as gone"""

Address = tuple[str, int]


class Hosts:
    """Opens connections. `addresses` are the hosts of the URL if there are several, else empty."""

    def __init__(
        self, dsn: str, addresses: Sequence[Address], *, seconds: float, settings: Mapping[str, str], direct: bool
    ) -> None:
        self._dsn = dsn
        self._addresses = list(addresses)
        self._direct = direct
        # Behind a transaction pooler the next statement may meet another server process, which knows no name.
        self._options: dict[str, Any] = {} if direct else {"statement_cache_size": 0}
        self._options |= {"timeout": seconds, "server_settings": dict(settings)}
        self.had_primary = False
        """whether a connection to a primary was opened before"""
        self.reached = False
        """whether any connection was opened before"""

    async def connect(self) -> asyncpg.Connection[Any]:
        """A connection to a primary. If no host is one, and none has been so far, to any of them."""
        connection = await self._connect_any()
        self.reached = True
        self.had_primary = self.had_primary or not is_standby(connection)
        _watch_peer(connection)
        if self._direct:
            try:
                await connection.execute(_SETTINGS)
            except BaseException:
                connection.terminate()
                raise
        return connection

    async def _connect_any(self) -> asyncpg.Connection[Any]:
        if not self._addresses:
            return await self._connect()
        standby: asyncpg.Connection[Any] | None = None
        failure: BaseException | None = None
        for address in tuple(self._addresses):
            try:
                connection = await self._connect(host=address[0], port=address[1])
            except Exception as error:
                if not may_pass(error):
                    raise
                failure = error
                continue
            if not is_standby(connection):
                # The next connection is opened there first: a host that does not answer costs its whole time limit.
                self._addresses.remove(address)
                self._addresses.insert(0, address)
                _drop(standby)
                return connection
            _drop(standby)
            standby = connection
        if standby is not None and not self.had_primary:
            return standby
        _drop(standby)
        raise failure or asyncpg.TargetServerAttributeNotMatched("every host is a standby")

    async def _connect(self, **where: Any) -> asyncpg.Connection[Any]:
        connection: asyncpg.Connection[Any] = await asyncpg.connect(self._dsn, **where, **self._options)
        return connection


# One plan for each statement, made once: making it costs more than most statements. A plan that was made while a table
# was small must not scan it whole after it has grown.
_SETTINGS = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off"


def is_standby(connection: asyncpg.Connection[Any]) -> bool:
    """Whether the server says that it is a standby. It also reports when it is promoted."""
    return getattr(connection.get_settings(), "in_hot_standby", "off") == "on"


def _drop(connection: asyncpg.Connection[Any] | None) -> None:
    if connection is not None:
        connection.terminate()


def _watch_peer(connection: asyncpg.Connection[Any]) -> None:
    """Let the operating system end a connection whose peer does not answer any more."""
    transport = getattr(connection, "_transport", None)  # the driver has no public name for it
    peer = None if transport is None else transport.get_extra_info("socket")
    if peer is None or peer.family not in (socket.AF_INET, socket.AF_INET6):
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Not every platform has them all.
    for name, value in {**_KEEPALIVE, "TCP_USER_TIMEOUT": _USER_TIMEOUT}.items():
        option = getattr(socket, name, None)
        if option is not None:
            peer.setsockopt(socket.IPPROTO_TCP, option, value)
