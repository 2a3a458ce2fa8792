"""API keys: made, listed, revoked and checked. They are kept hashed, as states in a namespace of their own, so that
every store can keep them and no session of a tenant is near them."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Self, TypeAlias, get_args

from frontdesk.errors import InvalidInputError, NotFoundError
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.record import Record

NAMESPACE = "frontdesk:api-keys"
Role: TypeAlias = Literal["read", "write", "admin"]
"""what a key may do: read; also write; also erase, sweep, rebuild the index and so on"""

_NAME = "api-keys"
_PREFIX = "fd"
_REMEMBERED = 2.0
"""seconds for which a key that was checked is known without asking the store: a revoked key works no longer"""
_MOST_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class ApiKey(Record):
    """An API key, without its secret. `agent` restricts it to the sessions of an agent; with `channel` and `peer`, to
    those of one guest."""

    id: str
    name: str
    namespace: str
    role: Role
    agent: str | None
    channel: str | None
    peer: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewApiKey(Record):
    """A key that was just made. `secret` is what callers send. It is not stored, and cannot be shown again."""

    key: ApiKey
    secret: str


@dataclass
class _StoredKey:
    """What is stored of a key: a hash of its secret, and what it allows."""

    digest: str = ""
    name: str = ""
    namespace: str = ""
    role: str = "read"
    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    created_at: str = ""


class ApiKeys:
    """The keys of a store. `store` is a URL or a `Store`, the one that the sessions are in, or another."""

    def __init__(self, store: Any) -> None:
        self._manager = SessionManager(store, namespace=NAMESPACE)
        self._states = self._manager.states(_StoredKey, name=_NAME, ttl=None)
        self._known: dict[str, tuple[float, ApiKey, str]] = {}

    async def __aenter__(self) -> Self:
        await self._manager.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the store if it was passed as a URL."""
        await self._manager.close()

    async def create(
        self,
        name: str,
        *,
        namespace: str = "default",
        role: Role = "read",
        agent: str | None = None,
        guest: SessionKey | None = None,
    ) -> NewApiKey:
        """Create a key for a namespace, or for one agent or one guest of it. Raises `InvalidInputError`."""
        if role not in get_args(Role):
            raise InvalidInputError(f"role must be one of {', '.join(get_args(Role))}, not {role!r}")
        if agent is not None and guest is not None:
            raise InvalidInputError(
                "restrict a key to an agent or to a guest, not to both: a guest already includes its agent"
            )
        if not name.strip() or not namespace:
            raise InvalidInputError("a key needs a name and a namespace")
        key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        key = ApiKey(
            key_id,
            name,
            namespace,
            role,
            agent if guest is None else guest.agent,
            None if guest is None else guest.channel,
            None if guest is None else guest.peer,
            datetime.now(UTC),
        )
        stored = _StoredKey(
            _digest(secret), name, namespace, role, key.agent, key.channel, key.peer, key.created_at.isoformat()
        )
        await self._states.create(key_id, value=stored)
        return NewApiKey(key, f"{_PREFIX}_{key_id}_{secret}")

    async def list(self) -> list[ApiKey]:
        """All keys, in the order of their creation."""
        found: list[ApiKey] = []
        cursor: str | None = None
        while True:
            page = await self._states.list(cursor=cursor, limit=1000)
            for info in page:
                stored = await self._states.get(info.id)
                if stored is not None:
                    found.append(_to_key(info.id, stored))
            cursor = page.next_cursor
            if cursor is None:
                return sorted(found, key=lambda key: key.created_at)

    async def count(self) -> int:
        """How many keys there are."""
        return await self._states.count()

    async def revoke(self, key_id: str) -> None:
        """Remove a key. Servers refuse it at once, or within two seconds if they have just seen it. Raises
        `NotFoundError`."""
        self._known.pop(key_id, None)
        if not await self._states.delete(key_id):
            raise NotFoundError(f"no API key {key_id!r}: `list` shows those that exist", id=key_id)

    async def has(self, key_id: str) -> bool:
        """Whether a key still exists, as `find` knows it."""
        return await self._read(key_id) is not None

    async def find(self, secret: str) -> ApiKey | None:
        """The key that a caller sent; None if there is none. The comparison takes the same time for every secret."""
        prefix, _, rest = secret.partition("_")
        key_id, _, own = rest.partition("_")
        if prefix != _PREFIX or not (key_id.isascii() and key_id.isalnum() and len(key_id) == 16):
            return None
        found = await self._read(key_id)
        known = "" if found is None else found[1]
        return found[0] if hmac.compare_digest(_digest(own), known or _digest("")) and found is not None else None

    async def _read(self, key_id: str) -> tuple[ApiKey, str] | None:
        """A key and the hash of its secret, from the store or as it was a moment ago."""
        now = time.monotonic()
        seen = self._known.get(key_id)
        if seen is None or now - seen[0] > _REMEMBERED:
            stored = await self._states.get(key_id)
            if stored is None:
                self._known.pop(key_id, None)
                return None
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            seen = self._known[key_id] = (now, _to_key(key_id, stored), stored.digest)
        return seen[1:]


def _digest(secret: str) -> str:
    """The secret has 256 random bits, so that a plain hash is enough: it cannot be guessed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _to_key(key_id: str, stored: _StoredKey) -> ApiKey:
    role: Any = stored.role
    return ApiKey(
        key_id,
        stored.name,
        stored.namespace,
        role,
        stored.agent,
        stored.channel,
        stored.peer,
        datetime.fromisoformat(stored.created_at),
    )
