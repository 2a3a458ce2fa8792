"""Connects the components behind `Session` and `Turn`. Each is created when it is first needed, so handles are
cheap."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from frontdesk.context.frozen_prompt import FrozenPrompt
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.search.scopes import OwnSession
from frontdesk.search.tools import SearchableHistory
from frontdesk.session.attributes import Attributes
from frontdesk.session.background import BackgroundCompactor
from frontdesk.session.breakdowns import Examiner
from frontdesk.session.compacting import Compactor
from frontdesk.session.forgetting import Forgetter
from frontdesk.session.handle import Handle
from frontdesk.session.outlining import Outliner
from frontdesk.session.overlays import Overlays
from frontdesk.session.paging import Pager
from frontdesk.session.preparing import Preparer
from frontdesk.session.quoting import Quoter
from frontdesk.session.reading import Reader
from frontdesk.session.remembering import MemoryRefresher
from frontdesk.session.removing import Remover
from frontdesk.session.replacing import Replacer
from frontdesk.session.timelines import TimelineReader
from frontdesk.session.tools import Toolbox
from frontdesk.session.windows import WindowReader
from frontdesk.session.writing import Writer
from frontdesk.store import SessionRow
from frontdesk.tools import Tool

C = TypeVar("C")


class _component(Generic[C]):
    """An attribute that is made when it is first read, and kept. `functools.cached_property` takes a lock for that in
    Python 3.11, which would slow down an append on a new handle."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Components], C]) -> None:
        self._make = make

    def __get__(self, components: Components, owner: type[Components]) -> C:
        made: C = components.__dict__.setdefault(self._make.__name__, self._make(components))
        return made


class Components:
    """What one handle works with. The calls of the facades are written in the components; here they are connected."""

    def __init__(self, handle: Handle, outside: Components | None = None) -> None:
        self.handle = handle
        self._outside = outside or self
        """the components that work in the background uses: they outlive a turn"""

    def in_turn(self, session_id: str, fence: int) -> Components:
        """The components that write in a turn."""
        handle = Handle(self.handle.runtime, session_id, fence, self.handle.known_key)
        return Components(handle, outside=self)

    def continued(self, known_id: str | None, turn: int | None) -> Components:
        """The components for the next call of a caller in another process: its key was resolved to the session
        `known_id` before, and it may hold a turn."""
        known = self.handle
        handle = Handle(known.runtime, known.key or known.id, stored_key=known.known_key, known_id=known_id)
        parts = Components(handle)
        return parts if turn is None else parts.in_turn(handle.id, turn)

    def following(self, session_id: str) -> Components:
        """The components for the session that follows this one, with the blocks that were declared for this handle."""
        after = Components(Handle(self.handle.runtime, session_id, stored_key=self.handle.known_key))
        after.__dict__["context"] = self.context.in_turn(after.handle)
        return after

    @_component
    def own(self) -> OwnSession:
        return OwnSession(self.handle.runtime, self.handle)

    @_component
    def context(self) -> SessionBlocks:
        if self._outside is not self:
            return self._outside.context.in_turn(self.handle)
        search_history = partial(SearchableHistory, self.handle.runtime, self.own)
        return SessionBlocks(self.handle.runtime, self.handle, search_history)

    @_component
    def prompt(self) -> FrozenPrompt:
        if self._outside is not self:
            return self._outside.prompt.in_turn(self.context)
        return FrozenPrompt(self.handle.runtime, self.context)

    @_component
    def attributes(self) -> Attributes:
        return Attributes(self.handle)

    @_component
    def reader(self) -> Reader:
        return Reader(self.handle)

    @_component
    def window(self) -> WindowReader:
        return WindowReader(self.handle)

    @_component
    def pager(self) -> Pager:
        return Pager(self.handle, self.window)

    @_component
    def outliner(self) -> Outliner:
        return Outliner(self.handle)

    @_component
    def timelines(self) -> TimelineReader:
        return TimelineReader(self.handle)

    @_component
    def examiner(self) -> Examiner:
        async def tools() -> list[Tool]:
            return [*(await self.toolbox.tools("guest")).values()]

        return Examiner(self.handle, self.context, self.prompt, tools)

    @_component
    def preparer(self) -> Preparer:
        return Preparer(self.window, self.prompt, self.handle.runtime.settings.counter)

    @_component
    def memory(self) -> MemoryRefresher:
        return MemoryRefresher(self.handle, self.context, self.prompt, self.forgetter)

    @_component
    def overlays(self) -> Overlays:
        return Overlays(self.handle, self.prompt)

    @_component
    def compactor(self) -> Compactor:
        return Compactor(self.handle, self.overlays, self.prompt, self.memory)

    @_component
    def background(self) -> BackgroundCompactor:
        return BackgroundCompactor(self.handle, self.prompt, self.memory, self.compactor)

    @_component
    def writer(self) -> Writer:
        return Writer(self.handle, self.context, self._outside.after_append)

    @_component
    def quoter(self) -> Quoter:
        return Quoter(self.handle, self.context)

    @_component
    def forgetter(self) -> Forgetter:
        return Forgetter(self.handle, self.prompt)

    @_component
    def replacer(self) -> Replacer:
        return Replacer(self.handle, self.writer, self.forgetter)

    @_component
    def remover(self) -> Remover:
        return Remover(self.handle, self.prompt, self.forgetter, self._outside.after_cut)

    def after_append(self, row: SessionRow, added: int) -> None:
        """Start what an append of `added` tokens made necessary."""
        settings = self.handle.runtime.settings
        if settings.memory.is_on or settings.compaction.is_automatic:
            self.background.after_append(row, added)

    def after_cut(self) -> None:
        """Start to make a summary again under which messages were deleted."""
        settings = self.handle.runtime.settings.compaction
        if settings.is_automatic and settings.can_summarise:
            self.background.after_cut()

    @_component
    def toolbox(self) -> Toolbox:
        return Toolbox(self.handle.runtime, self.own, self.context, self.writer.skills, self._more_tools)

    async def _more_tools(self) -> list[Tool]:
        """`expand_summary`, if the view may have a summary: one that is made, or one that was added by hand."""
        if not self.handle.runtime.settings.compaction.is_set_up:
            row = await self.handle.find_row()
            if row is None or not row.compaction_count:
                return []
        return [self.overlays.expand_tool()]
