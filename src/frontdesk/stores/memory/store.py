"""`MemoryStore`: the methods of the `Store` protocol, each one operation on the rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from frontdesk.errors import StoreClosedError
from frontdesk.store import ListedState, OwnerFilter, StateKey, StateQuery, StateRow, StateWrite, Swept
from frontdesk.stores.memory import (
    append,
    directory,
    documents,
    erasure,
    index,
    leases,
    log,
    plans,
    reading,
    sessions,
    shelves,
    transfer,
    usage,
    vectors,
)
from frontdesk.stores.memory.rows import Rows

P = ParamSpec("P")
T = TypeVar("T")


def _step(
    operation: Callable[Concatenate[Rows, P], T],
) -> Callable[Concatenate[MemoryStore, P], Coroutine[Any, Any, T]]:
    """A method that runs an operation on the store's rows, in one step."""

    async def run(store: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return store.run(operation, *args, **kwargs)

    return run


class MemoryStore:
    """A `Store` in memory, for tests, notebooks and throw-away agents: everything is gone with the process.

    Safe for threads and event loops."""

    def __init__(self) -> None:
        self._rows = Rows()
        self._lock = threading.Lock()
        self._closed = False

    def run(self, operation: Callable[Concatenate[Rows, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What an operation on the rows returns; no other one runs meanwhile. Raises `StoreClosedError`."""
        with self._lock:
            if self._closed:
                raise StoreClosedError("the memory store was closed: open it again")
            return operation(self._rows, *args, **kwargs)

    @property
    def url(self) -> None:
        """Nobody else can open a store in memory."""

    async def open(self) -> None:
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        self._rows.bell.ring()

    create = _step(sessions.create)
    get = _step(sessions.get)
    get_current = _step(sessions.get_current)
    page = _step(directory.page)
    due = _step(directory.due)
    stats = _step(directory.stats)

    append = _step(append.append)
    view = _step(reading.view)
    trees = _step(reading.trees)
    read = _step(reading.read)
    sums = _step(reading.sums)
    tally = _step(reading.tally)
    segments = _step(reading.segments)
    sessions = _step(reading.by_number)
    relatives = _step(reading.relatives)
    families = _step(reading.families)
    apply = _step(plans.apply)

    get_documents = _step(documents.get)
    list_documents = _step(documents.list_label)
    document_versions = _step(documents.versions)
    put_document = _step(documents.put)
    rewrite_document = _step(documents.rewrite)
    delete_documents = _step(documents.delete_owned)
    get_prompt = _step(documents.get_prompt)
    put_prompt = _step(documents.put_prompt)

    get_lease = _step(leases.get)
    acquire_lease = _step(leases.acquire)
    renew_lease = _step(leases.renew)
    held_leases = _step(leases.held)
    queue_lease = _step(leases.queue)
    leave_lease = _step(leases.leave)
    next_queued = _step(leases.next_queued)
    lease_queue = _step(leases.waiting)
    queued_messages = _step(leases.queued)
    remove_queued = _step(leases.remove_queued)

    add_usage = _step(usage.add)
    recent_usage = _step(usage.recent)
    usage = _step(usage.totals)

    log_change = _step(log.add)
    changes = _step(log.read)
    last_change = _step(log.last)
    trim_changes = _step(log.trim)
    count_rows = _step(erasure.count)
    scrub = _step(log.scrub)

    async def wait_for_change(self, seconds: float, since: int | None = None) -> int:
        return await self._rows.bell.wait(seconds, since)

    document_owners = _step(transfer.document_owners)
    documents_of = _step(transfer.documents_of)
    placed_messages = _step(transfer.placed_messages)
    usage_entries = _step(transfer.usage_entries)
    usage_days = _step(transfer.usage_days)
    states_after = _step(transfer.states_after)
    shelves_after = _step(shelves.after)
    draw_numbers = _step(transfer.draw_numbers)
    begin_family = _step(transfer.begin_family)
    unfinished_families = _step(transfer.unfinished_families)
    remove_unfinished = _step(transfer.remove_unfinished)
    restore = _step(transfer.restore)

    index_state = _step(index.state)
    write_index = _step(index.write)
    frequencies = _step(index.frequencies)
    terms = _step(index.terms)
    matches = _step(index.matches)
    unindexed = _step(index.unindexed)
    owner_trees = _step(index.owner_trees)

    prepare_vectors = _step(vectors.prepare)
    put_vectors = _step(vectors.put)
    vector_state = _step(vectors.state)
    mark_vectors = _step(vectors.mark)
    without_vectors = _step(vectors.without)
    count_vectors = _step(vectors.count)
    nearest = _step(vectors.nearest)
    drop_vectors = _step(vectors.drop)

    read_shelf = _step(shelves.read)
    write_shelf = _step(shelves.write)
    delete_shelf = _step(shelves.delete)
    list_shelves = _step(shelves.page)
    delete_owned_shelves = _step(shelves.delete_owned)

    async def get_state(self, key: StateKey) -> StateRow | None:
        return self.run(lambda rows: rows.states.get(key))

    async def peek_state(self, key: StateKey) -> StateRow | None:
        return self.run(lambda rows: rows.states.peek(key))

    async def touch_state(self, key: StateKey) -> bool:
        return self.run(lambda rows: rows.states.get(key) is not None)

    async def create_state(self, key: StateKey, write: StateWrite) -> StateRow | None:
        return self.run(lambda rows: rows.states.create(key, write))

    async def replace_state(self, key: StateKey, write: StateWrite, seen: str) -> StateRow | None:
        return self.run(lambda rows: rows.states.replace(key, write, seen))

    async def list_states(self, query: StateQuery) -> list[ListedState]:
        return self.run(lambda rows: rows.states.page(query))

    async def count_states(self, namespace: str, name: str) -> int:
        return self.run(lambda rows: rows.states.count(namespace, name))

    async def delete_state(self, key: StateKey, seen: str | None = None) -> bool:
        return self.run(lambda rows: rows.states.delete(key, seen))

    async def delete_states(self, namespace: str, id: str) -> int:
        return self.run(lambda rows: rows.states.delete_all(namespace, id))

    async def clear_states(self, namespace: str, name: str, limit: int) -> Swept:
        return self.run(lambda rows: rows.states.clear(namespace, name, limit))

    async def delete_owned_states(self, namespace: str, owners: OwnerFilter, limit: int) -> Swept:
        return self.run(lambda rows: rows.states.delete_owned(namespace, owners, limit))

    async def add_state_store(self, namespace: str, url: str) -> None:
        self.run(lambda rows: rows.state_stores[namespace].setdefault(url))

    async def state_stores(self, namespace: str) -> list[str]:
        return self.run(lambda rows: [*rows.state_stores.get(namespace, ())])

    async def forget_state_store(self, namespace: str, url: str) -> bool:
        return self.run(lambda rows: rows.state_stores[namespace].pop(url, "") is None)

    async def sweep_states(self, limit: int) -> Swept:
        return self.run(lambda rows: rows.states.sweep(limit))
