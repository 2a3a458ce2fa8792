"""Reading a session: the view at its head or at a leaf, windows of it, and the transcript as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

from frontdesk.config.runtime import Runtime
from frontdesk.errors import (
    CompactionNotFoundError,
    ConcurrentChangeError,
    ContextOverflowError,
    MessageNotFoundError,
    SessionNotFoundError,
    StoreError,
)
from frontdesk.messages import Message, check_id
from frontdesk.store import Item, OverlayRow, Piece, Place, Plan, SessionRow, ViewRow
from frontdesk.tree import plans
from frontdesk.tree.items import batches, count, drop_first, drop_last, last_items, position_of
from frontdesk.tree.tree import Tree, whole_view

T = TypeVar("T")
BATCH = 512
PORTION = 1_024
_LEAD = 16
_ATTEMPTS = 100


class _MovedError(Exception):
    """Rows went or were replaced between looking at the tree and reading them: look again."""


async def load_tree(
    runtime: Runtime, session_id: str, *, find: Sequence[str] = (), family: bool = False
) -> Tree | None:
    for message_id in find:
        check_id(message_id, "message id")
    rows = await runtime.store.tree(runtime.namespace, session_id, find=find, family=family)
    return None if rows is None else Tree(rows)


async def measure(runtime: Runtime, tree: Tree, items: Sequence[Item]) -> int:
    """The tokens of some items, by arithmetic."""
    places = tree.needed_sums(items)
    sums = await runtime.store.sums(places) if places else []
    return tree.tokens(items, dict(zip(places, sums, strict=True)))


async def settle(runtime: Runtime, tree: Tree) -> tuple[SessionRow, list[Item]]:
    """Compute a view that a change left open and hand it back to the store; again if the session moved on meanwhile."""
    attempts = _ATTEMPTS
    while True:
        session = tree.session
        items = tree.lay(session.head)
        tokens, messages = await measure(runtime, tree, items), count(items)
        settled = await _hand_back(
            runtime, plans.settle(tree, tree.view(session.head), tokens, messages, runtime.now())
        )
        attempts -= 1
        later = None if settled or not attempts else await load_tree(runtime, session.id)
        if later is None:
            return plans.with_totals(session, tokens, messages), items
        tree = later


async def _hand_back(runtime: Runtime, plan: Plan) -> bool:
    """Store what a reader computed, for the next one; a store that cannot be written can still be read."""
    try:
        return await runtime.store.apply(plan)
    except StoreError:
        return True


async def settled_row(runtime: Runtime, row: SessionRow) -> SessionRow:
    """The row with its totals known."""
    if row.view != "stale":
        return row
    tree = await load_tree(runtime, row.id)
    return row if tree is None else (await settle(runtime, tree))[0]


async def measured_row(runtime: Runtime, row: SessionRow) -> SessionRow:
    """The row with its totals known, for this reader only: nothing is written."""
    tree = await load_tree(runtime, row.id) if row.view == "stale" else None
    if tree is None:
        return row
    items = tree.lay(tree.session.head)
    return plans.with_totals(tree.session, await measure(runtime, tree, items), count(items))


async def read_view(
    runtime: Runtime, session_id: str, leaf: str | None = None, last: int | None = None
) -> list[Message]:
    """The messages the model sees; see `Session.history`."""
    messages = await _view_at_head(runtime, session_id, last) if leaf is None else None
    if messages is not None:
        return messages

    async def read() -> list[Message]:
        return await _read_whole(runtime, await _view_items(runtime, session_id, leaf, last))

    return await _undisturbed(read, session_id)


class LoadedView(NamedTuple):
    """The view at the head: the tree that it is laid from, its items, and its messages."""

    tree: Tree
    items: list[Item]
    messages: list[Message]


async def load_view(runtime: Runtime, session_id: str) -> LoadedView | None:
    """The view at the head with the tree; None without a session. Nothing is stored, even if the view was stale."""

    async def read() -> LoadedView | None:
        tree = await load_tree(runtime, session_id)
        if tree is None:
            return None
        items = _items_at_head(tree)
        return LoadedView(tree, items, await _read_whole(runtime, items))

    return await _undisturbed(read, session_id)


def _items_at_head(tree: Tree) -> list[Item]:
    session = tree.session
    return tree.lay(session.head) if session.view == "stale" else whole_view(session, tree.rows.view)


async def fit_view(
    runtime: Runtime,
    session_id: str,
    leaf: str | None,
    last: int | None,
    max_tokens: int,
    shorten: Callable[[Message], Message],
    until: str | None,
) -> Fitted:
    """The leading system messages and as much of the end of the view as fits, with the messages up to the one with the
    id `until` shortened. Raises `ContextOverflowError` if the last turn does not fit."""

    async def read() -> Fitted:
        items = await _view_items(runtime, session_id, leaf, last)
        return await _fit(runtime, items, max_tokens, session_id, shorten, until)

    return await _undisturbed(read, session_id)


async def _undisturbed(read: Callable[[], Awaitable[T]], session_id: str) -> T:
    """What `read` gives once nothing goes away while it reads."""
    for _ in range(_ATTEMPTS):
        try:
            return await read()
        except _MovedError:
            continue
    raise ConcurrentChangeError(
        f"session {session_id!r} was changed by others {_ATTEMPTS} times while it was read: try again",
        session_id=session_id,
    )


async def _view_at_head(runtime: Runtime, session_id: str, last: int | None) -> list[Message] | None:
    """The common case in one trip to the store; None if the view must be computed first."""

    def choose(session: SessionRow, view: ViewRow) -> Sequence[Item]:
        if session.view == "stale":
            return ()
        items = whole_view(session, view)
        return items if last is None else last_items(items, last)

    read = await runtime.store.view(runtime.namespace, session_id, choose)
    if read is None:
        return []
    return None if read.session.view == "stale" else to_messages(read.items, read.pieces)


async def view_at_head(runtime: Runtime, session_id: str) -> tuple[SessionRow, ViewRow] | None:
    """A session's row and its view as stored, with nothing read of its messages."""
    views: list[ViewRow] = []

    def choose(session: SessionRow, view: ViewRow) -> Sequence[Item]:
        views.append(view)
        return ()

    read = await runtime.store.view(runtime.namespace, session_id, choose)
    return None if read is None else (read.session, views[-1])


