"""Hooks: what users want to be told of the lives of sessions. Apart because nothing that a hook does, not even raising
or hanging, may reach the operation that it is told of."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from frontdesk.calls import call
from frontdesk.config.background import Background
from frontdesk.errors import ConfigurationError
from frontdesk.messages import new_id

EVENTS = ("on_session_start", "on_message", "on_compaction", "on_session_end")
DEFAULT_TIMEOUT = 10.0
_log = logging.getLogger("frontdesk.hooks")
_MOST_WAITING = 10_000
"""calls of one session that may wait for a slow hook; what comes after them is dropped, and counted"""
_inside: ContextVar[frozenset[str]] = ContextVar("frontdesk_inside", default=frozenset())
"""the sessions of which hooks are being told here: what they do must not wait for them"""
_ending: ContextVar[frozenset[str]] = ContextVar("frontdesk_ending", default=frozenset())
"""those whose end is being told: ending one of them from inside tells nobody again"""


class _Registered(NamedTuple):
    hook: Any
    timeout: float


class Hooks:
    """The hooks of one manager, in the order of their registration, and the calls that wait for them.

    Those of one session are called one after the other, beside the operations; an end is waited for."""

    def __init__(self, background: Background) -> None:
        self.failures = 0
        self.session_for: Callable[[str], Any] = str
        """makes the session that hooks are given, by id; set by the owner of the runtime"""
        self._background = background
        self._registered: tuple[_Registered, ...] = ()
        self._waiting: dict[str, deque[Callable[[], Any]]] = {}
        self._lock = threading.Lock()

    def register(self, hook: Any, timeout: float) -> None:
        """Raises `ConfigurationError` for what has none of the methods, or is registered already."""
        if not any(callable(getattr(hook, event, None)) for event in EVENTS):
            raise ConfigurationError(f"a hook has at least one of {', '.join(EVENTS)}; {type(hook).__name__} has none")
        if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not timeout > 0:
            raise ConfigurationError(f"timeout must be a number of seconds above 0, not {timeout!r}")
        with self._lock:
            if any(registered.hook is hook for registered in self._registered):
                raise ConfigurationError("this hook is registered already")
            self._registered = (*self._registered, _Registered(hook, timeout))

    def unregister(self, hook: Any) -> bool:
        """False if it was not registered."""
        with self._lock:
            before = self._registered
            self._registered = tuple(registered for registered in before if registered.hook is not hook)
            return len(self._registered) < len(before)

    def listens(self, event: str) -> bool:
        return any(callable(getattr(registered.hook, event, None)) for registered in self._registered)

    def tells_end(self, session_id: str) -> bool:
        """Whether the end of a session is to be told, here and now."""
        return self.listens("on_session_end") and session_id not in _ending.get()

    def announce(self, session_id: str, event: str, *values: Any) -> None:
        """Call the hooks beside the operation, after all that was announced of the session before."""
        if self.listens(event):
            self._enqueue(session_id, lambda: self._tell(event, session_id, *values))

    def _enqueue(self, session_id: str, work: Callable[[], Any]) -> None:
        with self._lock:
            waiting = self._waiting.get(session_id)
            if waiting is not None and len(waiting) >= _MOST_WAITING:
                self.failures += 1
                return
            if waiting is not None:
                waiting.append(work)
                return
            waiting = self._waiting[session_id] = deque([work])
        self._background.spawn(self._drain(session_id, waiting), f"hooks {session_id} {new_id()}")

    async def _drain(self, session_id: str, waiting: deque[Callable[[], Any]]) -> None:
        # Whoever announced something first may have been a hook itself, of another session.
        _inside.set(frozenset())
        _ending.set(frozenset())
        try:
            while (work := self._next(session_id, waiting)) is not None:
                await work()
        except BaseException:
            with self._lock:
                del self._waiting[session_id]
            raise

    def _next(self, session_id: str, waiting: deque[Callable[[], Any]]) -> Callable[[], Any] | None:
        """What is to be called next. Whoever finds nothing left is done with the session, in the same moment."""
        with self._lock:
            if waiting:
                return waiting.popleft()
            del self._waiting[session_id]
            return None

    async def finish(self, session_id: str, reason: str) -> None:
        """Call the hooks for an end, and wait for them, each no longer than its timeout. What was announced before is
        waited for first, for as long as the slowest hook may take."""
        await self._settled(session_id)
        token = _ending.set(_ending.get() | {session_id})
        try:
            await self._tell("on_session_end", session_id, reason)
        finally:
            _ending.reset(token)

    async def _settled(self, session_id: str) -> None:
        if session_id not in self._waiting or session_id in _inside.get():
            return
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        async def mark() -> None:
            loop.call_soon_threadsafe(done.set)

        self._enqueue(session_id, mark)
        longest = max((registered.timeout for registered in self._registered), default=0.0)
        try:
            await asyncio.wait_for(done.wait(), longest)
        except TimeoutError:
            pass

    async def _tell(self, event: str, session_id: str, *values: Any) -> None:
        session = self.session_for(session_id)
        token = _inside.set(_inside.get() | {session_id})
        try:
            for hook, timeout in self._registered:
                method = getattr(hook, event, None)
                problem = await _outcome(method, (session, *values), timeout) if callable(method) else None
                if problem is not None:
                    self.failures += 1
                    _log.warning("%s of hook %s failed: %s", event, type(hook).__name__, problem)
        finally:
            _inside.reset(token)


async def _outcome(method: Callable[..., Any], values: tuple[Any, ...], seconds: float) -> str | None:
    """What went wrong in a call, by its kind alone. One that ignores that it is cancelled is left behind."""

    async def run() -> str | None:
        try:
            await call(method, *values)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit, too: a hook does not end the process
            return type(error).__name__
        return None

    task = asyncio.ensure_future(run())
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not task.done():
        task.cancel()
        return f"no answer within {seconds:g} s"
    return "CancelledError" if task.cancelled() else task.result()
