"""PostgreSQL URLs: our own options are removed and checked, those of the driver are passed on, others are refused."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from frontdesk.errors import StoreURLError

_OURS = ("connect_timeout", "pool", "pooler", "schema", "timeout")
_DRIVERS = (
    "application_name",
    "database",
    "dbname",
    "gsslib",
    "host",
    "krbsrvname",
    "options",
    "passfile",
    "password",
    "port",
    "service",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslpassword",
    "sslrootcert",
    "target_session_attrs",
    "user",
)
_PLACE = ("host", "port", "database", "dbname", "service")
_MOST_CONNECTIONS = 1000
_PORT = 5432


def parse_url(url: str) -> tuple[str, dict[str, Any]]:
    """The driver's URL, and the keywords of `PostgresStore`. Raises `StoreURLError`; no text of it holds a password."""
    try:
        parts = urlsplit(url)
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        _addresses(url)  # raises for a port that is none
    except (ValueError, IndexError):
        raise StoreURLError("this PostgreSQL URL is malformed: write postgresql://user@host:5432/database") from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise StoreURLError("a PostgreSQL URL begins with postgresql:// or postgres://")
    options: dict[str, Any] = {}
    passed = []
    for name, value in given:
        if name in _DRIVERS:
            passed.append((name, value))
        elif name not in _OURS:
            raise StoreURLError(
                f"PostgreSQL URLs have no option {name!r}: known are {', '.join(_OURS)}, and of the driver"
                f" {', '.join(_DRIVERS)}",
                option=name,
            )
        elif name in options:
            raise StoreURLError(f"the option {name!r} is given twice", option=name)
        else:
            options[name] = _value(name, value)
    return parts._replace(query=urlencode(passed)).geturl(), options


def _value(name: str, value: str) -> Any:
    try:
        if name == "pool":
            return int(value)
        if name in ("timeout", "connect_timeout"):
            return float(value)
    except ValueError:
        raise StoreURLError(f"{name}={value!r} is not a number", option=name) from None
    if name == "pooler" and value != "transaction":
        raise StoreURLError(f"pooler={value!r} is not known: leave it out, or write pooler=transaction", option=name)
    return value if name == "schema" else True


def check_options(pool: int, timeout: float, connect_timeout: float) -> None:
    """Raises `StoreURLError` for a size or a time that makes no sense."""
    if not 1 <= pool <= _MOST_CONNECTIONS:
        raise StoreURLError(
            f"pool={pool!r} is not a number of connections: use 1 to {_MOST_CONNECTIONS}", option="pool"
        )
    for name, seconds in (("timeout", timeout), ("connect_timeout", connect_timeout)):
        if not 0 < seconds < float("inf"):
            raise StoreURLError(f"{name}={seconds!r} is not a number of seconds above 0", option=name)


def hosts_to_choose(dsn: str) -> Sequence[tuple[str, int]]:
    """The hosts and ports of a URL, if there are several and the primary among them is wanted. Otherwise the driver
    chooses, by `target_session_attrs`."""
    wanted = dict(parse_qsl(urlsplit(dsn).query)).get("target_session_attrs", "primary")
    addresses = _addresses(dsn) if wanted in ("primary", "read-write") else []
    return addresses if len(addresses) > 1 else ()


def settings_of(dsn: str) -> dict[str, str]:
    """Settings for each connection that the URL does not contain."""
    return {} if "application_name" in dict(parse_qsl(urlsplit(dsn).query)) else {"application_name": "frontdesk"}


def _addresses(dsn: str) -> list[tuple[str, int]]:
    """The hosts of a URL with their ports. Raises `ValueError`."""
    parts = urlsplit(dsn)
    options = dict(parse_qsl(parts.query))
    named = parts.netloc.rpartition("@")[2] or options.get("host") or os.environ.get("PGHOST") or "localhost"
    ports = (options.get("port") or os.environ.get("PGPORT") or str(_PORT)).split(",")
    found = []
    for index, text in enumerate(named.split(",")):
        host, colon, port = text.rpartition(":")
        # Without a port: a name, an IPv6 address with or without brackets, or the directory of a socket.
        if not colon or text.endswith("]") or text.startswith("/") or (text.count(":") > 1 and "]" not in text):
            host, port = text, ports[index if len(ports) > 1 else 0]
        found.append((unquote(host).strip("[]"), int(port)))
    return found


def describe(dsn: str) -> str:
    """Hosts, ports and database, for people to recognise the store by; never user or password."""
    try:
        parts = urlsplit(dsn)
        options = dict(parse_qsl(parts.query))
        named = options.get("dbname") or options.get("database") or os.environ.get("PGDATABASE") or ""
        hosts = ",".join(f"{host}:{port}" for host, port in _addresses(dsn))
        return f"{hosts}/{unquote(parts.path.strip('/')) or named}"
    except (ValueError, IndexError):
        return "an unknown address"


def public_url(dsn: str, schema: str) -> str:
    """A URL of hosts, ports, database and schema, which identifies the store; without user, password and options."""
    try:
        parts = urlsplit(dsn)
        given = [(name, value) for name, value in parse_qsl(parts.query) if name in _PLACE]
        hosts = parts.netloc.rpartition("@")[2].split(",")
        if hosts != [""] and "port" not in dict(given):
            hosts = [host if ":" in host.rpartition("]")[2] else f"{host}:{_PORT}" for host in hosts]
        return f"postgresql://{','.join(hosts)}{parts.path}?{urlencode([*given, ('schema', schema)])}"
    except ValueError:
        return "postgresql://"
