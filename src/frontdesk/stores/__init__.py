"""Opens stores by URL. Stores of other packages are found through an entry point."""

from __future__ import annotations

import os
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

from frontdesk.errors import StoreURLError
from frontdesk.store import StateStore, Store

ENTRY_POINTS = "frontdesk.stores"


def open_url(url: str) -> Store:
    """The store that a URL names, not yet opened.

    `memory://`, `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://...`; another scheme is looked up
    among the entry points of the group `frontdesk.stores` (a callable that takes the URL). Raises `StoreURLError`.
    """
    scheme = urlsplit(url).scheme.lower() if isinstance(url, str) else ""
    factory = _BUILT_IN.get(scheme) or _registered(scheme)
    if factory is None:
        if scheme in _STATES_ONLY:
            raise StoreURLError(f"{scheme}:// stores only states: pass it as the `store` of `manager.states(...)`")
        raise _unknown(scheme, url, [*_BUILT_IN])
    return factory(url)


def open_state_url(url: str) -> StateStore:
    """The store of states that a URL names, not yet opened: any of `open_url`, and `redis://`, `rediss://` (with TLS),
    `redis+cluster://`, `rediss+cluster://`. Raises `StoreURLError`."""
    scheme = urlsplit(url).scheme.lower()
    if scheme in _STATES_ONLY:
        return _redis(url)
    factory = _BUILT_IN.get(scheme) or _registered(scheme)
    if factory is None:
        raise _unknown(scheme, url, [*_BUILT_IN, *_STATES_ONLY])
    store = factory(url)
    if not isinstance(store, StateStore):
        raise StoreURLError(f"{scheme}:// cannot store states: choose another store for them")
    return store


def reopen_state_url(url: str) -> StateStore:
    """The store of states with this `url`, not yet opened: one that exists, nothing is created.

    Raises `StoreURLError`."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and not os.path.exists(unquote(parts.path.removeprefix("/"))):
        raise StoreURLError("there is no such file on this machine")
    return open_state_url(url)


def _unknown(scheme: str, url: str, schemes: list[str]) -> StoreURLError:
    if not scheme:
        return StoreURLError(
            f"{url!r} is not a URL: write sqlite:///agents.db for a file 'agents.db' in this folder, or memory://"
        )
    if scheme in ("http", "https"):
        return StoreURLError(f"{scheme}:// is a server, not a store: use `frontdesk.client.Client`")
    known = ", ".join(f"{name}://" for name in sorted(schemes))
    return StoreURLError(f"there is no store for {scheme!r}: use one of {known}, or install a package that adds it")


def _registered(scheme: str) -> Callable[[str], Store] | None:
    from importlib.metadata import entry_points  # slow to import, and rarely needed

    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == scheme:
            factory: Callable[[str], Store] = entry.load()
            return factory
    return None


def _memory(url: str) -> Store:
    from frontdesk.stores.memory import MemoryStore

    if url.rstrip("/") not in ("memory:", "memory"):
        raise StoreURLError("memory:// takes no path and no options: every memory store is its own")
    return MemoryStore()


def _sqlite(url: str) -> Store:
    from frontdesk.stores.sqlite import SQLiteStore

    return SQLiteStore.from_url(url)


def _postgres(url: str) -> Store:
    try:
        from frontdesk.stores.postgres import PostgresStore
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise StoreURLError("PostgreSQL needs a driver: pip install 'frontdesk[postgres]'") from error
    return PostgresStore.from_url(url)


def _redis(url: str) -> StateStore:
    try:
        from frontdesk.stores.redis import RedisStore
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        raise StoreURLError("Redis needs a driver: pip install 'frontdesk[redis]'") from error
    return RedisStore.from_url(url)


_STATES_ONLY = ("redis", "rediss", "redis+cluster", "rediss+cluster")
_BUILT_IN: dict[str, Callable[[str], Store]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
}
