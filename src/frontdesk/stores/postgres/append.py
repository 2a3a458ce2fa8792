"""The append that has to be decided: gathers the facts for `tree.append`, and writes the rows that it returns.

Both are one statement each. What is written depends on the session's row, so the second statement writes only if that
is still the version that the first has read. If it is not, or if more than one statement must write, both are repeated
under the lock of the row, in one short transaction.

Each message row has the random number of the call that wrote it. If the answer to a call is lost, the whole call is
sent again. A message that is found with the call's own number was written by the first attempt, and counts as
inserted, whatever has happened since: the fence is not checked again. If the log says that what the first attempt may
have written was deleted since, it is not written again, and the call ends as uncertain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import astuple, replace

from frontdesk.errors import StoreUnavailableError
from frontdesk.messages.stored import StoredMessage
from frontdesk.store import Append, AppendResult, Lineage, Place, SegmentRow
from frontdesk.store.changes import session_created
from frontdesk.stores.postgres import log, sessions
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.database import PostgresDatabase
from frontdesk.stores.postgres.rows import (
    EDIT,
    HERE,
    MESSAGE_COLUMNS,
    SEGMENT,
    SESSION,
    SESSION_WIDTH,
    columns_of,
    edit_row,
    json_rows,
    namespace_of,
    segment_row,
    session_row,
)
from frontdesk.stores.sql import leases
from frontdesk.tree.append import Draw, Facts, Writes, decide
from frontdesk.tree.duplicates import KnownMessage, find_places, known_messages, places_to_read
from frontdesk.tree.visibility import Visibility

LOCK = f"SELECT FROM {{schema}}.sessions s WHERE s.ns = {HERE} AND s.id = $2 AND s.id <> '' FOR UPDATE"
# The session, where in its family the ids $3 are, the ways from there to the root, and numbers for what may be made: a
# session, a segment, and one where that is full. No numbers if there is no session and it must exist ($4).
GATHER = f"""
WITH RECURSIVE s AS MATERIALIZED (
    SELECT x.*, x.xmin::text AS version FROM {{schema}}.sessions x WHERE x.ns = {HERE} AND x.id = $2 AND x.id <> ''
), found AS MATERIALIZED (
    SELECT m.id, m.segment, m.position, m.call FROM s, unnest($3::text[]) i(id), LATERAL (
        SELECT * FROM {{schema}}.messages x WHERE x.ns = s.ns AND x.family = s.family AND x.id = i.id OFFSET 0
    ) m
), way AS (
    SELECT t.* FROM s, LATERAL (
        SELECT segment FROM found UNION SELECT s.base_segment WHERE EXISTS (SELECT FROM found)
    ) o(number), LATERAL (
        SELECT * FROM {{schema}}.segments x WHERE x.ns = s.ns AND x.number = o.number OFFSET 0
    ) t
    UNION
    SELECT t.* FROM way o, LATERAL (
        SELECT * FROM {{schema}}.segments x WHERE x.ns = o.ns AND x.number = o.parent_segment OFFSET 0
    ) t
), lineage_rows AS (
    SELECT l.* FROM s, LATERAL (
        SELECT * FROM {{schema}}.lineage x WHERE x.ns = s.ns AND x.tree = s.tree OFFSET 0
    ) l WHERE EXISTS (SELECT FROM found)
    UNION
    SELECT l.* FROM lineage_rows o, LATERAL (
        SELECT * FROM {{schema}}.lineage x WHERE x.ns = o.ns AND x.tree = o.ancestor OFFSET 0
    ) l
), ends AS (
    SELECT * FROM way
    UNION
    SELECT t.* FROM s, LATERAL (
        SELECT * FROM {{schema}}.segments x WHERE x.ns = s.ns AND x.number = s.head_segment OFFSET 0
    ) t
)
SELECT {SESSION}, s.version, (
    SELECT x.id FROM {{schema}}.messages x
    WHERE x.ns = s.ns AND x.segment = s.head_segment AND x.position = s.head_position
), (
    SELECT json_agg(json_build_array({SEGMENT})) FROM ends t
), (
    SELECT json_agg(json_build_array({EDIT})) FROM way o, LATERAL (
        SELECT * FROM {{schema}}.edits x WHERE x.ns = o.ns AND x.segment = o.number AND x.segment > 0 OFFSET 0
    ) x
), (
    SELECT json_agg(json_build_array(tree, ancestor, until)) FROM lineage_rows
), (
    SELECT json_agg(json_build_array(id, segment, position, call)) FROM found
), CASE WHEN s.number IS NOT NULL OR NOT $4 THEN ARRAY(
    SELECT {{schema}}.new_number(coalesce(s.ns, {{schema}}.namespace($1)))
    FROM generate_series(1, 3)
) END
FROM (SELECT) one LEFT JOIN s ON true"""
_MESSAGES = (
    f"SELECT m.segment, m.position, {', '.join(f'm.{name}' for name in MESSAGE_COLUMNS)}"
    " FROM unnest($2::bigint[], $3::integer[]) i(segment, position)"
    " JOIN {schema}.messages m ON m.ns = $1 AND m.segment = i.segment AND m.position = i.position"
)
# What was deleted since a call was made. An erasure does not log which session it deleted: it may have been this one.
_SINCE = "at > $2::bigint - 600000000"
_SESSION_DELETED = (
    f"SELECT EXISTS (SELECT FROM {{schema}}.changes WHERE ns = {HERE} AND kind = 'session.deleted' AND {_SINCE}"
    " AND (detail = '' OR detail::json ->> 'id' = $3))"
)
_MESSAGES_DELETED = (
    "SELECT EXISTS (SELECT FROM {schema}.changes WHERE ns = ($1::bigint >> 39)::integer AND session = $1"
    f" AND {_SINCE} AND (kind = 'messages.cleared' OR (kind = 'message.deleted'"
    " AND EXISTS (SELECT FROM json_array_elements_text(detail::json -> 'ids') i WHERE i = ANY($3::text[])))))"
)
# The columns that an append changes: from $24 on.
_CHANGED = (
    *("head_segment", "head_position", "head_id", "head_next", "head_tokens", "tail", "view", "view_tokens"),
    *("view_messages", "revision", "message_count", "last_active_at", "updated_at", "status", "end_reason", "ended_at"),
)
_MARKS = [f"${number}" for number in range(24, 24 + len(_CHANGED))]
_UPDATE = f"""
    UPDATE {{schema}}.sessions SET changed_in = greatest(changed_in, {{schema}}.this_xid()),
        {", ".join(f"{name} = {mark}" for name, mark in zip(_CHANGED, _MARKS, strict=True))}
    WHERE ns = $1 AND number = $2 AND xmin::text = $3 RETURNING changed_in"""
_INSERT = f"""
    INSERT INTO {{schema}}.sessions
        (ns, number, tree, family, id, created_at, changed_in, {", ".join(_CHANGED)})
    SELECT $1, $2, $2, $2, $3, $4, {{schema}}.this_xid(), {", ".join(_MARKS)}
    ON CONFLICT DO NOTHING RETURNING changed_in"""
_WRITE = f"""
WITH saved AS ({{saving}}
), shaped AS (
    INSERT INTO {{schema}}.segments (ns, number, tree, parent_segment, parent_position, last, next, shared, tokens)
    SELECT $1, x.* FROM saved, unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::integer[], $9::integer[],
        $10::integer[], $11::integer[], $12::bigint[]) x
    ON CONFLICT (ns, number) DO UPDATE SET last = excluded.last, next = excluded.next, tokens = excluded.tokens
), added AS (
    INSERT INTO {{schema}}.messages (ns, family, call, segment, position, running, {", ".join(MESSAGE_COLUMNS)})
    SELECT $1, $13, $14, x.* FROM saved, unnest($15::bigint[], $16::integer[], $17::bigint[], $18::text[],
        $19::text[], $20::bigint[], $21::bigint[], $22::text[], $23::text[]) x
)
INSERT INTO {{schema}}.changes (ns, xid, position, at, session, kind, segment, first, last, number, detail)
SELECT $1, s.changed_in, nextval('{{schema}}.change_positions'), $4, $2, x.*
FROM saved s, unnest($40::text[], $41::bigint[], $42::integer[], $43::integer[], $44::bigint[], $45::text[]) x"""
WRITE, WRITE_NEW = (_WRITE.replace("{saving}", saving) for saving in (_UPDATE, _INSERT))


async def append(connection: Connection, request: Append, call: int) -> AppendResult:
    # A fence must hold until the end, and messages leave the queue in the same transaction.
    if request.fence is None and not request.dequeue:
        result = await _attempt(connection, request, call)
        if result is not None:
            return result
    async with connection.transaction():
        result = await append_locked(connection, request, call)
        if request.dequeue:
            ids = [message.id for message in request.messages]
            session = result.session.number
            await leases.dequeue(PostgresDatabase(connection), namespace_of(session), session, ids)
    return result


async def append_locked(connection: Connection, request: Append, call: int) -> AppendResult:
    """The same in a transaction, which has the session for itself from here on."""
    result = None
    while result is None:
        await connection.execute(LOCK, request.namespace, request.session_id)
        result = await _attempt(connection, request, call, locked=True)
    return result


async def _attempt(connection: Connection, request: Append, call: int, *, locked: bool = False) -> AppendResult | None:
    """The result; None if nothing was written, because another has written to the session, or because that needs a
    lock."""
    facts, version, draw = await _gather(connection, request, call)
    if connection.resent and not any(known.is_own for known in facts.known.values()):
        await _check_deletions(connection, request, facts)
    writes = decide(request, facts, draw)
    result, session = writes.result, writes.result.session
    if not writes.runs:
        return result if not result.created or await sessions.insert(connection, session) is not None else None
    if writes.woken and not locked:
        return None
    statement = WRITE_NEW if result.created else WRITE
    if not await connection.execute(statement, *_write_values(request, call, writes, version)):
        return None
    if writes.woken and session.key_current and not await sessions.take_key(connection, session.number):
        result = result._replace(session=replace(session, key_current=False))
    return result


# facts


async def _gather(connection: Connection, request: Append, call: int) -> tuple[Facts, str, Draw]:
    """The facts, the version of the session's row (its id, if there is none), and the numbers for what may be made."""
    ids = [message.id for message in request.messages]
    wanted = {*ids, request.parent} if isinstance(request.parent, str) else set(ids)
    row = await connection.fetch_one(GATHER, request.namespace, request.session_id, list(wanted), request.existing)
    version, head_id, segments, edits, lineage, found, numbers = row[SESSION_WIDTH:]
    drawn: Iterator[int] = iter(numbers or ())

    def draw(kind: str) -> int:
        return next(drawn)

    if version is None:
        return Facts(None), request.session_id, draw
    session = session_row(request.namespace, row)
    turn = None
    if request.fence is not None:
        turn = await leases.turn_of(PostgresDatabase(connection), row[1], session.number)
    rows = {segment.number: segment for segment in map(segment_row, json_rows(segments))}
    known: dict[str, KnownMessage] = {}
    parent: Place | None = None
    if found is not None:
        lineage_rows = [Lineage(*values) for values in json_rows(lineage)]
        visible = Visibility(session, rows.values(), map(edit_row, json_rows(edits)), lineage_rows)
        known, parent = await _look_up(connection, request, call, visible, json_rows(found))
    # Whether the session's key is free is decided by its index, when it is taken.
    return Facts(session, head_id, rows, turn, known, parent, key_is_free=True), version, draw


