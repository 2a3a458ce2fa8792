"""What the validators of all providers share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

_STRICT = ConfigDict(extra="forbid")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class RefusedError(Exception):
    """The provider refuses the request, because of the parameter `param`."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(f"{param}: {message}")
        self.message = message
        self.param = param


def require(holds: object, message: str, param: str) -> None:
    if not holds:
        raise RefusedError(message, param)


def adapter(kind: Any) -> TypeAdapter[Any]:
    """Validates values of a type, and refuses keys that it does not have."""
    return TypeAdapter(kind, config=_STRICT)


def check_type(types: TypeAdapter[Any], value: Any, param: str) -> None:
    try:
        exhaust(types.validate_python(value))
    except ValidationError as error:
        # A union reports what is wrong for each of its members: the one that fits best says least.
        by_member: dict[Any, list[str]] = {}
        for each in error.errors():
            by_member.setdefault(each["loc"][:1], []).append(f"{each['msg']} ({'.'.join(map(str, each['loc']))})")
        best = min(by_member, key=lambda member: (_misfit(by_member[member]), len(by_member[member])))
        raise RefusedError("; ".join(by_member[best]), param) from None


def _misfit(texts: list[str]) -> bool:
    """Whether a member of a union is of another role or type."""
    return any(".role)" in text or ".type)" in text for text in texts)


def exhaust(value: Any) -> None:
    """Validate what pydantic leaves for later: the items of an Iterable."""
    if isinstance(value, dict):
        for item in value.values():
            exhaust(item)
    elif isinstance(value, list) or hasattr(value, "__next__"):
        for item in value:
            exhaust(item)


def check_tools(tools: Any, names: list[Any]) -> None:
    """The tools of a request: at least one, each with a name of its own."""
    require(isinstance(tools, list) and tools, "[] is too short", "tools")
    for index, name in enumerate(names):
        require(isinstance(name, str) and TOOL_NAME.fullmatch(name), "invalid tool name", f"tools[{index}].name")
    require(len(set(names)) == len(names), "tool names must be unique", "tools")


def blocks_of(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, list):
        yield from (block for block in content if isinstance(block, dict))
