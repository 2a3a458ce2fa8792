"""The turn of a session: waiting for it in the queue, renewing it in the background, and releasing it. `Turn` has the
calls that can be made during a turn."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Literal, Self, TypeVar

import msgspec

from frontdesk.calls import caller
from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError, InvalidInputError, SessionNotFoundError, TurnBusyError, TurnLostError
from frontdesk.lifecycle.leases import holder
from frontdesk.messages.stored import StoredMessage
from frontdesk.session.handle import Handle
from frontdesk.session.keeping import Keeper, to_the_end
from frontdesk.store import TURN, LeaseAnswer, LeaseWanted

R = TypeVar("R")
OnBusy = Literal["wait", "reject", "interrupt", "queue"]
Follows = Literal["never", "waiting", "always"]
"""whether a caller goes to the session that is current under its key by now: after having to wait, or always"""
Duration = float | timedelta
ON_BUSY: tuple[OnBusy, ...] = ("wait", "reject", "interrupt", "queue")
DEFAULT_TTL = 30.0
_LONGEST = 1e9
"""seconds that a turn can last or be waited for"""
_PATIENCE = 10_000_000
"""microseconds after which a waiter that no longer asks is passed over"""
_FIRST_LOOK, _NEXT_LOOK, _FAR_LOOK = 0.01, 0.1, 0.5
"""seconds between two looks at a turn: the first, and the longest for the first in the queue and for the others"""


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How to take a turn: seconds to wait (None: for ever), and seconds it lasts without being renewed."""

    wait: float | None
    ttl: float
    on_busy: OnBusy
    message: StoredMessage | None
    intake: bool = True
    """whether others may queue messages for the holder"""
    holder: str | None = None
    """the name of the holder, if it asks in several steps; otherwise a new one is made"""
    keeps_place: bool = False
    """whether the place in the queue is kept for a while when the wait is over, because the holder will ask again"""


def check_seconds(value: object, what: str, *, least: float) -> float:
    """A number of seconds or a timedelta, as seconds."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not least <= seconds <= _LONGEST:
        raise InvalidInputError(
            f"{what} must be seconds or a timedelta, at least {least:g} s and at most {_LONGEST:g} s, not {value!r}"
        )
    return float(seconds)


def turn_request(wait: Duration | None, ttl: Duration, on_busy: OnBusy, message: StoredMessage | None) -> TurnRequest:
    """The request that the arguments of `Session.turn` make. Raises `InvalidInputError`."""
    if on_busy not in ON_BUSY:
        raise InvalidInputError(f"unknown on_busy {on_busy!r}: choose one of {', '.join(ON_BUSY)}")
    if (message is not None) != (on_busy == "queue"):
        raise InvalidInputError('pass a `message` with on_busy="queue", and only then')
    return TurnRequest(
        wait=None if wait is None else check_seconds(wait, "wait", least=0),
        ttl=check_seconds(ttl, "ttl", least=0.05),
        on_busy=on_busy,
        message=message,
    )


class KeyMovedError(Exception):
    """The session whose turn is wanted by key is not the current one any more."""


def new_request(on_busy: OnBusy, wait: Duration | None) -> TurnRequest:
    """The request that the arguments of `SessionManager.new` make. Raises `InvalidInputError`."""
    if on_busy == "queue":
        raise InvalidInputError('on_busy="queue" is only for messages: choose one of wait, reject, interrupt')
    # A message that was queued for this call would have to wait until somebody else takes a turn.
    return msgspec.structs.replace(turn_request(wait, DEFAULT_TTL, on_busy, None), intake=False)


@asynccontextmanager
async def hold(handle: Handle, request: TurnRequest, make: Callable[[Holding], R]) -> AsyncIterator[R | None]:
    """What `make` makes of the turn while it is held; None if the message was queued for the present holder. Makes the
    session if there is none."""
    holding = await _take_by(handle, request)
    if holding is None:
        yield None
    else:
        async with holding:
            yield make(holding)


async def _take_by(handle: Handle, request: TurnRequest) -> Holding | None:
    """The turn of a handle's session. A handle made from a key that has to wait, or has no session yet, gets the turn
    of the session that is current then."""
    started = time.monotonic()
    follows: Follows = "never" if handle.key is None else "waiting" if handle.is_resolved else "always"
    while True:
        try:
            return await take(handle.runtime, await handle.writable_id(), shortened(request, started), follows)
        except SessionNotFoundError:
            await handle.ensure()
        except KeyMovedError:
            handle.forget_id()
            follows = "always"


def shortened(request: TurnRequest, started: float) -> TurnRequest:
    """The same request after some waiting."""
    if request.wait is None:
        return request
    return msgspec.structs.replace(request, wait=max(0.0, started + request.wait - time.monotonic()))


class _Waiter:
    """A waiter in this process, woken early when the turn is released in it."""

    def __init__(self) -> None:
        self.ticket = 0
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        with suppress(RuntimeError):  # its loop was closed: nobody waits there any more
            self._loop.call_soon_threadsafe(self._woken.set)

    async def pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()


class _LocalTurns:
    """The waiters and holders of turns in this process, in any thread. The store knows those of other processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, set[_Waiter]] = {}
        self._holding: dict[str, Holding] = {}

    def enter(self, session_id: str) -> _Waiter:
        waiter = _Waiter()
        with self._lock:
            self._waiting.setdefault(session_id, set()).add(waiter)
        return waiter

    def leave(self, session_id: str, waiter: _Waiter) -> None:
        with self._lock:
            self._waiting[session_id].discard(waiter)
            if not self._waiting[session_id]:
                del self._waiting[session_id]

    def wake_all(self, session_id: str) -> None:
        with self._lock:
            waiting = list(self._waiting.get(session_id, ()))
        for waiter in waiting:
            waiter.wake()

    def wake_next(self, session_id: str) -> None:
        with self._lock:
            waiting = [waiter for waiter in self._waiting.get(session_id, ()) if waiter.ticket]
        if waiting:
            min(waiting, key=lambda waiter: waiter.ticket).wake()

    def hold(self, holding: Holding) -> None:
        with self._lock:
            other = self._holding.get(holding.session_id)
            late = holding if other is not None and other.number > holding.number else other
            if late is not holding:
                self._holding[holding.session_id] = holding
        if late is not None:
            late.notice_taken_over()

    def check_other(self, session_id: str) -> None:
        """Raises `InvalidInputError` if a caller is about to wait, without a limit, for a turn that it holds itself."""
        with self._lock:
            holding = self._holding.get(session_id)
        if holding is not None and not holding.lost and holding.caller is caller():
            raise InvalidInputError(
                f"this caller has the turn of session {session_id!r} and would wait for itself:"
                " use the calls of the turn, such as `turn.new()`",
                session_id=session_id,
            )

    def notice(self, session_id: str, number: int) -> None:
        """Another process has taken the turn, with this number."""
        with self._lock:
            other = self._holding.get(session_id)
        if other is not None and other.number < number:
            other.notice_taken_over()

    def release(self, holding: Holding) -> None:
        with self._lock:
            if self._holding.get(holding.session_id) is holding:
                del self._holding[holding.session_id]
        self.wake_next(holding.session_id)

    def move(self, holding: Holding) -> None:
        """The turn has moved to another session: all callers that wait for it here have to look there."""
        with self._lock:
            if self._holding.get(holding.session_id) is holding:
                del self._holding[holding.session_id]
        self.wake_all(holding.session_id)


