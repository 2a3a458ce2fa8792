"""Leases for work that is to be done once over all workers: taken, renewed beside the work, and given back. Apart from
the work itself, which may take far longer than a lease."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from frontdesk.errors import FrontdeskError
from frontdesk.messages import new_id
from frontdesk.scope import Scope
from frontdesk.store import Store

_TTL = 10_000_000
_RENEWED_EVERY = 3.0
_FIRST_LOOK, _LONGEST_LOOK = 0.02, 0.5


@asynccontextmanager
async def holding(scope: Scope, session_id: str, name: str) -> AsyncIterator[None]:
    """Hold a lease of a session, after waiting for whoever holds it. When its holder dies, it expires within seconds.

    Raises `SessionNotFoundError`."""
    store, namespace = scope.store, scope.namespace
    look = _FIRST_LOOK
    while (lease := await store.acquire_lease(namespace, session_id, name, new_id(), _TTL)) is None:
        await asyncio.sleep(look)
        look = min(look * 2, _LONGEST_LOOK)
    renewing = asyncio.create_task(_renew(store, namespace, session_id, name, lease.number))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await store.release_lease(namespace, session_id, name, lease.number)


async def _renew(store: Store, namespace: str, session_id: str, name: str, number: int) -> None:
    """Until cancelled. A lease that is lost all the same costs work done twice, nothing else."""
    while True:
        await asyncio.sleep(_RENEWED_EVERY)
        try:
            await store.renew_lease(namespace, session_id, name, number, _TTL)
        except FrontdeskError:
            pass  # unreachable for a moment, or deleted: whoever works will find out
