"""Notes of the families that an import writes in several transactions, so that what a killed one leaves is found."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.errors import ConcurrentChangeError
from frontdesk.store import UnfinishedSession
from frontdesk.stores.sql.database import Database

_NOTED = "ns = {here} AND family = :family"
_USAGE = (
    "DELETE FROM {schema}.usage_entries WHERE {ns} session IN"
    " (SELECT u.number FROM {schema}.unfinished_sessions u WHERE u.ns = {here} AND u.family = :family)"
)


async def begin(db: Database, namespace: str, family: int, sessions: Sequence[UnfinishedSession]) -> None:
    """Needs a transaction, like the others that write."""
    ns = await db.namespace(namespace)
    known = "SELECT family FROM {schema}.unfinished_sessions WHERE ns = {here} AND id = :id"
    for found in {await db.fetch_value(known, namespace=namespace, id=session.id) for session in sessions}:
        if found is not None:
            await remove(db, namespace, found)
    await db.execute_many(
        "INSERT INTO {schema}.unfinished_sessions (ns, id, number, family) VALUES (:row_ns, :id, :number, :family)",
        [{"row_ns": ns, "family": family, **session._asdict()} for session in sessions],
    )


async def families(db: Database, namespace: str) -> list[tuple[int, str]]:
    statement = (
        "SELECT family, id FROM {schema}.unfinished_sessions WHERE ns = {here} ORDER BY family DESC, number DESC"
    )
    return sorted({row[0]: row[1] for row in await db.fetch(statement, namespace=namespace)}.items())


async def remove(db: Database, namespace: str, family: int) -> None:
    # The note is locked first: the import that is writing the family waits, and then finds that it is gone.
    if not await _locked(db, namespace, family):
        return
    ns = db.ns_of(family)
    await db.execute_many(_USAGE, [{"ns": ns, **_of(namespace, family)}], unlimited=True)
    await db.execute_many(
        "DELETE FROM {schema}.messages WHERE {ns} family = :family", [{"ns": ns, "family": family}], unlimited=True
    )
    await _forget(db, namespace, family)


async def check(db: Database, namespace: str, family: int, *, finished: bool) -> None:
    """Raises `ConcurrentChangeError` if a family is not noted any more; otherwise it stays so until the transaction
    ends, or is not noted from then on because it is `finished`."""
    if not await (_forget if finished else _locked)(db, namespace, family):
        raise ConcurrentChangeError("another import or a check has removed the sessions that were being written")


async def _locked(db: Database, namespace: str, family: int) -> int:
    statement = f"SELECT id FROM {{schema}}.unfinished_sessions WHERE {_NOTED} {{lock}}"
    return len(await db.fetch(statement, **_of(namespace, family)))


async def _forget(db: Database, namespace: str, family: int) -> int:
    return await db.execute(f"DELETE FROM {{schema}}.unfinished_sessions WHERE {_NOTED}", **_of(namespace, family))


def _of(namespace: str, family: int) -> dict[str, object]:
    return {"namespace": namespace, "family": family}
