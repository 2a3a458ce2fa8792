"""Plans on PostgreSQL: what is not done by the shared statements."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from frontdesk.errors import SessionExistsError
from frontdesk.store import Append, AppendResult, Plan, Range, SessionRow, ViewRow
from frontdesk.stores.postgres import append, index, log, sessions, vectors
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.database import PostgresDatabase
from frontdesk.stores.sql import plans

_LOCK_FAMILY = """
SELECT x.number FROM {schema}.sessions s JOIN {schema}.sessions x ON x.ns = s.ns AND x.family = s.family
WHERE s.ns = (SELECT number FROM {schema}.namespaces WHERE name = $1) AND s.id = $2 AND s.id <> ''
ORDER BY x.number FOR UPDATE OF x"""
_NO_END: dict[str, Any] = {"head_id": None, "head_next": None, "head_tokens": None}


class PostgresPlans(PostgresDatabase):
    """A connection on which plans are applied."""

    async def add_session(self, ns: int, row: SessionRow, view: ViewRow | None) -> SessionRow:
        made = await sessions.insert(self.connection, row, view)
        if made is None:
            raise SessionExistsError(row.id, row.namespace)
        return made

    async def take_key(self, ns: int, session: SessionRow) -> None:
        await sessions.take_key(self.connection, session.number)

    async def append(self, request: Append) -> AppendResult:
        return await append.append_locked(self.connection, request, secrets.randbits(63))

    def columns_of_end(self, plan: Plan) -> dict[str, Any]:
        """A plan changes no end but that of its own session: what is beyond it belongs to that session alone."""
        moves = "head" in plan.set or plan.fresh_tree or plan.delete_rows or plan.replace_rows or plan.set_last
        return _NO_END if moves else {}

    async def lock_index(self, ns: int) -> None:
        await index.lock(self.connection, ns, shared=True)

    async def forget_texts(self, ns: int, removed: Sequence[Range]) -> None:
        await index.remove(self.connection, ns, removed)
        await vectors.remove(self.connection, ns, removed)

    async def forget_changes(self, ns: int, numbers: Sequence[int]) -> None:
        await log.forget(self.connection, ns, numbers)


async def apply(connection: Connection, plan: Plan) -> bool:
    """Needs a transaction."""
    return await plans.apply(PostgresPlans(connection), plan)


async def lock_family(connection: Connection, namespace: str, session_id: str) -> None:
    """Lock a session, and those that share messages with it, until the end of the transaction."""
    await connection.fetch(_LOCK_FAMILY, namespace, session_id)
