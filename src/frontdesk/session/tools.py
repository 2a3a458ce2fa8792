"""All tools of a session: those of its context blocks, those that search earlier conversations, and those that other
features add."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from frontdesk.config.runtime import Runtime
from frontdesk.config.scopes import SearchScope, check_scope
from frontdesk.config.settings import ANSWER_TOKENS
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.context.skills import LoadedSkills
from frontdesk.context.tools import build_tools
from frontdesk.search.scopes import OwnSession, ScopedHistory
from frontdesk.search.tools import OF_SESSION, history_tools
from frontdesk.tools import Tool


class Toolbox:
    """Makes the tools for the blocks there are, and keeps them until the blocks change.

    `more` makes the tools that other features add."""

    def __init__(
        self,
        runtime: Runtime,
        own: OwnSession,
        context: SessionBlocks,
        skills: LoadedSkills,
        more: Callable[[], Awaitable[list[Tool]]],
    ) -> None:
        self._runtime = runtime
        self._own = own
        self._is_bound = False
        self._context = context
        self._skills = skills
        self._more = more
        self._for_blocks: dict[str, Tool] | None = None

    def forget(self) -> None:
        """Make the tools again at the next call: the blocks have changed."""
        self._for_blocks = None

    async def tools(self, scope: SearchScope | None) -> dict[str, Tool]:
        """The tools by name, with those that search the conversations in a scope (None: without them)."""
        searching = {} if scope is None else await self._history_tools(check_scope(scope))
        if self._for_blocks is None:
            self._for_blocks = await build_tools(self._context, self._skills)
        return {**self._for_blocks, **{tool.name: tool for tool in await self._more()}, **searching}

    async def _history_tools(self, scope: SearchScope) -> dict[str, Tool]:
        if not self._is_bound:
            # The tools are for the session as it is now, whatever its id may mean when they are called.
            await self._own.row()
            self._is_bound = True
        return history_tools(ScopedHistory(self._runtime, scope, self._own), OF_SESSION, ANSWER_TOKENS)
