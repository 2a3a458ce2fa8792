"""What goes into a model call: history in the format of a provider, or the whole request with prompt and tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.checks import check_count
from frontdesk.context.frozen_prompt import FrozenPrompt, is_change_note, outdated_changes
from frontdesk.errors import InvalidInputError
from frontdesk.messages import Message, formats
from frontdesk.messages.exact_json import compact
from frontdesk.messages.formats import Notes, Rendering
from frontdesk.messages.formats.anthropic_writer import CACHED
from frontdesk.messages.formats.notes import system_text
from frontdesk.messages.tokens import MESSAGE_TOKENS, TokenCounter
from frontdesk.session.requests import ProviderFormat
from frontdesk.session.windows import WindowReader
from frontdesk.store import PromptRow
from frontdesk.tools import Tool

Request = dict[str, Any]


def check_rendering(notes: str, alternate: bool) -> None:
    """Raises `InvalidInputError` for notes that are neither "user" nor "system", or that cannot alternate."""
    if notes not in ("user", "system"):
        raise InvalidInputError(f'notes must be "user" or "system", not {notes!r}')
    if alternate and notes == "system":
        raise InvalidInputError('alternate=True allows no system messages in the middle: use notes="user" with it')


class Preparer:
    """Renders a view for a provider, together with the frozen prompt and what has changed since."""

    def __init__(self, window: WindowReader, prompt: FrozenPrompt, counter: TokenCounter) -> None:
        self._window = window
        self._prompt = prompt
        self._counter = counter

    async def render(
        self, messages: Sequence[Message], format: str, notes: Notes, alternate: bool
    ) -> list[dict[str, Any]]:
        """Messages in a format; see `Session.history`."""
        outdated = frozenset[str]()
        if any(map(is_change_note, messages)):
            outdated = outdated_changes(messages, await self._prompt.current())
        return formats.render(messages, format, Rendering(notes, alternate, outdated))

    async def prepare(
        self,
        format: ProviderFormat,
        tools: Sequence[Tool],
        *,
        max_tokens: int | None,
        cache: bool,
        notes: Notes,
        alternate: bool,
    ) -> Request:
        """The keyword arguments of the provider's call; see `Session.prepare`."""
        build = _BUILDERS.get(format) if isinstance(format, str) else None
        if build is None:
            raise InvalidInputError(f"unknown format {format!r}: choose one of {', '.join(_BUILDERS)}", format=format)
        check_count(max_tokens, "max_tokens")
        check_rendering(notes, alternate)
        frozen = await self._prompt.freeze(create=False)
        changes = await self._pending(frozen)
        reserved = frozen.tokens + self._count(tools, changes)
        messages = await self._window.read(None, None, max_tokens, shortens=True, reserved=reserved)
        outdated = outdated_changes(messages, frozen)
        stable = len(messages) if cache else None
        shown = [message.id for message in messages if is_change_note(message) and message.id not in outdated]
        if changes and shown[-1:] != [changes[0].id]:  # unless the last such message says the same
            messages = [*messages, *changes]
        return build(frozen.text, messages, tools, Rendering(notes, alternate, outdated, stable))

    async def _pending(self, frozen: PromptRow) -> list[Message]:
        """The message on what has changed since the prompt was frozen."""
        changes = await self._prompt.changes(frozen)
        return [] if changes is None else [Message(changes["id"], "system", changes["content"])]

    def _count(self, tools: Sequence[Tool], changes: Sequence[Message]) -> int:
        """The tokens of what is sent besides the prompt and the history."""
        definitions = sum(self._counter(compact(tool.to_openai())) for tool in tools)
        return definitions + sum(MESSAGE_TOKENS + self._counter(message.text) for message in changes)


def _for_openai(prompt: str, messages: list[Message], tools: Sequence[Tool], rendering: Rendering) -> Request:
    system = [Message(None, "system", prompt)] if prompt.strip() else []
    request: Request = {"messages": formats.render([*system, *messages], "openai", rendering)}
    return _with_tools(request, [tool.to_openai() for tool in tools])


def _for_responses(prompt: str, messages: list[Message], tools: Sequence[Tool], rendering: Rendering) -> Request:
    # Strict templates allow one system message, so all of it goes into the instructions.
    leading = formats.count_leading(messages) if rendering.alternate else 0
    instructions = _texts(prompt, messages[:leading], rendering)
    request: Request = {"input": formats.render(messages[leading:], "openai-responses", rendering)}
    if instructions:
        request["instructions"] = "\n\n".join(instructions)
    return _with_tools(request, [tool.to_openai_responses() for tool in tools])


def _for_anthropic(prompt: str, messages: list[Message], tools: Sequence[Tool], rendering: Rendering) -> Request:
    leading = formats.count_leading(messages)
    stable = None if rendering.stable is None else rendering.stable - leading
    rest = Rendering(rendering.notes, rendering.alternate, rendering.outdated, stable)
    request: Request = {"messages": formats.render(messages[leading:], "anthropic", rest)}
    system: list[dict[str, Any]] = [
        {"type": "text", "text": text} for text in _texts(prompt, messages[:leading], rendering)
    ]
    definitions = [tool.to_anthropic() for tool in tools]
    if rendering.stable is not None and (system or definitions):
        (system or definitions)[-1]["cache_control"] = dict(CACHED)  # the tools come first in what is cached
    if system:
        request["system"] = system
    return _with_tools(request, definitions)


def _texts(prompt: str, messages: Sequence[Message], rendering: Rendering) -> list[str]:
    return [text for text in (prompt, *(system_text(message, rendering) for message in messages)) if text.strip()]


def _with_tools(request: Request, definitions: list[dict[str, Any]]) -> Request:
    return {**request, "tools": definitions} if definitions else request


_BUILDERS = {"openai": _for_openai, "openai-responses": _for_responses, "anthropic": _for_anthropic}
