"""Versioned texts and frozen prompts in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import DocumentRow, PromptRow, SessionRow
from frontdesk.store.changes import block_changed
from frontdesk.stores.memory import log
from frontdesk.stores.memory.rows import Rows


def get(rows: Rows, namespace: str, session_id: str | None, names: Sequence[tuple[str, str]]) -> list[DocumentRow]:
    found = (_versions(rows, namespace, session_id, label, key) for label, key in names)
    return [versions[-1] for versions in found if versions]


def list_label(rows: Rows, namespace: str, session_id: str | None, label: str) -> list[DocumentRow]:
    keys = _keys(rows, namespace, session_id, label)
    return [keys[key][-1] for key in sorted(keys)]


def versions(rows: Rows, namespace: str, session_id: str | None, label: str, key: str) -> list[DocumentRow]:
    return _versions(rows, namespace, session_id, label, key)[::-1]


def put(
    rows: Rows,
    namespace: str,
    session_id: str | None,
    document: DocumentRow,
    *,
    keep_history: bool = True,
    drop_prompt: bool = False,
) -> bool:
    owner = _known_owner(rows, namespace, session_id)
    versions = _versions(rows, namespace, session_id, document.label, document.key)
    if document.version != (versions[-1].version + 1 if versions else 1):
        return False
    keys = rows.documents.setdefault((namespace, owner, document.label), {})
    keys[document.key] = [*versions, document] if keep_history else [document]
    if drop_prompt:
        drop(rows, owner)
    for entry in block_changed(document.label):
        log.write(rows, namespace, owner, document.created_at, entry)
    return True


def get_prompt(rows: Rows, namespace: str, session_id: str) -> PromptRow | None:
    owner = rows.owner(namespace, session_id)
    return None if owner is None else rows.prompts.get(owner)


def put_prompt(rows: Rows, namespace: str, session_id: str, prompt: PromptRow, replaces: int | None) -> PromptRow:
    owner = _known_owner(rows, namespace, session_id)
    present = rows.prompts.get(owner)
    if present is not None and present.number != replaces:
        return present
    return _set_prompt(rows, owner, replace(prompt, number=(replaces or 0) + 1))


def drop(rows: Rows, owner: int) -> None:
    """Drop a session's frozen prompt: what was rendered before cannot be stored any more."""
    number = rows.prompts[owner].number + 1 if owner in rows.prompts else 1
    empty = PromptRow(number=number, text="", tokens=0, fingerprint="", blocks="{}", created_at=0)
    _set_prompt(rows, owner, empty)


def _set_prompt(rows: Rows, owner: int, prompt: PromptRow) -> PromptRow:
    rows.prompts[owner] = prompt
    rows.sessions[owner] = replace(rows.sessions[owner], prompt_tokens=prompt.tokens)
    return prompt


def _keys(rows: Rows, namespace: str, session_id: str | None, label: str) -> dict[str, list[DocumentRow]]:
    owner = rows.owner(namespace, session_id)
    return {} if owner is None else rows.documents.get((namespace, owner, label), {})


def _versions(rows: Rows, namespace: str, session_id: str | None, label: str, key: str) -> list[DocumentRow]:
    return _keys(rows, namespace, session_id, label).get(key, [])


def _known_owner(rows: Rows, namespace: str, session_id: str | None) -> int:
    owner = rows.owner(namespace, session_id)
    if owner is None:
        raise SessionNotFoundError(session_id or "", namespace)
    return owner


def copy(rows: Rows, source: SessionRow, fork: SessionRow) -> None:
    """Give a fork the current texts of its source, and its frozen prompt."""
    for (namespace, owner, label), keys in list(rows.documents.items()):
        if owner == source.number:
            rows.documents[namespace, fork.number, label] = {key: [found[-1]] for key, found in keys.items()}
    if source.number in rows.prompts:
        rows.prompts[fork.number] = rows.prompts[source.number]


def forget(rows: Rows, session: int) -> None:
    for place in [place for place in rows.documents if place[1] == session]:
        del rows.documents[place]
    rows.prompts.pop(session, None)
