"""Versioned texts and frozen prompts."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import DocumentRow, PromptRow
from frontdesk.store.changes import block_changed
from frontdesk.stores.postgres.engine import Connection
from frontdesk.stores.postgres.log import Log
from frontdesk.stores.postgres.rows import digest

SHARED = 0
"""the session number of what belongs to a whole namespace"""

_COLUMNS = "label, key, version, content, description, author, created_at"
_PROMPT = "number, text, tokens, fingerprint, blocks, created_at"


def owner(schema: str) -> str:
    """A query for (ns, session) of namespace $1 and session $2 (NULL: what is shared)."""
    return (
        f"SELECT n.number AS ns, CASE WHEN $2::text IS NULL THEN {SHARED} ELSE s.number END AS session"
        f" FROM {schema}.namespaces n LEFT JOIN {schema}.sessions s ON s.ns = n.number AND s.id = $2"
        " WHERE n.name = $1 AND ($2::text IS NULL OR s.number IS NOT NULL)"
    )


class Documents:
    """Reads and writes through a connection, in one schema. `put` and `put_prompt` want a transaction."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._log = Log(schema)
        self._owner = owner(schema)

    async def get(
        self, connection: Connection, namespace: str, session_id: str | None, names: Sequence[tuple[str, str]]
    ) -> list[DocumentRow]:
        rows = await connection.fetch(
            f"SELECT d.* FROM ({self._owner}) o, unnest($3::bytea[], $4::bytea[]) w(label, key), LATERAL ("
            f" SELECT {_COLUMNS} FROM {self._schema}.documents x WHERE x.ns = o.ns AND x.session = o.session"
            " AND x.label_digest = w.label AND x.key_digest = w.key ORDER BY x.version DESC LIMIT 1) d",
            namespace,
            session_id,
            [digest(label) for label, _ in names],
            [digest(key) for _, key in names],
        )
        return [DocumentRow(**row) for row in rows]

    async def entries(
        self, connection: Connection, namespace: str, session_id: str | None, label: str
    ) -> list[DocumentRow]:
        rows = await connection.fetch(
            f"SELECT {_COLUMNS} FROM (SELECT DISTINCT ON (x.key_digest) x.* FROM {self._schema}.documents x,"
            f" ({self._owner}) o WHERE x.ns = o.ns AND x.session = o.session AND x.label_digest = $3"
            ' ORDER BY x.key_digest, x.version DESC) newest ORDER BY key COLLATE "C"',
            namespace,
            session_id,
            digest(label),
        )
        return [DocumentRow(**row) for row in rows]

    async def versions(
        self, connection: Connection, namespace: str, session_id: str | None, label: str, key: str
    ) -> list[DocumentRow]:
        rows = await connection.fetch(
            f"SELECT {_COLUMNS} FROM {self._schema}.documents x, ({self._owner}) o WHERE x.ns = o.ns"
            " AND x.session = o.session AND x.label_digest = $3 AND x.key_digest = $4 ORDER BY x.version DESC",
            namespace,
            session_id,
            digest(label),
            digest(key),
        )
        return [DocumentRow(**row) for row in rows]

    async def put(
        self,
        connection: Connection,
        namespace: str,
        session_id: str | None,
        document: DocumentRow,
        keep_history: bool,
        drop_prompt: bool,
    ) -> bool:
        ns, session = await self._locked(connection, namespace, session_id)
        done = await connection.execute(
            f"INSERT INTO {self._schema}.documents SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11"
            f" WHERE $5 = 1 + (SELECT coalesce(max(version), 0) FROM {self._schema}.documents"
            " WHERE ns = $1 AND session = $2 AND label_digest = $3 AND key_digest = $4) ON CONFLICT DO NOTHING",
            ns,
            session,
            digest(document.label),
            digest(document.key),
            document.version,
            document.label,
            document.key,
            document.content,
            document.description,
            document.author,
            document.created_at,
        )
        if done != "INSERT 0 1":
            return False
        if not keep_history:
            await connection.execute(
                f"DELETE FROM {self._schema}.documents WHERE ns = $1 AND session = $2 AND label_digest = $3"
                " AND key_digest = $4 AND version < $5",
                ns,
                session,
                digest(document.label),
                digest(document.key),
                document.version,
            )
        if drop_prompt:
            await self.drop(connection, ns, session)
        await self._log.write(connection, ns, session, document.created_at, block_changed(document.label))
        return True

    async def drop(self, connection: Connection, ns: int, session: int) -> None:
        """Drop a session's frozen prompt: what was rendered before cannot be stored any more."""
        await connection.execute(
            f"INSERT INTO {self._schema}.prompts AS p VALUES ($1, $2, 1, '', 0, '', '{{}}', 0)"
            " ON CONFLICT (ns, session) DO UPDATE SET number = p.number + 1, text = '', tokens = 0,"
            " fingerprint = '', blocks = '{}'",
            ns,
            session,
        )
        await self._note_tokens(connection, ns, session, 0)

    async def _note_tokens(self, connection: Connection, ns: int, session: int, tokens: int) -> None:
        statement = f"UPDATE {self._schema}.sessions SET prompt_tokens = $3 WHERE ns = $1 AND number = $2"
        await connection.execute(statement, ns, session, tokens)

    async def get_prompt(self, connection: Connection, namespace: str, session_id: str) -> PromptRow | None:
        row = await connection.fetchrow(
            f"SELECT {_PROMPT} FROM {self._schema}.prompts p, ({self._owner}) o"
            " WHERE p.ns = o.ns AND p.session = o.session",
            namespace,
            session_id,
        )
        return None if row is None else PromptRow(**row)

    async def put_prompt(
        self, connection: Connection, namespace: str, session_id: str, prompt: PromptRow, replaces: int | None
    ) -> PromptRow:
        ns, session = await self._locked(connection, namespace, session_id)
        row = await connection.fetchrow(
            f"INSERT INTO {self._schema}.prompts AS p VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
            " ON CONFLICT (ns, session) DO UPDATE SET number = excluded.number, text = excluded.text,"
            " tokens = excluded.tokens, fingerprint = excluded.fingerprint,"
            " blocks = excluded.blocks, created_at = excluded.created_at"
            f" WHERE p.number = $9 RETURNING {_PROMPT}",
            ns,
            session,
            (replaces or 0) + 1,
            prompt.text,
            prompt.tokens,
            prompt.fingerprint,
            prompt.blocks,
            prompt.created_at,
            replaces,
        )
        if row is None:
            present = await self.get_prompt(connection, namespace, session_id)
            assert present is not None, "the session is locked, so the prompt that was in the way is still there"
            return present
        await self._note_tokens(connection, ns, session, prompt.tokens)
        return PromptRow(**row)

    async def _locked(self, connection: Connection, namespace: str, session_id: str | None) -> tuple[int, int]:
        """Namespace and session by number, the session's row locked. Raises `SessionNotFoundError`."""
        ns = await connection.fetchval(f"SELECT {self._schema}.namespace($1)", namespace)
        if session_id is None:
            return ns, SHARED
        number = await connection.fetchval(
            f"SELECT number FROM {self._schema}.sessions WHERE ns = $1 AND id = $2 FOR UPDATE", ns, session_id
        )
        if number is None:
            raise SessionNotFoundError(session_id, namespace)
        return ns, number

    async def copy(self, connection: Connection, ns: int, source: int, fork: int) -> None:
        """Give a fork the current texts of its source, and its frozen prompt."""
        await connection.execute(
            f"INSERT INTO {self._schema}.documents SELECT DISTINCT ON (label_digest, key_digest) ns, $3::bigint,"
            " label_digest, key_digest, version, label, key, content, description, author, created_at"
            f" FROM {self._schema}.documents WHERE ns = $1 AND session = $2"
            " ORDER BY label_digest, key_digest, version DESC",
            ns,
            source,
            fork,
        )
        await connection.execute(
            f"INSERT INTO {self._schema}.prompts SELECT ns, $3::bigint, {_PROMPT} FROM {self._schema}.prompts"
            " WHERE ns = $1 AND session = $2",
            ns,
            source,
            fork,
        )
