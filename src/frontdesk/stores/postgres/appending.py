"""Appends in flight, coalesced: whatever arrives while a batch is on its way goes into the next one.

A batch is one call of the server's `append`, so one round trip and one commit. It never waits for a session that somebody
else has locked: those requests come back as busy and are sent again by themselves, patiently. A call whose answer was lost
is sent again whole: every id is looked up before it is written, and rows written by the lost call are known by its number.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from typing import Any

from frontdesk.errors import HeadMovedError, MessageNotFoundError, StoreError, StoreUnavailableError
from frontdesk.messages import StoredMessage
from frontdesk.store import FOLLOW_HEAD, Append, AppendedRow, AppendResult
from frontdesk.stores.postgres.engine import Connection, Engine, Lane
from frontdesk.stores.postgres.rows import decode_message, session_columns, session_row

_BATCH = 256
_BATCH_CHARACTERS = 8 << 20
_IN_FLIGHT = 2
_ANSWER = 10
"""columns of an answer ahead of the session's"""

_Key = tuple[str, str]


class _Waiting:
    """A request, the number of its call, and who waits for it."""

    __slots__ = ("call", "future", "key", "request")

    def __init__(self, request: Append, future: asyncio.Future[AppendResult]) -> None:
        self.request = request
        self.future = future
        self.key: _Key = (request.namespace, request.session_id)
        self.call = random.getrandbits(63)

    def settle(self, result: AppendResult | Exception) -> None:
        if self.future.done():
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


