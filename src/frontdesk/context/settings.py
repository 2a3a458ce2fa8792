"""What a manager was told about context: the declared blocks, how they are rendered, and where prompts are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from frontdesk.context.blocks import ContextBlock, Declaration
from frontdesk.context.prompt import render_prompt
from frontdesk.context.providers import Maybe
from frontdesk.context.slots import Slots

Renderer = Callable[[Sequence[ContextBlock]], str]


class PromptStore(Protocol):
    """Keeps a text for each session of each namespace; `set(..., None)` forgets it. Methods may be sync or async.

    Workers agree on one prompt as far as this store makes what one wrote visible to the others."""

    def get(self, namespace: str, session_id: str) -> Maybe[str | None]: ...

    def set(self, namespace: str, session_id: str, text: str | None) -> Maybe[None]: ...


@dataclass
class ContextSettings:
    declarations: list[Declaration] = field(default_factory=list)
    renderer: Renderer = render_prompt
    caches_prompt: bool = False
    prompt_store: PromptStore | None = None
    slots: Slots = field(default_factory=Slots)
