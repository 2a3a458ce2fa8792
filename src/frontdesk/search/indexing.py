"""Bringing the index up to date: in batches behind a mark in the log of changes, by one worker at a time.

A batch and the mark are written in one transaction, so that a crash loses nothing: whoever comes next goes on from the
mark. What was there before the index, or was indexed by other rules, is walked through family by family.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from frontdesk.calls import call
from frontdesk.errors import ChangesTrimmedError, StoreError
from frontdesk.leasing import holder
from frontdesk.scope import Scope
from frontdesk.search import loading
from frontdesk.search.loading import Source, Wanted
from frontdesk.search.settings import SearchSettings
from frontdesk.store import IndexBatch, IndexState, IndexText, LeaseRow, StatsQuery

LINES = 1_000
"""lines of the log that are read at a time"""
_LEASE = "search-index"
_TTL = 30_000_000
_RENEW = 5.0
_ON_THE_LOOP = 32
"""texts that are parted into terms without a thread of their own"""

Progress = Callable[[int, int], Any]


class _OvertakenError(Exception):
    """Another worker has moved the mark: look again."""


async def run(scope: Scope, budget: int | None = None) -> bool:
    """Bring the index up to date, or by about `budget` texts nearer to it; False if another is at it."""
    return await _Run(scope, budget, None).alone(lambda work: work.advance())


async def rebuild(scope: Scope, progress: Progress | None) -> None:
    """Build the index anew beside its use; waits for whoever is at it."""
    while not await _Run(scope, None, progress).alone(lambda work: work.begin_again()):  # noqa: ASYNC110
        # Whoever is at it may be in another process: nothing tells when the lease is let go.
        await asyncio.sleep(0.2)


class _Run:
    """One worker's turn at the index."""

    def __init__(self, scope: Scope, budget: int | None, progress: Progress | None) -> None:
        self._scope = scope
        self._settings = scope.settings(SearchSettings)
        self._budget = budget
        self._progress = progress
        self._done = 0
        self._total: int | None = None
        self._lease: LeaseRow | None = None
        self._renewed = 0.0

    async def alone(self, work: Callable[[_Run], Any]) -> bool:
        """Do some work while nobody else does; False if somebody else is at it."""
        store, namespace = self._scope.store, self._scope.namespace
        self._lease = await store.acquire_lease(namespace, None, _LEASE, holder(), _TTL)
        if self._lease is None:
            return False
        self._renewed = asyncio.get_running_loop().time()
        try:
            await work(self)
        finally:
            with suppress(StoreError):
                await store.release_lease(namespace, None, _LEASE, self._lease.number)
        return True

    async def begin_again(self) -> None:
        state = await self._state()
        usable = state is not None and self._is_usable(state)
        await self._begin(state, usable=usable)
        await self.advance()

    def _is_usable(self, state: IndexState) -> bool:
        return is_usable(state, self._settings)

    async def advance(self) -> None:
        while True:
            try:
                await self._advance()
                return
            except _OvertakenError:
                continue

    async def _advance(self) -> None:
        state = await self._state()
        if state is None or state.made_with != self._settings.made_with:
            state = await self._begin(state, usable=False)
        if state.cursor is not None:
            state = await self._take_families(state, state.cursor)
        while not self._is_spent():
            try:
                lines = await self._scope.store.changes(self._scope.namespace, state.position, LINES)
            except ChangesTrimmedError:
                state = await self._begin(state, usable=False)
                raise _OvertakenError from None
            if not lines:
                return
            wanted = Wanted()
            for line in lines:
                wanted.add_line(line)
            await loading.add_orphans(self._scope, wanted)
            state = await self._take(state, wanted, replace(state, position=lines[-1].position))

    def _is_spent(self) -> bool:
        return self._budget is not None and self._done >= self._budget

    async def _state(self) -> IndexState | None:
        row = await self._scope.store.index_state(self._scope.namespace)
        return None if row is None else row.state

    async def _begin(self, replaces: IndexState | None, *, usable: bool) -> IndexState:
        """Start to walk through everything; what is changed from now on comes by the log. An index that stays in use
        meanwhile keeps its mark: what was logged behind that is not in it yet."""
        if usable and replaces is not None:
            position = replaces.position
        else:
            position = await self._scope.store.last_change(self._scope.namespace)
        state = IndexState(made_with=self._settings.made_with, position=position, cursor=0, usable=usable)
        await self._write(replaces, state, ())
        return state

    async def _take_families(self, state: IndexState, after: int) -> IndexState:
        async for family, wanted in loading.families(self._scope, after):
            state = await self._take(state, wanted, replace(state, cursor=family))
            if self._is_spent():
                return state
        whole = replace(state, cursor=None, usable=True)
        await self._write(state, whole, ())
        return whole

    async def _take(self, state: IndexState, wanted: Wanted, reached: IndexState) -> IndexState:
        """Write all that is wanted, portion by portion, and the mark with the last one.

        While one portion is being written, the next is read and parted."""
        ready: list[IndexText] | tuple[()] = ()
        for portion in wanted.portions():
            writing = asyncio.ensure_future(self._write(state, state, ready)) if ready else None
            try:
                ready = await self._texts(await loading.load(self._scope, portion))
            finally:
                if writing is not None:
                    await writing
        await self._write(state, reached, ready)
        return reached

    async def _texts(self, sources: list[Source]) -> list[IndexText]:
        if len(sources) <= _ON_THE_LOOP:
            return [source.to_index(self._settings) for source in sources]
        texts: list[IndexText] = await call(lambda: [source.to_index(self._settings) for source in sources])
        return texts

    async def _write(self, replaces: IndexState | None, state: IndexState, texts: list[IndexText] | tuple[()]) -> None:
        store, namespace = self._scope.store, self._scope.namespace
        if not await store.write_index(IndexBatch(namespace=namespace, replaces=replaces, state=state, texts=texts)):
            raise _OvertakenError
        self._done += len(texts)
        now = asyncio.get_running_loop().time()
        if self._lease is not None and now - self._renewed > _RENEW:
            await store.renew_lease(namespace, None, _LEASE, self._lease.number, _TTL)
            self._renewed = now
        if self._progress is not None and texts:
            if self._total is None:
                self._total = (await store.stats(StatsQuery(namespace=namespace))).messages
            self._progress(self._done, max(self._done, self._total))


def is_usable(state: IndexState | None, settings: SearchSettings) -> bool:
    """Whether what is not in the index is only what was logged after its mark."""
    return state is not None and state.made_with == settings.made_with and (state.cursor is None or state.usable)
