"""Pure: duplicates in an append, which are messages that the session sees already. A store looks up where the family
has their ids, loads the segments from there to the root and their edits, and calls the functions here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import Place
from frontdesk.tree.visibility import Visibility


class KnownMessage(NamedTuple):
    """A message that the session sees already: where, with which content, and the id of the message before it.

    `is_own`: an earlier attempt of the very same call stored it, so that it counts as inserted by this one."""

    place: Place
    message: StoredMessage
    parent_id: str | None
    is_own: bool = False


def find_places(visible: Visibility, found: Iterable[tuple[str, Place]]) -> dict[str, Place]:
    """Where the session sees which of the messages that the family has under some ids."""
    places: dict[str, Place] = {}
    for message_id, place in found:
        if message_id not in places and visible.sees(place):
            places[message_id] = place
    return places


def places_to_read(visible: Visibility, places: Iterable[Place]) -> set[Place]:
    """The rows that `known_messages` needs: those at these places, and the ones before them."""
    return {row for place in places for row in (place, visible.before(place)) if row is not None}


def known_messages(
    visible: Visibility, places: Mapping[str, Place], rows: Mapping[Place, StoredMessage]
) -> dict[str, KnownMessage]:
    """The messages at some places as the session sees them."""
    known: dict[str, KnownMessage] = {}
    for message_id, place in places.items():
        before = visible.before(place)
        edit = visible.replaced.get(place)
        message = rows[place] if edit is None or edit.message is None else edit.message
        known[message_id] = KnownMessage(place, message, None if before is None else rows[before].id)
    return known
