"""What a client of the protocol can reach: one guest, one agent, or the whole namespace. It has to be named, because
nothing says who is at the other end. A session that is out of reach looks like one that does not exist."""

from __future__ import annotations

from dataclasses import dataclass

from frontdesk.config.scopes import ScopeFilters, WideScope
from frontdesk.errors import SessionNotFoundError
from frontdesk.keys import SessionKey
from frontdesk.manager import SessionManager
from frontdesk.records import SessionInfo


@dataclass(frozen=True, slots=True)
class Reach:
    """The sessions under keys with these parts; with none of them, all sessions."""

    agent: str | None = None
    channel: str | None = None
    peer: str | None = None

    @classmethod
    def guest(cls, key: SessionKey) -> Reach:
        """All conversations of the guest of a key, in every thread."""
        return cls(key.agent, key.channel, key.peer)

    @property
    def key(self) -> SessionKey | None:
        """The key under which a message without a session is stored: only a guest has one."""
        if self.agent is None or self.channel is None or self.peer is None:
            return None
        return SessionKey(self.agent, self.channel, self.peer)

    @property
    def filters(self) -> dict[str, str]:
        parts = {"agent": self.agent, "channel": self.channel, "peer": self.peer}
        return {name: value for name, value in parts.items() if value is not None}

    @property
    def scope(self) -> WideScope:
        """The same as the scope of the tools of a manager."""
        return ScopeFilters(**self.filters) if self.filters else "namespace"  # type: ignore[typeddict-item]

    def admits(self, info: SessionInfo) -> bool:
        return all(info.key is not None and getattr(info.key, name) == value for name, value in self.filters.items())

    async def find(self, manager: SessionManager, session_id: str) -> SessionInfo:
        """A session within reach. Raises `SessionNotFoundError` for any other."""
        info = await manager.get(session_id)
        if info is None or not self.admits(info):
            raise SessionNotFoundError(session_id, manager.namespace)
        return info
