"""Ends a session and continues in a fork of it that starts with a summary, in the turn of the session."""

from __future__ import annotations

from frontdesk.errors import SessionNotFoundError, TurnLostError
from frontdesk.messages.ids import new_id
from frontdesk.records import EndReason
from frontdesk.session.compacting import Opening
from frontdesk.session.components import Components
from frontdesk.session.endings import ending
from frontdesk.session.forking import forked_documents, forked_session
from frontdesk.session.handle import Handle
from frontdesk.session.turns import M
from frontdesk.store import Plan
from frontdesk.tree import forks
from frontdesk.tree.owners import key_of
from frontdesk.tree.tree import Tree


async def split(holding: M, opening: Opening | None, name: str | None) -> M:
    """End the session of a turn (reason `compaction`), and continue in a new one that starts with a summary. Returns
    the turn of the new session, which has the queued messages as well; the old turn is over.

    Raises `TurnLostError`, `SessionNotFoundError`."""
    runtime, session_id = holding.runtime, holding.session_id
    handle = Handle(runtime, session_id, holding.number)
    made = new_id()

    async def build(tree: Tree) -> Plan | None:
        row = tree.session
        new = forked_session(row, made, name, runtime.now(), key_of(row) if row.key_current else None)
        return forks.split(tree, new, EndReason.COMPACTION, new.now, forked_documents(runtime, row, new))

    async def apply() -> str:
        if not await handle.change(build):
            raise SessionNotFoundError(session_id, runtime.namespace)
        return made

    if holding.lost:
        raise TurnLostError(session_id, holding.number)  # before the hooks: the end cannot come
    async with ending(runtime, handle, EndReason.COMPACTION):
        following = await holding.move(apply)
    runtime.hooks.announce(made, "on_session_start")
    await Components(Handle(runtime, made)).compactor.open_with(opening)
    return following