async def take(runtime: Runtime, session_id: str, request: TurnRequest, follows: Follows = "never") -> Holding | None:
    """The turn, held; None if the message was queued for the present holder.

    Raises `TurnBusyError` if it was not free in time, `SessionNotFoundError`, and if it `follows` the key of the
    session (always, or after having to wait) `KeyMovedError`."""
    local = runtime.shared(_LocalTurns)
    wanted = LeaseWanted(
        namespace=runtime.namespace,
        session_id=session_id,
        name=TURN,
        holder=request.holder or holder(),
        ttl=round(request.ttl * 1_000_000),
        patience=0 if request.on_busy == "reject" else _PATIENCE,
        force=request.on_busy == "interrupt",
        message=request.message,
        by_key=follows == "always",
        intake=request.intake,
    )
    waiter = local.enter(session_id)
    try:
        return await _take_in_turn(runtime, wanted, request, waiter, follows)
    except BaseException as error:
        # The turn may have been granted meanwhile, and a place in the queue would stop those after it.
        if not (request.keeps_place and isinstance(error, TurnBusyError)):
            await to_the_end(leave(runtime, session_id, wanted.holder), after=error)
        raise
    finally:
        local.leave(session_id, waiter)


async def leave(runtime: Runtime, session_id: str, holder: str) -> None:
    """Leave the queue of a turn, or release the turn if it was granted meanwhile."""
    with suppress(FrontdeskError):
        await runtime.store.leave_lease(runtime.namespace, session_id, TURN, holder)
    runtime.shared(_LocalTurns).wake_next(session_id)


# for holders in other processes, which ask a server


async def take_detached(handle: Handle, request: TurnRequest) -> tuple[str, int] | None:
    """The session and the number of a turn that its holder renews itself; None if the message was queued. Raises
    `TurnBusyError`."""
    holding = await _take_by(handle, request)
    if holding is None:
        return None
    handle.runtime.shared(_LocalTurns).notice(holding.session_id, holding.number)
    return holding.session_id, holding.number


