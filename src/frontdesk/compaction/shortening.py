"""Shorter copies of messages for the model's view: long tool outputs and over-long texts are cut, shapes stay valid.

Separate because nothing here depends on a message's place: a message is always shortened the same way, so that the
prefix that a provider has cached stays the same.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from frontdesk.messages import Message, StoredMessage, formats
from frontdesk.messages.formats.blocks import text_at, type_of
from frontdesk.messages.formats.counting import count_parts
from frontdesk.messages.formats.exact_json import compact, decode_arguments
from frontdesk.messages.formats.pairing import role_of
from frontdesk.messages.tokens import TokenCounter, estimate_tokens

LEAST_CHARS = 100
"""Limits below this are taken as this: the note on what was left out must fit, with something beside it."""

_MARKER = "__truncated"
_DEPTH = 8
_LEAST_TEXT = 32
_LEAST_AROUND_NOTE = 20
_TEXT_KINDS = ("text", "input_text", "output_text")
_BLOCK_KINDS = frozenset(
    {"audio", "document", "file", "image", "image_url", "input_file", "input_image", "search_result", "tool_reference"}
)
# Items kept of each list and entries kept of each object, None for all: lists are the first to go, objects are cut only
# when nothing else helps.
_BREADTHS = ((None, None), (20, None), (5, None), (2, None), (2, 20), (2, 8), (1, 3), (1, 1))


class _Limits(NamedTuple):
    tool: int
    text: int


def truncate_older_messages(
    messages: Sequence[Message],
    *,
    keep_recent: int = 4,
    max_tool_chars: int = 500,
    max_text_chars: int = 10_000,
    counter: TokenCounter = estimate_tokens,
) -> list[Message]:
    """`messages` with `shorten` applied to all but the last `keep_recent`; the given ones stay as they are."""
    older = max(0, len(messages) - max(0, keep_recent))
    shortened = [shorten(message, max_tool_chars, max_text_chars, counter) for message in messages[:older]]
    return [*shortened, *messages[older:]]


def shorten(message: Message, max_tool_chars: int, max_text_chars: int, counter: TokenCounter) -> Message:
    """A copy for the view whose tool outputs and texts have at most so many characters, or `message` itself where
    nothing is cut or nothing gained.

    Id, role, call ids, time and shape stay, and so do reasoning, tool arguments, files, system messages and summaries.
    Shortening twice is the same as once.
    """
    limits = _Limits(max(LEAST_CHARS, max_tool_chars), max(LEAST_CHARS, max_text_chars))
    old = message.stored
    if len(old.raw) <= min(limits) or message.is_summary or role_of(message) in ("system", "developer"):
        return message
    raw = _shorter_raw(message.raw, limits)
    if raw == message.raw:
        return message
    made = formats.ingest(raw, counter=counter, max_bytes=sys.maxsize)
    if made.tokens >= count_parts(message.parts, counter):
        return message
    stored = StoredMessage(old.id, old.role, made.tokens, old.created_at, made.raw, made.derived)
    return Message.from_stored(stored, message.parent_id)


def cut_middle(text: str, limit: int) -> str:
    """`text` in at most `limit` characters: its beginning and its end, and between them how much was left out."""
    if len(text) <= limit:
        return text
    room = limit - len(_note(len(text))) - 2
    if room < _LEAST_AROUND_NOTE:
        return text[: max(0, limit - 1)] + "…"[:limit]
    tail = room // 2
    return f"{text[: room - tail]}\n{_note(len(text) - room)}\n{text[len(text) - tail :]}"


def _note(characters: int) -> str:
    return f"[… {characters} characters left out …]"


def _shorter_raw(raw: dict[str, Any], limits: _Limits) -> dict[str, Any]:
    role = raw.get("role")
    if type(role) is not str:
        return _shorter_item(raw, limits)
    if type(raw.get("parts")) is list:
        return {**raw, "parts": [_shorter_block(part, limits) for part in raw["parts"]]}
    content = raw.get("content")
    if (role == "tool" and text_at(raw, "tool_call_id")) or (role in ("tool", "function") and type(content) is str):
        return {**raw, "content": _shorter_output(content, limits.tool)}
    if type(content) is str:
        return {**raw, "content": cut_middle(content, limits.text)}
    if type(content) is list:
        return {**raw, "content": [_shorter_block(block, limits) for block in content]}
    return raw


def _shorter_item(raw: dict[str, Any], limits: _Limits) -> dict[str, Any]:
    """An item of OpenAI Responses; outputs of its hosted tools keep their fixed shape."""
    kind, output = type_of(raw), raw.get("output")
    if type(output) is str or kind in ("function_call_output", "custom_tool_call_output"):
        return raw if output is None else {**raw, "output": _shorter_output(output, limits.tool)}
    if kind == "shell_call_output" and type(output) is list and all(type(each) is dict for each in output):
        share = max(LEAST_CHARS, limits.tool // (2 * len(output) or 1))
        return {**raw, "output": [_with_shorter_texts(each, ("stdout", "stderr"), share) for each in output]}
    return raw


def _shorter_block(block: Any, limits: _Limits) -> Any:
    if type(block) is str:
        return cut_middle(block, limits.text)
    kind = type_of(block)
    if kind in _TEXT_KINDS:
        return _with_text(block, cut_middle(text_at(block, "text"), limits.text))
    if kind in ("tool_result", "tool-result") and "content" in block:
        return {**block, "content": _shorter_output(block["content"], limits.tool)}
    if kind == "dynamic-tool" or kind.startswith("tool-"):
        shorter = _with_shorter_texts(block, ("errorText",), limits.tool)
        return {**shorter, "output": _shorter_output(block["output"], limits.tool)} if "output" in block else shorter
    return block


def _with_shorter_texts(block: dict[str, Any], keys: tuple[str, ...], limit: int) -> dict[str, Any]:
    return block | {key: _shorter_text(block[key], limit) for key in keys if type(block.get(key)) is str}


def _with_text(block: dict[str, Any], text: str) -> dict[str, Any]:
    if text == block.get("text", ""):
        return block
    # OpenAI's annotations point at characters of the whole text.
    return {**block, "text": text, **({"annotations": []} if "annotations" in block else {})}


def _shorter_output(output: Any, limit: int) -> Any:
    """A tool's output in at most `limit` characters, or as few as its images and files allow."""
    if type(output) is str:
        return _shorter_text(output, limit)
    if type(output) is list and output and all(map(_is_content, output)):
        return _fit_blocks(output, limit)
    return _fit(output, limit)


