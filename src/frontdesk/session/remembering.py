"""Memory of one session: extracts durable facts from a conversation before its beginning is compacted."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from frontdesk.calls import call
from frontdesk.compaction import facts, memory
from frontdesk.compaction.chunks import split_into_chunks
from frontdesk.compaction.facts import Extraction, Progress
from frontdesk.compaction.failures import report_failure
from frontdesk.compaction.prompts import build_extract_prompt
from frontdesk.compaction.summariser import ask, total_usage
from frontdesk.config.settings import MemorySettings, Sink, check_memory_scope
from frontdesk.context.frozen_prompt import FrozenPrompt
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.errors import ConfigurationError, SessionNotFoundError
from frontdesk.history import trees, views
from frontdesk.lifecycle.leases import hold_lease
from frontdesk.lifecycle.usage import usage_entry
from frontdesk.messages import Message, new_id
from frontdesk.models.windows import session_window
from frontdesk.session.fact_notes import FactNotes
from frontdesk.session.forgetting import Forgetter
from frontdesk.session.handle import Handle
from frontdesk.session.memory_block import MemoryBlock
from frontdesk.store import Owner, Place, Plan, Scope
from frontdesk.tree.items import drop_first, first_items, position_of

_log = logging.getLogger("frontdesk.memory")
_LEASE = "memory"
_LEAST_MESSAGES = 3
_MOST_RECENT = 50
"""ids of extracted messages that are remembered: if one of them is on the path, extraction continues after it"""
_NO_BLOCK = ""
"""the label of what goes to a sink"""


class _Unread(NamedTuple):
    """Messages that no extraction has read, and their places."""

    messages: list[Message]
    places: list[Place]

    @property
    def said(self) -> list[Message]:
        return [message for message in self.messages if message.role != "system"]


class MemoryRefresher:
    """Extracts facts and passes them to the sink, or writes them to a context block."""

    def __init__(self, handle: Handle, context: SessionBlocks, prompt: FrozenPrompt, forgetter: Forgetter) -> None:
        self._handle = handle
        self._runtime = handle.runtime
        self._context = context
        self._prompt = prompt
        self._forgetter = forgetter
        self._notes = FactNotes(handle)

    async def needs_refresh(self) -> bool:
        """Whether the view and the prompt have reached the soft ratio, and enough messages are new since the last
        extraction."""
        if not self._runtime.settings.memory.is_on or (row := await self._handle.find_row()) is None:
            return False
        row = await trees.complete_row(self._runtime, row)
        settings = self._runtime.settings.compaction
        used = row.view_tokens + await self._prompt.tokens(row)
        if used < settings.soft_ratio * session_window(row, settings.max_tokens):
            return False
        return await self._is_enough()

    async def refresh(self) -> list[str]:
        """Extract facts from the messages since the last extraction, pass the new ones to the sink, and return them."""
        settings = self._runtime.settings.memory
        if settings.extract is None:
            raise ConfigurationError("there is no extractor: pass one to `with_memory_refresh(extract)`")
        row = await self._handle.find_row()
        if row is None:
            return []
        label, scope = await self._target(settings)
        async with hold_lease(self._runtime, row.id, _LEASE):
            await self._forgetter.forget_edited()
            keys = await self._extract(settings, label, scope)
            return await self._deliver(settings, label, scope, keys)

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
            await report_failure(_log, self._runtime.settings.memory.on_error, "the memory refresh", session_id, error)

    async def _is_enough(self) -> bool:
        return len((await self._unread(await self._notes.progress())).said) >= _LEAST_MESSAGES

    async def _target(self, settings: MemorySettings) -> tuple[str, Scope]:
        """Where facts go: the label of a block and its scope, or no label for the sink."""
        if settings.sink is not None:
            return _NO_BLOCK, "session"
        declaration = (await self._context.source(settings.label)).declaration
        check_memory_scope(settings, declaration)
        return settings.label, declaration.scope

    # extracting

    async def _extract(self, settings: MemorySettings, label: str, scope: Scope) -> list[str]:
        """Read what is new, and record what was found. Returns the keys of all extractions to deliver."""
        progress = await self._notes.progress()
        unread = await self._unread(progress)
        places = dict(zip((message.id for message in unread.messages), unread.places, strict=True))
        keys = list(progress.left_over)
        for chunk in split_into_chunks(unread.said, settings.input_tokens, self._runtime.settings.counter):
            question = build_extract_prompt(chunk.text, settings.max_extract_tokens, settings.prompt)
            answer = await ask(settings.extract, question, settings.timeout)  # type: ignore[arg-type]
            await self.record_usage([answer])
            found = memory.normalise_memory(answer)
            if found:
                runs = facts.runs_of(places[message.id] for message in chunk.messages)
                key = await self._record(Extraction(label, scope, runs, found, found), chunk.messages)
                keys += [] if key is None else [key]
        if unread.messages:
            await self._notes.change_progress(lambda now: self._advanced(now, progress, unread, keys))
        return keys

    def _advanced(self, now: Progress, before: Progress, unread: _Unread, keys: list[str]) -> Progress:
        """The progress after an extraction; what others noted meanwhile stays, even if it is the same run again."""
        is_longer = now.again[: len(before.again)] == before.again
        return replace(
            now,
            recent=[*now.recent, *(message.id for message in unread.said)][-_MOST_RECENT:],
            again=now.again[len(before.again) :] if is_longer else now.again,
            left_over=keys,
        )

    async def _record(self, extraction: Extraction, messages: Sequence[Message]) -> str | None:
        """Note where facts came from. None if one of the messages was deleted or edited meanwhile; what is there is
        read again.

        A deletion looks for notes, and is computed again if the session's revision has been raised since. So it either
        finds this note, or is seen by the look at the messages here. An edit looks for notes after it was made."""
        key = await self._notes.record(extraction)
        await self._handle.alter(lambda row: Plan(guards=((row.number, row.revision),), now=self._runtime.now()))
        ids = [message.id for message in messages]
        present = await self._handle.read_places(
            lambda tree: [place for message_id in ids if (place := tree.find(message_id)) is not None], find=ids
        )
        if present is not None and [each.stored for each in present] == [message.stored for message in messages]:
            return key
        await self._notes.replace_extraction(key, None)
        await self._notes.change_progress(lambda now: replace(now, again=[*now.again, *extraction.runs]))
        return None

    async def _unread(self, progress: Progress) -> _Unread:
        """The messages on the path since the last extraction, after those that have to be read again."""

        async def read() -> _Unread:
            tree = await self._handle.tree(find=progress.recent)
            if tree is None:
                return _Unread([], [])
            items = tree.lay(tree.session.head, overlays=False)
            ends = [place for message_id in progress.recent if (place := tree.find(message_id)) is not None]
            if progress.after_base and tree.session.base is not None:
                ends.append(tree.session.base)
            positions = (position_of(items, place) for place in ends)
            start = max((position + 1 for position in positions if position is not None), default=0)
            again = facts.items_within(first_items(items, start), facts.joined_runs(progress.again))
            new = [*again, *drop_first(items, start)]
            return _Unread(await views.read_all(self._runtime, new), facts.places_of(new))

        return await views.retry_if_moved(self._handle.runtime, read, self._handle.name)

    # delivering

    async def _deliver(self, settings: MemorySettings, label: str, scope: Scope, keys: Sequence[str]) -> list[str]:
        """Pass facts on, and note which were accepted. Returns those. Facts that wait for room in the block are tried
        again."""
        failure: Exception | None = None
        if settings.sink is not None:
            taken = await self._pass_to_sink(settings.sink, keys) if keys else []
        else:
            block = MemoryBlock(self._runtime, self._context, self._notes, settings, self.record_usage)
            if not keys and not await block.has_pending(label, scope):
                return []
            taken, failure = await block.add(label, scope, keys)
        await self._note_taken(await self._notes.get_extractions(keys), taken, failed=failure is not None)
        if failure is not None:
            raise failure
        return taken

    async def _pass_to_sink(self, sink: Sink, keys: Sequence[str]) -> list[str]:
        owner = Owner("session", self._handle.id)
        extractions = await self._notes.get_extractions(keys)
        known = (await self._notes.block_facts(owner, _NO_BLOCK)).facts.known
        wanted = {memory.memory_fingerprint(fact): fact for each in extractions.values() for fact in each.left_over}
        new = [fact for mark, fact in wanted.items() if mark not in known]
        if new:
            await call(sink, self._handle.id, new)
        await self._notes.change_facts(owner, _NO_BLOCK, lambda notes: facts.add_facts(notes, extractions, []))
        return new

    async def _note_taken(self, extractions: Mapping[str, Extraction], taken: Sequence[str], *, failed: bool) -> None:
        accepted = {memory.memory_fingerprint(fact) for fact in taken}
        left_over = []
        for key, extraction in extractions.items():
            left = [fact for fact in extraction.left_over if memory.memory_fingerprint(fact) not in accepted]
            left = left if failed else []
            left_over += [key] if left else []
            if left != extraction.left_over:
                await self._notes.replace_extraction(key, replace(extraction, left_over=left))
        await self._notes.change_progress(lambda now: replace(now, left_over=left_over))
