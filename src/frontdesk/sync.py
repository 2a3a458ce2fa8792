"""The same API without an event loop: every name of `frontdesk`, its async classes as plain twins for any thread.

The twins are made from the async classes on import, so nothing is kept in step by hand; type checkers and editors see
`sync.pyi`, which `scripts/sync_stub.py` writes. All coroutines of a process, and the callbacks given to them, run on
one event loop in a background thread.
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

import frontdesk
from frontdesk.errors import ConfigurationError

_PORTION = 256
_SPECIAL = {"__init__": "__init__", "__aenter__": "__enter__", "__aexit__": "__exit__", "__call__": "__call__"}
_PLAIN: dict[Any, Any] = {
    AsyncIterator: Iterator,
    AbstractAsyncContextManager: AbstractContextManager,
}


class _Call:
    """One awaitable on its way through the loop and back to the thread that waits for it."""

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self.awaitable = awaitable
        self.task: asyncio.Task[None] | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.running = threading.Lock()
        self.running.acquire()

    def start(self) -> None:
        self.task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        try:
            self.result = await self.awaitable
        except BaseException as error:  # even SystemExit: it is the caller's, and must not end the loop of all others
            self.error = error
        self.running.release()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class _Home:
    """The event loop that everything runs on, in a thread of its own."""

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
        call = _Call(awaitable)
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
            call.error = None  # else the error, its traceback and this frame keep each other alive


_home: _Home | None = None
_home_lock = threading.Lock()


def _at_home() -> _Home:
    global _home
    if (home := _home) is None:
        with _home_lock:
            home = _home = _home or _Home()
    return home


def _leave_home() -> None:
    """A forked child has the loop but not its thread: it makes its own."""
    global _home, _home_lock
    _home, _home_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_home)


class _Portions:
    """An async iterator, drained by one task of its own and handed over in portions.

    A portion ends where the source has to wait, so that a long transcript takes few hops and a slow stream is not held
    back."""

    def __init__(self, source: AsyncIterator[Any]) -> None:
        self._source = source
        self._items: list[Any] = []
        self._error: Exception | None = None
        self._arrived = asyncio.Event()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def pull(self) -> list[Any]:
        """The next items; none at the end. Raises what the source raised."""
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
                elif len(self._items) == _PORTION:
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
    home = _at_home()
    portions = _Portions(source)
    try:
        while items := home.run(portions.pull()):
            for item in items:
                yield _present(item, caller)
    finally:
        # Not waited for: it may be the garbage collector that closes this, in any thread and under any lock.
        home.loop.call_soon_threadsafe(portions.abandon)


@contextmanager
def _enter(inner: AbstractAsyncContextManager[Any], caller: Any) -> Iterator[Any]:
    value = _present(inner.__aenter__(), caller)
    try:
        yield value
    except BaseException as error:
        if not _at_home().run(inner.__aexit__(type(error), error, error.__traceback__)):
            raise
    else:
        _at_home().run(inner.__aexit__(None, None, None))


def _present(value: Any, caller: Any) -> Any:
    """A value of the async API as a sync caller (a twin, or its class) can use it."""
    kind: Any = type(value)
    way = _way(kind)
    return value if way is None else way(value, caller)


@functools.cache
def _way(kind: Any) -> Callable[[Any, Any], Any] | None:
    if any(base in _twins for base in kind.__mro__):
        return _adopt
    for interface, way in ((AsyncIterator, _iterate), (AbstractAsyncContextManager, _enter)):
        if issubclass(kind, interface):
            return cast(Callable[[Any, Any], Any], way)
    if issubclass(kind, Awaitable):
        return lambda value, caller: _present(_at_home().run(value), caller)
    if kind is dict:
        return lambda value, caller: dict(zip(value, _present([*value.values()], caller), strict=True))
    if kind in (list, tuple):
        return lambda value, caller: (
            kind(_present(item, caller) for item in value) if any(map(_way, set(map(type, value)))) else value
        )
    return None


def _adopt(inner: Any, caller: Any) -> Any:
    if isinstance(caller, _Twin):
        if caller._inner is inner:
            return caller
        caller = type(caller)
    kind = next(_twins[base] for base in type(inner).__mro__ if base in _twins)
    twin = object.__new__(caller if issubclass(caller, kind) else kind)
    twin._inner = inner
    return twin


def _given(value: Any) -> Any:
    """An argument as the async API takes it. Iterators are run here, where they may use this API; files are not."""
    if isinstance(value, _Twin):
        return value._inner
    return list(value) if isinstance(value, Iterator) and not hasattr(value, "read") else value


class _Twin:
    """What all sync classes have in common: the async object that each stands for."""

    _inner: Any

    def __repr__(self) -> str:
        return repr(self._inner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return _present(getattr(self._inner, name), self)


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


def _fill(twin: type[_Twin], source: Any) -> None:
    for name, member in _members(source).items():
        if name == "__init__":
            setattr(twin, name, _dressed(_maker(source), member))
        elif isinstance(member, property | types.MemberDescriptorType):
            setattr(twin, name, property(_getter(name), doc=_plain_text(member.__doc__)))
        elif isinstance(member, classmethod | staticmethod):
            setattr(twin, name, classmethod(_dressed(_caller(name, source), member.__func__)))
        elif isinstance(member, types.FunctionType):
            setattr(twin, _SPECIAL.get(name, name), _dressed(_caller(name), member))


def _maker(source: Any) -> Any:
    def make(self: _Twin, *args: Any, **kwargs: Any) -> None:
        self._inner = source(*map(_given, args), **{key: _given(value) for key, value in kwargs.items()})

    return make


def _getter(name: str) -> Any:
    return lambda self: _present(getattr(self._inner, name), self)


def _caller(name: str, source: Any = None) -> Any:
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        function = getattr(source or self._inner, name)
        return _present(function(*map(_given, args), **{key: _given(value) for key, value in kwargs.items()}), self)

    return call


def _dressed(function: Any, source: Any) -> Any:
    """Give a function the name, text and signature of the async one that it stands for."""
    function.__name__ = _SPECIAL.get(source.__name__, source.__name__)
    function.__qualname__ = f"{source.__qualname__.rpartition('.')[0]}.{function.__name__}"
    function.__doc__ = _plain_text(source.__doc__)
    signature = inspect.signature(source, eval_str=True)
    parameters = [each.replace(annotation=_plain(each.annotation)) for each in signature.parameters.values()]
    function.__signature__ = signature.replace(
        parameters=parameters, return_annotation=_plain(signature.return_annotation)
    )
    return function


def _plain(hint: Any) -> Any:
    """A type of the async API as it is here. Callbacks pass through, so theirs stay."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (None, Callable, typing.Literal):
        return _twins.get(hint, hint)
    plain = tuple(map(_plain, arguments))
    if origin in _PLAIN:
        return _PLAIN[origin][plain[0]]
    if origin in (types.UnionType, typing.Union):
        return functools.reduce(operator.or_, plain)
    return hint if plain == arguments else origin[plain]


def _plain_text(text: str | None) -> str | None:
    return text and text.replace("async with", "with").replace("`await ", "`")


for _name in frontdesk.__all__:
    if _has_async(_source := getattr(frontdesk, _name)):
        _base = next((_twins[base] for base in _source.__mro__ if base in _twins), _Twin)
        _twins[_source] = type(_name, (_base,), {"__doc__": _plain_text(_source.__doc__), "__module__": __name__})
for _source, _twin in _twins.items():
    _fill(_twin, _source)

__all__ = list(frontdesk.__all__)
for _name in __all__:
    globals()[_name] = getattr(frontdesk, _name)
globals().update({twin.__name__: twin for twin in _twins.values()})
