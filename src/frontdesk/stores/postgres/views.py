"""Reads the view of a session, and the rows of items. Each statement reads as of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import EditItem, Item, OverlayItem, OverlayRow, Piece, Place, Span, ViewRead
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import (
    HERE,
    SESSION,
    SESSION_WIDTH,
    columns_of,
    decode_message,
    session_row,
    view_row,
)
from frontdesk.tree.tree import stored_items

_OPTIMISTIC_READS = 3
_TAIL = 256
"""messages that are read together with their session, at most"""
_decode_overlay = msgspec.json.Decoder(OverlayRow).decode

# A session with the end of its tail, and the message before that: all of the view, or of the part that is wanted, where
# no summary or edit is in it. That saves most readers the second statement.
_VIEW = f"""
SELECT {SESSION}, v.items, t.* FROM {{schema}}.sessions s
LEFT JOIN {{schema}}.views v ON v.ns = s.ns AND v.session = s.number
LEFT JOIN LATERAL (
    SELECT array_agg(y.position), array_agg(y.id), array_agg(y.role), array_agg(y.tokens), array_agg(y.created_at),
        array_agg(y.raw), array_agg(y.derived)
    FROM (
        SELECT * FROM {{schema}}.messages x WHERE x.ns = s.ns AND x.segment = s.head_segment
            AND x.position BETWEEN greatest(s.tail, s.head_position - $3 + 1) - 1 AND s.head_position
            AND (s.view = 'plain' OR (s.view = 'stored' AND s.head_position - s.tail >= $3 - 1))
        ORDER BY x.position
    ) y
) t ON true
WHERE s.ns = {HERE} AND s.id = $2 AND s.id <> ''"""
_SUMS = """
SELECT m.tokens, m.running
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY i(segment, position, index) LEFT JOIN LATERAL (
    SELECT * FROM {schema}.messages x
    WHERE x.ns = (i.segment >> 39)::integer AND x.segment = i.segment AND x.position = i.position OFFSET 0
) m ON true ORDER BY i.index"""
_TALLY = """
SELECT CASE WHEN m.role = 'user' AND m.derived IS NOT NULL AND (m.derived::json -> 'results') IS NOT NULL
    THEN 'tool' ELSE m.role END AS kind, count(*), sum(m.tokens)::bigint
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) i(segment, first, last), LATERAL (
    SELECT * FROM {schema}.messages x WHERE x.ns = (i.segment >> 39)::integer AND x.segment = i.segment
        AND x.position BETWEEN i.first AND i.last OFFSET 0
) m
GROUP BY kind ORDER BY kind"""
# The branches of one statement that reads items: (kind, index of the item, position, columns of a message).
_MESSAGES = """
SELECT 0, i.index::integer, m.position, m.id, m.role, m.tokens, m.created_at, m.raw, m.derived
FROM unnest({0}::bigint[], {1}::bigint[], {2}::bigint[]) WITH ORDINALITY i(segment, first, last, index), LATERAL (
    SELECT * FROM {schema}.messages x WHERE x.ns = (i.segment >> 39)::integer AND x.segment = i.segment
        AND x.position BETWEEN i.first AND i.last ORDER BY x.position OFFSET 0
) m"""
_BEFORE = """
SELECT 1, i.index::integer, 0, m.id, NULL::text, NULL::bigint, NULL::bigint, NULL::text, NULL::text
FROM unnest({0}::bigint[], {1}::bigint[]) WITH ORDINALITY i(segment, position, index), LATERAL (
    SELECT x.id FROM {schema}.messages x WHERE x.ns = (i.segment >> 39)::integer AND x.segment = i.segment
        AND x.position = i.position OFFSET 0
) m"""
_EDITS = """
SELECT 2, i.index::integer, 0, NULL::text, NULL::text, NULL::bigint, NULL::bigint, e.message, NULL::text
FROM unnest({0}::bigint[]) WITH ORDINALITY i(number, index), LATERAL (
    SELECT x.message FROM {schema}.edits x WHERE x.ns = (i.number >> 39)::integer AND x.number = i.number OFFSET 0
) e"""
_OVERLAYS = """
SELECT 3, i.index::integer, 0, NULL::text, NULL::text, NULL::bigint, NULL::bigint, o.overlay, NULL::text
FROM unnest({0}::bigint[]) WITH ORDINALITY i(number, index), LATERAL (
    SELECT json_build_object(
        'number', x.number, 'tree', x.tree, 'revision', x.revision, 'id', x.id, 'kind', x.kind,
        'start', json_build_array(x.start_segment, x.start_position),
        'end', json_build_array(x.end_segment, x.end_position), 'tokens', x.tokens, 'created_at', x.created_at,
        'stale', x.stale, 'summary', x.summary, 'details', x.details
    )::text AS overlay
    FROM {schema}.overlays x WHERE x.ns = (i.number >> 39)::integer AND x.number = i.number OFFSET 0
) o"""
_REVISION = """
SELECT 4, 0, 0, NULL::text, NULL::text, x.revision, NULL::bigint, NULL::text, NULL::text
FROM {schema}.sessions x WHERE x.ns = ({0}::bigint >> 39)::integer AND x.number = {0}::bigint"""


async def view(connection: Connection, namespace: str, session_id: str, last: int | None = None) -> ViewRead | None:
    """Optimistic: one statement, or two, repeated if the session was changed (not only appended to) between them."""
    for _ in range(_OPTIMISTIC_READS):
        found, revision = await _view_once(connection, namespace, session_id, last)
        if found is None or found.session.revision == revision:
            return found
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        return (await _view_once(connection, namespace, session_id, last))[0]


async def _view_once(
    connection: Connection, namespace: str, session_id: str, last: int | None = None
) -> tuple[ViewRead | None, int | None]:
    row = await connection.fetch_row(_VIEW, namespace, session_id, _TAIL if last is None else max(1, min(last, _TAIL)))
    if row is None:
        return None, None
    session = session_row(namespace, row)
    stored = view_row(row[SESSION_WIDTH])
    items = tuple(stored_items(session, stored, last))
    if not items:
        return ViewRead(session, stored, (), ()), session.revision
    piece = _tail_piece(items, row[SESSION_WIDTH + 1 :])
    if piece is not None:
        return ViewRead(session, stored, items, (piece,)), session.revision
    pieces, revision = await _read(connection, items, session.number)
    return ViewRead(session, stored, items, pieces), revision


def _tail_piece(items: Sequence[Item], columns: Sequence[Any]) -> Piece | None:
    """The rows of a view that is nothing but a part of its tail, if they were read with the session."""
    span, positions = items[0], columns[0]
    if len(items) > 1 or not isinstance(span, Span) or not positions or positions[-1] < span.first:
        return None
    has_before = positions[0] < span.first
    if positions[has_before:] != list(range(span.first, span.last + 1)):
        return None  # only the end of it was read
    messages = tuple(map(StoredMessage, *(column[has_before:] for column in columns[1:])))
    if span.before is None:
        return Piece(None, messages, None)
    is_read = has_before and span.before == Place(span.segment, positions[0])
    return Piece(columns[1][0], messages, None) if is_read else None


async def read(connection: Connection, items: Sequence[Item]) -> tuple[Piece, ...]:
    return (await _read(connection, items, None))[0] if items else ()


async def _read(
    connection: Connection, items: Sequence[Item], session: int | None
) -> tuple[tuple[Piece, ...], int | None]:
    """The rows of items and, if a session is named, its revision at the same moment."""
    statement, arguments, indexes = _statement(items, session)
    befores: list[str | None] = [None] * len(items)
    messages: list[list[StoredMessage]] = [[] for _ in items]
    positions: list[list[int]] = [[] for _ in items]
    overlays: list[OverlayRow | None] = [None] * len(items)
    revision: int | None = None
    for row in await connection.fetch(statement, *arguments):
        kind = row[0]
        if kind == 4:
            revision = row[5]
            continue
        item = indexes[kind][row[1] - 1]
        if kind == 0:
            messages[item].append(StoredMessage(*row[3:]))
            positions[item].append(row[2])
        elif kind == 1:
            befores[item] = row[3]
        elif kind == 2 and row[7] is not None:
            messages[item].append(decode_message(row[7]))
        elif kind == 3:
            overlays[item] = _decode_overlay(row[7])
    pieces = tuple(
        Piece(before, tuple(_in_order(found, at)), overlay)
        for before, found, at, overlay in zip(befores, messages, positions, overlays, strict=True)
    )
    return pieces, revision


def _statement(items: Sequence[Item], session: int | None) -> tuple[str, list[Any], dict[int, list[int]]]:
    """The statement that reads these items, its arguments, and for each kind which items its indexes mean."""
    wanted: dict[int, tuple[str, list[tuple[int, ...]]]] = {
        kind: (text, []) for kind, text in enumerate((_MESSAGES, _BEFORE, _EDITS, _OVERLAYS))
    }
    indexes: dict[int, list[int]] = {kind: [] for kind in wanted}
    for index, item in enumerate(items):
        if item.before is not None:
            wanted[1][1].append(tuple(item.before))
            indexes[1].append(index)
        kind = 3 if isinstance(item, OverlayItem) else 2 if isinstance(item, EditItem) else 0
        values = (item.number,) if isinstance(item, OverlayItem | EditItem) else (item.segment, item.first, item.last)
        wanted[kind][1].append(values)
        indexes[kind].append(index)
    branches: list[str] = []
    arguments: list[Any] = []
    for text, rows in wanted.values():
        if rows:
            columns = columns_of(rows, len(rows[0]))
            for offset in range(len(columns)):
                text = text.replace(f"{{{offset}}}", f"${len(arguments) + 1 + offset}")
            branches.append(text)
            arguments += columns
    if session is not None:
        arguments.append(session)
        branches.append(_REVISION.replace("{0}", f"${len(arguments)}"))
    return "\nUNION ALL".join(branches), arguments, indexes


def _in_order(messages: list[StoredMessage], positions: list[int]) -> list[StoredMessage]:
    """The server returns them in the order of their positions, without having promised it."""
    if all(first < second for first, second in pairwise(positions)):
        return messages
    return [message for _, message in sorted(zip(positions, messages, strict=True), key=lambda pair: pair[0])]


async def sums(connection: Connection, places: Sequence[Place]) -> list[tuple[int, int]]:
    if not places:
        return []
    rows = await connection.fetch(_SUMS, *columns_of(places, 2))
    return [(0, 0) if row[0] is None else (row[0], row[1]) for row in rows]


async def tally(connection: Connection, spans: Sequence[Span]) -> list[tuple[str, int, int]]:
    rows = await connection.fetch(_TALLY, *columns_of([(s.segment, s.first, s.last) for s in spans], 3))
    return [(role, messages, tokens) for role, messages, tokens in rows]
