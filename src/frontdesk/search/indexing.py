"""Bringing the index up to date. A batch and the mark are written in one transaction, so that a crash loses nothing."""

from __future__ import annotations

import asyncio

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import SearchSettings
from frontdesk.search import loading
from frontdesk.search.following import Follower, OvertakenError, Progress
from frontdesk.search.loading import Source, Wanted
from frontdesk.search.settings import made_with
from frontdesk.store import IndexBatch, IndexState, IndexText

_ON_THE_LOOP = 32
"""texts that are parted into terms without a thread of their own"""


async def run(runtime: Runtime, budget: int | None = None) -> bool:
    """Bring the index up to date, or by about `budget` texts nearer to it; False if another is at it."""
    index = _Index(runtime, budget)
    return await index.alone(index.advance)


async def rebuild(runtime: Runtime, progress: Progress | None) -> None:
    """Build the index anew beside its use; waits for whoever is at it."""
    index = _Index(runtime, None, progress)
    await index.alone_at_last(index.begin_again)


class _Index(Follower):
    lease = "search-index"

    @property
    def made_with(self) -> str:
        return made_with(self.runtime.settings.search)

    async def state(self) -> IndexState | None:
        row = await self.runtime.store.index_state(self.runtime.namespace)
        return None if row is None else row.state

    async def begin_again(self) -> None:
        state = await self.state()
        await self.begin(state, usable=is_usable(state, self.runtime.settings.search))
        await self.advance()

    async def mark(self, replaces: IndexState | None, state: IndexState) -> None:
        await self._write(replaces, state, ())

    async def take(self, state: IndexState, wanted: Wanted, reached: IndexState) -> None:
        """Portion by portion, the mark with the last one. While one is being written, the next is read and parted."""
        ready: list[IndexText] | tuple[()] = ()
        for portion in wanted.portions():
            writing = asyncio.ensure_future(self._write(state, state, ready)) if ready else None
            try:
                ready = await self._texts(await loading.load(self.runtime, portion))
            finally:
                if writing is not None:
                    await writing
        await self._write(state, reached, ready)

    async def _texts(self, sources: list[Source]) -> list[IndexText]:
        settings = self.runtime.settings.search
        if len(sources) <= _ON_THE_LOOP:
            return [source.to_index(settings) for source in sources]
        texts: list[IndexText] = await call(lambda: [source.to_index(settings) for source in sources])
        return texts

    async def _write(self, replaces: IndexState | None, state: IndexState, texts: list[IndexText] | tuple[()]) -> None:
        batch = IndexBatch(namespace=self.runtime.namespace, replaces=replaces, state=state, texts=texts)
        if not await self.runtime.store.write_index(batch):
            raise OvertakenError
        await self.tell(len(texts))


def is_usable(state: IndexState | None, settings: SearchSettings) -> bool:
    """Whether what is not in the index is only what was logged after its mark."""
    return state is not None and state.made_with == made_with(settings) and (state.cursor is None or state.usable)
