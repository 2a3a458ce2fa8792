"""JSON without loss: refuses every value that could not be read back exactly as it was given."""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec

from frontdesk.errors import InvalidMessageError

MAX_DEPTH = 200

decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def encode(value: dict[str, Any]) -> bytes:
    """UTF-8 JSON that `decode` turns into an equal value; raises `InvalidMessageError` that says where it cannot."""
    try:
        _check(value, MAX_DEPTH)
        return _encode(value)
    except _NotJSONError as refused:
        raise InvalidMessageError(f"{refused.where()} {refused.reason}", path=refused.where()) from None
    except UnicodeEncodeError:
        where = _path(_find_surrogate(value) or [])
        raise InvalidMessageError(f"{where} contains a lone surrogate, which is not text", path=where) from None
    except ValueError as error:
        raise InvalidMessageError(f"the message contains a number that cannot be written as JSON: {error}") from None


def compact(value: Any) -> str:
    """The JSON text of a value that is known to be JSON."""
    return _encode(value).decode()


def encode_arguments(arguments: Any) -> str:
    """The text that `decode_arguments` reads as `arguments`."""
    return arguments if type(arguments) is str else compact({} if arguments is None else arguments)


def decode_arguments(text: str) -> Any:
    """The value of a JSON text, or the text itself where it is none; models write nothing for no arguments."""
    if not text:
        return {}
    try:
        return decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text


class _NotJSONError(Exception):
    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.steps: list[str | int] = []

    def where(self) -> str:
        return _path(self.steps[::-1])


def _path(steps: list[str | int]) -> str:
    if len(steps) > 12:
        steps = [*steps[:6], "…", *steps[-3:]]
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".").encode("utf-8", "backslashreplace").decode() or "the message"


def _check(value: Any, depth: int) -> None:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return
    if kind is float:
        if not isfinite(value):
            raise _NotJSONError(f"is {value}, which JSON does not have")
        return
    if depth == 0:
        raise _NotJSONError(f"is nested deeper than {MAX_DEPTH} levels")
    if kind is dict:
        _check_object(value, depth)
    elif kind is list:
        for index, item in enumerate(value):
            if type(item) is not str:
                try:
                    _check(item, depth - 1)
                except _NotJSONError as refused:
                    refused.steps.append(index)
                    raise
    else:
        raise _NotJSONError(
            f"is {kind.__module__}.{kind.__qualname__}, not JSON: only dict, list, str, int, float, bool and None come"
            " back as they were given; convert it first"
        )


def _check_object(value: dict[Any, Any], depth: int) -> None:
    for key, item in value.items():
        if type(key) is not str:
            raise _NotJSONError(f"has the key {key!r}, which is not a string")
        if type(item) is not str:
            try:
                _check(item, depth - 1)
            except _NotJSONError as refused:
                refused.steps.append(key)
                raise


def _find_surrogate(value: Any) -> list[str | int] | None:
    """The way to the first text that cannot be encoded."""
    if type(value) is str:
        try:
            value.encode()
        except UnicodeEncodeError:
            return []
        return None
    items = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    for step, item in items:
        found = [] if type(step) is str and _find_surrogate(step) is not None else _find_surrogate(item)
        if found is not None:
            return [step, *found]
    return None
