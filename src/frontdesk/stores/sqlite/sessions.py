"""Session rows: making, finding and waking them, and the ledger of what they used."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from functools import reduce
from typing import Any

import msgspec
from msgspec.structs import replace

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import NewChange, NewSession, SessionRow, UsageQuery, UsageRow
from frontdesk.store.changes import session_created, session_woken
from frontdesk.stores.sqlite import log
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.rows import SESSION, session_row

_EXACT = Context(prec=1000)
_GIVEN = tuple(name for name in NewSession.__struct_fields__ if name != "now")
_BY_ID = f"SELECT {SESSION} FROM sessions WHERE namespace = ? AND id = ?"
_BY_KEY = (
    f"SELECT {SESSION} FROM sessions WHERE namespace = ? AND agent = ? AND coalesce(channel, '') = ?"
    " AND coalesce(peer, '') = ? AND coalesce('=' || thread, '') = ? AND key_current"
)
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_TOTALS = ("day", "model", *_COUNTS, "cost")
_LINE = ("id", "at", *_TOTALS)


def get(connection: Connection, namespace: str, session_id: str) -> SessionRow | None:
    row = connection.execute(_BY_ID, (namespace, session_id)).fetchone()
    return None if row is None else session_row(row)


def get_current(connection: Connection, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
    agent, channel, peer, thread = key
    row = connection.execute(
        _BY_KEY, (namespace, agent, channel, peer, "" if thread is None else f"={thread}")
    ).fetchone()
    return None if row is None else session_row(row)


def get_known(connection: Connection, namespace: str, session_id: str) -> SessionRow:
    session = get(connection, namespace, session_id)
    if session is None:
        raise SessionNotFoundError(session_id, namespace)
    return session


def taken(connection: Connection, new: NewSession) -> SessionRow | None:
    """The session that has a new one's id already, or its key as the current one."""
    found = get(connection, new.namespace, new.id)
    if found is not None or new.agent is None:
        return found
    return get_current(connection, new.namespace, (new.agent, new.channel or "", new.peer or "", new.thread))


def create(connection: Connection, new: NewSession) -> tuple[SessionRow, bool]:
    existing = taken(connection, new)
    return (existing, False) if existing is not None else (insert(connection, new), True)


def insert(connection: Connection, new: NewSession, **values: Any) -> SessionRow:
    """A new session; it is the first of its family unless `values` say otherwise."""
    columns: dict[str, Any] = {name: getattr(new, name) for name in _GIVEN}
    number = next_number(connection)
    columns |= {"number": number, "tree": number, "family": number, "key_current": int(new.agent is not None)}
    columns |= {"created_at": new.now, "updated_at": new.now, "last_active_at": new.now, **values}
    statement = (
        f"INSERT INTO sessions ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) RETURNING {SESSION}"
    )
    (row,) = connection.execute(statement, tuple(columns.values())).fetchall()
    set_tags(connection, number, new.namespace, new.tags)
    log.write(connection, new.namespace, number, new.now, session_created(new.parent_session_id))
    return session_row(row)


def next_number(connection: Connection) -> int:
    """A number for a session or a tree that none ever had."""
    bump = "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'sessions' RETURNING seq"
    found = connection.execute(bump).fetchall()
    if not found:
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('sessions', 0)")
        found = connection.execute(bump).fetchall()
    number: int = found[0][0]
    return number


def set_tags(connection: Connection, number: int, namespace: str, tags: str) -> None:
    """Add the tags of a session to those that are looked up."""
    if tags != "[]":
        rows = [(number, tag, namespace) for tag in msgspec.json.decode(tags, type=list[str])]
        connection.executemany("INSERT OR IGNORE INTO session_tags (session, tag, namespace) VALUES (?, ?, ?)", rows)


def may_take_key(connection: Connection, session: SessionRow) -> bool:
    """Whether a session has a key, and no other is current under it."""
    if session.agent is None:
        return False
    key = (session.agent, session.channel or "", session.peer or "", session.thread)
    current = get_current(connection, session.namespace, key)
    return current is None or current.number == session.number


def wake(connection: Connection, session: SessionRow, now: int) -> SessionRow:
    """Make a session active again; its raised revision is stored with what follows."""
    is_current = may_take_key(connection, session)
    connection.execute(
        "UPDATE sessions SET status = 'active', end_reason = NULL, ended_at = NULL, key_current = ? WHERE number = ?",
        (int(is_current), session.number),
    )
    log.write(connection, session.namespace, session.number, now, session_woken())
    return replace(
        session,
        status="active",
        end_reason=None,
        ended_at=None,
        key_current=is_current,
        revision=session.revision + 1,
    )


