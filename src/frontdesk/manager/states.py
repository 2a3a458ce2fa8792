"""The part of `SessionManager` that keeps typed states, and removes them with their sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from frontdesk.manager.usage import UsageCalls
from frontdesk.states import DEFAULT_TTL, States
from frontdesk.states.expiry import sweep
from frontdesk.states.states import T
from frontdesk.store import StateStore


class StateCalls(UsageCalls):
    """Values of one's own beside the conversations."""

    def states(
        self,
        kind: type[T],
        *,
        name: str = "sessions",
        default: Callable[[str], T | Awaitable[T]] | None = None,
        ttl: timedelta | None = DEFAULT_TTL,
        store: StateStore | str | None = None,
    ) -> States[T]:
        """Typed states, a value per session id under `name`; no I/O.

        `kind` is a dataclass, a pydantic model, a msgspec Struct or a TypedDict; a fresh state is `default(session_id)`
        or `kind()`. A state expires `ttl` after it was last used; None means never, and without the argument
        SESSION_TTL_SECONDS says how long. `store` is a URL or a `StateStore`; without it FRONTDESK_STATE_URL names one,
        or they live in the manager's own store. Raises `ConfigurationError`, `StoreURLError`, `InvalidInputError`."""
        return States(self._runtime, kind, name=name, default=default, ttl=ttl, store=store)

    async def _sweep_states(self) -> int:
        """Remove expired states, of whoever lives in the same stores; gives how many there were."""
        stores = self._runtime.other_state_stores()
        if isinstance(own := self._runtime.store, StateStore):
            stores.append(own)
        return sum([await sweep(store) for store in stores])

    async def _delete_states(self, session_id: str, *, everywhere: bool) -> int:
        """Remove the states of a session where they do not go with it: in other stores, or `everywhere`. Gives how many
        there were."""
        stores = self._runtime.other_state_stores()
        if everywhere and isinstance(own := self._runtime.store, StateStore):
            stores.append(own)
        return sum([await store.delete_states(self.namespace, session_id) for store in stores])
