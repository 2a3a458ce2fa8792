"""The search index in a GIN index over `tsvector`s: adding and removing texts, and finding those that may match."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from frontdesk.store import (
    TEXT_KINDS,
    Address,
    IndexBatch,
    IndexMatch,
    IndexQuery,
    IndexRow,
    IndexState,
    IndexText,
    Place,
    Range,
    SessionSelection,
    TextKind,
)
from frontdesk.stores.postgres import terms as writing
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import HERE, TEXT_CODES, columns_of, digest, json_text

_MOST_KNOWN = 10_000
_COUNTED = 5_000
"""texts that are counted exactly, at most"""
_COLLECTED = 2_000
"""texts from which terms are collected, at most"""
_FEW = 20_000
"""messages that are looked at one by one for a search within them"""
_WIDEST = 16
"""ranges that are given as constants, at most"""
_NO_LIMIT = 86_400.0
_decode_state = msgspec.json.Decoder(IndexState).decode
_Key = tuple[int, int, int]

_STATE = (
    "SELECT n.number, s.state, s.texts, s.length FROM {schema}.namespaces n"
    " LEFT JOIN {schema}.search_states s ON s.ns = n.number WHERE n.name = $1"
)
_SET_STATE = (
    "INSERT INTO {schema}.search_states VALUES ($1, $2, 0, 0) ON CONFLICT (ns) DO UPDATE SET state = excluded.state"
)
_ADD_TO_STATE = "UPDATE {schema}.search_states SET texts = texts + $2, length = length + $3 WHERE ns = $1"
_ESTIMATE = "EXPLAIN (FORMAT JSON) SELECT FROM {schema}.search_texts t WHERE t.terms @@ $1::text::tsquery"
# What a text was made from, if it is still there: its index among those given, its place and its family.
_STANDING = {
    "message": """
SELECT i.index, m.segment, m.position, m.family
FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[]) WITH ORDINALITY i(number, position, raw, unused, index)
JOIN {schema}.messages m ON m.ns = $1 AND m.segment = i.number AND m.position = i.position AND m.raw = i.raw""",
    "edit": """
SELECT i.index, e.segment, e.first, coalesce((
    SELECT m.family FROM {schema}.messages m WHERE m.ns = $1 AND m.segment = e.segment LIMIT 1
), 0)
FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[]) WITH ORDINALITY i(number, position, raw, unused, index)
JOIN {schema}.edits e ON e.ns = $1 AND e.number = i.number""",
    "overlay": """
SELECT i.index, NULL::bigint, NULL::integer, coalesce((
    SELECT m.family FROM {schema}.messages m WHERE m.ns = $1 AND m.segment = o.start_segment LIMIT 1
), (
    SELECT m.family FROM {schema}.messages m WHERE m.ns = $1 AND m.segment = o.end_segment LIMIT 1
), 0)
FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[]) WITH ORDINALITY i(number, position, raw, unused, index)
JOIN {schema}.overlays o ON o.ns = $1 AND o.number = i.number AND o.kind = 'summary'""",
    "session": """
SELECT i.index, NULL::bigint, NULL::integer, s.family
FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[])
    WITH ORDINALITY i(number, position, name, summary, index)
JOIN {schema}.sessions s ON s.ns = $1 AND s.number = i.number AND s.name = i.name
    AND s.summary IS NOT DISTINCT FROM i.summary""",
}
# Each range is looked for in the key. In a join, a planner may compare it with every text of its segment.
_DROP = """
WITH gone AS (
    DELETE FROM {schema}.search_texts t WHERE t.ns = $1 AND t.ctid = ANY(ARRAY(
        SELECT f.ctid FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[])
            d(kind, number, first, last), LATERAL (
            SELECT x.ctid FROM {schema}.search_texts x WHERE x.ns = $1 AND x.kind = d.kind AND x.number = d.number
                AND x.position BETWEEN d.first AND d.last OFFSET 0
        ) f
    ))
    RETURNING t.part, t.length
), total AS (
    SELECT count(*) AS texts, sum(length) AS length FROM gone WHERE part = 0
)
UPDATE {schema}.search_states s SET texts = s.texts - total.texts, length = s.length - total.length
FROM total WHERE s.ns = $1 AND total.texts > 0"""
_PUT = """
INSERT INTO {schema}.search_texts
    (ns, kind, number, position, part, parts, length, family, at, place_segment, place_position, terms)
