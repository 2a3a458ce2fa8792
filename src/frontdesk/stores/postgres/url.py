"""PostgreSQL URLs: our own options are removed and checked, those of the driver are passed on, others are refused."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from frontdesk.errors import StoreURLError

_OURS = ("pool", "pooler", "schema", "timeout")
_DRIVERS = (
    "application_name",
    "database",
    "dbname",
    "gsslib",
    "host",
    "krbsrvname",
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
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
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
        if name == "timeout":
            return float(value)
    except ValueError:
        raise StoreURLError(f"{name}={value!r} is not a number", option=name) from None
    if name == "pooler" and value != "transaction":
        raise StoreURLError(f"pooler={value!r} is not known: leave it out, or write pooler=transaction", option=name)
    return value if name == "schema" else True


def check_options(pool: int, timeout: float) -> None:
    """Raises `StoreURLError` for a size or a time that makes no sense."""
    if not 1 <= pool <= _MOST_CONNECTIONS:
        raise StoreURLError(
            f"pool={pool!r} is not a number of connections: use 1 to {_MOST_CONNECTIONS}", option="pool"
        )
    if not 0 < timeout < float("inf"):
        raise StoreURLError(f"timeout={timeout!r} is not a number of seconds above 0", option="timeout")


def describe(dsn: str) -> str:
    """Host, port and database, for people to recognise the store by; never user or password."""
    try:
        parts = urlsplit(dsn)
        options = dict(parse_qsl(parts.query))
        host = parts.hostname or options.get("host") or os.environ.get("PGHOST") or "localhost"
        port = parts.port or options.get("port") or os.environ.get("PGPORT") or _PORT
        named = options.get("dbname") or options.get("database") or os.environ.get("PGDATABASE") or ""
        return f"{host}:{port}/{unquote(parts.path.strip('/')) or named}"
    except ValueError:
        return "an unknown address"


def public_url(dsn: str, schema: str) -> str:
    """A URL of host, port, database and schema, which identifies the store; without user, password and options."""
    try:
        parts = urlsplit(dsn)
        given = [(name, value) for name, value in parse_qsl(parts.query) if name in _PLACE]
        host = parts.netloc.rpartition("@")[2]
        if host and parts.port is None and "port" not in dict(given):
            host = f"{host}:{_PORT}"
        return f"postgresql://{host}{parts.path}?{urlencode([*given, ('schema', schema)])}"
    except ValueError:
        return "postgresql://"
