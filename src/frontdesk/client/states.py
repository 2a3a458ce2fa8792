"""The states of a server, as the store that `States` works with. So types, defaults, migrations and the functions of
`update` stay in this process: it reads a state, and writes it if nobody else has written it meanwhile."""

from __future__ import annotations

from typing import Any

import msgspec

from frontdesk import cursors
from frontdesk.client.connection import HTTPRequest
from frontdesk.client.remote import Remote
from frontdesk.client.values import to_body, to_query
from frontdesk.errors import StateNotFoundError, StateVersionError
from frontdesk.http.addresses import write_id
from frontdesk.keys import SessionKey
from frontdesk.moments import to_microseconds
from frontdesk.records import Page
from frontdesk.states import StateInfo
from frontdesk.store import ListedState, OwnerFilter, StateKey, StateOwner, StateQuery, StateRow, StateWrite, Swept

_ANY_VERSION = 2**31 - 1
"""of the type of a value: the server returns values of every version"""
_PAGE = 1000


class _Found(msgspec.Struct):
    value: msgspec.Raw
    info: StateInfo


class RemoteStateStore:
    """States that a server keeps. The server removes those that have expired."""

    url = None

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    async def open(self) -> None:
        """Does nothing: the client opens the connection."""

    async def close(self) -> None:
        """The client closes the connection."""

    async def get_state(self, key: StateKey) -> StateRow | None:
        request = HTTPRequest("GET", _path(key), {"version": _ANY_VERSION})
        try:
            found: _Found = await self._remote.ask(request, _Found)
        except StateNotFoundError:
            return None
        return _row(found.info, bytes(found.value).decode())

    async def peek_state(self, key: StateKey) -> StateRow | None:
        """The state without its value, which its callers do not need."""
        try:
            return _row(await self._remote.ask(HTTPRequest("GET", f"{_path(key)}/info"), StateInfo))
        except StateNotFoundError:
            return None

    async def touch_state(self, key: StateKey) -> bool:
        try:
            await self._remote.ask(HTTPRequest("POST", f"{_path(key)}/touch", repeats=True), type(None))
        except StateNotFoundError:
            return False
        return True

    async def create_state(self, key: StateKey, write: StateWrite) -> StateRow | None:
        return await self._write(key, write, {"If-None-Match": "*"})

    async def replace_state(self, key: StateKey, write: StateWrite, seen: str) -> StateRow | None:
        return await self._write(key, write, {"If-Match": seen})

    async def _write(self, key: StateKey, write: StateWrite, condition: dict[str, str]) -> StateRow | None:
        body: dict[str, Any] = {
            "value": msgspec.Raw(write.value.encode()),
            "ttl": None if write.ttl is None else write.ttl / 1_000_000,
            "owner": None if write.owner is None else SessionKey(*write.owner),
        }
        request = HTTPRequest(
            "PUT", _path(key), {"version": write.type_version}, to_body(body), headers=condition, keyed=True
        )
        try:
            return _row(await self._remote.ask(request, StateInfo), write.value)
        except StateVersionError:
            return None

    async def list_states(self, query: StateQuery) -> list[ListedState]:
        listed: list[ListedState] = []
        call = ["states", query.namespace, query.name, query.first]
        after = query.after
        while len(listed) < query.limit:
            limit = min(_PAGE, query.limit - len(listed))
            cursor = cursors.seal([after], call) if after else None
            wanted = to_query({"prefix": query.first, "limit": limit, "cursor": cursor})
            page: Page[StateInfo] = await self._remote.ask(
                HTTPRequest("GET", _name(query.name), wanted), Page[StateInfo]
            )
            listed += [ListedState(info.id, _row(info)) for info in page.items]
            if page.next_cursor is None:
                break
            after = listed[-1].id
        return listed

    async def count_states(self, namespace: str, name: str) -> int:
        count: int = await self._remote.ask(HTTPRequest("GET", f"/count-states/{write_id(name)}"), int, "count")
        return count

    async def delete_state(self, key: StateKey, seen: str | None = None) -> bool:
        condition = {} if seen is None else {"If-Match": seen}
        request = HTTPRequest("DELETE", _path(key), headers=condition, keyed=True)
        try:
            deleted: bool = await self._remote.ask(request, bool, "deleted")
        except StateVersionError:
            return False
        return deleted

    async def clear_states(self, namespace: str, name: str, limit: int) -> Swept:
        """All at once: the server works in batches."""
        request = HTTPRequest("DELETE", _name(name), keyed=True, long=True)
        return Swept(await self._remote.ask(request, int, "deleted"), False)

    async def sweep_states(self, limit: int) -> Swept:
        return Swept(0, False)

    async def delete_states(self, namespace: str, id: str) -> int:
        """The server does that when it deletes the session."""
        return 0

    async def delete_owned_states(self, namespace: str, owners: OwnerFilter, limit: int) -> Swept:
        """The server does that when it erases the owner."""
        return Swept(0, False)


def _name(name: str) -> str:
    return f"/states/{write_id(name)}"


def _path(key: StateKey) -> str:
    return f"{_name(key.name)}/{write_id(key.id)}"


def _row(info: StateInfo, value: str = "") -> StateRow:
    """What a store keeps of a state. Its mark is its ETag."""
    created_at, accessed_at = to_microseconds(info.created_at), to_microseconds(info.last_accessed_at)
    expires_at = None if info.expires_at is None else to_microseconds(info.expires_at)
    return StateRow(
        value=value,
        mark=f'"{info.version}.{created_at}"',
        version=info.version,
        ttl=None if expires_at is None else expires_at - accessed_at,
        created_at=created_at,
        accessed_at=accessed_at,
        type_version=info.type_version,
        owner=None if info.owner is None else StateOwner(*info.owner.parts),
    )
