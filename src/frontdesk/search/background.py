"""When index and vectors follow what is appended: in a pause of the conversation, or once much has come together, so
that an append never pays for it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from frontdesk.config.scope import Scope
from frontdesk.errors import FrontdeskError, StoreError
from frontdesk.events import feed
from frontdesk.lifecycle.transitions import LifecycleSettings
from frontdesk.search import indexing, vectors
from frontdesk.search.embeddings import EmbeddingHealth, EmbeddingSettings

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


def notice(scope: Scope, messages: int) -> None:
    """Tell that messages were appended. Costs next to nothing."""
    backlog = scope.settings(Backlog)
    backlog.last = time.monotonic()
    backlog.messages += messages
    scope.later(_PAUSE, lambda: _look(scope), _NAME)


def _look(scope: Scope) -> None:
    backlog = scope.settings(Backlog)
    if time.monotonic() - backlog.last < _PAUSE and backlog.messages < _MUCH:
        scope.later(_PAUSE, lambda: _look(scope), _NAME)
        return
    backlog.messages = 0
    follow(scope)


def follow(scope: Scope) -> None:
    """Bring the index up to date beside the conversation, and then the vectors, if any are wanted."""
    if not scope.closing:
        scope.spawn(_index(scope), _NAME)


async def _index(scope: Scope) -> None:
    try:
        if await indexing.run(scope):
            # Without a sweep nobody else would: what comes in one pause is less than what goes in one.
            await feed.trim(scope, scope.settings(LifecycleSettings).keep_events, 4 * _MUCH)
    except FrontdeskError:
        pass  # whoever searches or appends next tries again
    _follow_with_vectors(scope)


def _follow_with_vectors(scope: Scope) -> None:
    if scope.settings(EmbeddingSettings).embed is None or scope.closing:
        return
    rest = scope.settings(EmbeddingHealth).rest
    if rest:
        scope.later(rest, lambda: _follow_with_vectors(scope), _VECTORS)
    else:
        scope.spawn(_embed(scope), _VECTORS)


async def _embed(scope: Scope) -> None:
    try:
        await vectors.run(scope)
    except StoreError:
        pass
    except FrontdeskError as error:
        health = scope.settings(EmbeddingHealth)
        health.failed(error)
        if not scope.closing:
            scope.later(health.rest, lambda: _follow_with_vectors(scope), _VECTORS)
