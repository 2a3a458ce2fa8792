"""Following what is said: in batches behind a mark in the log of changes, by one worker at a time.

The index and the vectors both follow so, each with a mark of its own, since vectors come from elsewhere and may be late
or fail. Whoever comes after a crash goes on from the mark; what was there before it, or was made by other rules, is
walked through family by family.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from frontdesk.config.runtime import Runtime
from frontdesk.errors import ChangesTrimmedError, StoreError
from frontdesk.lifecycle.leases import holder
from frontdesk.search import loading
from frontdesk.search.loading import Wanted
from frontdesk.store import IndexState, LeaseRow, StatsQuery

LINES = 1_000
"""lines of the log that are read at a time"""
_RENEW = 5.0

Progress = Callable[[int, int], Any]


class OvertakenError(Exception):
    """Another worker has moved the mark: look again."""


class Follower(ABC):
    """One worker's turn."""

    lease: str
    ttl = 30_000_000

    def __init__(self, runtime: Runtime, budget: int | None = None, progress: Progress | None = None) -> None:
        self.runtime = runtime
        self._budget = budget
        self._progress = progress
        self._done = 0
        self._total: int | None = None
        self._held: LeaseRow | None = None
        self._renewed = 0.0

    # what it is that follows

    @property
    @abstractmethod
    def made_with(self) -> str: ...

    @abstractmethod
    async def state(self) -> IndexState | None: ...

    @abstractmethod
    async def mark(self, replaces: IndexState | None, state: IndexState) -> None:
        """Set how far it is. Raises `OvertakenError`."""

    @abstractmethod
    async def take(self, state: IndexState, wanted: Wanted, reached: IndexState) -> None:
        """Take in all that is wanted, and then set the mark."""

    def fits(self, state: IndexState) -> bool:
        """Whether it was made as it would be made now."""
        return state.made_with == self.made_with

    # how

    async def alone(self, work: Callable[[], Any]) -> bool:
        """Do some work while nobody else does; False if somebody else is at it."""
        store, namespace = self.runtime.store, self.runtime.namespace
        self._held = await store.acquire_lease(namespace, None, self.lease, holder(), self.ttl)
        if self._held is None:
            return False
        self._renewed = asyncio.get_running_loop().time()
        try:
            await work()
        finally:
            with suppress(StoreError):
                await store.release_lease(namespace, None, self.lease, self._held.number)
        return True

    async def alone_at_last(self, work: Callable[[], Any]) -> None:
        """Do some work once nobody else does."""
        while not await self.alone(work):  # noqa: ASYNC110
            # Whoever is at it may be in another process: nothing tells when the lease is let go.
            await asyncio.sleep(0.2)

    async def advance(self) -> None:
        """Follow up to the end of the log, or as far as the budget goes."""
        while True:
            try:
                await self._advance()
                return
            except OvertakenError:
                continue

    async def _advance(self) -> None:
        state = await self.state()
        if state is None or not self.fits(state):
            state = await self.begin(state, usable=False)
        if state.cursor is not None:
            state = await self._take_families(state, state.cursor)
        while not self._is_spent():
            try:
                lines = await self.runtime.store.changes(self.runtime.namespace, state.position, LINES)
            except ChangesTrimmedError:
                await self.begin(state, usable=False)
                raise OvertakenError from None
            if not lines:
                return
            wanted = Wanted()
            for line in lines:
                wanted.add_line(line)
            await loading.add_orphans(self.runtime, wanted)
            reached = replace(state, position=lines[-1].position)
            await self.take(state, wanted, reached)
            state = reached

    async def begin(self, replaces: IndexState | None, *, usable: bool) -> IndexState:
        """Start to walk through everything; what is changed from now on comes by the log. What stays in use meanwhile
        keeps its mark: what was logged behind that is not in it yet."""
        if usable and replaces is not None:
            position = replaces.position
        else:
            position = await self.runtime.store.last_change(self.runtime.namespace)
        state = IndexState(made_with=self.made_with, position=position, cursor=0, usable=usable)
        await self.mark(replaces, state)
        return state

    async def _take_families(self, state: IndexState, after: int) -> IndexState:
        async for family, wanted in loading.families(self.runtime, after):
            reached = replace(state, cursor=family)
            await self.take(state, wanted, reached)
            state = reached
            if self._is_spent():
                return state
        whole = replace(state, cursor=None, usable=True)
        await self.mark(state, whole)
        return whole

    def _is_spent(self) -> bool:
        return self._budget is not None and self._done >= self._budget

    async def renew(self) -> None:
        """Stay the one who is at it."""
        now = asyncio.get_running_loop().time()
        if self._held is not None and now - self._renewed > _RENEW:
            await self.runtime.store.renew_lease(self.runtime.namespace, None, self.lease, self._held.number, self.ttl)
            self._renewed = now

    async def tell(self, texts: int) -> None:
        """Count in texts that are done."""
        self._done += texts
        await self.renew()
        if self._progress is not None and texts:
            if self._total is None:
                self._total = (await self.runtime.store.stats(StatsQuery(namespace=self.runtime.namespace))).messages
            self._progress(self._done, max(self._done, self._total))
