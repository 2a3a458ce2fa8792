"""Checks of arguments that are not messages. Each returns the value, or raises an `InvalidInputError` that names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from frontdesk.errors import InvalidInputError, InvalidMessageError
from frontdesk.messages import exact_json


def check_text(value: object, what: str) -> str:
    """Any text that every store can keep: no NUL, no lone surrogates."""
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} must be a text, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{what} contains a lone surrogate, which is not text") from None
    if "\0" in value:
        raise InvalidInputError(f"{what} contains a NUL character, which not every store can keep")
    return value


def check_summary(value: object) -> str:
    """A text that can replace messages."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError("a summary must be a text that is not blank")
    return check_text(value, "summary")


def check_json(value: dict[str, Any], what: str) -> str:
    """The JSON text of a dict that has names as its keys, and values that `json.dumps` takes."""
    if not isinstance(value, dict):
        raise InvalidInputError(f"{what} must be a dict, not {type(value).__name__}")
    if not all(isinstance(name, str) for name in value):
        raise InvalidInputError(f"{what} must be a dict whose keys are strings")
    try:
        return exact_json.encode(value)[1].decode()
    except InvalidMessageError as error:
        raise InvalidInputError(f"{what}: {error}") from None


def check_list(value: Any, what: str) -> list[Any]:
    """The members of a collection; a text or a dict alone is not one."""
    if type(value) is list:
        return value.copy()
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidInputError(f"{what} must be a list, not {type(value).__name__}: put a single one into a list")
    return list(value)


def check_texts(value: Any, what: str) -> list[str]:
    """One text or several, as a list."""
    texts = [value] if isinstance(value, str) else check_list(value, what)
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInputError(f"{what} must be a text, or a list of texts")
    return texts


def check_count(value: int | None, what: str, *, most: int | None = None) -> None:
    """None, or a whole number from 1 (to `most`)."""
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1 or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise InvalidInputError(f"{what} must be a whole number, at least 1{upper}, not {value!r}")


def check_flags(**values: object) -> None:
    """Each is True or False: text such as "no" would be true."""
    for what, value in values.items():
        if not isinstance(value, bool):
            raise InvalidInputError(f"{what} must be True or False, not {value!r}")


def check_numbers(**values: object) -> None:
    for what, value in values.items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InvalidInputError(f"{what} must be a number, not {value!r}")


def check_callables(**values: object) -> None:
    """Each is a callable, or None."""
    for what, value in values.items():
        if not (value is None or callable(value)):
            raise InvalidInputError(f"{what} must be callable, not {type(value).__name__}")
