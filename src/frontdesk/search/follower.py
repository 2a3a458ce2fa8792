"""Processing the change log in batches, by one worker at a time, from a stored position on.

The index and the vectors both follow the log, each with its own position, since vectors come from a model that may be
slow or fail. After a crash another worker continues from the position. Texts from before the log, or processed under
other settings, are read by a walk through all families of sessions.
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
from frontdesk.search import texts
from frontdesk.search.texts import TextSelection
from frontdesk.store import IndexState, LeaseRow, StatsQuery
from frontdesk.unattended import sleep

LOG_BATCH = 1_000
"""log entries that are read at a time"""
_RENEW_SECONDS = 5.0

Progress = Callable[[int, int], Any]


class StateMovedError(Exception):
    """Another worker has changed the state: read it again."""


class Follower(ABC):
    """Brings something that is derived from texts up to date, as long as this worker holds the lease for it."""

    lease: str
    ttl = 30_000_000
    follows_index = True
    """whether a text that is in the index has been processed"""

    def __init__(self, runtime: Runtime, progress: Progress | None = None) -> None:
        self.runtime = runtime
        self._progress = progress
        self._done = 0
        self._total: int | None = None
        self._held: LeaseRow | None = None
        self._renewed = 0.0

    # what a subclass defines

    @property
    @abstractmethod
    def made_with(self) -> str: ...

    @abstractmethod
    async def state(self) -> IndexState | None: ...

    @abstractmethod
    async def save_state(self, replaces: IndexState | None, state: IndexState) -> None:
        """Replace the stored state. Raises `StateMovedError`."""

    @abstractmethod
    async def process(self, state: IndexState, selection: TextSelection, reached: IndexState) -> None:
        """Process the selected texts, and then replace the stored state by `reached`."""

    def is_current(self, state: IndexState) -> bool:
        """Whether it was made with the current settings."""
        return state.made_with == self.made_with

    # how it runs

    async def run_exclusively(self, work: Callable[[], Any]) -> bool:
        """Do some work under the lease; False if another worker holds it."""
        store, namespace = self.runtime.store, self.runtime.namespace
        self._held = await store.acquire_lease(namespace, None, self.lease, holder(), self.ttl)
        if self._held is None:
            return False
        self._renewed = asyncio.get_running_loop().time()
        try:
            await work()
        finally:
            with suppress(StoreError):
                await store.renew_lease(namespace, None, self.lease, self._held.number, 0)
        return True

    async def wait_and_run(self, work: Callable[[], Any]) -> None:
        """Do some work under the lease, after waiting for the worker that holds it."""
        while not await self.run_exclusively(work):
            # The holder may be in another process: there is no notification when it releases the lease.
            await sleep(0.2)

    async def advance(self) -> None:
        """Process the log up to its end."""
        while True:
            try:
                await self._advance()
                return
            except StateMovedError:
                continue

    async def _advance(self) -> None:
        state = await self.state()
        if state is None or not self.is_current(state):
            state = await self.start_walk(state, usable=False)
        if state.cursor is not None:
            state = await self._walk(state, state.cursor)
        while True:
            try:
                entries = await self.runtime.store.changes(self.runtime.namespace, state.position, LOG_BATCH)
            except ChangesTrimmedError:
                await self.start_walk(state, usable=False)
                raise StateMovedError from None
            if not entries:
                return
            selection = TextSelection()
            for entry in entries:
                selection.add_entry(entry)
            await texts.add_orphans(self.runtime, selection, unindexed=self.follows_index)
            reached = replace(state, position=entries[-1].position)
            await self.process(state, selection, reached)
            state = reached

    async def start_walk(self, replaces: IndexState | None, *, usable: bool) -> IndexState:
        """Start a walk through all families. Changes from now on come from the log. If the index stays `usable` during
        the walk, it keeps its position, since entries after that are not in it yet."""
        if usable and replaces is not None:
            position = replaces.position
        else:
            position = await self.runtime.store.last_change(self.runtime.namespace)
        state = IndexState(made_with=self.made_with, position=position, cursor=0, usable=usable)
        await self.save_state(replaces, state)
        return state

    async def _walk(self, state: IndexState, after: int) -> IndexState:
        async for family, selection in texts.families(self.runtime, after):
            reached = replace(state, cursor=family)
            await self.process(state, selection, reached)
            state = reached
        whole = replace(state, cursor=None, usable=True)
        await self.save_state(state, whole)
        return whole

    async def renew(self) -> None:
        """Renew the lease, if that is due."""
        now = asyncio.get_running_loop().time()
        if self._held is not None and now - self._renewed > _RENEW_SECONDS:
            await self.runtime.store.renew_lease(self.runtime.namespace, None, self.lease, self._held.number, self.ttl)
            self._renewed = now

    async def report_progress(self, done: int) -> None:
        """Count processed texts, and report them to the caller of a rebuild."""
        self._done += done
        await self.renew()
        if self._progress is not None and done:
            if self._total is None:
                self._total = (await self.runtime.store.stats(StatsQuery(namespace=self.runtime.namespace))).messages
            self._progress(self._done, max(self._done, self._total))
