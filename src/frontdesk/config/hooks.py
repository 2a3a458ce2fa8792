"""Hooks: user objects that are called when something happens to a session. Nothing that a hook does, not even raising
or hanging, affects the operation that it is called for."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar
from typing import Any, NamedTuple

from frontdesk.calls import call
from frontdesk.config.background import may_run
from frontdesk.errors import ConfigurationError, FrontdeskError
from frontdesk.messages.ids import new_id
from frontdesk.unattended import log_failure

EVENTS = ("on_session_start", "on_message", "on_compaction", "on_session_end")
DEFAULT_TIMEOUT = 10.0
_log = logging.getLogger("frontdesk.hooks")
_MAX_PENDING = 10_000
"""calls for one session that may wait for a slow hook; further ones are dropped, and counted as failures"""
_called_for: ContextVar[frozenset[str]] = ContextVar("frontdesk_hooks_called_for", default=frozenset())
"""the sessions for which the current code runs inside a hook: it must not wait for the hooks of these sessions"""
_ending: ContextVar[frozenset[str]] = ContextVar("frontdesk_hooks_ending", default=frozenset())
"""the sessions for which the current code runs inside `on_session_end`: if it ends them, no hook is called again"""


class _NoAnswerError(FrontdeskError):
    """A hook took longer than its timeout."""


class _Registered(NamedTuple):
    hook: Any
    timeout: float


class _Queue:
    """Calls that are pending for a session, and the task that makes them; None while that is being started."""

    def __init__(self, calls: Iterable[Callable[[], Any]]) -> None:
        self.calls = deque(calls)
        self.task: asyncio.Task[None] | None = None


class Hooks:
    """The hooks of one manager in the order of their registration, and the calls that are pending.

    The calls for one session are made one after the other, in the background. Only the calls for an end are awaited."""

    def __init__(self, spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]) -> None:
        self.failures = 0
        self.session_for: Callable[[str], Any] = str
        """makes the session that is passed to hooks, by id; set by the owner of the runtime"""
        self._spawn = spawn
        self._registered: tuple[_Registered, ...] = ()
        self._pending: dict[str, _Queue] = {}
        self._lock = threading.Lock()

    def register(self, hook: Any, timeout: float) -> None:
        """Add a hook. Raises `ConfigurationError` if it has none of the methods, or is registered already."""
        if not any(callable(getattr(hook, event, None)) for event in EVENTS):
            raise ConfigurationError(
                f"a hook must have at least one of {', '.join(EVENTS)}; {type(hook).__name__} has none"
            )
        if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not timeout > 0:
            raise ConfigurationError(f"timeout must be a number of seconds above 0, not {timeout!r}")
        with self._lock:
            if any(registered.hook is hook for registered in self._registered):
                raise ConfigurationError("this hook is already registered")
            self._registered = (*self._registered, _Registered(hook, timeout))

    def unregister(self, hook: Any) -> bool:
        """Remove a hook; False if it was not registered."""
        with self._lock:
            before = self._registered
            self._registered = tuple(registered for registered in before if registered.hook is not hook)
            return len(self._registered) < len(before)

    def listens(self, event: str) -> bool:
        return any(callable(getattr(registered.hook, event, None)) for registered in self._registered)

    def listens_to_end(self, session_id: str) -> bool:
        """Whether hooks must be called for an end of this session by the current code."""
        return self.listens("on_session_end") and session_id not in _ending.get()

    def announce(self, session_id: str, event: str, *values: Any) -> None:
        """Call the hooks in the background, after all calls that were announced for the session before."""
        if self.listens(event):
            self._enqueue(session_id, lambda: self._call(event, session_id, *values))

    def _enqueue(self, session_id: str, work: Callable[[], Any]) -> None:
        with self._lock:
            queue = self._pending.get(session_id)
            if queue is not None and may_run(queue.task):
                if len(queue.calls) >= _MAX_PENDING:
                    self.failures += 1
                else:
                    queue.calls.append(work)
                return
            # The calls of a queue whose event loop ended before they were made are made now.
            queue = self._pending[session_id] = _Queue([*(queue.calls if queue else ()), work])
        queue.task = self._spawn(self._drain(session_id, queue), f"hooks {session_id} {new_id()}")

    async def _drain(self, session_id: str, queue: _Queue) -> None:
        # This task may have been started inside a hook of another session, and inherits its context.
        _called_for.set(frozenset())
        _ending.set(frozenset())
        try:
            while (work := self._next(session_id, queue)) is not None:
                await work()
        except BaseException:
            with self._lock:
                self._remove(session_id, queue)
            raise

    def _next(self, session_id: str, queue: _Queue) -> Callable[[], Any] | None:
        """The next call. If there is none, the queue is removed under the same lock, so that no call is lost."""
        with self._lock:
            if queue.calls:
                return queue.calls.popleft()
            self._remove(session_id, queue)
            return None

    def _remove(self, session_id: str, queue: _Queue) -> None:
        if self._pending.get(session_id) is queue:
            del self._pending[session_id]

    async def finish(self, session_id: str, reason: str) -> None:
        """Call the hooks for an end, and wait for each no longer than its timeout. Before that, wait for the pending
        calls, no longer than the longest timeout."""
        await self._wait_for_pending(session_id)
        token = _ending.set(_ending.get() | {session_id})
        try:
            await self._call("on_session_end", session_id, reason)
        finally:
            _ending.reset(token)

    async def _wait_for_pending(self, session_id: str) -> None:
        if session_id not in self._pending or session_id in _called_for.get():
            return
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        async def set_done() -> None:
            loop.call_soon_threadsafe(done.set)

        self._enqueue(session_id, set_done)
        longest = max((registered.timeout for registered in self._registered), default=0.0)
        try:
            await asyncio.wait_for(done.wait(), longest)
        except TimeoutError:
            pass

    async def _call(self, event: str, session_id: str, *values: Any) -> None:
        session = self.session_for(session_id)
        token = _called_for.set(_called_for.get() | {session_id})
        try:
            for hook, timeout in self._registered:
                method = getattr(hook, event, None)
                problem = await _find_problem(method, (session, *values), timeout) if callable(method) else None
                if problem is not None:
                    self.failures += 1
                    name = type(hook).__name__
                    log_failure(_log, problem, "%s of hook %s failed for session %r", event, name, session_id)
        finally:
            _called_for.reset(token)


async def _find_problem(method: Callable[..., Any], values: tuple[Any, ...], seconds: float) -> BaseException | None:
    """Call a method and return what it raised, or None. A call that takes longer than `seconds` is cancelled; if it
    ignores that, it is abandoned."""

    async def run() -> BaseException | None:
        try:
            await call(method, *values)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # even SystemExit: a hook must not end the process
            return error
        return None

    task = asyncio.ensure_future(run())
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not task.done():
        task.cancel()
        return _NoAnswerError(f"no answer within {seconds:g} s")
    return asyncio.CancelledError() if task.cancelled() else task.result()
