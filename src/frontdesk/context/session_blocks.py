"""The context blocks of one session: their declarations, reads, writes and earlier versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from frontdesk.calls import call
from frontdesk.checks import check_text
from frontdesk.config.attempts import Attempts
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import SYSTEM_LABEL, Declaration, HistorySearch
from frontdesk.context.access import SessionAccess
from frontdesk.context.blocks import BlockKind, BlockVersion, ContextBlock
from frontdesk.context.entries import StoredEntries
from frontdesk.context.sources import BlockSource, SearchHistory, SourceCache
from frontdesk.deadlines import not_counted, one_call
from frontdesk.errors import (
    BlockNotFoundError,
    BlockTooLargeError,
    BlockVersionError,
    ConfigurationError,
    InvalidInputError,
    ReadonlyBlockError,
    SessionNotFoundError,
)
from frontdesk.moments import to_datetime
from frontdesk.store import DocumentName, DocumentRow, Owner, Scope
from frontdesk.tree.owners import KEY_SCOPES, owner_of


@dataclass(slots=True)
class HandleBlocks:
    """What was declared and removed on one handle, which its turns share."""

    added: dict[str, BlockSource] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    histories: dict[str, BlockSource] = field(default_factory=dict)


class SessionBlocks:
    """All blocks of one session handle. `search_history` makes the provider of a block that searches other
    conversations.

    Only a write by the user creates a session, and only if there was none when the call began. A block that belongs to
    a key, a guest, an agent or the namespace needs no session."""

    def __init__(
        self,
        runtime: Runtime,
        session: SessionAccess,
        search_history: SearchHistory,
        declared: HandleBlocks | None = None,
    ) -> None:
        self._runtime = runtime
        self.session = session
        self._search_history = search_history
        self._declared = declared or HandleBlocks()

    def in_turn(self, session: SessionAccess) -> SessionBlocks:
        """The same blocks, written in a turn."""
        return SessionBlocks(self._runtime, session, self._search_history, self._declared)

    def count(self, text: str) -> int:
        return self._runtime.settings.counter(text) if text else 0

    async def ensure_session(self) -> str:
        """The id of the session, for a write; the session is created if there is none."""
        row = await self.session.find_row()
        return (await self.session.ensure()).id if row is None else row.id

    async def owner(self, scope: Scope) -> Owner:
        """The owner of the blocks with a scope."""
        key = await self.session.stored_key() if scope in KEY_SCOPES else None
        await self.session.readable_id()
        return owner_of(scope, self.session.future_id, None if key is None else key.parts)

    async def owner_for_write(self, scope: Scope) -> Owner:
        """The same; a session that is the owner is created if there is none."""
        owner = await self.owner(scope)
        return Owner("session", await self.ensure_session()) if owner.scope == "session" else owner

    # declarations

    def add(self, declaration: Declaration) -> None:
        if declaration.label in self.labels:
            raise ConfigurationError(f"context block {declaration.label!r} is already declared: remove it first")
        declaration.check_size(self._runtime.settings.counter)
        self._declared.added[declaration.label] = BlockSource(declaration)

    def remove(self, label: str) -> bool:
        if label not in self.labels:
            return False
        if self._declared.added.pop(label, None) is None:
            self._declared.removed.add(label)
        return True

    @property
    def labels(self) -> tuple[str, ...]:
        declared = (declaration.label for declaration in self._runtime.settings.context.declarations)
        return (*(label for label in declared if label not in self._declared.removed), *self._declared.added)

    @property
    def added(self) -> frozenset[str]:
        """The labels of the blocks that were added to this handle."""
        return frozenset(self._declared.added)

    @property
    def removed(self) -> frozenset[str]:
        """The labels of the declared blocks that were removed from this handle."""
        return frozenset(self._declared.removed)

    async def sources(self) -> list[BlockSource]:
        """The source of every block, ready for use. Nothing is created in the store."""
        declared = [
            one for one in self._runtime.settings.context.declarations if one.label not in self._declared.removed
        ]
        await self.session.readable_id()
        session_id = self.session.future_id
        sources = [*(self._declared_source(session_id, one) for one in declared), *self._declared.added.values()]
        for source in sources:
            if not source.ready:
                key = await self.session.stored_key()
                await source.prepare(self._runtime, session_id, key, self._search_history)
        return [self._bound(source) for source in sources]

    def _bound(self, source: BlockSource) -> BlockSource:
        found = source.store_search
        if found is None:
            return source
        return source.with_entries(StoredEntries(self._runtime, self.session, found.scope, source.label))

    def _declared_source(self, session_id: str, declaration: Declaration) -> BlockSource:
        """The source of a declared block. One that searches history belongs to this handle: what it may find follows
        from the handle's key, not from an id that another guest may use later."""
        if isinstance(declaration.provider, HistorySearch):
            return self._declared.histories.setdefault(declaration.label, BlockSource(declaration))
        return self._runtime.shared(SourceCache).get(session_id, declaration)

    async def source(self, label: str) -> BlockSource:
        for source in await self.sources():
            if source.label == label:
                return source
        raise BlockNotFoundError(label, self.labels)

    # reading

    async def blocks(self) -> list[ContextBlock]:
        """All blocks with their content; first the one from `set_system_prompt`, if there is one."""
        sources = await self.sources()
        rows = await self._documents(sources)
        blocks = [await self._block(source, rows.get(source.label)) for source in sources]
        system = rows.get(SYSTEM_LABEL)
        return blocks if system is None else [self._system_block(system), *blocks]

    async def block(self, label: str) -> ContextBlock:
        system = await self.document(SYSTEM_LABEL) if label == SYSTEM_LABEL else None
        if system is not None:
            return self._system_block(system)
        source = await self.source(label)
        return await self._block(source, (await self._documents([source])).get(label))

    async def document(self, label: str) -> DocumentRow | None:
        """A document of the session that is not a declared block."""
        name = DocumentName(await self.owner("session"), label)
        return (await self._runtime.store.get_documents(self._runtime.namespace, [name]))[0]

    async def _documents(self, sources: Sequence[BlockSource]) -> dict[str, DocumentRow]:
        """The stored values of blocks without a provider, by label, including the session's own system prompt."""
        stored = [source.declaration for source in sources if source.provider is None]
        owners: dict[Scope, Owner] = {"session": await self.owner("session")}
        for declaration in stored:
            if declaration.scope not in owners:
                owners[declaration.scope] = await self.owner(declaration.scope)
        names = [DocumentName(owners[declaration.scope], declaration.label) for declaration in stored]
        names.append(DocumentName(owners["session"], SYSTEM_LABEL))
        rows = await self._runtime.store.get_documents(self._runtime.namespace, names)
        return {row.label: row for row in rows if row is not None}

    def _system_block(self, row: DocumentRow) -> ContextBlock:
        tokens = self.count(row.content)
        return ContextBlock(SYSTEM_LABEL, row.content, None, tokens, None, BlockKind.READONLY, "session", row.version)

    async def _block(self, source: BlockSource, row: DocumentRow | None) -> ContextBlock:
        declaration = source.declaration
        if source.provider is not None:
            content = await source.content()
        else:
            content = declaration.default_content if row is None or declaration.readonly else row.content
        return ContextBlock(
            label=source.label,
            content=content,
            description=declaration.description,
            tokens=self.count(content),
            max_tokens=declaration.max_tokens,
            kind=source.kind,
            scope=declaration.scope,
            version=row.version if row is not None and source.provider is None else 0,
        )

    # writing

    def attempts(self, label: str) -> Attempts:
        """The attempts of a write of a block, which others may overtake."""
        return self._runtime.block_attempts(label)

    async def replace(
        self, label: str, text: str, if_version: int | None, author: str | None, note: DocumentRow | None = None
    ) -> ContextBlock:
        """Replace the content of a block. With `note`, another document of the owner, both are written or none:
        `BlockVersionError` is raised if one of them has changed."""
        return await self._write(label, lambda _: text, if_version, author, note)

    async def append(self, label: str, text: str, author: str | None) -> ContextBlock:
        """Add a text at the end of a block, on a new line."""
        return await self._write(label, lambda content: add_line(content, check_text(text, "text")), None, author)

    @one_call
    async def _write(
        self,
        label: str,
        change: Callable[[str], str],
        if_version: int | None,
        author: str | None,
        note: DocumentRow | None = None,
    ) -> ContextBlock:
        if label == SYSTEM_LABEL:
            raise ReadonlyBlockError(label)
        source = await self.source(label)
        if source.is_keyed:
            raise InvalidInputError(f"block {label!r} contains entries: write them with the tool `update_context`")
        if not source.is_writable:
            raise ReadonlyBlockError(label)
        owner = None if source.provider is not None else await self.owner_for_write(source.declaration.scope)
        attempts = self.attempts(label)
        while True:
            await attempts.another()
            block = await self.block(label)
            if if_version is not None and block.version != if_version:
                raise BlockVersionError(label, if_version, block.version)
            content = check_text(change(block.content), "content")
            self._check_size(source, content)
            if owner is None:
                await call(source.provider.set, content)
                if note is not None:
                    await self._put(await self.owner_for_write(source.declaration.scope), note, keep_history=False)
                return await self.block(label)
            row = self._version(label, block.version + 1, content, author)
            if await self._put(owner, row, note=note):
                with not_counted():  # it is written, however late it is
                    return await self.block(label)
            if note is not None:
                raise BlockVersionError(label, block.version, (await self.block(label)).version)

    async def _put(
        self,
        owner: Owner,
        row: DocumentRow,
        *,
        keep_history: bool = True,
        drop_prompt: bool = False,
        note: DocumentRow | None = None,
    ) -> bool:
        return await self._runtime.store.put_document(
            self._runtime.namespace,
            owner,
            row,
            keep_history=keep_history,
            drop_prompt=drop_prompt,
            note=note,
            fence=self.session.turn,
        )

    def _version(self, label: str, version: int, content: str, author: str | None = None) -> DocumentRow:
        return DocumentRow(label=label, version=version, content=content, author=author, created_at=self._runtime.now())

    def _check_size(self, source: BlockSource, content: str) -> None:
        limit, tokens = source.declaration.max_tokens, self.count(content)
        if limit is not None and tokens > limit:
            raise BlockTooLargeError(source.label, tokens, limit)

    @one_call
    async def set_system_prompt(self, text: str, author: str | None) -> str:
        """Set the readonly block that is shown first, and drop the frozen prompt; returns the session's id."""
        check_text(text, "system prompt")
        session_id = await self.ensure_session()
        attempts = self.attempts(SYSTEM_LABEL)
        while True:
            await attempts.another()
            present = await self.document(SYSTEM_LABEL)
            row = self._version(SYSTEM_LABEL, 1 if present is None else present.version + 1, text, author)
            if await self._put(Owner("session", session_id), row, drop_prompt=True):
                return session_id

    async def put_document(self, label: str, content: str, version: int, *, create_session: bool = False) -> bool:
        """Store a document for internal use, without earlier versions; False if `version` is not the next one.

        Raises `SessionNotFoundError` if there is no session, unless `create_session`."""
        session_id = await self.ensure_session() if create_session else await self.session.readable_id()
        if session_id is None:
            raise SessionNotFoundError(self.session.name, self._runtime.namespace)
        return await self._put(Owner("session", session_id), self._version(label, version, content), keep_history=False)

    async def write_entry(self, label: str, key: str, content: str, description: str | None) -> None:
        """Store an entry of a skill or searchable block under its key."""
        source = await self.source(label)
        if not source.is_writable:
            raise ReadonlyBlockError(label)
        check_text(content, "content")
        self._check_size(source, content)
        await self.ensure_session()
        source = await self.source(label)  # again: it may have been made for a session that did not exist yet
        await call(source.provider.set, key, content, *([description] if source.kind is BlockKind.SKILL else []))

    async def remove_entry(self, label: str, key: str) -> bool:
        """Remove an entry of a searchable block in the store, with its versions; False if there is none."""
        source = await self.source(label)
        if not isinstance(source.provider, StoredEntries):
            raise InvalidInputError(f"block {label!r} has no entries in the store: its provider keeps them")
        return await source.provider.remove(key)

    # versions

    async def versions(self, label: str) -> list[BlockVersion]:
        """All values that a block has had, newest first."""
        rows = await self._runtime.store.document_versions(self._runtime.namespace, await self._name(label))
        return [BlockVersion(row.version, row.content, row.author, to_datetime(row.created_at)) for row in rows]

    @one_call
    async def forget_versions(self, label: str) -> None:
        """Remove all values of a block except the current one."""
        store, namespace, name = self._runtime.store, self._runtime.namespace, await self._name(label)
        attempts = self.attempts(label)
        while True:
            await attempts.another()
            (row,) = await store.get_documents(namespace, [name])
            if row is None or await store.rewrite_document(
                namespace, name, [row], row.version, fence=self.session.turn
            ):
                return

    async def _name(self, label: str) -> DocumentName:
        """The document of a block. Raises `InvalidInputError` for one with a provider."""
        if label == SYSTEM_LABEL:
            return DocumentName(await self.owner("session"), label)
        source = await self.source(label)
        if source.provider is not None:
            raise InvalidInputError(f"block {label!r} has a provider: only blocks in the store have versions")
        return DocumentName(await self.owner(source.declaration.scope), label)

    @one_call
    async def restore(self, label: str, version: int, author: str | None) -> ContextBlock:
        """Write an earlier value again, as the newest version. It is read again if the block has changed meanwhile:
        something may have been removed from all versions."""
        attempts = self.attempts(label)
        while True:
            await attempts.another()
            versions = await self.versions(label)
            earlier = next((each for each in versions if each.version == version), None)
            if earlier is None:
                raise BlockNotFoundError(f"{label} (version {version})", self.labels)
            try:
                return await self.replace(label, earlier.content, versions[0].version, author)
            except BlockVersionError:
                pass


def add_line(content: str, text: str) -> str:
    """A content with a text at its end, on a new line."""
    return f"{content}\n{text}" if content and not text.startswith("\n") else content + text
