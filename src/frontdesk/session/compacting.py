"""The compactor of one session: it measures how full the view is, and runs one compaction (read the view, choose a
range, call the model, add the overlay)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from frontdesk.checks import check_json, check_list, check_text
from frontdesk.compaction import overlays
from frontdesk.compaction.failures import CompactionState, report_failure
from frontdesk.compaction.overlays import PathRange
from frontdesk.compaction.planner import MIN_TOKENS, Range, choose_range, opening_range, tool_runs
from frontdesk.compaction.summariser import Summariser, Summary, total_usage
from frontdesk.config.settings import CompactionSettings
from frontdesk.context.frozen_prompt import FrozenPrompt
from frontdesk.errors import (
    CompactionError,
    ContextOverflowError,
    InvalidInputError,
    InvalidRangeError,
    MessageNotFoundError,
    SessionNotFoundError,
)
from frontdesk.history import trees, views
from frontdesk.history.views import LoadedView
from frontdesk.lifecycle.leases import hold_lease
from frontdesk.lifecycle.transitions import COMPACTION_LEASE
from frontdesk.messages import SUMMARY_PREFIX, Message
from frontdesk.models.overflow import is_context_overflow
from frontdesk.models.windows import session_window
from frontdesk.records import CompactionResult, ContextUsage
from frontdesk.session.compaction_runs import CompactionRun, Figures, Trigger, report_run
from frontdesk.session.handle import Handle
from frontdesk.session.overlays import OverlayDraft, Overlays, RangeChangedError
from frontdesk.session.remembering import MemoryRefresher
from frontdesk.store import OverlayRow, SessionRow
from frontdesk.tree.tree import Tree

_log = logging.getLogger("frontdesk.compaction")
_TRIES = 5
_CHANGED = (RangeChangedError, MessageNotFoundError, InvalidRangeError)
"""the range is not there any more as it was read"""


class Opening(NamedTuple):
    """The summary that a session starts with which continues another one, and the first and the last message that it
    is about."""

    draft: OverlayDraft
    from_id: str
    to_id: str


class Extent(NamedTuple):
    """How much a compaction replaces: the messages that it covers, and the tokens that they, or the summaries in their
    place, have in the view; and how many items of the view it leaves, with how many tokens."""

    messages: int
    tokens: int
    kept: int
    kept_tokens: int

    @property
    def tokens_before(self) -> int:
        return self.tokens + self.kept_tokens


class Compactor:
    """Makes views shorter. Nothing here removes a message."""

    def __init__(self, handle: Handle, overlays: Overlays, prompt: FrozenPrompt, memory: MemoryRefresher) -> None:
        self._handle = handle
        self._runtime = handle.runtime
        self._overlays = overlays
        self._prompt = prompt
        self._memory = memory

    @property
    def _settings(self) -> CompactionSettings:
        return self._runtime.settings.compaction

    # how full the view is

    async def context_usage(self, tools: Sequence[Mapping[str, Any]] = ()) -> ContextUsage:
        """How much of the model's window the next call takes."""
        row = await self.known_row()
        limit = self.window(row)
        used = sum(self._runtime.settings.counter(check_json(tool, "a tool")) for tool in check_list(tools, "tools"))
        if row is not None:
            used += row.view_tokens + await self._prompt.tokens(row)
        return ContextUsage(used, limit, used / limit)

    async def needs_compaction(self) -> bool:
        """Whether the view and the prompt have reached the hard ratio of the window, or the view `max_messages`."""
        row = await self.known_row()
        return row is not None and self.is_full(row, row.view_tokens + await self._prompt.tokens(row))

    async def known_row(self) -> SessionRow | None:
        """The session's row with the totals of its view, which are computed if they are not known."""
        row = await self._handle.find_row()
        return None if row is None else await trees.complete_row(self._runtime, row)

    def is_full(self, row: SessionRow, used: int) -> bool:
        """Whether to compact a session whose view and prompt have this many tokens."""
        if self._settings.max_messages is not None and row.view_messages > self._settings.max_messages:
            return True
        return used >= self._settings.hard_ratio * self.window(row)

    def window(self, row: SessionRow | None) -> int:
        """How many tokens the model takes."""
        return session_window(row, self._settings.max_tokens)

    # one compaction

    async def compact(
        self, instructions: str | None = None, prompt: str | None = None, *, trigger: Trigger = "manual"
    ) -> CompactionResult | None:
        """Compact the view now, or wait for a compaction that is already running. None if there is too little to
        gain."""
        for what, text in (("instructions", instructions), ("prompt", prompt)):
            if text is not None:
                check_text(text, what)
        summariser = Summariser(self._settings, self._runtime.settings.counter, instructions, prompt)
        return await self._compact(summariser, trigger, self._choose)

    async def remake(self) -> CompactionResult | None:
        """Make a summary again that is hidden because messages were deleted from its range. None if there is none."""
        tree = await self._handle.tree()
        if not self._settings.can_summarise or tree is None:
            return None
        if not any(overlay.is_cut for _, _, overlay in tree.outermost(tree.path(tree.session.head))):
            return None
        summariser = Summariser(self._settings, self._runtime.settings.counter)
        return await self._compact(summariser, "deletion", _cut_range)

    async def on_overflow(self, error: BaseException) -> bool:
        """Compact harder if the error means that the context was too long. Returns whether to try the call again."""
        if not isinstance(error, BaseException):
            raise InvalidInputError(f"the error of a model call must be an exception, not {type(error).__name__}")
        session_id = await self._handle.readable_id()
        is_too_long = isinstance(error, ContextOverflowError) or is_context_overflow(error)
        if session_id is None or not is_too_long:
            return False
        try:
            summariser = Summariser(self._settings, self._runtime.settings.counter)
            return await self._compact(summariser, "overflow", self._choose_harder) is not None
        except Exception as failure:
            await self.report(session_id, failure)
            return False

    async def report(self, session_id: str, error: Exception) -> None:
        """Report a failure that no caller sees."""
        await report_failure(_log, self._settings.on_error, "compaction", session_id, error)

    def _choose(self, view: LoadedView) -> Range | None:
        """What to compact: a range of the view, or else a summary that is not true any more."""
        chosen = choose_range(self._settings, view.messages, self.window(view.tree.session))
        return _stale_range(view) if chosen is None and self._settings.can_summarise else chosen

    def _choose_harder(self, view: LoadedView) -> Range | None:
        return choose_range(self._settings, view.messages, self.window(view.tree.session), harder=True)

    async def _compact(
        self, summariser: Summariser, trigger: Trigger, choose: Callable[[LoadedView], Range | None]
    ) -> CompactionResult | None:
        before = await self._handle.find_row()
        if before is None:
            return None
        lease = hold_lease(self._runtime, before.id, COMPACTION_LEASE)
        async with lease, report_run(self._runtime, before.id, trigger, summariser) as run:
            for _ in range(_TRIES):
                view = await views.load_view(self._runtime, before.id, cut=True)
                if view is None:
                    raise SessionNotFoundError(self._handle.name, self._runtime.namespace)
                if (joined := _compacted_since(view.tree, before.revision)) is not None:
                    made = await overlays.to_compactions(self._runtime, view.tree, [joined])
                    return CompactionResult.of(made[0]) if made else None
                part = choose(view)
                if part is None:
                    return None
                self._memory.start(before.id)
                try:
                    result = await self._replace(view, part, summariser, run)
                except _CHANGED:
                    continue
                kind = "truncate" if result.summary is None else "summary"
                await run.finish(_figures(result.to_dict()), id=result.id, kind=kind)
                return result
            raise CompactionError(
                f"the range changed {_TRIES} times while it was being summarised, and no summary was stored:"
                " try again later"
            )

    async def _replace(
        self, view: LoadedView, part: Range, summariser: Summariser, run: CompactionRun
    ) -> CompactionResult:
        """Replace a part of the view by a summary, or hide (some of) it, as the strategy says."""
        started = time.monotonic()
        if self._settings.strategy == "truncate":
            return await self._hide(view, [part], started, run)
        covered = await overlays.range_in_view(self._runtime, view, part)
        source = await overlays.read_source(self._runtime, view, part, covered)
        if not source:
            raise RangeChangedError
        pauses, session_id = self._runtime.shared(CompactionState).pauses, view.tree.session.id
        shown = _messages(view, part)
        extent = _extent(view, [part], [covered], source)
        await run.start(extent.tokens_before, extent.messages)
        # A summary that is made again may cover hardly more than a summary has.
        least = 0 if _stale_range(view, part) is None else 2 * MIN_TOKENS
        try:
            summary = await self._summarise(summariser, source, max(extent.tokens, least))
        except Exception as error:
            runs = [Range(part.first + run.first, part.first + run.last) for run in tool_runs(shown)]
            if self._settings.strategy != "hybrid" or not runs:
                raise
            pauses.failed(session_id, time.monotonic())
            await self.report(session_id, error)
            return await self._hide(view, runs, started, run)
        made_by = {"trigger": run.trigger, "model": run.model, "usage": total_usage(summariser.answers)}
        details = _details(extent, started, summary) | made_by | self._fullness(view)
        draft = OverlayDraft(summary.text, source, details)
        result = CompactionResult.of(await self._overlays.lay(draft, shown[0].id, shown[-1].id, covered))
        pauses.succeeded(session_id)
        return result

    def _fullness(self, view: LoadedView) -> dict[str, float]:
        """How full the window was when the view was read: why an automatic compaction ran."""
        row = view.tree.session
        used = _tokens(view.messages) + self._prompt.known_tokens(row)
        return {"ratio": round(used / self.window(row), 4)}

    async def _hide(
        self, view: LoadedView, parts: Sequence[Range], started: float, run: CompactionRun
    ) -> CompactionResult:
        """Hide parts of the view; the result is about all of them, with the id and the ends of the first."""
        ranges = [await overlays.range_in_view(self._runtime, view, part) for part in parts]
        extent = _extent(view, parts, ranges)
        await run.start(extent.tokens_before, extent.messages)
        made_by = {"trigger": run.trigger, "model": None}
        draft = OverlayDraft(None, details=_details(extent, started) | made_by | self._fullness(view))
        hidden = []
        for part, covered in zip(parts, ranges, strict=True):
            shown = _messages(view, part)
            hidden.append(await self._overlays.lay(draft, shown[0].id, shown[-1].id, covered))
        return CompactionResult.of(hidden[0])

    async def _summarise(self, summariser: Summariser, source: Sequence[Message], before: int) -> Summary:
        try:
            return await summariser.summarise(source, before)
        finally:
            await self._memory.record_usage(summariser.answers)

    # continuing in another session

    async def opening(self, summary: str | None) -> Opening | None:
        """What a session that continues this one starts with: the given summary of all that was said up to now, or else
        one that the model writes, of all but a request that it has not answered. None if there is nothing to
        summarise."""
        if summary is None:
            draft = await self._summarise_opening()
            return None if draft is None else Opening(draft, draft.source[0].id, draft.source[-1].id)
        tree = await self._handle.tree()
        covered = None if tree is None else await overlays.range_of_path(self._runtime, tree)
        return None if covered is None else Opening(OverlayDraft(summary), covered.from_id, covered.to_id)

    async def _summarise_opening(self) -> OverlayDraft | None:
        """A summary of the view, without a request that has no finished answer yet. None if there is nothing to
        summarise, or nothing but a summary, which the other session inherits."""
        session_id = await self._handle.readable_id()
        view = None if session_id is None else await views.load_view(self._runtime, session_id, cut=True)
        if view is None:
            return None
        part = opening_range(self._settings, view.messages, self.window(view.tree.session))
        if part is None:
            return None
        covered = await overlays.range_in_view(self._runtime, view, part)
        source = await overlays.read_source(self._runtime, view, part, covered)
        if not source or (len(source) == 1 and source[0].is_summary):
            return None
        extent = _extent(view, [part], [covered], source)
        summariser = Summariser(self._settings, self._runtime.settings.counter)
        async with report_run(self._runtime, view.tree.session.id, "split", summariser) as run:
            await run.start(extent.tokens_before, extent.messages)
            started = time.monotonic()
            # Even a text hardly longer than a summary gets one, because the new session starts with it.
            summary = await self._summarise(summariser, source, max(extent.tokens, 2 * MIN_TOKENS))
            await run.finish(_figures(_details(extent, started, summary)))
        return OverlayDraft(summary.text, source)

    async def open_with(self, opening: Opening | None) -> None:
        """Show a summary in place of what it was made from, if all of that is still there."""
        self._memory.start(self._handle.id)
        if opening is not None:
            try:
                await self._overlays.lay(*opening)
            except _CHANGED:
                pass  # changed meanwhile: no summary is better than one of something else


