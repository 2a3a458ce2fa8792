"""Versioned texts. Their writer locks the row of their owner, so that there is one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import DocumentName, DocumentRow, Fence, ForkedDocuments, Owner, OwnerQuery, SessionRow
from frontdesk.store.changes import RESERVED_PREFIX, block_changed
from frontdesk.stores.sql import leases, prompts
from frontdesk.stores.sql.database import SHARED, Database, Row
from frontdesk.stores.sql.digests import digest, owner_digest
from frontdesk.tree import guards

_NAMES = DocumentRow.__struct_fields__
_COLUMNS = ", ".join(_NAMES)
_WIDTH = len(_NAMES)
_NUMBER = (
    "CASE WHEN CAST(:session_id AS text) IS NULL"
    " THEN (SELECT -o.number FROM {schema}.document_owners o WHERE o.ns = {here} AND o.digest = :owner)"
    " ELSE (SELECT s.number FROM {schema}.sessions s WHERE s.ns = {here} AND s.id = :session_id AND s.id <> '') END"
)
"""the number of a session, or minus that of another owner"""
_READ = f"SELECT {_COLUMNS} FROM {{schema}}.documents x WHERE x.ns = {{here}} AND x.session = {_NUMBER}"
_GET = (
    f"SELECT {_COLUMNS}, CAST(:index AS integer) FROM {{schema}}.documents x WHERE x.ns = {{here}}"
    f" AND x.session = {_NUMBER} AND x.label_digest = :label AND x.key_digest = :key ORDER BY x.version DESC LIMIT 1"
)
_VERSIONS = f"{_READ} AND x.label_digest = :label AND x.key_digest = :key ORDER BY x.version DESC"
_IS_NEWEST = (
    "x.version = (SELECT max(y.version) FROM {schema}.documents y WHERE y.ns = x.ns AND y.session = x.session"
    " AND y.label_digest = x.label_digest AND y.key_digest = x.key_digest)"
)
_OF_LABEL = f"{_READ} AND x.label_digest = :label AND {_IS_NEWEST}"
_SESSION = "SELECT number FROM {schema}.sessions WHERE ns = :ns AND id = :session_id AND id <> ''"
_OWNER = "SELECT -number FROM {schema}.document_owners WHERE ns = :ns AND digest = :owner"
_ADD_OWNER = (
    "INSERT INTO {schema}.document_owners (ns, {number,} digest, scope, agent, channel, peer, thread)"
    " VALUES (:ns, {:number,} :owner, :scope, :agent, :channel, :peer, :thread) {keep}"
)
_OF = "ns = :ns AND session = :session AND label_digest = :label_digest AND key_digest = :key_digest"
_NEWEST = f"SELECT coalesce(max(version), 0) FROM {{schema}}.documents WHERE {_OF}"
_INSERT = (
    f"INSERT INTO {{schema}}.documents (ns, session, label_digest, key_digest, {_COLUMNS})"
    f" VALUES (:ns, :session, :label_digest, :key_digest, {', '.join(f':{name}' for name in _NAMES)})"
)
_COPY = (
    f"INSERT INTO {{schema}}.documents (ns, session, label_digest, key_digest, {_COLUMNS})"
    f" SELECT x.ns, CAST(:fork AS bigint), x.label_digest, x.key_digest, {', '.join(f'x.{name}' for name in _NAMES)}"
    f" FROM {{schema}}.documents x WHERE x.ns = :ns AND x.session = :session AND {_IS_NEWEST}"
)


async def get(db: Database, namespace: str, names: Sequence[DocumentName]) -> list[DocumentRow | None]:
    wanted = [_address(namespace, name) | {"index": index} for index, name in enumerate(names)]
    found = {row[_WIDTH]: _document(row) for row in await db.fetch_many(_GET, wanted)} if wanted else {}
    return [found.get(index) for index in range(len(names))]


async def list_label(db: Database, namespace: str, owner: Owner, label: str) -> list[DocumentRow]:
    address = _address(namespace, DocumentName(owner, label))
    return sorted(map(_document, await db.fetch(_OF_LABEL, **address)), key=lambda document: document.key)


async def versions(db: Database, namespace: str, name: DocumentName) -> list[DocumentRow]:
    return [_document(row) for row in await db.fetch(_VERSIONS, **_address(namespace, name))]


async def all_of(db: Database, namespace: str, owner: Owner) -> list[DocumentRow]:
    """All versions of all documents of an owner."""
    return [_document(row) for row in await db.fetch(_READ, **_address(namespace, DocumentName(owner, "")))]


async def restore(db: Database, namespace: str, owner: Owner, document: DocumentRow) -> None:
    """Write a version as it is, in place of one with the same number. Needs a transaction."""
    ns, number = await _locked(db, namespace, owner, None)
    of = _key(ns, number, document.label, document.key)
    same = f"DELETE FROM {{schema}}.documents WHERE {_OF} AND version = :version"
    await db.execute(same, **of, version=document.version)
    await db.execute(_INSERT, **of, **asdict(document))


async def put(
    db: Database,
    namespace: str,
    owner: Owner,
    document: DocumentRow,
    *,
    keep_history: bool = True,
    drop_prompt: bool = False,
    note: DocumentRow | None = None,
    fence: Fence | None = None,
) -> bool:
    """Needs a transaction."""
    ns, number = await _locked(db, namespace, owner, fence)
    for each in (document, note):
        if each is not None and not await _follows(db, ns, number, each):
            return False
    await _add(db, ns, number, document, keep_history=keep_history)
    if note is not None:
        await _add(db, ns, number, note, keep_history=False)
    if drop_prompt:
        await prompts.drop(db, ns, number)
    await _log(db, ns, number, owner, document)
    return True


async def _follows(db: Database, ns: Any, number: int, document: DocumentRow) -> bool:
    of = _key(ns, number, document.label, document.key)
    newest: int = await db.fetch_value(_NEWEST, **of)
    return document.version == newest + 1


async def _add(db: Database, ns: Any, number: int, document: DocumentRow, *, keep_history: bool) -> None:
    of = _key(ns, number, document.label, document.key)
    await db.execute(_INSERT, **of, **asdict(document))
    if not keep_history:
        older = f"DELETE FROM {{schema}}.documents WHERE {_OF} AND version < :version"
        await db.execute(older, **of, version=document.version)


async def rewrite(
    db: Database,
    namespace: str,
    name: DocumentName,
    versions: Sequence[DocumentRow],
    newest: int,
    *,
    hide: Sequence[int] = (),
    note: DocumentRow | None = None,
    fence: Fence | None = None,
) -> bool:
    """Needs a transaction."""
    try:
        ns, number = await _locked(db, namespace, name.owner, fence)
    except SessionNotFoundError:
        if versions or note is not None:
            raise
        return newest == 0
    of = _key(ns, number, name.label, name.key)
    if newest != await db.fetch_value(_NEWEST, **of):
        return False
    if note is not None:
        if not await _follows(db, ns, number, note):
            return False
        await _add(db, ns, number, note, keep_history=False)
    await db.execute(f"DELETE FROM {{schema}}.documents WHERE {_OF}", **of)
    await db.execute_many(_INSERT, [of | asdict(row) for row in versions])
    for row in versions:
        if row.version > newest:
            await _log(db, ns, number, name.owner, row)
    if hide:
        await prompts.hide(db, ns, name, hide)
    return True


async def _log(db: Database, ns: Any, number: int, owner: Owner, document: DocumentRow) -> None:
    await db.log(ns, max(number, SHARED), document.created_at, block_changed(document.label, owner.scope))


async def delete_owned(db: Database, query: OwnerQuery) -> int:
    """Needs a transaction. The owners are deleted first, which waits for their writers: only a later statement sees
    what those have written."""
    parts = {"agent": query.agent, "channel": query.channel, "peer": query.peer, "thread": query.thread}
    given = {part: value for part, value in parts.items() if value is not None}
    conditions = "".join(f" AND {part} = :{part}" for part in given)
    gone = await db.fetch(
        "DELETE FROM {schema}.document_owners WHERE ns = {here} AND scope <> 'namespace'"
        f"{conditions} RETURNING ns, -number",
        namespace=query.namespace,
        **given,
    )
    delete = "DELETE FROM {schema}.documents WHERE ns = :ns AND session = :session RETURNING label"
    labels = await db.fetch_many(delete, [{"ns": ns, "session": number} for ns, number in gone]) if gone else []
    return sum(not label.startswith(RESERVED_PREFIX) for (label,) in labels)


async def copy(db: Database, ns: Any, source: SessionRow, fork: int, wanted: ForkedDocuments) -> None:
    """Copy the current texts of a session and its frozen prompt to its fork, if they are wanted."""
    left = {f"left{index}": digest(label) for index, label in enumerate(wanted.leave)}
    others = "".join(f" AND x.label_digest <> :{name}" for name in left)
    await db.execute(_COPY + others, ns=ns, session=source.number, fork=fork, **left)
    for owner, label in wanted.copy:
        number = await db.fetch_value(_OWNER, ns=ns, owner=owner_digest(owner))
        if number is not None:
            await copy_labels(db, ns, number, fork, [label])
    added = [_key(ns, fork, row.label, row.key) | asdict(row) for row in wanted.add]
    await db.execute_many(_INSERT, added)
    if wanted.prompt:
        await prompts.copy(db, ns, source.number, fork)


async def copy_labels(db: Database, ns: Any, source: int, new: int, labels: Sequence[str]) -> None:
    """Copy the current texts of a session with these labels to another one."""
    for label in labels:
        statement = f"{_COPY} AND x.label_digest = :label"
        await db.execute(statement, ns=ns, session=source, fork=new, label=digest(label))


def _address(namespace: str, name: DocumentName) -> dict[str, Any]:
    owner = name.owner
    of_session = owner.scope == "session"
    return {
        "namespace": namespace,
        "session_id": owner.session_id if of_session else None,
        "owner": None if of_session else owner_digest(owner),
        "label": digest(name.label),
        "key": digest(name.key),
    }


def _key(ns: Any, number: int, label: str, key: str) -> dict[str, Any]:
    return {"ns": ns, "session": number, "label_digest": digest(label), "key_digest": digest(key)}


async def _locked(db: Database, namespace: str, owner: Owner, fence: Fence | None) -> tuple[Any, int]:
    """The namespace and the number of an owner, whose row is locked.

    An owner that is not a session is made if it is new. Raises `SessionNotFoundError`, `TurnLostError`."""
    ns = await db.namespace(namespace)
    if owner.scope == "session":
        number = await db.fetch_value(f"{_SESSION} {{lock}}", ns=ns, session_id=owner.session_id)
        await _check_fence(db, ns, fence)
        if number is None:
            raise SessionNotFoundError(owner.session_id or "", namespace)
        return ns, number
    await _check_fence(db, ns, fence)
    values = dict(zip(("scope", "agent", "channel", "peer", "thread"), owner.parts, strict=True))
    known = owner_digest(owner)
    while (number := await db.fetch_value(f"{_OWNER} {{lock}}", ns=ns, owner=known)) is None:
        await db.execute(_ADD_OWNER, ns=ns, owner=known, **values)
    return ns, number


async def _check_fence(db: Database, ns: Any, fence: Fence | None) -> None:
    """Raises `TurnLostError` if the turn is not held under this number. A takeover then waits for this transaction."""
    if fence is not None:
        number = await db.fetch_value(_SESSION, ns=ns, session_id=fence.session_id)
        turn = None if number is None else await leases.turn_of(db, ns, number)
        guards.check_fence(fence.session_id, fence.number, turn)


def _document(row: Row) -> DocumentRow:
    return DocumentRow(**dict(zip(_NAMES, row, strict=False)))
