"""Appends in flight, coalesced: whatever arrives while a batch is on its way goes into the next one.

A batch is one call of the server's `append`, so one round trip and one commit. It never waits for a session that
somebody else has locked: those requests come back as busy and are sent again by themselves, patiently.

A call whose answer was lost is sent again whole, and cannot write twice: every id is looked up before it is written,
even one made for this call, because the lost call may still be running on the server. Each row carries the random
number of the call that wrote it: one with the number of the call at hand was written by its lost twin, and counts as
inserted.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from frontdesk.errors import (
    HeadMovedError,
    MessageNotFoundError,
    SessionEndedError,
    SessionNotFoundError,
    StoreError,
    StoreUnavailableError,
    TurnLostError,
)
from frontdesk.messages.stored import StoredMessage
from frontdesk.store import FOLLOW_HEAD, Append, AppendedRow, AppendResult, Place
from frontdesk.stores.postgres.engine import Connection, Engine, Lane
from frontdesk.stores.postgres.rows import columns_of, decode_message, session_columns, session_row

_BATCH = 256
_BATCH_CHARACTERS = 8 << 20
_FULL_LOAD = 64
"""requests that are enough for a second batch beside one that is on its way"""
_SLOW = 0.05
"""seconds after which a batch is not waited for any more"""
_IN_FLIGHT = 3
_ARGUMENTS = (
    *("text[]", "text[]", "integer[]", "integer[]", "bigint[]", "bigint[]", "boolean[]"),
    *("integer[]", "text[]", "text[]", "bigint[]", "bigint[]", "text[]", "text[]"),
    *("bigint[]", "boolean[]", "boolean[]", "boolean[]", "integer[]", "integer[]"),
    *("integer[]", "bigint[]", "text[]", "text[]", "bigint[]", "bigint[]", "text[]", "text[]", "integer[]"),
    "boolean",
)
"""of groups, requests and messages; and whether to wait for locks"""
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
        marks = ", ".join(f"${index}::{kind}" for index, kind in enumerate(_ARGUMENTS, 1))
        self._statement = (
            "SELECT a.request, a.code, a.ahead, a.id, a.role, a.tokens, a.created_at, a.raw, a.derived, a.edited,"
            f" {session_columns('(a.session)')} FROM {schema}.append({marks}) a"
        )
        self._queue: deque[_Waiting] = deque()
        self._taken: set[_Key] = set()
        self._in_flight = 0
        self._slow = 0
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
        """Send what waits: at once if nothing is on its way, otherwise together with what is still to come."""
        self._woken = False
        while self._in_flight == self._slow or (len(self._queue) >= _FULL_LOAD and self._in_flight < _IN_FLIGHT):
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
            async with self._counted():
                busy = await self._settle(batch, patient=False)
        finally:
            again: dict[_Key, list[_Waiting]] = {}
            for waiting in busy:
                again.setdefault(waiting.key, []).append(waiting)
            self._taken.difference_update(waiting.key for waiting in batch if waiting.key not in again)
            for same_session in again.values():
                self._start(self._send_patiently(same_session))
            self._dispatch()

    @asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        """Count a batch as on its way, and as slow after a while: one that takes long must not stop the rest."""
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
        for group in _groups(batch):
            first = answers[group[0]]
            if first and first[-1][1] == "added":
                _settle_added([batch[index] for index in group], first[-1])
                continue
            for index in group:
                if answers[index][-1][1] == "busy":
                    busy.append(batch[index])
                else:
                    batch[index].settle(_result(batch[index].request, answers[index]))
        return busy

    async def _call(self, batch: list[_Waiting], *, patient: bool) -> list[list[Sequence[Any]]]:
        arguments = _arguments(batch)

        async def call(connection: Connection) -> list[Any]:
            return list(await connection.fetch(self._statement, *arguments, patient))

        answers: list[list[Sequence[Any]]] = [[] for _ in batch]
        for row in await self._engine.run_on(self._lane, call, repeatable=True):
            answers[row[0] - 1].append(row)
        return answers


def _groups(batch: Sequence[_Waiting]) -> list[list[int]]:
    """The requests for each session, which stand side by side."""
    return [[index for index, _ in group] for _, group in groupby(enumerate(batch), lambda pair: pair[1].key)]


def _arguments(batch: Sequence[_Waiting]) -> list[list[Any]]:
    groups: list[tuple[Any, ...]] = []
    requests: list[tuple[Any, ...]] = []
    messages: list[tuple[Any, ...]] = []
    for number, indexes in enumerate(_groups(batch), 1):
        size = tokens = 0
        plain = True
        ids: set[str] = set()
        for index in indexes:
            request, call = batch[index].request, batch[index].call
            parent = None if request.parent is FOLLOW_HEAD else request.parent or ""
            checks = (parent, request.expected_head, request.fence, request.dequeue, request.reopen, request.existing)
            given = (*batch[index].key, call, request.now, *checks)
            requests.append((number, *given, len(messages), len(request.messages)))
            first: dict[str, int] = {}
            for message in request.messages:
                place = len(messages) + 1
                twin = first.setdefault(message.id, place)
                messages.append((number, call, *_message_values(message), twin if twin < place else 0))
                tokens += message.tokens
            size += len(request.messages)
            ids.update(first)
            plain = plain and bool(first) and checks[:4] == (None, None, None, False)
        # An id that comes twice must be met as known the second time.
        plain = plain and len(ids) == size
        now = max(batch[index].request.now for index in indexes)
        groups.append((*batch[indexes[0]].key, indexes[0] + 1, size, tokens, now, plain))
    return [*columns_of(groups, 7), *columns_of(requests, 13), *columns_of(messages, 9)]


def _message_values(message: StoredMessage) -> tuple[Any, ...]:
    return message.id, message.role, message.tokens, message.created_at, message.raw, message.derived


def _settle_added(group: list[_Waiting], row: Sequence[Any]) -> None:
    """Answer requests that were appended to one session together: each gets the session as it left it."""
    session = session_row(group[0].request.namespace, row[_ANSWER:])
    results = []
    for waiting in reversed(group):
        results.append(session)
        messages = waiting.request.messages
        tokens = sum(message.tokens for message in messages)
        assert session.head is not None
        if len(results) < len(group):
            session = replace(
                session,
                head=Place(session.head.segment, session.head.position - len(messages)),
                message_count=session.message_count - len(messages),
                view_messages=session.view_messages - len(messages),
                view_tokens=session.view_tokens - tokens,
            )
    ahead = row[2]
    for waiting, session in zip(group, reversed(results), strict=True):
        waiting.settle(AppendResult(_chained(waiting.request, ahead), session))
        ahead = waiting.request.messages[-1].id


def _chained(request: Append, ahead: str | None) -> tuple[AppendedRow, ...]:
    """The rows of messages that are all new and follow each other."""
    ids = [ahead, *(message.id for message in request.messages[:-1])]
    return tuple(AppendedRow(True, id) for id in ids)


def _result(request: Append, answer: list[Sequence[Any]]) -> AppendResult | Exception:
    last = answer[-1]
    if last[1] == "head":
        assert request.expected_head is not None
        return HeadMovedError(request.expected_head, last[2], request.session_id)
    if last[1] == "fence":
        assert request.fence is not None
        return TurnLostError(request.session_id, request.fence)
    if last[1] == "gone":
        return SessionNotFoundError(request.session_id, request.namespace)
    if last[1] == "parent":
        assert isinstance(request.parent, str)
        return MessageNotFoundError(request.parent, request.session_id)
    session = session_row(request.namespace, last[_ANSWER:])
    if last[1] == "ended":
        return SessionEndedError(session.id, session.status, session.end_reason)
    created = last[1] == "made"
    if len(answer) > 1 or not request.messages:
        return AppendResult(tuple(_appended(row) for row in answer[:-1]), session, created)
    return AppendResult(_chained(request, last[2]), session, created)


def _appended(row: Sequence[Any]) -> AppendedRow:
    code, ahead = row[1:3]
    if code != "old":
        return AppendedRow(True, ahead)
    return AppendedRow(False, ahead, StoredMessage(*row[3:9]) if row[9] is None else decode_message(row[9]))