async def renew_detached(runtime: Runtime, session_id: str, number: int, ttl: float) -> bool:
    """Renew a turn, or (0) release it; False if it is over."""
    is_held = await runtime.store.renew_lease(runtime.namespace, session_id, TURN, number, round(ttl * 1_000_000))
    if not ttl:
        runtime.shared(_LocalTurns).wake_next(session_id)
    return is_held


class DetachedHolding:
    """A turn whose holder is in another process, while a request of that holder moves it to another session."""

    lost = False

    def __init__(self, runtime: Runtime, session_id: str, number: int) -> None:
        self.runtime = runtime
        self.session_id = session_id
        self.number = number

    async def check(self) -> Self:
        """Raises `TurnLostError` if the turn is over."""
        lease = await self.runtime.store.get_lease(self.runtime.namespace, self.session_id, TURN)
        if lease is None or lease.number != self.number:
            raise TurnLostError(self.session_id, self.number)
        return self

    async def move(self, apply: Callable[[], Awaitable[str]]) -> DetachedHolding:
        """The turn in another session, which takes it over with the change that `apply` makes."""
        following = await apply()
        self.runtime.shared(_LocalTurns).wake_all(self.session_id)
        return DetachedHolding(self.runtime, following, self.number)


async def _take_in_turn(
    runtime: Runtime, wanted: LeaseWanted, request: TurnRequest, waiter: _Waiter, follows: Follows
) -> Holding | None:
    started, look = time.monotonic(), _FIRST_LOOK
    while True:
        asked_at = time.monotonic()
        answer = await runtime.store.queue_lease(wanted)
        if answer.queued:
            return None
        if answer.moved:
            raise KeyMovedError
        if answer.lease is not None and answer.lease.holder == wanted.holder:
            return Holding(runtime, wanted, answer.lease.number, asked_at)
        waiter.ticket = answer.ticket
        left = float("inf") if request.wait is None else started + request.wait - time.monotonic()
        if request.on_busy == "reject" or left <= 0:
            raise _busy(wanted.session_id, answer)
        if request.wait is None:
            runtime.shared(_LocalTurns).check_other(wanted.session_id)
        wanted = msgspec.structs.replace(wanted, by_key=follows != "never")
        await waiter.pause(min(look, left))
        look = min(look * 2, _FAR_LOOK if answer.ahead else _NEXT_LOOK)


def _busy(session_id: str, answer: LeaseAnswer) -> TurnBusyError:
    lease = answer.lease
    if lease is None:
        return TurnBusyError(session_id, None, None)
    return TurnBusyError(session_id, lease.holder, datetime.fromtimestamp(lease.taken_at / 1_000_000, UTC))


class Holding(Keeper):
    """A turn that is held in this process: renewed in the background, in `async with`, until its end or its loss."""

    def __init__(self, runtime: Runtime, wanted: LeaseWanted, number: int, asked_at: float) -> None:
        super().__init__(wanted.session_id, number, wanted.ttl / 1_000_000, asked_at)
        self.runtime = runtime
        self.caller = caller()
        self._wanted = wanted
        self._loop = asyncio.get_running_loop()
        self._moving = asyncio.Lock()
        self._following: Holding | None = None

    async def renew(self, seconds: float) -> bool:
        name = self.runtime.namespace, self.session_id, TURN
        return await self.runtime.store.renew_lease(*name, self.number, round(seconds * 1_000_000))

    async def current_number(self) -> int | None:
        lease = await self.runtime.store.get_lease(self.runtime.namespace, self.session_id, TURN)
        return None if lease is None else lease.number

    async def __aenter__(self) -> Self:
        self.runtime.shared(_LocalTurns).hold(self)
        self.start_renewal()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._over.set()
        await to_the_end(self._release(), after=error)

    async def move(self, apply: Callable[[], Awaitable[str]]) -> Holding:
        """The turn in another session, which takes it over with the change that `apply` makes. This one is over then,
        and ends that one when it ends."""

        async def change() -> None:
            async with self._moving:
                session_id = await apply()
                wanted = msgspec.structs.replace(self._wanted, session_id=session_id)
                self._following = Holding(self.runtime, wanted, self.number, self._until - self._seconds)
                self._following.caller = self.caller
                await self._following.__aenter__()
                self._over.set()
                self.runtime.shared(_LocalTurns).move(self)

        await to_the_end(change())
        assert self._following is not None
        return self._following

    async def _release(self) -> None:
        async with self._moving:
            following = self._following
        await self.stop_renewal()
        if following is not None:
            await following.__aexit__()
            return
        try:
            await self.renew(0)
        except FrontdeskError:
            pass  # out of reach, or deleted: the work is done, and the turn expires by itself
        finally:
            self.runtime.shared(_LocalTurns).release(self)

    def notice_taken_over(self) -> None:
        """Called by a holder in the same process, in any thread, that came after this one."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.lose, time.monotonic() < self._until)


M = TypeVar("M", Holding, DetachedHolding)
"""a turn that can be moved to the session that follows"""
