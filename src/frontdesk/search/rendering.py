"""What a model is shown, as compact text within a token budget: hits, and excerpts of conversations."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence
from datetime import datetime
from typing import NamedTuple

from frontdesk.config.runtime import Runtime
from frontdesk.errors import MessageNotFoundError, SessionNotFoundError
from frontdesk.history import trees, views
from frontdesk.messages import SUMMARY_PREFIX, Message
from frontdesk.messages.tokens import TokenCounter
from frontdesk.moments import to_datetime
from frontdesk.search.hits import SearchHit
from frontdesk.search.message_text import searchable_text
from frontdesk.search.request import is_shown
from frontdesk.store import Place, SessionRow
from frontdesk.tree.items import count, drop_first, first_items, position_of
from frontdesk.tree.tree import Tree

_SIMPLE = re.compile(r"[\w.:@/+#~=-]+")
_SPACES = re.compile(r"\s+")
_MAX_TITLE = 80
_MAX_TOKEN_LENGTH = 16
"""at most this number of characters of a text are counted for each token that there is room for"""
_NOTE_TOKENS = 10
"""reserved for the note on how much was cut"""
_SEPARATOR = " · "
_NEIGHBOUR = "> "
_NEIGHBOUR_TOKENS = 60
_SPEAKERS = ("user", "assistant")
_NOTES_TOKENS = 80
"""reserved for the notes on which messages these are, and what was left out"""


def quote(id: str) -> str:
    """An id for use in a line of text, in quotes if it is not a simple word."""
    return id if _SIMPLE.fullmatch(id) else json.dumps(id, ensure_ascii=False)


def title(name: str) -> str:
    """The name of a session, on one line and shortened."""
    line = _SPACES.sub(" ", name).strip()
    return line if len(line) <= _MAX_TITLE else line[: _MAX_TITLE - 1] + "…"


def heading(name: str, at: datetime, *parts: str) -> str:
    """`[Title · 2025-03-04 · more · parts]`."""
    return f"[{_SEPARATOR.join(filter(None, (title(name), f'{at:%Y-%m-%d}', *parts)))}]"


def shorten(text: str, tokens: int, counter: TokenCounter) -> str:
    """A text, or as much of its start as fits into `tokens`, with a note on how much was cut."""
    if len(text) <= tokens * _MAX_TOKEN_LENGTH and counter(text) <= tokens:
        return text
    room = max(tokens - _NOTE_TOKENS, 1)
    start = text[: room * _MAX_TOKEN_LENGTH]
    while (size := counter(start)) > room and len(start) > 1:
        start = start[: max(1, min(len(start) - 1, int(len(start) * room / size)))]
    return f"{start}… ({len(text) - len(start):,} more characters)"


def render_hits(hits: Sequence[SearchHit], max_tokens: int, counter: TokenCounter) -> list[str]:
    """The hits as texts, as many as fit, but at least the first. Each says who said it, when and where. With it comes
    the question that it answers, or the answer to it, unless that is a hit itself."""
    rendered: list[str] = []
    room = max_tokens
    found = {(hit.session_id, hit.message_id) for hit in hits}
    for hit in hits:
        session = f"session {quote(hit.session_id)}"
        head = heading(hit.session_name, hit.created_at, _speaker(hit), session, _describe(hit))
        lines = [head, hit.snippet if rendered else shorten(hit.snippet, room - counter(head), counter)]
        lines = _with_neighbour(hit, lines, found, counter)
        text = "\n".join(lines)
        if counter(text) + 1 > room and len(lines) > 2:
            text = "\n".join(line for line in lines if not line.startswith(_NEIGHBOUR))
        room -= counter(text) + 1
        if room < 0 and rendered:
            break
        rendered.append(text)
    return rendered


def _with_neighbour(
    hit: SearchHit, lines: list[str], found: Container[tuple[str, str]], counter: TokenCounter
) -> list[str]:
    """The lines of a hit with the message that makes sense of it: the one before an answer, or the one after what a
    user said."""
    near = hit.context_before[-1:] if hit.role == "assistant" else hit.context_after[:1] if hit.role == "user" else ()
    for message in near:
        text = _SPACES.sub(" ", message.text).strip()
        if text and message.role in _SPEAKERS and (hit.session_id, message.id) not in found:
            line = f"{_NEIGHBOUR}{message.role}: {shorten(text, _NEIGHBOUR_TOKENS, counter)}"
            return [lines[0], line, *lines[1:]] if hit.role == "assistant" else [*lines, line]
    return lines


def _speaker(hit: SearchHit) -> str:
    """The role, and the name of the author, in quotes if it could be misread."""
    return f"{hit.role} {quote(title(hit.author))}" if hit.author else hit.role


def _describe(hit: SearchHit) -> str:
    if hit.kind == "session":
        return "its name and summary"
    return f"{hit.kind} {quote(hit.message_id)}"


# excerpts: the messages around one message, on the path that it is on


class Excerpt(NamedTuple):
    """Messages of a path of `length`, with their positions on it. Of the path, `before` messages come before the part
    that was read, and `after` messages after it.

    `centre` is the index of the requested message. `at_head` says whether the path is the one to the head."""

    messages: Sequence[Message] = ()
    positions: Sequence[int] = ()
    centre: int = 0
    before: int = 0
    after: int = 0
    length: int = 0
    at_head: bool = True


async def read_excerpt(runtime: Runtime, row: SessionRow, around: str | None, before: int, after: int) -> Excerpt:
    """The message `around` with up to `before` messages before it and `after` after it; without `around`, the last
    messages. Messages are returned as they were written, without summaries, and only those that a model is shown.

    The id of a summary means the first message that it covers. Raises `MessageNotFoundError`, even for a message that a
    model is not shown, and `SessionNotFoundError`."""
    session_id = row.id

    async def read() -> Excerpt:
        tree = await trees.load_tree(runtime, session_id, find=[around] if around else ())
        if tree is None or tree.session.number != row.number:
            raise SessionNotFoundError(session_id, runtime.namespace)
        place = tree.session.head if around is None else _place(tree, around)
        if place is None:
            return Excerpt()
        leaf = _leaf_after(tree, place)
        path = tree.lay(leaf, overlays=False)
        position = position_of(path, place)
        assert position is not None, "a message is on the path to a leaf after it"
        reach = before + after if around is None else before
        start = max(0, position - reach)
        items = first_items(drop_first(path, start), position + after + 1 - start)
        messages = await views.read_all(runtime, items)
        if around is not None and place == tree.find(around) and not is_shown(messages[position - start].role):
            raise MessageNotFoundError(around, session_id)
        return _excerpt(messages, position, start, count(path), at_head=leaf == tree.session.head)

    return await views.retry_if_moved(runtime, read, session_id)


def _excerpt(messages: Sequence[Message], requested: int, start: int, length: int, *, at_head: bool) -> Excerpt:
    """The excerpt from messages that begin at the position `start`: those of them that a model is shown."""
    shown = {start + index: message for index, message in enumerate(messages) if is_shown(message.role)}
    positions = list(shown)
    centre = min(range(len(positions)), key=lambda index: abs(positions[index] - requested), default=0)
    after = length - start - len(messages)
    return Excerpt(list(shown.values()), positions, centre, start, after, length, at_head)


def _place(tree: Tree, around: str) -> Place:
    if around.startswith(SUMMARY_PREFIX):
        starts = [overlay.start for overlay in tree.overlays if SUMMARY_PREFIX + overlay.id == around]
        place = tree.at_or_before(starts[0]) if starts else None
        if place is None:
            raise MessageNotFoundError(around, tree.session.id)
        return place
    return trees.place_of(tree, around)


def _leaf_after(tree: Tree, place: Place) -> Place:
    """The end of the path on which a message is read: the head if the message is on the path to it, else the end of the
    newest branch with the message."""
    head = tree.session.head
    if head is not None and tree.precedes(place, head):
        return head
    return next((leaf for leaf in reversed(tree.leaves()) if tree.precedes(place, leaf)), place)


def render_excerpt(row: SessionRow, excerpt: Excerpt, max_tokens: int, counter: TokenCounter) -> str:
    """An excerpt as text for a model: as many messages around the requested one as fit into `max_tokens`."""
    name = f"session {quote(row.id)}"
    if not excerpt.messages:
        return f"{heading(row.name, to_datetime(row.last_active_at), name)}\nThere are no messages to show."
    room = max_tokens - counter(heading(row.name, to_datetime(row.created_at), name)) - _NOTES_TOKENS
    rendered = _render_messages(excerpt, room, counter)
    first, last = min(rendered), max(rendered)
    earlier, later = excerpt.before + first, excerpt.after + len(excerpt.messages) - last - 1
    which = f"messages {excerpt.positions[first] + 1} to {excerpt.positions[last] + 1} of {excerpt.length}"
    branch = "" if excerpt.at_head else "on another branch than the current one"
    lines = [heading(row.name, excerpt.messages[first].created_at, name, which, branch)]
    lines += [rendered[index] for index in range(first, last + 1)]
    notes = _note_omitted(earlier, "earlier", excerpt.messages[first].id, "before")
    notes += _note_omitted(later, "later", excerpt.messages[last].id, "after")
    return "\n\n".join([*lines, f"({' '.join(notes)})"] if notes else lines)


def _render_messages(excerpt: Excerpt, room: int, counter: TokenCounter) -> dict[int, str]:
    """Index -> text, for consecutive messages around the centre, alternating between later and earlier ones. The centre
    may take half of the room, each other message a quarter. A side ends with the first message that does not fit."""
    centre, messages = excerpt.centre, excerpt.messages
    limit = room if len(messages) == 1 else room // 2
    rendered = {centre: _render_message(messages[centre], limit, counter)}
    room -= counter(rendered[centre])
    reach = max(centre, len(messages) - 1 - centre)
    closed = {1: False, -1: False}
    for index in (centre + sign * step for step in range(1, reach + 1) for sign in (1, -1)):
        side = 1 if index > centre else -1
        if closed[side] or not 0 <= index < len(messages):
            continue
        text = _render_message(messages[index], limit // 2, counter)
        closed[side] = counter(text) > room
        if not closed[side]:
            rendered[index] = text
            room -= counter(text) + 1
    return rendered


def _render_message(message: Message, tokens: int, counter: TokenCounter) -> str:
    head = f"[{message.role} · {message.created_at:%Y-%m-%d %H:%M} · message {quote(message.id)}]"
    text = searchable_text(message).strip() or "(no text)"
    return f"{head}\n{shorten(text, tokens - counter(head), counter)}"


def _note_omitted(count: int, which: str, id: str, side: str) -> list[str]:
    return [f"{count} {which} not shown: read on with around={quote(id)}, {side}=10."] if count else []
