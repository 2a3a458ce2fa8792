"""What is read: sessions, the shape of a tree, and the rows of items; each in one statement, so as of one moment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import (
    Choose,
    EditItem,
    EditRow,
    Found,
    Item,
    Lineage,
    OverlayItem,
    OverlayRow,
    Piece,
    Place,
    SegmentRow,
    SessionRow,
    TreeRows,
    ViewRead,
)
from frontdesk.stores.postgres.engine import Connection
from frontdesk.stores.postgres.rows import (
    SESSION_WIDTH,
    columns_of,
    decode_message,
    key_digest,
    session_columns,
    session_row,
    view_row,
)

_SESSION = session_columns("s")
_HERE = "(SELECT number FROM {schema}.namespaces WHERE name = $1)"
_EVERYTHING = 1 << 62
_OPTIMISTIC_READS = 3

_Rows = list[list[Any]]
_decode_rows = msgspec.json.Decoder(_Rows).decode
_decode_overlay = msgspec.json.Decoder(OverlayRow).decode

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

_TREE = """
WITH RECURSIVE s AS MATERIALIZED (
    SELECT * FROM {schema}.sessions
    WHERE ns = (SELECT number FROM {schema}.namespaces WHERE name = $1) AND id = $2 AND id <> ''
), chain(ns, number, parent) AS (
    SELECT t.ns, t.number, t.parent_segment FROM s JOIN {schema}.segments t ON t.ns = s.ns AND t.number = s.base_segment
    UNION ALL
    SELECT t.ns, t.number, t.parent_segment
    FROM chain c JOIN {schema}.segments t ON t.ns = c.ns AND t.number = c.parent
), members AS MATERIALIZED (
    SELECT x.* FROM s JOIN {schema}.sessions x ON x.ns = s.ns AND x.family = s.family AND x.family <> x.number
    WHERE $4::boolean
    UNION ALL
    SELECT x.* FROM s JOIN {schema}.sessions x ON x.ns = s.ns AND x.number = s.family AND x.family = x.number
    WHERE $4::boolean
), lines(ns, tree, ancestor, until) AS (
    SELECT l.* FROM (SELECT ns, tree FROM s UNION SELECT ns, tree FROM members) o, LATERAL (
        SELECT x.* FROM {schema}.lineage x WHERE x.ns = o.ns AND x.tree = o.tree OFFSET 0
    ) l
    UNION
    SELECT l.* FROM lines o, LATERAL (
        SELECT x.* FROM {schema}.lineage x WHERE x.ns = o.ns AND x.tree = o.ancestor OFFSET 0
    ) l
), trees(ns, tree, until) AS MATERIALIZED (
    SELECT ns, tree, 1::bigint << 62 FROM s
    UNION
    SELECT ns, tree, 1::bigint << 62 FROM members
    UNION
    SELECT ns, ancestor, CASE WHEN $4::boolean THEN 1::bigint << 62 ELSE until END FROM lines
), shape AS (
    SELECT t.* FROM trees o JOIN {schema}.segments t ON t.ns = o.ns AND t.tree = o.tree
    WHERE $4::boolean OR o.tree = (SELECT tree FROM s)
    UNION
    SELECT t.* FROM chain c JOIN {schema}.segments t ON t.ns = c.ns AND t.number = c.number
)
SELECT {session}, (SELECT v.items FROM {schema}.views v WHERE v.ns = s.ns AND v.session = s.number),
(
    SELECT json_agg(json_build_array(
        t.number, t.tree, t.parent_segment, t.parent_position, t.last, t.next, t.shared, t.tokens
    ) ORDER BY t.number) FROM shape t
), (
    SELECT json_agg(json_build_array(
        x.number, x.tree, x.revision, x.id, x.kind, x.start_segment, x.start_position, x.end_segment, x.end_position,
        x.tokens, x.created_at, x.stale, x.details
    ) ORDER BY x.number)
    FROM trees o JOIN {schema}.overlays x ON x.ns = o.ns AND x.tree = o.tree AND x.revision <= o.until
), (
    SELECT json_agg(json_build_array(
        x.number, x.tree, x.revision, x.kind, x.segment, x.first, x.last, x.tokens, x.overlay, x.message
    ) ORDER BY x.number)
    FROM trees o JOIN {schema}.edits x ON x.ns = o.ns AND x.tree = o.tree AND x.revision <= o.until
), (
    SELECT json_agg(json_build_array(l.tree, l.ancestor, l.until) ORDER BY l.tree) FROM lines l
), (
    SELECT coalesce(max(l.until), -1) FROM {schema}.lineage l WHERE l.ns = s.ns AND l.ancestor = s.tree
), (
    SELECT json_agg(json_build_array(m.id, m.segment, m.position, m.tokens) ORDER BY i.index, m.segment, m.position)
    FROM unnest($3::text[]) WITH ORDINALITY i(id, index), LATERAL (
        SELECT * FROM {schema}.messages x WHERE x.ns = s.ns AND x.family = s.family AND x.id = i.id OFFSET 0
    ) m
), (
    SELECT json_agg(json_build_array({member}) ORDER BY m.number) FROM members m
)
FROM s"""


class Reader:
    """Reads through a connection, in one schema."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        here = _HERE.replace("{schema}", schema)
        self._by_id = f"SELECT {_SESSION} FROM {schema}.sessions s WHERE s.ns = {here} AND s.id = $2 AND s.id <> ''"
        self._by_key = (
            f"SELECT {_SESSION} FROM {schema}.sessions s WHERE s.ns = {here} AND s.key_digest = $2 AND s.key_current"
        )
        self._view = (
            f"SELECT {_SESSION}, v.items FROM {schema}.sessions s"
            f" LEFT JOIN {schema}.views v ON v.ns = s.ns AND v.session = s.number"
            f" WHERE s.ns = {here} AND s.id = $2 AND s.id <> ''"
        )
        self._tree = (
            _TREE.replace("{schema}", schema).replace("{session}", _SESSION).replace("{member}", session_columns("m"))
        )
        one = self._tree.replace("id = $2 ", "id = i.id ")
        self._trees = (
            f"SELECT t.* FROM unnest($2::text[]) WITH ORDINALITY i(id, index), LATERAL ({one}) t ORDER BY i.index"
        )
        self._here = here
        self._sums = (
            "SELECT m.tokens, m.running FROM unnest($1::bigint[], $2::bigint[])"
            f" WITH ORDINALITY i(segment, position, index) LEFT JOIN LATERAL (SELECT * FROM {schema}.messages x"
            " WHERE x.ns = (i.segment >> 39)::integer AND x.segment = i.segment AND x.position = i.position OFFSET 0"
            ") m ON true ORDER BY i.index"
        )

    async def session(self, connection: Connection, namespace: str, session_id: str) -> SessionRow | None:
        row = await connection.fetchrow(self._by_id, namespace, session_id)
        return None if row is None else session_row(namespace, row)

    async def current(
        self, connection: Connection, namespace: str, key: tuple[str, str, str, str | None]
    ) -> SessionRow | None:
        row = await connection.fetchrow(self._by_key, namespace, key_digest(*key))
        return None if row is None else session_row(namespace, row)

    async def view(self, connection: Connection, namespace: str, session_id: str, choose: Choose) -> ViewRead | None:
        """Optimistic: two statements, done again if the session was changed (not only appended to) between them."""
        for _ in range(_OPTIMISTIC_READS):
            read, revision = await self._view_once(connection, namespace, session_id, choose)
            if read is None or read.session.revision == revision:
                return read
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            return (await self._view_once(connection, namespace, session_id, choose))[0]

    async def _view_once(
        self, connection: Connection, namespace: str, session_id: str, choose: Choose
    ) -> tuple[ViewRead | None, int | None]:
        row = await connection.fetchrow(self._view, namespace, session_id)
        if row is None:
            return None, None
        session = session_row(namespace, row)
        items = tuple(choose(session, view_row(row[SESSION_WIDTH])))
        if not items:
            return ViewRead(session, (), ()), session.revision
        pieces, revision = await self._read(connection, items, session.number)
        return ViewRead(session, items, pieces), revision

    async def read(self, connection: Connection, items: Sequence[Item]) -> tuple[Piece, ...]:
        return (await self._read(connection, items, None))[0] if items else ()

    async def _read(
        self, connection: Connection, items: Sequence[Item], session: int | None
    ) -> tuple[tuple[Piece, ...], int | None]:
        statement, arguments, indexes = self._statement(items, session)
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

    def _statement(self, items: Sequence[Item], session: int | None) -> tuple[str, list[Any], dict[int, list[int]]]:
        """The statement that reads these items, its arguments, and for each kind the items its indexes stand for."""
        wanted: dict[int, tuple[str, list[tuple[int, ...]]]] = {
            kind: (text, []) for kind, text in enumerate((_MESSAGES, _BEFORE, _EDITS, _OVERLAYS))
        }
        indexes: dict[int, list[int]] = {kind: [] for kind in wanted}
        for index, item in enumerate(items):
            if item.before is not None:
                wanted[1][1].append(tuple(item.before))
                indexes[1].append(index)
            kind = 3 if isinstance(item, OverlayItem) else 2 if isinstance(item, EditItem) else 0
            values = (
                (item.number,) if isinstance(item, OverlayItem | EditItem) else (item.segment, item.first, item.last)
            )
            wanted[kind][1].append(values)
            indexes[kind].append(index)
        branches: list[str] = []
        arguments: list[Any] = []
        for text, rows in wanted.values():
            if rows:
                columns = columns_of(rows, len(rows[0]))
                marks = [f"${len(arguments) + 1 + offset}" for offset in range(len(columns))]
                branches.append(text.format(*marks, schema=self._schema))
                arguments += columns
        if session is not None:
            arguments.append(session)
            branches.append(_REVISION.format(f"${len(arguments)}", schema=self._schema))
        return "\nUNION ALL".join(branches), arguments, indexes

    async def sums(self, connection: Connection, places: Sequence[Place]) -> list[tuple[int, int]]:
        if not places:
            return []
        rows = await connection.fetch(self._sums, *columns_of(places, 2))
        return [(0, 0) if row[0] is None else (row[0], row[1]) for row in rows]

    async def tree(
        self, connection: Connection, namespace: str, session_id: str, find: Sequence[str], family: bool
    ) -> TreeRows | None:
        row = await connection.fetchrow(self._tree, namespace, session_id, list(find), family)
        return None if row is None else _tree_rows(namespace, row)

    async def trees(
        self, connection: Connection, namespace: str, session_ids: Sequence[str], family: bool
    ) -> list[TreeRows]:
        rows = await connection.fetch(self._trees, namespace, list(session_ids), [], family) if session_ids else []
        return [_tree_rows(namespace, row) for row in rows]

    async def segments(self, connection: Connection, numbers: Sequence[int]) -> list[SegmentRow]:
        rows = await connection.fetch(
            "SELECT t.number, t.tree, t.parent_segment, t.parent_position, t.last, t.next, t.shared, t.tokens"
            f" FROM unnest($1::bigint[]) i(number) JOIN {self._schema}.segments t"
            " ON t.ns = (i.number >> 39)::integer AND t.number = i.number",
            list(numbers),
        )
        return [SegmentRow(row[0], row[1], _place(row[2], row[3]), *row[4:]) for row in rows]

    async def sessions(self, connection: Connection, namespace: str, numbers: Sequence[int]) -> list[SessionRow]:
        rows = await connection.fetch(
            f"SELECT {_SESSION} FROM unnest($1::bigint[]) WITH ORDINALITY i(number, index)"
            f" JOIN {self._schema}.sessions s ON s.ns = (i.number >> 39)::integer AND s.number = i.number"
            " ORDER BY i.index",
            list(dict.fromkeys(numbers)),
        )
        return [session_row(namespace, row) for row in rows]

    async def relatives(self, connection: Connection, namespace: str, families: Sequence[int]) -> list[SessionRow]:
        # The two halves of `sessions_by_family`: most sessions are the first of their family.
        of = f"SELECT {_SESSION} FROM unnest($1::bigint[]) i(number) JOIN {self._schema}.sessions s"
        rows = await connection.fetch(
            f"{of} ON s.ns = (i.number >> 39)::integer AND s.number = i.number AND s.family = s.number UNION ALL"
            f" {of} ON s.ns = (i.number >> 39)::integer AND s.family = i.number AND s.family <> s.number",
            list(dict.fromkeys(families)),
        )
        return [session_row(namespace, row) for row in rows]

    async def families(self, connection: Connection, namespace: str, after: int, limit: int) -> list[int]:
        rows = await connection.fetch(
            f"SELECT DISTINCT s.family FROM {self._schema}.sessions s WHERE s.ns = {self._here} AND s.family > $2"
            " ORDER BY s.family LIMIT $3",
            namespace,
            after,
            limit,
        )
        return [row[0] for row in rows]


