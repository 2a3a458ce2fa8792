"""Usage: an entry for each model call, and totals per day."""

from __future__ import annotations

from frontdesk.store import NewChange, UsageQuery, UsageRow
from frontdesk.stores.sqlite import log, sessions
from frontdesk.stores.sqlite.connections import Connection
from frontdesk.tree.usage import sum_costs, totals_per_day

_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_TOTALS = ("day", "model", *_COUNTS, "cost")
_ENTRY = ("id", "at", *_TOTALS)


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
    _add_to_day(connection, namespace, entry)
    updated_at = max(session.updated_at, entry.at)
    log.write(connection, namespace, session.number, updated_at, NewChange(kind="usage.added"))
    return True


def _add_to_day(connection: Connection, namespace: str, entry: UsageRow) -> None:
    day = connection.execute(
        "SELECT number, cost FROM usage_days WHERE namespace = ? AND day = ? AND model IS ?",
        (namespace, entry.day, entry.model),
    ).fetchone()
    counts = tuple(getattr(entry, name) for name in _COUNTS)
    if day is None:
        connection.execute(
            f"INSERT INTO usage_days (namespace, {', '.join(_TOTALS)}) VALUES (?, {', '.join('?' * len(_TOTALS))})",
            (namespace, entry.day, entry.model, *counts, sum_costs("0", entry.cost)),
        )
    else:
        added = ", ".join(f"{name} = {name} + ?" for name in _COUNTS)
        connection.execute(
            f"UPDATE usage_days SET {added}, cost = ? WHERE number = ?",
            (*counts, sum_costs(day[1], entry.cost), day[0]),
        )


def totals(connection: Connection, query: UsageQuery) -> list[UsageRow]:
    source = "usage_days WHERE namespace = ?"
    owner: str | int = query.namespace
    if query.session_id is not None:
        owner = sessions.get_known(connection, query.namespace, query.session_id).number
        source = "usage_entries WHERE session = ?"
    rows = connection.execute(
        f"SELECT {', '.join(_TOTALS)} FROM {source} AND day >= ? AND day <= ?",
        (owner, query.first_day or "", query.last_day or "~"),
    )
    return totals_per_day(UsageRow(**dict(zip(_TOTALS, row, strict=True))) for row in rows)
