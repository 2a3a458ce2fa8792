"""What is changed beside appending: new sessions, plans, and lines of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from frontdesk.errors import SessionExistsError, SessionNotFoundError, TurnLostError
from frontdesk.store import (
    NewChange,
    NewEdit,
    NewFork,
    NewOverlay,
    NewSession,
    Place,
    Plan,
    SessionRow,
    UsageRow,
    ViewRow,
)
from frontdesk.store.changes import session_created
from frontdesk.stores.postgres.documents import Documents
from frontdesk.stores.postgres.engine import Connection
from frontdesk.stores.postgres.index import Index
from frontdesk.stores.postgres.log import Log
from frontdesk.stores.postgres.rows import (
    columns_of,
    digest,
    message_text,
    namespace_of,
    new_session_values,
    session_columns,
    session_row,
    tag_digests,
    view_text,
)
from frontdesk.stores.postgres.vectors import Vectors

_SIZES = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "cost",
)
_NO_LIMIT = 86_400.0
"""seconds that removing very many rows may take"""


class Changer:
    """Writes through a connection, in one schema. Every method but `create` and `add_usage` wants a transaction."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._documents = Documents(schema)
        self._index = Index(schema)
        self._log = Log(schema)
        self._vectors = Vectors(schema)
        totals = ", ".join(f"{name} = d.{name} + excluded.{name}" for name in _SIZES)
        self._usage = (
            f"WITH s AS (SELECT ns, number FROM {schema}.sessions WHERE ns = (SELECT number FROM {schema}.namespaces"
            " WHERE name = $1) AND id = $2 AND id <> '' FOR UPDATE),"
            f" line AS (INSERT INTO {schema}.usage_lines SELECT s.ns, s.number, $3, $4, $5, $6, $7, $8, $9, $10,"
            " $11, $12 FROM s ON CONFLICT DO NOTHING RETURNING *),"
            f" total AS (UPDATE {schema}.sessions x SET input_tokens = x.input_tokens + line.input_tokens,"
            " output_tokens = x.output_tokens + line.output_tokens, cost = x.cost + line.cost,"
            f" updated_at = greatest(x.updated_at, line.at), changed_in = greatest(x.changed_in, {schema}.this_xid())"
            " FROM line WHERE x.ns = line.ns AND x.number = line.session RETURNING x.*),"
            f" logged AS (INSERT INTO {schema}.changes (ns, xid, position, at, session, kind) SELECT ns, changed_in,"
            f" nextval('{schema}.change_positions'), updated_at, number, 'usage.added' FROM total),"
            f" day AS (INSERT INTO {schema}.usage_days AS d SELECT ns, day, $13, model, {', '.join(_SIZES)} FROM line"
            f" ON CONFLICT (ns, day, digest) DO UPDATE SET {totals})"
            " SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM line)"
        )

    async def create(self, connection: Connection, new: NewSession) -> SessionRow | None:
        """The new session, or None if its id or key is taken."""
        return await self._insert(connection, new, None)

    async def _insert(
        self, connection: Connection, new: NewSession, view_items: ViewRow | None, **more: Any
    ) -> SessionRow | None:
        values = {**new_session_values(new), **more}
        created = session_created(new.parent_session_id)
        own = ["number", "tree"] if "family" in values else ["number", "tree", "family"]
        marks = ", ".join(f"${index}" for index in range(5, len(values) + 5))
        row = await connection.fetchrow(
            f"WITH x AS MATERIALIZED (SELECT ns, {self._schema}.new_number(ns) AS number"
            f" FROM {self._schema}.namespace($1) ns),"
            f" new AS (INSERT INTO {self._schema}.sessions (ns, {', '.join(own)}, changed_in, {', '.join(values)})"
            f" SELECT x.ns, {', '.join('x.number' for _ in own)}, {self._schema}.this_xid(), {marks} FROM x"
            " ON CONFLICT DO NOTHING RETURNING *),"
            f" tagged AS (INSERT INTO {self._schema}.session_tags SELECT new.ns, t.digest, new.number"
            " FROM new, unnest($2::bytea[]) t(digest)),"
            f" logged AS (INSERT INTO {self._schema}.changes (ns, xid, position, at, session, kind, detail)"
            f" SELECT new.ns, new.changed_in, nextval('{self._schema}.change_positions'), new.created_at, new.number,"
            f" '{created.kind}', $4::text FROM new),"
            f" viewed AS (INSERT INTO {self._schema}.views SELECT new.ns, new.number, $3::text FROM new"
            " WHERE $3::text IS NOT NULL)"
            f" SELECT {session_columns('new')} FROM new",
            new.namespace,
            tag_digests(new.tags),
            None if view_items is None else view_text(view_items),
            created.detail,
            *values.values(),
        )
        return None if row is None else session_row(new.namespace, row)

    # plans

    async def apply(self, connection: Connection, plan: Plan) -> bool:
        """Do all that a plan says, or nothing if a guard does not hold; `SessionExistsError` for a fork's taken id."""
        ns = namespace_of(plan.guards[0][0])
        session = await self._guarded(connection, ns, plan)
        if session is None:
            return False
        if _takes_texts(plan):
            await self._index.lock(connection, ns, shared=True)
        await self._change_rows(connection, ns, plan)
        overlays = await self._change_overlays(connection, ns, session, plan)
        edits = await self._change_edits(connection, ns, session, plan)
        await self._change_session(connection, ns, session, plan)
        await self._log.write(connection, ns, session.number, plan.now, _numbered(plan.log, overlays, edits))
        if plan.fork is not None:
            await self._fork(connection, ns, session, plan.fork)
        if plan.create is not None and await self._insert(connection, plan.create, None) is None:
            raise SessionExistsError(plan.create.id, plan.create.namespace)
        if plan.drop_prompt:
            await self._documents.drop(connection, ns, session.number)
        await self._delete_sessions(connection, ns, plan.delete_sessions)
        await self._log.forget(connection, ns, plan.delete_sessions)
        await self._index.forget(connection, ns, session, plan)
        await self._vectors.forget(connection, ns, plan)
        return True

    async def _guarded(self, connection: Connection, ns: int, plan: Plan) -> SessionRow | None:
        """Lock the guarded sessions, and give the first if all are as the plan wants them."""
        guards = dict(plan.guards)
        rows = await connection.fetch(
            f"SELECT {session_columns('s')} FROM {self._schema}.sessions s"
            " WHERE s.ns = $1 AND s.number = ANY($2::bigint[]) ORDER BY s.number FOR UPDATE",
            ns,
            sorted(guards),
        )
        found = {session.number: session for session in (session_row("", row) for row in rows)}
        if plan.fence is not None and (fenced := found.get(plan.guards[0][0])) is not None:
            await self._check_fence(connection, ns, fenced, plan.fence)
        if any(number not in found or found[number].revision != guards[number] for number in guards):
            return None
        session = found[plan.guards[0][0]]
        return None if plan.head is not None and plan.head != session.head else session

    async def _check_fence(self, connection: Connection, ns: int, session: SessionRow, fence: int) -> None:
        if not await connection.fetchval(f"SELECT {self._schema}.has_turn($1, $2, $3)", ns, session.number, fence):
            raise TurnLostError(session.id, fence)

    async def _run(
        self, connection: Connection, ns: int, statement: str, *columns: Sequence[Any], limit: float | None = None
    ) -> None:
        """One statement over columns of values as $2, $3, ...; nothing if they are empty."""
        if columns[0]:
            await connection.execute(statement.replace("{schema}", self._schema), ns, *columns, timeout=limit)

    async def _change_rows(self, connection: Connection, ns: int, plan: Plan) -> None:
        replaced = [
            (*place, change, new.id, new.role, new.tokens, new.created_at, new.raw, new.derived)
            for place, new, change in plan.replace_rows
        ]
        await self._run(
            connection,
            ns,
            "WITH r AS (SELECT * FROM unnest($2::bigint[], $3::integer[], $4::bigint[], $5::text[], $6::text[],"
            " $7::bigint[], $8::bigint[], $9::text[], $10::text[])"
            " r(segment, position, change, id, role, tokens, created_at, raw, derived)),"
            " sums AS (UPDATE {schema}.segments t SET tokens = t.tokens + c.change FROM (SELECT segment,"
            " sum(change) AS change FROM r GROUP BY segment) c"
            " WHERE t.ns = $1 AND t.number = c.segment AND c.change <> 0)"
            " UPDATE {schema}.messages m SET id = r.id, role = r.role, tokens = r.tokens, created_at = r.created_at,"
            " raw = r.raw, derived = r.derived, running = m.running + r.change"
            " FROM r WHERE m.ns = $1 AND m.segment = r.segment AND m.position = r.position",
            *columns_of(replaced, 9),
        )
        await self._run(
            connection,
            ns,
            "DELETE FROM {schema}.messages m USING unnest($2::bigint[], $3::bigint[], $4::bigint[])"
            " d(segment, first, last)"
            " WHERE m.ns = $1 AND m.segment = d.segment AND m.position BETWEEN d.first AND d.last",
            *columns_of([(span.segment, span.first, span.last) for span in plan.delete_rows], 3),
            limit=_NO_LIMIT,
        )
        await self._set_segments(connection, ns, "last = n.position", plan.set_last)
        await self._set_segments(connection, ns, "shared = n.position", plan.set_shared)
        segments = list(plan.delete_segments)
        await self._run(
            connection,
            ns,
            "DELETE FROM {schema}.messages WHERE ns = $1 AND segment = ANY($2::bigint[])",
            segments,
            limit=_NO_LIMIT,
        )
        await self._run(
            connection, ns, "DELETE FROM {schema}.segments WHERE ns = $1 AND number = ANY($2::bigint[])", segments
        )

    async def _set_segments(self, connection: Connection, ns: int, change: str, places: Sequence[Place]) -> None:
        await self._run(
            connection,
            ns,
            f"UPDATE {{schema}}.segments t SET {change} FROM unnest($2::bigint[], $3::integer[]) n(segment, position)"
            " WHERE t.ns = $1 AND t.number = n.segment",
            *columns_of(places, 2),
        )

    async def _add(self, connection: Connection, ns: int, statement: str, *columns: Sequence[Any]) -> list[int]:
        """Insert rows by columns of values as $2, $3, ..., and give their numbers, which grow in the order of rows."""
        if not columns[0]:
            return []
        made = await connection.fetch(statement.replace("{schema}", self._schema) + " RETURNING number", ns, *columns)
        return sorted(number for (number,) in made)

    async def _change_overlays(self, connection: Connection, ns: int, session: SessionRow, plan: Plan) -> list[int]:
        """Gives the numbers of those that were added."""
        tree, revision = session.tree, session.revision + 1
        added = [
            (tree, revision, new.id, new.kind, *new.start, *new.end, new.tokens, *_rest(new))
            for new in plan.add_overlays
        ]
        numbers = await self._add(
            connection,
            ns,
            "INSERT INTO {schema}.overlays SELECT $1, {schema}.new_number($1), o.* FROM unnest($2::bigint[],"
            " $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::integer[], $8::bigint[], $9::integer[],"
            " $10::bigint[], $11::bigint[], $12::boolean[], $13::text[], $14::text[]) o",
            *columns_of(added, 13),
        )
        await self._run(
            connection,
            ns,
            "UPDATE {schema}.overlays SET stale = true WHERE ns = $1 AND number = ANY($2::bigint[])",
            plan.mark_overlays,
        )
        await self._run(
            connection,
            ns,
            "DELETE FROM {schema}.overlays WHERE ns = $1 AND number = ANY($2::bigint[])",
            plan.delete_overlays,
        )
        return numbers

    async def _change_edits(self, connection: Connection, ns: int, session: SessionRow, plan: Plan) -> list[int]:
        """Gives the numbers of those that were added."""
        tree, revision = session.tree, session.revision + 1
        added = [
            (tree, revision, new.kind, new.segment, new.first, new.last, new.tokens, *_subject(new))
            for new in plan.add_edits
        ]
        numbers = await self._add(
            connection,
            ns,
            "INSERT INTO {schema}.edits SELECT $1, {schema}.new_number($1), e.* FROM unnest($2::bigint[], $3::bigint[],"
            " $4::text[], $5::bigint[], $6::integer[], $7::integer[], $8::bigint[], $9::bigint[], $10::text[]) e",
            *columns_of(added, 9),
        )
        await self._run(
            connection,
            ns,
            "DELETE FROM {schema}.edits WHERE ns = $1 AND number = ANY($2::bigint[])",
            plan.delete_edits,
        )
        await self._run(
            connection,
            ns,
            "DELETE FROM {schema}.lineage WHERE ns = $1 AND tree = ANY($2::bigint[])",
            plan.delete_lineage,
        )
        return numbers

    async def _fork(self, connection: Connection, ns: int, source: SessionRow, fork: NewFork) -> None:
        segment, position = fork.base or (None, None)
        new = await self._insert(
            connection,
            fork.session,
            fork.view,
            family=source.family,
            base_segment=segment,
            base_position=position,
            head_segment=segment,
            head_position=position,
            tail=0 if position is None else position + 1,
            view="plain" if position is None else "stale" if fork.view is None else "stored",
            view_tokens=fork.view_tokens,
            view_messages=fork.view_messages,
            message_count=fork.message_count,
            compaction_count=fork.compaction_count,
            prompt_tokens=source.prompt_tokens,
        )
        if new is None:
            raise SessionExistsError(fork.session.id, fork.session.namespace)
        await connection.execute(
            f"INSERT INTO {self._schema}.lineage VALUES ($1, $2, $3, $4)",
            ns,
            new.tree,
            source.tree,
            source.revision + 1,
        )
        await self._set_segments(connection, ns, "shared = greatest(t.shared, n.position)", fork.share)
        await self._documents.copy(connection, ns, source.number, new.number)

    async def _change_session(self, connection: Connection, ns: int, session: SessionRow, plan: Plan) -> None:
        values: dict[str, Any] = {"revision": session.revision + 1}
        columns: dict[str, Any] = {**plan.set}
        for name, value in columns.items():
            if name in ("head", "base"):
                values[f"{name}_segment"], values[f"{name}_position"] = value or (None, None)
            else:
                values[name] = Decimal(value) if name == "cost" else value
        values |= {name: getattr(session, name) + amount for name, amount in plan.add.items()}
        if plan.fresh_tree:
            values["tree"] = await connection.fetchval(f"SELECT {self._schema}.new_number($1)", ns)
        changes = ", ".join(f"{name} = ${index}" for index, name in enumerate(values, 3))
        await connection.execute(
            f"UPDATE {self._schema}.sessions SET {changes} WHERE ns = $1 AND number = $2",
            ns,
            session.number,
            *values.values(),
        )
        if plan.take_key:
            await connection.execute(f"SELECT {self._schema}.take_key($1, $2)", ns, session.number)
        if plan.view is not None:
            await connection.execute(
                f"INSERT INTO {self._schema}.views VALUES ($1, $2, $3)"
                " ON CONFLICT (ns, session) DO UPDATE SET items = excluded.items",
                ns,
                session.number,
                view_text(plan.view),
            )
        if "tags" in plan.set:
            await connection.execute(
                f"DELETE FROM {self._schema}.session_tags WHERE ns = $1 AND session = $2", ns, session.number
            )
            await connection.execute(
                f"INSERT INTO {self._schema}.session_tags SELECT $1, t.digest, $2 FROM unnest($3::bytea[]) t(digest)",
                ns,
                session.number,
                tag_digests(plan.set["tags"]),
            )

    async def _delete_sessions(self, connection: Connection, ns: int, numbers: Sequence[int]) -> None:
        states = (
            "DELETE FROM {schema}.states t USING {schema}.sessions s WHERE s.ns = $1 AND s.number = ANY($2::bigint[])"
            " AND t.ns = s.ns AND t.id = s.id"
        )
        await self._run(connection, ns, states, numbers)
        for table, column in (
            ("views", "session"),
            ("session_tags", "session"),
            ("usage_lines", "session"),
            ("documents", "session"),
            ("prompts", "session"),
            ("leases", "session"),
            ("lease_waiters", "session"),
            ("queued_messages", "session"),
            ("sessions", "number"),
        ):
            statement = f"DELETE FROM {{schema}}.{table} WHERE ns = $1 AND {column} = ANY($2::bigint[])"
            await self._run(connection, ns, statement, numbers)

    # the ledger

    async def add_usage(self, connection: Connection, namespace: str, session_id: str, line: UsageRow) -> bool:
        """False if the session has a line with this id. Raises `SessionNotFoundError`."""
        sessions, lines = await connection.fetchrow(
            self._usage,
            namespace,
            session_id,
            line.id,
            line.day,
            line.model,
            line.at,
            *(Decimal(line.cost) if name == "cost" else getattr(line, name) for name in _SIZES),
            b"" if line.model is None else digest(line.model),
        )
        if not sessions:
            raise SessionNotFoundError(session_id, namespace)
        return bool(lines)


def _numbered(log: Sequence[NewChange], overlays: Sequence[int], edits: Sequence[int]) -> list[NewChange]:
    """The lines of a plan with the numbers of the rows that were added for it."""
    return [
        replace(line, number=(overlays if line.kind == "compaction.added" else edits)[line.adds])
        if line.adds is not None
        else line
        for line in log
    ]


def _takes_texts(plan: Plan) -> bool:
    """Whether what can be found is taken away or replaced."""
    return bool(
        plan.delete_rows
        or plan.delete_segments
        or plan.replace_rows
        or plan.delete_edits
        or plan.delete_overlays
        or plan.delete_sessions
        or "name" in plan.set
        or "summary" in plan.set
    )


def _rest(new: NewOverlay) -> tuple[Any, ...]:
    return new.created_at, new.stale, new.summary, new.details


def _subject(new: NewEdit) -> tuple[Any, ...]:
    return new.overlay, message_text(new.message)
