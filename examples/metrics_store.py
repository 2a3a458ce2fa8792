"""A store that wraps another one and measures each call: how often, how long, and how many failed.

`python -m examples.metrics_store` shows what a short conversation asks of its store. To report somewhere else, for
example to Prometheus, replace `StoreMetrics.record`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from frontdesk import SessionManager
from frontdesk.store import LockingStore, ShelfStore, StateStore, Store, VectorStore
from frontdesk.stores.memory import MemoryStore

S = TypeVar("S", bound=Store | StateStore)
Method = Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class MethodMetrics:
    """The calls of one method so far. `seconds` is the sum over all of them."""

    calls: int = 0
    errors: int = 0
    seconds: float = 0.0


class StoreMetrics:
    """What was measured, by the name of the method. Event loops in several threads may use one store."""

    def __init__(self) -> None:
        self._methods: dict[str, MethodMetrics] = {}
        self._lock = threading.Lock()

    def record(self, method: str, seconds: float, *, failed: bool) -> None:
        with self._lock:
            old = self._methods.get(method, MethodMetrics())
            self._methods[method] = MethodMetrics(old.calls + 1, old.errors + failed, old.seconds + seconds)

    def snapshot(self) -> dict[str, MethodMetrics]:
        with self._lock:
            return dict(self._methods)


class MetricsStore:
    """Passes each call on to a store, and records it.

    It has exactly the methods of the store that it wraps. Frontdesk asks `isinstance(store, VectorStore)` to find out
    what a store can do, and gets the same answer from the wrapper.
    """

    def __init__(self, store: Store | StateStore, metrics: StoreMetrics) -> None:
        for protocol in (Store, VectorStore, StateStore, ShelfStore, LockingStore):
            if isinstance(store, protocol):
                for name in dir(protocol):
                    if not name.startswith("_"):
                        member = getattr(store, name)
                        setattr(self, name, _measured(member, name, metrics) if callable(member) else member)


def with_metrics(store: S, metrics: StoreMetrics) -> S:
    """The store, measured. A type checker sees the same methods as before."""
    return cast(S, MetricsStore(store, metrics))


def _measured(method: Method, name: str, metrics: StoreMetrics) -> Method:
    async def call(*args: Any, **options: Any) -> Any:
        failed = True
        start = time.perf_counter()
        try:
            result = await method(*args, **options)
            failed = False
            return result
        finally:
            metrics.record(name, time.perf_counter() - start, failed=failed)

    return call


async def main() -> None:
    metrics = StoreMetrics()
    async with SessionManager(with_metrics(MemoryStore(), metrics)) as manager:
        session = manager.session("chat")
        for number in range(10):
            await session.append({"role": "user", "content": f"Question {number}"})
            await session.history()
    for name, measured in sorted(metrics.snapshot().items()):
        print(f"{name:15} {measured.calls:5} calls {measured.errors:3} errors {1000 * measured.seconds:8.2f} ms")


if __name__ == "__main__":
    asyncio.run(main())
