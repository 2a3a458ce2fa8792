"""The frozen prompt of a session: rendered once, agreed upon by all workers, and what changed since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import ContextSettings, Renderer
from frontdesk.context.blocks import ContextBlock, digest, fingerprint
from frontdesk.context.prompt import render_prompt
from frontdesk.context.working import WorkingContext
from frontdesk.store import PromptRow, SessionRow

CHANGES_PREFIX = "context-changes:"


class FrozenPrompt:
    """The prompt of one session handle, wherever it is kept: the store, a store of the user's, or this handle."""

    def __init__(self, runtime: Runtime, context: WorkingContext) -> None:
        self._runtime = runtime
        self._context = context
        self._own: PromptRow | None = None
        self._known_tokens = 0

    @property
    def _settings(self) -> ContextSettings:
        return self._runtime.settings.context

    @property
    def _renderer(self) -> Renderer:
        return self._settings.renderer or render_prompt

    async def freeze(self) -> str:
        """The frozen prompt; rendered and stored if there is none, or if the declarations changed since."""
        mark = await self._fingerprint()
        frozen = await self._get()
        if frozen is None or frozen.fingerprint != mark:
            owner = await self._context.make_owner()
            while frozen is None or frozen.fingerprint != mark:
                frozen = await self._put(owner, await self._render(mark), frozen)
        return self._known(frozen)

    async def refresh(self) -> str:
        """Render the prompt anew from what the blocks hold now, and freeze that."""
        mark = await self._fingerprint()
        owner = await self._context.make_owner()
        while True:
            frozen = await self._get()
            rendered = await self._render(mark)
            stored = await self._put(owner, rendered, frozen)
            if stored.number == _next(frozen) and stored.text == rendered.text:
                return self._known(stored)

    async def forget(self, session_id: str) -> None:
        """Forget a prompt that the store does not keep (in the store it goes with the change that outdates it)."""
        self._own = None
        if self._settings.prompt_store is not None:
            await call(self._settings.prompt_store.set, self._runtime.namespace, session_id, None)

    async def copy_to(self, session_id: str) -> None:
        """Give a fork the prompt of its source, where the store did not do that."""
        if self._settings.prompt_store is not None and (frozen := await self._get()) is not None:
            await self._put(session_id, frozen, None)

    async def tokens(self, row: SessionRow) -> int:
        """The tokens of the frozen prompt; nothing is rendered for it, and only a store of the user's is asked."""
        if not self._is_with_session:
            frozen = await self._get()
            self._known_tokens = 0 if frozen is None else frozen.tokens
        return self.known_tokens(row)

    def known_tokens(self, row: SessionRow) -> int:
        """The tokens of the prompt as the session's row says, or, kept elsewhere, when this handle last saw it."""
        return row.prompt_tokens if self._is_with_session else self._known_tokens

    @property
    def _is_with_session(self) -> bool:
        return self._settings.caches_prompt and self._settings.prompt_store is None

    def _known(self, frozen: PromptRow) -> str:
        self._known_tokens = frozen.tokens
        return frozen.text

    async def changes(self) -> dict[str, Any] | None:
        """What the blocks hold now and the frozen prompt does not, as a message to append; None if nothing changed.

        A block that was written since counts as changed, whatever it holds: the model may have been told another value
        in between. The id says what is told, so that appending it again is a no-op."""
        frozen = await self._get()
        if frozen is None or not frozen.fingerprint:
            return None
        before: dict[str, list[Any]] = msgspec.json.decode(frozen.blocks)
        blocks = await self._context.blocks()
        changed = [block for block in blocks if before.get(block.label) != _state(block)]
        gone = [label for label in before if label not in {block.label for block in blocks}]
        if not changed and not gone:
            return None
        told = ["These parts of the context have changed; what follows replaces them."] if changed else []
        told += [self._renderer(changed)] if changed else []
        told += [f"No longer part of the context: {', '.join(gone)}."] if gone else []
        state = msgspec.json.encode([frozen.number, [_state(block) for block in changed], gone])
        return {"id": CHANGES_PREFIX + digest(state), "role": "system", "content": "\n\n".join(told)}

    async def _fingerprint(self) -> str:
        declared = [(slot.declaration, slot.kind) for slot in await self._context.slots()]
        return fingerprint(declared, getattr(self._renderer, "__qualname__", ""))

    async def _render(self, mark: str) -> PromptRow:
        blocks = await self._context.blocks()
        text = self._renderer(blocks)
        return PromptRow(
            number=0,
            text=text,
            tokens=self._context.count(text),
            fingerprint=mark,
            blocks=_states(blocks),
            created_at=self._runtime.now(),
        )

    async def _get(self) -> PromptRow | None:
        session_id = await self._context.find_owner()
        if session_id is None or not self._settings.caches_prompt:
            return self._own
        if self._settings.prompt_store is None:
            return await self._runtime.store.get_prompt(self._runtime.namespace, session_id)
        text = await call(self._settings.prompt_store.get, self._runtime.namespace, session_id)
        return None if text is None else msgspec.json.decode(text, type=PromptRow)

    async def _put(self, session_id: str, prompt: PromptRow, replaced: PromptRow | None) -> PromptRow:
        """Store a prompt in place of one that was seen; gives the one that there is then."""
        if self._is_with_session:
            number = None if replaced is None else replaced.number
            return await self._runtime.store.put_prompt(self._runtime.namespace, session_id, prompt, number)
        prompt = msgspec.structs.replace(prompt, number=_next(replaced))
        if self._settings.prompt_store is None:
            self._own = prompt
        else:
            text = msgspec.json.encode(prompt).decode()
            await call(self._settings.prompt_store.set, self._runtime.namespace, session_id, text)
        return prompt


def _next(prompt: PromptRow | None) -> int:
    return 1 if prompt is None else prompt.number + 1


def _state(block: ContextBlock) -> list[Any]:
    return [block.version, digest(block.content)]


def _states(blocks: Sequence[ContextBlock]) -> str:
    return msgspec.json.encode({block.label: _state(block) for block in blocks}).decode()
