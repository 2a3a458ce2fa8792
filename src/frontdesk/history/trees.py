"""Loads the shape of a session's messages, and computes the totals of its view if they are not known."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.config.runtime import Runtime
from frontdesk.errors import MessageNotFoundError, StoreError
from frontdesk.messages import check_id
from frontdesk.store import Item, Place, Plan, SessionRow
from frontdesk.tree import plans
from frontdesk.tree.items import count
from frontdesk.tree.tree import Tree, whole_view

_ATTEMPTS = 100


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
    places = tree.needed_sums(items)
    sums = await runtime.store.sums(places) if places else []
    return tree.tokens(items, dict(zip(places, sums, strict=True)))


async def store_view(runtime: Runtime, tree: Tree) -> tuple[SessionRow, list[Item]]:
    """Compute a stale view and store it for the next reader; again if the session was changed meanwhile. Returns the
    session's row with the totals of the view, and the view's items."""
    attempts = _ATTEMPTS
    while True:
        session = tree.session
        items = tree.lay(session.head)
        tokens, messages = await measure(runtime, tree, items), count(items)
        plan = plans.store_view(tree, tree.view(session.head), tokens, messages, runtime.now())
        is_stored = await _store(runtime, plan)
        attempts -= 1
        later = None if is_stored or not attempts else await load_tree(runtime, session.id)
        if later is None:
            return plans.with_totals(session, tokens, messages), items
        tree = later


async def _store(runtime: Runtime, plan: Plan) -> bool:
    try:
        return await runtime.store.apply(plan)
    except StoreError:
        return True  # a store that cannot be written can still be read


async def complete_row(runtime: Runtime, row: SessionRow) -> SessionRow:
    """The row with the totals of its view; if that is stale, it is computed and stored first."""
    if row.view != "stale":
        return row
    tree = await load_tree(runtime, row.id)
    return row if tree is None else (await store_view(runtime, tree))[0]


async def measure_rows(runtime: Runtime, rows: Sequence[SessionRow]) -> list[SessionRow]:
    """The rows with the totals of their views, for this reader only: nothing is written."""
    return [await _measure_row(runtime, row) if row.view == "stale" else row for row in rows]


async def _measure_row(runtime: Runtime, row: SessionRow) -> SessionRow:
    tree = await load_tree(runtime, row.id)
    if tree is None:
        return row
    items = tree.lay(tree.session.head)
    return plans.with_totals(tree.session, await measure(runtime, tree, items), count(items))
