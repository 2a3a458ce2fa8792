"""Versioned texts and frozen prompts in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import DocumentRow, PromptRow, SessionRow
from frontdesk.store.changes import block_changed
from frontdesk.stores.memory.rows import Rows

_SHARED = 0


class Documents(Rows):
    """The documents of the seam; under (namespace, session number or 0, label), by key, oldest version first."""

    async def get_documents(
        self, namespace: str, session_id: str | None, names: Sequence[tuple[str, str]]
    ) -> list[DocumentRow]:
        with self._held():
            found = (self._versions(namespace, session_id, label, key) for label, key in names)
            return [versions[-1] for versions in found if versions]

    async def list_documents(self, namespace: str, session_id: str | None, label: str) -> list[DocumentRow]:
        with self._held():
            keys = self._documents.get((namespace, self._owner(namespace, session_id), label), {})
            return [keys[key][-1] for key in sorted(keys)]

    async def document_versions(
        self, namespace: str, session_id: str | None, label: str, key: str
    ) -> list[DocumentRow]:
        with self._held():
            return self._versions(namespace, session_id, label, key)[::-1]

    async def put_document(
        self,
        namespace: str,
        session_id: str | None,
        document: DocumentRow,
        *,
        keep_history: bool = True,
        drop_prompt: bool = False,
    ) -> bool:
        with self._held():
            owner = self._owner(namespace, session_id)
            if session_id is not None and owner < 0:
                raise SessionNotFoundError(session_id, namespace)
            versions = self._versions(namespace, session_id, document.label, document.key)
            if document.version != (versions[-1].version + 1 if versions else 1):
                return False
            keys = self._documents.setdefault((namespace, owner, document.label), {})
            keys[document.key] = [*versions, document] if keep_history else [document]
            if drop_prompt:
                self._drop_prompt(owner)
            for line in block_changed(document.label):
                self._write_log(namespace, owner, document.created_at, line)
            return True

    async def get_prompt(self, namespace: str, session_id: str) -> PromptRow | None:
        with self._held():
            return self._prompts.get(self._owner(namespace, session_id))

    async def put_prompt(self, namespace: str, session_id: str, prompt: PromptRow, replaces: int | None) -> PromptRow:
        with self._held():
            owner = self._owner(namespace, session_id)
            if owner < 0:
                raise SessionNotFoundError(session_id, namespace)
            present = self._prompts.get(owner)
            if present is not None and present.number != replaces:
                return present
            return self._set_prompt(owner, replace(prompt, number=(replaces or 0) + 1))

    def _drop_prompt(self, owner: int) -> None:
        number = self._prompts[owner].number + 1 if owner in self._prompts else 1
        self._set_prompt(owner, PromptRow(number=number, text="", tokens=0, fingerprint="", blocks="{}", created_at=0))

    def _set_prompt(self, owner: int, prompt: PromptRow) -> PromptRow:
        self._prompts[owner] = prompt
        self._sessions[owner] = replace(self._sessions[owner], prompt_tokens=prompt.tokens)
        return prompt

    def _versions(self, namespace: str, session_id: str | None, label: str, key: str) -> list[DocumentRow]:
        return self._documents.get((namespace, self._owner(namespace, session_id), label), {}).get(key, [])

    def _owner(self, namespace: str, session_id: str | None) -> int:
        """The number that owns documents; -1 for a session that is not there."""
        return _SHARED if session_id is None else self._by_id.get((namespace, session_id), -1)

    def _copy_documents(self, source: SessionRow, fork: SessionRow) -> None:
        for (namespace, owner, label), keys in list(self._documents.items()):
            if owner == source.number:
                self._documents[namespace, fork.number, label] = {key: [rows[-1]] for key, rows in keys.items()}
        if source.number in self._prompts:
            self._prompts[fork.number] = self._prompts[source.number]

    def _forget_documents(self, row: SessionRow) -> None:
        for place in [place for place in self._documents if place[1] == row.number]:
            del self._documents[place]
        self._prompts.pop(row.number, None)
