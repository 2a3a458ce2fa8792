"""The search index in FTS5: adding and removing texts, and finding those that match.

FTS5 keeps the terms and their offsets, but not the texts. A term starts with the number of its namespace, so that a
search reads only the postings of its own namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import apsw
import msgspec

from frontdesk.store import (
    SEGMENT_SIZE,
    Address,
    IndexBatch,
    IndexMatch,
    IndexQuery,
    IndexRow,
    IndexState,
    IndexText,
    Phrase,
    Range,
    SessionSelection,
    TextKind,
)
from frontdesk.stores.sql.digests import digest
from frontdesk.stores.sqlite.connections import SQLiteConnection
from frontdesk.stores.sqlite.rows import POSITION_BITS, json_text, pack, text_address, text_key, unpack

_MOST_KNOWN = 10_000
_LARGE = 5_000
"""figures from here on are remembered, and for prefixes not counted any further"""
_decode_state = msgspec.json.Decoder(IndexState).decode

_STATE = "SELECT number, state, texts, length FROM search_states WHERE namespace = ?"
_PUT = "INSERT INTO search_texts (key, state, place, family, at, length) VALUES (?, ?, ?, ?, ?, ?)"
_PUT_MESSAGES = (
    "INSERT INTO search_texts (key, state, place, family, at, length)"
    " SELECT m.place, ?1, m.place, m.family, g.value ->> 1, g.value ->> 2 FROM json_each(?2) g"
    " CROSS JOIN messages m ON m.place = g.value ->> 0 AND m.raw = g.value ->> 3"
)
_PUT_TERMS = (
    "INSERT INTO search_terms (rowid, terms, facets)"
    " SELECT t.key, g.value ->> 4, g.value ->> 5 FROM json_each(?) g"
    " CROSS JOIN search_texts t ON t.key = g.value ->> 0"
)
_FAMILY = "SELECT family FROM messages WHERE place BETWEEN ? AND ? LIMIT 1"
_FOUND = (
    "SELECT t.key, t.place, t.family, t.at, t.length, take_places(search_terms, ?)"
    " FROM search_terms CROSS JOIN search_texts t ON t.key = search_terms.rowid"
)
# A bucket is the segment of a message, and the key of any other text: ranges are found by it.
_WANTED = (
    "WITH wanted (bucket, first, last) AS MATERIALIZED"
    " (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)) "
)
_WITHIN = (
    f" CROSS JOIN wanted w ON w.bucket = CASE WHEN t.key < 0 THEN t.key ELSE t.key >> {POSITION_BITS} END"
    " AND t.key BETWEEN w.first AND w.last"
)
_UNINDEXED = (
    "SELECT m.place FROM json_each(?) g CROSS JOIN messages m ON m.place BETWEEN g.value ->> 0 AND g.value ->> 1"
    " WHERE NOT EXISTS (SELECT 1 FROM search_texts t WHERE t.key = m.place)"
)
_TABLES: dict[TextKind, str] = {"edit": "edits", "overlay": "overlays"}
_FEW_RANGES = 16
_TEXTS_PER_RANGE = 400
"""looking through this number of matching texts takes as long as looking for matches in one range"""


# writing


def state(connection: SQLiteConnection, namespace: str) -> IndexRow | None:
    row = connection.execute(_STATE, (namespace,)).fetchone()
    return None if row is None else IndexRow(_decode_state(row[1]), row[2], row[3])


def write(connection: SQLiteConnection, batch: IndexBatch) -> bool:
    row = connection.execute(_STATE, (batch.namespace,)).fetchone()
    if (None if row is None else _decode_state(row[1])) != batch.replaces:
        return False
    if row is None:
        insert = "INSERT INTO search_states (namespace, state, texts, length) VALUES (?, '', 0, 0) RETURNING number"
        ((number,),) = connection.execute(insert, (batch.namespace,)).fetchall()
    else:
        number = row[0]
    _put(connection, number, batch.texts)
    connection.execute("UPDATE search_states SET state = ? WHERE number = ?", (json_text(batch.state), number))
    return True


def _put(connection: SQLiteConnection, number: int, texts: Sequence[IndexText]) -> None:
    """Each statement takes all texts at once: row by row, each row would have to wait for the interpreter's lock."""
    if not texts:
        return
    _drop_all(connection, [text_key(text.address) for text in texts])
    given = _given(number, texts)
    sources = [(text, *found) for text in texts if (found := _source(connection, text)) is not None]
    connection.execute(_PUT_MESSAGES, (number, given))
    if sources:
        rows = [
            (text_key(text.address), number, place, family, text.at, len(text.terms)) for text, place, family in sources
        ]
        connection.executemany(_PUT, rows)
    connection.execute(_PUT_TERMS, (given,))
    taken = "SELECT count(*), coalesce(sum(length), 0) FROM search_texts WHERE key IN (SELECT value FROM json_each(?))"
    keys = json_text([text_key(text.address) for text in texts])
    (found,) = connection.execute(taken, (keys,)).fetchall()
    _count(connection, number, *found)


