"""Counts what a session has, for the report of an erasure."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.store import RowCounts, Span
from frontdesk.store.changes import RESERVED_PREFIX
from frontdesk.stores.sql.database import Database
from frontdesk.stores.sql.rows import span_values

_COUNT = "SELECT " + ", ".join(
    f"(SELECT count(*) FROM {{schema}}.{table} x WHERE {{ns x}} x.session = :session{condition})"
    for table, condition in (
        ("documents", f" AND substr(x.label, 1, {len(RESERVED_PREFIX)}) <> '{RESERVED_PREFIX}'"),
        ("usage_entries", ""),
        ("queued_messages", ""),
    )
)


async def count(db: Database, session: int, spans: Sequence[Span]) -> RowCounts:
    ns = db.ns_of(session)
    row = await db.fetch_row(_COUNT, ns=ns, session=session)
    assert row is not None
    messages = await db.fetch_many("SELECT count(*) FROM {schema}.messages WHERE {in_span}", span_values(ns, spans))
    return RowCounts(sum(number for (number,) in messages), *row)
