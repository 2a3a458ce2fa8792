"""States. Times are those of the store's clock. Reading and writing one is a single statement, and a write can be
repeated safely: it carries a mark."""

from __future__ import annotations

from typing import Any

from frontdesk.store import ListedState, OwnerFilter, StateKey, StateOwner, StateQuery, StateRow, StateWrite, Swept
from frontdesk.stores.sql.database import Database, Row

_FACTS = "mark, version, ttl, created_at, accessed_at, type_version, agent, channel, peer, thread"
_ROW = f"value, {_FACTS}"
_OWNER = "agent = {0}agent, channel = {0}channel, peer = {0}peer, thread = {0}thread"
_LIVE = "(s.ttl IS NULL OR {now} < s.accessed_at + s.ttl)"
_WAS_LIVE = _LIVE.replace("s.", "")
"""the same in RETURNING, where not every database knows an alias"""
_OF = "s.ns = {here} AND s.id = :id AND s.name = :name"
_OF_ROW = "ns = :ns AND id = :id AND name = :name"
_PEEK = f"SELECT {_ROW} FROM {{schema}}.states s WHERE {_OF} AND {_LIVE}"
_TOUCH = f"UPDATE {{schema}}.states AS s SET accessed_at = {{now}} WHERE {_OF} AND {_LIVE}"
_GET = f"{_TOUCH} RETURNING {_ROW}"
_CREATE = (
    "INSERT INTO {schema}.states AS s (ns, id, name, value, mark, ttl, type_version, agent, channel, peer, thread,"
    " version, created_at, accessed_at, due)"
    " SELECT {new_ns}, :id, :name, :value, :mark, CAST(:ttl AS bigint), :type_version, :agent, :channel, :peer,"
    " :thread, 1, t.at, t.at, t.at + :ttl FROM (SELECT {now} AS at LIMIT 1) t WHERE true"
    " ON CONFLICT (ns, name, id) DO UPDATE SET value = excluded.value, mark = excluded.mark, ttl = excluded.ttl,"
    f" type_version = excluded.type_version, {_OWNER.format('excluded.')}, version = 1,"
    " created_at = excluded.created_at, accessed_at = excluded.accessed_at, due = excluded.due"
    f" WHERE NOT {_LIVE} OR s.mark = excluded.mark RETURNING {_ROW}"
)
_REPLACE = (
    f"UPDATE {{schema}}.states AS s SET value = :value, mark = :mark, ttl = :ttl, type_version = :type_version,"
    f" {_OWNER.format(':')}, version = s.version + CASE WHEN s.mark = :mark THEN 0 ELSE 1 END,"
    f" accessed_at = {{now}}{{, due}} WHERE {_OF} AND s.mark IN (:mark, :seen) AND {_LIVE} RETURNING {_ROW}"
)
_PAGE = (
    f"SELECT s.id, '', {_FACTS} FROM {{schema}}.states s WHERE s.ns = {{here}} AND s.name = :name AND s.id >= :first"
    f" AND s.id > :after AND {_LIVE}"
)
_COUNT = f"SELECT count(*) FROM {{schema}}.states s WHERE s.ns = {{here}} AND s.name = :name AND {_LIVE}"
_DELETE = "DELETE FROM {schema}.states AS s WHERE s.ns = {here} AND s.id = :id AND s.id <> ''"
# Rows are locked in one order, so that two removals do not wait for each other.
_SOME = (
    f"SELECT s.ns, s.id, s.name, {_LIVE} FROM {{schema}}.states s WHERE s.ns = {{here}} AND %s"
    " ORDER BY s.ns, s.name, s.id LIMIT :limit {lock}"
)
_DUE = (
    "SELECT s.ns, s.id, s.name, s.accessed_at + s.ttl, {now} FROM {schema}.states s WHERE s.due <= (SELECT {now})"
    " ORDER BY s.due LIMIT :limit {skip_locked}"
)


async def get(db: Database, key: StateKey) -> StateRow | None:
    return _found(await db.fetch_row(_GET, **key._asdict()))


async def peek(db: Database, key: StateKey) -> StateRow | None:
    return _found(await db.fetch_row(_PEEK, **key._asdict()))


async def touch(db: Database, key: StateKey) -> bool:
    return await db.execute(_TOUCH, **key._asdict()) == 1


async def create(db: Database, key: StateKey, write: StateWrite) -> StateRow | None:
    return _found(await db.fetch_row(_CREATE, **key._asdict(), **_values(write)))