def _given(number: int, texts: Sequence[IndexText]) -> str:
    return json_text(
        [
            (
                text_key(text.address),
                text.at,
                len(text.terms),
                text.content[0] if text.address.kind == "message" else None,
                _joined(f"{number}:", text.terms),
                _joined(f"{number}=", text.facets),
            )
            for text in texts
        ]
    )


def _joined(mark: str, words: Sequence[str]) -> str:
    return mark + f" {mark}".join(words) if words else ""


def _source(connection: SQLiteConnection, text: IndexText) -> tuple[int | None, int] | None:
    """The place of a text that is not a message, and its family, if what it was made from is still there."""
    kind, number, _ = text.address
    if kind == "edit":
        row = connection.execute("SELECT segment, first FROM edits WHERE number = ?", (number,)).fetchone()
        return None if row is None else (pack(*row), _family_of(connection, row[0]))
    if kind == "overlay":
        ends = "SELECT start_segment, end_segment FROM overlays WHERE number = ? AND kind = 'summary'"
        row = connection.execute(ends, (number,)).fetchone()
        return None if row is None else (None, _family_of(connection, *row))
    if kind == "session":
        row = connection.execute("SELECT name, summary, family FROM sessions WHERE number = ?", (number,)).fetchone()
        return None if row is None or row[:2] != text.content else (None, row[2])
    return None


def _family_of(connection: SQLiteConnection, *segments: int) -> int:
    """The family of the messages in these segments."""
    for segment in segments:
        row = connection.execute(_FAMILY, (pack(segment, 0), pack(segment, SEGMENT_SIZE - 1))).fetchone()
        if row is not None:
            family: int = row[0]
            return family
    return 0


def forget(connection: SQLiteConnection, removed: Iterable[Range]) -> None:
    """Leave no trace of texts. The ranges may overlap."""
    bounds = [(text_key(first), text_key(last)) for first, last in removed]
    keys = {first for first, last in bounds if first == last}
    for span in bounds:
        if span[0] != span[1]:
            found = connection.execute("SELECT key FROM search_texts WHERE key BETWEEN ? AND ?", span).fetchall()
            keys |= {key for (key,) in found}
    if keys:
        _drop_all(connection, sorted(keys))


def _drop_all(connection: SQLiteConnection, keys: Sequence[int]) -> None:
    given = json_text(keys)
    statement = (
        "SELECT t.state, count(*), sum(t.length) FROM json_each(?) g CROSS JOIN search_texts t ON t.key = g.value"
        " GROUP BY t.state"
    )
    gone = connection.execute(statement, (given,)).fetchall()
    if gone:
        there = "(SELECT t.key FROM json_each(?) g CROSS JOIN search_texts t ON t.key = g.value)"
        connection.execute(f"DELETE FROM search_terms WHERE rowid IN {there}", (given,))
        connection.execute("DELETE FROM search_texts WHERE key IN (SELECT value FROM json_each(?))", (given,))
    for number, texts, length in gone:
        _count(connection, number, -texts, -length)


