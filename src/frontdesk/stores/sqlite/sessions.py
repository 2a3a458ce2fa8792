"""Session rows: making and finding them, pages of them, and the ledger of what they used."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from functools import reduce
from typing import Any

import msgspec

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import NewChange, NewSession, SessionQuery, SessionRow, StatsRow, UsageQuery, UsageRow
from frontdesk.store.changes import session_created
from frontdesk.stores.sqlite import log
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.stores.sqlite.rows import SESSION, session_row

FEW = 2_000
"""so many sessions of one tag or peer are sorted; of more, the newest are looked for in the order of activity"""

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


def page(connection: Connection, query: SessionQuery) -> list[SessionRow]:
    way, where, values = _way(connection, query)
    for name in ("agent", "channel", "peer", "thread", "status"):
        wanted = getattr(query, name)
        if wanted is not None:
            where.append(f"{name} = ?")
            values.append(wanted)
    for condition, wanted in (("created_at > ?", query.created_after), ("created_at < ?", query.created_before)):
        if wanted is not None:
            where.append(condition)
            values.append(wanted)
    if query.after is not None:
        where.append("(last_active_at, number) < (?, ?)")
        values += query.after
    found = connection.execute(
        f"SELECT {SESSION} FROM sessions {way} WHERE {' AND '.join(where)}"
        " ORDER BY last_active_at DESC, number DESC LIMIT ?",
        (*values, query.limit),
    )
    return [session_row(row) for row in found]


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


def _way(connection: Connection, query: SessionQuery) -> tuple[str, list[str], list[Any]]:
    """Which index to go by, and the conditions on namespace and tag in the form that suits it.

    A planner without figures would at times sort a hundred thousand sessions.
    """
    where, values = ["namespace = ?"], [query.namespace]
    if query.tag is not None and _few(connection, "session_tags", "tag", query.namespace, query.tag):
        where.append("number IN (SELECT session FROM session_tags WHERE namespace = ? AND tag = ?)")
        return "NOT INDEXED", where, [*values, query.namespace, query.tag]
    if query.tag is not None:
        where.append("EXISTS (SELECT 1 FROM session_tags WHERE session = number AND tag = ?)")
        values.append(query.tag)
    by_peer = "sessions INDEXED BY sessions_by_peer"
    if query.peer is not None and _few(connection, by_peer, "peer", query.namespace, query.peer):
        return "INDEXED BY sessions_by_peer", where, [*values]
    return f"INDEXED BY sessions_by_{'activity' if query.agent is None else 'agent'}", where, [*values]


def _few(connection: Connection, table: str, column: str, namespace: str, value: str) -> bool:
    counted = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE namespace = ? AND {column} = ? LIMIT {FEW})",
        (namespace, value),
    ).fetchall()
    return bool(counted[0][0] < FEW)


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
        (line.input_tokens, line.output_tokens, _sum(session.cost, line.cost), line.at, session.number),
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
            (namespace, line.day, line.model, *counts, _sum("0", line.cost)),
        )
    else:
        added = ", ".join(f"{name} = {name} + ?" for name in _COUNTS)
        connection.execute(
            f"UPDATE usage_days SET {added}, cost = ? WHERE number = ?", (*counts, _sum(day[1], line.cost), day[0])
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
        total[-1] = _sum(total[-1], cost)
    found = [
        UsageRow(day=day, model=model, cost=total[-1], **dict(zip(_COUNTS, total[:-1], strict=True)))
        for (day, model), total in totals.items()
    ]
    return sorted(found, key=lambda row: (row.day, row.model or ""))


def stats(connection: Connection, namespace: str) -> StatsRow:
    statuses = connection.execute(
        "SELECT status, count(*), sum(message_count) FROM sessions WHERE namespace = ? GROUP BY status ORDER BY status",
        (namespace,),
    ).fetchall()
    days = connection.execute(
        "SELECT input_tokens, output_tokens, cost FROM usage_days WHERE namespace = ?", (namespace,)
    ).fetchall()
    size = connection.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchall()
    return StatsRow(
        sessions={status: count for status, count, _ in statuses},
        messages=sum(messages for _, _, messages in statuses),
        input_tokens=sum(day[0] for day in days),
        output_tokens=sum(day[1] for day in days),
        cost=_sum(*(day[2] for day in days)),
        store_bytes=size[0][0],
    )


def _sum(*costs: str) -> str:
    return str(reduce(_EXACT.add, map(Decimal, costs), Decimal(0)))