def _shorter_text(text: str, limit: int) -> str:
    """Text that is JSON stays JSON."""
    if len(text) <= limit:
        return text
    if text.lstrip()[:1] in ("{", "[", '"'):
        value = decode_arguments(text)
        if value is not text:
            return compact(_fit(value, limit))
    return cut_middle(text, limit)


def _is_content(block: Any) -> bool:
    kind = type_of(block)
    return kind in _BLOCK_KINDS or (kind in _TEXT_KINDS and type(block.get("text")) is str)


def _fit_blocks(blocks: list[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Content blocks whose texts have at most `limit` characters together; images and files stay."""
    sizes = {index: len(block["text"]) for index, block in enumerate(blocks) if block["type"] in _TEXT_KINDS}
    if sum(sizes.values()) <= limit:
        return blocks
    places = list(sizes)
    most = limit // LEAST_CHARS
    kept, dropped = (places, []) if len(places) <= most else (places[: most - 1], places[most - 1 :])
    marker = f"[… {len(dropped)} more texts, {sum(sizes[place] for place in dropped)} characters left out …]"
    room = limit - len(marker) if dropped else limit
    share = _share([sizes[place] for place in kept], room)
    made: list[dict[str, Any]] = []
    for index, block in enumerate(blocks):
        if dropped and index == dropped[0]:
            made.append({"type": block["type"], "text": marker})
        elif index not in sizes:
            made.append(block)
        elif not dropped or index < dropped[0]:
            made.append(_with_text(block, _shorter_text(block["text"], share)))
    return made


def _share(sizes: list[int], room: int) -> int:
    """The largest size that all may have, so that together they fit: the short ones leave theirs to the long ones."""
    left = len(sizes)
    for size in sorted(sizes):
        if size * left > room:
            return room // left
        room -= size
        left -= 1
    return room


def _fit(value: Any, limit: int) -> Any:
    """A JSON value whose text has at most `limit` characters; what was a container stays one, and the same kind."""
    size = len(compact(value))
    if size <= limit:
        return value
    for items, entries in _BREADTHS:
        longest = limit // 2
        while longest >= _LEAST_TEXT:
            # More than `limit` of anything cannot fit: no need to walk through all of a huge output.
            made = _pruned(value, longest, items or limit, entries or limit, _DEPTH)
            if len(compact(made)) <= limit:
                return made
            longest //= 2
    note = _note(size)
    return {_MARKER: note} if type(value) is dict else [note] if type(value) is list else note


def _pruned(value: Any, longest: int, items: int, entries: int, depth: int) -> Any:
    if type(value) is str:
        return cut_middle(value, longest)
    if type(value) is list:
        kept = value[:items] if depth else []
        made = [_pruned(item, longest, items, entries, depth - 1) for item in kept]
        left = len(value) - len(kept)
        return [*made, f"[… {left} more items …]"] if left else made
    if type(value) is dict:
        names = list(islice(value, entries)) if depth else []
        chosen = {name: _pruned(value[name], longest, items, entries, depth - 1) for name in names}
        left = len(value) - len(names)
        return {**chosen, _MARKER: f"{left} more entries"} if left else chosen
    return value