async def _view_items(runtime: Runtime, session_id: str, leaf: str | None, last: int | None) -> list[Item]:
    tree = await load_tree(runtime, session_id, find=() if leaf is None else (leaf,))
    if tree is None:
        if leaf is not None:
            raise MessageNotFoundError(leaf, session_id)
        return []
    if leaf is not None:
        items = tree.lay(place_of(tree, leaf))
    elif tree.session.view == "stale":
        items = (await settle(runtime, tree))[1]
    else:
        items = whole_view(tree.session, tree.rows.view)
    return items if last is None else last_items(items, last)


async def read_items(runtime: Runtime, items: Sequence[Item]) -> list[Message]:
    return to_messages(items, await runtime.store.read(items)) if items else []


async def _read_whole(runtime: Runtime, items: Sequence[Item]) -> list[Message]:
    messages = await read_items(runtime, items)
    if len(messages) != count(items):
        raise _MovedError
    return messages


def to_messages(items: Iterable[Item], pieces: Iterable[Piece]) -> list[Message]:
    messages: list[Message] = []
    for _, piece in zip(items, pieces, strict=True):
        if piece.overlay is not None:
            row = piece.overlay
            messages.append(Message.summary(row.id, row.summary or "", row.tokens, row.created_at, piece.before_id))
        messages += Message.from_run(piece.messages, piece.before_id)
    return messages


class Fitted(NamedTuple):
    """A window of a view: whether it is all of it, and the last message ahead of its last turn."""

    messages: list[Message]
    is_whole: bool
    before_turn: str | None


async def _fit(
    runtime: Runtime,
    items: list[Item],
    budget: int,
    session_id: str,
    shorten: Callable[[Message], Message],
    until: str | None,
) -> Fitted:
    """Read from the end backwards until no more fits."""
    lead = await leading_system(runtime, items)
    rest = drop_first(items, len(lead))
    room = budget - sum(message.tokens for message in lead)
    kept: list[Message] = []
    used = 0
    is_older = False
    for batch in batches(rest, BATCH, reverse=True):
        older = await _read_whole(runtime, batch)
        for index in range(len(older) - 1, -1, -1):
            is_older = is_older or older[index].id == until
            older[index] = shorten(older[index]) if is_older else older[index]
        kept = older + kept
        used += sum(message.tokens for message in older)
        if used > room and (starts := _starts(kept)):
            break
    else:
        starts = _starts(kept, complete=True)
    ahead = [0, *accumulate(message.tokens for message in kept)]
    for start in starts:
        if used - ahead[start] <= room:
            before_turn = kept[starts[-1] - 1].id if starts[-1] else None
            return Fitted(lead + kept[start:], len(kept) - start == count(rest), before_turn)
    raise ContextOverflowError(budget - room + used - ahead[starts[-1]], budget, session_id)


def _starts(messages: Sequence[Message], *, complete: bool = False) -> list[int]:
    """Where an end of these messages may begin so that it holds the last turn and every call that it answers.

    Empty if more must be read to know. With `complete` nothing stands ahead: a result whose call is nowhere parts
    nothing, and where no user has spoken the last message is the turn."""
    turn = _last_turn(messages)
    if turn is None:
        turn = len(messages) - 1 if complete else -1
    open_results: list[set[str]] = []
    unanswered: set[str] = set()
    for message in reversed(messages):
        unanswered = (unanswered | set(message.tool_result_ids)) - set(message.tool_call_ids)
        open_results.append(unanswered)
    lost = unanswered if complete else set()
    starts = [index for index, calls in enumerate(reversed(open_results)) if index <= turn and calls <= lost]
    return starts or ([0] if complete else [])


