"""The part of `Session` that carries durable facts out of a conversation before its beginning is compacted away."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from frontdesk.calls import call
from frontdesk.compaction import memory, summaries
from frontdesk.compaction.limits import tell
from frontdesk.compaction.summarising import ask, used
from frontdesk.config.settings import RESERVED_PREFIX, MemorySettings
from frontdesk.errors import BlockTooLargeError, BlockVersionError, ConfigurationError, SessionNotFoundError
from frontdesk.history import reading
from frontdesk.lifecycle.leases import holding
from frontdesk.lifecycle.ledger import usage_line
from frontdesk.messages import Message, new_id
from frontdesk.models.windows import session_window
from frontdesk.session.context import ContextCalls
from frontdesk.store import SessionRow
from frontdesk.tree.items import count, drop_first, position_of

_log = logging.getLogger("frontdesk.memory")
_LABEL = RESERVED_PREFIX + "memory"
_LEASE = "memory"
_MOST_FINGERPRINTS = 5_000
_LEAST_MESSAGES = 3
_MOST_RECENT = 50
"""ids of extracted messages that are remembered: where one of them is on the path, extraction goes on behind it"""
_MOST_LEFT_OVER = 200


class _Extracted(msgspec.Struct, omit_defaults=True):
    """How far extraction has come, and which facts the sink has."""

    recent: list[str] = []
    left_over: list[str] = []
    stored: list[str] = []


class MemoryCalls(ContextCalls):
    """Extracting facts. It never waits for anything, and nothing waits for it unless it is called by hand."""

    async def needs_memory_refresh(self) -> bool:
        """Whether the view has reached the soft ratio, and enough was said since the last extraction."""
        session_id = await self._readable_id()
        if not self._runtime.settings.memory.is_on or session_id is None:
            return False
        row = await self._runtime.store.get(self._runtime.namespace, session_id)
        if row is None:
            return False
        row = await reading.settled_row(self._runtime, row)
        if row.view_tokens < self._runtime.settings.compaction.soft_ratio * self._window(row):
            return False
        return len((await self._unextracted())[0]) >= _LEAST_MESSAGES

    async def refresh_memory(self) -> list[str]:
        """Extract durable facts from what is new since the last time and hand those not known yet to the sink; gives
        them. A fact counts as known only after the sink took it. Waits for an extraction that is running. Raises what
        extractor and sink raise, `BlockTooLargeError` for facts that the block has no room for, and
        `ConfigurationError` without `with_memory_refresh`."""
        settings = self._runtime.settings.memory
        if settings.extract is None:
            raise ConfigurationError("there is no extractor: give one to `with_memory_refresh(extract)`")
        session_id = await self._readable_id()
        if session_id is None or await self._runtime.store.get(self._runtime.namespace, session_id) is None:
            return []
        if settings.sink is None:
            await self._context.source(settings.label)
        async with holding(self._runtime, session_id, _LEASE):
            return await self._extract(settings)

    async def _extract(self, settings: MemorySettings) -> list[str]:
        assert settings.extract is not None
        fresh, known = await self._unextracted()
        facts: list[str] = []
        for chunk in summaries.split_into_chunks(fresh, settings.input_tokens, self._runtime.settings.counter):
            conversation = summaries.render_for_summary(chunk)
            question = memory.build_extract_prompt(conversation, settings.max_extract_tokens, settings.prompt)
            answer = await ask(settings.extract, question, settings.timeout)
            await self._record_usage([answer])
            facts += memory.normalise_memory(answer)
        new = {memory.memory_fingerprint(fact): fact for fact in (*known.left_over, *facts)}
        wanted = [fact for mark, fact in new.items() if mark not in known.stored]
        taken, failure = await self._hand_over(settings, wanted) if wanted else ([], None)
        marks = [*known.stored, *(memory.memory_fingerprint(fact) for fact in taken)]
        if fresh or taken:
            recent = [*known.recent, *(message.id for message in fresh)][-_MOST_RECENT:]
            left_over = [fact for fact in wanted if fact not in taken][-_MOST_LEFT_OVER:]
            await self._remember(_Extracted(recent, left_over, marks[-_MOST_FINGERPRINTS:]))
        if failure is not None:
            raise failure
        return taken

    async def _record_usage(self, calls: Sequence[Any]) -> None:
        """Enter what a model's calls used into the ledger."""
        for answer in calls:
            if getattr(answer, "usage", None) is not None:
                line = usage_line(self._runtime.now(), used([answer]), model=getattr(answer, "model", None))
                await self._runtime.store.add_usage(self._runtime.namespace, self.id, line)

    async def _unextracted(self) -> tuple[list[Message], _Extracted]:
        """The messages on the path since the last extraction, and what is known of it."""
        row = await self._context.document(_LABEL)
        known = _Extracted() if row is None else msgspec.json.decode(row.content, type=_Extracted)
        tree = await self._tree(find=known.recent)
        if tree is None:
            return [], known
        items = tree.lay(tree.session.head, overlays=False)
        places = [place for message_id in reversed(known.recent) if (place := tree.find(message_id)) is not None]
        ahead = (position_of(items, place) for place in places)
        fresh = drop_first(items, next((at + 1 for at in ahead if at is not None), 0))
        messages = await reading.read_items(self._runtime, fresh) if count(fresh) else []
        return [message for message in messages if message.role != "system"], known

    async def _hand_over(
        self, settings: MemorySettings, facts: Sequence[str]
    ) -> tuple[list[str], BlockTooLargeError | None]:
        """Give facts to the sink; those it took, and why not all. A block takes as many as fit."""
        if settings.sink is not None:
            await call(settings.sink, self.id, list(facts))
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

    async def _remember(self, extracted: _Extracted) -> None:
        while True:
            row = await self._context.document(_LABEL)
            content = msgspec.json.encode(extracted).decode()
            version = 1 if row is None else row.version + 1
            if await self._context.put_document(_LABEL, content, version):
                return

    def _window(self, row: SessionRow | None) -> int:
        settings = self._runtime.settings.compaction
        if row is None:
            return session_window(None, settings.max_tokens, None)
        return session_window(row.max_tokens, settings.max_tokens, row.model)

    # beside the conversation

    def _refresh_beside(self, session_id: str) -> None:
        """Start an extraction that nothing waits for."""
        if self._runtime.settings.memory.is_on:
            self._runtime.background.spawn(self._refresh_quietly(session_id), f"memory {session_id} {new_id()}")

    async def _refresh_quietly(self, session_id: str) -> None:
        try:
            fresh, _ = await self._unextracted()
            if len(fresh) >= _LEAST_MESSAGES:
                await self.refresh_memory()
        except SessionNotFoundError:
            pass  # deleted meanwhile: there is nothing left to extract
        except Exception as error:
            await tell(_log, self._runtime.settings.memory.on_error, session_id, error)
