"""`Record`: the base class of the records that the public API returns. The records themselves are in `records` and in
the packages of their features."""

from __future__ import annotations

from dataclasses import fields, make_dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Record:
    """A frozen dataclass that `dataclasses.asdict`, pydantic (and with it FastAPI) and `to_dict` serialise."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as values that `json.dumps` takes.

        Moments and days become ISO 8601 text, decimals text, enums their values, tuples lists, records dicts."""
        fields: dict[str, Any] = _decode(_encode(self))
        return fields


def draft_of(kind: type[DataclassInstance]) -> type[Any]:
    """A class with the slots of a record that is not frozen: for records that are built by the page.

    A frozen dataclass sets each field with a call of `object.__setattr__`. A draft that is filled in, and then made a
    record by setting its `__class__`, takes a third of the time."""
    names = [(field.name, Any) for field in fields(kind)]
    return make_dataclass(kind.__name__, names, bases=(Record,), slots=True, kw_only=True)


def _to_known(value: Any) -> Any:
    """What msgspec does not know: a `Message`."""
    to_dict = getattr(value, "to_dict", None)
    if to_dict is None:
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return to_dict()


_encode = msgspec.json.Encoder(enc_hook=_to_known).encode
_decode = msgspec.json.Decoder().decode
