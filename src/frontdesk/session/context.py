"""The part of `Session` that deals with context blocks, the frozen prompt and the tools a model gets."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from frontdesk.config.settings import Declaration
from frontdesk.context.blocks import BlockVersion, ContextBlock
from frontdesk.context.frozen_prompt import FrozenPrompt
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.context.skills import LoadedSkills, may_hold_skill
from frontdesk.context.toolset import build_tools
from frontdesk.errors import FrontdeskError
from frontdesk.messages import StoredMessage
from frontdesk.session.handle import Handle
from frontdesk.tools import Tool

_log = logging.getLogger("frontdesk.context")


class ContextCalls(Handle):
    """What a session can do with its blocks. Writing one, and freezing the prompt, makes the session."""

    _working: SessionBlocks | None = None
    _frozen: FrozenPrompt | None = None
    _tools: dict[str, Tool] | None = None

    @property
    def _context(self) -> SessionBlocks:
        if self._working is None:
            self._working = SessionBlocks(self._runtime, self._readable_id, self._ensure)
        return self._working

    @property
    def _prompt(self) -> FrozenPrompt:
        if self._frozen is None:
            self._frozen = FrozenPrompt(self._runtime, self._context)
        return self._frozen

    @property
    def _skills(self) -> LoadedSkills:
        return LoadedSkills(self._context, self._rewrite_message)

    @abstractmethod
    async def _rewrite_message(self, message_id: str, change: Callable[[Any], Any]) -> None:
        """Change the content of a stored message."""

    async def _notice_skills(self, messages: Sequence[StoredMessage]) -> None:
        """After an append: remember in which messages loaded skills stand."""
        if may_hold_skill(messages):
            try:
                await self._skills.record_results(messages)
            except FrontdeskError as error:
                _log.warning("a loaded skill was not noticed: %s", type(error).__name__)

    # blocks

    def add_context(
        self,
        label: str,
        *,
        description: str | None = None,
        default_content: str = "",
        max_tokens: int | None = None,
        readonly: bool = False,
        shared: bool = False,
        provider: Any = None,
    ) -> None:
        """Declare one more block, for this handle. `ConfigurationError` if there is one with this label."""
        self._context.add(Declaration(label, description, default_content, max_tokens, readonly, shared, provider))
        self._tools = None

    def remove_context(self, label: str) -> bool:
        """Take a block out of this handle's prompt and tools; its value stays stored. False if there was none."""
        self._tools = None
        return self._context.remove(label)

    async def context_blocks(self) -> list[ContextBlock]:
        """All blocks, in the order of their declaration, with what they hold now."""
        return await self._context.blocks()

    async def context_block(self, label: str) -> ContextBlock:
        """One block. Raises `BlockNotFoundError`."""
        return await self._context.block(label)

    async def replace_context_block(
        self, label: str, text: str, *, if_version: int | None = None, author: str | None = None
    ) -> ContextBlock:
        """Give a block a new content; the earlier one is kept in its history, and the frozen prompt stays as it is.

        Raises `BlockNotFoundError`, `ReadonlyBlockError`, `BlockTooLargeError`, and `BlockVersionError` if the block
        has another version than `if_version`."""
        return await self._context.replace(label, text, if_version, author)

    async def append_context_block(self, label: str, text: str, *, author: str | None = None) -> ContextBlock:
        """Add a line at the end of a block; nobody's write is lost. Raises as `replace_context_block` does."""
        return await self._context.append(label, text, author)

    async def block_history(self, label: str) -> list[BlockVersion]:
        """Every value that a block in the store had, newest first."""
        return await self._context.versions(label)

    async def restore_context_block(self, label: str, version: int, *, author: str | None = None) -> ContextBlock:
        """Write an earlier value again, as a new version. Raises `BlockNotFoundError` for a version there is not."""
        return await self._context.restore(label, version, author)

    # prompt

    async def set_system_prompt(self, text: str) -> None:
        """Set a readonly block `system` of this session that is shown first; the next freeze renders it."""
        await self._prompt.forget(await self._context.set_system_prompt(text, None))

    async def freeze_system_prompt(self) -> str:
        """The system prompt, rendered once and then kept the same until `refresh_system_prompt`, `clear_messages`,
        a compaction, or a change of the declared blocks. Agreed upon by all workers with `with_cached_prompt`."""
        return await self._prompt.freeze()

    async def refresh_system_prompt(self) -> str:
        """Render the prompt anew from what the blocks hold now, and freeze that."""
        return await self._prompt.refresh()

    async def context_changes(self) -> dict[str, Any] | None:
        """A message that tells what changed since the freeze, to be appended at the tail; None if nothing did.

        The prefix that the provider has cached stays as it is. Appending the same change twice is a no-op."""
        return await self._prompt.changes()

    async def tools(self) -> dict[str, Tool]:
        """The tools for the blocks there are, by name. No I/O after first use."""
        if self._tools is None:
            self._tools = await build_tools(self._context, self._skills)
        return dict(self._tools)
