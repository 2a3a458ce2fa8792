"""What a manager was told about context: the declared blocks, how they are rendered, and where prompts are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from frontdesk.calls import call
from frontdesk.context.blocks import ContextBlock, Declaration
from frontdesk.context.prompt import render_prompt
from frontdesk.context.providers import Maybe
from frontdesk.scope import Scope
from frontdesk.store import PromptRow

Renderer = Callable[[Sequence[ContextBlock]], str]


class PromptStore(Protocol):
    """Keeps a text for each session; `set(session_id, None)` forgets it. Methods may be sync or async."""

    def get(self, session_id: str) -> Maybe[str | None]: ...

    def set(self, session_id: str, text: str | None) -> Maybe[None]: ...


@dataclass
class ContextSettings:
    declarations: list[Declaration] = field(default_factory=list)
    renderer: Renderer = render_prompt
    caches_prompt: bool = False
    prompt_store: PromptStore | None = None


class Prompts:
    """The frozen prompt of one session, wherever it is kept: the store, a store of the user's, or this handle."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._settings = scope.settings(ContextSettings)
        self._own: PromptRow | None = None

    async def get(self, session_id: str) -> PromptRow | None:
        if self._settings.prompt_store is not None:
            text = await call(self._settings.prompt_store.get, session_id)
            return None if text is None else msgspec.json.decode(text, type=PromptRow)
        if self._settings.caches_prompt:
            return await self._scope.store.get_prompt(self._scope.namespace, session_id)
        return self._own

    async def put(self, session_id: str, prompt: PromptRow, replaces: int | None) -> PromptRow:
        """Store a prompt in place of the one with the number `replaces`; gives the one that there is then."""
        if self._settings.prompt_store is None and self._settings.caches_prompt:
            return await self._scope.store.put_prompt(self._scope.namespace, session_id, prompt, replaces)
        prompt = msgspec.structs.replace(prompt, number=(replaces or 0) + 1)
        if self._settings.prompt_store is None:
            self._own = prompt
        else:
            await call(self._settings.prompt_store.set, session_id, msgspec.json.encode(prompt).decode())
        return prompt

    async def forget(self, session_id: str) -> None:
        """Forget a prompt that the store does not keep (in the store it goes with the change that outdates it)."""
        self._own = None
        if self._settings.prompt_store is not None:
            await call(self._settings.prompt_store.set, session_id, None)
