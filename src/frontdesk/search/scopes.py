"""What a scope means for one session: who its guest is, and which sessions its tools may therefore show."""

from __future__ import annotations

from typing import Literal, Protocol

from frontdesk.config.runtime import Runtime
from frontdesk.config.scopes import SearchScope
from frontdesk.keys import SessionKey
from frontdesk.search.access import EVERYTHING, NOTHING, AccessRule
from frontdesk.store import SessionRow, SessionSelection
from frontdesk.tree.owners import Key, key_of, owner_of


class SessionHandle(Protocol):
    """Addresses a session by id or key."""

    key: SessionKey | None

    async def find_row(self) -> SessionRow | None: ...


class OwnSession:
    """The session that a handle's tools belong to: the one that the handle addressed when it was first looked for.

    An id can be deleted and used again, by another guest. So a session that has the id later counts only if it has the
    handle's key, or is of the same guest."""

    def __init__(self, runtime: Runtime, handle: SessionHandle) -> None:
        self._runtime = runtime
        self._handle = handle
        self._first: SessionRow | None = None

    async def row(self) -> SessionRow | None:
        """The session's row; None if it does not exist, or is not the same session any more."""
        row = await self._handle.find_row()
        if row is None or not self._is_own(row):
            return None
        self._first = self._first or row
        return row

    def _is_own(self, row: SessionRow) -> bool:
        key, first = key_of(row), self._first
        if self._handle.key is not None:
            return key == self._runtime.address(self._handle.key).parts
        if first is None or row.number == first.number:
            return True
        return key is not None and owner_of("guest", row.id, key) == owner_of("guest", first.id, key_of(first))

    async def key(self) -> Key | None:
        """The key of the handle or of its session, as sessions store it."""
        if self._handle.key is not None:
            return self._runtime.address(self._handle.key).parts
        row = await self.row()
        return None if row is None else key_of(row)


async def resolve(scope: SearchScope, own: OwnSession | None) -> AccessRule:
    """The sessions that a scope includes now. `own` may be None for a scope that does not depend on a session.

    What a session without a key inherited by a fork or a split needs no rule of its own: it sees those messages itself,
    up to that point, and so they are found as its own."""
    if scope == "namespace":
        return EVERYTHING
    if isinstance(scope, str):
        return NOTHING if own is None else await _resolve_name(scope, own)
    if callable(scope):
        return AccessRule(function=scope)
    ids = scope.get("sessions")
    selection = SessionSelection(
        agent=scope.get("agent"),
        channel=scope.get("channel"),
        peer=scope.get("peer"),
        thread=scope.get("thread"),
        tags=(scope["tag"],) if "tag" in scope else (),
    )
    return AccessRule(
        selection=None if selection == SessionSelection() else selection, ids=None if ids is None else frozenset(ids)
    )


async def _resolve_name(scope: Literal["session", "guest", "agent"], own: OwnSession) -> AccessRule:
    key = await own.key()
    if scope != "session" and key is not None:
        owner = owner_of(scope, "", key)
        return AccessRule(SessionSelection(agent=owner.agent, channel=owner.channel, peer=owner.peer))
    row = await own.row()
    return NOTHING if row is None else AccessRule(numbers=frozenset((row.number,)))
