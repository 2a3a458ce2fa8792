"""Plans on SQLite: what is not done by the shared statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from frontdesk.errors import SessionExistsError
from frontdesk.store import Append, AppendResult, Plan, Range, SessionRow, ViewRow
from frontdesk.stores.sql import plans
from frontdesk.stores.sql import sessions as shared_sessions
from frontdesk.stores.sql.database import run
from frontdesk.stores.sqlite import append, index, log, sessions, vectors
from frontdesk.stores.sqlite.connections import SQLiteConnection
from frontdesk.stores.sqlite.database import SQLiteDatabase, draw


class SQLitePlans(SQLiteDatabase):
    """A connection on which plans are applied."""

    async def add_session(self, ns: str, row: SessionRow, view: ViewRow | None) -> SessionRow:
        number = draw(self.connection, "session")
        row = replace(row, number=number, tree=row.tree or number, family=row.family or number)
        if await shared_sessions.taken(self, row) is not None:
            raise SessionExistsError(row.id, ns)
        return await shared_sessions.insert(self, ns, row, view)

    async def take_key(self, ns: str, session: SessionRow) -> None:
        if sessions.may_take_key(self.connection, replace(session, namespace=ns)):
            self.connection.execute("UPDATE sessions SET key_current = 1 WHERE number = ?", (session.number,))

    async def append(self, request: Append) -> AppendResult:
        return append.append(self.connection, request)

    def columns_of_end(self, plan: Plan) -> dict[str, Any]:
        return {}

    async def lock_index(self, ns: str) -> None:
        """There is one writer."""

    async def forget_texts(self, ns: str, removed: Sequence[Range]) -> None:
        index.forget(self.connection, removed)
        vectors.forget(self.connection, removed)

    async def forget_changes(self, ns: str, numbers: Sequence[int]) -> None:
        log.forget(self.connection, numbers)


def apply(connection: SQLiteConnection, plan: Plan) -> bool:
    return run(plans.apply(SQLitePlans(connection), plan))
