"""An FTS5 function that returns the offsets of the phrases of a query in a text. Each connection must register it."""

from __future__ import annotations

from typing import Any

import apsw


def prepare(connection: apsw.Connection) -> None:
    """Register the function with a new connection."""
    connection.register_fts5_function("take_places", _take_places)


def _take_places(api: Any, *wanted: Any) -> None:
    """Add the places of some phrases in the text that is being looked at to a list."""
    ((phrases, out),) = wanted
    out.append([api.phrase_locations(phrase)[0] for phrase in phrases])
