"""JSON without loss: takes every value that `json.dumps` takes, and models of provider SDKs, and refuses what could not
be read back."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from frontdesk.errors import InvalidMessageError
from frontdesk.messages.model_objects import dump_model, is_model

MAX_DEPTH = 200

decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def encode(value: Any) -> tuple[Any, bytes]:
    """A value in plain JSON types, and the UTF-8 JSON that `decode` turns into it. Raises `InvalidMessageError`, which
    says where that is not possible.

    The value is the given one, unless that contains other types: then it is what `json.loads(json.dumps(value))` would
    return, with mappings and models of provider SDKs as objects."""
    try:
        try:
            _check(value, MAX_DEPTH)
        except _OtherTypeError:
            value = _plain(value, MAX_DEPTH)
        return value, _encode(value)
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


class _OtherTypeError(Exception):
    """A value is not only made of plain JSON types: it has to be converted."""


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
        raise _OtherTypeError


def _check_object(value: dict[Any, Any], depth: int) -> None:
    for key, item in value.items():
        if type(key) is not str:
            raise _OtherTypeError
        if type(item) is not str:
            try:
                _check(item, depth - 1)
            except _NotJSONError as refused:
                refused.steps.append(key)
                raise


def _plain(value: Any, depth: int) -> Any:
    """A value in plain JSON types."""
    if value is None or type(value) is bool:
        return value
    # Subclasses, such as members of string and int enums, have the value of their base; what they print is not asked.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        number = float.__float__(value)
        _check(number, depth)
        return number
    if depth == 0:
        raise _NotJSONError(f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return _plain_object(value, depth)
    if isinstance(value, list | tuple):
        return [_plain_at(index, item, depth) for index, item in enumerate(value)]
    return _plain_model(value, depth)


def _plain_object(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, item in value.items():
        name = _plain_key(key)
        if name in plain:
            raise _NotJSONError(f"has two keys that are {name!r} in JSON")
        plain[name] = _plain_at(name, item, depth)
    return plain


def _plain_key(key: Any) -> str:
    """A key as `json.dumps` writes it."""
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, int | float):
        return compact(_plain(key, 0))
    raise _NotJSONError(f"has the key {key!r}, which is not a string")


def _plain_at(step: str | int, item: Any, depth: int) -> Any:
    try:
        return _plain(item, depth - 1)
    except _NotJSONError as refused:
        refused.steps.append(step)
        raise


def _plain_model(value: Any, depth: int) -> Any:
    kind = type(value)
    if is_model(value):
        try:
            dumped = dump_model(value)
        except Exception as error:
            failed = f"is {kind.__module__}.{kind.__qualname__}, whose model_dump() failed: {type(error).__name__}"
            raise _NotJSONError(failed) from error
        return _plain(dumped, depth - 1)
    raise _NotJSONError(
        f"is {kind.__module__}.{kind.__qualname__}, not JSON: pass values that json.dumps takes, or models with"
        " model_dump(); convert others first"
    )


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
