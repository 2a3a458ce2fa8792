"""When index and vectors follow what is appended: in a pause of the conversation, or once much has come together, so
that an append never pays for it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError, StoreError
from frontdesk.events import feed
from frontdesk.search import indexing, vectors
from frontdesk.search.embeddings import EmbeddingHealth

_PAUSE = 1.0
"""seconds without an append after which it begins"""
_MUCH = 10_000
"""messages after which it does not wait for a pause any more"""
_NAME = "search index"
_VECTORS = "search vectors"


@dataclass(slots=True)
class Backlog:
    """What this worker has appended since it last saw to the index."""

    messages: int = 0
    last: float = 0.0


def notice(runtime: Runtime, messages: int) -> None:
    """Tell that messages were appended. Costs next to nothing."""
    backlog = runtime.shared(Backlog)
    backlog.last = time.monotonic()
    backlog.messages += messages
    runtime.background.later(_PAUSE, lambda: _look(runtime), _NAME)


def _look(runtime: Runtime) -> None:
    backlog = runtime.shared(Backlog)
    if time.monotonic() - backlog.last < _PAUSE and backlog.messages < _MUCH:
        runtime.background.later(_PAUSE, lambda: _look(runtime), _NAME)
        return
    backlog.messages = 0
    follow(runtime)


def follow(runtime: Runtime) -> None:
    """Bring the index up to date beside the conversation, and then the vectors, if any are wanted."""
    if not runtime.background.closing:
        runtime.background.spawn(_index(runtime), _NAME)


async def _index(runtime: Runtime) -> None:
    try:
        if await indexing.run(runtime):
            # Without a sweep nobody else would: what comes in one pause is less than what goes in one.
            await feed.trim(runtime, runtime.settings.lifecycle.keep_events, 4 * _MUCH)
    except FrontdeskError:
        pass  # whoever searches or appends next tries again
    _follow_with_vectors(runtime)


def _follow_with_vectors(runtime: Runtime) -> None:
    if runtime.settings.embeddings.embed is None or runtime.background.closing:
        return
    rest = runtime.shared(EmbeddingHealth).rest
    if rest:
        runtime.background.later(rest, lambda: _follow_with_vectors(runtime), _VECTORS)
    else:
        runtime.background.spawn(_embed(runtime), _VECTORS)


async def _embed(runtime: Runtime) -> None:
    try:
        await vectors.run(runtime)
    except StoreError:
        pass
    except FrontdeskError as error:
        health = runtime.shared(EmbeddingHealth)
        health.failed(error)
        if not runtime.background.closing:
            runtime.background.later(health.rest, lambda: _follow_with_vectors(runtime), _VECTORS)
