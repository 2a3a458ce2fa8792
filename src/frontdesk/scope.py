"""What a session needs of its manager: the store, the namespace and the settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from frontdesk.errors import ConfigurationError, InvalidIdError, StoreClosedError
from frontdesk.messages import check_id
from frontdesk.store import MAX_NAMESPACE, Store
from frontdesk.stores import open_url
from frontdesk.tokens import MESSAGE_TOKENS, TokenCounter, estimate_tokens

T = TypeVar("T")
DEFAULT_MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_GRACE = 10.0
"""seconds that work beside the conversation gets to finish when its manager is closed"""


class Scope:
    """One namespace of a store, with the settings of the manager that opened it."""

    def __init__(self, store: Store | str, namespace: str, max_message_bytes: int) -> None:
        check_id(namespace, "namespace")
        if len(namespace) > MAX_NAMESPACE:
            raise InvalidIdError(f"namespace has {len(namespace)} characters: at most {MAX_NAMESPACE} are allowed")
        if type(max_message_bytes) is not int or max_message_bytes < 1:
            raise ConfigurationError(f"max_message_bytes must be a positive whole number, not {max_message_bytes!r}")
        if not isinstance(store, str | Store):
            raise ConfigurationError(f"a store is a URL or a Store, not {type(store).__name__}")
        self.owns_store = isinstance(store, str)
        self._store = open_url(store) if isinstance(store, str) else store
        self.namespace = namespace
        self.max_message_bytes = max_message_bytes
        self.counter: TokenCounter = estimate_tokens
        self.used = False
        self.closed = False
        self._settings: dict[type, Any] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle]] = {}

    def settings(self, kind: type[T]) -> T:
        """The settings of one feature, an object of its own type that begins with its defaults."""
        found: T | None = self._settings.get(kind)
        return self._settings.setdefault(kind, kind()) if found is None else found

    def set_settings(self, settings: object) -> None:
        self._settings[type(settings)] = settings

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

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do something beside the conversation, at most once at a time under a name."""
        if name in self._tasks:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    def later(self, seconds: float, work: Callable[[], None], name: str) -> None:
        """Call something after a while, unless it is to be called under that name already, or the manager is closed."""
        loop = asyncio.get_running_loop()
        waiting = self._timers.get(name)
        if (waiting is not None and waiting[0] is loop) or self.closed:
            return

        def fire() -> None:
            self._timers.pop(name, None)
            work()

        self._timers[name] = loop, loop.call_later(seconds, fire)

    async def close(self) -> None:
        """Let what runs beside finish, for a while, and let go of the store."""
        if self.closed:
            return
        here = asyncio.get_running_loop()
        for loop, timer in self._timers.values():
            if loop is here:
                timer.cancel()
        self._timers.clear()
        tasks = [task for task in self._tasks.values() if task.get_loop() is here]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self.closed = True
        if self.owns_store:
            await self._store.close()
