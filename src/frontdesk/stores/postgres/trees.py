"""The shape of a session's messages, without their content."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.store import FoundMessage, Lineage, Place, SegmentRow, TreeRows
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import (
    EDIT,
    SEGMENT,
    SESSION,
    SESSION_WIDTH,
    Values,
    edit_row,
    json_rows,
    segment_row,
    session_columns,
    session_row,
    view_row,
)
from frontdesk.stores.sql.rows import overlay_row

_SEGMENTS = (
    f"SELECT {SEGMENT} FROM unnest($1::bigint[]) i(number) JOIN {{schema}}.segments t"
    " ON t.ns = (i.number >> 39)::integer AND t.number = i.number"
)
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
), lineage_rows(ns, tree, ancestor, until) AS (
    SELECT l.* FROM (SELECT ns, tree FROM s UNION SELECT ns, tree FROM members) o, LATERAL (
        SELECT x.* FROM {schema}.lineage x WHERE x.ns = o.ns AND x.tree = o.tree OFFSET 0
    ) l
    UNION
    SELECT l.* FROM lineage_rows o, LATERAL (
        SELECT x.* FROM {schema}.lineage x WHERE x.ns = o.ns AND x.tree = o.ancestor OFFSET 0
    ) l
), trees(ns, tree, until) AS MATERIALIZED (
    SELECT ns, tree, 1::bigint << 62 FROM s
    UNION
    SELECT ns, tree, 1::bigint << 62 FROM members
    UNION
    SELECT ns, ancestor, CASE WHEN $4::boolean THEN 1::bigint << 62 ELSE until END FROM lineage_rows
), shape AS (
    SELECT t.* FROM trees o JOIN {schema}.segments t ON t.ns = o.ns AND t.tree = o.tree AND t.tree > 0
    WHERE $4::boolean OR o.tree = (SELECT tree FROM s)
    UNION
    SELECT t.* FROM chain c JOIN {schema}.segments t ON t.ns = c.ns AND t.number = c.number
)
SELECT {session}, (SELECT v.items FROM {schema}.views v WHERE v.ns = s.ns AND v.session = s.number),
(
    SELECT json_agg(json_build_array({segment}) ORDER BY t.number) FROM shape t
), (
    SELECT json_agg(json_build_array(
        x.number, x.tree, x.revision, x.id, x.kind, x.start_segment, x.start_position, x.end_segment, x.end_position,
        x.tokens, x.created_at, x.stale, x.details
    ) ORDER BY x.number)
    FROM trees o JOIN {schema}.overlays x ON x.ns = o.ns AND x.tree = o.tree AND x.tree > 0 AND x.revision <= o.until
), (
    SELECT json_agg(json_build_array({edit}) ORDER BY x.number)
    FROM trees o JOIN {schema}.edits x ON x.ns = o.ns AND x.tree = o.tree AND x.tree > 0 AND x.revision <= o.until
), (
    SELECT json_agg(json_build_array(l.tree, l.ancestor, l.until) ORDER BY l.tree) FROM lineage_rows l
), (
    SELECT coalesce(max(l.until), -1) FROM {schema}.lineage l
    WHERE l.ns = s.ns AND l.ancestor = s.tree AND l.ancestor > 0
), (
    SELECT json_agg(json_build_array(m.id, m.segment, m.position, m.tokens) ORDER BY i.index, m.segment, m.position)
    FROM unnest($3::text[]) WITH ORDINALITY i(id, index), LATERAL (
        SELECT * FROM {schema}.messages x WHERE x.ns = s.ns AND x.family = s.family AND x.id = i.id OFFSET 0
    ) m
), (
    SELECT json_agg(json_build_array({member}) ORDER BY m.number) FROM members m
)
FROM s"""
_TREE = (
    _TREE.replace("{session}", SESSION)
    .replace("{member}", session_columns("m"))
    .replace("{segment}", SEGMENT)
    .replace("{edit}", EDIT)
)
_TREES = (
    "SELECT t.* FROM unnest($2::text[]) WITH ORDINALITY i(id, index),"
    f" LATERAL ({_TREE.replace('id = $2 ', 'id = i.id ')}) t ORDER BY i.index"
)


async def trees(
    connection: Connection,
    namespace: str,
    session_ids: Sequence[str],
    *,
    find: Sequence[str] = (),
    family: bool = False,
) -> list[TreeRows]:
    rows = await connection.fetch(_TREES, namespace, list(session_ids), list(find), family) if session_ids else []
    return [_tree_rows(namespace, row) for row in rows]


def _tree_rows(namespace: str, row: Values) -> TreeRows:
    view, segments, overlays, edits, lineage, forked_until, found, sessions = row[SESSION_WIDTH:]
    return TreeRows(
        session=session_row(namespace, row),
        view=view_row(view),
        segments=tuple(map(segment_row, json_rows(segments))),
        overlays=tuple(map(overlay_row, json_rows(overlays))),
        edits=tuple(map(edit_row, json_rows(edits))),
        lineage=tuple(Lineage(*values) for values in json_rows(lineage)),
        forked_until=forked_until,
        found=tuple(FoundMessage(id, Place(segment, at), tokens) for id, segment, at, tokens in json_rows(found)),
        sessions=tuple(session_row(namespace, values) for values in json_rows(sessions)),
    )


async def segments(connection: Connection, namespace: str, numbers: Sequence[int]) -> list[SegmentRow]:
    return [segment_row(row) for row in await connection.fetch(_SEGMENTS, list(numbers))]
