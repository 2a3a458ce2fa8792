"""All tools of a session: those of its context blocks, and those that other features add."""

from __future__ import annotations

from collections.abc import Callable

from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.context.skills import LoadedSkills
from frontdesk.context.tools import build_tools
from frontdesk.tools import Tool


class Toolbox:
    """Makes the tools for the blocks there are, and keeps them until the blocks change.

    `more` makes the tools that other features add."""

    def __init__(self, context: SessionBlocks, skills: LoadedSkills, more: Callable[[], list[Tool]]) -> None:
        self._context = context
        self._skills = skills
        self._more = more
        self._for_blocks: dict[str, Tool] | None = None

    def forget(self) -> None:
        """Make the tools again at the next call: the blocks have changed."""
        self._for_blocks = None

    async def tools(self) -> dict[str, Tool]:
        """The tools by name."""
        if self._for_blocks is None:
            self._for_blocks = await build_tools(self._context, self._skills)
        return {**self._for_blocks, **{tool.name: tool for tool in self._more()}}
