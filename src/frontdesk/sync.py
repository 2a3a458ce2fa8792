"""The same API without an event loop: every name of `frontdesk`, with a sync twin for each async class.

The twins are made from the async classes on import, so the two cannot differ. Type checkers and editors read
`sync.pyi`, which `scripts/sync_stub.py` writes. All coroutines of a process, and the callbacks passed to them, run on
one event loop in a background thread. The twins can be used from any thread.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import operator
import os
import threading
import types
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import Any, cast
from weakref import WeakValueDictionary

import frontdesk
from frontdesk.calls import set_caller
from frontdesk.errors import ConfigurationError

_BATCH = 256
_SPECIAL = {"__init__": "__init__", "__aenter__": "__enter__", "__aexit__": "__exit__", "__call__": "__call__"}
_SYNC_TYPES: dict[Any, Any] = {
    AsyncIterator: Iterator,
    AbstractAsyncContextManager: AbstractContextManager,
}


class _ThreadCall:
    """One awaitable that runs on the loop while a thread waits for its result."""

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self.awaitable = awaitable
        self.thread = threading.current_thread()
        self.task: asyncio.Task[None] | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.running = threading.Lock()
        self.running.acquire()

    def start(self) -> None:
        self.task = asyncio.create_task(self._work())
        set_caller(self.task, self.thread)

    async def _work(self) -> None:
        try:
            self.result = await self.awaitable
        except BaseException as error:  # even SystemExit: it is for the caller, and must not end the shared loop
            self.error = error
        self.running.release()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class _LoopThread:
    """The event loop that everything runs on, and its thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="frontdesk.sync", daemon=True)
        self._thread.start()

    def run(self, awaitable: Awaitable[Any]) -> Any:
        if threading.get_ident() == self._thread.ident:
            if isinstance(awaitable, Coroutine):
                awaitable.close()
            raise ConfigurationError(
                "frontdesk.sync was called by a callback on its own event loop: use frontdesk there"
            )
        call = _ThreadCall(awaitable)
        try:
            self.loop.call_soon_threadsafe(call.start)
            call.running.acquire()
        except BaseException:  # Ctrl-C
            self.loop.call_soon_threadsafe(call.cancel)
            raise
        if call.error is None:
            return call.result
        try:
            raise call.error
        finally:
            call.error = None  # otherwise the error, its traceback and this frame form a reference cycle


_loop_thread: _LoopThread | None = None
_loop_thread_lock = threading.Lock()


def _get_loop_thread() -> _LoopThread:
    global _loop_thread
    if (loop_thread := _loop_thread) is None:
        with _loop_thread_lock:
            loop_thread = _loop_thread = _loop_thread or _LoopThread()
    return loop_thread


def _forget_loop_thread() -> None:
    """In a forked child the loop exists, but its thread does not: the child starts another one when it needs it."""
    global _loop_thread, _loop_thread_lock
    _loop_thread, _loop_thread_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loop_thread)


