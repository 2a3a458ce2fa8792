"""What a session needs of its manager: the store, the namespace and the settings."""

from __future__ import annotations

import time
from typing import Any, TypeVar

from frontdesk.errors import ConfigurationError, InvalidIdError, StoreClosedError
from frontdesk.messages import check_id
from frontdesk.store import MAX_NAMESPACE, Store
from frontdesk.stores import open_url
from frontdesk.tokens import MESSAGE_TOKENS, TokenCounter, estimate_tokens

T = TypeVar("T")
DEFAULT_MAX_MESSAGE_BYTES = 16 * 1024 * 1024


class Scope:
    """One namespace of a store, with the settings of the manager that opened it."""

    def __init__(self, store: Store | str, namespace: str, max_message_bytes: int) -> None:
        check_id(namespace, "namespace")
        if len(namespace) > MAX_NAMESPACE:
            raise InvalidIdError(f"namespace has {len(namespace)} characters: at most {MAX_NAMESPACE} are allowed")
        if max_message_bytes < 1:
            raise ConfigurationError(f"max_message_bytes must be positive, not {max_message_bytes}")
        self.owns_store = isinstance(store, str)
        self._store = open_url(store) if isinstance(store, str) else store
        self.namespace = namespace
        self.max_message_bytes = max_message_bytes
        self.counter: TokenCounter = estimate_tokens
        self.used = False
        self.closed = False
        self._settings: dict[type, Any] = {}

    def settings(self, kind: type[T]) -> T:
        """The settings of one feature, an object of its own type that begins with its defaults."""
        found: T = self._settings.setdefault(kind, kind())
        return found

    @property
    def store(self) -> Store:
        """The store, for doing something with it: from here on the settings are final."""
        if self.closed:
            raise StoreClosedError("this manager was closed: make a new one")
        self.used = True
        return self._store

    def now(self) -> int:
        return time.time_ns() // 1000

    def summary_tokens(self, summary: str | None) -> int:
        return MESSAGE_TOKENS + self.counter(summary) if summary else 0

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            if self.owns_store:
                await self._store.close()