async def _look_up(
    connection: Connection, request: Append, call: int, visible: Visibility, found: Sequence[Sequence[Any]]
) -> tuple[dict[str, KnownMessage], Place | None]:
    """The messages that the session sees already, and the place of the given parent."""
    places = find_places(visible, ((id, Place(segment, position)) for id, segment, position, _ in found))
    known = {message.id: places[message.id] for message in request.messages if message.id in places}
    parent = places.get(request.parent) if isinstance(request.parent, str) else None
    if not known:
        return {}, parent
    wanted = places_to_read(visible, known.values())
    rows = await connection.fetch(_MESSAGES, namespace_of(visible.session.number), *columns_of(list(wanted), 2))
    messages = {Place(segment, position): StoredMessage(*values) for segment, position, *values in rows}
    own = {Place(segment, position) for _, segment, position, of_call in found if of_call == call}
    seen = known_messages(visible, known, messages)
    return {id: one._replace(is_own=one.place in own) for id, one in seen.items()}, parent


async def _check_deletions(connection: Connection, request: Append, facts: Facts) -> None:
    """Raises `StoreUnavailableError` if what an earlier attempt may have written was deleted since."""
    session = facts.session
    if session is None and not request.existing:
        is_gone = await connection.fetch_value(_SESSION_DELETED, request.namespace, request.now, request.session_id)
    elif session is None:
        is_gone = True
    else:
        ids = [message.id for message in request.messages]
        is_gone = await connection.fetch_value(_MESSAGES_DELETED, session.number, request.now, ids)
    if is_gone:
        raise StoreUnavailableError(
            f"the answer to an append to session {request.session_id!r} was lost, and messages of it or the whole"
            " session were deleted since: the append may have happened, and was not repeated",
            uncertain=True,
        )


