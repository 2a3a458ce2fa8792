"""Reads rows for an export, and writes rows of an import as they are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from frontdesk.errors import ConcurrentChangeError, SessionExistsError
from frontdesk.store import (
    DocumentRow,
    NumberKind,
    Owner,
    Place,
    PlacedMessage,
    Restore,
    RestoredSession,
    SessionRow,
    StateKey,
    StateRow,
    UnfinishedSession,
    UsageRow,
)
from frontdesk.stores.memory import documents, log, sessions, shelves
from frontdesk.stores.memory.rows import MessageRow, Rows, key_of


def document_owners(rows: Rows, namespace: str) -> list[Owner]:
    return [owner for known, owner in rows.owners if known == namespace]


def documents_of(rows: Rows, namespace: str, owner: Owner) -> list[DocumentRow]:
    number = documents.number_of(rows, namespace, owner)
    found = (keys for (known, of, _), keys in rows.documents.items() if known == namespace and of == number)
    return [version for keys in found for versions in keys.values() for version in versions]


def placed_messages(rows: Rows, namespace: str, segment: int, first: int, limit: int) -> list[PlacedMessage]:
    stored = rows.messages.get(segment, {})
    positions = islice((position for position in sorted(stored) if position >= first), limit)
    return [PlacedMessage(Place(segment, at), stored[at].running, stored[at].message) for at in positions]


def usage_entries(rows: Rows, namespace: str, session_id: str, after: str, limit: int) -> list[UsageRow]:
    entries = rows.usage.get(sessions.get_known(rows, namespace, session_id).number, {})
    return [entries[id] for id in islice((id for id in sorted(entries) if id > after), limit)]


def usage_days(rows: Rows, namespace: str) -> list[UsageRow]:
    return [*rows.days.get(namespace, {}).values()]


def states_after(rows: Rows, namespace: str, name: str, id: str, limit: int) -> list[tuple[StateKey, StateRow]]:
    return rows.states.after(namespace, name, id, limit)


def draw_numbers(rows: Rows, namespace: str, kind: NumberKind, count: int) -> list[int]:
    return [*islice(rows.numbers, count)]


def begin_family(rows: Rows, namespace: str, family: int, sessions: Sequence[UnfinishedSession]) -> None:
    ids = {session.id for session in sessions}
    for (known, other), noted in [*rows.unfinished.items()]:
        if known == namespace and not ids.isdisjoint(session.id for session in noted):
            remove_unfinished(rows, namespace, other)
    rows.unfinished[namespace, family] = tuple(sessions)


def unfinished_families(rows: Rows, namespace: str) -> list[tuple[int, str]]:
    return sorted((family, noted[0].id) for (known, family), noted in rows.unfinished.items() if known == namespace)


def remove_unfinished(rows: Rows, namespace: str, family: int) -> None:
    for session in rows.unfinished.pop((namespace, family), ()):
        rows.usage.pop(session.number, None)
    for name in [name for name in rows.places if name[0] == family]:
        for place in rows.places.pop(name):
            del rows.messages[place.segment][place.position]


def restore(rows: Rows, given: Restore) -> None:
    for session in given.sessions:
        _check_free(rows, session.row)
    if given.is_noted and (given.namespace, given.family) not in rows.unfinished:
        raise ConcurrentChangeError("another import or a check has removed the sessions that were being written")
    if given.sessions:
        rows.unfinished.pop((given.namespace, given.family), None)
    for segment in given.segments:
        if segment.number not in rows.segments:
            rows.segments_of[segment.tree].append(segment.number)
        rows.segments[segment.number] = segment
    for one in given.messages:
        _restore_message(rows, given.family, one)
    for overlay in given.overlays:
        rows.overlays[overlay.number] = overlay
        rows.overlays_of[overlay.tree][overlay.number] = None
    for edit in given.edits:
        rows.edits[edit.number] = edit
        rows.edits_of[edit.tree][edit.number] = None
    for lineage in given.lineage:
        rows.lineage[lineage.tree] = lineage
        rows.forks_of[lineage.ancestor][lineage.tree] = lineage.until
    for session in given.sessions:
        _restore_session(rows, session)
    rows.prompts.update(given.prompts)
    for owner, document in given.documents:
        _restore_document(rows, given.namespace, owner, document)
    for number, entry in given.usage:
        rows.usage.setdefault(number, {})[entry.id] = entry
    for day in given.days:
        rows.days.setdefault(given.namespace, {})[day.day, day.model, day.agent, day.channel] = day
    for key, row in given.states:
        rows.states.restore(key, row)
    for shelf, blobs in given.shelves:
        shelves.restore(rows, shelf, blobs)
    for session_number, at, change in given.log:
        log.write(rows, given.namespace, session_number, at, change)


def _check_free(rows: Rows, row: SessionRow) -> None:
    holders = (
        rows.by_id.get((row.namespace, row.id)),
        rows.by_key.get(key_of(row)) if row.key_current else None,
    )
    if any(number not in (None, row.number) for number in holders):
        raise SessionExistsError(row.id, row.namespace)


def _restore_message(rows: Rows, family: int, one: PlacedMessage) -> None:
    segment = rows.messages[one.place.segment]
    if one.place.position not in segment:
        rows.places.setdefault((family, one.message.id), []).append(one.place)
    segment[one.place.position] = MessageRow(one.message, one.running, family)


def _restore_session(rows: Rows, session: RestoredSession) -> None:
    row = session.row
    rows.by_family[row.family].add(row.number)
    rows.by_id[row.namespace, row.id] = row.number
    sessions.put(rows, row)
    rows.views.pop(row.number, None)
    if session.view is not None:
        rows.views[row.number] = session.view


def _restore_document(rows: Rows, namespace: str, owner: Owner, document: DocumentRow) -> None:
    place = namespace, documents.known_number(rows, namespace, owner), document.label
    versions = rows.documents.setdefault(place, {}).setdefault(document.key, [])
    versions[:] = sorted(
        [*(old for old in versions if old.version != document.version), document], key=lambda one: one.version
    )
