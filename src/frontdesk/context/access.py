"""What the blocks of a session need from its handle, which is in a package above."""

from __future__ import annotations

from typing import Protocol

from frontdesk.keys import SessionKey
from frontdesk.store import Fence, SessionRow


class SessionAccess(Protocol):
    """Finds the session of a handle, and creates it for a write."""

    @property
    def turn(self) -> Fence | None:
        """The turn that all writes belong to, if there is one."""

    @property
    def name(self) -> str:
        """The id, or the key while the id is not known: for errors."""

    @property
    def future_id(self) -> str:
        """The id of the session, or the one that it will have if this handle creates it."""

    async def readable_id(self) -> str | None:
        """The id for reads; None if there is no session under the key."""

    async def find_row(self) -> SessionRow | None: ...

    async def ensure(self) -> SessionRow:
        """The session's row, created if there is none."""

    async def stored_key(self) -> SessionKey | None:
        """The key that the session is stored under, or will be; None for a session without one."""
