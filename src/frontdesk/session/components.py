"""Connects the components behind `Session` and `Turn`. Each is created when it is first needed, so handles are
cheap."""

from __future__ import annotations

from functools import cached_property, partial

from frontdesk.context.frozen_prompt import FrozenPrompt
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.search.history_block import SearchableHistory
from frontdesk.session.attributes import Attributes
from frontdesk.session.background import BackgroundCompactor
from frontdesk.session.compacting import Compactor
from frontdesk.session.handle import Handle
from frontdesk.session.overlays import Overlays
from frontdesk.session.reading import Reader
from frontdesk.session.remembering import MemoryRefresher
from frontdesk.session.tools import Toolbox
from frontdesk.session.windows import WindowReader
from frontdesk.session.writing import Writer
from frontdesk.tools import Tool


class Components:
    """What one handle works with. The calls of the facades are written in the components; here they are connected."""

    def __init__(self, handle: Handle, outside: Components | None = None) -> None:
        self.handle = handle
        self._outside = outside or self
        """the components that work in the background uses: they outlive a turn"""

    def in_turn(self, session_id: str, fence: int) -> Components:
        """The components that write in a turn."""
        return Components(Handle(self.handle.runtime, session_id, fence), outside=self)

    @cached_property
    def context(self) -> SessionBlocks:
        if self._outside is not self:
            return self._outside.context  # blocks are guarded by their versions, not by the turn
        handle = self.handle
        search_history = partial(SearchableHistory, handle.runtime)
        return SessionBlocks(handle.runtime, handle.readable_id, handle.ensure, search_history)

    @cached_property
    def prompt(self) -> FrozenPrompt:
        if self._outside is not self:
            return self._outside.prompt
        return FrozenPrompt(self.handle.runtime, self.context)

    @cached_property
    def attributes(self) -> Attributes:
        return Attributes(self.handle)

    @cached_property
    def reader(self) -> Reader:
        return Reader(self.handle)

    @cached_property
    def window(self) -> WindowReader:
        return WindowReader(self.handle, self.context)

    @cached_property
    def memory(self) -> MemoryRefresher:
        return MemoryRefresher(self.handle, self.context)

    @cached_property
    def overlays(self) -> Overlays:
        return Overlays(self.handle, self.prompt)

    @cached_property
    def compactor(self) -> Compactor:
        return Compactor(self.handle, self.overlays, self.prompt, self.memory)

    @cached_property
    def background(self) -> BackgroundCompactor:
        return BackgroundCompactor(self.handle, self.prompt, self.memory, self.compactor)

    @cached_property
    def writer(self) -> Writer:
        return Writer(self.handle, self.context, self.prompt, self._outside.background)

    @cached_property
    def toolbox(self) -> Toolbox:
        return Toolbox(self.context, self.writer.skills, self._more_tools)

    def _more_tools(self) -> list[Tool]:
        return [self.overlays.expand_tool()] if self.handle.runtime.settings.compaction.is_set_up else []
