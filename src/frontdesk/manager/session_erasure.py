"""Erases whole sessions, one by one, forks before their source, so that what is left can always be found again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace

import msgspec

from frontdesk.config.runtime import Runtime
from frontdesk.errors import SessionNotFoundError
from frontdesk.manager.states import StateCleaner
from frontdesk.records import EndReason, ErasureReport
from frontdesk.session.components import Components
from frontdesk.session.endings import ending
from frontdesk.session.handle import Handle
from frontdesk.store import SEGMENT_SIZE, Plan, SessionQuery, SessionRow, Span, TreeRows
from frontdesk.tree import plans
from frontdesk.tree.tree import Tree

_BATCH = 32
_PASSES = 3
"""how often sessions are looked for: after the first time, only those that others began meanwhile are found"""


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose data is erased: that of the keys with these parts; None means any."""

    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    thread: str | None = None

    def has(self, row: SessionRow) -> bool:
        wanted = (self.agent, row.agent), (self.channel, row.channel), (self.peer, row.peer), (self.thread, row.thread)
        return all(want in (None, have) for want, have in wanted)


async def pages(runtime: Runtime, whose: Whose) -> AsyncIterator[list[SessionRow]]:
    """The sessions that exist when this begins, by number, so that none is passed by because it becomes active."""
    query = SessionQuery(
        namespace=runtime.namespace,
        limit=_BATCH,
        agent=whose.agent,
        channel=whose.channel,
        peer=whose.peer,
        thread=whose.thread,
        order="created",
    )
    while rows := await runtime.store.page(query):
        yield rows
        query = msgspec.structs.replace(query, after=(0, rows[-1].number))


class SessionEraser:
    """Erases sessions, and what they leave elsewhere."""

    def __init__(self, runtime: Runtime, states: StateCleaner) -> None:
        self._runtime = runtime
        self._states = states

    async def erase(self, whose: Whose) -> ErasureReport:
        """Erase all sessions that exist now, and those that others begin meanwhile, until none is found. Where others
        do not stop, the report says how many remain."""
        total = ErasureReport()
        for _ in range(_PASSES):
            found = 0
            async for rows in pages(self._runtime, whose):
                found += len(rows)
                total = sum(await asyncio.gather(*(self._erase(row.id, whose) for row in rows)), total)
            if not found:
                return total
        remaining = sum([len(rows) async for rows in pages(self._runtime, whose)])
        return replace(total, remaining=remaining)

    async def _erase(self, session_id: str, whose: Whose) -> ErasureReport:
        """Erase a session, and before it what was forked from it."""
        total = ErasureReport()
        waiting = [session_id]
        while waiting:
            below = [id for id in await self._below(waiting[-1], whose) if id not in waiting]
            if below:
                waiting += below
                continue
            session_id = waiting.pop()
            removed = await self._remove(session_id)
            if removed is None:
                waiting.insert(0, session_id)  # the fork in its way may be waiting itself, or is found next time
            else:
                total += removed
        return total

    async def _below(self, session_id: str, whose: Whose) -> list[str]:
        """Those that were forked from a session, oldest first, and those that were begun under it and are nobody
        else's. Sessions of others that were begun under it stay, and forget it."""
        rows = await self._runtime.store.trees(self._runtime.namespace, [session_id], family=True)
        found = plans.descendants(rows[0]) if rows else []
        query = SessionQuery(namespace=self._runtime.namespace, limit=_BATCH, parent=session_id, order="created")
        while children := await self._runtime.store.page(query):
            for child in children:
                if child.agent is None or whose.has(child):
                    found.append(child)
                else:
                    await self._orphan(child)
            query = msgspec.structs.replace(query, after=(children[-1].last_active_at, children[-1].number))
        return [row.id for row in sorted(found, key=lambda row: row.number)]

    async def _orphan(self, row: SessionRow) -> None:
        handle = Handle(self._runtime, row.id)
        try:
            await handle.alter(lambda row: plans.change_row(row, self._runtime.now(), parent_session_id=None))
        except SessionNotFoundError:
            pass  # deleted meanwhile

    async def _remove(self, session_id: str) -> ErasureReport | None:
        """Remove one session and all that is kept for it; None, and nothing is removed, if it was forked meanwhile."""
        handle = Handle(self._runtime, session_id)
        removed, is_forked = ErasureReport(), False

        async def prepare(tree: Tree) -> None:
            nonlocal removed, is_forked
            is_forked = bool(plans.descendants(tree.rows))
            if not is_forked:
                await Components(handle).forgetter.forget_session(tree)
                removed = await self._count(tree)

        def decide(rows: TreeRows) -> Plan | None:
            nonlocal is_forked
            is_forked = is_forked or bool(plans.descendants(rows))
            return None if is_forked else plans.erase_session(rows, self._runtime.now())

        # Before the session: without it nobody would know where to look for what is left.
        states = await self._forget_elsewhere(handle)
        try:
            async with ending(self._runtime, handle, EndReason.ERASE):
                existed = await handle.change_whole(decide, prepare)
        except SessionNotFoundError:
            existed = False
        if existed and is_forked:
            return None
        states += await self._forget_elsewhere(handle)
        return replace(removed if existed else ErasureReport(), states=states)

    async def _count(self, tree: Tree) -> ErasureReport:
        """What is removed with a session."""
        plan = plans.erase_session(tree.rows, self._runtime.now())
        kept = await self._runtime.store.count_rows(tree.session.number, list(_spans(plan)))
        return ErasureReport(
            sessions=1,
            messages=kept.messages,
            summaries=len(plan.delete_overlays),
            block_versions=kept.documents,
            usage_entries=kept.usage_entries,
            queued_messages=kept.queued,
        )

    async def _forget_elsewhere(self, handle: Handle) -> int:
        """Remove what is not kept with the session; returns how many states there were."""
        await Components(handle).prompt.forget(handle.id)
        return await self._states.delete(handle.id, everywhere=True)


def _spans(plan: Plan) -> Iterator[Span]:
    """The messages that a plan deletes."""
    yield from plan.delete_rows
    yield from (Span(segment, 0, SEGMENT_SIZE - 1, None) for segment in plan.delete_segments)
