"""Adding a usage entry to its session and to the totals of its day: one statement."""

from __future__ import annotations

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import UsageRow
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.rows import HERE

_SIZES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_AMOUNTS = (*_SIZES, "cost")


def _sum(name: str, total: str, added: str) -> str:
    """An assignment. Costs are decimal texts, so that no store loses a digit."""
    if name == "cost":
        return f"cost = ({total}.cost::numeric + {added}.cost::numeric)::text"
    return f"{name} = {total}.{name} + {added}.{name}"


_ADD_USAGE = (
    "WITH s AS (SELECT ns, number, agent, channel FROM {schema}.sessions"
    f" WHERE ns = {HERE} AND id = $2 AND id <> '' FOR UPDATE),"
    " entry AS (INSERT INTO {schema}.usage_entries SELECT s.ns, s.number, $3, $4, $5, $6, $7, $8, $9, $10,"
    " $11, $12 FROM s ON CONFLICT DO NOTHING RETURNING *),"
    " total AS (UPDATE {schema}.sessions x SET "
    + ", ".join(_sum(name, "x", "entry") for name in ("input_tokens", "output_tokens", "cost"))
    + ","
    " updated_at = greatest(x.updated_at, entry.at), changed_in = greatest(x.changed_in, {schema}.this_xid())"
    " FROM entry WHERE x.ns = entry.ns AND x.number = entry.session RETURNING x.*),"
    " logged AS (INSERT INTO {schema}.changes (ns, xid, position, at, session, kind) SELECT ns, changed_in,"
    " nextval('{schema}.change_positions'), updated_at, number, 'usage.added' FROM total),"
    " day AS (INSERT INTO {schema}.usage_days AS d SELECT e.ns, e.day,"
    " sha256(convert_to(json_build_array(e.model, s.agent, s.channel)::text, 'UTF8')), e.model, s.agent, s.channel,"
    f" {', '.join(f'e.{name}' for name in _AMOUNTS)} FROM entry e, s"
    " ON CONFLICT (ns, day, digest) DO UPDATE SET "
    + ", ".join(_sum(name, "d", "excluded") for name in _AMOUNTS)
    + ") SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM entry)"
)


async def add(connection: Connection, namespace: str, session_id: str, entry: UsageRow) -> bool:
    """False if the session has a usage entry with this id. Raises `SessionNotFoundError`."""
    found, added = await connection.fetch_one(
        _ADD_USAGE,
        namespace,
        session_id,
        entry.id,
        entry.day,
        entry.model,
        entry.at,
        *(getattr(entry, name) for name in _AMOUNTS),
    )
    if not found:
        raise SessionNotFoundError(session_id, namespace)
    return bool(added)
