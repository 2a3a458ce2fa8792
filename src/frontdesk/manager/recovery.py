"""Cleans up after processes that died: releases their leases, and continues indexing."""

from __future__ import annotations

from frontdesk.config.runtime import Runtime
from frontdesk.lifecycle.leases import is_dead
from frontdesk.lifecycle.transitions import COMPACTION_LEASE
from frontdesk.records import RecoveryReport
from frontdesk.search import index


async def recover(runtime: Runtime) -> RecoveryReport:
    """See `SessionManager.recover`."""
    store, namespace = runtime.store, runtime.namespace
    freed = [
        held
        for held in await store.held_leases(namespace)
        if is_dead(held.lease.holder)
        and await store.renew_lease(namespace, held.session_id, held.lease.name, held.lease.number, 0)
    ]
    compacting = sorted(held.session_id for held in freed if held.session_id and held.lease.name == COMPACTION_LEASE)
    unindexed = await index.count_missing(runtime)
    if unindexed:
        index.start_indexing(runtime)
    return RecoveryReport(len(freed), tuple(compacting), unindexed)
