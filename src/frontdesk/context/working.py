"""The blocks of one session at work: loading them, writing them, and their earlier values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from frontdesk.calls import call
from frontdesk.checks import check_text
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import SYSTEM_LABEL, Declaration
from frontdesk.context.blocks import BlockKind, BlockVersion, ContextBlock
from frontdesk.context.slots import Slot, Slots
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
from frontdesk.store import DocumentRow, SessionRow


class WorkingContext:
    """All blocks of one session handle. `find` gives the session's id if there is a session, `make` makes it.

    Only what a user writes makes a session, and only if there was none when that call began."""

    def __init__(
        self,
        runtime: Runtime,
        find: Callable[[], Awaitable[str | None]],
        make: Callable[[], Awaitable[SessionRow]],
    ) -> None:
        self._runtime = runtime
        self.find_owner = find
        self._make = make
        self._added: dict[str, Slot] = {}
        self._left_out: set[str] = set()

    def count(self, text: str) -> int:
        return self._runtime.settings.counter(text) if text else 0

    async def make_owner(self) -> str:
        """The session's id, for a write: the session is made if there is none."""
        session_id = await self.find_owner()
        row = None if session_id is None else await self._runtime.store.get(self._runtime.namespace, session_id)
        return (await self._make()).id if row is None else row.id

    # declarations

    def add(self, declaration: Declaration) -> None:
        if declaration.label in self.labels:
            raise ConfigurationError(f"there is a context block {declaration.label!r} already: remove it first")
        self._added[declaration.label] = Slot(declaration)

    def remove(self, label: str) -> bool:
        if label not in self.labels:
            return False
        if self._added.pop(label, None) is None:
            self._left_out.add(label)
        return True

    @property
    def labels(self) -> tuple[str, ...]:
        declared = (declaration.label for declaration in self._runtime.settings.context.declarations)
        return (*(label for label in declared if label not in self._left_out), *self._added)

    async def slots(self) -> list[Slot]:
        """The blocks, their providers made."""
        declared = [one for one in self._runtime.settings.context.declarations if one.label not in self._left_out]
        with_provider = any(one.provider is not None for one in declared) or any(
            not slot.ready for slot in self._added.values()
        )
        session_id = (await self.find_owner() or (await self._make()).id) if with_provider else ""
        slots = [*(self._runtime.shared(Slots).get(session_id, one) for one in declared), *self._added.values()]
        for slot in slots:
            if not slot.ready:
                await slot.prepare(self._runtime, session_id)
        return slots

    async def slot(self, label: str) -> Slot:
        for slot in await self.slots():
            if slot.label == label:
                return slot
        raise BlockNotFoundError(label, self.labels)

    # reading

    async def blocks(self) -> list[ContextBlock]:
        """All blocks with their content; what `set_system_prompt` gave, if anything, first."""
        slots = await self.slots()
        rows = await self._documents(slots)
        blocks = [await self._block(slot, rows.get(slot.label)) for slot in slots]
        system = rows.get(SYSTEM_LABEL)
        return blocks if system is None else [self._system_block(system), *blocks]

    async def block(self, label: str) -> ContextBlock:
        system = await self.document(SYSTEM_LABEL) if label == SYSTEM_LABEL else None
        if system is not None:
            return self._system_block(system)
        slot = await self.slot(label)
        return await self._block(slot, (await self._documents([slot])).get(label))

    async def document(self, label: str) -> DocumentRow | None:
        """A document of the session that is not a declared block."""
        owner = await self.find_owner()
        if owner is None:
            return None
        rows = await self._runtime.store.get_documents(self._runtime.namespace, owner, [(label, "")])
        return rows[0] if rows else None

    async def _documents(self, slots: Sequence[Slot]) -> dict[str, DocumentRow]:
        """The stored values of blocks without a provider, by label, and the session's own system prompt."""
        stored = [slot for slot in slots if slot.provider is None]
        found: dict[str, DocumentRow] = {}
        for shared in (True, False):
            names = [(slot.label, "") for slot in stored if slot.declaration.shared is shared]
            names += [] if shared else [(SYSTEM_LABEL, "")]
            owner = None if shared else await self.find_owner()
            if names and (shared or owner is not None):
                rows = await self._runtime.store.get_documents(self._runtime.namespace, owner, names)
                found |= {row.label: row for row in rows}
        return found

    def _system_block(self, row: DocumentRow) -> ContextBlock:
        tokens = self.count(row.content)
        return ContextBlock(SYSTEM_LABEL, row.content, None, tokens, None, BlockKind.READONLY, False, row.version)

    async def _block(self, slot: Slot, row: DocumentRow | None) -> ContextBlock:
        declaration = slot.declaration
        if slot.provider is not None:
            content = await slot.content()
        else:
            content = declaration.default_content if row is None or declaration.readonly else row.content
        return ContextBlock(
            label=slot.label,
            content=content,
            description=declaration.description,
            tokens=self.count(content),
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
        return await self._write(label, lambda content: _joined(content, check_text(text, "text")), None, author)

    async def _write(
        self, label: str, change: Callable[[str], str], if_version: int | None, author: str | None
    ) -> ContextBlock:
        if label == SYSTEM_LABEL:
            raise ReadonlyBlockError(label)
        slot = await self.slot(label)
        if slot.is_keyed:
            raise InvalidInputError(f"block {label!r} holds entries: write them with the tool `update_context`")
        if not slot.is_writable:
            raise ReadonlyBlockError(label)
        owner = None if slot.declaration.shared or slot.provider is not None else await self.make_owner()
        while True:
            block = await self.block(label)
            if if_version is not None and block.version != if_version:
                raise BlockVersionError(label, if_version, block.version)
            content = check_text(change(block.content), "content")
            self._check_size(slot, content)
            if slot.provider is not None:
                await call(slot.provider.set, content)
                return await self.block(label)
            row = self._version(label, block.version + 1, content, author)
            if await self._runtime.store.put_document(self._runtime.namespace, owner, row):
                return await self.block(label)

    def _version(self, label: str, version: int, content: str, author: str | None = None) -> DocumentRow:
        return DocumentRow(label=label, version=version, content=content, author=author, created_at=self._runtime.now())

    def _check_size(self, slot: Slot, content: str) -> None:
        limit, tokens = slot.declaration.max_tokens, self.count(content)
        if limit is not None and tokens > limit:
            raise BlockTooLargeError(slot.label, tokens, limit)

    async def set_system_prompt(self, text: str, author: str | None) -> str:
        """Set the readonly block that is shown first, and drop the frozen prompt; gives the session's id."""
        check_text(text, "system prompt")
        owner = await self.make_owner()
        while True:
            present = await self.document(SYSTEM_LABEL)
            row = self._version(SYSTEM_LABEL, 1 if present is None else present.version + 1, text, author)
            if await self._runtime.store.put_document(self._runtime.namespace, owner, row, drop_prompt=True):
                return owner

    async def note(self, label: str, content: str, version: int, *, makes_session: bool = False) -> bool:
        """Keep something of our own with the session, without its history; False if `version` is not the next one.

        Raises `SessionNotFoundError` if there is no session and it is not made."""
        owner = await self.make_owner() if makes_session else await self.find_owner()
        if owner is None:
            raise SessionNotFoundError("(under a key)", self._runtime.namespace)
        row = self._version(label, version, content)
        return await self._runtime.store.put_document(self._runtime.namespace, owner, row, keep_history=False)

    async def write_entry(self, label: str, key: str, content: str, description: str | None) -> None:
        """Store an entry of a skill or searchable block under its key."""
        slot = await self.slot(label)
        if not slot.is_writable:
            raise ReadonlyBlockError(label)
        check_text(content, "content")
        self._check_size(slot, content)
        await self.make_owner()
        await call(slot.provider.set, key, content, *([description] if slot.kind is BlockKind.SKILL else []))

    # versions

    async def versions(self, label: str) -> list[BlockVersion]:
        """Every value a block had, newest first."""
        shared = False
        if label != SYSTEM_LABEL:
            slot = await self.slot(label)
            shared = slot.declaration.shared
            if slot.provider is not None:
                raise InvalidInputError(
                    f"block {label!r} is kept by its provider: only blocks in the store have versions"
                )
        owner = None if shared else await self.find_owner()
        if not shared and owner is None:
            return []
        rows = await self._runtime.store.document_versions(self._runtime.namespace, owner, label, "")
        return [BlockVersion(row.version, row.content, row.author, to_datetime(row.created_at)) for row in rows]

    async def restore(self, label: str, version: int, author: str | None) -> ContextBlock:
        """Write an earlier value again, as the newest version."""
        for earlier in await self.versions(label):
            if earlier.version == version:
                return await self.replace(label, earlier.content, None, author)
        raise BlockNotFoundError(f"{label} (version {version})", self.labels)


def _joined(content: str, text: str) -> str:
    return f"{content}\n{text}" if content and not text.startswith("\n") else content + text
