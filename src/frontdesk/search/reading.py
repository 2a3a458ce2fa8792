"""Reading on from a hit: a window of messages around one of them, on the path it stands on, within a token budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from frontdesk.config.runtime import Runtime
from frontdesk.errors import ConcurrentChangeError, MessageNotFoundError, SessionNotFoundError
from frontdesk.history import reading
from frontdesk.messages import SUMMARY_PREFIX, Message
from frontdesk.messages.tokens import TokenCounter
from frontdesk.records import SessionInfo
from frontdesk.search.telling import headed, quoted, shortened
from frontdesk.search.texts import searchable_text
from frontdesk.store import Place
from frontdesk.tree.items import count, drop_first, first_items, position_of
from frontdesk.tree.tree import Tree

_ATTEMPTS = 100
_NOTES_TOKENS = 80
"""what it costs to say which messages these are, and what was left out"""


class Window(NamedTuple):
    """Messages that follow one another, the first of them after `ahead` others on a path of `length`.

    `centre` is the index of the one that was asked for; `at_head` says whether the path is the one to the head."""

    messages: Sequence[Message]
    centre: int
    ahead: int
    length: int
    at_head: bool


async def read_window(runtime: Runtime, session_id: str, around: str | None, before: int, after: int) -> Window:
    """Up to `before` messages ahead of one and `after` behind it, as they were written; without `around` the last ones.

    The id of a summary means the first message that it covers. Raises `MessageNotFoundError`,
    `SessionNotFoundError`."""
    for _ in range(_ATTEMPTS):
        tree = await reading.load_tree(runtime, session_id, find=[around] if around else ())
        if tree is None:
            raise SessionNotFoundError(session_id, runtime.namespace)
        place = tree.session.head if around is None else _place(tree, around)
        if place is None:
            return Window((), 0, 0, 0, True)
        leaf = _leaf_beyond(tree, place)
        path = tree.lay(leaf, overlays=False)
        position = position_of(path, place)
        assert position is not None, "a message stands on the path to a leaf beyond it"
        reach = before + after if around is None else before
        start = max(0, position - reach)
        items = first_items(drop_first(path, start), position + after + 1 - start)
        messages = await reading.read_items(runtime, items)
        if len(messages) == count(items):
            return Window(messages, position - start, start, count(path), leaf == tree.session.head)
    raise ConcurrentChangeError(
        f"session {session_id!r} was changed by others {_ATTEMPTS} times while it was read: try again",
        session_id=session_id,
    )


def _place(tree: Tree, around: str) -> Place:
    if around.startswith(SUMMARY_PREFIX):
        starts = [overlay.start for overlay in tree.overlays if SUMMARY_PREFIX + overlay.id == around]
        place = tree.at_or_before(starts[0]) if starts else None
        if place is None:
            raise MessageNotFoundError(around, tree.session.id)
        return place
    return reading.place_of(tree, around)


def _leaf_beyond(tree: Tree, place: Place) -> Place:
    """The end of the path that a message is read on: the head, if it stands on the path to it, or a branch's end."""
    head = tree.session.head
    if head is not None and tree.precedes(place, head):
        return head
    return next((leaf for leaf in reversed(tree.leaves()) if tree.precedes(place, leaf)), place)


def told_window(info: SessionInfo, window: Window, max_tokens: int, counter: TokenCounter) -> str:
    """A window in words: outwards from the message that was asked for, as far as the budget goes."""
    name = f"session {quoted(info.id)}"
    if not window.messages:
        return f"{headed(info.name, info.last_active_at, name)}\nIt has no messages."
    told = _told(window, max_tokens - counter(headed(info.name, info.created_at, name)) - _NOTES_TOKENS, counter)
    first, last = min(told), max(told)
    ahead, behind = window.ahead + first, window.length - window.ahead - last - 1
    which = f"messages {ahead + 1} to {ahead + last - first + 1} of {window.length}"
    branch = "" if window.at_head else "on another branch than the current one"
    lines = [headed(info.name, window.messages[first].created_at, name, which, branch)]
    lines += [told[index] for index in range(first, last + 1)]
    cut = _left_out(ahead, "earlier", window.messages[first].id, "before")
    cut += _left_out(behind, "later", window.messages[last].id, "after")
    return "\n\n".join([*lines, f"({' '.join(cut)})"] if cut else lines)


def _told(window: Window, room: int, counter: TokenCounter) -> dict[int, str]:
    """Index -> words, for a run of messages around the centre, which gets half of the room and the others a quarter."""
    centre, messages = window.centre, window.messages
    most = room if len(messages) == 1 else room // 2
    told = {centre: _message(messages[centre], most, counter)}
    room -= counter(told[centre])
    reach = max(centre, len(messages) - 1 - centre)
    closed = {1: False, -1: False}
    for index in (centre + sign * step for step in range(1, reach + 1) for sign in (1, -1)):
        side = 1 if index > centre else -1
        if closed[side] or not 0 <= index < len(messages):
            continue
        text = _message(messages[index], most // 2, counter)
        closed[side] = counter(text) > room
        if not closed[side]:
            told[index] = text
            room -= counter(text) + 1
    return told


def _message(message: Message, tokens: int, counter: TokenCounter) -> str:
    head = f"[{message.role} · {message.created_at:%Y-%m-%d %H:%M} · message {quoted(message.id)}]"
    text = searchable_text(message).strip() or "(nothing that can be shown as text)"
    return f"{head}\n{shortened(text, tokens - counter(head), counter)}"


def _left_out(many: int, which: str, id: str, side: str) -> list[str]:
    return [f"{many} {which} not shown: read on with around={quoted(id)}, {side}=10."] if many else []
