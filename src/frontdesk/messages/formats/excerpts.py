"""Shorter versions of texts, JSON values and tool outputs. All formats use them to shorten messages."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from frontdesk.messages.exact_json import compact, decode_arguments
from frontdesk.messages.formats.content_blocks import text_at, type_of
from frontdesk.messages.formats.format import Limits

LEAST_CHARS = 100
"""Limits below this are taken as this: the note on what was left out must fit, and some text with it."""

_MARKER = "__truncated"
_DEPTH = 8
_LEAST_TEXT = 32
_LEAST_AROUND_NOTE = 20
_TEXT_KINDS = ("text", "input_text", "output_text")
_CONTENT_KINDS = frozenset(
    {"audio", "document", "file", "image", "image_url", "input_file", "input_image", "search_result", "tool_reference"}
)
# Items kept of each list and entries kept of each object, None for all: lists are the first to go, objects are cut only
# when nothing else helps.
_BREADTHS = ((None, None), (20, None), (5, None), (2, None), (2, 20), (2, 8), (1, 3), (1, 1))


def cut_middle(text: str, limit: int) -> str:
    """`text` in at most `limit` characters: its beginning, a note on how much was left out, and its end."""
    if len(text) <= limit:
        return text
    room = limit - len(_note(len(text))) - 2
    if room < _LEAST_AROUND_NOTE:
        return text[: max(0, limit - 1)] + "…"[:limit]
    tail = room // 2
    return f"{text[: room - tail]}\n{_note(len(text) - room)}\n{text[len(text) - tail :]}"


def _note(characters: int) -> str:
    return f"[… {characters} characters left out …]"


def shorten_content(
    content: Any, limits: Limits, shorten_block: Callable[[dict[str, Any], Limits], dict[str, Any]] | None = None
) -> Any:
    """The content of a message with its texts cut, and with `shorten_block` applied to blocks that are not text."""
    if type(content) is str:
        return cut_middle(content, limits.text)
    if type(content) is not list:
        return content
    return [_shorten_block(block, limits, shorten_block) for block in content]


def _shorten_block(
    block: Any, limits: Limits, shorten_block: Callable[[dict[str, Any], Limits], dict[str, Any]] | None
) -> Any:
    if type(block) is str:
        return cut_middle(block, limits.text)
    if type_of(block) in _TEXT_KINDS:
        return _with_text(block, cut_middle(text_at(block, "text"), limits.text))
    return block if shorten_block is None or type(block) is not dict else shorten_block(block, limits)


def shorten_texts(block: dict[str, Any], keys: tuple[str, ...], limit: int) -> dict[str, Any]:
    """`block` with the texts under `keys` shortened."""
    return block | {key: _shorten_text(block[key], limit) for key in keys if type(block.get(key)) is str}


def shorten_output(output: Any, limit: int) -> Any:
    """A tool's output in at most `limit` characters, or as few as its images and files allow."""
    if type(output) is str:
        return _shorten_text(output, limit)
    if type(output) is list and output and all(map(_is_content, output)):
        return _fit_blocks(output, limit)
    return _fit(output, limit)


def _with_text(block: dict[str, Any], text: str) -> dict[str, Any]:
    if text == block.get("text", ""):
        return block
    # OpenAI's annotations point at characters of the whole text.
    return {**block, "text": text, **({"annotations": []} if "annotations" in block else {})}


def _shorten_text(text: str, limit: int) -> str:
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
    return kind in _CONTENT_KINDS or (kind in _TEXT_KINDS and type(block.get("text")) is str)


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
            made.append(_with_text(block, _shorten_text(block["text"], share)))
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
    """A JSON value whose text has at most `limit` characters; a container stays a container of the same kind."""
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
