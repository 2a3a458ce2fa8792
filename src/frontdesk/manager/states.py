"""Removes the typed states of a manager's sessions, in every store: with their session, and when they expire."""

from __future__ import annotations

from frontdesk.config.runtime import Runtime
from frontdesk.states.expiry import sweep
from frontdesk.store import StateStore


class StateCleaner:
    """Removes states in the session's store and in the other stores that the manager keeps states in."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def sweep(self) -> int:
        """Remove expired states, of every user of the same stores; returns how many there were."""
        return sum([await sweep(store) for store in self._stores(everywhere=True)])

    async def delete(self, session_id: str, *, everywhere: bool) -> int:
        """Remove the states of a session where they do not go with it: in other stores, or `everywhere`. Returns how
        many there were."""
        stores = self._stores(everywhere=everywhere)
        return sum([await store.delete_states(self._runtime.namespace, session_id) for store in stores])

    def _stores(self, *, everywhere: bool) -> list[StateStore]:
        stores = self._runtime.other_state_stores()
        if everywhere and isinstance(own := self._runtime.store, StateStore):
            stores.append(own)
        return stores