class Appender:
    """The appends of one event loop."""

    def __init__(self, engine: Engine, lane: Lane, schema: str) -> None:
        self._engine = engine
        self._lane = lane
        self._statement = (
            "SELECT a.request, a.code, a.ahead, a.id, a.role, a.tokens, a.created_at, a.raw, a.derived, a.edited,"
            f" {session_columns('(a.session)')} FROM {schema}.append("
            "$1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::integer[], $8::integer[],"
            " $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::integer[], $16) a"
        )
        self._queue: deque[_Waiting] = deque()
        self._taken: set[_Key] = set()
        self._in_flight = 0
        self._patience = asyncio.Semaphore(max(1, engine.size // 2))
        self._tasks: set[asyncio.Task[None]] = set()
        self._woken = False

    async def append(self, request: Append) -> AppendResult:
        loop = asyncio.get_running_loop()
        waiting = _Waiting(request, loop.create_future())
        self._queue.append(waiting)
        if not self._woken:
            # Those that are ready at the same moment go together.
            self._woken = True
            loop.call_soon(self._dispatch)
        return await waiting.future

    async def drain(self) -> None:
        """Wait until all that was asked for is done."""
        while self._queue or self._tasks:
            self._dispatch()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _dispatch(self) -> None:
        self._woken = False
        while self._in_flight < _IN_FLIGHT:
            batch = self._take()
            if not batch:
                return
            self._in_flight += 1
            self._start(self._send_batch(batch))

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take(self) -> list[_Waiting]:
        """The next batch. A session that is on its way already is left alone, so that order is kept without waiting."""
        batch: list[_Waiting] = []
        left: list[_Waiting] = []
        size = 0
        while self._queue and len(batch) < _BATCH and size < _BATCH_CHARACTERS:
            waiting = self._queue.popleft()
            if waiting.key in self._taken:
                left.append(waiting)
            elif not waiting.future.cancelled():
                batch.append(waiting)
                size += sum(len(message.raw) for message in waiting.request.messages)
        self._queue.extendleft(reversed(left))
        batch.sort(key=lambda waiting: waiting.key)
        self._taken.update(waiting.key for waiting in batch)
        return batch

    async def _send_batch(self, batch: list[_Waiting]) -> None:
        busy: list[_Waiting] = []
        try:
            busy = await self._settle(batch, patient=False)
        finally:
            self._in_flight -= 1
            again: dict[_Key, list[_Waiting]] = {}
            for waiting in busy:
                again.setdefault(waiting.key, []).append(waiting)
            self._taken.difference_update(waiting.key for waiting in batch if waiting.key not in again)
            for same_session in again.values():
                self._start(self._send_patiently(same_session))
            self._dispatch()

    async def _send_patiently(self, batch: list[_Waiting]) -> None:
        key = batch[0].key
        try:
            async with self._patience:
                while batch:
                    batch = await self._settle(batch, patient=True)
        finally:
            self._taken.discard(key)
            self._dispatch()

    async def _settle(self, batch: list[_Waiting], *, patient: bool) -> list[_Waiting]:
        """Send, and answer those who wait; the ones whose session was busy are given back."""
        try:
            answers = await self._call(batch, patient=patient)
        except StoreUnavailableError as error:
            for waiting in batch:
                waiting.settle(StoreUnavailableError(str(error)))
            return []
        except StoreError as error:
            if len(batch) == 1:
                batch[0].settle(error)
                return []
            return [busy for waiting in batch for busy in await self._settle([waiting], patient=patient)]
        busy = []
        for waiting, answer in zip(batch, answers, strict=True):
            if answer[-1][1] == "busy":
                busy.append(waiting)
            else:
                waiting.settle(_result(waiting.request, answer))
        return busy

    async def _call(self, batch: list[_Waiting], *, patient: bool) -> list[list[Sequence[Any]]]:
        arguments = _arguments(batch)

        async def call(connection: Connection) -> list[Any]:
            return list(await connection.fetch(self._statement, *arguments, patient))

        answers: list[list[Sequence[Any]]] = [[] for _ in batch]
        for row in await self._engine.run_on(self._lane, call, repeatable=True):
            answers[row[0] - 1].append(row)
        return answers


def _arguments(batch: Sequence[_Waiting]) -> tuple[list[Any], ...]:
    requests = [waiting.request for waiting in batch]
    messages = [message for request in requests for message in request.messages]
    skips, sizes, twins = [], [], []
    skip = 0
    for request in requests:
        skips.append(skip)
        sizes.append(len(request.messages))
        first: dict[str, int] = {}
        for index, message in enumerate(request.messages, skip + 1):
            earlier = first.setdefault(message.id, index)
            twins.append(earlier if earlier < index else 0)
        skip += len(request.messages)
    return (
        [request.namespace for request in requests],
        [request.session_id for request in requests],
        [waiting.call for waiting in batch],
        [request.now for request in requests],
        [None if request.parent is FOLLOW_HEAD else request.parent or "" for request in requests],
        [request.expected_head for request in requests],
        skips,
        sizes,
        [message.id for message in messages],
        [message.role for message in messages],
        [message.tokens for message in messages],
        [message.created_at for message in messages],
        [message.raw for message in messages],
        [message.derived for message in messages],
        twins,
    )


def _result(request: Append, answer: list[Sequence[Any]]) -> AppendResult | Exception:
    last = answer[-1]
    if last[1] == "head":
        assert request.expected_head is not None
        return HeadMovedError(request.expected_head, last[2], request.session_id)
    if last[1] == "parent":
        assert isinstance(request.parent, str)
        return MessageNotFoundError(request.parent, request.session_id)
    session = session_row(request.namespace, last[_ANSWER:])
    if len(answer) > 1:
        return AppendResult(tuple(_appended(row) for row in answer[:-1]), session)
    ahead = last[2]
    rows = []
    for message in request.messages:
        rows.append(AppendedRow(True, ahead))
        ahead = message.id
    return AppendResult(tuple(rows), session)


def _appended(row: Sequence[Any]) -> AppendedRow:
    code, ahead = row[1:3]
    if code != "old":
        return AppendedRow(True, ahead)
    return AppendedRow(False, ahead, StoredMessage(*row[3:9]) if row[9] is None else decode_message(row[9]))
