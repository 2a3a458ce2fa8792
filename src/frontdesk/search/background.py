"""When the index and the vectors are brought up to date: in a pause of the conversation, or after many appends. So an
append itself never waits for indexing."""

from __future__ import annotations

import time
from dataclasses import dataclass

from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError, StoreError
from frontdesk.events import feed
from frontdesk.search import indexing, vectors
from frontdesk.search.embeddings import EmbeddingHealth

_PAUSE = 1.0
"""seconds without an append after which indexing starts"""
_MAX_BACKLOG = 10_000
"""messages after which indexing does not wait for a pause any longer"""
_NAME = "search index"
_VECTORS = "search vectors"


@dataclass(slots=True)
class Backlog:
    """What this worker has appended since it last started indexing."""

    messages: int = 0
    last: float = 0.0


def record_append(runtime: Runtime, messages: int) -> None:
    """Record that messages were appended. Costs almost nothing."""
    backlog = runtime.shared(Backlog)
    backlog.last = time.monotonic()
    backlog.messages += messages
    runtime.background.later(_PAUSE, lambda: _start_if_due(runtime), _NAME)


def _start_if_due(runtime: Runtime) -> None:
    backlog = runtime.shared(Backlog)
    if time.monotonic() - backlog.last < _PAUSE and backlog.messages < _MAX_BACKLOG:
        runtime.background.later(_PAUSE, lambda: _start_if_due(runtime), _NAME)
        return
    backlog.messages = 0
    start_indexing(runtime)


def start_indexing(runtime: Runtime) -> None:
    """Bring the index up to date in the background, and then the vectors, if embeddings are set up."""
    if not runtime.background.closing:
        runtime.background.spawn(_index(runtime), _NAME)


async def _index(runtime: Runtime) -> None:
    try:
        if await indexing.run(runtime):
            # Without sweeps nothing else trims the log. This removes more than is appended between two runs.
            await feed.trim(runtime, runtime.settings.lifecycle.keep_events, 4 * _MAX_BACKLOG)
    except FrontdeskError:
        pass  # the next search or append tries again
    _start_embedding(runtime)


def _start_embedding(runtime: Runtime) -> None:
    if runtime.settings.embeddings.embed is None or runtime.background.closing:
        return
    pause = runtime.shared(EmbeddingHealth).pause
    if pause:
        runtime.background.later(pause, lambda: _start_embedding(runtime), _VECTORS)
    else:
        runtime.background.spawn(_embed(runtime), _VECTORS)


async def _embed(runtime: Runtime) -> None:
    try:
        await vectors.run(runtime)
    except StoreError:
        pass
    except FrontdeskError as error:
        health = runtime.shared(EmbeddingHealth)
        health.record_failure(error)
        if not runtime.background.closing:
            runtime.background.later(health.pause, lambda: _start_embedding(runtime), _VECTORS)
