"""Keeps a turn for its holder: renews it in the background, and notices when it is lost. Separate from `turns`, because
a holder may also reach the session through a server."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from frontdesk.errors import FrontdeskError, StoreUnavailableError, TurnLostError
from frontdesk.unattended import sleep

R = TypeVar("R")
_WATCH = 1.0
"""seconds after which a holder knows, at the latest, that it was interrupted by another process"""
_BRIEFLY = 0.5
"""seconds to wait for a store that has not answered before"""
_unfinished: set[asyncio.Task[None]] = set()
"""work that is finished although nobody waits for it any more"""


class Keeper(ABC):
    """A turn that is held until its end or its loss. `seconds` is how long it lasts unless it is renewed, and
    `asked_at` when it was asked for."""

    def __init__(self, session_id: str, number: int, seconds: float, asked_at: float) -> None:
        self.session_id = session_id
        self.number = number
        self.interrupted = False
        self._seconds = seconds
        self._until = asked_at + seconds
        self._over = asyncio.Event()
        self._renewal: asyncio.Task[None] | None = None

    @abstractmethod
    async def renew(self, seconds: float) -> bool:
        """Let the turn last so many seconds from now on; False if it is over."""

    @abstractmethod
    async def current_number(self) -> int | None:
        """The number of the turn that is held now, by this holder or another; None if there is none."""

    @property
    def lost(self) -> bool:
        """Whether it is known to be over. The store has the last word, at each write."""
        return self._over.is_set() or time.monotonic() >= self._until

    def start_renewal(self) -> None:
        name = f"turn {self.number} of {self.session_id}"
        self._renewal = asyncio.get_running_loop().create_task(self._keep(), name=name)

    async def stop_renewal(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)

    @asynccontextmanager
    async def nested(self, turn: R) -> AsyncIterator[R]:
        """A turn inside the turn: it is the same one, and does not end it."""
        if self.lost:
            raise TurnLostError(self.session_id, self.number)
        yield turn

    async def run(self, work: Awaitable[R]) -> R:
        """The result of some work; cancelled when the turn is lost, with `TurnLostError`."""
        doing, over = asyncio.ensure_future(work), asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait([doing, over], return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            raise TurnLostError(self.session_id, self.number)
        finally:
            for task in (doing, over):
                task.cancel()
            await asyncio.gather(doing, over, return_exceptions=True)

    def lose(self, interrupted: bool) -> None:
        if not self._over.is_set():
            self.interrupted = interrupted
            self._over.set()

    async def _keep(self) -> None:
        renew_at = self._until - self._seconds * 2 / 3
        while not self._over.is_set():
            await sleep(min(_WATCH, self._seconds / 3))
            asked_at = time.monotonic()
            try:
                async with asyncio.timeout(self._until - asked_at):
                    if asked_at >= renew_at and await self.renew(self._seconds):
                        self._until, renew_at = asked_at + self._seconds, asked_at + self._seconds / 3
                        continue
                    number = await self.current_number()
            except (FrontdeskError, TimeoutError):
                if time.monotonic() >= self._until:  # out of reach for too long: another may have it by now
                    self.lose(False)
                continue
            if number != self.number:
                self.lose(number is not None and asked_at < self._until)


async def to_the_end(work: Coroutine[Any, Any, None], *, after: BaseException | None = None) -> None:
    """Wait for some work, which continues even if its caller is cancelled: others wait for it too. `after` is the error
    that it follows: if the store could not be reached, the caller has waited long enough."""
    task = asyncio.get_running_loop().create_task(work)
    _unfinished.add(task)
    task.add_done_callback(_unfinished.discard)
    with suppress(TimeoutError):
        async with asyncio.timeout(_BRIEFLY if isinstance(after, StoreUnavailableError) else None):
            await asyncio.shield(task)