class _Batches:
    """Reads an async iterator in one task, and returns its items in batches.

    A batch ends when the source has to wait. So a long transcript takes few switches between threads, and the items of
    a slow stream are not delayed."""

    def __init__(self, source: AsyncIterator[Any]) -> None:
        self._source = source
        self._items: list[Any] = []
        self._error: Exception | None = None
        self._arrived = asyncio.Event()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def next_batch(self) -> list[Any]:
        """The next items; an empty list at the end. Raises what the source raised."""
        self._task = self._task or asyncio.create_task(self._drain())
        self._wanted.set()
        await self._arrived.wait()
        items, self._items = self._items, []
        if not self._task.done():
            self._arrived.clear()
        elif self._error is not None and not items:
            raise self._error
        return items

    async def _drain(self) -> None:
        try:
            async for item in self._source:
                self._items.append(item)
                if len(self._items) == 1:
                    self._arrived.set()
                elif len(self._items) == _BATCH:
                    self._wanted.clear()
                    await self._wanted.wait()
        except Exception as error:
            self._error = error
        finally:
            if isinstance(self._source, AsyncGenerator):
                await self._source.aclose()
            self._arrived.set()

    def abandon(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _iterate(source: AsyncIterator[Any], caller: Any) -> Iterator[Any]:
    loop_thread = _get_loop_thread()
    batches = _Batches(source)
    try:
        while items := loop_thread.run(batches.next_batch()):
            for item in items:
                yield _to_sync(item, caller)
    finally:
        # Without waiting: the garbage collector may be closing this generator, in any thread and under any lock.
        loop_thread.loop.call_soon_threadsafe(batches.abandon)


@contextmanager
def _enter(inner: AbstractAsyncContextManager[Any], caller: Any) -> Iterator[Any]:
    value = _to_sync(inner.__aenter__(), caller)
    try:
        yield value
    except BaseException as error:
        if not _get_loop_thread().run(inner.__aexit__(type(error), error, error.__traceback__)):
            raise
    else:
        _get_loop_thread().run(inner.__aexit__(None, None, None))


def _to_sync(value: Any, caller: Any) -> Any:
    """Convert a value of the async API for a sync caller, which is a twin or its class."""
    kind: Any = type(value)
    convert = _converter(kind)
    return value if convert is None else convert(value, caller)


@functools.cache
def _converter(kind: Any) -> Callable[[Any, Any], Any] | None:
    if any(base in _twins for base in kind.__mro__):
        return _wrap
    for interface, convert in ((AsyncIterator, _iterate), (AbstractAsyncContextManager, _enter)):
        if issubclass(kind, interface):
            return cast(Callable[[Any, Any], Any], convert)
    if issubclass(kind, Awaitable):
        return lambda value, caller: _to_sync(_get_loop_thread().run(value), caller)
    if kind is dict:
        return lambda value, caller: dict(zip(value, _to_sync([*value.values()], caller), strict=True))
    if kind in (list, tuple):
        return lambda value, caller: (
            kind(_to_sync(item, caller) for item in value) if any(map(_converter, set(map(type, value)))) else value
        )
    return None


def _wrap(inner: Any, caller: Any) -> Any:
    if isinstance(caller, _Twin):
        if caller._inner is inner:
            return caller
        caller = type(caller)
    kind = next(_twins[base] for base in type(inner).__mro__ if base in _twins)
    twin = object.__new__(caller if issubclass(caller, kind) else kind)
    twin._inner = inner
    return twin


def _to_async(value: Any) -> Any:
    """Convert an argument for the async API. An iterator is read here, in the caller's thread, because it may use this
    API itself; a file is passed on."""
    if isinstance(value, _Twin):
        return value._inner
    if type(value) is dict and any(isinstance(each, _Twin) for each in value.values()):
        return {name: _to_async(each) for name, each in value.items()}
    return list(value) if isinstance(value, Iterator) and not hasattr(value, "read") else value


class _Hook:
    """A hook of a sync manager. Its plain methods run in threads of their own, and are passed sync objects. Its async
    methods run on the event loop, where they need the async ones."""

    def __init__(self, hook: Any) -> None:
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._hook, name)
        if not callable(method) or inspect.iscoroutinefunction(method):
            return method
        return lambda *values: method(*(_to_sync(value, _Twin) for value in values))


_hooks: WeakValueDictionary[int, _Hook] = WeakValueDictionary()
"""by the id of the hook: the same one is registered and unregistered"""


def _to_hook(hook: Any) -> _Hook:
    known = _hooks.get(id(hook))
    if known is None:
        known = _hooks[id(hook)] = type(type(hook).__name__, (_Hook,), {})(hook)  # named as the hook, for the log
    return known


_CONVERTERS: dict[str, Callable[[Any], Any]] = {"register_hook": _to_hook, "unregister_hook": _to_hook}
"""for methods whose first argument is not passed on as it is"""


