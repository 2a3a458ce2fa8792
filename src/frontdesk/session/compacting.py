"""The part of `Session` that deals with compaction: overlays laid by hand, and the compactor that plans, asks a model,
and commits against the range it read."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from frontdesk.checks import check_summary
from frontdesk.compaction import overlays
from frontdesk.compaction.expanding import expand_tool
from frontdesk.compaction.limits import CompactionState, Pauses, choose_range, tell
from frontdesk.compaction.planning import MIN_TOKENS, Range, leading_system, tool_runs
from frontdesk.compaction.shortening import shorten
from frontdesk.compaction.summarising import Request, Summary, summarise, used
from frontdesk.config.settings import RESERVED_PREFIX
from frontdesk.errors import (
    CompactionError,
    CompactionNotFoundError,
    ContextOverflowError,
    FrontdeskError,
    InvalidRangeError,
    MessageNotFoundError,
    SessionNotFoundError,
)
from frontdesk.history import reading
from frontdesk.lifecycle.leases import holding
from frontdesk.lifecycle.transitions import COMPACTION_LEASE
from frontdesk.messages import SUMMARY_PREFIX, Message, new_id
from frontdesk.models.overflow import is_context_overflow
from frontdesk.records import Compaction, CompactionResult, ContextUsage
from frontdesk.search.ranking import rank_texts
from frontdesk.search.settings import tokeniser
from frontdesk.search.texts import searchable_text
from frontdesk.session.remembering import MemoryCalls
from frontdesk.store import NewOverlay, Plan, SessionRow
from frontdesk.tools import Tool
from frontdesk.tree import plans
from frontdesk.tree.items import drop_first, first_items, last_items
from frontdesk.tree.tree import Tree

_log = logging.getLogger("frontdesk.compaction")
_SHORTENED = RESERVED_PREFIX + "shortened"
_TOOL_CHARS, _TEXT_CHARS = 500, 10_000
_TRIES = 5
_NO_SUMMARY = Summary()


class _RangeChangedError(Exception):
    """What was summarised is not what is there any more."""


class _Source(NamedTuple):
    """What a summary is made from, and the revision at which it was read."""

    revision: int
    messages: list[Message]


class _Chosen(NamedTuple):
    """A view, and the part of it that is to be compacted."""

    view: list[Message]
    part: Range

    @property
    def covered(self) -> list[Message]:
        return self.view[self.part.first : self.part.last + 1]

    def within(self, run: Range) -> _Chosen:
        return _Chosen(self.view, Range(self.part.first + run.first, self.part.first + run.last))


class _Whole(NamedTuple):
    """A summary of all that had been said up to a message."""

    text: str
    messages: list[Message]


class CompactionCalls(MemoryCalls):
    """What a session can do about its length. Nothing here removes a message."""

    # overlays by hand

    async def add_compaction(self, summary: str, from_id: str, to_id: str) -> Compaction:
        """Let a summary stand in for the messages from `from_id` to `to_id` whenever history is read; they stay stored.

        An end may be the id of a summary: it means the range that one covers. Leading system messages stay visible.
        Raises `InvalidRangeError`, `MessageNotFoundError`."""
        check_summary(summary)
        compaction_id = await self._lay("summary", summary, from_id, to_id)
        return await self._compaction(compaction_id)

    async def _lay(
        self,
        kind: Literal["summary", "truncate"],
        summary: str | None,
        from_id: str,
        to_id: str,
        details: Mapping[str, Any] | None = None,
        made_from: Sequence[Message] = (),
        revision: int | None = None,
    ) -> str:
        """Lay an overlay over a range; what it was made from, if given, must still be there. What was read at a
        `revision` of the session needs no second look as long as that is the present one."""
        compaction_id = new_id()

        async def build(tree: Tree) -> Plan | None:
            start, end = await overlays.range_of(self._runtime, tree, from_id, to_id)
            if made_from and revision != tree.session.revision:
                present = await reading.read_items(self._runtime, overlays.source_items(tree, start, end))
                if [message.stored for message in present] != [message.stored for message in made_from]:
                    raise _RangeChangedError
            now = self._runtime.now()
            overlay = NewOverlay(
                id=compaction_id,
                kind=kind,
                start=start,
                end=end,
                summary=summary,
                tokens=self._runtime.summary_tokens(summary),
                created_at=now,
                details=msgspec.json.encode(details or {}).decode(),
            )
            return plans.add_overlay(tree, overlay, now)

        if not await self._change(build, find=[from_id, to_id]):
            raise MessageNotFoundError(from_id, self._name())
        await self._prompt.forget(self.id)
        if self._runtime.hooks.listens("on_compaction"):
            self._announce("on_compaction", await self._compaction(compaction_id))
        return compaction_id

    async def _compaction(self, compaction_id: str) -> Compaction:
        tree = await self._tree()
        if tree is None:
            raise CompactionNotFoundError(compaction_id, self._name())
        return (await overlays.to_compactions(self._runtime, tree, [overlays.find(tree, compaction_id)]))[0]

    async def compactions(self) -> list[Compaction]:
        """Every overlay that the session has, oldest first; those inside newer ones too."""
        tree = await self._tree()
        return [] if tree is None else await overlays.to_compactions(self._runtime, tree, tree.overlays[::-1])

    async def expand(self, compaction_id: str) -> AsyncIterator[Message]:
        """Stream the messages under a compaction as they were written. Raises `CompactionNotFoundError`."""
        session_id = await self._readable_id()
        if session_id is None:
            raise CompactionNotFoundError(compaction_id, self._name())
        load = reading.covered_load(self._runtime, session_id, compaction_id, overlays.find)
        async for portion in reading.portions(self._runtime, load):
            for message in portion:
                yield message

    async def undo_compaction(self, compaction_id: str) -> None:
        """Take a compaction away; what it covered is visible again. Raises `CompactionNotFoundError`."""

        async def build(tree: Tree) -> Plan | None:
            return plans.remove_overlay(tree, overlays.find(tree, compaction_id), self._runtime.now())

        def is_shared(tree: Tree) -> bool:
            return plans.is_shared(tree, overlays.find(tree, compaction_id))

        if not await self._change(build, family=is_shared):
            raise CompactionNotFoundError(compaction_id, self._name())

    async def tools(self) -> dict[str, Tool]:
        """The tools for the blocks there are, and `expand_summary` with compaction, by name. No I/O after first use."""
        tools = await super().tools()
        if self._runtime.settings.compaction.is_set_up:
            tool = expand_tool(self._expanded, self._recall)
            tools[tool.name] = tool
        return tools

    async def _expanded(self, summary_id: str) -> AsyncIterator[Message]:
        async for message in self.expand(summary_id.removeprefix(SUMMARY_PREFIX)):
            yield message

    async def _recall(self, question: str) -> list[Message]:
        """The messages that overlays keep out of the view and that answer a question best, best first."""
        tree = await self._tree()
        if tree is None:
            return []
        hidden: list[Message] = []
        for _, _, overlay in tree.outermost(tree.path(tree.session.head)):
            if overlay.kind != "reset":
                async for portion in reading.portions(self._runtime, reading.fixed(tree.covered_items(overlay))):
                    hidden += portion
        terms = tokeniser(self._runtime.settings.search)
        ranked = rank_texts(question, map(searchable_text, hidden), terms, in_line=True)
        return [hidden[index] for index, _ in ranked]

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
        row = None if session_id is None else await self._runtime.store.get(self._runtime.namespace, session_id)
        return None if row is None else await reading.settled_row(self._runtime, row)

    async def _usage(self, row: SessionRow | None, tools: Sequence[Mapping[str, Any]] = ()) -> ContextUsage:
        limit = self._window(row)
        used = sum(self._runtime.settings.counter(msgspec.json.encode(tool).decode()) for tool in tools)
        if row is not None:
            used += row.view_tokens + await self._prompt.tokens(row)
        return ContextUsage(used, limit, used / limit)

    def _is_full(self, row: SessionRow, used: int) -> bool:
        settings = self._runtime.settings.compaction
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
            return await reading.read_view(self._runtime, session_id, leaf, last)

        async def fit(until: str | None) -> reading.Fitted:
            return await reading.fit_view(self._runtime, session_id, leaf, last, max_tokens, self._shortened, until)

        row = await self._context.document(_SHORTENED) if shortens else None
        fitted = await fit(None if row is None else row.content)
        mark = fitted.before_turn
        if fitted.is_whole or not shortens or mark is None or (row is not None and row.content == mark):
            return fitted.messages
        if leaf is None:  # a look at another branch must not move what the conversation itself has cached
            await self._remember_shortened(mark, 1 if row is None else row.version + 1)
        return (await fit(mark)).messages

    async def _remember_shortened(self, until: str, version: int) -> None:
        try:
            await self._context.put_document(_SHORTENED, until, version)
        except SessionNotFoundError:
            pass  # deleted meanwhile: what was read is still a view of it

    def _shortened(self, message: Message) -> Message:
        return shorten(message, _TOOL_CHARS, _TEXT_CHARS, self._runtime.settings.counter)

    @property
    def _pauses(self) -> Pauses:
        return self._runtime.shared(CompactionState).pauses

    # the compactor

    async def compact(self, *, instructions: str | None = None, prompt: str | None = None) -> CompactionResult | None:
        """Compact the view now; None if there is too little to gain. Joins a compaction that is running.

        `instructions` add a focus, `prompt` replaces the question that the model is asked. Raises `CompactionError` and
        what the model raises; the view then is as it was. Messages appended meanwhile stay in the view."""
        session_id = await self._readable_id()
        if session_id is None:
            return None
        return await self._compact(session_id, instructions, prompt, harder=False)

    async def on_overflow(self, error: BaseException) -> bool:
        """Whether to try again after a model's refusal: True if the error says that the context was too long, and a
        harder compaction (shorter tail, no protected head) made it shorter. False for any other error."""
        session_id = await self._readable_id()
        too_long = isinstance(error, ContextOverflowError) or is_context_overflow(error)
        if session_id is None or not too_long:
            return False
        try:
            return await self._compact(session_id, None, None, harder=True) is not None
        except Exception as failure:
            await self._tell(session_id, failure)
            return False

    async def _compact(
        self, session_id: str, instructions: str | None, prompt: str | None, *, harder: bool
    ) -> CompactionResult | None:
        tree = await self._tree()
        if tree is None:
            return None
        before = {overlay.id for overlay in tree.overlays}
        async with holding(self._runtime, session_id, COMPACTION_LEASE):
            tree = await self._tree()
            overlaid = tree.overlays if tree is not None else []
            joined = [made.id for made in overlaid if made.id not in before and made.details != "{}"]
            if joined:
                return CompactionResult.of(await self._compaction(joined[0]))
            return await self._compact_holding(instructions, prompt, harder)

    async def _compact_holding(
        self, instructions: str | None, prompt: str | None, harder: bool
    ) -> CompactionResult | None:
        settings = self._runtime.settings.compaction
        for _ in range(_TRIES):
            row = await self._row()
            view = await reading.read_view(self._runtime, row.id)
            part = choose_range(settings, view, self._window(row), harder=harder)
            if part is None:
                return None
            self._refresh_beside(row.id)
            try:
                return await self._replace_range(_Chosen(view, part), instructions, prompt)
            except (_RangeChangedError, MessageNotFoundError, InvalidRangeError):
                continue
        raise CompactionError(f"the range changed {_TRIES} times while it was being summarised: try again later")

    async def _replace_range(self, chosen: _Chosen, instructions: str | None, prompt: str | None) -> CompactionResult:
        settings = self._runtime.settings.compaction
        started = time.monotonic()
        if settings.strategy == "truncate":
            return await self._hide([chosen], started)
        source = await self._source(chosen.covered[0].id, chosen.covered[-1].id)
        before = sum(message.tokens for message in chosen.covered)
        request = Request(source.messages, before, instructions, prompt)
        try:
            made = await self._ask(request)
        except Exception as error:
            hidden = [chosen.within(run) for run in tool_runs(chosen.covered)]
            if settings.strategy != "hybrid" or not hidden:
                raise
            self._pauses.failed(self.id, time.monotonic())
            await self._tell(self.id, error)
            return await self._hide(hidden, started)
        result = await self._hide([chosen], started, made, source, used(request.calls))
        self._pauses.succeeded(self.id)
        return result

    async def _source(self, from_id: str, to_id: str) -> _Source:
        tree = await self._tree(find=[from_id, to_id])
        if tree is None:
            raise MessageNotFoundError(from_id, self._name())
        items = overlays.source_items(tree, *await overlays.range_of(self._runtime, tree, from_id, to_id))
        messages = await reading.read_items(self._runtime, items)
        if not messages:
            raise MessageNotFoundError(from_id, self._name())
        return _Source(tree.session.revision, messages)

    async def _ask(self, request: Request) -> Summary:
        try:
            return await summarise(self._runtime.settings.compaction, request, self._runtime.settings.counter)
        finally:
            await self._record_usage(request.calls)

    async def _hide(
        self,
        chosen: Sequence[_Chosen],
        started: float,
        made: Summary = _NO_SUMMARY,
        source: _Source | None = None,
        usage: Mapping[str, int] | None = None,
    ) -> CompactionResult:
        """Lay an overlay over each part of a view, with a summary or without; the result is the first one's."""
        view = chosen[0].view
        covered = [message for each in chosen for message in each.covered]
        before = sum(message.tokens for message in view)
        details = {
            "messages_covered": len(covered),
            "messages_kept": len(view) - len(covered),
            "tokens_before": before,
            "tokens_after": before - sum(message.tokens for message in covered) + made.tokens,
            "duration": time.monotonic() - started,
            "attempts": made.attempts,
            "usage": usage or {},
        }
        kind: Literal["summary", "truncate"] = "summary" if made.text else "truncate"
        laid = [
            await self._lay(
                kind,
                made.text or None,
                each.covered[0].id,
                each.covered[-1].id,
                details,
                source.messages if source else (),
                source.revision if source else None,
            )
            for each in chosen
        ]
        return CompactionResult.of(await self._compaction(laid[0]))

    # going on elsewhere

    async def _summarise_all(self) -> _Whole | None:
        """A summary of the whole view, for a session that goes on elsewhere; None if there is nothing to summarise, or
        nothing but a summary, which goes along."""
        view = await reading.read_view(self._runtime, self.id)
        said = view[leading_system(view) :]
        source = (await self._source(said[0].id, said[-1].id)).messages if said else []
        if not source or (len(source) == 1 and source[0].is_summary):
            return None
        # What is hardly longer than a summary gets one all the same: the new session is to open with it.
        before = max(sum(message.tokens for message in said), 2 * MIN_TOKENS)
        return _Whole((await self._ask(Request(source, before))).text, source)

    async def _cover_all(self, summary: str | _Whole | None) -> None:
        """Let a summary stand in for all that was said before, or for as much of it as it was made from."""
        self._refresh_beside(self.id)
        if summary is None:
            return
        if isinstance(summary, str):
            if ends := await self._ends():
                await self._lay("summary", summary, *ends)
            return
        first, last = summary.messages[0], summary.messages[-1]
        try:
            await self._lay("summary", summary.text, first.id, last.id, made_from=summary.messages)
        except (_RangeChangedError, MessageNotFoundError, InvalidRangeError):
            pass  # changed meanwhile: no summary is better than one of something else

    async def _ends(self) -> tuple[str, str] | None:
        """The first and the last message of the path that may be compacted."""
        tree = await self._tree()
        path = [] if tree is None else tree.lay(tree.session.head, overlays=False)
        rest = drop_first(path, len(await reading.leading_system(self._runtime, path)))
        if not rest:
            return None
        first, last = await reading.read_items(self._runtime, [*first_items(rest, 1), *last_items(rest, 1)])
        return first.id, last.id

    # beside the conversation

    def _after_append(self, row: SessionRow, added: int) -> None:
        """Start what this append of `added` tokens made necessary, beside the conversation; costs nothing otherwise."""
        settings = self._runtime.settings.compaction
        if row.view != "stale":
            self._start_what_is_due(row, added)
        elif self._runtime.settings.memory.is_on or (settings.auto and settings.can_compact):
            self._runtime.background.spawn(self._look_closer(added), f"look {row.id} {new_id()}")

    async def _look_closer(self, added: int) -> None:
        """After an append to a view whose figures are not known."""
        try:
            row = await self._settled()
        except FrontdeskError:
            return  # the next append looks again
        if row is not None:
            self._start_what_is_due(row, added)

    def _start_what_is_due(self, row: SessionRow, added: int) -> None:
        settings = self._runtime.settings.compaction
        total = row.view_tokens + self._prompt.known_tokens(row)
        if total - added < settings.soft_ratio * self._window(row) <= total:
            self._refresh_beside(row.id)
        if not settings.auto or not settings.can_compact or self._pauses.holds(row.id, time.monotonic()):
            return
        if not self._is_full(row, total):
            return
        running = self._runtime.shared(CompactionState).running
        if row.id in running:
            running[row.id] = True
        else:
            running[row.id] = False
            self._runtime.background.spawn(self._compact_beside(row.id), f"compact {row.id} {new_id()}")

    async def _compact_beside(self, session_id: str) -> None:
        """Compact, and look again if an append asked for it meanwhile: what was read may have been too little then."""
        running = self._runtime.shared(CompactionState).running
        try:
            await self._compact_while_full(session_id)
            while running[session_id]:
                running[session_id] = False
                await self._compact_while_full(session_id)
        finally:
            del running[session_id]

    async def _compact_while_full(self, session_id: str) -> None:
        settings = self._runtime.settings.compaction
        try:
            if await self._runtime.store.get_lease(self._runtime.namespace, session_id, COMPACTION_LEASE) is not None:
                return
            while not self._pauses.holds(session_id, time.monotonic()) and await self.needs_compaction():
                made = await self.compact()
                if made is None:
                    return
                if made.tokens_after >= settings.hard_ratio * (await self.context_usage()).max:
                    # What must stay is too long by itself: the next append is no reason to ask the model again.
                    self._pauses.failed(session_id, time.monotonic())
        except SessionNotFoundError:
            pass  # deleted meanwhile: there is nothing left to compact
        except Exception as error:
            self._pauses.failed(session_id, time.monotonic())
            await self._tell(session_id, error)

    async def _tell(self, session_id: str, error: Exception) -> None:
        await tell(_log, self._runtime.settings.compaction.on_error, session_id, error)
