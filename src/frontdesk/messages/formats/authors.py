"""Who spoke, for models: a name where the provider has one, otherwise a prefix of the text that no text can forge."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from frontdesk.messages.formats.format import Source
from frontdesk.messages.formats.pairing import role_of
from frontdesk.messages.formats.tags import escape_tags

_LONGEST_NAME = 64
_COLON = "[:\u02d0\u05c3\u2236\ua789\ufe13\ufe55\uff1a]"
_BREAK = "[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"
_INVISIBLE = re.compile("[\\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
# What could pass for a prefix: "Ben: hello", also as "**Ben** : hello", but not "https://...".
_PREFIX = rf"(?=[^\w\n\r]*\w[^:\n\r]{{0,99}}?{_COLON}(?!//))"
_AT_START = re.compile(_PREFIX)
_AFTER_BREAK = re.compile(rf"({_BREAK}){_PREFIX}")


class Speakers:
    """The authors of the users' messages in a conversation.

    `is_name` says whether the provider accepts an author as a name. If it does not accept one of them, prefixes are in
    use, and each line of a text that looks like one is quoted with "> ", so that nobody can speak as another."""

    def __init__(self, messages: Iterable[Source], is_name: Callable[[str], bool] = lambda author: False) -> None:
        self._is_name = is_name
        authors = {message.author for message in messages if role_of(message) == "user"}
        self._has_prefixes = any(author is not None and not is_name(author) for author in authors)

    def name(self, message: Source) -> str | None:
        """The author as a name for the provider; None if there is none, or if it becomes a prefix."""
        author = message.author
        return author if author is not None and self._is_name(author) else None

    def mark(self, message: Source, blocks: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
        """The blocks of a user's message with its author before the first text (a block of the type `kind`), and
        without anything that could pass for a note or for another author."""
        marked: list[dict[str, Any]] = []
        prefix = self._prefix(message)
        for block in blocks:
            if block["type"] != kind:
                marked.append(block)
                continue
            text = self._quote(escape_tags(block["text"]), at_start=prefix is None)
            marked.append({**block, "text": text if prefix is None else f"{prefix} {text}"})
            prefix = None
        return marked if prefix is None else [{"type": kind, "text": prefix}, *marked]

    def _prefix(self, message: Source) -> str | None:
        if message.author is None or self._is_name(message.author):
            return None
        name = re.sub(_COLON, "_", _INVISIBLE.sub(" ", message.author).strip())[:_LONGEST_NAME]
        return f"{escape_tags(name)}:" if name else None

    def _quote(self, text: str, *, at_start: bool) -> str:
        if not self._has_prefixes:
            return text
        text = _AFTER_BREAK.sub(r"\1> ", text)
        return f"> {text}" if at_start and _AT_START.match(text) else text
