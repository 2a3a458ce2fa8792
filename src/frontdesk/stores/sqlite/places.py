"""The function that lets FTS5 tell where the phrases of a query stand in a text: each connection must be taught it."""

from __future__ import annotations

from typing import Any

import apsw


def prepare(connection: apsw.Connection) -> None:
    """Teach a new connection the function that tells where the phrases of a query stand."""
    connection.register_fts5_function("take_places", _take_places)


def _take_places(api: Any, *wanted: Any) -> None:
    """Add the places of some phrases in the text that is being looked at to a list."""
    ((phrases, out),) = wanted
    out.append([api.phrase_locations(phrase)[0] for phrase in phrases])
