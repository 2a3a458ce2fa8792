"""The context block that facts go to: adds what is new in the block's scope, and consolidates a block that is full."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from frontdesk.compaction import facts, memory
from frontdesk.compaction.facts import BlockFacts, Extraction
from frontdesk.compaction.prompts import build_consolidate_prompt
from frontdesk.compaction.summariser import ask
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import MemorySettings
from frontdesk.context.blocks import ContextBlock
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.deadlines import one_call
from frontdesk.errors import BlockTooLargeError, BlockVersionError
from frontdesk.session.fact_notes import FactNotes, NotedFacts
from frontdesk.store import Scope

_AUTHOR = "memory"


class _BlockDraft(NamedTuple):
    """A new content of the block, the facts that it takes up, those that are left, and why not all were taken."""

    content: str
    taken: list[str]
    pending: list[str]
    failure: Exception | None = None
    consolidated: bool = False


class MemoryBlock:
    """Writes facts to a block. `record_usage` is called with the answers of the model."""

    def __init__(
        self,
        runtime: Runtime,
        context: SessionBlocks,
        notes: FactNotes,
        settings: MemorySettings,
        record_usage: Callable[[Sequence[Any]], Awaitable[None]],
    ) -> None:
        self._runtime = runtime
        self._context = context
        self._notes = notes
        self._settings = settings
        self._record_usage = record_usage

    @one_call
    async def add(self, label: str, scope: Scope, keys: Sequence[str]) -> tuple[list[str], Exception | None]:
        """Add the facts of extractions that the block does not know. Returns those that it took, and why not all.

        The extractions are read after the block, and the block is written together with the note on its facts, only if
        neither has changed since: a fact that is removed meanwhile is not added."""
        owner = await self._context.owner_for_write(scope)
        attempts = self._runtime.block_attempts(label)
        while True:
            await attempts.another()
            noted = await self._notes.block_facts(owner, label)
            block = await self._context.block(label)
            extractions = await self._notes.get_extractions(keys)
            draft = await self._draft(block, noted.facts, extractions)
            if await self._write(block, noted, draft, _noted(block, noted.facts, draft, extractions)):
                return draft.taken, draft.failure

    async def has_pending(self, label: str, scope: Scope) -> bool:
        """Whether facts wait for room in the block."""
        return bool((await self._notes.block_facts(await self._context.owner(scope), label)).facts.pending)

    async def _write(self, block: ContextBlock, noted: NotedFacts, draft: _BlockDraft, after: BlockFacts) -> bool:
        """Write the block and the note on its facts; False if one of them has changed since it was read."""
        if draft.content == block.content:
            return after == noted.facts or await self._notes.put_facts(noted, after)
        note = self._notes.next_facts(noted, after)
        try:
            await self._context.replace(block.label, draft.content, block.version, _AUTHOR, note)
        except BlockVersionError:
            return False
        return True

    async def _draft(self, block: ContextBlock, notes: BlockFacts, extractions: dict[str, Extraction]) -> _BlockDraft:
        found = [fact for extraction in extractions.values() for fact in extraction.left_over]
        known = notes.known
        new = [fact for fact in dict.fromkeys(found) if memory.memory_fingerprint(fact) not in known]
        wanted = [*notes.pending, *new]
        merged = memory.merge_memory(block.content, wanted)
        if self._fits(block, merged):
            return _BlockDraft(merged, new, [])
        try:
            return _BlockDraft(await self._consolidate(block, merged), new, [], consolidated=True)
        except Exception as error:
            failure = error
        content = block.content
        taken: list[str] = []
        pending: list[str] = []
        for fact in wanted:
            longer = memory.merge_memory(content, [fact])
            if self._fits(block, longer):
                content = longer
                taken += [fact] if fact in new else []
            elif fact not in new:
                pending.append(fact)
        return _BlockDraft(content, taken, pending, failure)

    async def _consolidate(self, block: ContextBlock, merged: str) -> str:
        """The facts of a block that is too long, rewritten by the extractor so that they fit. Raises
        `BlockTooLargeError` if they do not."""
        assert self._settings.extract is not None
        assert block.max_tokens is not None
        answer = await ask(
            self._settings.extract, build_consolidate_prompt(merged, block.max_tokens), self._settings.timeout
        )
        await self._record_usage([answer])
        content = memory.merge_memory("", memory.normalise_memory(answer))
        if not content or not self._fits(block, content):
            raise BlockTooLargeError(block.label, self._context.count(content or merged), block.max_tokens)
        return content

    def _fits(self, block: ContextBlock, content: str) -> bool:
        return block.max_tokens is None or self._context.count(content) <= block.max_tokens


def _noted(
    block: ContextBlock, notes: BlockFacts, draft: _BlockDraft, extractions: dict[str, Extraction]
) -> BlockFacts:
    """The note on the facts of a block with a new content."""
    known = notes.known | {memory.memory_fingerprint(fact) for fact in draft.taken}
    accepted = {
        key: replace(each, facts=[fact for fact in each.facts if memory.memory_fingerprint(fact) in known])
        for key, each in extractions.items()
    }
    after = facts.add_facts(notes, accepted, draft.pending)
    if not draft.consolidated:
        return after
    before = memory.merge_memory(block.content, [*notes.pending, *draft.taken])
    return facts.consolidate_facts(after, before, draft.content)
