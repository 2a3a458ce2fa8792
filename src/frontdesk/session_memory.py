"""The part of `Session` that carries durable facts out of a conversation before its beginning is compacted away."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from frontdesk import history
from frontdesk.calls import call
from frontdesk.compaction import memory, summaries
from frontdesk.compaction.settings import CompactionSettings, MemorySettings
from frontdesk.compaction.summarising import ask
from frontdesk.context.blocks import RESERVED
from frontdesk.errors import BlockTooLargeError, ConfigurationError, SessionNotFoundError
from frontdesk.messages import Message, new_id
from frontdesk.models.windows import context_window
from frontdesk.session_context import ContextCalls
from frontdesk.store import DocumentRow, SessionRow
from frontdesk.tokens import DEFAULT_MAX_TOKENS
from frontdesk.tree import count, drop_first, position_of

_log = logging.getLogger("frontdesk.memory")
_LABEL = RESERVED + "memory"
_LEASE = "memory"
_MOST_FINGERPRINTS = 5_000
_LEAST_MESSAGES = 3


class _Extracted(msgspec.Struct, omit_defaults=True):
    """How far extraction has come, and which facts the sink has."""

    last: str | None = None
    stored: list[str] = []


class MemoryCalls(ContextCalls):
    """Extracting facts. It never waits for anything, and nothing waits for it unless it is called by hand."""

    async def needs_memory_refresh(self) -> bool:
        """Whether enough was said since the last extraction, and the view has reached the soft ratio."""
        if not self._scope.settings(MemorySettings).on or await self._readable_id() is None:
            return False
        fresh, _ = await self._unextracted()
        if len(fresh) < _LEAST_MESSAGES:
            return False
        row = await history.settled_row(self._scope, await self._row())
        return row.view_tokens >= self._scope.settings(CompactionSettings).soft_ratio * self._window(row)

    async def refresh_memory(self) -> list[str]:
        """Extract durable facts from what is new since the last time and hand those not known yet to the sink; gives
        them. A fact counts as known only after the sink took it. Raises what extractor and sink raise, and
        `ConfigurationError` without `with_memory_refresh`."""
        settings = self._scope.settings(MemorySettings)
        if settings.extract is None:
            raise ConfigurationError("there is no extractor: give one to `with_memory_refresh(extract)`")
        session_id = await self._readable_id()
        if session_id is None:
            return []
        store, namespace = self._scope.store, self._scope.namespace
        ttl = int((settings.timeout + 30) * 1_000_000)
        lease = await store.acquire_lease(namespace, session_id, _LEASE, new_id(), ttl)
        if lease is None:
            return []
        try:
            return await self._extract(settings)
        finally:
            await store.release_lease(namespace, session_id, _LEASE, lease.number)

    async def _extract(self, settings: MemorySettings) -> list[str]:
        assert settings.extract is not None
        fresh, known = await self._unextracted()
        if not fresh:
            return []
        facts: list[str] = []
        for chunk in summaries.split_into_chunks(fresh, settings.input_tokens, self._scope.counter):
            conversation = summaries.render_for_summary(chunk)
            question = memory.build_extract_prompt(conversation, settings.max_extract_tokens, settings.prompt)
            facts += memory.normalise_memory(await ask(settings.extract, question, settings.timeout))
        new = {memory.memory_fingerprint(fact): fact for fact in facts}
        wanted = [fact for mark, fact in new.items() if mark not in known.stored]
        taken = await self._hand_over(settings, wanted) if wanted else []
        marks = [*known.stored, *(memory.memory_fingerprint(fact) for fact in taken)]
        await self._remember(_Extracted(fresh[-1].id, marks[-_MOST_FINGERPRINTS:]))
        return taken

    async def _unextracted(self) -> tuple[list[Message], _Extracted]:
        """The messages on the path since the last extraction, and what is known of it."""
        row = await self._context.document(_LABEL)
        known = _Extracted() if row is None else msgspec.json.decode(row.content, type=_Extracted)
        tree = await self._tree(find=() if known.last is None else [known.last])
        if tree is None:
            return [], known
        items = tree.lay(tree.session.head, overlays=False)
        place = None if known.last is None else tree.find(known.last)
        ahead = None if place is None else position_of(items, place)
        fresh = items if ahead is None else drop_first(items, ahead + 1)
        messages = await history.read_items(self._scope, fresh) if count(fresh) else []
        return [message for message in messages if message.role != "system"], known

    async def _hand_over(self, settings: MemorySettings, facts: Sequence[str]) -> list[str]:
        """Give facts to the sink; those it took. A block that is full takes as many as fit."""
        if settings.sink is not None:
            await call(settings.sink, self.id, list(facts))
            return list(facts)
        taken: list[str] = []
        for fact in facts:
            block = await self._context.block(settings.label)
            try:
                merged = memory.merge_memory(block.content, [fact])
                await self._context.replace(settings.label, merged, block.version, "memory")
            except BlockTooLargeError:
                break
            taken.append(fact)
        return taken

    async def _remember(self, extracted: _Extracted) -> None:
        while True:
            row = await self._context.document(_LABEL)
            content = msgspec.json.encode(extracted).decode()
            version = 1 if row is None else row.version + 1
            new = DocumentRow(label=_LABEL, version=version, content=content, created_at=self._scope.now())
            if await self._context.put(new):
                return

    def _window(self, row: SessionRow | None) -> int:
        """The window: what the session says, what `with_compaction` says, what is known of its model, the default."""
        settings = self._scope.settings(CompactionSettings)
        if row is not None and row.max_tokens is not None:
            return row.max_tokens
        if settings.max_tokens is not None:
            return settings.max_tokens
        known = context_window(row.model) if row is not None and row.model else None
        return known or DEFAULT_MAX_TOKENS

    # beside the conversation

    def _refresh_beside(self, session_id: str) -> None:
        """Start an extraction that nothing waits for."""
        if self._scope.settings(MemorySettings).on:
            self._scope.spawn(self._refresh_quietly(session_id), f"memory {session_id}")

    async def _refresh_quietly(self, session_id: str) -> None:
        settings = self._scope.settings(MemorySettings)
        try:
            fresh, _ = await self._unextracted()
            if len(fresh) >= _LEAST_MESSAGES:
                await self.refresh_memory()
        except SessionNotFoundError:
            pass  # deleted meanwhile: there is nothing left to extract
        except Exception as error:
            _log.warning("extracting memory failed: %s", type(error).__name__)
            if settings.on_error is not None:
                await call(settings.on_error, session_id, error)
