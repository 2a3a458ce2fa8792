"""What a caller may reach: a namespace with a role, and of it everything, one agent, or one guest. What is out of reach
looks as if it did not exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from frontdesk.context.blocks import ContextBlock
from frontdesk.errors import SessionNotFoundError
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.records import SessionInfo
from frontdesk.server.keys import ApiKey, Role
from frontdesk.server.problems import RefusedError
from frontdesk.session.detached import DetachedSession

_RANK: dict[Role, int] = {"read": 0, "write": 1, "admin": 2}
_WIDER_THAN_GUEST = ("agent", "namespace")


@dataclass(frozen=True, slots=True)
class CallerAccess:
    """The access of one caller. `key` is None for a caller on this machine, while there are no keys."""

    manager: SessionManager
    role: Role
    key: ApiKey | None = None

    @property
    def bounds(self) -> dict[str, str]:
        """The parts of keys that the caller is restricted to, as they are stored; empty for the whole namespace."""
        if self.key is None or self.key.agent is None:
            return {}
        if self.key.channel is None or self.key.peer is None:
            return {"agent": self.key.agent}
        stored = self.manager.session(SessionKey(self.key.agent, self.key.channel, self.key.peer)).key
        assert stored is not None
        return {"agent": stored.agent, "channel": stored.channel, "peer": stored.peer}

    def require(self, role: Role) -> None:
        """Raises `RefusedError` if the role of the caller is not enough."""
        if _RANK[self.role] < _RANK[role]:
            raise RefusedError(403, "forbidden", f"this needs a key with the role {role}, and yours has {self.role}")

    def require_unbound(self) -> None:
        """Raises `RefusedError` for a caller that is restricted to an agent or a guest."""
        if self.bounds:
            raise RefusedError(403, "forbidden", "this concerns the whole namespace, and your key only a part of it")

    def narrow(self, given: dict[str, Any]) -> dict[str, Any]:
        """Filters that select no more than the caller may reach. Raises `RefusedError` for others' parts."""
        for part, value in self.bounds.items():
            if given.get(part) is not None and given[part] != value:
                raise RefusedError(403, "forbidden", f"your key is restricted to another {part}")
        return {**given, **self.bounds}

    def covers(self, key: SessionKey | None) -> bool:
        """Whether the caller may reach the sessions under a key, as it is stored."""
        bounds = self.bounds
        return not bounds or (key is not None and all(getattr(key, part) == own for part, own in bounds.items()))

    async def session(
        self, ref: str | SessionKey, known_id: str | None = None, turn: int | None = None
    ) -> DetachedSession:
        """A handle on a session, which continues one of the caller: with the session that its key was resolved to, and
        its turn. For a restricted caller, the session must exist and be within reach, or its key must be. Raises
        `SessionNotFoundError`."""
        session = self.manager.session(ref)
        if self.bounds:
            for each in (ref,) if known_id is None else (ref, known_id):
                if not self.covers(session.key if isinstance(each, SessionKey) else await self._key_of(each)):
                    raise SessionNotFoundError(str(each), self.manager.namespace)
        return DetachedSession(session, known_id, turn)

    async def _key_of(self, session_id: str) -> SessionKey | None:
        info: SessionInfo | None = await self.manager.get(session_id)
        return None if info is None else info.key

    def check_key(self, key: SessionKey | None) -> None:
        """Raises `RefusedError` if a restricted caller may not make a session under this key."""
        if self.bounds and not self.covers(None if key is None else self.manager.session(key).key):
            raise RefusedError(403, "forbidden", "your key only makes sessions under keys of its own agent or guest")

    def check_block(self, block: ContextBlock) -> None:
        """Raises `RefusedError` if a block belongs to more than the caller may reach."""
        bounds = self.bounds
        wider = block.scope == "namespace" or (block.scope in _WIDER_THAN_GUEST and "peer" in bounds)
        if bounds and wider:
            raise RefusedError(
                403, "forbidden", f"the block {block.label!r} is shared with sessions that your key cannot reach"
            )
