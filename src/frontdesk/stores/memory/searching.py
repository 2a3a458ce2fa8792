"""The search index through the seam, and what searching reads of the memory store in bulk."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.store import (
    IndexBatch,
    IndexMatch,
    IndexQuery,
    IndexRow,
    IndexText,
    Place,
    SegmentRow,
    SessionRow,
    TreeRows,
)
from frontdesk.stores.memory.reading import Reading
from frontdesk.stores.memory.terms import TermIndex


class Searching(Reading):
    """The part of the seam that searching uses."""

    async def index_state(self, namespace: str) -> IndexRow | None:
        with self._held():
            index = self._indexes.get(namespace)
            if index is None or index.state is None:
                return None
            return IndexRow(index.state, len(index.texts), index.length)

    async def write_index(self, batch: IndexBatch) -> bool:
        with self._held():
            index = self._indexes.setdefault(batch.namespace, TermIndex())
            if index.state != batch.replaces:
                return False
            for text in batch.texts:
                standing = self._standing(batch.namespace, text)
                if standing is not None:
                    index.put(text, *standing)
            index.state = batch.state
            return True

    def _standing(self, namespace: str, text: IndexText) -> tuple[Place | None, int] | None:
        """Where a text stands and its family, if what it was made from is still there."""
        kind, number, position = text.address
        if kind == "message":
            row = self._rows.get(number, {}).get(position)
            if row is None or (row.message.raw,) != text.content:
                return None
            return Place(number, position), row.family
        if kind == "edit":
            edit = self._edits.get(number)
            return None if edit is None else (Place(edit.segment, edit.first), self._family_of(edit.segment))
        if kind == "overlay":
            overlay = self._overlays.get(number)
            return None if overlay is None else (None, self._family_of(overlay.start.segment, overlay.end.segment))
        session = self._sessions.get(number)
        if session is None or (session.name, session.summary) != text.content:
            return None
        return None, session.family

    def _family_of(self, *segments: int) -> int:
        """The family of the messages in these segments."""
        rows = (row for segment in segments for row in self._rows.get(segment, {}).values())
        return next((row.family for row in rows), 0)

    async def frequencies(self, namespace: str, terms: Sequence[str]) -> list[int]:
        with self._held():
            index = self._indexes.get(namespace) or TermIndex()
            return [len(index.holding(term)) for term in terms]

    async def matches(self, query: IndexQuery) -> list[IndexMatch]:
        with self._held():
            index = self._indexes.get(query.namespace)
            return [] if index is None else index.matches(query)

    async def segments(self, namespace: str, numbers: Sequence[int]) -> list[SegmentRow]:
        with self._held():
            return [self._segments[number] for number in numbers if number in self._segments]

    async def sessions(self, namespace: str, numbers: Sequence[int]) -> list[SessionRow]:
        with self._held():
            return [self._sessions[number] for number in dict.fromkeys(numbers) if number in self._sessions]

    async def relatives(self, namespace: str, families: Sequence[int]) -> list[SessionRow]:
        with self._held():
            return [
                self._sessions[number]
                for family in dict.fromkeys(families)
                for number in sorted(self._by_family.get(family, ()))
            ]

    async def families(self, namespace: str, after: int, limit: int) -> list[int]:
        with self._held():
            known = {row.family for row in self._sessions.values() if row.namespace == namespace}
            return sorted(family for family in known if family > after)[:limit]

    async def trees(self, namespace: str, session_ids: Sequence[str], *, family: bool = False) -> list[TreeRows]:
        with self._held():
            rows = (self._get(namespace, session_id) for session_id in session_ids)
            return [self._tree(row, (), family) for row in rows if row is not None]
