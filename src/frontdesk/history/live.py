"""What a session's row does not say: its status, its branches, and since when it is busy."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.lifecycle.transitions import read_busy
from frontdesk.moments import to_datetime
from frontdesk.records import LiveState
from frontdesk.store import SessionRow
from frontdesk.tree.tree import Tree


async def live_states(
    runtime: Runtime, rows: Sequence[SessionRow], compacting: Sequence[bool] | None = None
) -> list[LiveState]:
    """The live states of sessions whose views are known, with one read of leases and at most one of trees for all of
    them. `compacting` says which of them are compacted, if that is known."""
    branches = await _branch_counts(runtime, rows)
    return [
        LiveState(
            busy.status,
            branches.get(row.id, 1 if row.message_count else 0),
            None if busy.turn is None else to_datetime(busy.turn),
            None if busy.compaction is None else to_datetime(busy.compaction),
        )
        for row, busy in zip(rows, await read_busy(runtime, rows, compacting), strict=True)
    ]


async def _branch_counts(runtime: Runtime, rows: Sequence[SessionRow]) -> dict[str, int]:
    """The number of leaves of the sessions that may have more than one: not all of their messages are in the view."""
    unclear = [row.id for row in rows if row.message_count != row.view_messages or row.compaction_count]
    found = await runtime.store.trees(runtime.namespace, unclear) if unclear else []
    return {tree.session.id: len(Tree(tree).leaves()) for tree in found}
