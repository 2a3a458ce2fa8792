"""The settings of a server, as values."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The limits of a server. Times are in seconds.

    `head_timeout` is how long the head of a request may take to arrive (with `serve`), `max_body` the largest body of a
    request in bytes. `timeout` is how long a request may take, and `long_timeout` how long one may take that waits for
    a model, for a turn, or for work on a whole namespace. Each API key may send `rate` requests per second, and `burst`
    at once. `origins` are the web origins that may call the server from a browser; none by default. `idempotency` is
    how long an answer is kept for its `Idempotency-Key`. `keep_alive` is the longest pause in a stream of events before
    a comment is sent. `store_name` is what the inspector shows as the name of the store. `anonymous` allows requests
    from other machines although there are no keys: for an application that checks its users before it calls this
    one."""

    head_timeout: float = 20.0
    max_body: int = 20 * MEBIBYTE
    timeout: float = 60.0
    long_timeout: float = 600.0
    rate: float = 100.0
    burst: int = 200
    origins: tuple[str, ...] = ()
    idempotency: float = 24 * 3600.0
    keep_alive: float = 15.0
    store_name: str = ""
    anonymous: bool = False
