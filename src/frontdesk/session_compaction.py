"""The part of `Session` that deals with compaction: overlays laid by hand, and the compactor that plans, asks a model,
and commits against the range it read."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from frontdesk import history, plans
from frontdesk.calls import call
from frontdesk.checks import check_text
from frontdesk.compaction import overlays
from frontdesk.compaction.expanding import expand_tool
from frontdesk.compaction.planning import Range, leading_system, tool_runs
from frontdesk.compaction.settings import CompactionSettings
from frontdesk.compaction.shortening import shorten
from frontdesk.compaction.summarising import Summary, summarise
from frontdesk.context.blocks import RESERVED
from frontdesk.errors import (
    CompactionError,
    CompactionNotFoundError,
    InvalidInputError,
    MessageNotFoundError,
    SessionNotFoundError,
)
from frontdesk.ledger import usage_line
from frontdesk.messages import SUMMARY_PREFIX, Message, new_id
from frontdesk.models.overflow import is_context_overflow
from frontdesk.records import Compaction, CompactionResult, ContextUsage
from frontdesk.search import scan
from frontdesk.session_memory import MemoryCalls
from frontdesk.store import DocumentRow, LeaseRow, NewOverlay, Plan, SessionRow
from frontdesk.tools import Tool
from frontdesk.tree import Tree, drop_first, first_items, last_items

_log = logging.getLogger("frontdesk.compaction")
_LEASE = "compaction"
_SHORTENED = RESERVED + "shortened"
_TOOL_CHARS, _TEXT_CHARS = 500, 10_000
_GRACE = 30.0
_FIRST_LOOK, _LONGEST_LOOK = 0.02, 0.5
_TRIES = 5
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


class _RangeChangedError(Exception):
    """What was summarised is not what is there any more."""


class _Read(NamedTuple):
    """A view, the revision it was read at, and the part of it that is to be compacted."""

    revision: int
    view: list[Message]
    covered: list[Message]


class CompactionCalls(MemoryCalls):
    """What a session can do about its length. Nothing here removes a message."""

    # overlays by hand

    async def add_compaction(self, summary: str, from_id: str, to_id: str) -> Compaction:
        """Let a summary stand in for the messages from `from_id` to `to_id` whenever history is read; they stay stored.

        An end may be the id of a summary: it means the range that one covers. Leading system messages stay visible.
        Raises `InvalidRangeError`, `MessageNotFoundError`."""
        if not isinstance(summary, str) or not summary.strip():
            raise InvalidInputError("a summary must be a text that is not blank")
        check_text(summary, "summary")
        compaction_id = await self._lay("summary", summary, from_id, to_id)
        return await self._compaction(compaction_id)

    async def _lay(
        self,
        kind: Literal["summary", "truncate"],
        summary: str | None,
        from_id: str,
        to_id: str,
        details: Mapping[str, Any] | None = None,
        made_from: _Read | None = None,
    ) -> str:
        """Lay an overlay over a range; what it was made from, if given, must still be there."""
        compaction_id = new_id()

        async def build(tree: Tree) -> Plan | None:
            start, end = await overlays.range_of(self._scope, tree, from_id, to_id)
            if made_from is not None and made_from.revision != tree.session.revision:
                shown = await history.read_items(self._scope, tree.lay(end))
                if [m.stored for m in shown[-len(made_from.covered) :]] != [m.stored for m in made_from.covered]:
                    raise _RangeChangedError
            now = self._scope.now()
            overlay = NewOverlay(
                id=compaction_id,
                kind=kind,
                start=start,
                end=end,
                summary=summary,
                tokens=self._scope.summary_tokens(summary),
                created_at=now,
                details=msgspec.json.encode(details or {}).decode(),
            )
            return plans.add_overlay(tree, overlay, now)

        try:
            found = await self._change(build, find=[from_id, to_id])
        except MessageNotFoundError:
            if made_from is None:
                raise
            raise _RangeChangedError from None
        if not found:
            raise MessageNotFoundError(from_id, self._name())
        await self._context.forget_prompt()
        return compaction_id

    async def _compaction(self, compaction_id: str) -> Compaction:
        tree = await self._tree()
        if tree is None:
            raise CompactionNotFoundError(compaction_id, self._name())
        return (await overlays.to_compactions(self._scope, tree, [overlays.find(tree, compaction_id)]))[0]

    async def compactions(self) -> list[Compaction]:
        """Every overlay that the session has, oldest first; those inside newer ones too."""
        tree = await self._tree()
        return [] if tree is None else await overlays.to_compactions(self._scope, tree, tree.overlays[::-1])

    async def expand(self, compaction_id: str) -> AsyncIterator[Message]:
        """Stream the messages under a compaction as they were written. Raises `CompactionNotFoundError`."""
        tree = await self._tree()
        if tree is None:
            raise CompactionNotFoundError(compaction_id, self._name())
        covered = tree.covered_items(overlays.find(tree, compaction_id))
        async for portion in history.portions(self._scope, covered):
            for message in portion:
                yield message

    async def undo_compaction(self, compaction_id: str) -> None:
        """Take a compaction away; what it covered is visible again. Raises `CompactionNotFoundError`."""

        async def build(tree: Tree) -> Plan | None:
            return plans.remove_overlay(tree, overlays.find(tree, compaction_id), self._scope.now())

        def is_shared(tree: Tree) -> bool:
            return plans.is_shared(tree, overlays.find(tree, compaction_id))

        if not await self._change(build, family=is_shared):
            raise CompactionNotFoundError(compaction_id, self._name())

    async def tools(self) -> dict[str, Tool]:
        """The tools for the blocks there are, and `expand_summary` with compaction, by name. No I/O after first use."""
        tools = await super().tools()
        if self._scope.settings(CompactionSettings).is_set_up:
            tool = expand_tool(self._expanded, self._recall)
            tools[tool.name] = tool
        return tools

    async def _expanded(self, summary_id: str) -> AsyncIterator[Message]:
        async for message in self.expand(summary_id.removeprefix(SUMMARY_PREFIX)):
            yield message

    async def _recall(self, question: str) -> list[Message]:
        """The messages under any summary that answer a question best, best first."""
        words = scan.words_of(question)
        tree = await self._tree()
        found: dict[str, tuple[int, Message]] = {}
        for overlay in tree.overlays if tree is not None else ():
            if tree is not None and overlay.kind == "summary":
                async for portion in history.portions(self._scope, tree.covered_items(overlay)):
                    matches = ((scan.match(message.text, words), message) for message in portion)
                    found |= {message.id: (score, message) for score, message in matches if score}
        best = sorted(found.values(), key=lambda pair: (-pair[0], -pair[1].stored.created_at))
        return [message for _, message in best]

    # how full it is

    async def context_usage(self, *, tools: Sequence[Mapping[str, Any]] = ()) -> ContextUsage:
        """How much of the model's window the next call takes: the view, the frozen prompt, and tool schemas if given.

        Costs the same however long the session is."""
        return await self._usage(await self._settled(), tools)

    async def needs_compaction(self) -> bool:
        """Whether the view has reached the hard ratio of its window, or `max_messages`; works without a summariser."""
        row = await self._settled()
        return row is not None and self._is_full(row, (await self._usage(row)).used)

    async def _settled(self) -> SessionRow | None:
        session_id = await self._readable_id()
        row = None if session_id is None else await self._scope.store.get(self._scope.namespace, session_id)
        return None if row is None else await history.settled_row(self._scope, row)

    async def _usage(self, row: SessionRow | None, tools: Sequence[Mapping[str, Any]] = ()) -> ContextUsage:
        limit = self._window(row)
        used = sum(self._scope.counter(msgspec.json.encode(tool).decode()) for tool in tools)
        if row is not None:
            used += row.view_tokens + await self._context.frozen_tokens()
        return ContextUsage(used, limit, used / limit)

    def _is_full(self, row: SessionRow, used: int) -> bool:
        settings = self._scope.settings(CompactionSettings)
        if settings.max_messages is not None and row.view_messages > settings.max_messages:
            return True
        return used >= settings.hard_ratio * self._window(row)

    async def _view(
        self, session_id: str, leaf: str | None, last: int | None, max_tokens: int | None, *, shortens: bool
    ) -> list[Message]:
        """The view, made to fit if `max_tokens` is given.

        When not all of it fits, the tool outputs of all turns but the last are shortened, and stay so: up to which
        message is remembered, so that what a provider has cached of the view stays the same from call to call."""
        if max_tokens is None:
            return await history.read_view(self._scope, session_id, leaf, last)

        async def fit(until: str | None) -> history.Fitted:
            return await history.fit_view(self._scope, session_id, leaf, last, max_tokens, self._shortened, until)

        row = await self._context.document(_SHORTENED) if shortens else None
        fitted = await fit(None if row is None else row.content)
        if fitted.is_whole or not shortens or fitted.before_turn is None:
            return fitted.messages
        mark = DocumentRow(
            label=_SHORTENED,
            version=1 if row is None else row.version + 1,
            content=fitted.before_turn,
            created_at=self._scope.now(),
        )
        await self._context.put(mark)
        return (await fit(fitted.before_turn)).messages

    def _shortened(self, message: Message) -> Message:
        return shorten(message, _TOOL_CHARS, _TEXT_CHARS, self._scope.counter)

    # the compactor

    async def compact(self, *, instructions: str | None = None, prompt: str | None = None) -> CompactionResult | None:
        """Compact the view now; None if there is too little to gain. Joins a compaction that is running.

        `instructions` add a focus, `prompt` replaces the question that the model is asked. Raises `CompactionError` and
        what the model raises; the view then is as it was. Messages appended meanwhile stay in the view."""
        session_id = await self._readable_id()
        if session_id is None:
            return None
        self._refresh_beside(session_id)
        return await self._compact(session_id, instructions, prompt, harder=False)

    async def on_overflow(self, error: BaseException) -> bool:
        """Whether to try again after a model's refusal: True if the error says that the context was too long, and a
        harder compaction (shorter tail, no protected head) made it shorter. False for any other error."""
        session_id = await self._readable_id()
        if session_id is None or not is_context_overflow(error):
            return False
        return await self._compact(session_id, None, None, harder=True) is not None

    async def _compact(
        self, session_id: str, instructions: str | None, prompt: str | None, *, harder: bool
    ) -> CompactionResult | None:
        before = await self._overlay_ids()
        look = _FIRST_LOOK
        while (lease := await self._take_lease(session_id)) is None:
            await asyncio.sleep(look)
            look = min(look * 2, _LONGEST_LOOK)
        try:
            joined = [made for made in await self._overlay_ids() if made not in before]
            if joined:
                return CompactionResult.of(await self._compaction(joined[0]))
            return await self._compact_holding(instructions, prompt, harder)
        finally:
            await self._scope.store.release_lease(self._scope.namespace, session_id, _LEASE, lease.number)

    async def _take_lease(self, session_id: str) -> LeaseRow | None:
        """The lease that makes a compaction the only one of its session over all workers; it ends with its holder."""
        settings = self._scope.settings(CompactionSettings)
        ttl = int((settings.timeout * settings.attempts + _GRACE) * 1_000_000)
        return await self._scope.store.acquire_lease(self._scope.namespace, session_id, _LEASE, new_id(), ttl)

    async def _overlay_ids(self) -> list[str]:
        """Newest first."""
        tree = await self._tree()
        return [] if tree is None else [overlay.id for overlay in tree.overlays]

    async def _compact_holding(
        self, instructions: str | None, prompt: str | None, harder: bool
    ) -> CompactionResult | None:
        settings = self._scope.settings(CompactionSettings)
        for _ in range(_TRIES):
            row = await history.settled_row(self._scope, await self._row())
            view = await history.read_view(self._scope, row.id)
            chosen = settings.plan(view, self._window(row), harder=harder)
            if chosen is None:
                return None
            read = _Read(row.revision, view, view[chosen.first : chosen.last + 1])
            try:
                return await self._replace_range(settings, read, chosen, instructions, prompt)
            except _RangeChangedError:
                continue
        raise CompactionError(f"the range changed {_TRIES} times while it was being summarised: try again later")

    async def _replace_range(
        self,
        settings: CompactionSettings,
        read: _Read,
        chosen: Range,
        instructions: str | None,
        prompt: str | None,
    ) -> CompactionResult:
        started = time.monotonic()
        made = Summary()
        if settings.strategy != "truncate":
            try:
                made = await summarise(
                    settings, read.covered, self._scope.counter, instructions=instructions, prompt=prompt
                )
            except Exception as error:
                hidden = tool_runs(read.covered)
                if settings.strategy != "hybrid" or not hidden:
                    raise
                await self._tell(self._name(), error)
                return await self._hide(read, hidden[0], Summary(), started)
        return await self._hide(read, Range(0, len(read.covered) - 1), made, started)

    async def _hide(self, read: _Read, part: Range, made: Summary, started: float) -> CompactionResult:
        """Lay an overlay, with a summary or without, over a part of what was read."""
        covered = read.covered[part.first : part.last + 1]
        before = sum(message.tokens for message in read.view)
        details = {
            "messages_covered": len(covered),
            "messages_kept": len(read.view) - len(covered),
            "tokens_before": before,
            "tokens_after": before - sum(message.tokens for message in covered) + made.tokens,
            "duration": time.monotonic() - started,
            "attempts": made.attempts,
            "usage": await self._record_usage(made),
        }
        kind: Literal["summary", "truncate"] = "summary" if made.text else "truncate"
        made_from = _Read(read.revision, read.view, covered)
        compaction_id = await self._lay(kind, made.text or None, covered[0].id, covered[-1].id, details, made_from)
        return CompactionResult.of(await self._compaction(compaction_id))

    async def _summarise_all(self) -> str | None:
        """A summary of the whole view, for a session that goes on elsewhere; None if there is nothing to summarise."""
        settings = self._scope.settings(CompactionSettings)
        view = await history.read_view(self._scope, self.id)
        said = view[leading_system(view) :]
        if not said:
            return None
        made = await summarise(settings, said, self._scope.counter)
        await self._record_usage(made)
        return made.text

    async def _cover_all(self, summary: str | None) -> None:
        """Let a summary stand in for all that was said so far."""
        tree = await self._tree()
        if tree is None or tree.session.head is None or summary is None:
            return
        path = tree.lay(tree.session.head, overlays=False)
        lead = len(await history.leading_system(self._scope, path))
        ends = [*first_items(drop_first(path, lead), 1), *last_items(path, 1)]
        if len(ends) == 2:
            first, last = await history.read_items(self._scope, ends)
            await self._lay("summary", summary, first.id, last.id)

    async def _record_usage(self, made: Summary) -> dict[str, int]:
        """Enter what the model's calls used into the ledger; the sum of it."""
        total = dict.fromkeys(_TOKENS, 0)
        for answer in made.calls:
            usage = getattr(answer, "usage", None)
            if usage is None:
                continue
            tokens = {name: int(getattr(usage, name, 0) or 0) for name in _TOKENS}
            total = {name: total[name] + tokens[name] for name in _TOKENS}
            line = usage_line(self._scope.now(), tokens, model=getattr(answer, "model", None))
            await self._scope.store.add_usage(self._scope.namespace, self.id, line)
        return total

    # beside the conversation

    def _after_append(self, row: SessionRow, added: int) -> None:
        """Start what this append of `added` tokens made necessary, beside the conversation; costs nothing otherwise."""
        settings = self._scope.settings(CompactionSettings)
        soft = settings.soft_ratio * self._window(row)
        if row.view != "stale" and row.view_tokens - added < soft <= row.view_tokens:
            self._refresh_beside(row.id)
        if not settings.auto or not settings.can_compact or settings.pauses.holds(row.id, time.monotonic()):
            return
        if row.view == "stale" or self._is_full(row, row.view_tokens):
            self._scope.spawn(self._compact_beside(row.id), f"compact {row.id}")

    async def _compact_beside(self, session_id: str) -> None:
        settings = self._scope.settings(CompactionSettings)
        try:
            held = await self._scope.store.get_lease(self._scope.namespace, session_id, _LEASE)
            if held is None and await self.needs_compaction():
                await self.compact()
            settings.pauses.succeeded(session_id)
        except SessionNotFoundError:
            pass  # deleted meanwhile: there is nothing left to compact
        except Exception as error:
            settings.pauses.failed(session_id, time.monotonic())
            await self._tell(session_id, error)

    async def _tell(self, session_id: str, error: Exception) -> None:
        """Say that a compaction failed; nothing of the conversation is logged."""
        _log.warning("a compaction failed: %s", type(error).__name__)
        on_error = self._scope.settings(CompactionSettings).on_error
        if on_error is not None:
            try:
                await call(on_error, session_id, error)
            except Exception as failure:
                _log.warning("the on_error of compaction failed, too: %s", type(failure).__name__)
