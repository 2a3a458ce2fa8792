"""The change log of the memory store."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice, takewhile

from msgspec.structs import replace

from frontdesk.errors import ChangesRewoundError, ChangesTrimmedError
from frontdesk.store import BEGINNING, ChangeRow, NewChange, Position, SessionRow
from frontdesk.store.changes import KEY_PARTS
from frontdesk.stores.memory.rows import Rows


def write(rows: Rows, namespace: str, session: int, at: int, change: NewChange, number: int = 0) -> None:
    """Add an entry, with `number` in place of its own if given."""
    log = rows.log[namespace]
    position = Position(log[-1].position.major + 1 if log else 1, 0, rows.epoch)
    if change.detail:
        rows.details[namespace, session][position] = change.detail
    where = change.segment, change.first, change.last
    log.append(ChangeRow(position, at, change.kind, session, None, *where, number or change.number))
    rows.bell.ring()


def add(rows: Rows, namespace: str, session_id: str, at: int, change: NewChange) -> bool:
    session = rows.get(namespace, session_id)
    if session is None:
        return False
    write(rows, namespace, session.number, at, change)
    return True


def read(rows: Rows, namespace: str, after: Position | None, limit: int, *, settled: bool = True) -> list[ChangeRow]:
    log = rows.log.get(namespace, [])
    if after is not None and after.epoch not in (0, rows.epoch):
        raise ChangesRewoundError(namespace, BEGINNING)
    if after is not None and after[:2] < rows.trimmed.get(namespace, BEGINNING)[:2]:
        raise ChangesTrimmedError(namespace)
    start = 0 if after is None else bisect_right(log, after[:2], key=lambda row: row.position[:2])
    kept = (log[index] for index in range(start, len(log)) if _is_kept(rows, log[index]))
    return [_whole(rows, namespace, row) for row in islice(kept, limit)]


def last(rows: Rows, namespace: str) -> Position:
    log = rows.log.get(namespace)
    return log[-1].position if log else BEGINNING


def trim(rows: Rows, namespace: str, before_at: int, limit: int, *, until: Position | None = None) -> int:
    log = rows.log.get(namespace)
    if not log:
        return 0
    oldest = islice(log, min(limit, len(log) - 1))
    end = log[-1].position if until is None else until
    old = sum(1 for _ in takewhile(lambda row: row.at < before_at and row.position[:2] <= end[:2], oldest))
    if old:
        rows.trimmed[namespace] = log[old - 1].position
        for row in log[:old]:
            rows.details.get((namespace, row.session), {}).pop(row.position, None)
        del log[:old]
    return old


def forget(rows: Rows, row: SessionRow) -> None:
    """Keep only the last entry of a deleted session, which says that it was deleted."""
    last = rows.log[row.namespace][-1].position
    details = rows.details.pop((row.namespace, row.number), {})
    if last in details:
        rows.details[row.namespace, row.number][last] = details[last]


def scrub(rows: Rows, namespace: str) -> None:
    """Remove entries of deleted sessions, and the ids of parents that were removed from their children."""
    log = rows.log.get(namespace, [])
    # The newest stays: the position of the next one is counted from it.
    log[:-1] = [row for row in log[:-1] if _is_kept(rows, row)]
    for row in log:
        session = rows.sessions.get(row.session)
        if row.kind == "session.created" and session is not None and session.parent_session_id is None:
            rows.details.get((namespace, row.session), {}).pop(row.position, None)


def _is_kept(rows: Rows, row: ChangeRow) -> bool:
    return row.session == 0 or row.session in rows.sessions or row.kind == "session.deleted"


def _whole(rows: Rows, namespace: str, row: ChangeRow) -> ChangeRow:
    session = rows.sessions.get(row.session)
    detail = rows.details.get((namespace, row.session), {}).get(row.position, "")
    if session is None:
        return replace(row, detail=detail)
    key = {part: getattr(session, part) for part in KEY_PARTS}
    return replace(row, session_id=session.id, detail=detail, **key)
