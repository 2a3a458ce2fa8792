"""States in the memory store."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from itertools import chain, count, islice
from typing import NamedTuple

from msgspec.structs import replace

from frontdesk.moments import now
from frontdesk.store import ListedState, OwnerFilter, StateKey, StateQuery, StateRow, StateWrite, Swept


class Due(NamedTuple):
    """When to look whether a state has expired. Reading a state leaves it alone: the look finds out, and comes back
    later."""

    at: int
    number: int
    key: StateKey


class StateRows:
    """States under (namespace, id) and name, each with a number that is new when it is created or gets another
    time-to-live."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._states: dict[tuple[str, str], dict[str, tuple[int, StateRow]]] = {}
        self._ids: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        """namespace and name -> ids, sorted"""
        self._owned: defaultdict[str, defaultdict[str, dict[StateKey, None]]] = defaultdict(lambda: defaultdict(dict))
        """namespace -> peer -> states"""
        self._dues: list[Due] = []

    def get(self, key: StateKey) -> StateRow | None:
        """The state, its expiry moved."""
        found = self._live(key)
        if found is None:
            return None
        row = replace(found[1], accessed_at=now())
        self._states[key[:2]][key.name] = (found[0], row)
        return row

    def peek(self, key: StateKey) -> StateRow | None:
        found = self._live(key)
        return None if found is None else found[1]

    def create(self, key: StateKey, write: StateWrite) -> StateRow | None:
        if (found := self._live(key)) is not None:
            return found[1] if found[1].mark == write.mark else None
        self._drop(key)
        at = now()
        row = StateRow(write.value, write.mark, 1, write.ttl, at, at, write.type_version, write.owner)
        insort(self._ids[key.namespace, key.name], key.id)
        self._put(key, row)
        return row

    def replace(self, key: StateKey, write: StateWrite, seen: str) -> StateRow | None:
        found = self._live(key)
        if found is None or found[1].mark not in (seen, write.mark):
            return None
        number, old = found
        if old.mark == write.mark:
            return old
        row = StateRow(
            write.value, write.mark, old.version + 1, write.ttl, old.created_at, now(), write.type_version, write.owner
        )
        self._disown(key, old)
        self._put(key, row, number if row.ttl == old.ttl else None)
        return row

    def page(self, query: StateQuery) -> list[ListedState]:
        ids, at = self._ids.get((query.namespace, query.name), []), now()
        start = max(bisect_left(ids, query.first), bisect_right(ids, query.after))
        end = len(ids) if query.end is None else bisect_left(ids, query.end)
        rows = ((id, self._states[query.namespace, id][query.name][1]) for id in islice(ids, start, end))
        live = (ListedState(id, replace(row, value="")) for id, row in rows if row.is_live(at))
        return [*islice(live, query.limit)]

    def after(self, namespace: str, name: str, id: str, limit: int) -> list[tuple[StateKey, StateRow]]:
        """The states after a name and an id, with their values, in this order."""
        at = now()
        names = sorted(known for space, known in self._ids if space == namespace and known >= name)
        keys = (StateKey(namespace, each, known) for known in names for each in self._ids[namespace, known])
        later = ((key, self._states[key[:2]][key.name][1]) for key in keys if (key.name, key.id) > (name, id))
        return [*islice(((key, row) for key, row in later if row.is_live(at)), limit)]

    def restore(self, key: StateKey, row: StateRow) -> None:
        """Store a state exactly as it is."""
        self._drop(key)
        insort(self._ids[key.namespace, key.name], key.id)
        self._put(key, row)

    def count(self, namespace: str, name: str) -> int:
        return len(self.page(StateQuery(namespace, name, len(self._ids.get((namespace, name), [])))))

    def delete(self, key: StateKey, seen: str | None = None) -> bool:
        found = self._live(key)
        if seen is not None and (found is None or found[1].mark != seen):
            return False
        self._drop(key)
        return found is not None

    def delete_all(self, namespace: str, id: str) -> int:
        return sum(self.delete(StateKey(namespace, id, name)) for name in [*self._states.get((namespace, id), {})])

    def clear(self, namespace: str, name: str, limit: int) -> Swept:
        ids = self._ids.get((namespace, name), [])[:limit]
        return Swept(sum(self.delete(StateKey(namespace, id, name)) for id in ids), len(ids) == limit)

    def delete_owned(self, namespace: str, owners: OwnerFilter, limit: int) -> Swept:
        by_peer = self._owned[namespace]
        of_peers = by_peer.values() if owners.peer is None else [by_peer.get(owners.peer, {})]
        keys = [*islice((key for key in chain(*of_peers) if self._belongs(key, owners)), limit)]
        return Swept(sum(map(self.delete, keys)), len(keys) == limit)

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

    def _belongs(self, key: StateKey, owners: OwnerFilter) -> bool:
        owner = self._states[key[:2]][key.name][1].owner
        return owner is not None and owners.matches(owner)

    def _put(self, key: StateKey, row: StateRow, number: int | None = None) -> None:
        if number is None:
            number = next(self._numbers)
            if row.expires_at is not None:
                heapq.heappush(self._dues, Due(row.expires_at, number, key))
        self._states.setdefault(key[:2], {})[key.name] = (number, row)
        if row.owner is not None:
            self._owned[key.namespace][row.owner.peer][key] = None

    def _drop(self, key: StateKey) -> None:
        names = self._states.get(key[:2], {})
        if key.name not in names:
            return
        self._disown(key, names.pop(key.name)[1])
        if not names:
            del self._states[key[:2]]
        ids = self._ids[key.namespace, key.name]
        del ids[bisect_left(ids, key.id)]
        if not ids:
            del self._ids[key.namespace, key.name]

    def _disown(self, key: StateKey, row: StateRow) -> None:
        if row.owner is not None:
            keys = self._owned[key.namespace][row.owner.peer]
            del keys[key]
            if not keys:
                del self._owned[key.namespace][row.owner.peer]
