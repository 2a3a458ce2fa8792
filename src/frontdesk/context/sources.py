"""The sources of blocks: declarations with their providers. A provider is created and initialised once per session."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import Declaration, HistorySearch
from frontdesk.context.blocks import BlockKind, is_writable, kind_of
from frontdesk.context.entries import StoredEntries, StoreSearch
from frontdesk.errors import ConfigurationError
from frontdesk.keys import SessionKey
from frontdesk.store import Scope

SearchHistory: TypeAlias = Callable[[HistorySearch], object]
"""declaration -> the provider, for one handle, of a block that searches other conversations"""

_MAX_SOURCES = 10_000


class BlockSource:
    """The declaration of one block of one session, with its provider once that is made."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.provider: Any = None if declaration.makes_provider else declaration.provider
        self.ready = declaration.provider is None
        self._making = asyncio.Lock()
        self._first: str | None = None

    @property
    def label(self) -> str:
        return self.declaration.label

    @property
    def kind(self) -> BlockKind:
        return kind_of(self.declaration, self.provider)

    @property
    def is_writable(self) -> bool:
        return is_writable(self.declaration, self.provider)

    @property
    def is_keyed(self) -> bool:
        return self.kind in (BlockKind.SKILL, BlockKind.SEARCHABLE)

    @property
    def store_search(self) -> StoreSearch | None:
        """The provider, if the store keeps its entries."""
        if self.provider is StoreSearch or self.declaration.provider is StoreSearch:
            return StoreSearch()
        return self.provider if isinstance(self.provider, StoreSearch) else None

    def with_entries(self, entries: StoredEntries) -> BlockSource:
        """The same block with the entries that one session handle uses."""
        source = BlockSource(self.declaration)
        source.provider, source.ready = entries, True
        return source

    async def prepare(
        self, runtime: Runtime, session_id: str, key: SessionKey | None, search_history: SearchHistory
    ) -> None:
        """Make the provider and initialise it, once; `search_history` makes that of `with_searchable_history`."""
        async with self._making:
            if self.ready:
                return
            if self.declaration.makes_provider and self.store_search is None:
                self.provider = await call(self.declaration.provider, session_id, key)
                if not hasattr(self.provider, "get"):
                    raise ConfigurationError(f"the factory of block {self.label!r} returned an object without `get`")
            if isinstance(self.provider, HistorySearch):
                self.provider = search_history(self.provider)
            if self.store_search is None and hasattr(self.provider, "init"):
                await call(self.provider.init, self.label, session_id)
            self.ready = True

    async def first_content(self) -> str | None:
        """What a provider without `set`, `load` and `search` returned when this process first asked; None for other
        blocks. It changes with a deploy, but not while the process runs."""
        if self.provider is None or self.kind is not BlockKind.READONLY:
            return None
        if self._first is None:
            self._first = await self.content()
        return self._first

    async def content(self) -> str:
        """What the provider returns, as text that every store accepts."""
        content = await call(self.provider.get)
        if content is None:
            return ""
        if not isinstance(content, str):
            raise ConfigurationError(
                f"the provider of block {self.label!r} returned {type(content).__name__}, not a text"
            )
        return content.replace("\0", "").encode("utf-8", "replace").decode()


def stored_scope(declaration: Declaration) -> Scope:
    """What the store's part of a block belongs to: its content, or the entries of a `StoreSearch`."""
    return declaration.provider.scope if isinstance(declaration.provider, StoreSearch) else declaration.scope


class SourceCache:
    """The sources of recently used sessions, so that a provider is made once per session, not once per handle."""

    def __init__(self) -> None:
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, OrderedDict[tuple[str, str], BlockSource]]
        self._by_loop = WeakKeyDictionary()

    def get(self, session_id: str, declaration: Declaration) -> BlockSource:
        sources = self._by_loop.setdefault(asyncio.get_running_loop(), OrderedDict())
        key = session_id, declaration.label
        source = sources.setdefault(key, BlockSource(declaration))
        sources.move_to_end(key)
        if len(sources) > _MAX_SOURCES:
            sources.popitem(last=False)
        return source
