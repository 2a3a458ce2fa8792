"""The view that a model gets: all of it, or as much of its end as fits, with older tool outputs shortened."""

from __future__ import annotations

from frontdesk.compaction.shorten import shorten
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.errors import SessionNotFoundError
from frontdesk.history import views, windows
from frontdesk.messages import Message
from frontdesk.session.handle import Handle
from frontdesk.store.changes import RESERVED_PREFIX

_MARK = RESERVED_PREFIX + "shortened"
"""the document that says up to which message tool outputs are shortened"""
_TOOL_CHARS, _TEXT_CHARS = 500, 10_000


class WindowReader:
    """Reads views, and windows of them."""

    def __init__(self, handle: Handle, blocks: SessionBlocks) -> None:
        self._handle = handle
        self._runtime = handle.runtime
        self._blocks = blocks

    async def read(
        self, leaf: str | None, last: int | None, max_tokens: int | None, *, shortens: bool
    ) -> list[Message]:
        """The view at the head, or at `leaf`; of its last messages only; and only as much as fits `max_tokens`.

        When not all of it fits, the tool outputs of all turns but the last are shortened (if it `shortens`), and stay
        so: up to which message is remembered, so that what a provider has cached of the view stays the same from call
        to call. Raises `MessageNotFoundError`, and `ContextOverflowError` if the last turn does not fit."""
        session_id = await self._handle.readable_id()
        if session_id is None:
            return []
        if max_tokens is None:
            return await views.read_view(self._runtime, session_id, leaf, last)

        async def fit(until: str | None) -> windows.Window:
            return await windows.read_window(self._runtime, session_id, leaf, last, max_tokens, self._shorten, until)

        row = await self._blocks.document(_MARK) if shortens else None
        fitted = await fit(None if row is None else row.content)
        mark = fitted.before_turn
        if fitted.is_whole or not shortens or mark is None or (row is not None and row.content == mark):
            return fitted.messages
        if leaf is None:  # reading another branch must not move what the conversation itself has cached
            await self._store_mark(mark, 1 if row is None else row.version + 1)
        return (await fit(mark)).messages

    def _shorten(self, message: Message) -> Message:
        return shorten(message, _TOOL_CHARS, _TEXT_CHARS, self._runtime.settings.counter)

    async def _store_mark(self, mark: str, version: int) -> None:
        try:
            await self._blocks.put_document(_MARK, mark, version)
        except SessionNotFoundError:
            pass  # deleted meanwhile: what was read is still a view of it
