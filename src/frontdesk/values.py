"""`Record`: the base of every value that the public API returns."""

from __future__ import annotations

from typing import Any

import msgspec


class Record:
    """A frozen dataclass that `dataclasses.asdict`, pydantic (and with it FastAPI) and `to_dict` serialise."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, as values that `json.dumps` takes.

        Moments and days become ISO 8601 text, decimals text, enums their values, tuples lists, records dicts."""
        fields: dict[str, Any] = msgspec.to_builtins(self, enc_hook=_encode)
        return fields


def _encode(value: Any) -> Any:
    """What msgspec does not know but we do: a `Message`."""
    to_dict = getattr(value, "to_dict", None)
    if to_dict is None:
        raise TypeError(f"{type(value).__name__} cannot be written as JSON")
    return to_dict()
