"""The part of `SessionManager` that begins and ends sessions: by hand, by key, by sweep, and after a crash."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

from frontdesk.compaction import overlays
from frontdesk.config.hooks import DEFAULT_TIMEOUT
from frontdesk.errors import FrontdeskError, InvalidKeyError, SessionNotFoundError
from frontdesk.events import feed
from frontdesk.keys import SessionKey
from frontdesk.lifecycle import transitions
from frontdesk.lifecycle.leases import holder, holding, is_dead, trying
from frontdesk.lifecycle.transitions import (
    ACTIVE,
    ARCHIVED,
    COMPACTION_LEASE,
    SUSPENDED,
    check_transition,
    status_of,
)
from frontdesk.manager.events import EventCalls
from frontdesk.messages import new_id
from frontdesk.records import EndReason, RecoveryReport, SessionStatus, SweepReport
from frontdesk.search import background, freshness
from frontdesk.session.session import Session
from frontdesk.store import NEVER, DueQuery, NewOverlay, NewSession, Plan, SessionRow
from frontdesk.tree import plans
from frontdesk.tree.tree import Tree

_log = logging.getLogger("frontdesk.lifecycle")
_ENDING = "ending"
_SWEEP, _PACE = "sweep", "sweep-pace"
_BATCH = 64


class LifecycleCalls(EventCalls):
    """How sessions begin, rest and end, and who is told."""

    # hooks

    def register_hook(self, hook: Any, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Have an object told of what happens: it has any of `on_session_start(session)`,
        `on_message(session, message)`, `on_compaction(session, compaction)` and `on_session_end(session, reason)`, sync
        or async.

        Hooks are called in the order of registration, for each session one thing after the other; beside the operation,
        but for ends: those are told, and waited for, before anything changes. A hook that raises, or takes longer than
        `timeout` seconds, is cut off, logged and counted (`stats().hook_failures`); the operation goes on. Raises
        `ConfigurationError` for an object with none of these methods, or one that is registered already."""
        self._runtime.hooks.register(hook, timeout)

    def unregister_hook(self, hook: Any) -> bool:
        """Tell an object nothing more; False if it was not registered."""
        return self._runtime.hooks.unregister(hook)

    def _begun(self, session_id: str) -> Session:
        """The handle of a session that was just made."""
        session = Session(self._runtime, session_id)
        session._announce("on_session_start")
        return session

    @asynccontextmanager
    async def _ending(self, session: Session, reason: EndReason) -> AsyncIterator[None]:
        """Around the change that ends a session: its hooks are told first, and once, whoever else tries to end it.

        Raises `SessionNotFoundError`."""
        hooks = self._runtime.hooks
        if not hooks.listens("on_session_end") or not hooks.tells_end((await session._row()).id):
            yield
            return
        async with holding(self._runtime, session.id, _ENDING):
            if (await session._row()).status != ARCHIVED:
                await hooks.finish(session, reason)
            yield

    # by hand

    async def archive(self, id: str | SessionKey) -> None:
        """End a session (reason `archive`). It stays listed and searchable, and its key keeps pointing at it.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` if it has ended already."""
        session = await self._able(id, ARCHIVED)
        async with self._ending(session, EndReason.ARCHIVE):
            await session._alter(
                lambda row: transitions.end(self._checked(row, ARCHIVED), EndReason.ARCHIVE, self._runtime.now())
            )
        session._refresh_beside(session.id)

    async def suspend(self, id: str | SessionKey) -> None:
        """Let a session rest until `resume`: appends are refused, sweeps pass it over.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` unless it is active, idle or compacting."""
        session = await self._able(id, SUSPENDED)

        def suspended(row: SessionRow) -> Plan:
            return plans.change_row(self._checked(row, SUSPENDED), self._runtime.now(), status=SUSPENDED.value)

        await session._alter(suspended)

    async def resume(self, id: str | SessionKey) -> None:
        """Make an idle, suspended or ended session active, as of now; it is current under its key again if no other is.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` if it is active."""
        session = await self._able(id, ACTIVE)
        await session._alter(lambda row: transitions.reopen(self._checked(row, ACTIVE), self._runtime.now()))

    async def _able(self, ref: str | SessionKey, wanted: SessionStatus) -> Session:
        """A session that can get a status now; whether it still can is checked again when it does."""
        session = self.session(ref)
        self._checked(await session._row(), wanted)
        return session

    def _checked(self, row: SessionRow, wanted: SessionStatus) -> SessionRow:
        idle_after = self._runtime.settings.lifecycle.idle_after
        check_transition(row.id, status_of(row, self._runtime.now(), idle_after, is_compacting=False), wanted)
        return row

    async def reset(self, id: str | SessionKey) -> None:
        """Empty the view of a session at its head, but for the leading system messages. Nothing is removed: transcript
        and search have it all, `undo_compaction` takes it back; prompt, blocks and status stay. Hooks are told of it as
        an end with reason `reset`. If the view is empty already, nothing happens. Raises `SessionNotFoundError`."""
        session = await self._existing(id)
        tree = await session._tree()
        if tree is None or await overlays.all_said(self._runtime, tree) is None:
            return
        async with self._ending(session, EndReason.RESET):
            await session._change(self._hide_all)
        session._refresh_beside(session.id)

    async def _hide_all(self, tree: Tree) -> Plan | None:
        ends = await overlays.all_said(self._runtime, tree)
        if ends is None:
            return None
        now = self._runtime.now()
        start, end = ends
        overlay = NewOverlay(id=new_id(), kind="reset", start=start, end=end, summary=None, tokens=0, created_at=now)
        return plans.reset(tree, overlay, now)

    async def new(self, key: SessionKey) -> Session:
        """End the current session under a key, if there is one (reason `new`; it stays listed and searchable), and
        begin the next: an empty one. Of several at once, each ends the one before it. Raises `InvalidKeyError`."""
        if not isinstance(key, SessionKey):
            raise InvalidKeyError(f"a key is a SessionKey, not {type(key).__name__}: use `SessionKey.parse` for a text")
        agent, channel, peer, thread = address = self._runtime.address(key).parts
        store = self._runtime.store
        while True:
            fresh = NewSession(
                namespace=self.namespace,
                id=new_id(),
                now=self._runtime.now(),
                agent=agent,
                channel=channel,
                peer=peer,
                thread=thread,
            )
            current = await store.get_current(self.namespace, address)
            if current is None:
                if (await store.create(fresh))[1]:
                    return self._begun(fresh.id)
            elif await self._succeed(current.id, fresh):
                return self._begun(fresh.id)

    async def _succeed(self, session_id: str, fresh: NewSession) -> bool:
        """Let a new session follow the current one under a key; False if that is not the current one any more."""
        session = Session(self._runtime, session_id)
        try:
            async with self._ending(session, EndReason.NEW):
                while (row := await session._row()).key_current:
                    if await self._runtime.store.apply(
                        transitions.succeed(row, fresh, EndReason.NEW, self._runtime.now())
                    ):
                        session._refresh_beside(session_id)
                        return True
        except SessionNotFoundError:
            pass  # deleted meanwhile: then there is nothing to end
        return False

    async def delete(self, id: str | SessionKey) -> bool:
        """Remove a session and everything of it for good, except what forks still see; False if there was none.

        Its states go with it, in one step where they live in the same store, right after it where they do not; states
        with this id are gone afterwards even if there was no session. Hooks are told of it as an end (reason `delete`)
        if it had not ended before."""
        session = self.session(id)
        try:
            async with self._ending(session, EndReason.DELETE):
                existed = await self._delete(session, lambda row: True)
        except SessionNotFoundError:
            existed = False
        if not existed and (session_id := await session._readable_id()) is not None:
            await self._delete_states(session_id, everywhere=True)
        return existed

    async def _delete(self, session: Session, is_wanted: Callable[[SessionRow], bool]) -> bool:
        deleted = False

        async def build(tree: Tree) -> Plan | None:
            nonlocal deleted
            deleted = is_wanted(tree.session)
            return plans.delete_session(tree.rows, self._runtime.now()) if deleted else None

        existed = await session._change(build, family=True)
        if existed and deleted:
            await session._prompt.forget(session.id)
            await self._delete_states(session.id, everywhere=False)
        return existed and deleted

    # by time

    async def sweep(self) -> SweepReport:
        """Archive what was not written to for `archive_after` (reason `timeout`), delete what ended `delete_after` ago,
        and remove expired states and events older than `keep_events`, in the whole namespace (states: in the whole
        store); one worker at a time. All is done in batches, so that memory is bounded."""
        async with trying(self._runtime, _SWEEP) as is_ours:
            if not is_ours:
                return SweepReport(ran=False)
            settings = self._runtime.settings.lifecycle
            archived = await self._sweep("archive", settings.archive_after, self._time_out)
            deleted = await self._sweep("delete", settings.delete_after, self._let_go)
            states = await self._sweep_states()
            return SweepReport(True, archived, deleted, states, await feed.trim(self._runtime, settings.keep_events))

    async def _sweep(
        self,
        what: Literal["archive", "delete"],
        threshold: int,
        work: Callable[[SessionRow], Awaitable[bool]],
    ) -> int:
        """Do something with all that are due by the common threshold, and then with those that have their own."""
        done = 0
        for common in (None, threshold) if threshold < NEVER else (None,):
            after: tuple[int, int] | None = None
            while not self._runtime.background.closing:
                query = DueQuery(
                    namespace=self.namespace,
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
                after = _moment(rows[-1], what, common is None), rows[-1].number
        return done

    async def _time_out(self, row: SessionRow) -> bool:
        """Archive a session that was not written to since it was found."""
        session = Session(self._runtime, row.id)
        if not self._runtime.hooks.listens("on_session_end"):
            return await self._runtime.store.apply(transitions.end(row, EndReason.TIMEOUT, self._runtime.now()))
        try:
            if not _is_untouched(await session._row(), row):
                return False
            async with self._ending(session, EndReason.TIMEOUT):
                # A hook may have changed a tag, or made the view known: that is no reason to stay.
                while _is_untouched(present := await session._row(), row):
                    if await self._runtime.store.apply(
                        transitions.end(present, EndReason.TIMEOUT, self._runtime.now())
                    ):
                        return True
        except SessionNotFoundError:
            pass  # deleted meanwhile
        return False

    async def _let_go(self, row: SessionRow) -> bool:
        """Delete a session that has not been woken since it was found."""
        ended = (row.status, row.ended_at)
        return await self._delete(Session(self._runtime, row.id), lambda now: (now.status, now.ended_at) == ended)

    def _sweep_beside(self) -> None:
        """Sweep in the background for as long as the manager is open."""
        every = self._runtime.settings.lifecycle.every
        if every is not None:
            self._runtime.background.spawn(self._keep_sweeping(every), "sweep")

    async def _keep_sweeping(self, every: float) -> None:
        """One sweep per interval over all workers: whoever takes the pace lease does it, and it runs out by itself."""
        while await self._runtime.background.pause(every):
            pace = int(every * 900_000)
            try:
                if await self._runtime.store.acquire_lease(self.namespace, None, _PACE, holder(), pace) is not None:
                    await self.sweep()
            except FrontdeskError as error:
                _log.warning("a sweep failed: %s", type(error).__name__)

    # after a crash

    async def recover(self) -> RecoveryReport:
        """Clear up after processes of this machine that died: their leases are freed, so that sessions that were being
        compacted are active and can be again, and the search index takes in, beside, what they left undone. Leases of
        other machines run out by themselves, within seconds."""
        freed = [
            held
            for held in await self._runtime.store.held_leases(self.namespace)
            if is_dead(held.lease.holder)
            and await self._runtime.store.release_lease(
                self.namespace, held.session_id, held.lease.name, held.lease.number
            )
        ]
        compacting = sorted(
            held.session_id for held in freed if held.session_id and held.lease.name == COMPACTION_LEASE
        )
        unindexed = await freshness.missing(self._runtime)
        if unindexed:
            background.follow(self._runtime)
        return RecoveryReport(len(freed), tuple(compacting), unindexed)


def _is_untouched(present: SessionRow, found: SessionRow) -> bool:
    return (present.status, present.head) == (found.status, found.head)


def _moment(row: SessionRow, what: str, is_own: bool) -> int:
    """By what a session stands in the order of those that are due."""
    start, own = (row.last_active_at, row.archive_after) if what == "archive" else (row.ended_at or 0, row.delete_after)
    return start + (own or 0 if is_own else 0)
