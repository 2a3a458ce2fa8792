"""Which events a stream returns: those of one session, or of sessions whose keys have certain parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frontdesk.checks import check_text
from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError
from frontdesk.keys import SessionKey
from frontdesk.messages import check_id
from frontdesk.store import ChangeRow
from frontdesk.store.changes import KEY_PARTS, digest_part


@dataclass(frozen=True)
class EventFilter:
    """A log entry carries the parts of its session's key, so that no session is loaded to filter it."""

    namespace: str
    session_id: str | None
    parts: Mapping[str, str | None]
    """the parts of keys that are compared, by name"""

    def matches(self, entry: ChangeRow) -> bool:
        if entry.kind == "session.deleted":
            return self._matches_deleted(entry.data)
        if self.session_id is not None and entry.session_id != self.session_id:
            return False
        return all(getattr(entry, name) == value for name, value in self.parts.items())

    def _matches_deleted(self, detail: Mapping[str, Any]) -> bool:
        """The session is gone: its entry has the id and digests of the parts, or after an erasure neither."""
        if self.session_id is not None and detail.get("id") != self.session_id:
            return False
        digests = dict(zip(KEY_PARTS, detail.get("key", ()), strict=False))
        return all(
            name in digests and digests[name] == digest_part(self.namespace, value)
            for name, value in self.parts.items()
        )


def parse_filter(
    runtime: Runtime, session: str | SessionKey | None, agent: str | None, channel: str | None, peer: str | None
) -> EventFilter:
    """The filter for the arguments of a call. A key selects every session that was created under it. Raises
    `InvalidInputError`."""
    given = {"agent": agent, "channel": channel, "peer": peer}
    parts: dict[str, str | None] = {name: check_text(value, name) for name, value in given.items() if value is not None}
    if isinstance(session, SessionKey):
        if parts:
            raise InvalidInputError("a key already has an agent, a channel and a peer: pass the key or the parts")
        return EventFilter(
            runtime.namespace, None, dict(zip(KEY_PARTS, runtime.stored_key(session).parts, strict=True))
        )
    return EventFilter(runtime.namespace, None if session is None else check_id(session, "session id"), parts)
