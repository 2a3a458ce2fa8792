"""The frozen prompt of a session, rendered once and shared by all workers, and the message on what has changed
since."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import ContextSettings, Renderer
from frontdesk.context.blocks import ContextBlock, digest, fingerprint, identity_of
from frontdesk.context.prompt import render_prompt
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.deadlines import one_call
from frontdesk.messages import Message
from frontdesk.store import TURN, PromptRow, SessionRow
from frontdesk.store.damage import parse_stored
from frontdesk.tree.guards import check_fence

_CHANGES_PREFIX = "context-changes:"
_PROMPT = "prompt"
"""where the metadata of a message on changes names the prompt that it belongs to"""
_decode_states = msgspec.json.Decoder(dict[str, list[Any]]).decode
_decode_prompt = msgspec.json.Decoder(PromptRow).decode


class _Local:
    """What a handle and its turns know of the prompt: the prompt itself if it is kept nowhere else, and its size."""

    def __init__(self) -> None:
        self.prompt: PromptRow | None = None
        self.tokens = 0


class FrozenPrompt:
    """The prompt of one session handle. It is kept in the store, in the user's prompt store, or in this handle."""

    def __init__(self, runtime: Runtime, blocks: SessionBlocks, local: _Local | None = None) -> None:
        self._runtime = runtime
        self._blocks = blocks
        self._local = _Local() if local is None else local

    def in_turn(self, blocks: SessionBlocks) -> FrozenPrompt:
        """The same prompt, written in a turn."""
        return FrozenPrompt(self._runtime, blocks, self._local)

    @property
    def _settings(self) -> ContextSettings:
        return self._runtime.settings.context

    @property
    def _renderer(self) -> Renderer:
        return self._settings.renderer or render_prompt

    async def freeze(self, *, create: bool = True) -> PromptRow:
        """Return the frozen prompt. It is rendered and stored if there is none, if a deploy since changed what it is
        rendered from, or if this handle has other blocks. Without `create`, the prompt of a session that does not exist
        is only rendered."""
        current = await self._fingerprint()
        frozen = await self._get()
        if frozen is None and not create and await self._blocks.session.find_row() is None:
            return await self._render(current)
        if frozen is None or self._is_outdated(frozen, current):
            session_id = await self._writable_id()
            while frozen is None or self._is_outdated(frozen, current):
                frozen = (await self._store(session_id, current, frozen))[0]
        return self._count(frozen)

    def _is_outdated(self, frozen: PromptRow, current: str) -> bool:
        """Whether to render a prompt again. While a deploy is rolled out, workers of two versions serve a session: the
        version that was started later wins, so that they do not replace each other's prompt at every freeze."""
        if not frozen.fingerprint:
            return True
        deployed, _, own = frozen.fingerprint.partition(":")
        current_deployed, _, current_own = current.partition(":")
        is_later = frozen.deployed_at <= self._runtime.started_at
        return own != current_own or (deployed != current_deployed and is_later)

    @one_call
    async def refresh(self) -> PromptRow:
        """Render the prompt again from what the blocks contain now, and freeze that."""
        current = await self._fingerprint()
        session_id = await self._writable_id()
        attempts = self._runtime.attempts(session_id)
        while True:
            await attempts.another()
            stored, is_own = await self._store(session_id, current, await self._get())
            if is_own:
                return self._count(stored)

    @one_call
    async def _store(self, session_id: str, current: str, replaced: PromptRow | None) -> tuple[PromptRow, bool]:
        """Render the prompt and store it, again if something was removed from a block meanwhile: it is removed from the
        prompts that are stored, and this one was not. Returns the prompt that is stored, and whether it is the one that
        was rendered."""
        attempts = self._runtime.attempts(session_id)
        while True:
            await attempts.another()
            rendered = await self._render(current)
            stored = await self._put(session_id, rendered, replaced)
            if stored.number != _next(replaced) or stored.text != rendered.text:
                return stored, False
            if not await self._shows_removed(rendered):
                return stored, True
            replaced = stored

    async def _shows_removed(self, prompt: PromptRow) -> bool:
        """Whether a version of a block that a prompt was rendered from is not there any more as it was. A version that
        was only followed by others is."""
        before = states_of(prompt)
        for block in await self._blocks.blocks():
            state = before.get(block.label)
            if state is None or not state[0] or state == block_state(block):
                continue
            versions = await self._blocks.versions(block.label)
            if not any([each.version, digest(each.content)] == state for each in versions):
                return True
        return False

    async def forget(self, session_id: str) -> None:
        """Drop a prompt that is not in the store. The store drops its own with the change that makes it outdated."""
        self._local.prompt = None
        if self._settings.prompt_store is not None:
            await self._check_turn()
            await call(self._settings.prompt_store.set, self._runtime.namespace, session_id, None)

    async def copy_to(self, session_id: str) -> None:
        """Copy the prompt to a fork, if a prompt store keeps it; the store copies its own."""
        if self._settings.prompt_store is not None and (frozen := await self._get()) is not None:
            await self._put(session_id, frozen, None)

    async def tokens(self, row: SessionRow) -> int:
        """The tokens of the frozen prompt. Nothing is rendered; only a prompt store is read."""
        if not self._is_in_store:
            frozen = await self._get()
            self._local.tokens = 0 if frozen is None else frozen.tokens
        return self.known_tokens(row)

    def known_tokens(self, row: SessionRow) -> int:
        """The tokens of the prompt when this handle last read it, or according to the session's row."""
        return row.prompt_tokens if self._is_in_store else self._local.tokens or row.prompt_tokens

    @property
    def _is_in_store(self) -> bool:
        return self._settings.caches_prompt and self._settings.prompt_store is None

    def _count(self, frozen: PromptRow) -> PromptRow:
        self._local.tokens = frozen.tokens
        return frozen

    async def current(self) -> PromptRow | None:
        """The frozen prompt, None if there is none or if it has to be rendered again."""
        frozen = await self._get()
        return frozen if frozen is not None and frozen.fingerprint else None

    async def last_frozen(self) -> PromptRow | None:
        """The same for readers: without a cached prompt of its own, a manager shows what another one has stored."""
        session_id = await self._blocks.session.readable_id()
        if self._settings.caches_prompt or self._local.prompt is not None or session_id is None:
            return await self.current()
        frozen = await self._runtime.store.get_prompt(self._runtime.namespace, session_id)
        return frozen if frozen is not None and frozen.fingerprint else None

    async def changes(self, frozen: PromptRow) -> dict[str, Any] | None:
        """A message with everything that has changed since a prompt was frozen; None if nothing has.

        A block that was written since counts as changed even if it has its old content again: the model may have read
        another value in between. The id depends on what changed, so appending the same change again is a no-op. The
        metadata say which prompt the message belongs to: see `outdated_changes`."""
        before = states_of(frozen)
        blocks = await self._blocks.blocks()
        changed = [block for block in blocks if before.get(block.label) != block_state(block)]
        gone = [label for label in before if label not in {block.label for block in blocks}]
        if not changed and not gone:
            return None
        texts = ["These parts of the context have changed; what follows replaces them."] if changed else []
        texts += [self._renderer(changed)] if changed else []
        texts += [f"No longer part of the context: {', '.join(gone)}."] if gone else []
        state = msgspec.json.encode([frozen.number, [block_state(block) for block in changed], gone])
        return {
            "id": _CHANGES_PREFIX + digest(state),
            "role": "system",
            "content": "\n\n".join(texts),
            "metadata": {_PROMPT: _identity(frozen)},
        }

    async def _fingerprint(self) -> str:
        """What the prompt is rendered from: a part that all handles of a deploy have in common, and the blocks that
        this handle added or removed."""
        sources, added = await self._blocks.sources(), self._blocks.added
        common = [
            (source.declaration, source.kind, await source.first_content())
            for source in sources
            if source.label not in added
        ]
        own = [(source.declaration, source.kind, None) for source in sources if source.label in added]
        removed = ",".join(sorted(self._blocks.removed))
        return f"{fingerprint(common, identity_of(self._renderer))}:{fingerprint(own, removed)}"

    async def _render(self, current_fingerprint: str) -> PromptRow:
        blocks = await self._blocks.blocks()
        text = self._renderer(blocks)
        return PromptRow(
            number=0,
            text=text,
            tokens=self._blocks.count(text),
            fingerprint=current_fingerprint,
            blocks=_states(blocks),
            created_at=self._runtime.now(),
            deployed_at=self._runtime.started_at,
        )

    async def _get(self) -> PromptRow | None:
        session_id = await self._blocks.session.readable_id()
        if session_id is None or not self._settings.caches_prompt:
            return self._local.prompt
        if self._settings.prompt_store is None:
            return await self._runtime.store.get_prompt(self._runtime.namespace, session_id)
        text = await call(self._settings.prompt_store.get, self._runtime.namespace, session_id)
        return None if text is None else parse_stored(_decode_prompt, text, "frozen prompt of session", session_id)

    async def _writable_id(self) -> str:
        """The id of the session, for storing its prompt; the session is created if there is none. A prompt in memory
        needs none."""
        return await self._blocks.ensure_session() if self._settings.caches_prompt else ""

    async def _put(self, session_id: str, prompt: PromptRow, replaced: PromptRow | None) -> PromptRow:
        """Replace the prompt that was read before by a new one; returns the one that is stored afterwards.

        In the store that may be another worker's: it keeps the first of two that replace the same prompt."""
        if self._is_in_store:
            number = None if replaced is None else replaced.number
            turn = self._blocks.session.turn
            fence = None if turn is None else turn.number
            return await self._runtime.store.put_prompt(
                self._runtime.namespace, session_id, prompt, number, fence=fence
            )
        await self._check_turn()
        prompt = msgspec.structs.replace(prompt, number=_next(replaced))
        if self._settings.prompt_store is None:
            self._local.prompt = prompt
        else:
            text = msgspec.json.encode(prompt).decode()
            await call(self._settings.prompt_store.set, self._runtime.namespace, session_id, text)
        return prompt

    async def _check_turn(self) -> None:
        """Raises `TurnLostError` before a write to a prompt that is not in the store: its fence cannot be checked in
        the same transaction."""
        turn = self._blocks.session.turn
        if turn is not None:
            lease = await self._runtime.store.get_lease(self._runtime.namespace, turn.session_id, TURN)
            check_fence(*turn, None if lease is None else lease.number)


