"""Declared blocks and their providers: each provider is made, and introduced to its block, once for each session."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any
from weakref import WeakKeyDictionary

from frontdesk.calls import call
from frontdesk.config.runtime import Runtime
from frontdesk.config.settings import Declaration, HistorySearch
from frontdesk.context.blocks import BlockKind, is_writable, kind_of
from frontdesk.context.entries import StoreSearch
from frontdesk.context.past import SearchableHistory
from frontdesk.errors import ConfigurationError
from frontdesk.search.visible import Past

_MOST_SESSIONS = 10_000


class Slot:
    """A declared block of one session, with its provider once that is made."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.provider: Any = None if declaration.makes_provider else declaration.provider
        self.ready = declaration.provider is None
        self._making = asyncio.Lock()

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

    async def prepare(self, runtime: Runtime, session_id: str) -> None:
        """Make the provider and introduce it to its block, once."""
        async with self._making:
            if self.ready:
                return
            if self.declaration.makes_provider:
                self.provider = await call(self.declaration.provider, session_id)
                if not hasattr(self.provider, "get"):
                    raise ConfigurationError(f"the factory of block {self.label!r} gave an object without `get`")
            if isinstance(self.provider, HistorySearch):
                past = Past(runtime, self.provider.sees)
                self.provider = SearchableHistory(past, session_id, self.provider.max_tokens)
            if isinstance(self.provider, StoreSearch):
                self.provider.attach(runtime, self.label)
            if hasattr(self.provider, "init"):
                await call(self.provider.init, self.label, session_id)
            self.ready = True

    async def content(self) -> str:
        """What the provider gives, as a text that every store can keep."""
        given = await call(self.provider.get)
        if given is None:
            return ""
        if not isinstance(given, str):
            raise ConfigurationError(f"the provider of block {self.label!r} gave {type(given).__name__}, not a text")
        return given.replace("\0", "").encode("utf-8", "replace").decode()


class Slots:
    """The slots of many sessions, so that a provider is made for a session and not for every handle on it."""

    def __init__(self) -> None:
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, OrderedDict[tuple[str, str], Slot]]
        self._by_loop = WeakKeyDictionary()

    def get(self, session_id: str, declaration: Declaration) -> Slot:
        slots = self._by_loop.setdefault(asyncio.get_running_loop(), OrderedDict())
        key = session_id, declaration.label
        slot = slots.setdefault(key, Slot(declaration))
        slots.move_to_end(key)
        if len(slots) > _MOST_SESSIONS:
            slots.popitem(last=False)
        return slot
