"""Streams of answers that outlive the connection of their reader. The chunks of an answer in progress are a state of
its session, so that any server of the store can send them again, and they are deleted with the session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from frontdesk.errors import FrontdeskError, StateTooLargeError
from frontdesk.integrations.ai_sdk_chunks import Chunk, Seen, add_chunk
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.messages import new_id
from frontdesk.unattended import log_failure, sleep

NAME = "ai-sdk"
_KEPT = timedelta(minutes=10)
_BETWEEN_WRITES = 0.25
_BETWEEN_READS = 0.25
_log = logging.getLogger("frontdesk.integrations.ai_sdk")


@dataclass
class StoredStream:
    """An answer in progress: its chunks so far, with deltas joined, and the turn that it is written in."""

    stream: str = ""
    turn: int = 0
    chunks: list[dict[str, Any]] = field(default_factory=list)
    done: bool = False


class LiveStream:
    """An answer that is written in this process, to the message with the id `question`."""

    def __init__(
        self, manager: SessionManager, session_id: str, key: SessionKey | None, turn: int, question: str | None
    ) -> None:
        self.question = question
        self.stored = StoredStream(new_id(), turn)
        self.changed = asyncio.Event()
        """set with the next chunk, or the end; then there is another one"""
        self._states = manager.states(StoredStream, name=NAME, ttl=_KEPT)
        self._session_id = session_id
        self._key = key
        self._writing: asyncio.Task[None] | None = None
        self._is_too_large = False

    async def start(self, chunk: Chunk) -> None:
        """Add the first chunk, and store it: when this returns, every server of the store finds the answer."""
        add_chunk(self.stored.chunks, chunk)
        await self._write()

    def add(self, chunk: Chunk) -> None:
        """Add a chunk. It is stored soon, together with those that follow at once."""
        add_chunk(self.stored.chunks, chunk)
        self._announce()
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_later())

    async def finish(self) -> None:
        self.stored.done = True
        self._announce()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        await self._write()

    def _announce(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    async def _write_later(self) -> None:
        changed: asyncio.Event | None = None
        while changed is not self.changed:  # more came while it was written
            await sleep(_BETWEEN_WRITES)
            changed = self.changed
            await self._write()

    async def _write(self) -> None:
        """Store the chunks. If that is not possible, they still reach the readers of this process."""
        if self._is_too_large:
            return
        try:
            await self._states.set(self._session_id, self.stored, owner=self._key)
        except StateTooLargeError:
            self._is_too_large = True
            await self._states.delete(self._session_id)
        except FrontdeskError as error:
            log_failure(_log, error, "the stream of an answer could not be stored")


async def read_live(live: LiveStream) -> AsyncIterator[dict[str, Any]]:
    """The chunks of an answer that is written in this process, from the first to the last."""
    seen = Seen()
    while True:
        changed, is_done = live.changed, live.stored.done
        for chunk in seen.take_new([*live.stored.chunks]):
            yield chunk
        if is_done:
            return
        await changed.wait()


async def read_stored(manager: SessionManager, session_id: str) -> AsyncIterator[dict[str, Any]] | None:
    """The same for an answer that another process writes; None if there is none in progress."""
    states = manager.states(StoredStream, name=NAME, ttl=_KEPT)
    stored = await states.get(session_id)
    if stored is None or stored.done:
        return None

    async def follow(found: StoredStream) -> AsyncIterator[dict[str, Any]]:
        seen, stream = Seen(), found.stream
        current: StoredStream | None = found
        while current is not None and current.stream == stream:
            for chunk in seen.take_new(current.chunks):
                yield chunk
            if current.done:
                return
            if (await manager.session(session_id).turn_info()).number != current.turn:
                current = await states.get(session_id)
                if current is not None and current.done:
                    continue
                yield {"type": "abort", "reason": "the process that wrote this answer has ended"}
                return
            await sleep(_BETWEEN_READS)
            current = await states.get(session_id)

    return follow(stored)