async def replace(db: Database, key: StateKey, write: StateWrite, seen: str) -> StateRow | None:
    return _found(await db.fetch_row(_REPLACE, **key._asdict(), **_values(write), seen=seen))


async def page(db: Database, query: StateQuery) -> list[ListedState]:
    values = {name: getattr(query, name) for name in ("namespace", "name", "first", "after", "end", "limit")}
    end = "" if query.end is None else " AND s.id < :end"
    rows = await db.fetch(f"{_PAGE}{end} ORDER BY s.id LIMIT :limit", **values)
    return [ListedState(row[0], _state(row[1:])) for row in rows]


async def count(db: Database, namespace: str, name: str) -> int:
    return int(await db.fetch_value(_COUNT, namespace=namespace, name=name))


async def delete(db: Database, key: StateKey, seen: str | None = None) -> bool:
    marked, values = ("", {}) if seen is None else (f" AND s.mark = :seen AND {_LIVE}", {"seen": seen})
    statement = f"{_DELETE} AND s.name = :name{marked} RETURNING {_WAS_LIVE}"
    return bool(await db.fetch_value(statement, **key._asdict(), **values))


async def delete_all(db: Database, namespace: str, id: str) -> int:
    rows = await db.fetch(f"{_DELETE} RETURNING {_WAS_LIVE}", namespace=namespace, id=id)
    return sum(bool(was_live) for (was_live,) in rows)


async def clear(db: Database, namespace: str, name: str, limit: int) -> Swept:
    """Needs a transaction."""
    return await _delete_some(db, "s.name = :name", limit, namespace=namespace, name=name)


async def delete_owned(db: Database, namespace: str, owners: OwnerFilter, limit: int) -> Swept:
    """Needs a transaction."""
    given = {part: wanted for part, wanted in owners._asdict().items() if wanted is not None}
    wanted = "".join(f" AND s.{part} = :{part}" for part in given)
    return await _delete_some(db, f"s.peer IS NOT NULL{wanted}", limit, namespace=namespace, **given)


async def _delete_some(db: Database, condition: str, limit: int, **values: Any) -> Swept:
    rows = await db.fetch(_SOME % condition, **values, limit=limit)
    keys = [{"ns": ns, "id": id, "name": name} for ns, id, name, _ in rows]
    await db.execute_many(f"DELETE FROM {{schema}}.states WHERE {_OF_ROW}", keys)
    return Swept(sum(bool(was_live) for *_, was_live in rows), len(rows) == limit)


async def sweep(db: Database, limit: int) -> Swept:
    """Needs a transaction."""
    rows = await db.fetch(_DUE, limit=limit)
    checked = [{"ns": ns, "id": id, "name": name, "due": end, "at": at} for ns, id, name, end, at in rows]
    expired = [row for row in checked if row["due"] <= row["at"]]
    await db.execute_many(f"DELETE FROM {{schema}}.states WHERE {_OF_ROW}", expired)
    later = [row for row in checked if row["due"] > row["at"]]
    await db.execute_many(f"UPDATE {{schema}}.states SET due = :due WHERE {_OF_ROW}", later)
    return Swept(len(expired), len(rows) == limit)


async def add_store(db: Database, namespace: str, url: str) -> None:
    statement = "INSERT INTO {schema}.state_stores (ns, url) VALUES ({new_ns}, :url) {keep}"
    await db.execute(statement, namespace=namespace, url=url)


async def stores(db: Database, namespace: str) -> list[str]:
    statement = "SELECT url FROM {schema}.state_stores WHERE ns = {here} ORDER BY url"
    return [url for (url,) in await db.fetch(statement, namespace=namespace)]


async def forget_store(db: Database, namespace: str, url: str) -> bool:
    statement = "DELETE FROM {schema}.state_stores WHERE ns = {here} AND url = :url"
    return await db.execute(statement, namespace=namespace, url=url) == 1


def _values(write: StateWrite) -> dict[str, Any]:
    agent, channel, peer, thread = write.owner or (None, None, None, None)
    return {
        "value": write.value,
        "mark": write.mark,
        "ttl": write.ttl,
        "type_version": write.type_version,
        "agent": agent,
        "channel": channel,
        "peer": peer,
        "thread": thread,
    }


def _found(row: Row | None) -> StateRow | None:
    return None if row is None else _state(row)


def _state(row: Row) -> StateRow:
    *written, agent, channel, peer, thread = row
    owner = None if peer is None else StateOwner(agent, channel, peer, thread)
    return StateRow(*(*written, owner))
