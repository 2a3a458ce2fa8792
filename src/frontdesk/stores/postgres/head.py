"""The common append: new messages at the head of sessions, as one statement for all of them.

It takes a session only if nothing has to be decided: the session is active, its head is the end of a segment of its
own, the fence and the expected head hold, and none of the ids is known in its family. For every other session it
returns no row, and nothing has happened to it: `append` then decides, in a transaction.

The statement cannot wait for its locks and then look for duplicates, as a transaction does: all of it sees the database
as it was when it began. Suppose another append of the same id commits after that moment, and before the session's row
is locked. The locked row would be the new one, but the search for the id would not find the new message, and store it
twice. So a session is taken only if the row that was locked (`version`) is one that the statement sees: then no append
has come in between, for each replaces that row. Rows that others have locked are not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import (
    ANY_HEAD,
    FOLLOW_HEAD,
    SEGMENT_SIZE,
    TURN,
    AnyHead,
    Append,
    AppendedRow,
    AppendResult,
    Place,
    SessionRow,
)
from frontdesk.stores.postgres.connection import Connection, Row
from frontdesk.stores.postgres.log import THIS_XID
from frontdesk.stores.postgres.rows import NOW, SESSION, columns_of, session_row

_GROUP = {
    "number": "integer",
    "namespace": "text",
    "session": "text",
    "size": "integer",
    "tokens": "bigint",
    "now": "bigint",
    "expected": "text",
    "fence": "bigint",
    "last_id": "text",
}
"""the columns of a session's appends"""
_MESSAGE = {
    "number": "integer",
    "step": "integer",
    "sum": "bigint",
    "call": "bigint",
    "id": "text",
    "role": "text",
    "tokens": "bigint",
    "created_at": "bigint",
    "raw": "text",
    "derived": "text",
}
"""the columns of a message: the number of its group, its place in it, the tokens up to it"""
_ANSWER = 2
"""columns of an answer before the session's"""

_STATEMENT = f"""
WITH locked AS MATERIALIZED (
    SELECT g.*, s.*
    FROM {{groups}} g CROSS JOIN LATERAL (
        SELECT x.number AS ns FROM {{schema}}.namespaces x WHERE x.name = g.namespace OFFSET 0
    ) n CROSS JOIN LATERAL (
        SELECT x.ctid, x.ns, x.number, x.family, x.head_segment, x.head_id, x.head_next, x.head_tokens
        FROM {{schema}}.sessions x WHERE x.ns = n.ns AND x.id = g.session AND x.id <> '' FOR UPDATE SKIP LOCKED
    ) s(version, in_ns, owner, family, segment, head_id, first, sum)
), known AS MATERIALIZED (
    SELECT m.number FROM {{ids}} m JOIN locked l ON l.number = m.number, LATERAL (
        SELECT FROM {{schema}}.messages x WHERE x.ns = l.in_ns AND x.family = l.family AND x.id = m.id LIMIT 1
    ) x
), moved AS MATERIALIZED (
    UPDATE {{schema}}.sessions x SET
        head_position = l.first + l.size - 1, head_id = l.last_id, head_next = l.first + l.size,
        head_tokens = l.sum + l.tokens, message_count = x.message_count + l.size,
        view_tokens = x.view_tokens + l.tokens, view_messages = x.view_messages + l.size,
        updated_at = greatest(x.updated_at, l.now), last_active_at = greatest(x.last_active_at, l.now),
        changed_in = greatest(x.changed_in, ({THIS_XID}))
    FROM locked l
    WHERE x.ctid = l.version AND x.status = 'active' AND l.first <= {SEGMENT_SIZE} - l.size
        AND (l.expected IS NULL OR l.expected = l.head_id) AND l.number NOT IN (SELECT number FROM known)
        AND (l.fence IS NULL OR EXISTS (
            SELECT FROM {{schema}}.leases y WHERE y.ns = l.in_ns AND y.session = l.owner AND y.name = '{TURN}'
                AND y.number = l.fence AND y.expires_at > {NOW} FOR SHARE SKIP LOCKED
        ))
    RETURNING l.number AS part, l.head_id AS parent_id, l.size, l.tokens AS added_tokens, l.now, l.first, l.sum, x.*
), added AS (
    INSERT INTO {{schema}}.messages
        (ns, position, segment, family, call, created_at, tokens, running, id, role, raw, derived)
    SELECT s.ns, s.first + m.step, s.head_segment, s.family, m.call, m.created_at, m.tokens, s.sum + m.sum, m.id,
        m.role, m.raw, m.derived
    FROM {{messages}} m JOIN moved s ON s.part = m.number
), grown AS (
    UPDATE {{schema}}.segments x SET last = s.head_position, next = s.head_next, tokens = s.head_tokens
    FROM moved s WHERE x.ns = s.ns AND x.number = s.head_segment
), logged AS (
    INSERT INTO {{schema}}.changes (ns, xid, position, at, session, segment, first, last, kind)
    SELECT s.ns, s.changed_in, nextval('{{schema}}.change_positions'), s.now, s.number, s.head_segment, s.first,
        s.head_position, 'message.appended'
    FROM moved s
)
SELECT s.part, s.parent_id, {SESSION} FROM moved s"""


