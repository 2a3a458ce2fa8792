"""Appends texts to context blocks that were made from messages, and notes that, so that they go with the messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from frontdesk.checks import check_list, check_text
from frontdesk.compaction import facts
from frontdesk.compaction.facts import Extraction, Run
from frontdesk.context.blocks import ContextBlock
from frontdesk.context.session_blocks import SessionBlocks, add_line
from frontdesk.deadlines import one_call
from frontdesk.errors import BlockVersionError, FrontdeskError, MessageNotFoundError
from frontdesk.messages import SUMMARY_PREFIX, check_id
from frontdesk.session.fact_notes import FactNotes
from frontdesk.session.handle import Handle
from frontdesk.store import Place, Plan
from frontdesk.tree.tree import Tree


class Quoter:
    """Writes what was made from messages of a session to its blocks."""

    def __init__(self, handle: Handle, context: SessionBlocks) -> None:
        self._handle = handle
        self._runtime = handle.runtime
        self._context = context
        self._notes = FactNotes(handle)

    async def append(self, label: str, text: str, author: str | None, made_from: Iterable[str]) -> ContextBlock:
        """Add a text at the end of a block; see `Session.append_context_block`."""
        ids = [check_id(message_id, "message id") for message_id in check_list(made_from, "made_from")]
        source = await self._context.source(label) if ids else None
        if source is None or source.provider is not None:
            return await self._context.append(label, text, author)
        return await self._append(label, check_text(text, "text"), author, ids)

    @one_call
    async def _append(self, label: str, text: str, author: str | None, ids: Sequence[str]) -> ContextBlock:
        """The note is there before the block is written. A deletion either finds it, or is seen by the second look at
        the messages."""
        scope = (await self._context.source(label)).declaration.scope
        lines = [line for line in text.splitlines() if line.strip()]
        quote = Extraction(label, scope, await self._places(ids), lines, lines, is_quote=True)
        key = await self._notes.record(quote)
        try:
            await self._handle.alter(lambda row: Plan(guards=((row.number, row.revision),), now=self._runtime.now()))
            await self._places(ids)
            block = await self._write(key, quote, text, author, ids)
        except FrontdeskError as error:
            if not error.uncertain:
                await self._notes.replace_extraction(key, None)
            raise
        await self._notes.replace_extraction(key, replace(quote, left_over=[]))
        return block

    async def _write(
        self, key: str, quote: Extraction, text: str, author: str | None, ids: Sequence[str]
    ) -> ContextBlock:
        """Write the block together with the note on its lines, unless the messages are being deleted."""
        label = quote.label
        owner = await self._context.owner_for_write(quote.scope)
        attempts = self._context.attempts(label)
        while True:
            await attempts.another()
            noted = await self._notes.block_facts(owner, label)
            block = await self._context.block(label)
            found = await self._notes.get_extractions([key])
            if not found:
                raise MessageNotFoundError(ids[0], self._handle.name)
            note = self._notes.next_facts(noted, facts.add_facts(noted.facts, found, noted.facts.pending))
            try:
                return await self._context.replace(label, add_line(block.content, text), block.version, author, note)
            except BlockVersionError:
                pass

    async def _places(self, ids: Sequence[str]) -> list[Run]:
        """Where the messages are, and those under the summaries. Raises `MessageNotFoundError`."""
        tree = await self._handle.tree(find=[each for each in ids if not each.startswith(SUMMARY_PREFIX)])
        places: list[Place] = []
        for each in ids:
            found = [] if tree is None else _covered(tree, each) if each.startswith(SUMMARY_PREFIX) else _at(tree, each)
            if not found:
                raise MessageNotFoundError(each, self._handle.name)
            places += found
        return facts.runs_of(places)


def _at(tree: Tree, message_id: str) -> list[Place]:
    place = tree.find(message_id)
    return [] if place is None else [place]


def _covered(tree: Tree, summary_id: str) -> list[Place]:
    """The places under a summary on the path to the head; none if it is hidden."""
    for _, _, overlay in tree.outermost(tree.path(tree.session.head)):
        if SUMMARY_PREFIX + overlay.id == summary_id and not overlay.is_cut:
            return facts.places_of(tree.between(overlay.start, overlay.end))
    return []
