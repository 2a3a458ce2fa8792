"""Appends in flight, coalesced: those that arrive while a batch is being sent go into the next one.

A batch is one statement (`head`), so one round trip and one commit. It waits for no session that is locked by others.
The sessions that it does not take are appended to one by one, each request in a transaction of its own (`append`).

A call whose answer was lost is sent again whole, one by one, and cannot write twice: every id is looked up before it is
written, even one that was made for this call, because the lost call may still be running on the server.

A request ends when its time is over, even if it still waits here; in that case it has not happened.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import groupby
from typing import Any

from frontdesk.errors import MessageTooLargeError, StoreError, StoreUnavailableError
from frontdesk.store import Append, AppendResult
from frontdesk.stores.postgres import append, head
from frontdesk.stores.postgres.connection import Connection
from frontdesk.stores.postgres.engine import Engine
from frontdesk.stores.postgres.failures import translate
from frontdesk.stores.postgres.lanes import Lane

_BATCH = 256
_BATCH_CHARACTERS = 8 << 20
_FULL_LOAD = 64
"""requests that are enough for a second batch while one is being sent"""
_SLOW = 0.05
"""seconds after which a batch is not waited for any more"""
_IN_FLIGHT = 3
_GRACE = 0.5
"""seconds after the end of a request in which the call that it was sent with reports its outcome"""
_MOST_BYTES = 1_000_000_000
"""of the messages of one request: the driver and the server count the bytes of a statement in 31 bits"""

_Key = tuple[str, str]


class _Waiting:
    """A request, the number of its call, the future for its result, and until when it waits for that."""

    __slots__ = ("call", "future", "is_sent", "key", "may_be_stored", "request", "until")

    def __init__(self, request: Append, future: asyncio.Future[AppendResult], until: float) -> None:
        self.request = request
        self.future = future
        self.until = until
        self.key: _Key = (request.namespace, request.session_id)
        self.call = secrets.randbits(63)
        self.is_sent = False
        self.may_be_stored = False
        """whether it was sent and no answer came"""

    def expire(self) -> None:
        """Give up, if the call that it was sent with has not done so."""
        self.settle(_unanswered(translate(TimeoutError(), "", uncertain=self.is_sent), self.request))

    def expire_unsent(self) -> None:
        if not self.is_sent:
            self.expire()

    def settle(self, result: AppendResult | Exception) -> None:
        if self.future.done():
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


class Appends:
    """The appends of one event loop."""

    def __init__(self, engine: Engine, lane: Lane) -> None:
        self._engine = engine
        self._lane = lane
        self._queue: deque[_Waiting] = deque()
        self._taken: set[_Key] = set()
        self._in_flight = 0
        self._slow = 0
        self._one_by_one = asyncio.Semaphore(max(1, engine.size // 2))
        self._tasks: set[asyncio.Task[None]] = set()

    async def append(self, request: Append, until: float) -> AppendResult:
        """Append, and wait for the result until a time of the loop."""
        _check_size(request)
        loop = asyncio.get_running_loop()
        waiting = _Waiting(request, loop.create_future(), until)
        self._queue.append(waiting)
        self._dispatch()
        timers = loop.call_at(until, waiting.expire_unsent), loop.call_at(until + _GRACE, waiting.expire)
        try:
            return await waiting.future
        finally:
            for timer in timers:
                timer.cancel()

    async def drain(self) -> None:
        """Wait until every request is answered."""
        while self._queue or self._tasks:
            self._dispatch()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _dispatch(self) -> None:
        """Send what waits: at once if nothing is in flight, otherwise together with what is still to come. A task takes
        its batch when it starts, so that all that are ready at the same moment go together."""
        is_full = len(self._queue) >= _FULL_LOAD and self._in_flight < _IN_FLIGHT
        if self._queue and (self._in_flight == self._slow or is_full):
            self._in_flight += 1
            self._start(self._send_batch())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take(self) -> list[list[_Waiting]]:
        """The next batch, by session. A session that is in flight is left alone, so that order is kept."""
        batch: list[_Waiting] = []
        left: list[_Waiting] = []
        size = 0
        while self._queue and len(batch) < _BATCH and size < _BATCH_CHARACTERS:
            waiting = self._queue.popleft()
            if waiting.key in self._taken:
                left.append(waiting)
            elif not waiting.future.done():
                waiting.is_sent = True
                batch.append(waiting)
                size += sum([len(message.raw) for message in waiting.request.messages])
        self._queue.extendleft(reversed(left))
        batch.sort(key=lambda waiting: waiting.key)
        self._taken.update(waiting.key for waiting in batch)
        return [list(group) for _, group in groupby(batch, lambda waiting: waiting.key)]

    async def _send_batch(self) -> None:
        """Send those that only add at the head together. The others, and those that were not taken, follow."""
        async with self._counted():
            groups: dict[int, head.Group] = {}
            batch = self._take()
            for index, same_session in enumerate(batch):
                group = head.group_of([(waiting.request, waiting.call) for waiting in same_session])
                if group is None:
                    self._start(self._send_one_by_one(same_session))
                else:
                    groups[index] = group
            sent = [waiting for index in groups for waiting in batch[index]]
            results = await self._send_groups(list(groups.values()), sent) if groups else []
        if not batch:
            return  # all that wait are for sessions in flight, and are sent after those
        for index, answers in zip(groups, results, strict=True):
            if answers is None:
                self._start(self._send_one_by_one(batch[index]))
                continue
            for waiting, answer in zip(batch[index], answers, strict=True):
                waiting.settle(answer)
            self._taken.discard(batch[index][0].key)
        self._dispatch()

    async def _send_groups(
        self, groups: Sequence[head.Group], sent: Sequence[_Waiting]
    ) -> Sequence[Sequence[AppendResult | Exception] | None]:
        async def work(connection: Connection) -> list[list[AppendResult] | None]:
            if not connection.resent:
                return await head.append(connection, groups)
            for waiting in sent:
                waiting.may_be_stored = True
            return [None] * len(groups)

        until = max(waiting.until for waiting in sent)
        try:
            return await self._engine.run_on(self._lane, work, repeatable=True, until=until)
        except StoreUnavailableError as error:
            return [[_unanswered(error, request) for request in group.requests] for group in groups]
        except StoreError as error:  # one of them cannot be stored, and must fail alone
            for waiting in sent:
                waiting.may_be_stored = error.uncertain
            return [None] * len(groups)

    async def _send_one_by_one(self, same_session: list[_Waiting]) -> None:
        try:
            async with self._one_by_one:
                for waiting in same_session:
                    waiting.settle(await self._result(waiting))
        finally:
            self._taken.discard(same_session[0].key)
            self._dispatch()

    async def _result(self, waiting: _Waiting) -> AppendResult | Exception:
        if waiting.future.done():
            return TimeoutError()  # nobody waits for it any more
        work = partial(append.append, request=waiting.request, call=waiting.call)
        try:
            return await self._engine.run_on(
                self._lane, work, repeatable=True, until=waiting.until, uncertain=waiting.may_be_stored
            )
        except Exception as error:
            return _unanswered(error, waiting.request)

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        """Count a batch as in flight, and as slow after a while: one that takes long must not stop the rest."""
        slow = False

        def become_slow() -> None:
            nonlocal slow
            if self._slow < _IN_FLIGHT - 1:
                slow = True
                self._slow += 1
                self._dispatch()

        timer = asyncio.get_running_loop().call_later(_SLOW, become_slow)
        try:
            yield
        finally:
            timer.cancel()
            self._in_flight -= 1
            self._slow -= slow


def _check_size(request: Append) -> None:
    """Raises `MessageTooLargeError` for more than PostgreSQL takes in one statement."""
    texts = [text for message in request.messages for text in (message.raw, message.derived or "")]
    # A character has up to four bytes: most requests need not be encoded to know that they are small enough.
    if 4 * sum(map(len, texts)) > _MOST_BYTES and (size := sum(len(text.encode()) for text in texts)) > _MOST_BYTES:
        raise MessageTooLargeError(
            f"these {len(request.messages)} messages have {size} bytes, and PostgreSQL takes at most {_MOST_BYTES} in"
            " one call: nothing was stored; append them in several calls",
            session_id=request.session_id,
            size=size,
            limit=_MOST_BYTES,
        )


def _unanswered(error: Exception, request: Append) -> Exception:
    """An error of its own for a request; if that may have been stored, with the ids to send it again safely."""
    if not isinstance(error, StoreUnavailableError):
        return error
    if not error.uncertain:
        return StoreUnavailableError(str(error), **error.details)
    ids = [message.id for message in request.messages]
    text = f"{error}; with the same ids (`message_ids` of `details`), nothing is stored twice"
    return StoreUnavailableError(text, **{**error.details, "message_ids": ids, "session_id": request.session_id})