def _last_turn(messages: Sequence[Message]) -> int | None:
    """Where the last user message stands."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user" and not messages[index].tool_result_ids:
            return index
    return None


async def leading_system(runtime: Runtime, items: Sequence[Item]) -> list[Message]:
    """The system messages that a path begins with, summaries excepted."""
    lead: list[Message] = []
    for batch in batches(items, _LEAD):
        for message in await read_items(runtime, batch):
            if message.role != "system" or message.is_summary:
                return lead
            lead.append(message)
    return lead


Load = Callable[[str | None, int], Awaitable[list[Item]]]
"""gives the items behind a message (None: from the beginning) after so many messages were given, as they are now"""


async def portions(runtime: Runtime, load: Load, *, reverse: bool = False) -> AsyncIterator[list[Message]]:
    """Messages in portions, so that a path of any length needs the memory of one portion.

    Where a session is changed while it is read, what is left is looked up anew: no message that stays is left out."""
    last: list[str] = []
    total = 0
    items = await load(None, 0)
    while items:
        for batch in batches(items, PORTION, reverse=reverse):
            messages = await read_items(runtime, batch)
            if len(messages) != count(batch):
                items = await _rest(load, last, total)
                break
            messages = messages[::-1] if reverse else messages
            last = [message.id for message in messages]
            total += len(messages)
            yield messages
        else:
            return


async def _rest(load: Load, last: Sequence[str], total: int) -> list[Item]:
    """What comes behind the last message that was given and is still there."""
    if not last:
        return await load(None, 0)
    for message_id in last[:0:-1]:
        try:
            return await load(message_id, total)
        except MessageNotFoundError:
            continue
    return await load(last[0], total)


def fixed(items: Sequence[Item]) -> Load:
    """Items that are not looked up anew: what goes while they are read is left out."""

    async def load(after: str | None, given: int) -> list[Item]:
        return [] if after or given else list(items)

    return load


def transcript_load(
    runtime: Runtime, session_id: str, leaf: str | None, after: str | None, limit: int | None, reverse: bool
) -> Load:
    """The path as it was written, to where it ended when it was first looked at; see `Session.transcript`."""
    end: Place | None = None

    async def load(behind: str | None, given: int) -> list[Item]:
        nonlocal end
        start = behind or after
        wanted = [message_id for message_id in (leaf, start) if message_id is not None]
        tree = await load_tree(runtime, session_id, find=wanted)
        if tree is None:
            if given or not wanted:
                return _nothing_left(runtime, session_id, given)
            raise MessageNotFoundError(wanted[0], session_id)
        if not given:
            end = tree.session.head if leaf is None else place_of(tree, leaf)
        items = _behind(tree, tree.lay(tree.at_or_before(end), overlays=False), start, reverse)
        if limit is None:
            return items
        room = limit - given
        return last_items(items, room) if reverse else drop_last(items, count(items) - room)

    return load


def covered_load(
    runtime: Runtime, session_id: str, compaction_id: str, find: Callable[[Tree, str], OverlayRow]
) -> Load:
    """The messages under a compaction; see `Session.expand`."""

    async def load(behind: str | None, given: int) -> list[Item]:
        tree = await load_tree(runtime, session_id, find=[behind] if behind else ())
        if tree is None:
            if given:
                return _nothing_left(runtime, session_id, given)
            raise CompactionNotFoundError(compaction_id, session_id)
        return _behind(tree, tree.covered_items(find(tree, compaction_id)), behind, False)

    return load


def _behind(tree: Tree, items: list[Item], after: str | None, reverse: bool) -> list[Item]:
    """The part of some items that is read after a message."""
    if after is None:
        return items
    ahead = position_of(items, place_of(tree, after))
    if ahead is None:
        raise MessageNotFoundError(after, tree.session.id)
    return drop_last(items, count(items) - ahead) if reverse else drop_first(items, ahead + 1)


def _nothing_left(runtime: Runtime, session_id: str, given: int) -> list[Item]:
    """A session that was never written to has an empty path; one that went while it was read is an error."""
    if given:
        raise SessionNotFoundError(session_id, runtime.namespace)
    return []


def place_of(tree: Tree, message_id: str) -> Place:
    """Where the session sees a message. Raises `MessageNotFoundError`."""
    place = tree.find(message_id)
    if place is None:
        raise MessageNotFoundError(message_id, tree.session.id)
    return place
