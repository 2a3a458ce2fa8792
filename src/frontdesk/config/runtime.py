"""What a manager and its sessions share at run time: the store, the clock, hooks, background work, and what features
keep in memory. Its settings are in `settings`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from frontdesk import moments
from frontdesk.config.attempts import Attempts
from frontdesk.config.background import Background
from frontdesk.config.hooks import Hooks
from frontdesk.config.settings import KEY_PARTS, Settings
from frontdesk.errors import ConfigurationError, StoreClosedError
from frontdesk.keys import SessionKey
from frontdesk.messages.ids import check_id
from frontdesk.messages.tokens import MESSAGE_TOKENS
from frontdesk.store import MAX_NAMESPACE, StateStore, Store
from frontdesk.stores import open_state_url, open_url, reopen_state_url

T = TypeVar("T")
Clock = Callable[[], datetime]
STATE_URL_VARIABLE = "FRONTDESK_STATE_URL"
FOLDED = "*"
"""replaces a part of a key that does not distinguish sessions"""


class Runtime:
    """One namespace of a store, as used by one manager and its sessions."""

    def __init__(self, store: Store | str, namespace: str, max_message_bytes: int, clock: Clock | None = None) -> None:
        check_id(namespace, "namespace", MAX_NAMESPACE)
        if type(max_message_bytes) is not int or max_message_bytes < 1:
            raise ConfigurationError(f"max_message_bytes must be a positive whole number, not {max_message_bytes!r}")
        if not isinstance(store, str | Store):
            raise ConfigurationError(f"a store must be a URL or a Store, not {type(store).__name__}")
        if clock is not None and not callable(clock):
            raise ConfigurationError(f"a clock must be a callable that returns a datetime, not {type(clock).__name__}")
        self.namespace = namespace
        self.settings = Settings(max_message_bytes=max_message_bytes)
        self.started_at = moments.now()
        self.background = Background()
        self.hooks = Hooks(lambda work, name: self.background.spawn(work, name))
        self.used = False
        self.closed = False
        self._started = False
        self._clock = clock
        self._owns_store = isinstance(store, str)
        self._store = open_url(store) if isinstance(store, str) else store
        self._url = store if isinstance(store, str) else None
        self._state_stores: dict[str | int, StateStore] = {}
        self._shared: dict[type, Any] = {}
        self._at_first_use: list[Callable[[], None]] = []

    def configure(self, **values: Any) -> None:
        """Replace settings. Raises `ConfigurationError` after first use."""
        if self.used:
            raise ConfigurationError("settings are final after first use: call every with_...() before it")
        self.settings = replace(self.settings, **values)

    def shared(self, kind: type[T]) -> T:
        """The object of a class that a feature keeps in memory for this manager (a cache, a queue, a record of
        failures). It is made at the first call."""
        found: T | None = self._shared.get(kind)
        return self._shared.setdefault(kind, kind()) if found is None else found

    @property
    def store(self) -> Store:
        """The store, for an operation: from here on the settings are final."""
        self.use()
        return self._store

    def attempts(self, session_id: str) -> Attempts:
        """The attempts of a call about a session, which others may overtake."""
        return Attempts(self._store, f"session {session_id!r}", session_id=session_id)

    def block_attempts(self, label: str) -> Attempts:
        """The same for a call about a context block."""
        return Attempts(self._store, f"context block {label!r}", label=label)

    def use(self) -> None:
        """Make the settings final. Raises `StoreClosedError` while the manager is closed, and `ConfigurationError` if
        the settings do not fit together: then they are not final yet."""
        if self.closed:
            raise StoreClosedError("this manager is closed: open it again with `async with`, or make a new one")
        if not self._started:
            self.settings.check()
            self.used = self._started = True
            for start in self._at_first_use:
                start()

    def when_used(self, start: Callable[[], None]) -> None:
        """Call a function at first use, when the settings are final, and again at first use after each `close`."""
        self._at_first_use.append(start)

    def state_store(self, given: StateStore | str | None = None) -> StateStore:
        """The store of states: the given one, or that of FRONTDESK_STATE_URL, or that of the sessions.

        Raises `StoreURLError`, and `ConfigurationError` for a store that cannot store states."""
        wanted = os.environ.get(STATE_URL_VARIABLE) or self._store if given is None else given
        if wanted == self._url:
            wanted = self._store
        if isinstance(wanted, str):
            if wanted not in self._state_stores:
                self._state_stores[wanted] = open_state_url(wanted)
            return self._state_stores[wanted]
        if not isinstance(wanted, StateStore):
            raise ConfigurationError(
                f"{type(wanted).__name__} cannot store states: pass a URL or a StateStore as `store`"
            )
        own: object = self._store
        if wanted is not own:
            self._state_stores[id(wanted)] = wanted
        return wanted

    async def reopen_state_store(self, url: str) -> None:
        """Open the store of states with this `url`, which must exist, and close it with the manager.

        Raises `StoreURLError` and `StoreError`."""
        store = reopen_state_url(url)
        try:
            await store.open()
        except BaseException:
            await store.close()
            raise
        if self._state_stores.setdefault(url, store) is not store:
            await store.close()  # another task was first

    def other_state_stores(self) -> list[StateStore]:
        """The state stores of this manager, except the store of the sessions."""
        if os.environ.get(STATE_URL_VARIABLE):
            self.state_store()
        return list(self._state_stores.values())

    def stored_key(self, key: SessionKey) -> SessionKey:
        """The key under which a session is stored: with `FOLDED` for each part that does not distinguish sessions."""
        isolation = self.settings.isolation
        if isolation == KEY_PARTS:
            return key
        kept = {part: getattr(key, part) for part in isolation}
        folded = {part: FOLDED for part in ("agent", "channel", "peer") if part not in kept}
        return SessionKey(**folded, **kept)

    def now(self) -> int:
        """The time, in microseconds since the epoch."""
        if self._clock is None:
            return moments.now()
        moment = self._clock()
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            raise ConfigurationError(f"the clock must return a datetime with a time zone, not {moment!r}")
        return moments.to_microseconds(moment)

    def summary_tokens(self, summary: str | None) -> int:
        """The tokens of a summary as a message of the view."""
        return MESSAGE_TOKENS + self.settings.counter(summary) if summary else 0

    async def open(self) -> None:
        """Open the store. After `close`, everything that was closed is opened again, with the same settings."""
        if self.closed:
            for store in self._own_stores():
                await store.open()
            self.background = Background()
            self._started = self.closed = False
        await self.store.open()

    async def close(self) -> None:
        """Finish or cancel background work, and close the stores that were opened by URL. Idempotent."""
        if self.closed:
            return
        await self.background.close()
        self.closed = True
        for store in self._own_stores():
            await store.close()

    def _own_stores(self) -> list[Store | StateStore]:
        """The stores that were opened by URL, for states first."""
        by_url: list[Store | StateStore] = [store for url, store in self._state_stores.items() if isinstance(url, str)]
        return [*by_url, self._store] if self._owns_store else by_url
