"""Searchable blocks with entries in the store. The entries are versioned, found by their words, and not in the
prompt."""

from __future__ import annotations

from frontdesk.checks import check_text
from frontdesk.config.runtime import Runtime
from frontdesk.messages.ids import check_id
from frontdesk.search.ranking import rank_texts
from frontdesk.search.tokeniser import TOKENISER
from frontdesk.store import DocumentRow

_HITS = 10


class StoreSearch:
    """The provider of a searchable block in the store: `with_context("facts", provider=StoreSearch)`.

    Each session has its own entries. Use `SharedStoreSearch` for entries that all sessions of a namespace share."""

    shared = False

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._label = ""
        self._runtime: Runtime | None = None

    def attach(self, runtime: Runtime, label: str) -> None:
        """Set the store and the label of the entries. Called once, before anything else."""
        self._runtime, self._label = runtime, label

    async def get(self) -> str | None:
        entries = await self._entries()
        return f"{len(entries)} entries indexed." if entries else None

    async def search(self, query: str) -> str | None:
        rows = sorted(await self._entries(), key=lambda row: row.key)
        ranked = rank_texts(query, (f"{row.key}\n{row.content}" for row in rows), TOKENISER, consecutive=False)
        best = [rows[index] for index, _ in ranked[:_HITS]]
        return "\n\n".join(f"[{row.key}]\n{row.content}" for row in best) or None

    async def set(self, key: str, content: str) -> None:
        runtime = self._attached()
        owner = None if self.shared else self._session_id
        while True:
            rows = await runtime.store.get_documents(runtime.namespace, owner, [(self._label, key)])
            row = DocumentRow(
                label=self._label,
                key=check_id(key, "key"),
                version=rows[0].version + 1 if rows else 1,
                content=check_text(content, "content"),
                created_at=runtime.now(),
            )
            if await runtime.store.put_document(runtime.namespace, owner, row):
                return

    async def _entries(self) -> list[DocumentRow]:
        runtime = self._attached()
        return await runtime.store.list_documents(
            runtime.namespace, None if self.shared else self._session_id, self._label
        )

    def _attached(self) -> Runtime:
        assert self._runtime is not None, "a provider of the store is attached before it is used"
        return self._runtime


class SharedStoreSearch(StoreSearch):
    """`StoreSearch` with entries that all sessions of the namespace share."""

    shared = True
