"""What a session needs of its manager: the store, the namespace and the settings."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from frontdesk.errors import ConfigurationError, InvalidIdError, StoreClosedError
from frontdesk.keys import SessionKey
from frontdesk.messages import check_id
from frontdesk.messages.tokens import MESSAGE_TOKENS, TokenCounter, estimate_tokens
from frontdesk.store import MAX_NAMESPACE, StateStore, Store
from frontdesk.stores import open_state_url, open_url

T = TypeVar("T")
Clock = Callable[[], datetime]
DEFAULT_MAX_MESSAGE_BYTES = 16 * 1024 * 1024
STATE_URL_VARIABLE = "FRONTDESK_STATE_URL"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEY_PARTS = ("agent", "channel", "peer", "thread")
FOLDED = "*"
"""what stands for a part of a key that does not tell sessions apart"""
_GRACE = 10.0
"""seconds that work beside the conversation gets to finish when its manager is closed"""


class Scope:
    """One namespace of a store, with the settings of the manager that opened it."""

    def __init__(self, store: Store | str, namespace: str, max_message_bytes: int, clock: Clock | None = None) -> None:
        check_id(namespace, "namespace")
        if len(namespace) > MAX_NAMESPACE:
            raise InvalidIdError(f"namespace has {len(namespace)} characters: at most {MAX_NAMESPACE} are allowed")
        if type(max_message_bytes) is not int or max_message_bytes < 1:
            raise ConfigurationError(f"max_message_bytes must be a positive whole number, not {max_message_bytes!r}")
        if not isinstance(store, str | Store):
            raise ConfigurationError(f"a store is a URL or a Store, not {type(store).__name__}")
        if clock is not None and not callable(clock):
            raise ConfigurationError(f"a clock is a callable that gives a datetime, not {type(clock).__name__}")
        self._clock = clock
        self.owns_store = isinstance(store, str)
        self._store = open_url(store) if isinstance(store, str) else store
        self._url = store if isinstance(store, str) else None
        self._state_stores: dict[str | int, StateStore] = {}
        self.namespace = namespace
        self.max_message_bytes = max_message_bytes
        self.counter: TokenCounter = estimate_tokens
        self.used = False
        self.closed = False
        self._settings: dict[type, Any] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._endless: set[str] = set()
        self._at_first_use: list[Callable[[], None]] = []
        self.isolation: tuple[str, ...] = KEY_PARTS
        self.closing = False
        self._woken: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}
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
        self.use()
        return self._store

    def use(self) -> None:
        """Make the settings final. Raises `StoreClosedError` once the manager is closed."""
        if self.closed:
            raise StoreClosedError("this manager was closed: make a new one")
        if not self.used:
            self.used = True
            for start in self._at_first_use:
                start()

    def state_store(self, given: StateStore | str | None = None) -> StateStore:
        """Where states live: what is given, or what FRONTDESK_STATE_URL names, or with the sessions.

        Raises `StoreURLError`, and `ConfigurationError` for a store that keeps no states."""
        wanted = os.environ.get(STATE_URL_VARIABLE) or self._store if given is None else given
        if wanted == self._url:
            wanted = self._store
        if isinstance(wanted, str):
            if wanted not in self._state_stores:
                self._state_stores[wanted] = open_state_url(wanted)
            return self._state_stores[wanted]
        if not isinstance(wanted, StateStore):
            raise ConfigurationError(
                f"{type(wanted).__name__} keeps no states: give `store` a URL or a StateStore that does"
            )
        own: object = self._store
        if wanted is not own:
            self._state_stores[id(wanted)] = wanted
        return wanted

    def other_state_stores(self) -> list[StateStore]:
        """Where else than with the sessions this manager's states live."""
        if os.environ.get(STATE_URL_VARIABLE):
            self.state_store()
        return list(self._state_stores.values())

    def when_used(self, start: Callable[[], None]) -> None:
        """Have something started at first use, when the settings are final."""
        self._at_first_use.append(start)

    def address(self, key: SessionKey) -> SessionKey:
        """The key under which the session of a key is kept: with `FOLDED` for each part that does not tell sessions
        apart."""
        if self.isolation == KEY_PARTS:
            return key
        kept = {part: getattr(key, part) for part in self.isolation}
        folded = {part: FOLDED for part in ("agent", "channel", "peer") if part not in kept}
        return SessionKey(**folded, **kept)

    def now(self) -> int:
        """What time it is, in microseconds since the epoch."""
        if self._clock is None:
            return time.time_ns() // 1000
        moment = self._clock()
        if not isinstance(moment, datetime) or moment.tzinfo is None:
            raise ConfigurationError(f"the clock must give a datetime with a time zone, not {moment!r}")
        return (moment - _EPOCH) // timedelta(microseconds=1)

    def summary_tokens(self, summary: str | None) -> int:
        return MESSAGE_TOKENS + self.counter(summary) if summary else 0

    def spawn(self, work: Coroutine[Any, Any, None], name: str, *, endless: bool = False) -> None:
        """Do something beside the conversation, at most once at a time under a name. `close` does not wait for what is
        `endless`."""
        running = self._tasks.get(name)
        if running is not None and not running.get_loop().is_closed():
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[name] = task
        if endless:
            self._endless.add(name)
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def pause(self, seconds: float) -> bool:
        """Wait, beside the conversation; False, and at once, when the scope is being closed."""
        woken = self._woken.setdefault(asyncio.get_running_loop(), asyncio.Event())
        if not self.closing:
            try:
                await asyncio.wait_for(woken.wait(), seconds)
            except TimeoutError:
                pass
        return not self.closing

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
        """Let what runs beside finish, for a while, and let go of the stores."""
        if self.closed:
            return
        self.closing = True
        for loop, woken in list(self._woken.items()):
            loop.call_soon_threadsafe(woken.set)
        here = asyncio.get_running_loop()
        for name in self._endless & self._tasks.keys():
            _cancel(self._tasks[name], here)
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
        for wanted, store in self._state_stores.items():
            if isinstance(wanted, str):
                await store.close()
        if self.owns_store:
            await self._store.close()


def _cancel(task: asyncio.Task[None], here: asyncio.AbstractEventLoop) -> None:
    loop = task.get_loop()
    if loop is here:
        task.cancel()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)