def _count(connection: SQLiteConnection, number: int, texts: int, length: int) -> None:
    connection.execute(
        "UPDATE search_states SET texts = texts + ?, length = length + ? WHERE number = ?", (texts, length, number)
    )


# finding


class TextCounts:
    """How many texts have a term. Counting a very common term takes long, and the count changes slowly: it is kept
    until the namespace has grown by a tenth."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[int, int]] = {}

    def of(self, connection: SQLiteConnection, namespace: str, terms: Sequence[str]) -> list[int]:
        row = connection.execute(_STATE, (namespace,)).fetchone()
        if row is None:
            return [0] * len(terms)
        # FTS5 counts texts that were removed until it merges their segments.
        return [min(self._one(connection, row[0], row[2], term), row[2]) for term in terms]

    def _one(self, connection: SQLiteConnection, number: int, texts: int, term: str) -> int:
        known = self._known.get((number, term))
        if known is not None and 0.9 * texts <= known[0] <= 1.1 * texts:
            return known[1]
        frequency = _counted(connection, number, term)
        if frequency >= _LARGE:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[number, term] = texts, frequency
        return frequency


def _counted(connection: SQLiteConnection, number: int, term: str) -> int:
    if term.endswith("*"):
        count = "SELECT count(*) FROM (SELECT 1 FROM search_terms WHERE search_terms MATCH ? LIMIT ?)"
        row = connection.execute(count, (_quoted(number, term), _LARGE)).fetchone()
    else:
        row = connection.execute("SELECT doc FROM search_words WHERE term = ?", (f"{number}:{term}",)).fetchone()
    return 0 if row is None else row[0]


def terms(connection: SQLiteConnection, namespace: str, prefix: str, limit: int) -> list[str]:
    row = connection.execute(_STATE, (namespace,)).fetchone()
    if row is None:
        return []
    mark = f"{row[0]}:"
    # In UTF-8, no term that starts with the prefix comes after the prefix with the highest character.
    bounds = f"{mark}{prefix}", f"{mark}{prefix}\U0010ffff"
    found = "SELECT term FROM search_words WHERE term >= ? AND term < ? LIMIT ?"
    return [term[len(mark) :] for (term,) in connection.execute(found, (*bounds, limit))]


class _Source(NamedTuple):
    """Where a statement looks for texts: in those that meet a condition, and in `ranges` (JSON) if they are given."""

    condition: str = ""
    values: tuple[int, ...] = ()
    ranges: str | None = None


def matches(connection: SQLiteConnection, query: IndexQuery) -> list[IndexMatch]:
    row = connection.execute(_STATE, (query.namespace,)).fetchone()
    if row is None:
        return []
    terms = (*query.seek, *query.count)
    phrases = range(len(query.seek), len(query.seek) + len(terms))
    expression = _expression(row[0], query)
    found: list[IndexMatch] = []
    owned, owners = ("", ()) if query.sessions is None else of_sessions(query.namespace, query.sessions)
    for source in _sources(connection, query, expression):
        places: list[list[list[int]]] = []
        start, joined, ranges = ("", "", ()) if source.ranges is None else (_WANTED, _WITHIN, (source.ranges,))
        statement = (
            f"{start}{_FOUND}{joined} WHERE search_terms MATCH ?{source.condition}{owned}"
            " ORDER BY search_terms.rowid DESC LIMIT ?"
        )
        collected = apsw.pyobject((phrases, places))
        bindings = (*ranges, collected, expression, *source.values, *owners, query.limit - len(found))
        rows = connection.execute(statement, bindings).fetchall()
        for (key, place, family, at, length, _), found_at in zip(rows, places, strict=True):
            by_term = {term: where for term, where in zip(terms, found_at, strict=True) if where}
            at_place = None if place is None else unpack(place)
            found.append(IndexMatch(text_address(key), at_place, family, at, length, by_term))
        if len(found) == query.limit:
            break
    return found


def unindexed(connection: SQLiteConnection, namespace: str, ranges: Sequence[Range]) -> list[Address]:
    spans = json_text([_bounds(span) for span in ranges])
    return [text_address(place) for (place,) in connection.execute(_UNINDEXED, (spans,))]


def owner_trees(connection: SQLiteConnection, namespace: str, addresses: Sequence[Address]) -> dict[Address, int]:
    found: dict[Address, int] = {}
    for kind, table in _TABLES.items():
        numbers = json_text([address.number for address in addresses if address.kind == kind])
        statement = f"SELECT r.number, r.tree FROM json_each(?) g CROSS JOIN {table} r ON r.number = g.value"
        found |= {Address(kind, number): tree for number, tree in connection.execute(statement, (numbers,))}
    return found


def of_sessions(namespace: str, selection: SessionSelection) -> tuple[str, tuple[object, ...]]:
    """The condition that a text `t` belongs to the family of a selected session, and its values."""
    conditions = ["s.ns = ?", *(f"s.{column} = ?" for column in selection.parts)]
    tagged = "s.number IN (SELECT session FROM session_tags WHERE ns = ? AND digest = ?)"
    conditions += [tagged] * len(selection.tags)
    tags = (value for tag in selection.tags for value in (namespace, digest(tag)))
    values = (namespace, *selection.parts.values(), *tags)
    return f" AND t.family IN (SELECT s.family FROM sessions s WHERE {' AND '.join(conditions)})", values


def _sources(connection: SQLiteConnection, query: IndexQuery, expression: str) -> Iterator[_Source]:
    """Where to look for texts, the latest first. Many ranges are looked through one by one only if matching texts are
    so common that this is faster than to look through all of those."""
    last_key = None if query.after is None else text_key(query.after) - 1
    before = _Source() if last_key is None else _Source(" AND search_terms.rowid <= ?", (last_key,))
    if query.ranges is None:
        yield before
        return
    ranges = sorted(map(_bounds, query.ranges), reverse=True)
    if len(ranges) > _FEW_RANGES and _is_rarer(connection, expression, _TEXTS_PER_RANGE * len(ranges)):
        buckets = json_text([(first if first < 0 else first >> POSITION_BITS, first, last) for first, last in ranges])
        yield before._replace(ranges=buckets)
        return
    for first, last in ranges:
        if last_key is None or first <= last_key:
            until = last if last_key is None else min(last, last_key)
            yield _Source(" AND search_terms.rowid BETWEEN ? AND ?", (first, until))


def _is_rarer(connection: SQLiteConnection, expression: str, limit: int) -> bool:
    count = "SELECT count(*) FROM (SELECT 1 FROM search_terms WHERE search_terms MATCH ? LIMIT ?)"
    ((texts,),) = connection.execute(count, (expression, limit)).fetchall()
    return bool(texts < limit)


def _bounds(span: Range) -> tuple[int, int]:
    first, last = span
    return text_key(first), text_key(last._replace(position=min(last.position, SEGMENT_SIZE - 1)))


def _expression(number: int, query: IndexQuery) -> str:
    """The query in FTS5's syntax. The terms to seek by occur in it twice, the second time with those that only count:
    so a text with none of the former is never looked at, and the places of all of them are known."""
    parts: list[str] = []
    seek = [_quoted(number, term) for term in query.seek]
    if seek:
        parts.append(_any("terms", seek))
        parts.append(_any("terms", [*seek, *(_quoted(number, term) for term in query.count)]))
    parts += [_stretches(number, phrase) for phrase in query.phrases]
    parts += [_any("facets", [_string(f"{number}={facet}") for facet in alternatives]) for alternatives in query.facets]
    whole = " AND ".join(parts)
    for phrase in query.excluded:
        whole = f"({whole}) NOT {_stretches(number, phrase)}"
    return whole


def _any(column: str, phrases: Sequence[str]) -> str:
    return f"({column} : ({' OR '.join(phrases)}))"


def _stretches(number: int, phrase: Phrase) -> str:
    strings = [_string(_joined(f"{number}:", stretch)) for stretch in phrase]
    return f"(terms : ({' AND '.join(strings)}))"


def _quoted(number: int, term: str) -> str:
    return f"{_string(f'{number}:{term[:-1]}')} *" if term.endswith("*") else _string(f"{number}:{term}")


def _string(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
