"""Encoding typed values as JSON and back: with msgspec for dataclasses, msgspec structs, TypedDicts and NamedTuples;
pydantic models encode themselves. pydantic is never imported here: an application that has a model has imported it."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from frontdesk.errors import ConfigurationError, InvalidStateError, StateMismatchError, StateTooLargeError

T = TypeVar("T")
MAX_STATE_BYTES = 1 << 20


class StateCodec(Generic[T]):
    """Encodes and decodes values of one type. Raises `ConfigurationError` for a type that cannot be stored."""

    def __init__(self, kind: type[T]) -> None:
        self._kind: Any = kind
        self._class: Any = typing.get_origin(kind) or kind
        self.name = getattr(self._class, "__qualname__", repr(kind))
        self._dump: Callable[[T], str | bytes]
        self._load: Callable[[str], T]
        if _is_pydantic(self._class):
            self._dump = _dump_model
            self._load = lambda text: _load_model(self._kind, text)
        elif isinstance(self._class, type) and _is_for_msgspec(self._class):
            self._dump = msgspec.json.Encoder().encode
            self._load = self._decoder().decode
        else:
            raise ConfigurationError(
                "a state must be a dataclass, a pydantic model, a msgspec Struct, a TypedDict or a NamedTuple,"
                f" not {kind!r}"
            )

    def _decoder(self) -> msgspec.json.Decoder[T]:
        try:
            return msgspec.json.Decoder(self._kind)
        except (TypeError, NameError, ValueError) as error:
            raise ConfigurationError(f"{self.name} cannot be stored as a state: {error}") from None

    def default(self) -> T:
        """A value with all fields at their defaults. Raises `ConfigurationError` if a field has none."""
        try:
            value: T = self._kind()
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{self.name} cannot be made without arguments: pass `default=...` to `states` ({_describe(error)})"
            ) from None
        return value

    def is_instance(self, value: object) -> bool:
        """Whether a value is of the type itself: what a subclass adds would be lost."""
        wanted = dict if typing.is_typeddict(self._class) else self._class
        return type(value) is wanted or bool(typing.get_args(self._kind) and isinstance(value, wanted))

    def encode(self, value: object, id: str) -> tuple[str, T]:
        """The text to store, and the value as it will be read back from there: a copy that no other code has.

        Raises `InvalidStateError` and `StateTooLargeError`."""
        if not self.is_instance(value):
            raise InvalidStateError(
                f"the state {id!r} must be a {self.name}, not {type(value).__name__}: return the whole new state", id=id
            )
        try:
            dumped = self._dump(value)  # type: ignore[arg-type]
            text = dumped if isinstance(dumped, str) else dumped.decode()
            copy = self._load(text)
        except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError) as error:
            raise InvalidStateError(
                f"the state {id!r} cannot be read back from JSON as the same {self.name} ({_describe(error)})", id=id
            ) from None
        size = len(text.encode())
        if size > MAX_STATE_BYTES:
            raise StateTooLargeError(
                f"the state {id!r} has {size} bytes, more than {MAX_STATE_BYTES}: store large data elsewhere",
                id=id,
                size=size,
            )
        return text, copy

    def decode(self, text: str, id: str, name: str) -> T:
        """The value of a stored text. Raises `StateMismatchError`."""
        try:
            return self._load(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise StateMismatchError(id, name, self.name, _describe(error)) from None

    def parse(self, text: str, id: str, name: str) -> Any:
        """The JSON value of a stored text, whatever its type. Raises `StateMismatchError`."""
        try:
            return msgspec.json.decode(text)
        except (ValueError, RecursionError):
            raise StateMismatchError(id, name, self.name, "it is not JSON") from None


def _is_for_msgspec(kind: type) -> bool:
    is_named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return (
        is_named_tuple
        or typing.is_typeddict(kind)
        or dataclasses.is_dataclass(kind)
        or issubclass(kind, msgspec.Struct)
    )


def _is_pydantic(kind: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _dump_model(model: Any) -> str:
    # By field names, not by aliases: what is written must be read back by the same rule.
    text: str = model.model_dump_json(by_alias=False, round_trip=True)
    return text


def _load_model(kind: Any, text: str) -> Any:
    return kind.model_validate_json(text, by_alias=False, by_name=True)


def _describe(error: Exception) -> str:
    """The error's text without the value, which pydantic's own texts quote."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return str(error)
    places = errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'value'}: {each['type']}" for each in places[:3])