def is_change_note(message: Message) -> bool:
    """Whether it is a message on changes of the context that was appended."""
    return message.role == "system" and message.id.startswith(_CHANGES_PREFIX)


def outdated_changes(messages: Sequence[Message], frozen: PromptRow | None) -> frozenset[str]:
    """The ids of the messages on changes that belong to another prompt than `frozen`, which contains these changes or
    later ones. Shown to a model, they would contradict it."""
    current = None if frozen is None else _identity(frozen)
    notes = [message for message in messages if is_change_note(message)]
    return frozenset(message.id for message in notes if message.metadata.get(_PROMPT) != current or current is None)


def _identity(prompt: PromptRow) -> str:
    """The same for prompts with the same text from the same versions of blocks, on all workers."""
    return digest(prompt.text + prompt.blocks)


def _next(prompt: PromptRow | None) -> int:
    return 1 if prompt is None else prompt.number + 1


def block_state(block: ContextBlock) -> list[Any]:
    """What a frozen prompt records of a block: its version, and a digest of its content."""
    return [block.version, digest(block.content)]


def states_of(prompt: PromptRow) -> dict[str, list[Any]]:
    """The version and the digest of each block that a prompt was rendered from. Raises `DamagedRecordError`."""
    return parse_stored(_decode_states, prompt.blocks, "frozen prompt", None, prompt.number)


def _states(blocks: Sequence[ContextBlock]) -> str:
    return msgspec.json.encode({block.label: block_state(block) for block in blocks}).decode()
