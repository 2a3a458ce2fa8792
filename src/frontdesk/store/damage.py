"""Values that rows keep as text, such as JSON: what cannot be read is reported with the name of its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from frontdesk.errors import DamagedRecordError

T = TypeVar("T")


def parse_stored(parse: Callable[[str], T], text: str, record: str, id: str | None, number: int | None = None) -> T:
    """The value of a stored text. Raises `DamagedRecordError` if it is not what was once stored."""
    try:
        return parse(text)
    except (ValueError, ArithmeticError, LookupError, TypeError):
        raise DamagedRecordError(record, id, number) from None
