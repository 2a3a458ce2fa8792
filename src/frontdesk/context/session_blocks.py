"""The context blocks of one session: their declarations, reads, writes and earlier versions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from frontdesk.calls import call
from frontdesk.checks import check_text
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import SYSTEM_LABEL, Declaration
from frontdesk.context.blocks import BlockKind, BlockVersion, ContextBlock
from frontdesk.context.sources import BlockSource, SearchHistory, SourceCache
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
from frontdesk.store import DocumentRow, SessionRow


class SessionBlocks:
    """All blocks of one session handle. `find` returns the id of the session, if there is one; `make` creates it;
    `search_history` makes the provider of a block that searches other conversations.

    Only a write by the user creates a session, and only if there was none when the call began."""

    def __init__(
        self,
        runtime: Runtime,
        find: Callable[[], Awaitable[str | None]],
        make: Callable[[], Awaitable[SessionRow]],
        search_history: SearchHistory,
    ) -> None:
        self._runtime = runtime
        self.find_session = find
        self._make = make
        self._search_history = search_history
        self._added: dict[str, BlockSource] = {}
        self._removed: set[str] = set()

    def count(self, text: str) -> int:
        return self._runtime.settings.counter(text) if text else 0

    async def ensure_session(self) -> str:
        """The id of the session, for a write; the session is created if there is none."""
        session_id = await self.find_session()
        row = None if session_id is None else await self._runtime.store.get(self._runtime.namespace, session_id)
        return (await self._make()).id if row is None else row.id

    # declarations

    def add(self, declaration: Declaration) -> None:
        if declaration.label in self.labels:
            raise ConfigurationError(f"there is a context block {declaration.label!r} already: remove it first")
        self._added[declaration.label] = BlockSource(declaration)

    def remove(self, label: str) -> bool:
        if label not in self.labels:
            return False
        if self._added.pop(label, None) is None:
            self._removed.add(label)
        return True

    @property
    def labels(self) -> tuple[str, ...]:
        declared = (declaration.label for declaration in self._runtime.settings.context.declarations)
        return (*(label for label in declared if label not in self._removed), *self._added)

    async def sources(self) -> list[BlockSource]:
        """The source of every block, ready for use."""
        declared = [one for one in self._runtime.settings.context.declarations if one.label not in self._removed]
        with_provider = any(one.provider is not None for one in declared) or any(
            not source.ready for source in self._added.values()
        )
        session_id = (await self.find_session() or (await self._make()).id) if with_provider else ""
        sources = [*(self._runtime.shared(SourceCache).get(session_id, one) for one in declared), *self._added.values()]
        for source in sources:
            if not source.ready:
                await source.prepare(self._runtime, session_id, self._search_history)
        return sources

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
        owner = await self.find_session()
        if owner is None:
            return None
        rows = await self._runtime.store.get_documents(self._runtime.namespace, owner, [(label, "")])
        return rows[0] if rows else None

    async def _documents(self, sources: Sequence[BlockSource]) -> dict[str, DocumentRow]:
        """The stored values of blocks without a provider, by label, including the session's own system prompt."""
        stored = [source for source in sources if source.provider is None]
        found: dict[str, DocumentRow] = {}
        for shared in (True, False):
            names = [(source.label, "") for source in stored if source.declaration.shared is shared]
            names += [] if shared else [(SYSTEM_LABEL, "")]
            owner = None if shared else await self.find_session()
            if names and (shared or owner is not None):
                rows = await self._runtime.store.get_documents(self._runtime.namespace, owner, names)
                found |= {row.label: row for row in rows}
        return found

    def _system_block(self, row: DocumentRow) -> ContextBlock:
        tokens = self.count(row.content)
        return ContextBlock(SYSTEM_LABEL, row.content, None, tokens, None, BlockKind.READONLY, False, row.version)

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
            shared=declaration.shared,
            version=row.version if row is not None and source.provider is None else 0,
        )

    # writing

    async def replace(self, label: str, text: str, if_version: int | None, author: str | None) -> ContextBlock:
        """Replace the content of a block."""
        return await self._write(label, lambda _: text, if_version, author)

    async def append(self, label: str, text: str, author: str | None) -> ContextBlock:
        """Add a text at the end of a block, on a new line."""
        return await self._write(label, lambda content: _join(content, check_text(text, "text")), None, author)

    async def _write(
        self, label: str, change: Callable[[str], str], if_version: int | None, author: str | None
    ) -> ContextBlock:
        if label == SYSTEM_LABEL:
            raise ReadonlyBlockError(label)
        source = await self.source(label)
        if source.is_keyed:
            raise InvalidInputError(f"block {label!r} contains entries: write them with the tool `update_context`")
        if not source.is_writable:
            raise ReadonlyBlockError(label)
        owner = None if source.declaration.shared or source.provider is not None else await self.ensure_session()
        while True:
            block = await self.block(label)
            if if_version is not None and block.version != if_version:
                raise BlockVersionError(label, if_version, block.version)
            content = check_text(change(block.content), "content")
            self._check_size(source, content)
            if source.provider is not None:
                await call(source.provider.set, content)
                return await self.block(label)
            row = self._version(label, block.version + 1, content, author)
            if await self._runtime.store.put_document(self._runtime.namespace, owner, row):
                return await self.block(label)

    def _version(self, label: str, version: int, content: str, author: str | None = None) -> DocumentRow:
        return DocumentRow(label=label, version=version, content=content, author=author, created_at=self._runtime.now())

    def _check_size(self, source: BlockSource, content: str) -> None:
        limit, tokens = source.declaration.max_tokens, self.count(content)
        if limit is not None and tokens > limit:
            raise BlockTooLargeError(source.label, tokens, limit)

    async def set_system_prompt(self, text: str, author: str | None) -> str:
        """Set the readonly block that is shown first, and drop the frozen prompt; returns the session's id."""
        check_text(text, "system prompt")
        owner = await self.ensure_session()
        while True:
            present = await self.document(SYSTEM_LABEL)
            row = self._version(SYSTEM_LABEL, 1 if present is None else present.version + 1, text, author)
            if await self._runtime.store.put_document(self._runtime.namespace, owner, row, drop_prompt=True):
                return owner

    async def put_document(self, label: str, content: str, version: int, *, create_session: bool = False) -> bool:
        """Store a document for internal use, without earlier versions; False if `version` is not the next one.

        Raises `SessionNotFoundError` if there is no session, unless `create_session`."""
        owner = await self.ensure_session() if create_session else await self.find_session()
        if owner is None:
            raise SessionNotFoundError("(under a key)", self._runtime.namespace)
        row = self._version(label, version, content)
        return await self._runtime.store.put_document(self._runtime.namespace, owner, row, keep_history=False)

    async def write_entry(self, label: str, key: str, content: str, description: str | None) -> None:
        """Store an entry of a skill or searchable block under its key."""
        source = await self.source(label)
        if not source.is_writable:
            raise ReadonlyBlockError(label)
        check_text(content, "content")
        self._check_size(source, content)
        await self.ensure_session()
        await call(source.provider.set, key, content, *([description] if source.kind is BlockKind.SKILL else []))

    # versions

    async def versions(self, label: str) -> list[BlockVersion]:
        """All values that a block has had, newest first."""
        shared = False
        if label != SYSTEM_LABEL:
            source = await self.source(label)
            shared = source.declaration.shared
            if source.provider is not None:
                raise InvalidInputError(f"block {label!r} has a provider: only blocks in the store have versions")
        owner = None if shared else await self.find_session()
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


def _join(content: str, text: str) -> str:
    return f"{content}\n{text}" if content and not text.startswith("\n") else content + text
