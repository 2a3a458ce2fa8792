"""The blocks of one session at work: loading and writing them, freezing the prompt, and telling what changed since."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from frontdesk.calls import call
from frontdesk.checks import check_text
from frontdesk.context.blocks import (
    SYSTEM_LABEL,
    BlockKind,
    BlockVersion,
    ContextBlock,
    Declaration,
    digest,
    fingerprint,
)
from frontdesk.context.entries import StoreSearch
from frontdesk.context.prompt import render_prompt
from frontdesk.context.settings import ContextSettings, Prompts
from frontdesk.errors import (
    BlockNotFoundError,
    BlockTooLargeError,
    BlockVersionError,
    ConfigurationError,
    InvalidInputError,
    ReadonlyBlockError,
    SessionNotFoundError,
)
from frontdesk.records import to_datetime
from frontdesk.scope import Scope
from frontdesk.store import DocumentRow, PromptRow

CHANGES_PREFIX = "context-changes:"


class Slot:
    """A declared block of one session, with its provider once that is made."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.provider: Any = None if declaration.makes_provider else declaration.provider
        self.ready = declaration.provider is None

    @property
    def label(self) -> str:
        return self.declaration.label

    @property
    def kind(self) -> BlockKind:
        return self.declaration.kind(self.provider)

    @property
    def is_writable(self) -> bool:
        return self.declaration.is_writable(self.provider)

    @property
    def is_keyed(self) -> bool:
        return self.kind in (BlockKind.SKILL, BlockKind.SEARCHABLE)

    async def prepare(self, scope: Scope, session_id: str) -> None:
        """Make the provider and introduce it to its block, once."""
        if self.declaration.makes_provider:
            self.provider = await call(self.declaration.provider, session_id)
            if not hasattr(self.provider, "get"):
                raise ConfigurationError(f"the factory of block {self.label!r} gave an object without `get`")
        if isinstance(self.provider, StoreSearch):
            self.provider.attach(scope, self.label)
        if hasattr(self.provider, "init"):
            await call(self.provider.init, self.label, session_id)
        self.ready = True


