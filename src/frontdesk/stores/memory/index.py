"""The search index of the memory store, with one `TermIndex` for each namespace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from frontdesk.store import (
    Address,
    IndexBatch,
    IndexMatch,
    IndexQuery,
    IndexRow,
    IndexText,
    Place,
    Range,
    SessionSelection,
)
from frontdesk.stores.memory.rows import Rows
from frontdesk.stores.memory.term_index import TermIndex


def state(rows: Rows, namespace: str) -> IndexRow | None:
    index = rows.indexes.get(namespace)
    if index is None or index.state is None:
        return None
    return IndexRow(index.state, len(index.texts), index.length)


def write(rows: Rows, batch: IndexBatch) -> bool:
    index = rows.indexes.setdefault(batch.namespace, TermIndex())
    if index.state != batch.replaces:
        return False
    for text in batch.texts:
        source = _source(rows, text)
        if source is not None:
            index.put(text, *source)
    index.state = batch.state
    return True


def _source(rows: Rows, text: IndexText) -> tuple[Place | None, int] | None:
    """The place of a text and its family, if what it was made from is still there."""
    kind, number, position = text.address
    if kind == "message":
        row = rows.messages.get(number, {}).get(position)
        if row is None or (row.message.raw,) != text.content:
            return None
        return Place(number, position), row.family
    if kind == "edit":
        edit = rows.edits.get(number)
        return None if edit is None else (Place(edit.segment, edit.first), _family_of(rows, edit.segment))
    if kind == "overlay":
        overlay = rows.overlays.get(number)
        if overlay is None or overlay.kind != "summary":
            return None
        return (None, _family_of(rows, overlay.start.segment, overlay.end.segment))
    session = rows.sessions.get(number)
    if session is None or (session.name, session.summary) != text.content:
        return None
    return None, session.family


def _family_of(rows: Rows, *segments: int) -> int:
    """The family of the messages in these segments."""
    found = (row for segment in segments for row in rows.messages.get(segment, {}).values())
    return next((row.family for row in found), 0)


def forget(rows: Rows, namespace: str, removed: Iterable[Range]) -> None:
    """Remove texts from the index."""
    index = rows.indexes.get(namespace)
    if index is not None:
        for first, last in removed:
            index.drop_range(first, last)


def frequencies(rows: Rows, namespace: str, terms: Sequence[str]) -> list[int]:
    index = rows.indexes.get(namespace)
    return [0 if index is None else len(index.holding(term)) for term in terms]


def terms(rows: Rows, namespace: str, prefix: str, limit: int) -> list[str]:
    index = rows.indexes.get(namespace)
    return [] if index is None else list(islice(index.beginning(prefix), limit))


def matches(rows: Rows, query: IndexQuery) -> list[IndexMatch]:
    index = rows.indexes.get(query.namespace)
    if index is None:
        return []
    families = None if query.sessions is None else _families(rows, query.namespace, query.sessions)
    return index.matches(query, families)


def unindexed(rows: Rows, namespace: str, ranges: Sequence[Range]) -> list[Address]:
    index = rows.indexes.get(namespace)
    indexed = {} if index is None else index.texts
    stored = (
        Address("message", first.number, position)
        for first, last in ranges
        for position in rows.messages.get(first.number, ())
        if first.position <= position <= last.position
    )
    return [address for address in stored if address not in indexed]


def owner_trees(rows: Rows, namespace: str, addresses: Sequence[Address]) -> dict[Address, int]:
    edits = {address: rows.edits.get(address.number) for address in addresses if address.kind == "edit"}
    overlays = {address: rows.overlays.get(address.number) for address in addresses if address.kind == "overlay"}
    return {address: row.tree for address, row in (edits | overlays).items() if row is not None}


def ranges_of(rows: Rows, namespace: str, selection: SessionSelection) -> list[Range]:
    """All texts of the families of the selected sessions."""
    index, families = rows.indexes.get(namespace), _families(rows, namespace, selection)
    texts = {} if index is None else index.texts
    return [(address, address) for address, text in texts.items() if text.family in families]


def _families(rows: Rows, namespace: str, selection: SessionSelection) -> set[int]:
    return {row.family for row in rows.sessions.values() if row.namespace == namespace and selection.includes(row)}
