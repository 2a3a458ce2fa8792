"""Calls the hooks for the start and the end of a session. Each end is announced once, before anything changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from frontdesk.config.runtime import Runtime
from frontdesk.lifecycle.leases import hold_lease
from frontdesk.lifecycle.transitions import ARCHIVED
from frontdesk.records import EndReason
from frontdesk.session.handle import Handle

_ENDING = "ending"
"""the lease of a worker that is ending a session"""


@asynccontextmanager
async def ending(runtime: Runtime, handle: Handle, reason: EndReason) -> AsyncIterator[None]:
    """Around the change that ends a session: its hooks are called first, and once, even if others try to end it too.

    Raises `SessionNotFoundError`."""
    hooks = runtime.hooks
    if not hooks.listens("on_session_end") or not hooks.listens_to_end((await handle.row()).id):
        yield
        return
    async with hold_lease(runtime, handle.id, _ENDING):
        if (await handle.row()).status != ARCHIVED:
            await hooks.finish(handle.id, reason)
        yield
