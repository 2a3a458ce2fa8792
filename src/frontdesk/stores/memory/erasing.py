"""What an erasure needs besides plans, in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.store import RowCounts, Span
from frontdesk.stores.memory.rows import Rows


class Erasing(Rows):
    """Figures, and a log without those that are gone."""

    async def count_rows(self, session: int, spans: Sequence[Span]) -> RowCounts:
        with self._held():
            messages = [
                position
                for span in spans
                for position in self._rows.get(span.segment, {})
                if span.first <= position <= span.last
            ]
            documents = [
                version
                for (_, number, _), entries in self._documents.items()
                if number == session
                for versions in entries.values()
                for version in versions
            ]
            queued = [message for key, waiting in self._queued.items() if key[1] == session for message in waiting]
            return RowCounts(len(messages), len(documents), len(self._ledger.get(session, {})), len(queued))

    async def scrub(self, namespace: str) -> None:
        with self._held():
            log = self._log.get(namespace, [])
            # The newest stays: the position of the next one is counted from it.
            log[:-1] = [row for row in log[:-1] if self._is_kept(row)]
            for row in log:
                session = self._sessions.get(row.session)
                if row.kind == "session.created" and session is not None and session.parent_session_id is None:
                    self._details.get((namespace, row.session), {}).pop(row.position, None)
