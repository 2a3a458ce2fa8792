"""Short ways to write to a store and to read from it, for the tests of the contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import (
    ANY_HEAD,
    FOLLOW_HEAD,
    AnyHead,
    Append,
    AppendResult,
    FollowHead,
    Item,
    NewFork,
    NewOverlay,
    NewSession,
    Place,
    Plan,
    SessionRow,
    Store,
)
from frontdesk.tree import edits, forks, plans
from frontdesk.tree.items import count
from frontdesk.tree.tree import Tree

NAMESPACE = "here"
NOW = 1_700_000_000_000_000


def message(id: str, text: str = "", tokens: int = 3) -> StoredMessage:
    raw = msgspec.json.encode({"role": "user", "content": text or f"text of {id}"}).decode()
    return StoredMessage(id, "user", tokens, NOW, raw)


async def add(
    store: Store,
    session_id: str,
    *messages: str | StoredMessage,
    parent: str | FollowHead | None = FOLLOW_HEAD,
    expected_head: str | AnyHead | None = ANY_HEAD,
    namespace: str = NAMESPACE,
    now: int = NOW,
    fresh: bool = False,
    reopen: bool = False,
) -> AppendResult:
    """Append messages, each a message or an id."""
    return await store.append(
        Append(
            namespace=namespace,
            session_id=session_id,
            messages=tuple(message(given) if isinstance(given, str) else given for given in messages),
            fresh=(fresh,) * len(messages),
            now=now,
            parent=parent,
            expected_head=expected_head,
            reopen=reopen,
        )
    )


def new(session_id: str, **values: object) -> NewSession:
    given = {"namespace": NAMESPACE, "now": NOW, **values, "id": session_id}
    return msgspec.convert(given, NewSession)


async def row(store: Store, session_id: str) -> SessionRow:
    found = await store.get(NAMESPACE, session_id)
    assert found is not None
    return found


async def tree(store: Store, session_id: str, *find: str, family: bool = False) -> Tree:
    [rows] = await store.trees(NAMESPACE, [session_id], find=find, family=family)
    return Tree(rows)


def at(tree: Tree, message_id: str) -> Place:
    place = tree.find(message_id)
    assert place is not None
    return place


async def place(store: Store, session_id: str, message_id: str) -> Place:
    return at(await tree(store, session_id, message_id), message_id)


async def contents(store: Store, items: Sequence[Item]) -> list[tuple[str, str, str | None]]:
    """(id, text, parent id) of every message and summary in these items."""
    shown = []
    for piece in await store.read(items):
        before = piece.before_id
        if piece.overlay is not None:
            shown.append((piece.overlay.id, piece.overlay.summary or "", before))
        for stored in piece.messages:
            shown.append((stored.id, msgspec.json.decode(stored.raw)["content"], before))
            before = stored.id
    return shown


async def path(store: Store, session_id: str, leaf: str | None = None, *, overlays: bool = False) -> list[str]:
    """The ids from the root to a leaf, or to the head."""
    seen = await tree(store, session_id, *([leaf] if leaf else []))
    items = seen.lay(at(seen, leaf) if leaf else seen.session.head, overlays=overlays)
    return [id for id, _, _ in await contents(store, items)]


async def view(store: Store, session_id: str) -> list[str]:
    """The ids that the model sees."""
    return await path(store, session_id, overlays=True)


async def texts(store: Store, session_id: str) -> dict[str, str]:
    """The texts of the messages up to the head, by id."""
    seen = await tree(store, session_id)
    return {id: text for id, text, _ in await contents(store, seen.lay(seen.session.head, overlays=False))}


async def change(store: Store, session_id: str, build: Callable[[Tree], Plan], *find: str) -> None:
    """Apply a plan made from the whole family."""
    assert await store.apply(build(await tree(store, session_id, *find, family=True)))


async def fork_at_head(store: Store, session_id: str, fork_id: str) -> NewFork | None:
    """Fork with the session's row and stored view only; None, without a fork, if the view is stale."""
    read = await store.view(NAMESPACE, session_id, 0)
    assert read is not None
    plan = forks.fork_at_head(read.session, read.view, new(fork_id), NOW)
    assert plan is None or await store.apply(plan)
    return None if plan is None else plan.fork


async def fork(store: Store, session_id: str, fork_id: str, message_id: str | None = None) -> None:
    await change(
        store,
        session_id,
        lambda seen: forks.fork(seen, new(fork_id), at(seen, message_id) if message_id else seen.session.head, NOW),
        *([message_id] if message_id else []),
    )


async def delete(store: Store, session_id: str, *ids: str) -> None:
    await change(store, session_id, lambda seen: edits.delete_messages(seen, [at(seen, id) for id in ids], NOW), *ids)


async def replace(store: Store, session_id: str, changed: StoredMessage) -> None:
    def build(seen: Tree) -> Plan:
        here = at(seen, changed.id)
        return edits.replace_message(seen, here, changed, tokens_at(seen, here), NOW)

    await change(store, session_id, build, changed.id)


async def cover(
    store: Store, session_id: str, overlay_id: str, start: str, end: str, *, summary: str | None = "in short"
) -> None:
    """Add an overlay with a summary, or one that hides the range if `summary` is None."""

    def build(seen: Tree) -> Plan:
        overlay = NewOverlay(
            id=overlay_id,
            kind="summary" if summary else "reset",
            start=at(seen, start),
            end=at(seen, end),
            summary=summary,
            tokens=2 if summary else 0,
            created_at=NOW,
        )
        return plans.add_overlay(seen, overlay, NOW)

    await change(store, session_id, build, start, end)


async def uncover(store: Store, session_id: str, overlay_id: str) -> None:
    await change(
        store,
        session_id,
        lambda seen: plans.remove_overlay(seen, next(row for row in seen.overlays if row.id == overlay_id), NOW),
    )


async def delete_session(store: Store, session_id: str) -> None:
    await change(store, session_id, lambda seen: plans.delete_session(seen.rows, NOW))


async def settle(store: Store, session_id: str) -> SessionRow:
    """Compute a session's view and store it, as its next reader would."""
    seen = await tree(store, session_id)
    items = seen.lay(seen.session.head)
    plan = plans.store_view(seen, seen.view(seen.session.head), await measure(store, seen, items), count(items), NOW)
    assert await store.apply(plan)
    return await row(store, session_id)


async def measure(store: Store, seen: Tree, items: Sequence[Item]) -> int:
    places = seen.needed_sums(items)
    return seen.tokens(items, dict(zip(places, await store.sums(places), strict=True)))


def tokens_at(tree: Tree, place: Place) -> int:
    """The tokens of a message that was found with the tree, as its session sees it."""
    edit = tree.replaced.get(place)
    if edit is not None and edit.message is not None:
        return edit.message.tokens
    return next(found.tokens for found in tree.rows.found if found.place == place)
