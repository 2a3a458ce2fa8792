"""Content blocks, whose fields may hold anything, and the files in them: shared by all formats, in both directions."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Container
from typing import Any

from frontdesk.messages.exact_json import compact, encode_arguments
from frontdesk.messages.parts import DataPart, FilePart, Part, TextPart, ToolCallPart

REFUSAL = "refusal"
MALFORMED_CALL = "tool_calls"
NO_TEXT = "(no text)"
"""what a message without any content becomes, since providers refuse empty ones"""
_OWN_BLOCKS = frozenset({"data", "reasoning", "tool-call", "tool-result"})


def text_at(block: dict[str, Any], key: str) -> str:
    """The text under `key`, or "" where there is none."""
    value = block.get(key)
    return value if type(value) is str else ""


def dict_at(block: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under `key`, or {} where there is none."""
    value = block.get(key)
    return value if type(value) is dict else {}


def list_at(block: dict[str, Any], key: str) -> list[Any]:
    """The list under `key`, or [] where there is none."""
    value = block.get(key)
    return value if type(value) is list else []


def type_of(block: Any) -> str:
    """The block's own name for what it is, or "" where it has none."""
    return text_at(block, "type") if type(block) is dict else ""


def types_in(raw: dict[str, Any]) -> set[str]:
    """The types of the blocks of the content."""
    content = raw.get("content")
    return {type_of(block) for block in content} if type(content) is list else set()


def has_own_blocks(raw: dict[str, Any]) -> bool:
    """Whether the content has a block that only our own format writes."""
    return any(
        kind in _OWN_BLOCKS or (kind == "file" and "media_type" in block)
        for block in list_at(raw, "content")
        if (kind := type_of(block))
    )


def other(block: Any) -> Part:
    """The part for a block that its format does not know."""
    return DataPart(type_of(block) or "unknown", block)


def split_data_url(url: str | None) -> tuple[str, str] | None:
    """(media type, base64) of a `data:` URL, or None where it is none."""
    if url is None or not url.startswith("data:"):
        return None
    head, comma, data = url[5:].partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    return head.removesuffix(";base64").partition(";")[0] or "text/plain", data


def file_at_url(media_type: str, url: str, name: str | None = None) -> FilePart:
    """A file by its address; a `data:` URL becomes inline data."""
    inline = split_data_url(url)
    if inline is None:
        return FilePart(media_type, name, url=url or None)
    return FilePart(inline[0], name, data=inline[1])


def read_file(file: dict[str, Any], data_key: str) -> FilePart:
    """The file that OpenAI names by id, or contains as a `data:` URL or bare base64 under `data_key`."""
    name = text_at(file, "filename") or None
    data = text_at(file, data_key)
    if data.startswith("data:"):
        return file_at_url("application/octet-stream", data, name)
    return FilePart("application/pdf" if data else "application/octet-stream", name, data=data or None)


def url_of(part: FilePart) -> str | None:
    """The address of `part`: a `data:` URL where it has only data, None where it has neither."""
    if part.url is not None:
        return part.url
    if part.data is None:
        return None
    media_type = part.media_type if "*" not in part.media_type else "application/octet-stream"
    return f"data:{media_type};base64,{part.data}"


def text_of_file(part: FilePart) -> str | None:
    """The text of an inline text file, None for every other."""
    inline = (part.media_type, part.data) if part.data is not None else split_data_url(part.url)
    if inline is None or inline[1] is None or not inline[0].startswith("text/"):
        return None
    try:
        return base64.b64decode(inline[1], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def is_image(part: FilePart) -> bool:
    return part.media_type.startswith("image/")


def is_application_data(part: DataPart) -> bool:
    """Whether an application keeps it for itself: it is not sent to any provider."""
    return part.type.startswith(("data", "source-", "step-start"))


def readable(part: Part) -> str | None:
    """`part` as text, for places where nothing else is allowed; None where the model is not meant to see it."""
    if isinstance(part, TextPart):
        return part.text
    if isinstance(part, FilePart):
        text = text_of_file(part)
        named = part.name or part.url or "inline"
        return text if text is not None else f"[{part.media_type} file: {named if len(named) < 500 else 'inline'}]"
    if isinstance(part, ToolCallPart):
        return f"[call of the tool {part.name or 'tool'}: {encode_arguments(part.arguments)}]"
    if not isinstance(part, DataPart):
        return None
    if part.type == REFUSAL and type(part.data) is str:
        return part.data
    return f"[tool call: {compact(part.data)}]" if part.type == MALFORMED_CALL else None


def readable_from_user(part: Part) -> str | None:
    """`part` as text; a part that no provider knows is named, unless an application keeps it for itself."""
    text = readable(part)
    if text is None and isinstance(part, DataPart) and not is_application_data(part):
        return f"[{part.type[:100]}]"
    return text


def keep(block: dict[str, Any], keys: Container[str]) -> dict[str, Any]:
    """The block with these keys alone, where they have a value."""
    return {key: value for key, value in block.items() if key in keys and value is not None}


def result_text(content: Any) -> str:
    """A tool's answer as text, whichever provider's blocks it consists of."""
    if type(content) is str:
        return content
    if content is None:
        return ""
    if type(content) is list and content and all(type_of(block) in _RESULT_BLOCKS for block in content):
        return "\n".join(_result_block(block) for block in content)
    return compact(content)


_RESULT_BLOCKS = frozenset({"text", "input_text", "output_text", "image", "image_url", "input_image"})


def _result_block(block: dict[str, Any]) -> str:
    return text_at(block, "text") if "text" in block["type"] else "[image]"


def safe_name(name: str) -> str:
    """A tool name that every provider accepts."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "tool"
