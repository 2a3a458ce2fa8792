"""Removes the typed states of a manager's sessions and guests, in every store: with their session, with their owner,
and when they expire."""

from __future__ import annotations

from functools import partial

from frontdesk.checks import check_text
from frontdesk.config.runtime import Runtime
from frontdesk.errors import StateStoreMissingError, StoreError, StoreURLError
from frontdesk.states.expiry import sweep, work_off
from frontdesk.states.recorded_stores import RecordedStores
from frontdesk.store import OwnerFilter, StateStore


class StateCleaner:
    """Removes states in the session's store and in the other stores that the namespace keeps states in."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def sweep(self) -> int:
        """Remove expired states, of every user of the same stores; returns how many there were."""
        return sum([await sweep(store) for store in self._stores(everywhere=True)])

    async def reach(self) -> None:
        """Open the stores that the namespace is recorded to keep states in, if this manager does not have them yet.

        Raises `StateStoreMissingError`. To be called before anything is deleted."""
        recorded = await self._runtime.store.state_stores(self._runtime.namespace)
        for url in set(recorded) - {store.url for store in self._stores(everywhere=True)}:
            try:
                await self._runtime.reopen_state_store(url)
            except (StoreURLError, StoreError) as error:
                raise StateStoreMissingError(self._runtime.namespace, url, str(error)) from None

    async def forget(self, url: str) -> bool:
        """See `SessionManager.forget_state_store`."""
        self._runtime.shared(RecordedStores).forget(url)
        return await self._runtime.store.forget_state_store(self._runtime.namespace, check_text(url, "url"))

    async def delete(self, session_id: str, *, everywhere: bool) -> int:
        """Remove the states of a session where they do not go with it: in other stores, or `everywhere`. Returns how
        many there were."""
        stores = self._stores(everywhere=everywhere)
        return sum([await store.delete_states(self._runtime.namespace, session_id) for store in stores])

    async def delete_owned(self, owners: OwnerFilter) -> int:
        """Remove the states that belong to these owners, in every store. Returns how many there were."""
        removed = 0
        for store in self._stores(everywhere=True):
            removed += await work_off(partial(store.delete_owned_states, self._runtime.namespace, owners))
        return removed

    def _stores(self, *, everywhere: bool) -> list[StateStore]:
        stores = self._runtime.other_state_stores()
        if everywhere and isinstance(own := self._runtime.store, StateStore):
            stores.append(own)
        return stores
