"""Searchable blocks with entries in the store. The entries are versioned, found by their words, and not in the
prompt."""

from __future__ import annotations

from typing import get_args

from frontdesk.checks import check_text
from frontdesk.config.runtime import Runtime
from frontdesk.context.access import SessionAccess
from frontdesk.deadlines import one_call
from frontdesk.errors import ConfigurationError
from frontdesk.messages.ids import check_id
from frontdesk.search.ranking import rank_texts
from frontdesk.search.tokeniser import TOKENISER
from frontdesk.store import DocumentName, DocumentRow, Owner, Scope
from frontdesk.tree.owners import owner_of

_HITS = 10


class StoreSearch:
    """The provider of a searchable block in the store: `with_context("facts", provider=StoreSearch(scope="guest"))`.

    Sessions have entries of their own, or share those of their key, guest, agent or namespace. A session without a key
    has its own instead of those of a key, guest or agent. Raises `ConfigurationError` for another scope."""

    def __init__(self, *, scope: Scope = "session") -> None:
        if scope not in get_args(Scope):
            raise ConfigurationError(f"a scope must be one of {', '.join(get_args(Scope))}, not {scope!r}")
        self.scope = scope

    def get(self) -> str | None:
        raise ConfigurationError("StoreSearch is a provider for `with_context`, and has no entries without a session")


class StoredEntries:
    """The entries of a `StoreSearch` that one session reads and writes."""

    def __init__(self, runtime: Runtime, session: SessionAccess, scope: Scope, label: str) -> None:
        self._runtime = runtime
        self._session = session
        self._scope = scope
        self._label = label

    async def get(self) -> str | None:
        entries = await self._entries()
        return f"{len(entries)} entries indexed." if entries else None

    async def search(self, query: str) -> str | None:
        rows = await self._entries()
        ranked = rank_texts(query, (f"{row.key}\n{row.content}" for row in rows), TOKENISER, consecutive=False)
        best = [rows[index] for index, _ in ranked[:_HITS]]
        return "\n\n".join(f"[{row.key}]\n{row.content}" for row in best) or None

    @one_call
    async def set(self, key: str, content: str) -> None:
        store, namespace = self._runtime.store, self._runtime.namespace
        owner = await self._owner()
        attempts = self._runtime.block_attempts(self._label)
        while True:
            await attempts.another()
            (row,) = await store.get_documents(namespace, [DocumentName(owner, self._label, key)])
            entry = DocumentRow(
                label=self._label,
                key=check_id(key, "key"),
                version=1 if row is None else row.version + 1,
                content=check_text(content, "content"),
                created_at=self._runtime.now(),
            )
            if await store.put_document(namespace, owner, entry, fence=self._session.turn):
                return

    @one_call
    async def remove(self, key: str) -> bool:
        """Remove an entry with all its versions; False if there is none."""
        store, namespace = self._runtime.store, self._runtime.namespace
        name = DocumentName(await self._owner(), self._label, check_id(key, "key"))
        attempts = self._runtime.block_attempts(self._label)
        while True:
            await attempts.another()
            (row,) = await store.get_documents(namespace, [name])
            if row is None:
                return False
            if await store.rewrite_document(namespace, name, [], row.version, fence=self._session.turn):
                return True

    async def _entries(self) -> list[DocumentRow]:
        return await self._runtime.store.list_documents(self._runtime.namespace, await self._owner(), self._label)

    async def _owner(self) -> Owner:
        key = await self._session.stored_key()
        await self._session.readable_id()
        return owner_of(self._scope, self._session.future_id, None if key is None else key.parts)
