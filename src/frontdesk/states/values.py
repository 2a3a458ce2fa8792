"""Values of a type as JSON texts, and back: dataclasses, msgspec structs and TypedDicts by msgspec, pydantic models by
themselves. pydantic is never imported here: who has a model has imported it."""

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


class Values(Generic[T]):
    """What can be done with the values of one type. Raises `ConfigurationError` for a type that cannot be kept."""

    def __init__(self, kind: type[T]) -> None:
        self._kind: Any = kind
        self._class: Any = typing.get_origin(kind) or kind
        self.name = getattr(self._class, "__qualname__", repr(kind))
        self._encode: Callable[[T], str | bytes]
        self._decode: Callable[[str], T]
        if _is_pydantic(self._class):
            self._encode = _dump_model
            self._decode = lambda text: _load_model(self._kind, text)
        elif typing.is_typeddict(self._class) or dataclasses.is_dataclass(self._class) or _is_struct(self._class):
            self._encode = msgspec.json.Encoder().encode
            self._decode = self._decoder().decode
        else:
            raise ConfigurationError(
                f"a state is a dataclass, a pydantic model, a msgspec Struct or a TypedDict, not {kind!r}"
            )

    def _decoder(self) -> msgspec.json.Decoder[T]:
        try:
            return msgspec.json.Decoder(self._kind)
        except (TypeError, NameError, ValueError) as error:
            raise ConfigurationError(f"{self.name} cannot be kept as a state: {error}") from None

    def fresh(self) -> T:
        """A value with nothing but defaults. Raises `ConfigurationError` if the type has not enough of them."""
        try:
            made: T = self._kind()
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{self.name} cannot be made without values: give `states` a default=... ({_gist(error)})"
            ) from None
        return made

    def settle(self, value: object, id: str) -> tuple[str, T]:
        """The text to store, and the value as everybody will read it from there: a copy that nobody else holds.

        Raises `InvalidStateError` and `StateTooLargeError`."""
        wanted = dict if typing.is_typeddict(self._class) else self._class
        if type(value) is not wanted and not (typing.get_args(self._kind) and isinstance(value, wanted)):
            raise InvalidStateError(
                f"the state {id!r} must be a {self.name}, not {type(value).__name__}: return the whole new state", id=id
            )
        try:
            given = self._encode(value)  # type: ignore[arg-type]
            text = given if isinstance(given, str) else given.decode()
            copy = self._decode(text)
        except (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError) as error:
            raise InvalidStateError(
                f"the state {id!r} would not come back from JSON as the {self.name} that it is ({_gist(error)})", id=id
            ) from None
        size = len(text.encode())
        if size > MAX_STATE_BYTES:
            raise StateTooLargeError(
                f"the state {id!r} has {size} bytes, more than {MAX_STATE_BYTES}: keep what is large elsewhere",
                id=id,
                size=size,
            )
        return text, copy

    def read(self, text: str, id: str, name: str) -> T:
        """The value of a stored text. Raises `StateMismatchError`."""
        try:
            return self._decode(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise StateMismatchError(id, name, self.name, _gist(error)) from None


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _is_pydantic(kind: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _dump_model(model: Any) -> str:
    # By the names of fields, whatever the aliases: what is written must be read back by the same rule.
    text: str = model.model_dump_json(by_alias=False, round_trip=True)
    return text


def _load_model(kind: Any, text: str) -> Any:
    return kind.model_validate_json(text, by_alias=False, by_name=True)


def _gist(error: Exception) -> str:
    """What went wrong, without the value: pydantic's texts quote it."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return str(error)
    places = errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'value'}: {each['type']}" for each in places[:3])