class _Twin:
    """The base of all sync classes: wraps an async object."""

    _inner: Any

    def __class_getitem__(cls, types_of: Any) -> types.GenericAlias:
        """`States[Cart]`, in annotations that are evaluated."""
        return types.GenericAlias(cls, types_of)

    def __repr__(self) -> str:
        return repr(self._inner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return _to_sync(getattr(self._inner, name), self)


_twins: dict[Any, type[_Twin]] = {}


def _members(source: type) -> dict[str, Any]:
    """The public members of a class and its bases."""
    every = {name: member for base in reversed(source.__mro__[:-1]) for name, member in vars(base).items()}
    return {name: member for name, member in every.items() if name in _SPECIAL or not name.startswith("_")}


def _has_async(source: Any) -> bool:
    if not isinstance(source, type) or inspect.isabstract(source) or getattr(source, "_is_protocol", False):
        return False
    members = [getattr(member, "__func__", member) for member in _members(source).values()]
    return any(inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member) for member in members)


def _add_members(twin: type[_Twin], source: Any) -> None:
    for name, member in _members(source).items():
        if name == "__init__":
            setattr(twin, name, _copy_signature(_make_init(source), member))
        elif isinstance(member, property | types.MemberDescriptorType):
            setattr(twin, name, property(_make_getter(name), doc=_sync_text(member.__doc__)))
        elif isinstance(member, classmethod | staticmethod):
            setattr(twin, name, classmethod(_copy_signature(_make_method(name, source), member.__func__)))
        elif isinstance(member, types.FunctionType):
            setattr(twin, _SPECIAL.get(name, name), _copy_signature(_make_method(name), member))


def _make_init(source: Any) -> Any:
    def make(self: _Twin, *args: Any, **kwargs: Any) -> None:
        self._inner = source(*map(_to_async, args), **{key: _to_async(value) for key, value in kwargs.items()})

    return make


def _make_getter(name: str) -> Any:
    return lambda self: _to_sync(getattr(self._inner, name), self)


def _make_method(name: str, source: Any = None) -> Any:
    first = _CONVERTERS.get(name, _to_async)

    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        function = getattr(source or self._inner, name)
        given = [*map(first, args[:1]), *map(_to_async, args[1:])]
        named = {key: (first if key == "hook" else _to_async)(value) for key, value in kwargs.items()}
        return _to_sync(function(*given, **named), self)

    return call


def _copy_signature(function: Any, source: Any) -> Any:
    """Give a function the name, docstring and signature of the async function that it calls."""
    function.__name__ = _SPECIAL.get(source.__name__, source.__name__)
    function.__qualname__ = f"{source.__qualname__.rpartition('.')[0]}.{function.__name__}"
    function.__doc__ = _sync_text(source.__doc__)
    signature = inspect.signature(source, eval_str=True)
    parameters = [each.replace(annotation=_sync_type(each.annotation)) for each in signature.parameters.values()]
    function.__signature__ = signature.replace(
        parameters=parameters, return_annotation=_sync_type(signature.return_annotation)
    )
    return function


def _sync_type(hint: Any) -> Any:
    """The sync form of a type in the async API. Callbacks run on the loop as they are, so their types stay async."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (None, Callable, typing.Literal):
        return _twins.get(hint, hint)
    plain = tuple(map(_sync_type, arguments))
    if origin in _SYNC_TYPES:
        return _SYNC_TYPES[origin][plain[0]]
    if origin in (types.UnionType, typing.Union):
        return functools.reduce(operator.or_, plain)
    return hint if plain == arguments and origin not in _twins else _twins.get(origin, origin)[plain]


def _sync_text(text: str | None) -> str | None:
    return text and text.replace("async with", "with").replace("`await ", "`")


for _name in frontdesk.__all__:
    if _has_async(_source := getattr(frontdesk, _name)):
        _base = next((_twins[base] for base in _source.__mro__ if base in _twins), _Twin)
        _twins[_source] = type(_name, (_base,), {"__doc__": _sync_text(_source.__doc__), "__module__": __name__})
for _source, _twin in _twins.items():
    _add_members(_twin, _source)

__all__ = list(frontdesk.__all__)
for _name in __all__:
    globals()[_name] = getattr(frontdesk, _name)
globals().update({twin.__name__: twin for twin in _twins.values()})
