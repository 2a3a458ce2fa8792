"""One run of the benchmark: where contenders put their files, how much they do, and how sessions are filled."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.contenders import Contender
from bench.contenders.frontdesk import Frontdesk

_FILL = 1000
_TMPFS = Path("/dev/shm")


@dataclass
class Run:
    """`fast` is a directory in memory, which shows the cost of the software; `disk` is one on a disk."""

    fast: Path
    disk: Path
    quick: bool
    notes: list[str] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(10_000_000))

    def rounds(self, full: int) -> int:
        return max(3, full // 5) if self.quick else full

    def size(self, full: int) -> int:
        """How many messages or sessions to set up: a tenth in a quick run."""
        return full // 10 if self.quick else full

    def fresh(self, count: int = 1) -> range:
        """Numbers of messages that have not been used before."""
        first = next(self._numbers)
        for _ in range(count - 1):
            next(self._numbers)
        return range(first, first + count)

    def note(self, text: str) -> None:
        self.notes.append(text)
        print(f"  {text}", flush=True)

    @asynccontextmanager
    async def opened(self, *contenders: Contender, on: Path) -> AsyncIterator[None]:
        """Open contenders, each in its own directory, which is removed when they are closed."""
        async with AsyncExitStack() as stack:
            for contender in contenders:
                directory = stack.enter_context(tempfile.TemporaryDirectory(dir=on))
                await contender.open(Path(directory))
                stack.push_async_callback(contender.close)
            yield

    async def fill(self, contender: Contender, session: str, count: int) -> None:
        """Fill a new session with `count` messages, in batches. The time is noted for long sessions."""
        start = time.perf_counter()
        for first in range(0, count, _FILL):
            await contender.append_many(session, range(first, min(first + _FILL, count)))
        if isinstance(contender, Frontdesk):
            await contender.settle()
        if count > _FILL:
            self.note(f"set-up: {count:,} messages into {contender.name}: {time.perf_counter() - start:.1f} s")


@contextmanager
def new_run(*, quick: bool) -> Iterator[Run]:
    """A run with temporary directories, which are removed at its end."""
    fast = _TMPFS if _TMPFS.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="frontdesk-bench-", dir=fast) as memory,
        tempfile.TemporaryDirectory(prefix="frontdesk-bench-") as disk,
    ):
        yield Run(Path(memory), Path(disk), quick)