SELECT $1, i.kind, i.number, i.position, i.part, i.parts, i.length, i.family, i.at, i.segment, i.place,
    i.terms::tsvector
FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[], $7::bigint[], $8::bigint[],
    $9::bigint[], $10::bigint[], $11::bigint[], $12::text[])
    i(kind, number, position, part, parts, length, family, at, segment, place, terms)"""
_COUNT = """
SELECT (
    SELECT count(DISTINCT (c.kind, c.number, c.position)) FROM (
        SELECT t.kind, t.number, t.position FROM {schema}.search_texts t
        WHERE t.ns = $1 AND t.terms @@ q.query::tsquery LIMIT $3
    ) c
) FROM unnest($2::text[]) WITH ORDINALITY q(query, index) ORDER BY q.index"""
_BEGINNING = """
SELECT DISTINCT l FROM (
    SELECT t.terms FROM {schema}.search_texts t WHERE t.ns = $1 AND t.terms @@ $2::tsquery LIMIT $3
) c, LATERAL unnest(tsvector_to_array(c.terms)) l WHERE starts_with(l, $4) ORDER BY l LIMIT $5"""
_MATCHES = "t.terms @@ $2::tsquery"
_LATEST_FIRST = "ORDER BY t.kind DESC, t.number DESC, t.position DESC, t.part DESC LIMIT $3"
_TEXTS = f"""(
    SELECT t.kind, t.number, t.position, t.part FROM {{schema}}.search_texts t
    WHERE t.ns = $1 AND {{conditions}} {_LATEST_FIRST}
)"""
# A planner knows how many texts are in a range if it is given by constants, and guesses if it comes from a join.
_IN_RANGE = "t.kind = {}::smallint AND t.number = {}::bigint AND t.position BETWEEN {}::bigint AND {}::bigint"
_IN_SPAN = "t.kind = s.kind AND t.number = s.number AND t.position BETWEEN s.first AND s.last"
_IN_SPANS = """(
    SELECT t.* FROM unnest({}::smallint[], {}::bigint[], {}::bigint[], {}::bigint[]) s(kind, number, first, last),
        LATERAL """
_WITHOUT = """(t.parts = 1 OR NOT EXISTS (
    SELECT FROM {schema}.search_texts y WHERE y.ns = t.ns AND y.kind = t.kind AND y.number = t.number
        AND y.position = t.position AND y.terms @@ {excluded}::tsquery
))"""
_FOUND = f"""
WITH found AS MATERIALIZED (
    SELECT t.* FROM ({{source}}) t {_LATEST_FIRST}
), each AS (
    SELECT DISTINCT kind, number, position FROM found
)
SELECT t.kind, t.number, t.position, t.place_segment, t.place_position, t.family, t.at, t.length, t.part,
    ts_filter(setweight(t.terms, 'A', {{lexemes}}), ARRAY['a'::"char"])::text
FROM each e, LATERAL (
    SELECT * FROM {{schema}}.search_texts x
    WHERE x.ns = $1 AND x.kind = e.kind AND x.number = e.number AND x.position = e.position OFFSET 0
) t
ORDER BY t.kind DESC, t.number DESC, t.position DESC, t.part"""
_UNINDEXED = """
SELECT m.segment, m.position FROM unnest($3::bigint[], $4::bigint[], $5::bigint[]) s(number, first, last), LATERAL (
    SELECT x.ns, x.segment, x.position FROM {schema}.messages x
    WHERE x.ns = (SELECT n.number FROM {schema}.namespaces n WHERE n.name = $1)
        AND x.segment = s.number AND x.position BETWEEN s.first AND s.last OFFSET 0
) m
WHERE NOT EXISTS (
    SELECT FROM {schema}.search_texts t
    WHERE t.ns = m.ns AND t.kind = $2 AND t.number = m.segment AND t.position = m.position
)"""
_TABLES: dict[TextKind, str] = {"edit": "edits", "overlay": "overlays"}
_LEXEMES = "$4::text[]"
_LEXEMES_BEGINNING = """ARRAY(
    SELECT l FROM unnest(tsvector_to_array(t.terms)) l
    WHERE l = ANY($4::text[]) OR EXISTS (SELECT FROM unnest({prefixes}::text[]) p WHERE starts_with(l, p))
)"""


async def _row(connection: Connection, namespace: str) -> tuple[int | None, IndexRow | None]:
    """The number of the namespace, and the state of its index."""
    row = await connection.fetch_row(_STATE, namespace)
    if row is None:
        return None, None
    return row[0], None if row[1] is None else IndexRow(_decode_state(row[1]), row[2], row[3])


async def state(connection: Connection, namespace: str) -> IndexRow | None:
    return (await _row(connection, namespace))[1]


# writing


async def lock(connection: Connection, ns: int, *, shared: bool) -> None:
    """Separate those that write texts from those that remove what texts are made from: neither sees the other's work
    before it is committed, and so a text could be left over."""
    kind = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
    await connection.execute(f"SELECT {kind}(hashtextextended($1, $2))", f"frontdesk search {connection.schema}", ns)


async def write(connection: Connection, batch: IndexBatch) -> bool:
    """Needs a transaction."""
    ns = await connection.fetch_value("SELECT {schema}.namespace($1)", batch.namespace)
    await lock(connection, ns, shared=False)
    row = (await _row(connection, batch.namespace))[1]
    if (None if row is None else row.state) != batch.replaces:
        return False
    await connection.execute(_SET_STATE, ns, json_text(batch.state))
    if batch.texts:
        await remove(connection, ns, [(text.address, text.address) for text in batch.texts])
        await _put(connection, ns, batch.texts)
    return True


async def _put(connection: Connection, ns: int, texts: Sequence[IndexText]) -> None:
    rows: list[tuple[Any, ...]] = []
    taken = length = 0
    for text, (segment, place, family) in await _standing(connection, ns, texts):
        kind, number, position = text.address
        parts = writing.vectors(ns, text.terms, text.facets)
        size = len(text.terms)
        taken, length = taken + 1, length + size
        for start, vector in parts:
            head = TEXT_CODES[kind], number, position, start, len(parts), size
            rows.append((*head, family, text.at, segment, place, vector))
    if rows:
        await connection.execute(_PUT, ns, *columns_of(rows, 11), limit=_NO_LIMIT)
        await connection.execute(_ADD_TO_STATE, ns, taken, length)


async def _standing(
    connection: Connection, ns: int, texts: Sequence[IndexText]
) -> list[tuple[IndexText, tuple[int | None, int | None, int]]]:
    """The texts whose messages, edits, overlays or sessions still exist, with their places and families."""
    found = []
    for kind, statement in _STANDING.items():
        of_kind = [text for text in texts if text.address.kind == kind]
        if of_kind:
            values = [(*text.address[1:], *(*text.content, None, None)[:2]) for text in of_kind]
            rows = await connection.fetch(statement, ns, *columns_of(values, 4))
            found += [(of_kind[index - 1], (segment, place, family)) for index, segment, place, family in rows]
    return found


async def remove(connection: Connection, ns: int, ranges: Sequence[Range]) -> None:
    """Remove all texts from one address to another of the same kind and number."""
    if ranges:
        rows = [(TEXT_CODES[kind], number, first, last.position) for (kind, number, first), last in ranges]
        await connection.execute(_DROP, ns, *columns_of(rows, 4), limit=_NO_LIMIT)


# finding


class Frequencies:
    """Counts the texts with a term up to a limit, beyond which the planner's own figures serve; large ones are
    remembered until the namespace has grown by a tenth."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[int, int]] = {}

    async def get(self, connection: Connection, namespace: str, terms: Sequence[str]) -> list[int]:
        ns, row = await _row(connection, namespace)
        if ns is None or row is None or not terms:
            return [0] * len(terms)
        known = {term: self._remembered(ns, term, row.texts) for term in terms}
        unknown = [term for term, frequency in known.items() if frequency is None]
        queries = [writing.any_of(ns, [term]) for term in unknown]
        counted = await connection.fetch(_COUNT, ns, queries, _COUNTED) if queries else []
        for term, query, (frequency,) in zip(unknown, queries, counted, strict=True):
            if frequency >= _COUNTED:
                frequency = max(frequency, min(row.texts, await _estimate(connection, query)))
                self._remember(ns, term, row.texts, frequency)
            known[term] = frequency
        return [known[term] or 0 for term in terms]

    def _remembered(self, ns: int, term: str, texts: int) -> int | None:
        at, frequency = self._known.get((ns, term), (0, 0))
        return frequency if frequency and 0.9 * texts <= at <= 1.1 * texts else None

    def _remember(self, ns: int, term: str, texts: int, frequency: int) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[ns, term] = texts, frequency


async def _estimate(connection: Connection, query: str) -> int:
    return int(json.loads(await connection.fetch_value(_ESTIMATE, query))[0]["Plan"]["Plan Rows"])


async def terms(connection: Connection, namespace: str, prefix: str, limit: int) -> list[str]:
    ns, row = await _row(connection, namespace)
    if ns is None or row is None:
        return []
    [start] = writing.lexemes(ns, [prefix])
    rows = await connection.fetch(_BEGINNING, ns, writing.any_of(ns, [f"{prefix}*"]), _COLLECTED, start, limit)
    return [lexeme[len(start) - len(prefix) :] for (lexeme,) in rows]


async def matches(connection: Connection, query: IndexQuery) -> list[IndexMatch]:
    """Needs a transaction."""
    ns, row = await _row(connection, query.namespace)
    if ns is None or row is None:
        return []
    # A plan for any query would not know how common the words of this one are.
    await connection.execute("SET LOCAL plan_cache_mode = force_custom_plan")
    asked = (*query.seek, *query.count)
    prefixes = [term[:-1] for term in asked if term.endswith("*")]
    exact = writing.lexemes(ns, (term for term in asked if not term.endswith("*")))
    statement, values = _statement(ns, query, prefixes)
    rows = await connection.fetch(statement, ns, writing.main_query(ns, query), query.limit, exact, *values)
    return _merged(ns, rows, asked, prefixes, query.limit)


async def unindexed(connection: Connection, namespace: str, ranges: Sequence[Range]) -> list[Address]:
    spans = [(number, first, last.position) for (_, number, first), last in ranges]
    rows = await connection.fetch(_UNINDEXED, namespace, TEXT_CODES["message"], *columns_of(spans, 3))
    return [Address("message", number, position) for number, position in rows]


async def owner_trees(connection: Connection, namespace: str, addresses: Sequence[Address]) -> dict[Address, int]:
    found: dict[Address, int] = {}
    for kind, table in _TABLES.items():
        numbers = [address.number for address in addresses if address.kind == kind]
        if numbers:
            statement = f"SELECT r.number, r.tree FROM {{schema}}.{table} r WHERE r.ns = {HERE} AND r.number = ANY($2)"
            rows = await connection.fetch(statement, namespace, numbers)
            found |= {Address(kind, number): tree for number, tree in rows}
    return found


def _statement(ns: int, query: IndexQuery, prefixes: Sequence[str]) -> tuple[str, list[Any]]:
    """The statement, and its values after the first four."""
    values: list[Any] = []

    def mark(value: Any) -> str:
        values.append(value)
        return f"${4 + len(values)}"

    conditions = []
    if query.sessions is not None:
        conditions.append(of_sessions("$1", query.sessions, mark))
    if query.after is not None:
        kind, number, position = query.after
        last = ", ".join(map(mark, (TEXT_CODES[kind], number, position)))
        conditions.append(f"(t.kind, t.number, t.position) < ({last})")
    if query.excluded:
        excluded = " | ".join(writing.phrase_query(ns, phrase) for phrase in query.excluded)
        conditions.append(_WITHOUT.replace("{excluded}", mark(excluded)))
    source = _source(query.ranges, conditions, mark)
    lexemes = _LEXEMES
    if prefixes:
        lexemes = _LEXEMES_BEGINNING.replace("{prefixes}", mark(writing.lexemes(ns, prefixes)))
    return _FOUND.replace("{source}", source).replace("{lexemes}", lexemes), values


def _source(ranges: Sequence[Range] | None, conditions: Sequence[str], mark: Callable[[Any], str]) -> str:
    """The statements that find the latest matches: one for each of the widest ranges, and one for all others."""

    def texts(*more: str) -> str:
        return _TEXTS.replace("{conditions}", " AND ".join((*more, *conditions)))

    if ranges is None:
        return texts(_MATCHES)
    spans = [(TEXT_CODES[kind], number, first, last.position) for (kind, number, first), last in ranges]
    spans.sort(key=lambda span: span[2] - span[3])
    if sum(last - first + 1 for _, _, first, last in spans) <= _FEW:
        # Hidden from the index over terms where the messages are few: their words may be everywhere.
        wide, matches = 0, f"coalesce({_MATCHES}, false)"
    else:
        wide, matches = _WIDEST, _MATCHES
    sources = [texts(_IN_RANGE.format(*map(mark, span)), matches) for span in spans[:wide]]
    if spans[wide:] or not sources:
        columns = map(mark, columns_of(spans[wide:], 4))
        sources.append(f"{_IN_SPANS.format(*columns)}{texts(_IN_SPAN, matches)} t)")
    return " UNION ALL ".join(sources)


def of_sessions(ns: str, selection: SessionSelection, mark: Callable[[Any], str]) -> str:
    """The condition that a text `t` belongs to the family of a selected session. `ns` is the expression for the number
    of the namespace, and `mark` adds a value and returns the parameter for it."""
    conditions = [f"s.ns = {ns}", *(f"s.{column} = {mark(value)}" for column, value in selection.parts.items())]
    tagged = f"s.number IN (SELECT g.session FROM {{schema}}.session_tags g WHERE g.ns = {ns} AND g.digest = "
    conditions += [f"{tagged}{mark(digest(tag))})" for tag in selection.tags]
    families = f"SELECT s.family FROM {{schema}}.sessions s WHERE {' AND '.join(conditions)}"
    # Not as a join, for which a planner without statistics may run the subquery for each text: it is run once.
    return f"coalesce(t.family IN ({families}), false)"


def _merged(
    ns: int, rows: Sequence[Any], asked: Sequence[str], prefixes: Sequence[str], limit: int
) -> list[IndexMatch]:
    """One match for each text, from the parts that it has."""
    texts: dict[_Key, tuple[Any, dict[str, set[int]]]] = {}
    for row in rows:
        key: _Key = row[0], row[1], row[2]
        _, places = texts.setdefault(key, (row, {}))
        for term, found in writing.places(ns, row[9], row[8]):
            for name in (term, *(f"{prefix}*" for prefix in prefixes if term.startswith(prefix))):
                places.setdefault(name, set()).update(found)
    wanted = set(asked)
    return [
        IndexMatch(
            Address(TEXT_KINDS[kind], number, position),
            None if row[3] is None else Place(row[3], row[4]),
            row[5],
            row[6],
            row[7],
            {term: sorted(found) for term, found in places.items() if term in wanted},
        )
        for (kind, number, position), (row, places) in list(texts.items())[:limit]
    ]