def _compacted_since(tree: Tree, revision: int) -> OverlayRow | None:
    """The newest overlay that a compactor made (it has details) after the session was at a revision."""
    for overlay in tree.overlays:
        if overlay.tree == tree.session.tree and overlay.revision > revision and overlay.details != "{}":
            return overlay
    return None


def _stale_range(view: LoadedView, within: Range | None = None) -> Range | None:
    """The first summary of a view (or of a part of it) that was not made from what it covers now."""
    stale = {SUMMARY_PREFIX + overlay.id for overlay in view.tree.overlays if overlay.stale}
    return _first_summary(view, stale, within)


def _cut_range(view: LoadedView) -> Range | None:
    """The first summary of a view that is hidden."""
    return _first_summary(view, {SUMMARY_PREFIX + overlay.id for overlay in view.tree.overlays if overlay.is_cut})


def _first_summary(view: LoadedView, among: Collection[str], within: Range | None = None) -> Range | None:
    first, last = within or Range(0, len(view.messages) - 1)
    found = (index for index in range(first, last + 1) if view.messages[index].id in among)
    return next((Range(index, index) for index in found), None)


def _messages(view: LoadedView, part: Range) -> list[Message]:
    return view.messages[part.first : part.last + 1]


def _extent(
    view: LoadedView, parts: Sequence[Range], ranges: Sequence[PathRange], source: Sequence[Message] = ()
) -> Extent:
    """The extent of a compaction of some parts of a view, which mean these ranges."""
    shown = [message for part in parts for message in _messages(view, part)]
    tokens = _tokens(shown)
    if any(_stale_range(view, part) for part in parts):
        # A summary that is made again is shown with other tokens than its messages have, or is hidden.
        tokens = max(tokens, _tokens(source))
    messages = sum(covered.length for covered in ranges)
    return Extent(messages, tokens, len(view.messages) - len(shown), _tokens(view.messages) - _tokens(shown))


def _tokens(messages: Sequence[Message]) -> int:
    return sum(message.tokens for message in messages)


def _details(extent: Extent, started: float, summary: Summary | None = None) -> dict[str, Any]:
    """What is kept of how parts of a view were compacted."""
    return {
        "messages_covered": extent.messages,
        "messages_kept": extent.kept,
        "tokens_before": extent.tokens_before,
        "tokens_after": extent.kept_tokens + (0 if summary is None else summary.tokens),
        "duration": time.monotonic() - started,
        "attempts": 0 if summary is None else summary.attempts,
        "usage": {},
    }


def _figures(details: Mapping[str, Any]) -> Figures:
    return Figures(*(details[name] for name in Figures._fields))
