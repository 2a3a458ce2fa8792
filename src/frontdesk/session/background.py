"""What an append starts in the background: memory refresh and automatic compaction. The append does not wait for it."""

from __future__ import annotations

import time

from frontdesk.compaction.failures import CompactionState, RunningCompaction
from frontdesk.config.background import may_run
from frontdesk.context.frozen_prompt import FrozenPrompt
from frontdesk.errors import FrontdeskError, SessionNotFoundError
from frontdesk.lifecycle.transitions import COMPACTION_LEASE
from frontdesk.messages.ids import new_id
from frontdesk.session.compacting import Compactor
from frontdesk.session.handle import Handle
from frontdesk.session.remembering import MemoryRefresher
from frontdesk.store import SessionRow


class BackgroundCompactor:
    """Starts memory refreshes and compactions of one session when they are due."""

    def __init__(self, handle: Handle, prompt: FrozenPrompt, memory: MemoryRefresher, compactor: Compactor) -> None:
        self._handle = handle
        self._runtime = handle.runtime
        self._prompt = prompt
        self._memory = memory
        self._compactor = compactor

    @property
    def _state(self) -> CompactionState:
        return self._runtime.shared(CompactionState)

    def after_append(self, row: SessionRow, added: int) -> None:
        """Start what an append of `added` tokens made necessary, if it did."""
        if row.view != "stale":
            self._start_what_is_due(row, added)
        else:
            self._runtime.background.spawn(self._measure_and_start(added), f"measure {row.id} {new_id()}")

    async def _measure_and_start(self, added: int) -> None:
        """After an append to a view whose totals are not known."""
        try:
            row = await self._compactor.known_row()
        except FrontdeskError:
            return  # the next append tries again
        if row is not None:
            self._start_what_is_due(row, added)

    def _start_what_is_due(self, row: SessionRow, added: int) -> None:
        settings = self._runtime.settings.compaction
        used = row.view_tokens + self._prompt.known_tokens(row)
        if used - added < settings.soft_ratio * self._compactor.window(row) <= used:
            self._memory.start(row.id)
        if not settings.is_automatic or self._state.pauses.holds(row.id, time.monotonic()):
            return
        if row.id in self._state.hidden or self._compactor.is_full(row, used):
            self._start(row.id)

    def after_cut(self) -> None:
        """Start to make a summary again under which messages were deleted. After a failure the next append does."""
        self._state.hidden.add(self._handle.id)
        if not self._state.pauses.holds(self._handle.id, time.monotonic()):
            self._start(self._handle.id)

    def _start(self, session_id: str) -> None:
        running = self._state.running.get(session_id)
        if running is not None and may_run(running.task):
            running.again = True
        else:
            running = self._state.running[session_id] = RunningCompaction()
            work = self._run(session_id, running)
            running.task = self._runtime.background.spawn(work, f"compact {session_id} {new_id()}")

    async def _run(self, session_id: str, running: RunningCompaction) -> None:
        """Compact, and again if an append asked for it meanwhile: what was read then may have been too little."""
        try:
            await self._compact_while_full(session_id)
            while running.again:
                running.again = False
                await self._compact_while_full(session_id)
        finally:
            if self._state.running.get(session_id) is running:
                del self._state.running[session_id]

    async def _compact_while_full(self, session_id: str) -> None:
        pauses, runtime = self._state.pauses, self._runtime
        try:
            while await self._compactor.remake() is not None:
                pass
            self._state.hidden.discard(session_id)
            if await runtime.store.get_lease(runtime.namespace, session_id, COMPACTION_LEASE) is not None:
                return
            while not pauses.holds(session_id, time.monotonic()) and await self._compactor.needs_compaction():
                made = await self._compactor.compact(trigger="automatic")
                if made is None:
                    return
                if made.tokens_after >= runtime.settings.compaction.hard_ratio * await self._window():
                    # What must stay is too long by itself: the next append is no reason to ask the model again.
                    pauses.failed(session_id, time.monotonic())
        except SessionNotFoundError:
            self._state.hidden.discard(session_id)  # deleted meanwhile: there is nothing left to compact
        except Exception as error:
            pauses.failed(session_id, time.monotonic())
            await self._compactor.report(session_id, error)

    async def _window(self) -> int:
        return self._compactor.window(await self._handle.find_row())
