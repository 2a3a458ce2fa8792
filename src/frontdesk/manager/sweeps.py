"""Sweeps: sessions without activity are archived, and ended ones deleted, after a given time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Literal

from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError, SessionNotFoundError
from frontdesk.events import feed
from frontdesk.lifecycle import transitions
from frontdesk.lifecycle.leases import holder, try_lease
from frontdesk.manager.lifecycle import Lifecycle
from frontdesk.manager.states import StateCleaner
from frontdesk.records import EndReason, SweepReport
from frontdesk.session.endings import ending
from frontdesk.session.handle import Handle
from frontdesk.store import NEVER, DueQuery, SessionRow
from frontdesk.unattended import log_failure

_log = logging.getLogger("frontdesk.lifecycle")
_SWEEP, _PACE = "sweep", "sweep-pace"
_BATCH = 64


class Sweeper:
    """Sweeps a namespace, one worker at a time, in batches: memory stays bounded."""

    def __init__(self, runtime: Runtime, lifecycle: Lifecycle, states: StateCleaner) -> None:
        self._runtime = runtime
        self._lifecycle = lifecycle
        self._states = states

    def start(self) -> None:
        """Sweep in the background for as long as the manager is open, if `with_lifecycle` asks for it."""
        every = self._runtime.settings.lifecycle.every
        if every is not None:
            self._runtime.background.spawn(self._sweep_forever(every), "sweep")

    async def _sweep_forever(self, every: float) -> None:
        """One sweep per interval over all workers: the one that gets the pace lease sweeps, and the lease expires."""
        namespace = self._runtime.namespace
        while await self._runtime.background.pause(every):
            pace = int(every * 900_000)
            try:
                if await self._runtime.store.acquire_lease(namespace, None, _PACE, holder(), pace) is not None:
                    await self.sweep()
            except FrontdeskError as error:
                log_failure(_log, error, "a sweep of namespace %r failed", namespace)

    async def sweep(self) -> SweepReport:
        """See `SessionManager.sweep`."""
        async with try_lease(self._runtime, _SWEEP) as is_ours:
            if not is_ours:
                return SweepReport(ran=False)
            settings = self._runtime.settings.lifecycle
            archived = await self._work_off("archive", settings.archive_after, self._time_out)
            deleted = await self._work_off("delete", settings.delete_after, self._delete)
            states = await self._states.sweep()
            return SweepReport(True, archived, deleted, states, await feed.trim(self._runtime, settings.keep_events))

    async def _work_off(
        self,
        what: Literal["archive", "delete"],
        threshold: int,
        work: Callable[[SessionRow], Awaitable[bool]],
    ) -> int:
        """Do something with all sessions that are due: first those with a threshold of their own (None), then those
        that follow the manager's."""
        done = 0
        for common in (None, threshold) if threshold < NEVER else (None,):
            after: tuple[int, int] | None = None
            while not self._runtime.background.closing:
                query = DueQuery(
                    namespace=self._runtime.namespace,
                    what=what,
                    now=self._runtime.now(),
                    limit=_BATCH,
                    threshold=common,
                    after=after,
                )
                rows = await self._runtime.store.due(query)
                done += sum(await asyncio.gather(*map(work, rows)))
                if len(rows) < _BATCH:
                    break
                after = _due_order(rows[-1], what, common is None), rows[-1].number
        return done

    async def _time_out(self, row: SessionRow) -> bool:
        """Archive a session that was not written to since it was found."""
        runtime, handle = self._runtime, Handle(self._runtime, row.id)
        if not runtime.hooks.listens("on_session_end"):
            return await runtime.store.apply(transitions.end(row, EndReason.TIMEOUT, runtime.now()))
        try:
            if not _is_untouched(await handle.row(), row):
                return False
            async with ending(runtime, handle, EndReason.TIMEOUT):
                # A hook may have changed a tag, or a reader may have stored the view: that is no reason to stay.
                while _is_untouched(present := await handle.row(), row):
                    if await runtime.store.apply(transitions.end(present, EndReason.TIMEOUT, runtime.now())):
                        return True
        except SessionNotFoundError:
            pass  # deleted meanwhile
        return False

    async def _delete(self, row: SessionRow) -> bool:
        """Delete a session that has not been woken since it was found."""
        ended = (row.status, row.ended_at)
        handle = Handle(self._runtime, row.id)
        return await self._lifecycle.delete_if(handle, lambda now: (now.status, now.ended_at) == ended)


def _is_untouched(present: SessionRow, found: SessionRow) -> bool:
    return (present.status, present.head) == (found.status, found.head)


def _due_order(row: SessionRow, what: str, is_own: bool) -> int:
    """By what the sessions that are due are sorted."""
    start, own = (row.last_active_at, row.archive_after) if what == "archive" else (row.ended_at or 0, row.delete_after)
    return start + (own or 0 if is_own else 0)
