"""Redis URLs: one server or the nodes of a cluster, with options. Unknown options are refused."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from frontdesk.errors import StoreURLError

_OPTIONS = ("pool", "timeout")
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_NODE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]*)(?::(\d{1,5}))?")
_PORT = 6379
_MAX_POOL = 1000


class RedisAddress(NamedTuple):
    """The servers that a URL names. `login` has credentials and TLS options for the driver; it is never shown."""

    nodes: tuple[tuple[str, int], ...]
    cluster: bool
    tls: bool
    database: int
    login: dict[str, Any]

    def __str__(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.nodes) + ("" if self.cluster else f"/{self.database}")

    @property
    def url(self) -> str:
        """A URL of the servers and the database, without user, password and options."""
        scheme = ("rediss" if self.tls else "redis") + ("+cluster" if self.cluster else "")
        nodes = (f"[{host}]:{port}" if ":" in host else f"{quote(host)}:{port}" for host, port in sorted(self.nodes))
        return f"{scheme}://{','.join(nodes)}" + ("" if self.cluster else f"/{self.database}")


def parse_url(url: str) -> tuple[RedisAddress, dict[str, Any]]:
    """The address, and keyword arguments for `RedisStore`. Raises `StoreURLError`; its text contains no password."""
    parts = urlsplit(url)
    kind, _, cluster = parts.scheme.partition("+")
    if kind not in ("redis", "rediss") or cluster not in ("", "cluster"):
        raise StoreURLError("a Redis URL begins with redis://, rediss://, redis+cluster:// or rediss+cluster://")
    user, _, hosts = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    login: dict[str, Any] = {"username": unquote(name) or None, "password": unquote(password) or None}
    options: dict[str, Any] = {}
    known = _OPTIONS + (_TLS_OPTIONS if kind == "rediss" else ())
    for option, value in parse_qsl(parts.query, keep_blank_values=True):
        if option not in known:
            raise StoreURLError(f"{parts.scheme}:// has no option {option!r}: the options are {', '.join(known)}")
        if option in options or option in login:
            raise StoreURLError(f"the option {option!r} is given twice")
        if option in _OPTIONS:
            options[option] = _number(option, value)
        else:
            login[option] = value
    nodes = tuple(_node(node) for node in hosts.split(","))
    if len(nodes) > 1 and not cluster:
        raise StoreURLError("a URL with several hosts is for a cluster: write redis+cluster://")
    return RedisAddress(nodes, bool(cluster), kind == "rediss", _database(parts.path, bool(cluster)), login), options


def check_options(pool: int, timeout: float) -> None:
    """Raises `StoreURLError` for an invalid pool size or timeout."""
    if not 1 <= pool <= _MAX_POOL:
        raise StoreURLError(f"pool={pool!r} is not a number of connections: use 1 to {_MAX_POOL}")
    if not 0 < timeout < float("inf"):
        raise StoreURLError(f"timeout={timeout!r} is not a number of seconds above 0")


def _node(text: str) -> tuple[str, int]:
    match = _NODE.fullmatch(text)
    if match is None or not 0 < int(match[2] or _PORT) < 65_536:
        raise StoreURLError("this Redis URL is malformed: write redis://user:password@host:6379/0")
    return unquote(match[1].strip("[]")) or "localhost", int(match[2] or _PORT)


def _database(path: str, cluster: bool) -> int:
    name = path.strip("/")
    if cluster and name:
        raise StoreURLError("a Redis cluster has no numbered databases: remove the path after the hosts")
    if name and not re.fullmatch(r"\d{1,5}", name):
        raise StoreURLError("the path of a Redis URL must be a database number, as in redis://localhost:6379/0")
    return int(name or 0)


def _number(option: str, value: str) -> Any:
    try:
        return int(value) if option == "pool" else float(value)
    except ValueError:
        raise StoreURLError(f"{option}={value!r} is not a number") from None