def _tree_rows(namespace: str, row: Sequence[Any]) -> TreeRows:
    view, segments, overlays, edits, lineage, forked_until, found, sessions = row[SESSION_WIDTH:]
    return TreeRows(
        session=session_row(namespace, row),
        view=view_row(view),
        segments=tuple(SegmentRow(n, tree, _place(p, at), *rest) for n, tree, p, at, *rest in _rows(segments)),
        overlays=tuple(_overlay(values) for values in _rows(overlays)),
        edits=tuple(_edit(values) for values in _rows(edits)),
        lineage=tuple(Lineage(*values) for values in _rows(lineage)),
        forked_until=forked_until,
        found=tuple(Found(id, Place(segment, at), tokens) for id, segment, at, tokens in _rows(found)),
        sessions=tuple(session_row(namespace, values) for values in _rows(sessions)),
    )


def _in_order(messages: list[StoredMessage], positions: list[int]) -> list[StoredMessage]:
    """The server gives them in the order of their positions, without having promised it."""
    if all(first < second for first, second in pairwise(positions)):
        return messages
    return [message for _, message in sorted(zip(positions, messages, strict=True), key=lambda pair: pair[0])]


def _rows(text: str | None) -> _Rows:
    return [] if text is None else _decode_rows(text)


def _place(segment: int | None, position: int | None) -> Place | None:
    return None if segment is None or position is None else Place(segment, position)


def _overlay(values: list[Any]) -> OverlayRow:
    number, tree, revision, id, kind, start, start_at, end, end_at, tokens, created_at, stale, details = values
    return OverlayRow(
        number=number,
        tree=tree,
        revision=revision,
        id=id,
        kind=kind,
        start=Place(start, start_at),
        end=Place(end, end_at),
        tokens=tokens,
        created_at=created_at,
        stale=stale,
        details=details,
    )


def _edit(values: list[Any]) -> EditRow:
    number, tree, revision, kind, segment, first, last, tokens, overlay, message = values
    return EditRow(
        number=number,
        tree=tree,
        revision=revision,
        kind=kind,
        segment=segment,
        first=first,
        last=last,
        tokens=tokens,
        overlay=overlay,
        message=None if message is None else decode_message(message),
    )
