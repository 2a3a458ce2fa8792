"""The view that a model gets: all of it, or as much of its end as fits, with older tool outputs shortened."""

from __future__ import annotations

import sys

from frontdesk.compaction.shorten import shorten
from frontdesk.errors import ContextOverflowError, MessageNotFoundError
from frontdesk.history import views, windows
from frontdesk.history.fitting import Shortening
from frontdesk.messages import Message, check_id
from frontdesk.session.handle import Handle

_TOOL_CHARS, _TEXT_CHARS = 500, 10_000


class WindowReader:
    """Reads views, and windows of them."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._runtime = handle.runtime

    async def read(
        self, leaf: str | None, last: int | None, max_tokens: int | None, *, shortens: bool, reserved: int = 0
    ) -> list[Message]:
        """The view at the head, or at `leaf`; of its last messages only; and only as much as fits `max_tokens` together
        with what is `reserved` for other parts of a request, with tool outputs shortened (if it `shortens`).

        Raises `MessageNotFoundError`, and `ContextOverflowError` if the current turn does not fit."""
        session_id = await self._handle.readable_id()
        if session_id is None:
            if leaf is not None:
                raise MessageNotFoundError(check_id(leaf, "message id"), self._handle.name)
            if max_tokens is not None and reserved > max_tokens:
                raise ContextOverflowError(reserved, max_tokens, self._handle.name)
            return []
        if max_tokens is None:
            return await views.read_view(self._runtime, session_id, leaf, last)
        by = Shortening(self._shorten, self._shorten_outputs) if shortens else Shortening(_unchanged, _unchanged)
        return await windows.read_window(self._runtime, session_id, leaf, last, max_tokens, by, reserved)

    def _shorten(self, message: Message) -> Message:
        return shorten(message, _TOOL_CHARS, _TEXT_CHARS, self._runtime.settings.counter)

    def _shorten_outputs(self, message: Message) -> Message:
        if not message.tool_result_ids:
            return message
        return shorten(message, _TOOL_CHARS, sys.maxsize, self._runtime.settings.counter)


def _unchanged(message: Message) -> Message:
    return message
