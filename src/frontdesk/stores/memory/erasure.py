"""Counts what an erasure removes from the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.store import RowCounts, Span
from frontdesk.store.changes import RESERVED_PREFIX
from frontdesk.stores.memory.rows import Rows


def count(rows: Rows, session: int, spans: Sequence[Span]) -> RowCounts:
    messages = sum(
        span.first <= position <= span.last for span in spans for position in rows.messages.get(span.segment, {})
    )
    documents = sum(
        len(versions)
        for (_, number, label), keys in rows.documents.items()
        if number == session and not label.startswith(RESERVED_PREFIX)
        for versions in keys.values()
    )
    queued = sum(len(waiting) for key, waiting in rows.queued.items() if key[1] == session)
    return RowCounts(messages, documents, len(rows.usage.get(session, {})), queued)
