"""Reads and writes messages where they are, for an export and an import. The other rows are those of `sql.transfer`."""

from __future__ import annotations

from msgspec.structs import astuple

from frontdesk.messages.stored import StoredMessage
from frontdesk.store import Place, PlacedMessage, Restore
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.database import shared
from frontdesk.stores.postgres.rows import namespace_of
from frontdesk.stores.sql import transfer
from frontdesk.stores.sql.rows import MESSAGE, MESSAGE_COLUMNS

_RESTORED_CALL = 0
"""the call that wrote a restored message: no call has this number"""
_READ = (
    f"SELECT position, running, {MESSAGE} FROM {{schema}}.messages"
    " WHERE ns = $1 AND segment = $2 AND position >= $3 ORDER BY position LIMIT $4"
)
_COLUMNS = ("ns", "segment", "position", "family", "call", "running", *MESSAGE_COLUMNS)
_WRITE = (
    f"INSERT INTO {{schema}}.messages ({', '.join(_COLUMNS)})"
    f" VALUES ({', '.join(f'${at}' for at in range(1, len(_COLUMNS) + 1))})"
    " ON CONFLICT (ns, segment, position) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[3:])
)
# The next append computes what is stored about the head, as after a change of structure.
_FORGET_HEAD = (
    "UPDATE {schema}.sessions SET head_id = NULL, head_next = NULL, head_tokens = NULL WHERE ns = $1 AND number = $2"
)
_restore = shared(transfer.restore)


async def placed_messages(
    connection: Connection, namespace: str, segment: int, first: int, limit: int
) -> list[PlacedMessage]:
    rows = await connection.fetch(_READ, namespace_of(segment), segment, first, limit)
    return [PlacedMessage(Place(segment, at), running, StoredMessage(*message)) for at, running, *message in rows]


async def restore(connection: Connection, rows: Restore) -> None:
    """Needs a transaction."""
    await _restore(connection, rows)
    if rows.messages:
        ns = namespace_of(rows.messages[0].place.segment)
        values = [
            (ns, *one.place, rows.family, _RESTORED_CALL, one.running, *astuple(one.message)) for one in rows.messages
        ]
        await connection.execute_many(_WRITE, values)
    for session in rows.sessions:
        number = session.row.number
        await connection.execute(_FORGET_HEAD, namespace_of(number), number)
