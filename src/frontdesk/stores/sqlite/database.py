"""SQLite as the shared operations see it. The engine begins and ends the transactions, on its threads: no call
suspends."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Concatenate, ParamSpec, TypeVar

from frontdesk.moments import now
from frontdesk.store import NewChange
from frontdesk.stores.sql.database import Database, Dialect, Kind, Row, run
from frontdesk.stores.sql.rows import json_text
from frontdesk.stores.sqlite import log
from frontdesk.stores.sqlite.connections import Cursor, SQLiteConnection
from frontdesk.stores.sqlite.rows import POSITION_BITS

P = ParamSpec("P")
T = TypeVar("T")

DIALECT = Dialect(
    "?",
    {
        "{schema}.": "",
        "{here}": ":namespace",
        "{in_here}": "",
        "{now}": ":now",
        "{lock}": "",
        "{share}": "",
        "{share_key}": "",
        "{keep}": "ON CONFLICT DO NOTHING",
        "{number,}": "",
        "{:number,}": "",
        "{block_version}": "(SELECT json_extract(b.value, '$[0]') FROM json_each(p.blocks) b WHERE b.key = :label)",
        "{sum_of_costs}": "group_concat(u.cost, ' ')",
        "{new_ns}": ":namespace",
        "{, due}": "",  # a trigger changes it, so that the index of `due` is not written to without need
        "{skip_locked}": "",
        "{numbers}": "(SELECT value AS number, key AS place FROM json_each(:numbers))",
        "{of_message}": f"place = (:segment << {POSITION_BITS} | :position)",
        "{in_span}": f"place BETWEEN (:segment << {POSITION_BITS} | :first) AND (:segment << {POSITION_BITS} | :last)",
    },
    has_ns=False,
    by=r"INDEXED BY \1",
)


class SQLiteDatabase:
    """A connection, inside the transaction that the engine has begun. `{now}` is the clock of the machine, which all
    processes that share a file have in common."""

    __slots__ = ("connection",)
    peers_in_order = False

    def __init__(self, connection: SQLiteConnection) -> None:
        self.connection = connection

    async def fetch(self, text: str, /, **values: Any) -> Sequence[Row]:
        rows: Sequence[Row] = self._execute(text, values).fetchall()
        return rows

    async def fetch_row(self, text: str, /, **values: Any) -> Row | None:
        rows = self._execute(text, values).fetchall()
        return rows[0] if rows else None

    async def fetch_value(self, text: str, /, **values: Any) -> Any:
        rows = self._execute(text, values).fetchall()
        return rows[0][0] if rows else None

    async def execute(self, text: str, /, **values: Any) -> int:
        self._execute(text, values).fetchall()
        return self.connection.changes()

    async def fetch_many(self, text: str, values: Sequence[Mapping[str, Any]]) -> Sequence[Row]:
        return [row for each in values for row in self._execute(text, {**each})]

    async def execute_many(self, text: str, values: Sequence[Mapping[str, Any]], *, unlimited: bool = False) -> None:
        statement = DIALECT[text]
        self.connection.executemany(statement.text, map(statement.pick, values))

    def _execute(self, text: str, values: dict[str, Any]) -> Cursor:
        statement = DIALECT[text]
        if "now" in statement.names:
            values["now"] = now()
        if "numbers" in statement.names:
            values["numbers"] = json_text(values["numbers"])
        return self.connection.execute(statement.text, statement.pick(values))

    def transaction(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    async def namespace(self, name: str) -> str:
        return name

    def ns_of(self, number: int) -> None:
        return None

    async def draw(self, ns: str, kind: Kind, count: int) -> list[int]:
        return [draw(self.connection, kind) for _ in range(count)]

    async def size(self) -> int:
        pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        return int(self.connection.execute(pages).fetchone()[0])

    async def log(self, ns: str, session: int, at: int, changes: Sequence[NewChange]) -> None:
        for change in changes:
            log.write(self.connection, ns, session, at, change)


def draw(connection: SQLiteConnection, kind: Kind) -> int:
    """A number for a session or a tree (which share theirs), a segment, an overlay or an edit, that none ever had."""
    table = f"{kind}s"
    bump = "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = ? RETURNING seq"
    found = connection.execute(bump, (table,)).fetchall()
    if not found:
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, 0)", (table,))
        found = connection.execute(bump, (table,)).fetchall()
    number: int = found[0][0]
    return number


def shared(
    operation: Callable[Concatenate[Database, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SQLiteConnection, P], T]:
    """An operation of `stores.sql` as one of this store."""

    def work(connection: SQLiteConnection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(operation(SQLiteDatabase(connection), *args, **kwargs))

    return work
