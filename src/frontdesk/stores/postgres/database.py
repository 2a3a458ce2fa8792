"""PostgreSQL as the shared operations see it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

from frontdesk.store import NewChange
from frontdesk.stores.postgres import log
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import NOW, namespace_of
from frontdesk.stores.sql.database import Database, Dialect, Kind, Row

P = ParamSpec("P")
T = TypeVar("T")
_HERE = "(SELECT number FROM {schema}.namespaces WHERE name = :namespace)"
_NO_LIMIT = 86_400.0
"""seconds that removing very many rows may take"""
_BYTES = (
    "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c"
    " WHERE c.relnamespace = $1::text::regnamespace AND c.relkind = 'r'"
)


def _minutes() -> Iterator[tuple[str, str]]:
    """The words for activity by the minute; see `sessions` in the schema."""
    for alias in "spk":
        yield f"{{minute {alias}}}", f"{alias}.active_minute DESC, "
    yield "{minute,}", "s.active_minute, "
    for name, sign in (("after_active", "<="), ("idle_since", "<="), ("idle_since", ">")):
        yield f"{{minute {sign} :{name}}}", _bounded("active", "<=" if sign == "<=" else ">=", name)
    for kind in ("active", "archive"):
        yield f"{{{kind} minute <=}}", _bounded(kind, "<=", "bound")
        yield f"{{{kind} minute >=}}", _bounded(kind, ">=", "after_moment")
        yield f"{{{kind} minute order}}", f"s.{kind}_minute, "


def _bounded(kind: str, sign: str, name: str) -> str:
    return f"s.{kind}_minute {sign} CAST(:{name} AS bigint) / 60000000 AND "


DIALECT = Dialect(
    "$",
    {
        **dict(_minutes()),
        "{here}": _HERE,
        "{in_here}": f"ns = {_HERE} AND",
        "{lock}": "FOR UPDATE",
        "{share}": "FOR SHARE",
        "{share_key}": "FOR KEY SHARE",
        "{keep}": "ON CONFLICT DO NOTHING",
        "{number,}": "number,",
        "{:number,}": "{schema}.new_number(:ns),",
        "{block_version}": "(p.blocks::jsonb -> CAST(:label AS text) ->> 0)::bigint",
        "{sum_of_costs}": "CAST(sum(CAST(u.cost AS numeric)) AS text)",
        "{new_ns}": "{schema}.namespace(:namespace)",
        "{, due}": ", due = CASE WHEN s.ttl IS NOT DISTINCT FROM :ttl THEN s.due ELSE {now} + :ttl END",
        "{now}": NOW,
        "{skip_locked}": "FOR UPDATE SKIP LOCKED",
        "{numbers}": (
            "(SELECT u.number, u.place FROM unnest(CAST(:numbers AS bigint[])) WITH ORDINALITY u(number, place))"
        ),
        "{of_message}": "ns = :ns AND segment = :segment AND position = :position",
        "{in_span}": "ns = :ns AND segment = :segment AND position BETWEEN :first AND :last",
    },
    has_ns=True,
)


class PostgresDatabase:
    """A connection."""

    __slots__ = ("connection",)
    peers_in_order = True

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def fetch(self, text: str, /, **values: Any) -> Sequence[Row]:
        statement = DIALECT[text]
        return await self.connection.fetch(statement.text, *statement.pick(values))

    async def fetch_row(self, text: str, /, **values: Any) -> Row | None:
        statement = DIALECT[text]
        return await self.connection.fetch_row(statement.text, *statement.pick(values))

    async def fetch_value(self, text: str, /, **values: Any) -> Any:
        statement = DIALECT[text]
        return await self.connection.fetch_value(statement.text, *statement.pick(values))

    async def execute(self, text: str, /, **values: Any) -> int:
        statement = DIALECT[text]
        return await self.connection.execute(statement.text, *statement.pick(values))

    async def fetch_many(self, text: str, values: Sequence[Mapping[str, Any]]) -> Sequence[Row]:
        """One round trip."""
        statement = DIALECT[text]
        rows = [statement.pick(each) for each in values]
        return await self.connection.fetch_many(statement.text, rows) if rows else []

    async def execute_many(self, text: str, values: Sequence[Mapping[str, Any]], *, unlimited: bool = False) -> None:
        """One round trip."""
        statement = DIALECT[text]
        if values:
            rows = [statement.pick(each) for each in values]
            await self.connection.execute_many(statement.text, rows, limit=_NO_LIMIT if unlimited else None)

    def transaction(self) -> AbstractAsyncContextManager[object]:
        return self.connection.transaction()

    async def namespace(self, name: str) -> int:
        number: int = await self.connection.fetch_value("SELECT {schema}.namespace($1)", name)
        return number

    def ns_of(self, number: int) -> int:
        return namespace_of(number)

    async def draw(self, ns: int, kind: Kind, count: int) -> list[int]:
        numbers = "SELECT {schema}.new_number($1) FROM generate_series(1, $2)"
        return sorted(number for (number,) in await self.connection.fetch(numbers, ns, count))

    async def size(self) -> int:
        return int(await self.connection.fetch_value(_BYTES, self.connection.schema))

    async def log(self, ns: int, session: int, at: int, changes: Sequence[NewChange]) -> None:
        await log.write(self.connection, ns, session, at, changes)


def shared(
    operation: Callable[Concatenate[Database, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Connection, P], Coroutine[Any, Any, T]]:
    """An operation of `stores.sql` as one of this store."""

    def work(connection: Connection, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return operation(PostgresDatabase(connection), *args, **kwargs)

    return work
