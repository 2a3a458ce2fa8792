"""The compactions of one session: adding a summary over a range of messages, listing, expanding and undoing them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from frontdesk.checks import check_summary
from frontdesk.compaction import overlays
from frontdesk.compaction.overlays import PathRange
from frontdesk.compaction.tools import expand_tool
from frontdesk.context.frozen_prompt import FrozenPrompt
from frontdesk.errors import CompactionNotFoundError, MessageNotFoundError
from frontdesk.history import transcripts, views
from frontdesk.messages import SUMMARY_PREFIX, Message, new_id
from frontdesk.records import Compaction
from frontdesk.search.message_text import searchable_text
from frontdesk.search.ranking import rank_texts
from frontdesk.search.tokeniser import tokeniser_for
from frontdesk.session.handle import Handle
from frontdesk.store import NewOverlay, Plan
from frontdesk.tools import Tool
from frontdesk.tree import plans, sharing
from frontdesk.tree.tree import Tree


class RangeChangedError(Exception):
    """What a summary was made from is not what is there any more."""


class OverlayDraft(NamedTuple):
    """An overlay before it is laid: its summary (None: the range is only hidden), the messages that the summary was
    made from, if that is known, and what its `Compaction` says of how it was made."""

    summary: str | None
    source: Sequence[Message] = ()
    details: Mapping[str, Any] = {}


class Overlays:
    """The compactions of one session. Nothing here removes a message."""

    def __init__(self, handle: Handle, prompt: FrozenPrompt) -> None:
        self._handle = handle
        self._runtime = handle.runtime
        self._prompt = prompt

    async def add(self, summary: str, from_id: str, to_id: str) -> Compaction:
        """Show a summary in place of the messages from `from_id` to `to_id` whenever history is read; they stay stored.

        An end may be the id of a summary: it means the range that one covers. Leading system messages stay visible.
        Raises `InvalidRangeError`, `MessageNotFoundError`."""
        return await self.lay(OverlayDraft(check_summary(summary)), from_id, to_id)

    async def all(self) -> list[Compaction]:
        """Every compaction of the session, oldest first; those inside newer ones too."""
        tree = await self._handle.tree()
        return [] if tree is None else await overlays.to_compactions(self._runtime, tree, tree.overlays[::-1])

    async def expand(self, compaction_id: str) -> AsyncIterator[Message]:
        """Stream the messages under a compaction as they were written. Raises `CompactionNotFoundError`."""
        session_id = await self._handle.readable_id()
        if session_id is None:
            raise CompactionNotFoundError(compaction_id, self._handle.name)
        load = transcripts.covered_loader(self._runtime, session_id, compaction_id, overlays.find)
        async for portion in transcripts.portions(self._runtime, load):
            for message in portion:
                yield message

    async def undo(self, compaction_id: str) -> None:
        """Remove a compaction; what it covered is visible again. Raises `CompactionNotFoundError`."""

        async def build(tree: Tree) -> Plan | None:
            return plans.remove_overlay(tree, overlays.find(tree, compaction_id), self._runtime.now())

        def is_shared(tree: Tree) -> bool:
            return sharing.is_shared(tree, overlays.find(tree, compaction_id))

        if not await self._handle.change(build, family=is_shared):
            raise CompactionNotFoundError(compaction_id, self._handle.name)

    async def lay(self, draft: OverlayDraft, from_id: str, to_id: str, known: PathRange | None = None) -> Compaction:
        """Lay an overlay over the range that two ids mean. If that range is `known` from a tree, nothing is loaded
        unless the session was changed since.

        Raises `RangeChangedError` if the messages that the draft was made from are not there any more, and as `add`
        does."""
        compaction_id = new_id()
        if known is not None and not _replaces_shared(known.tree):
            overlay = self._overlay(compaction_id, draft, known)
            if await self._handle.apply(plans.add_overlay(known.tree, overlay, overlay.created_at)):
                return await self._laid(Compaction.from_row(overlay, known.from_id, known.to_id))
        made: Compaction | None = None

        async def build(tree: Tree) -> Plan | None:
            nonlocal made
            covered = await overlays.range_between(self._runtime, tree, from_id, to_id)
            await self._check_source(draft, covered)
            overlay = self._overlay(compaction_id, draft, covered)
            made = Compaction.from_row(overlay, covered.from_id, covered.to_id)
            return plans.add_overlay(tree, overlay, overlay.created_at)

        await self._handle.change(build, find=[from_id, to_id], family=_replaces_shared)
        if made is None:
            raise MessageNotFoundError(from_id, self._handle.name)
        return await self._laid(made)

    def _overlay(self, compaction_id: str, draft: OverlayDraft, covered: PathRange) -> NewOverlay:
        return NewOverlay(
            id=compaction_id,
            kind="truncate" if draft.summary is None else "summary",
            start=covered.start,
            end=covered.end,
            summary=draft.summary,
            tokens=self._runtime.summary_tokens(draft.summary),
            created_at=self._runtime.now(),
            details=msgspec.json.encode(draft.details).decode(),
        )

    async def _check_source(self, draft: OverlayDraft, covered: PathRange) -> None:
        if not draft.source:
            return
        present = await views.read_items(self._runtime, overlays.source_items(covered))
        if [message.stored for message in present] != [message.stored for message in draft.source]:
            raise RangeChangedError

    async def _laid(self, made: Compaction) -> Compaction:
        """What follows when an overlay is stored."""
        await self._prompt.forget(self._handle.id)
        self._handle.announce("on_compaction", made)
        return made

    # the tool for models

    def expand_tool(self) -> Tool:
        """The tool `expand_summary`."""
        return expand_tool(self._expand_summary, self._recall)

    async def _expand_summary(self, summary_id: str) -> AsyncIterator[Message]:
        async for message in self.expand(summary_id.removeprefix(SUMMARY_PREFIX)):
            yield message

    async def _recall(self, question: str) -> list[Message]:
        """The messages that overlays hide from the view and that answer a question best, best first."""
        tree = await self._handle.tree()
        if tree is None:
            return []
        hidden: list[Message] = []
        for _, _, overlay in tree.outermost(tree.path(tree.session.head)):
            if overlay.kind != "reset":
                covered = transcripts.fixed_loader(tree.covered_items(overlay))
                async for portion in transcripts.portions(self._runtime, covered):
                    hidden += portion
        terms = tokeniser_for(self._runtime.settings.search.language)
        ranked = rank_texts(question, map(searchable_text, hidden), terms, consecutive=True)
        return [hidden[index] for index, _ in ranked]


def _replaces_shared(tree: Tree) -> bool:
    """Whether a new overlay may take the place of one that other sessions see, too."""
    return any(overlay.is_cut and sharing.is_shared(tree, overlay) for overlay in tree.overlays)
