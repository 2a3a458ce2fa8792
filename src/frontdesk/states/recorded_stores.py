"""Records which stores a namespace keeps states in, in the store of its sessions. So an erasure or a deletion by a
manager that was never given such a store finds it, or says that it is missing."""

from __future__ import annotations

from frontdesk.config.runtime import Runtime
from frontdesk.store import StateStore


class RecordedStores:
    """The stores that this process has recorded already."""

    def __init__(self) -> None:
        self._urls: set[str] = set()

    async def record(self, runtime: Runtime, store: StateStore) -> None:
        """Record a store before the first write to it. The store of the sessions needs no record, and a store that no
        other process can open cannot have one."""
        url, own = store.url, runtime.store
        if url is None or url in self._urls or (isinstance(own, StateStore) and own.url == url):
            return
        await own.add_state_store(runtime.namespace, url)
        self._urls.add(url)

    def forget(self, url: str) -> None:
        self._urls.discard(url)
