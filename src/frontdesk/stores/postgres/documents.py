"""Versioned texts."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import DocumentName, DocumentRow, Fence, ForkedDocuments, Owner, OwnerQuery, SessionRow
from frontdesk.store.changes import RESERVED_PREFIX, block_changed
from frontdesk.stores.postgres import leases, log, prompts
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import HERE, SHARED, columns_of, digest, owner_digest
from frontdesk.tree import guards

_COLUMNS = ", ".join(DocumentRow.__struct_fields__)
_NUMBER = (
    "CASE WHEN $2::text IS NULL THEN (SELECT -o.number FROM {schema}.document_owners o"
    f" WHERE o.ns = {HERE} AND o.digest = $3::bytea)"
    f" ELSE (SELECT s.number FROM {{schema}}.sessions s WHERE s.ns = {HERE} AND s.id = $2 AND s.id <> '') END"
)
"""the number of the session $2, or (NULL) minus that of the owner $3, of the namespace $1"""
_GET = (
    "SELECT d.* FROM unnest($2::text[], $3::bytea[], $4::bytea[], $5::bytea[]) WITH ORDINALITY"
    " w(session_id, owner, label, key, index)"
    f" LEFT JOIN {{schema}}.document_owners o ON o.ns = {HERE} AND o.digest = w.owner"
    f" LEFT JOIN {{schema}}.sessions s ON s.ns = {HERE} AND s.id = w.session_id AND s.id <> ''"
    f" LEFT JOIN LATERAL (SELECT {_COLUMNS} FROM {{schema}}.documents x WHERE x.ns = {HERE}"
    " AND x.session = coalesce(s.number, -o.number) AND x.label_digest = w.label AND x.key_digest = w.key"
    " ORDER BY x.version DESC LIMIT 1) d ON true ORDER BY w.index"
)
_ENTRIES = (
    f"SELECT {_COLUMNS} FROM (SELECT DISTINCT ON (x.key_digest) x.* FROM {{schema}}.documents x"
    f" WHERE x.ns = {HERE} AND x.session = {_NUMBER} AND x.label_digest = $4"
    ' ORDER BY x.key_digest, x.version DESC) newest ORDER BY key COLLATE "C"'
)
_VERSIONS = (
    f"SELECT {_COLUMNS} FROM {{schema}}.documents x WHERE x.ns = {HERE}"
    f" AND x.session = {_NUMBER} AND x.label_digest = $4 AND x.key_digest = $5 ORDER BY x.version DESC"
)
_SESSION = "SELECT number FROM {schema}.sessions WHERE ns = $1 AND id = $2 AND id <> ''"
_OF = "ns = $1 AND session = $2 AND label_digest = $3 AND key_digest = $4"
_NEWEST = f"SELECT coalesce(max(version), 0) FROM {{schema}}.documents WHERE {_OF}"
_INSERT = (
    f"INSERT INTO {{schema}}.documents (ns, session, label_digest, key_digest, {_COLUMNS})"
    " SELECT $1, $2, r.* FROM unnest($3::bytea[], $4::bytea[], $5::text[], $6::text[], $7::bigint[], $8::text[],"
    " $9::text[], $10::text[], $11::bigint[]) r"
)
_COPY = (
    f"INSERT INTO {{schema}}.documents (ns, session, label_digest, key_digest, {_COLUMNS})"
    f" SELECT DISTINCT ON (label_digest, key_digest) ns, $3::bigint, label_digest, key_digest, {_COLUMNS}"
    " FROM {schema}.documents WHERE ns = $1 AND session = $2 AND %s ORDER BY label_digest, key_digest, version DESC"
)
_DELETE_OWNERS = (
    f"DELETE FROM {{schema}}.document_owners WHERE ns = {HERE} AND scope <> 'namespace'"
    " AND ($2::text IS NULL OR agent = $2) AND ($3::text IS NULL OR channel = $3)"
    " AND ($4::text IS NULL OR peer = $4) AND ($5::text IS NULL OR thread = $5) RETURNING -number AS number"
)
_DELETE_OWNED = (
    f"WITH d AS (DELETE FROM {{schema}}.documents WHERE ns = {HERE} AND session = ANY($2::bigint[]) RETURNING label)"
    f" SELECT count(*) FROM d WHERE NOT starts_with(label, '{RESERVED_PREFIX}')"
)


async def get(connection: Connection, namespace: str, names: Sequence[DocumentName]) -> list[DocumentRow | None]:
    wanted = [(*_address(name.owner), digest(name.label), digest(name.key)) for name in names]
    rows = await connection.fetch(_GET, namespace, *columns_of(wanted, 4))
    return [None if row[0] is None else DocumentRow(**row) for row in rows]


async def entries(connection: Connection, namespace: str, owner: Owner, label: str) -> list[DocumentRow]:
    rows = await connection.fetch(_ENTRIES, namespace, *_address(owner), digest(label))
    return [DocumentRow(**row) for row in rows]


async def versions(connection: Connection, namespace: str, name: DocumentName) -> list[DocumentRow]:
    rows = await connection.fetch(_VERSIONS, namespace, *_address(name.owner), digest(name.label), digest(name.key))
    return [DocumentRow(**row) for row in rows]


async def put(
    connection: Connection,
    namespace: str,
    owner: Owner,
    document: DocumentRow,
    *,
    keep_history: bool = True,
    drop_prompt: bool = False,
    fence: Fence | None = None,
) -> bool:
    """Needs a transaction."""
    ns, number = await _locked(connection, namespace, owner, fence)
    name = (ns, number, digest(document.label), digest(document.key))
    if document.version != 1 + await connection.fetch_value(_NEWEST, *name):
        return False
    await _insert(connection, ns, number, [document])
    if not keep_history:
        delete = f"DELETE FROM {{schema}}.documents WHERE {_OF} AND version < $5"
        await connection.execute(delete, *name, document.version)
    if drop_prompt:
        await prompts.drop(connection, ns, number)
    entries = block_changed(document.label, owner.scope)
    await log.write(connection, ns, max(number, SHARED), document.created_at, entries)
    return True


async def rewrite(
    connection: Connection,
    namespace: str,
    name: DocumentName,
    versions: Sequence[DocumentRow],
    newest: int,
    *,
    hide: Sequence[int] = (),
    fence: Fence | None = None,
) -> bool:
    """Needs a transaction."""
    try:
        ns, number = await _locked(connection, namespace, name.owner, fence)
    except SessionNotFoundError:
        if versions:
            raise
        return newest == 0
    of = (ns, number, digest(name.label), digest(name.key))
    if newest != await connection.fetch_value(_NEWEST, *of):
        return False
    await connection.execute(f"DELETE FROM {{schema}}.documents WHERE {_OF}", *of)
    await _insert(connection, ns, number, versions)
    for row in versions:
        if row.version > newest:
            entries = block_changed(row.label, name.owner.scope)
            await log.write(connection, ns, max(number, SHARED), row.created_at, entries)
    if hide:
        await prompts.hide(connection, ns, name, hide)
    return True


async def delete_owned(connection: Connection, query: OwnerQuery) -> int:
    """Needs a transaction. The owners are deleted first, which waits for their writers: only a later statement sees
    what those have written."""
    parts = (query.agent, query.channel, query.peer, query.thread)
    owners = [row["number"] for row in await connection.fetch(_DELETE_OWNERS, query.namespace, *parts)]
    return int(await connection.fetch_value(_DELETE_OWNED, query.namespace, owners)) if owners else 0


async def copy(connection: Connection, ns: int, source: SessionRow, fork: int, wanted: ForkedDocuments) -> None:
    """Copy the current texts of a session and its frozen prompt to its fork, as far as they are wanted."""
    left = [digest(label) for label in wanted.leave]
    await connection.execute(_COPY % "label_digest <> ALL($4::bytea[])", ns, source.number, fork, left)
    for owner, label in wanted.copy:
        find = "SELECT -number FROM {schema}.document_owners WHERE ns = $1 AND digest = $2"
        number = await connection.fetch_value(find, ns, owner_digest(owner))
        if number is not None:
            await connection.execute(_COPY % "label_digest = $4", ns, number, fork, digest(label))
    await _insert(connection, ns, fork, wanted.add)
    if wanted.prompt:
        await prompts.copy(connection, ns, source.number, fork)


async def copy_labels(connection: Connection, ns: int, source: int, new: int, labels: Sequence[str]) -> None:
    """Copy the current texts of a session with these labels to another one."""
    for label in labels:
        await connection.execute(_COPY % "label_digest = $4", ns, source, new, digest(label))


async def _insert(connection: Connection, ns: int, number: int, rows: Sequence[DocumentRow]) -> None:
    if rows:
        values = [(digest(row.label), digest(row.key), *astuple(row)) for row in rows]
        await connection.execute(_INSERT, ns, number, *columns_of(values, 9))


def _address(owner: Owner) -> tuple[str | None, bytes | None]:
    """The id of the session, or the digest of another owner."""
    return (owner.session_id, None) if owner.scope == "session" else (None, owner_digest(owner))


async def _locked(connection: Connection, namespace: str, owner: Owner, fence: Fence | None) -> tuple[int, int]:
    """The namespace and the number of an owner, whose row is locked, so that its documents have one writer at a time.

    An owner that is not a session is made if it is new. Raises `SessionNotFoundError`, `TurnLostError`."""
    ns = await connection.fetch_value("SELECT {schema}.namespace($1)", namespace)
    if owner.scope == "session":
        number = await connection.fetch_value(f"{_SESSION} FOR UPDATE", ns, owner.session_id)
        await _check_fence(connection, ns, fence)
        if number is None:
            raise SessionNotFoundError(owner.session_id or "", namespace)
        return ns, number
    await _check_fence(connection, ns, fence)
    values = (ns, owner_digest(owner), *owner.parts)
    lock = "SELECT -number FROM {schema}.document_owners WHERE ns = $1 AND digest = $2 FOR UPDATE"
    while (number := await connection.fetch_value(lock, *values[:2])) is None:
        await connection.execute(
            "INSERT INTO {schema}.document_owners (ns, number, digest, scope, agent, channel, peer, thread)"
            " VALUES ($1, {schema}.new_number($1), $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
            *values,
        )
    return ns, number


async def _check_fence(connection: Connection, ns: int, fence: Fence | None) -> None:
    """Raises `TurnLostError` if the turn is not held under this number. A takeover then waits for this transaction."""
    if fence is not None:
        number = await connection.fetch_value(_SESSION, ns, fence.session_id)
        turn = None if number is None else await leases.turn_of(connection, number)
        guards.check_fence(fence.session_id, fence.number, turn)
