"""Starts the next session under a key in place of the current one, in the turn of that one."""

from __future__ import annotations

from frontdesk.config.settings import SYSTEM_LABEL
from frontdesk.deadlines import one_call
from frontdesk.errors import InvalidKeyError, TurnLostError
from frontdesk.lifecycle import transitions
from frontdesk.messages.ids import new_id
from frontdesk.records import EndReason
from frontdesk.session.components import Components
from frontdesk.session.endings import ending
from frontdesk.session.handle import Handle
from frontdesk.session.turns import M
from frontdesk.store import SessionRow


async def start_next(holding: M) -> M:
    """End the session of a turn (reason `new`), and start another one under its key. Returns the turn of the new
    session; the old turn is over.

    Raises `TurnLostError`, `SessionNotFoundError`, `InvalidKeyError` if the session is not current under a key, and
    `ConcurrentChangeError` if other writers come first every time: then nothing was written."""
    runtime, session_id = holding.runtime, holding.session_id
    handle = Handle(runtime, session_id, holding.number)

    @one_call
    async def apply() -> str:
        attempts = runtime.attempts(session_id)
        while True:
            await attempts.another()
            row = _check_current(await handle.row())
            made = new_id()
            if await handle.apply(transitions.succeed(row, made, EndReason.NEW, runtime.now(), (SYSTEM_LABEL,))):
                return made

    # Before the hooks: they are not to be called for an end that cannot come.
    if holding.lost:
        raise TurnLostError(session_id, holding.number)
    _check_current(await handle.row())
    async with ending(runtime, handle, EndReason.NEW):
        following = await holding.move(apply)
    runtime.hooks.announce(following.session_id, "on_session_start")
    Components(Handle(runtime, session_id)).memory.start(session_id)
    return following


def _check_current(row: SessionRow) -> SessionRow:
    if not row.key_current:
        raise InvalidKeyError(
            f"session {row.id!r} is not the current one under a key, so that no other can follow it:"
            " use `create`, or `new` with a key",
            session_id=row.id,
        )
    return row