class WorkingContext:
    """All blocks of one session handle. `session_id` finds the session, `ensure` makes it if there is none yet."""

    def __init__(
        self,
        scope: Scope,
        session_id: Callable[[], Awaitable[str]],
        ensure: Callable[[], Awaitable[object]],
    ) -> None:
        self._scope = scope
        self._session_id = session_id
        self._ensure = ensure
        self._settings = scope.settings(ContextSettings)
        self._slots = {declared.label: Slot(declared) for declared in self._settings.declarations}
        self._prompts = Prompts(scope)

    def now(self) -> int:
        return self._scope.now()

    def count(self, text: str) -> int:
        return self._scope.counter(text)

    # declarations

    def add(self, declaration: Declaration) -> None:
        if declaration.label in self._slots:
            raise ConfigurationError(f"there is a context block {declaration.label!r} already: remove it first")
        self._slots[declaration.label] = Slot(declaration)

    def remove(self, label: str) -> bool:
        return self._slots.pop(label, None) is not None

    async def slots(self) -> list[Slot]:
        """The blocks, their providers made."""
        slots = list(self._slots.values())
        for slot in slots:
            if not slot.ready:
                await slot.prepare(self._scope, await self._session_id())
        return slots

    async def slot(self, label: str) -> Slot:
        await self.slots()
        if label not in self._slots:
            raise BlockNotFoundError(label, tuple(self._slots))
        return self._slots[label]

    # reading

    async def blocks(self) -> list[ContextBlock]:
        """All blocks with their content; what `set_system_prompt` gave, if anything, first."""
        slots = await self.slots()
        rows = await self._documents(slots)
        blocks = [await self._block(slot, rows.get(slot.label)) for slot in slots]
        system = rows.get(SYSTEM_LABEL)
        return blocks if system is None else [self._system_block(system), *blocks]

    async def block(self, label: str) -> ContextBlock:
        slot = await self.slot(label)
        return await self._block(slot, (await self._documents([slot])).get(label))

    async def document(self, label: str) -> DocumentRow | None:
        """A document of the session that is not a declared block."""
        rows = await self._scope.store.get_documents(self._scope.namespace, await self._session_id(), [(label, "")])
        return rows[0] if rows else None

    async def _documents(self, slots: Sequence[Slot]) -> dict[str, DocumentRow]:
        """The stored values of blocks without a provider, by label."""
        stored = [slot for slot in slots if slot.provider is None]
        found: dict[str, DocumentRow] = {}
        for shared in (True, False):
            names = [(slot.label, "") for slot in stored if slot.declaration.shared is shared]
            names += [] if shared else [(SYSTEM_LABEL, "")]
            if names:
                owner = None if shared else await self._session_id()
                rows = await self._scope.store.get_documents(self._scope.namespace, owner, names)
                found |= {row.label: row for row in rows}
        return found

    def _system_block(self, row: DocumentRow) -> ContextBlock:
        tokens = self._scope.counter(row.content)
        return ContextBlock(SYSTEM_LABEL, row.content, None, tokens, None, BlockKind.READONLY, False, row.version)

    async def _block(self, slot: Slot, row: DocumentRow | None) -> ContextBlock:
        declaration = slot.declaration
        if slot.provider is not None:
            content = (await call(slot.provider.get) or "").replace("\0", "")
        else:
            content = declaration.default_content if row is None or declaration.readonly else row.content
        return ContextBlock(
            label=slot.label,
            content=content,
            description=declaration.description,
            tokens=self._scope.counter(content) if content else 0,
            max_tokens=declaration.max_tokens,
            kind=slot.kind,
            shared=declaration.shared,
            version=row.version if row is not None and slot.provider is None else 0,
        )

    # writing

    async def replace(self, label: str, text: str, if_version: int | None, author: str | None) -> ContextBlock:
        """Give a block a new content."""
        return await self._write(label, lambda _: text, if_version, author)

    async def append(self, label: str, text: str, author: str | None) -> ContextBlock:
        """Add a text at the end of a block, on a line of its own."""
        return await self._write(label, lambda content: _joined(content, text), None, author)

    async def _write(
        self, label: str, change: Callable[[str], str], if_version: int | None, author: str | None
    ) -> ContextBlock:
        slot = await self.slot(label)
        if slot.is_keyed:
            raise InvalidInputError(f"block {label!r} holds entries: write them with the tool `update_context`")
        if not slot.is_writable:
            raise ReadonlyBlockError(label)
        while True:
            block = await self.block(label)
            if if_version is not None and block.version != if_version:
                raise BlockVersionError(label, if_version, block.version)
            content = check_text(change(block.content), "content")
            self._check_size(slot, content)
            if slot.provider is not None:
                await call(slot.provider.set, content)
                return await self.block(label)
            row = DocumentRow(
                label=label, version=block.version + 1, content=content, author=author, created_at=self._scope.now()
            )
            if await self.put(row, shared=slot.declaration.shared):
                return await self.block(label)

    def _check_size(self, slot: Slot, content: str) -> None:
        limit = slot.declaration.max_tokens
        tokens = self._scope.counter(content) if content else 0
        if limit is not None and tokens > limit:
            raise BlockTooLargeError(slot.label, tokens, limit)

    async def put(self, row: DocumentRow, *, shared: bool = False, drop_prompt: bool = False) -> bool:
        """Write for the namespace, or for the session, which is made if it is not there yet."""
        store, namespace = self._scope.store, self._scope.namespace
        if shared:
            return await store.put_document(namespace, None, row)
        try:
            return await store.put_document(namespace, await self._session_id(), row, drop_prompt=drop_prompt)
        except SessionNotFoundError:
            await self._ensure()
            return await store.put_document(namespace, await self._session_id(), row, drop_prompt=drop_prompt)

    async def set_system_prompt(self, text: str, author: str | None) -> None:
        """Set the readonly block that is shown first; the prompt is rendered anew at the next freeze."""
        check_text(text, "system prompt")
        while True:
            present = await self.document(SYSTEM_LABEL)
            version = 1 if present is None else present.version + 1
            row = DocumentRow(
                label=SYSTEM_LABEL, version=version, content=text, author=author, created_at=self._scope.now()
            )
            if await self.put(row, drop_prompt=True):
                await self.forget_prompt()
                return

    async def write_entry(self, label: str, key: str, content: str, description: str | None) -> None:
        """Store an entry of a skill or searchable block under its key."""
        slot = await self.slot(label)
        if not slot.is_writable:
            raise ReadonlyBlockError(label)
        check_text(content, "content")
        self._check_size(slot, content)
        arguments = (key, content, description) if slot.kind is BlockKind.SKILL else (key, content)
        try:
            await call(slot.provider.set, *arguments)
        except SessionNotFoundError:
            await self._ensure()
            await call(slot.provider.set, *arguments)

    # versions

    async def versions(self, label: str) -> list[BlockVersion]:
        """Every value a block had, newest first."""
        slot = await self._stored_slot(label)
        owner = None if slot.declaration.shared else await self._session_id()
        rows = await self._scope.store.document_versions(self._scope.namespace, owner, label, "")
        return [BlockVersion(row.version, row.content, row.author, to_datetime(row.created_at)) for row in rows]

    async def restore(self, label: str, version: int, author: str | None) -> ContextBlock:
        """Write an earlier value again, as the newest version."""
        for earlier in await self.versions(label):
            if earlier.version == version:
                return await self.replace(label, earlier.content, None, author)
        raise BlockNotFoundError(f"{label} (version {version})", tuple(self._slots))

    async def _stored_slot(self, label: str) -> Slot:
        slot = await self.slot(label)
        if slot.provider is not None:
            raise InvalidInputError(f"block {label!r} is kept by its provider: only blocks in the store have versions")
        return slot

    # the prompt

    async def freeze(self) -> str:
        """The frozen prompt; rendered and stored if there is none, or if the declarations changed since."""
        mark = await self._fingerprint()
        frozen = await self._prompts.get(await self._session_id())
        if frozen is not None and frozen.fingerprint == mark:
            return frozen.text
        return (await self._render(mark, frozen)).text

    async def refresh(self) -> str:
        """Render the prompt anew from what the blocks hold now, and freeze that."""
        frozen = await self._prompts.get(await self._session_id())
        return (await self._render(await self._fingerprint(), frozen)).text

    async def frozen_tokens(self) -> int:
        """The tokens of the frozen prompt; nothing is rendered for it."""
        frozen = await self._prompts.get(await self._session_id())
        return self._scope.counter(frozen.text) if frozen is not None and frozen.text else 0

    async def forget_prompt(self) -> None:
        """After a change that outdates the prompt."""
        await self._prompts.forget(await self._session_id())

    async def _fingerprint(self) -> str:
        declared = [(slot.declaration, slot.kind) for slot in await self.slots()]
        return fingerprint(declared, getattr(self._settings.renderer, "__qualname__", ""))

    async def _render(self, mark: str, replaced: PromptRow | None) -> PromptRow:
        blocks = await self.blocks()
        prompt = PromptRow(
            number=0,
            text=self._settings.renderer(blocks),
            fingerprint=mark,
            blocks=msgspec.json.encode({block.label: digest(block.content) for block in blocks}).decode(),
            created_at=self._scope.now(),
        )
        number = None if replaced is None else replaced.number
        try:
            return await self._prompts.put(await self._session_id(), prompt, number)
        except SessionNotFoundError:
            await self._ensure()
            return await self._prompts.put(await self._session_id(), prompt, number)

    async def changes(self) -> dict[str, Any] | None:
        """What the blocks hold now and the frozen prompt does not, as a message to append; None if nothing changed.

        Its id says what it tells, so that appending it again is a no-op."""
        frozen = await self._prompts.get(await self._session_id())
        if frozen is None:
            return None
        before: dict[str, str] = msgspec.json.decode(frozen.blocks)
        changed = [block for block in await self.blocks() if before.get(block.label) != digest(block.content)]
        if not changed:
            return None
        text = "These parts of the context have changed; what follows replaces them.\n\n" + render_prompt(changed)
        return {"id": CHANGES_PREFIX + digest(f"{frozen.number}\n{text}"), "role": "system", "content": text}


def _joined(content: str, text: str) -> str:
    return f"{content}\n{text}" if content and not text.startswith("\n") else content + text
