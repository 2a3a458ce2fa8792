"""Changes of a session's status by hand: archive, suspend, resume, reset, new and delete."""

from __future__ import annotations

import time
from collections.abc import Callable

from frontdesk.compaction import overlays
from frontdesk.config.runtime import Runtime
from frontdesk.errors import SessionNotFoundError
from frontdesk.keys import SessionKey
from frontdesk.lifecycle import transitions
from frontdesk.lifecycle.transitions import ACTIVE, ARCHIVED, SUSPENDED, check_transition, status_of
from frontdesk.manager.directory import check_key, key_columns
from frontdesk.manager.states import StateCleaner
from frontdesk.messages.ids import new_id
from frontdesk.records import EndReason, SessionStatus
from frontdesk.session.components import Components
from frontdesk.session.endings import ending
from frontdesk.session.handle import Handle
from frontdesk.session.succession import start_next
from frontdesk.session.turns import KeyMovedError, TurnRequest, shortened, take
from frontdesk.store import NewOverlay, NewSession, Plan, SessionRow, TreeRows
from frontdesk.tree import plans
from frontdesk.tree.tree import Tree


class Lifecycle:
    """Changes the status of sessions, one plan each."""

    def __init__(self, runtime: Runtime, states: StateCleaner) -> None:
        self._runtime = runtime
        self._states = states

    async def archive(self, ref: str | SessionKey) -> None:
        """See `SessionManager.archive`."""
        parts = await self._able(ref, ARCHIVED)

        def ended(row: SessionRow) -> Plan:
            return transitions.end(self._checked(row, ARCHIVED), EndReason.ARCHIVE, self._runtime.now())

        async with ending(self._runtime, parts.handle, EndReason.ARCHIVE):
            await parts.handle.alter(ended)
        parts.memory.start(parts.handle.id)

    async def suspend(self, ref: str | SessionKey) -> None:
        """See `SessionManager.suspend`."""

        def suspended(row: SessionRow) -> Plan:
            return plans.change_row(self._checked(row, SUSPENDED), self._runtime.now(), status="suspended")

        await (await self._able(ref, SUSPENDED)).handle.alter(suspended)

    async def resume(self, ref: str | SessionKey) -> None:
        """See `SessionManager.resume`."""
        parts = await self._able(ref, ACTIVE)
        await parts.handle.alter(lambda row: transitions.reopen(self._checked(row, ACTIVE), self._runtime.now()))

    async def _able(self, ref: str | SessionKey, wanted: SessionStatus) -> Components:
        """A session that can get a status now; whether it still can is checked again when it does."""
        handle = Handle(self._runtime, ref)
        self._checked(await handle.row(), wanted)
        return Components(handle)

    def _checked(self, row: SessionRow, wanted: SessionStatus) -> SessionRow:
        idle_after = self._runtime.settings.lifecycle.idle_after
        check_transition(row.id, status_of(row, self._runtime.now(), idle_after, is_compacting=False), wanted)
        return row

    async def reset(self, ref: str | SessionKey) -> None:
        """See `SessionManager.reset`."""
        parts = Components(Handle(self._runtime, ref))
        await parts.handle.row()
        tree = await parts.handle.tree()
        if tree is None or await overlays.visible_range(self._runtime, tree) is None:
            return
        async with ending(self._runtime, parts.handle, EndReason.RESET):
            await parts.handle.change(self._hide_all)
        parts.memory.start(parts.handle.id)

    async def _hide_all(self, tree: Tree) -> Plan | None:
        ends = await overlays.visible_range(self._runtime, tree)
        if ends is None:
            return None
        now = self._runtime.now()
        start, end = ends
        overlay = NewOverlay(id=new_id(), kind="reset", start=start, end=end, summary=None, tokens=0, created_at=now)
        return plans.reset(tree, overlay, now)

    async def new(self, key: SessionKey, request: TurnRequest) -> str:
        """See `SessionManager.new`. Returns the id of the new session."""
        started = time.monotonic()
        store, namespace = self._runtime.store, self._runtime.namespace
        columns = key_columns(self._runtime, check_key(key))
        while True:
            current = await store.get_current(namespace, self._runtime.stored_key(key).parts)
            if current is None:
                fresh = NewSession(namespace=namespace, id=new_id(), now=self._runtime.now(), **columns._asdict())
                if (await store.create(fresh))[1]:
                    self._runtime.hooks.announce(fresh.id, "on_session_start")
                    return fresh.id
                continue
            try:
                holding = await take(self._runtime, current.id, shortened(request, started), "always")
                assert holding is not None  # the request has no message to queue
                async with holding:
                    return (await start_next(holding)).session_id
            except (KeyMovedError, SessionNotFoundError):
                pass  # another call of `new` was first, or it was deleted: look again

    async def delete(self, ref: str | SessionKey) -> bool:
        """See `SessionManager.delete`."""
        handle = Handle(self._runtime, ref)
        try:
            async with ending(self._runtime, handle, EndReason.DELETE):
                existed = await self.delete_if(handle, lambda row: True)
        except SessionNotFoundError:
            existed = False
        if not existed and (session_id := await handle.readable_id()) is not None:
            await self._states.reach()
            await self._states.delete(session_id, everywhere=True)
        return existed

    async def delete_if(self, handle: Handle, is_wanted: Callable[[SessionRow], bool]) -> bool:
        """Delete a session if its row is as wanted at that moment; returns whether it was."""
        deleted = False
        await self._states.reach()

        async def forget(tree: Tree) -> None:
            if is_wanted(tree.session):
                await Components(handle).forgetter.forget_session(tree)

        def decide(rows: TreeRows) -> Plan | None:
            nonlocal deleted
            deleted = is_wanted(rows.session)
            return plans.delete_session(rows, self._runtime.now()) if deleted else None

        existed = await handle.change_whole(decide, forget)
        if existed and deleted:
            await Components(handle).prompt.forget(handle.id)
            await self._states.delete(handle.id, everywhere=False)
        return existed and deleted
