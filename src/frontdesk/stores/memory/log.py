"""The change log of the memory store."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice, takewhile

from msgspec.structs import replace

from frontdesk.errors import ChangesTrimmedError
from frontdesk.store import BEGINNING, ChangeRow, Position
from frontdesk.stores.memory.rows import Rows


class Log(Rows):
    """The log of the seam."""

    async def changes(
        self, namespace: str, after: Position | None, limit: int, *, settled: bool = True
    ) -> list[ChangeRow]:
        with self._held():
            log = self._log.get(namespace, [])
            if after is not None and after < self._trimmed.get(namespace, BEGINNING):
                raise ChangesTrimmedError(namespace)
            start = 0 if after is None else bisect_right(log, after, key=lambda row: row.position)
            kept = (log[index] for index in range(start, len(log)) if self._is_kept(log[index]))
            return [self._whole(namespace, row) for row in islice(kept, limit)]

    async def last_change(self, namespace: str) -> Position:
        with self._held():
            log = self._log.get(namespace)
            return log[-1].position if log else BEGINNING

    async def wait_for_change(self, seconds: float) -> None:
        await self._bell.wait(seconds)

    async def trim_changes(self, namespace: str, before_at: int, limit: int, *, until: Position | None = None) -> int:
        with self._held():
            log = self._log.get(namespace)
            if not log:
                return 0
            oldest = islice(log, min(limit, len(log) - 1))
            end = log[-1].position if until is None else until
            old = sum(1 for _ in takewhile(lambda row: row.at < before_at and row.position <= end, oldest))
            if old:
                self._trimmed[namespace] = log[old - 1].position
                for row in log[:old]:
                    self._details.get((namespace, row.session), {}).pop(row.position, None)
                del log[:old]
            return old

    def _whole(self, namespace: str, row: ChangeRow) -> ChangeRow:
        session = self._sessions.get(row.session)
        detail = self._details.get((namespace, row.session), {}).get(row.position, "")
        return replace(row, session_id=None if session is None else session.id, detail=detail)
