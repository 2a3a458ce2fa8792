"""The append that has to be decided: locks the session, gathers the facts for `tree.append`, and writes the rows that
it returns, in one short transaction.

Each message row has the random number of the call that wrote it. If the answer to a call is lost, the whole call is
sent again. A message that is found with the call's own number was written by the first attempt, and counts as
inserted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import astuple, replace

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import Append, AppendResult, Lineage, Place, SegmentRow
from frontdesk.stores.postgres import leases, log, sessions
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import (
    EDIT,
    HERE,
    MESSAGE_COLUMNS,
    SEGMENT,
    SESSION,
    columns_of,
    edit_row,
    json_rows,
    namespace_of,
    segment_row,
    session_row,
)
from frontdesk.tree.append import Draw, Facts, Writes, decide
from frontdesk.tree.duplicates import KnownMessage, find_places, known_messages, places_to_read
from frontdesk.tree.visibility import Visibility

LOCK = f"SELECT {SESSION} FROM {{schema}}.sessions s WHERE s.ns = {HERE} AND s.id = $2 AND s.id <> '' FOR UPDATE"
_DRAW = "SELECT {schema}.new_number(ns) FROM {schema}.namespace($1) ns, generate_series(1, $2)"
# Of a session of tree $2 and family $3 with its base in segment $4 and its head at $5, $6: where the ids $7 are, and
# the ways from there to the root; and numbers for the segments that may be opened, $8 and one for each known id.
FACTS = f"""
WITH RECURSIVE found AS MATERIALIZED (
    SELECT m.id, m.segment, m.position, m.call FROM unnest($7::text[]) i(id), LATERAL (
        SELECT * FROM {{schema}}.messages x WHERE x.ns = $1 AND x.family = $3 AND x.id = i.id OFFSET 0
    ) m
), way AS (
    SELECT t.* FROM (SELECT segment FROM found UNION SELECT $4::bigint WHERE EXISTS (SELECT FROM found)) o(number),
        LATERAL (SELECT * FROM {{schema}}.segments x WHERE x.ns = $1 AND x.number = o.number OFFSET 0) t
    UNION
    SELECT t.* FROM way o,
        LATERAL (SELECT * FROM {{schema}}.segments x WHERE x.ns = $1 AND x.number = o.parent_segment OFFSET 0) t
), lineage_rows AS (
    SELECT l.* FROM {{schema}}.lineage l WHERE l.ns = $1 AND l.tree = $2 AND EXISTS (SELECT FROM found)
    UNION
    SELECT l.* FROM lineage_rows o,
        LATERAL (SELECT * FROM {{schema}}.lineage x WHERE x.ns = $1 AND x.tree = o.ancestor OFFSET 0) l
)
SELECT
    (SELECT x.id FROM {{schema}}.messages x WHERE x.ns = $1 AND x.segment = $5 AND x.position = $6),
    (SELECT json_agg(json_build_array({SEGMENT})) FROM (
        SELECT * FROM way UNION SELECT * FROM {{schema}}.segments x WHERE x.ns = $1 AND x.number = $5
    ) t),
    (SELECT json_agg(json_build_array({EDIT})) FROM way o, LATERAL (
        SELECT * FROM {{schema}}.edits x WHERE x.ns = $1 AND x.segment = o.number AND x.segment > 0 OFFSET 0
    ) x),
    (SELECT json_agg(json_build_array(tree, ancestor, until)) FROM lineage_rows),
    (SELECT json_agg(json_build_array(id, segment, position, call)) FROM found),
    ARRAY(SELECT {{schema}}.new_number($1) FROM generate_series(1, $8 + (SELECT count(*) FROM found)))"""
_MESSAGES = (
    f"SELECT m.segment, m.position, {', '.join(f'm.{name}' for name in MESSAGE_COLUMNS)}"
    " FROM unnest($2::bigint[], $3::integer[]) i(segment, position)"
    " JOIN {schema}.messages m ON m.ns = $1 AND m.segment = i.segment AND m.position = i.position"
)
WRITE = f"""
WITH shaped AS (
    INSERT INTO {{schema}}.segments AS t
        (ns, number, tree, parent_segment, parent_position, last, next, shared, tokens)
    SELECT $1, x.* FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::integer[], $7::integer[], $8::integer[],
        $9::integer[], $10::bigint[]) x
    ON CONFLICT (ns, number) DO UPDATE SET last = excluded.last, next = excluded.next, tokens = excluded.tokens
), added AS (
    INSERT INTO {{schema}}.messages
        (ns, family, call, segment, position, running, {", ".join(MESSAGE_COLUMNS)})
    SELECT $1, $11, $12, x.* FROM unnest($13::bigint[], $14::integer[], $15::bigint[], $16::text[], $17::text[],
        $18::bigint[], $19::bigint[], $20::text[], $21::text[]) x
), saved AS (
    UPDATE {{schema}}.sessions SET head_segment = $22, head_position = $23, head_id = $24, head_next = $25,
        head_tokens = $26, tail = $27, view = $28, view_tokens = $29, view_messages = $30, revision = $31,
        message_count = $32, last_active_at = $33, updated_at = $34, status = $35, end_reason = $36, ended_at = $37,
        changed_in = greatest(changed_in, {{schema}}.this_xid())
    WHERE ns = $1 AND number = $2 RETURNING changed_in
)
INSERT INTO {{schema}}.changes (ns, xid, position, at, session, kind, segment, first, last, number, detail)
SELECT $1, s.changed_in, nextval('{{schema}}.change_positions'), $38, $2, x.*
FROM saved s, unnest($39::text[], $40::bigint[], $41::integer[], $42::integer[], $43::bigint[], $44::text[]) x"""


async def append(connection: Connection, request: Append, call: int) -> AppendResult:
    async with connection.transaction():
        while True:
            facts, draw = await _gather(connection, request, call)
            writes = decide(request, facts, draw)
            result = await _write(connection, request, call, writes)
            if result is not None:  # otherwise another transaction has made the session
                return result


# facts


async def _gather(connection: Connection, request: Append, call: int) -> tuple[Facts, Draw]:
    """The facts, and the numbers for what may be made."""
    ids = [message.id for message in request.messages]
    # A segment for the first message, one for each after a known id, and one where the first is full.
    spare = 3 + len(ids) - len(set(ids))
    row = await connection.fetch_row(LOCK, request.namespace, request.session_id)
    if row is None:
        drawn = await connection.fetch(_DRAW, request.namespace, spare)
        return Facts(None), _drawing(number for (number,) in drawn)
    session = session_row(request.namespace, row)
    turn = None if request.fence is None else await leases.turn_of(connection, session.number)
    wanted = {*ids, request.parent} if isinstance(request.parent, str) else set(ids)
    head_id, segments, edits, lineage, found, numbers = await connection.fetch_one(
        FACTS,
        namespace_of(session.number),
        session.tree,
        session.family,
        None if session.base is None else session.base.segment,
        *(session.head or (None, None)),
        list(wanted),
        spare,
    )
    rows = {segment.number: segment for segment in map(segment_row, json_rows(segments))}
    known: dict[str, KnownMessage] = {}
    parent: Place | None = None
    if found is not None:
        lineage_rows = [Lineage(*values) for values in json_rows(lineage)]
        visible = Visibility(session, rows.values(), map(edit_row, json_rows(edits)), lineage_rows)
        known, parent = await _look_up(connection, request, call, visible, json_rows(found))
    # Whether the session's key is free is decided by its index, when it is taken.
    return Facts(session, head_id, rows, turn, known, parent, key_is_free=True), _drawing(numbers)


def _drawing(numbers: Iterable[int]) -> Draw:
    left = iter(numbers)
    return lambda kind: next(left)


async def _look_up(
    connection: Connection, request: Append, call: int, visible: Visibility, found: Sequence[Sequence[Any]]
) -> tuple[dict[str, KnownMessage], Place | None]:
    """The messages that the session sees already, and the place of the given parent."""
    places = find_places(visible, ((id, Place(segment, position)) for id, segment, position, _ in found))
    known = {message.id: places[message.id] for message in request.messages if message.id in places}
    wanted = places_to_read(visible, known.values())
    rows = await connection.fetch(_MESSAGES, namespace_of(visible.session.number), *columns_of(list(wanted), 2))
    messages = {Place(segment, position): StoredMessage(*values) for segment, position, *values in rows}
    own = {Place(segment, position) for _, segment, position, of_call in found if of_call == call}
    seen = {id: one._replace(is_own=one.place in own) for id, one in known_messages(visible, known, messages).items()}
    return seen, places.get(request.parent) if isinstance(request.parent, str) else None


# writes


async def _write(connection: Connection, request: Append, call: int, writes: Writes) -> AppendResult | None:
    """The result; None if the session was to be made, and has been made by another transaction."""
    result, session = writes.result, writes.result.session
    if result.created and await sessions.insert(connection, session) is None:
        return None
    if writes.runs:
        await connection.execute(WRITE, *_write_values(request, call, writes))
    if writes.woken and session.key_current and not await sessions.take_key(connection, session.number):
        result = result._replace(session=replace(session, key_current=False))
    if request.dequeue:
        ids = [message.id for message in request.messages]
        await leases.dequeue(connection, session.number, ids)
    return result


def _write_values(request: Append, call: int, writes: Writes) -> Iterator[Any]:
    session = writes.result.session
    segments = [*writes.opened, *writes.grown]
    last = writes.runs[-1]
    end = next(segment for segment in segments if segment.number == last.segment)
    yield from (namespace_of(session.number), session.number)
    yield from columns_of([_segment_values(segment) for segment in segments], 8)
    yield from (session.family, call)
    yield from columns_of([*_message_rows(writes)], 9)
    yield from (last.segment, end.last, last.messages[-1].id, end.next, end.tokens)
    yield from (session.tail, session.view, session.view_tokens, session.view_messages, session.revision)
    yield from (session.message_count, session.last_active_at, session.updated_at)
    yield from (session.status, session.end_reason, session.ended_at, request.now)
    yield from log.entry_columns(writes.log)


def _segment_values(row: SegmentRow) -> tuple[Any, ...]:
    parent = row.parent or (None, None)
    return (row.number, row.tree, *parent, row.last, row.next, row.shared, row.tokens)


def _message_rows(writes: Writes) -> Iterator[tuple[Any, ...]]:
    for run in writes.runs:
        for step, (message, tokens) in enumerate(zip(run.messages, run.running, strict=True)):
            yield run.segment, run.first + step, tokens, *astuple(message)
