"""Memory of one session: extracts durable facts from a conversation before its beginning is compacted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from frontdesk.calls import call
from frontdesk.compaction import memory
from frontdesk.compaction.chunks import split_into_chunks
from frontdesk.compaction.failures import report_failure
from frontdesk.compaction.prompts import build_extract_prompt
from frontdesk.compaction.summariser import ask, total_usage
from frontdesk.config.settings import MemorySettings
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.errors import BlockTooLargeError, BlockVersionError, ConfigurationError, SessionNotFoundError
from frontdesk.history import trees, views
from frontdesk.lifecycle.leases import hold_lease
from frontdesk.lifecycle.usage import usage_entry
from frontdesk.messages import Message, new_id
from frontdesk.models.windows import session_window
from frontdesk.session.handle import Handle
from frontdesk.store.changes import RESERVED_PREFIX
from frontdesk.tree.items import count, drop_first, position_of

_log = logging.getLogger("frontdesk.memory")
_LABEL = RESERVED_PREFIX + "memory"
_LEASE = "memory"
_MOST_FINGERPRINTS = 5_000
_LEAST_MESSAGES = 3
_MOST_RECENT = 50
"""ids of extracted messages that are remembered: if one of them is on the path, extraction continues after it"""
_MOST_LEFT_OVER = 200


class _Progress(msgspec.Struct, omit_defaults=True):
    """How far extraction has come, and which facts the sink has."""

    recent: list[str] = []
    left_over: list[str] = []
    stored: list[str] = []


class MemoryRefresher:
    """Extracts facts and passes them to the sink, or writes them to a context block."""

    def __init__(self, handle: Handle, context: SessionBlocks) -> None:
        self._handle = handle
        self._runtime = handle.runtime
        self._context = context

    async def needs_refresh(self) -> bool:
        """Whether the view has reached the soft ratio, and there are enough new messages since the last extraction."""
        if not self._runtime.settings.memory.is_on or (row := await self._handle.find_row()) is None:
            return False
        row = await trees.complete_row(self._runtime, row)
        settings = self._runtime.settings.compaction
        if row.view_tokens < settings.soft_ratio * session_window(row, settings.max_tokens):
            return False
        return await self._is_enough()

    async def refresh(self) -> list[str]:
        """Extract facts from the messages since the last extraction, pass the new ones to the sink, and return them."""
        settings = self._runtime.settings.memory
        if settings.extract is None:
            raise ConfigurationError("there is no extractor: give one to `with_memory_refresh(extract)`")
        row = await self._handle.find_row()
        if row is None:
            return []
        if settings.sink is None:
            await self._context.source(settings.label)
        async with hold_lease(self._runtime, row.id, _LEASE):
            return await self._extract(settings)

    def start(self, session_id: str) -> None:
        """Refresh in the background, if there are enough new messages since the last extraction."""
        if self._runtime.settings.memory.is_on:
            self._runtime.background.spawn(self._refresh_quietly(session_id), f"memory {session_id} {new_id()}")

    async def record_usage(self, answers: Sequence[Any]) -> None:
        """Record the usage of model calls in the ledger."""
        for answer in answers:
            if getattr(answer, "usage", None) is not None:
                entry = usage_entry(self._runtime.now(), total_usage([answer]), model=getattr(answer, "model", None))
                await self._runtime.store.add_usage(self._runtime.namespace, self._handle.id, entry)

    async def _refresh_quietly(self, session_id: str) -> None:
        try:
            if await self._is_enough():
                await self.refresh()
        except SessionNotFoundError:
            pass  # deleted meanwhile: there is nothing left to extract
        except Exception as error:
            await report_failure(_log, self._runtime.settings.memory.on_error, "memory refresh", session_id, error)

    async def _is_enough(self) -> bool:
        return len((await self._new_messages())[0]) >= _LEAST_MESSAGES

    # one extraction

    async def _extract(self, settings: MemorySettings) -> list[str]:
        new, known = await self._new_messages()
        facts = {memory.memory_fingerprint(fact): fact for fact in (*known.left_over, *await self._ask(settings, new))}
        wanted = [fact for mark, fact in facts.items() if mark not in known.stored]
        taken, failure = await self._hand_over(settings, wanted) if wanted else ([], None)
        marks = [*known.stored, *(memory.memory_fingerprint(fact) for fact in taken)]
        if new or taken:
            recent = [*known.recent, *(message.id for message in new)][-_MOST_RECENT:]
            left_over = [fact for fact in wanted if fact not in taken][-_MOST_LEFT_OVER:]
            await self._store_progress(_Progress(recent, left_over, marks[-_MOST_FINGERPRINTS:]))
        if failure is not None:
            raise failure
        return taken

    async def _ask(self, settings: MemorySettings, messages: Sequence[Message]) -> list[str]:
        """The facts that the model finds in some messages."""
        assert settings.extract is not None
        facts: list[str] = []
        for chunk in split_into_chunks(messages, settings.input_tokens, self._runtime.settings.counter):
            question = build_extract_prompt(chunk.text, settings.max_extract_tokens, settings.prompt)
            answer = await ask(settings.extract, question, settings.timeout)
            await self.record_usage([answer])
            facts += memory.normalise_memory(answer)
        return facts

    async def _new_messages(self) -> tuple[list[Message], _Progress]:
        """The messages on the path since the last extraction, and how far that came."""
        row = await self._context.document(_LABEL)
        known = _Progress() if row is None else msgspec.json.decode(row.content, type=_Progress)
        tree = await self._handle.tree(find=known.recent)
        if tree is None:
            return [], known
        items = tree.lay(tree.session.head, overlays=False)
        places = [place for message_id in reversed(known.recent) if (place := tree.find(message_id)) is not None]
        positions = (position_of(items, place) for place in places)
        new = drop_first(items, next((position + 1 for position in positions if position is not None), 0))
        messages = await views.read_items(self._runtime, new) if count(new) else []
        return [message for message in messages if message.role != "system"], known

    async def _hand_over(
        self, settings: MemorySettings, facts: Sequence[str]
    ) -> tuple[list[str], BlockTooLargeError | None]:
        """Hand facts to the sink; returns those that it took, and why not all. A block takes as many as fit."""
        if settings.sink is not None:
            await call(settings.sink, self._handle.id, list(facts))
            return list(facts), None
        try:
            await self._add_to_block(settings.label, facts)
            return list(facts), None
        except BlockTooLargeError as error:
            failure = error
        taken: list[str] = []
        for fact in facts:
            try:
                await self._add_to_block(settings.label, [fact])
            except BlockTooLargeError:
                continue
            taken.append(fact)
        return taken, failure

    async def _add_to_block(self, label: str, facts: Sequence[str]) -> None:
        while True:
            block = await self._context.block(label)
            merged = memory.merge_memory(block.content, facts)
            if merged == block.content:
                return
            try:
                await self._context.replace(label, merged, block.version, "memory")
                return
            except BlockVersionError:
                continue

    async def _store_progress(self, progress: _Progress) -> None:
        content = msgspec.json.encode(progress).decode()
        while True:
            row = await self._context.document(_LABEL)
            if await self._context.put_document(_LABEL, content, 1 if row is None else row.version + 1):
                return