def by_number(connection: Connection, numbers: Sequence[int]) -> list[SessionRow]:
    statement = f"SELECT {SESSION} FROM sessions WHERE number = ?"
    return [session_row(row) for number in dict.fromkeys(numbers) for row in connection.execute(statement, (number,))]


def relatives(connection: Connection, namespace: str, families: Sequence[int]) -> list[SessionRow]:
    statement = f"SELECT {SESSION} FROM sessions WHERE family = ? AND namespace = ? ORDER BY number"
    return [
        session_row(row)
        for family in dict.fromkeys(families)
        for row in connection.execute(statement, (family, namespace))
    ]


def families(connection: Connection, namespace: str, after: int, limit: int) -> list[int]:
    statement = (
        "SELECT DISTINCT family FROM sessions INDEXED BY sessions_by_family WHERE family > ? AND namespace = ?"
        " ORDER BY family LIMIT ?"
    )
    return [family for (family,) in connection.execute(statement, (after, namespace, limit))]


# the ledger


def add_usage(connection: Connection, namespace: str, session_id: str, line: UsageRow) -> bool:
    session = get_known(connection, namespace, session_id)
    found = connection.execute("SELECT 1 FROM usage_lines WHERE session = ? AND id = ?", (session.number, line.id))
    if found.fetchone() is not None:
        return False
    connection.execute(
        f"INSERT INTO usage_lines (session, {', '.join(_LINE)}) VALUES (?, {', '.join('?' * len(_LINE))})",
        (session.number, *(getattr(line, name) for name in _LINE)),
    )
    connection.execute(
        "UPDATE sessions SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, cost = ?,"
        " updated_at = max(updated_at, ?) WHERE number = ?",
        (line.input_tokens, line.output_tokens, sum_costs(session.cost, line.cost), line.at, session.number),
    )
    _add_to_day(connection, namespace, line)
    updated_at = max(session.updated_at, line.at)
    log.write(connection, namespace, session.number, updated_at, NewChange(kind="usage.added"))
    return True


def _add_to_day(connection: Connection, namespace: str, line: UsageRow) -> None:
    day = connection.execute(
        "SELECT number, cost FROM usage_days WHERE namespace = ? AND day = ? AND model IS ?",
        (namespace, line.day, line.model),
    ).fetchone()
    counts = tuple(getattr(line, name) for name in _COUNTS)
    if day is None:
        connection.execute(
            f"INSERT INTO usage_days (namespace, {', '.join(_TOTALS)}) VALUES (?, {', '.join('?' * len(_TOTALS))})",
            (namespace, line.day, line.model, *counts, sum_costs("0", line.cost)),
        )
    else:
        added = ", ".join(f"{name} = {name} + ?" for name in _COUNTS)
        connection.execute(
            f"UPDATE usage_days SET {added}, cost = ? WHERE number = ?", (*counts, sum_costs(day[1], line.cost), day[0])
        )


def usage(connection: Connection, query: UsageQuery) -> list[UsageRow]:
    source = "usage_days WHERE namespace = ?"
    owner: str | int = query.namespace
    if query.session_id is not None:
        owner = get_known(connection, query.namespace, query.session_id).number
        source = "usage_lines WHERE session = ?"
    rows = connection.execute(
        f"SELECT {', '.join(_TOTALS)} FROM {source} AND day >= ? AND day <= ?",
        (owner, query.first_day or "", query.last_day or "~"),
    )
    totals: dict[tuple[str, str | None], list[Any]] = {}
    for day, model, *counts, cost in rows:
        total = totals.setdefault((day, model), [0] * len(_COUNTS) + ["0"])
        total[:-1] = map(sum, zip(total[:-1], counts, strict=True))
        total[-1] = sum_costs(total[-1], cost)
    found = [
        UsageRow(day=day, model=model, cost=total[-1], **dict(zip(_COUNTS, total[:-1], strict=True)))
        for (day, model), total in totals.items()
    ]
    return sorted(found, key=lambda row: (row.day, row.model or ""))


def sum_costs(*costs: str) -> str:
    return str(reduce(_EXACT.add, map(Decimal, costs), Decimal(0)))
