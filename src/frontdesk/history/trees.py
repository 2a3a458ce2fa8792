"""Loads the shape of a session's messages, and computes the totals of its view if they are not known."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.deadlines import one_call
from frontdesk.errors import MessageNotFoundError, StoreError
from frontdesk.messages import check_id
from frontdesk.store import Item, Place, Plan, SessionRow
from frontdesk.tree import plans
from frontdesk.tree.items import count
from frontdesk.tree.tree import Tree, whole_view

_STORE_SECONDS = 1.0
"""how long a reader waits for a lock to store the view that it has computed"""
_AT_ONCE = 32
"""views that are computed and stored at the same time"""


async def load_tree(
    runtime: Runtime, session_id: str, *, find: Sequence[str] = (), family: bool = False
) -> Tree | None:
    """The tree of a session, with the places of the messages to `find`; with `family`, of all sessions that it shares
    messages with. None without a session."""
    for message_id in find:
        check_id(message_id, "message id")
    rows = await runtime.store.trees(runtime.namespace, [session_id], find=find, family=family)
    return Tree(rows[0]) if rows else None


def place_of(tree: Tree, message_id: str) -> Place:
    """Where the session sees a message that was looked up with the tree. Raises `MessageNotFoundError`."""
    place = tree.find(message_id)
    if place is None:
        raise MessageNotFoundError(message_id, tree.session.id)
    return place


def items_at_head(tree: Tree) -> list[Item]:
    """The items of the view at the head, as stored, or laid if the view is stale."""
    session = tree.session
    return tree.lay(session.head) if session.view == "stale" else whole_view(session, tree.rows.view)


async def measure(runtime: Runtime, tree: Tree, items: Sequence[Item]) -> int:
    """The tokens of some items, by arithmetic on running sums: no message is read."""
    (tokens,) = await measure_each(runtime, tree, [items])
    return tokens


async def measure_each(runtime: Runtime, tree: Tree, lists: Sequence[Sequence[Item]]) -> list[int]:
    """The tokens of each of these lists of items, with one read of running sums for all of them."""
    places = list(dict.fromkeys(place for items in lists for place in tree.needed_sums(items)))
    sums = dict(zip(places, await runtime.store.sums(places) if places else [], strict=True))
    return [tree.tokens(items, sums) for items in lists]


@one_call
async def store_view(runtime: Runtime, tree: Tree) -> tuple[SessionRow, list[Item]]:
    """Compute a stale view, and store it for the next reader. Returns the session's row with the totals of the view,
    and the view's items.

    A reader does not compete with writers for the session: it tries once to store the view. If that fails, the session
    is loaded again, without a lock, and the view is computed again until it does not change meanwhile."""
    attempts = runtime.attempts(tree.session.id)
    while True:
        await attempts.another()
        session = tree.session
        items = tree.lay(session.head)
        tokens, messages = await measure(runtime, tree, items), count(items)
        plan = plans.store_view(tree, tree.view(session.head), tokens, messages, runtime.now())
        is_stored = attempts.made == 1 and await _store(runtime, plan)
        later = None if is_stored or attempts.are_over else await load_tree(runtime, session.id)
        if later is None or later.session.revision == session.revision:
            return plans.with_totals(session, tokens, messages), items
        if later.session.view != "stale":  # another reader has stored it
            return later.session, items_at_head(later)
        tree = later


async def _store(runtime: Runtime, plan: Plan) -> bool:
    """Whether a view was stored. A store that cannot be written, or is locked, can still be read."""
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            return await runtime.store.apply(plan)
    except (StoreError, TimeoutError):
        return False


async def complete_row(runtime: Runtime, row: SessionRow) -> SessionRow:
    """The row with the totals of its view; if that is stale, it is computed and stored first."""
    if row.view != "stale":
        return row
    tree = await load_tree(runtime, row.id)
    return row if tree is None else (await store_view(runtime, tree))[0]


async def measure_rows(runtime: Runtime, rows: Sequence[SessionRow]) -> list[SessionRow]:
    """The rows with the totals of their views, for this reader only: nothing is written. However many are stale, they
    take two reads."""
    stale = [row.id for row in rows if row.view == "stale"]
    if not stale:
        return list(rows)
    loaded = [Tree(found) for found in await runtime.store.trees(runtime.namespace, stale)]
    laid = [tree.lay(tree.session.head) for tree in loaded]
    each = list(zip(loaded, laid, strict=True))
    places = list(dict.fromkeys(place for tree, items in each for place in tree.needed_sums(items)))
    sums = dict(zip(places, await runtime.store.sums(places) if places else [], strict=True))
    measured = {
        tree.session.id: plans.with_totals(tree.session, tree.tokens(items, sums), count(items)) for tree, items in each
    }
    return [measured.get(row.id, row) for row in rows]


async def store_views(runtime: Runtime, session_ids: Sequence[str]) -> int:
    """Compute stale views, and store them, some at a time. Returns how many tokens they have."""
    tokens = 0
    for start in range(0, len(session_ids), _AT_ONCE):
        found = await runtime.store.trees(runtime.namespace, session_ids[start : start + _AT_ONCE])
        stored = await asyncio.gather(*(store_view(runtime, Tree(rows)) for rows in found))
        tokens += sum(row.view_tokens for row, _ in stored)
    return tokens