def _source(columns: dict[str, str], first: int, names: Iterable[str] = (), *, single: bool) -> str:
    """The rows that are given in arguments from `first` on: as arrays, or a single row as values."""
    marks = {name: f"${first + index}::{kind}" for index, (name, kind) in enumerate(columns.items())}
    wanted = {name: marks[name] for name in names or columns}
    if single:
        return f"(SELECT {', '.join(f'{mark} AS {name}' for name, mark in wanted.items())})"
    arrays = ", ".join(f"{mark}[]" for mark in wanted.values())
    return f"(SELECT * FROM unnest({arrays}) u({', '.join(wanted)}))"


def _text(*, single: bool) -> str:
    first = len(_GROUP) + 1
    return (
        _STATEMENT.replace("{groups}", _source(_GROUP, 1, single=single))
        .replace("{ids}", _source(_MESSAGE, first, ("number", "id"), single=single))
        .replace("{messages}", _source(_MESSAGE, first, single=single))
    )


MANY, ONE = _text(single=False), _text(single=True)


class Group(NamedTuple):
    """Appends to one session that only add new messages at its head, one after the other."""

    requests: Sequence[Append]
    values: tuple[Any, ...]
    """those of `_GROUP`, except for the number"""
    messages: Sequence[tuple[Any, ...]]
    """those of `_MESSAGE`, except for the number"""


def group_of(appends: Sequence[tuple[Append, int]]) -> Group | None:
    """Appends to one session, with the numbers of their calls, in their order; None if they need a decision."""
    messages: list[tuple[Any, ...]] = []
    tokens, fence, last_id = 0, None, None
    for request, call in appends:
        if not request.messages or request.parent is not FOLLOW_HEAD or request.dequeue:
            return None
        if request.expected_head is None or (last_id and request.expected_head not in (ANY_HEAD, last_id)):
            return None
        if request.fence is not None and fence not in (None, request.fence):
            return None
        fence = request.fence if request.fence is not None else fence
        for message in request.messages:
            tokens += message.tokens
            messages.append((len(messages), tokens, call, *_message_values(message)))
        last_id = request.messages[-1].id
    # An id that comes twice must be found as known the second time.
    if len(messages) > 1 and len({message[3] for message in messages}) < len(messages):
        return None
    first = appends[0][0]
    now = max(request.now for request, _ in appends)
    expected = None if isinstance(first.expected_head, AnyHead) else first.expected_head
    values = (first.namespace, first.session_id, len(messages), tokens, now, expected, fence, last_id)
    return Group([request for request, _ in appends], values, messages)


def _message_values(message: StoredMessage) -> tuple[Any, ...]:
    return message.id, message.role, message.tokens, message.created_at, message.raw, message.derived


async def append(connection: Connection, groups: Sequence[Group]) -> list[list[AppendResult] | None]:
    """The outcome of each group: the results of its requests, or None if nothing has happened to it."""
    results: list[list[AppendResult] | None] = [None] * len(groups)
    if len(groups) == 1 and len(groups[0].messages) == 1:
        rows = await connection.fetch(ONE, 0, *groups[0].values, 0, *groups[0].messages[0])
    else:
        messages = [(number, *values) for number, group in enumerate(groups) for values in group.messages]
        rows = await connection.fetch(
            MANY,
            *columns_of([(number, *group.values) for number, group in enumerate(groups)], len(_GROUP)),
            *columns_of(messages, len(_MESSAGE)),
        )
    for row in rows:
        results[row[0]] = _results(groups[row[0]], row)
    return results


def _results(group: Group, row: Row) -> list[AppendResult]:
    """Each request's result has the session as that request left it."""
    session = session_row(group.requests[0].namespace, row[_ANSWER:])
    sessions = [session]
    for request in reversed(group.requests[1:]):
        session = _before(session, request)
        sessions.append(session)
    results, parent_id = [], row[1]
    for request, session in zip(group.requests, reversed(sessions), strict=True):
        parents = [parent_id, *(message.id for message in request.messages[:-1])]
        results.append(AppendResult(tuple(AppendedRow(True, parent) for parent in parents), session))
        parent_id = request.messages[-1].id
    return results


def _before(session: SessionRow, request: Append) -> SessionRow:
    """A session as it was before the messages of a request."""
    assert session.head is not None
    size = len(request.messages)
    return replace(
        session,
        head=Place(session.head.segment, session.head.position - size),
        message_count=session.message_count - size,
        view_messages=session.view_messages - size,
        view_tokens=session.view_tokens - sum(message.tokens for message in request.messages),
    )