# writes


def _write_values(request: Append, call: int, writes: Writes, version: str) -> Iterator[Any]:
    session, created = writes.result.session, writes.result.created
    segments = [*writes.opened, *writes.grown]
    last = writes.runs[-1]
    end = next(segment for segment in segments if segment.number == last.segment)
    yield from (namespace_of(session.number), session.number, version, request.now)
    yield from columns_of([_segment_values(segment) for segment in segments], 8)
    yield from (session.family, call)
    yield from columns_of([*_message_rows(writes)], 9)
    yield from (last.segment, end.last, last.messages[-1].id, end.next, end.tokens)
    yield from (session.tail, session.view, session.view_tokens, session.view_messages, session.revision)
    yield from (session.message_count, session.last_active_at, session.updated_at)
    yield from (session.status, session.end_reason, session.ended_at)
    yield from log.entry_columns([*([session_created(None)] if created else []), *writes.log])


def _segment_values(row: SegmentRow) -> tuple[Any, ...]:
    parent = row.parent or (None, None)
    return (row.number, row.tree, *parent, row.last, row.next, row.shared, row.tokens)


def _message_rows(writes: Writes) -> Iterator[tuple[Any, ...]]:
    for run in writes.runs:
        for step, (message, tokens) in enumerate(zip(run.messages, run.running, strict=True)):
            yield run.segment, run.first + step, tokens, *astuple(message)
