"""Usage: an entry for each model call, and totals per day, model, agent and channel."""

from __future__ import annotations

from collections.abc import Mapping

from frontdesk.store import NewChange, SessionRow, UsageQuery, UsageRow
from frontdesk.stores.sqlite import log, sessions
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.tree.usage import group_usage, reads_entries, reads_totals, sum_costs

_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_ENTRY = ("id", "at", "day", "model", *_COUNTS, "cost")
_TOTALS = ("day", "model", "agent", "channel", *_COUNTS, "cost")
_OF_SESSION = {"session_id": "s.id", "agent": "s.agent", "channel": "s.channel", "peer": "s.peer"}
_OF_ENTRY = {"day": "u.day", "model": "u.model"}


def add(connection: Connection, namespace: str, session_id: str, entry: UsageRow) -> bool:
    session = sessions.get_known(connection, namespace, session_id)
    found = connection.execute("SELECT 1 FROM usage_entries WHERE session = ? AND id = ?", (session.number, entry.id))
    if found.fetchone() is not None:
        return False
    connection.execute(
        f"INSERT INTO usage_entries (session, {', '.join(_ENTRY)}) VALUES (?, {', '.join('?' * len(_ENTRY))})",
        (session.number, *(getattr(entry, name) for name in _ENTRY)),
    )
    connection.execute(
        "UPDATE sessions SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, cost = ?,"
        " updated_at = max(updated_at, ?) WHERE number = ?",
        (entry.input_tokens, entry.output_tokens, sum_costs(session.cost, entry.cost), entry.at, session.number),
    )
    _add_to_day(connection, session, entry)
    updated_at = max(session.updated_at, entry.at)
    log.write(connection, namespace, session.number, updated_at, NewChange(kind="usage.added"))
    return True


def _add_to_day(connection: Connection, session: SessionRow, entry: UsageRow) -> None:
    group = session.namespace, entry.day, entry.model, session.agent, session.channel
    day = connection.execute(
        "SELECT number, cost FROM usage_days WHERE namespace = ? AND day = ? AND model IS ? AND agent IS ?"
        " AND channel IS ?",
        group,
    ).fetchone()
    counts = tuple(getattr(entry, name) for name in _COUNTS)
    if day is None:
        connection.execute(
            f"INSERT INTO usage_days (namespace, {', '.join(_TOTALS)}) VALUES (?, {', '.join('?' * len(_TOTALS))})",
            (*group, *counts, sum_costs("0", entry.cost)),
        )
    else:
        added = ", ".join(f"{name} = {name} + ?" for name in _COUNTS)
        connection.execute(
            f"UPDATE usage_days SET {added}, cost = ? WHERE number = ?",
            (*counts, sum_costs(day[1], entry.cost), day[0]),
        )


def totals(connection: Connection, query: UsageQuery) -> list[UsageRow]:
    if query.session_id is not None:
        sessions.get_known(connection, query.namespace, query.session_id)
    days, entries = [], []
    if reads_totals(query):
        columns = {name: f"u.{name}" for name in ("day", "model", "agent", "channel")}
        days = _groups(connection, query, "usage_days u WHERE u.namespace = ?", columns)
    if reads_entries(query):
        source = "sessions s JOIN usage_entries u ON u.session = s.number WHERE s.namespace = ?"
        entries = _groups(connection, query, source, _OF_ENTRY | _OF_SESSION)
    return group_usage(query, days, entries)


def _groups(connection: Connection, query: UsageQuery, source: str, columns: Mapping[str, str]) -> list[UsageRow]:
    """The rows of a source that a query selects, added up by as many of its groups as the source has columns for."""
    by = [name for name in query.by if name in columns]
    values: list[str] = [query.namespace]
    for name, column in columns.items():
        wanted = None if name == "day" else getattr(query, name)
        if wanted is not None:
            source += f" AND {column} = ?"
            values.append(wanted)
    shown = [columns[name] for name in by] + [f"sum(u.{name})" for name in _COUNTS]
    rows = connection.execute(
        f"SELECT {', '.join(shown)}, group_concat(u.cost, ' ') FROM {source} AND u.day >= ? AND u.day <= ?"
        + (f" GROUP BY {', '.join(columns[name] for name in by)}" if by else " HAVING count(*) > 0"),
        (*values, query.first_day or "", query.last_day or "~"),
    )
    names = (*by, *_COUNTS)
    return [
        UsageRow(**dict(zip(names, row[:-1], strict=True)), cost=sum_costs(*row[-1].split()))
        for row in map(tuple, rows)
    ]
