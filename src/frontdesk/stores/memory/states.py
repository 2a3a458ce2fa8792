"""States in the memory store."""

from __future__ import annotations

import heapq
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from frontdesk.moments import now
from frontdesk.store import StateKey, StateRow, Swept


class Due(NamedTuple):
    """When to look whether a state has expired. Reading a state leaves it alone: the look finds out, and comes back
    later."""

    at: int
    number: int
    key: StateKey


class StateRows:
    """States under (namespace, id) and name, each with the number of its creation."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._states: dict[tuple[str, str], dict[str, tuple[int, StateRow]]] = {}
        self._dues: list[Due] = []

    def get(self, key: StateKey) -> StateRow | None:
        """The state, its expiry moved."""
        found = self._live(key)
        if found is None:
            return None
        row = replace(found[1], accessed_at=now())
        self._put(key, found[0], row)
        return row

    def peek(self, key: StateKey) -> StateRow | None:
        found = self._live(key)
        return None if found is None else found[1]

    def create(self, key: StateKey, value: str, ttl: int | None, mark: str) -> StateRow | None:
        if (found := self._live(key)) is not None:
            return found[1] if found[1].mark == mark else None
        at = now()
        row = StateRow(value, mark, 1, ttl, at, at)
        number = next(self._numbers)
        self._put(key, number, row)
        if row.expires_at is not None:
            heapq.heappush(self._dues, Due(row.expires_at, number, key))
        return row

    def replace(self, key: StateKey, value: str, mark: str, seen: str) -> StateRow | None:
        found = self._live(key)
        if found is None or found[1].mark not in (seen, mark):
            return None
        number, row = found
        if row.mark != mark:
            row = replace(row, value=value, mark=mark, version=row.version + 1, accessed_at=now())
            self._put(key, number, row)
        return row

    def delete(self, key: StateKey) -> bool:
        was_there = self._live(key) is not None
        self._drop(key)
        return was_there

    def delete_all(self, namespace: str, id: str) -> int:
        at = now()
        return sum(row.is_live(at) for _, row in self._states.pop((namespace, id), {}).values())

    def sweep(self, limit: int) -> Swept:
        at, removed, looks = now(), 0, 0
        while looks < limit and self._dues and self._dues[0].at <= at:
            due = heapq.heappop(self._dues)
            looks += 1
            number, row = self._states.get(due.key[:2], {}).get(due.key.name, (0, None))
            if row is None or number != due.number or row.expires_at is None:
                continue
            if row.is_live(at):
                heapq.heappush(self._dues, Due(row.expires_at, number, due.key))
            else:
                self._drop(due.key)
                removed += 1
        return Swept(removed, bool(self._dues) and self._dues[0].at <= at)

    def _live(self, key: StateKey) -> tuple[int, StateRow] | None:
        found = self._states.get(key[:2], {}).get(key.name)
        return found if found is not None and found[1].is_live(now()) else None

    def _put(self, key: StateKey, number: int, row: StateRow) -> None:
        self._states.setdefault(key[:2], {})[key.name] = (number, row)

    def _drop(self, key: StateKey) -> None:
        names = self._states.get(key[:2], {})
        names.pop(key.name, None)
        if not names:
            self._states.pop(key[:2], None)
