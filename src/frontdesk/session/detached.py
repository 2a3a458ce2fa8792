"""`DetachedSession`: a session as a server uses it for callers in other processes. What a handle remembers between two
calls (its session, its turn) is with the caller, and comes with each request."""

from __future__ import annotations

from msgspec.structs import replace

from frontdesk.checks import check_summary, check_text
from frontdesk.errors import SessionNotFoundError
from frontdesk.messages import Message, check_id
from frontdesk.session.session import Session
from frontdesk.session.splitting import split
from frontdesk.session.succession import start_next
from frontdesk.session.turns import (
    DEFAULT_TTL,
    DetachedHolding,
    Duration,
    OnBusy,
    check_seconds,
    leave,
    renew_detached,
    take_detached,
    turn_request,
)
from frontdesk.session.writing import Given


class DetachedSession(Session):
    """A handle that continues another one: of a key that was resolved to the session `known_id` before, and within the
    turn `number`, so that all its writes belong to that turn.

    It has the calls of a session, and those by which a holder in another process takes, renews and ends a turn."""

    def __init__(self, session: Session, known_id: str | None = None, number: int | None = None) -> None:
        self._continue(session, known_id, number)

    @property
    def is_resolved(self) -> bool:
        """Whether the id is known."""
        return self._parts.handle.is_resolved

    async def take_turn(
        self,
        holder: str,
        *,
        wait: Duration | None = None,
        ttl: Duration = DEFAULT_TTL,
        on_busy: OnBusy = "wait",
        message: Given | None = None,
        keeps_place: bool = False,
    ) -> tuple[str, int] | None:
        """Take the turn, as `turn` does, for a holder that renews it itself. Returns the id of the session and the
        number of the turn; None if the message was queued for the present holder.

        With `keeps_place`, the holder keeps its place in the queue for some seconds after the wait is over, and can ask
        again. Raises `TurnBusyError`, `InvalidInputError`."""
        stored = None if message is None else self._parts.writer.ingest(message)
        request = turn_request(wait, ttl, on_busy, stored)
        named = replace(request, holder=check_id(holder, "holder"), keeps_place=keeps_place)
        return await take_detached(self._parts.handle, named)

    async def leave_turn(self, holder: str) -> None:
        """Leave the queue, and release the turn if this holder has it."""
        session_id = await self._parts.handle.readable_id()
        if session_id is not None:
            await leave(self._runtime, session_id, check_id(holder, "holder"))

    async def renew_turn(self, number: int, ttl: Duration) -> bool:
        """Extend a turn to this many seconds from now (0 ends it). False if it is over."""
        session_id = await self._parts.handle.readable_id()
        seconds = check_seconds(ttl, "ttl", least=0)
        return session_id is not None and await renew_detached(self._runtime, session_id, number, seconds)

    async def start_next(self, number: int) -> str:
        """End the session in a turn and start another one under its key, as `Turn.new` does. Returns the id of the new
        session, which has the turn."""
        return (await start_next(await self._holding(number))).session_id

    async def split(self, number: int, summary: str | None, name: str | None) -> str:
        """End the session in a turn and continue in a new one that starts with a summary, as `Turn.compact_and_split`
        does. Returns the id of the new session, which has the turn."""
        opening = await self._parts.compactor.opening(None if summary is None else check_summary(summary))
        checked = None if name is None else check_text(name, "name")
        return (await split(await self._holding(number), opening, checked)).session_id

    async def _holding(self, number: int) -> DetachedHolding:
        return await DetachedHolding(self._runtime, await self._known_id(), number).check()

    async def take_queued(self, number: int) -> Message | None:
        """Append the next message that was queued for the holder of a turn, as `Turn.take_queued` does."""
        await self._known_id()
        return await self._parts.writer.take_queued(number)

    async def _known_id(self) -> str:
        session_id = await self._parts.handle.readable_id()
        if session_id is None:
            raise SessionNotFoundError(self._parts.handle.name, self._runtime.namespace)
        return session_id
