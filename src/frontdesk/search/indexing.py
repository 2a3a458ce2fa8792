"""Brings the index up to date. A batch and the new position are written in one transaction, so a crash loses
nothing."""

from __future__ import annotations

import asyncio

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import SearchSettings
from frontdesk.search import stored_texts
from frontdesk.search.follower import Follower, Progress, StateMovedError
from frontdesk.search.settings import made_with
from frontdesk.search.stored_texts import StoredText, TextSelection
from frontdesk.store import IndexBatch, IndexState, IndexText

_MAX_INLINE = 32
"""how many texts are tokenised without a thread"""


async def run(runtime: Runtime, budget: int | None = None) -> bool:
    """Bring the index up to date, or add about `budget` texts to it; False if another worker is doing that."""
    index = _Index(runtime, budget)
    return await index.run_exclusively(index.advance)


async def rebuild(runtime: Runtime, progress: Progress | None) -> None:
    """Build the index again while it stays in use; waits for another worker that is indexing."""
    index = _Index(runtime, None, progress)
    await index.wait_and_run(index.rebuild)


class _Index(Follower):
    lease = "search-index"

    @property
    def made_with(self) -> str:
        return made_with(self.runtime.settings.search)

    async def state(self) -> IndexState | None:
        row = await self.runtime.store.index_state(self.runtime.namespace)
        return None if row is None else row.state

    async def rebuild(self) -> None:
        state = await self.state()
        await self.start_walk(state, usable=is_usable(state, self.runtime.settings.search))
        await self.advance()

    async def save_state(self, replaces: IndexState | None, state: IndexState) -> None:
        await self._write(replaces, state, ())

    async def process(self, state: IndexState, selection: TextSelection, reached: IndexState) -> None:
        """Write batch by batch, and the state with the last one. While a batch is written, the next is prepared."""
        ready: list[IndexText] | tuple[()] = ()
        for batch in selection.batches():
            writing = asyncio.ensure_future(self._write(state, state, ready)) if ready else None
            try:
                ready = await self._texts(await stored_texts.load(self.runtime, batch))
            finally:
                if writing is not None:
                    await writing
        await self._write(state, reached, ready)

    async def _texts(self, sources: list[StoredText]) -> list[IndexText]:
        settings = self.runtime.settings.search
        if len(sources) <= _MAX_INLINE:
            return [source.to_index(settings) for source in sources]
        texts: list[IndexText] = await call(lambda: [source.to_index(settings) for source in sources])
        return texts

    async def _write(self, replaces: IndexState | None, state: IndexState, texts: list[IndexText] | tuple[()]) -> None:
        batch = IndexBatch(namespace=self.runtime.namespace, replaces=replaces, state=state, texts=texts)
        if not await self.runtime.store.write_index(batch):
            raise StateMovedError
        await self.report_progress(len(texts))


def is_usable(state: IndexState | None, settings: SearchSettings) -> bool:
    """Whether the index contains everything up to its position."""
    return state is not None and state.made_with == made_with(settings) and (state.cursor is None or state.usable)
