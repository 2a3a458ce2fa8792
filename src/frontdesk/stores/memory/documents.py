"""Versioned texts and frozen prompts in the memory store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from frontdesk.errors import SessionNotFoundError
from frontdesk.store import (
    DocumentName,
    DocumentRow,
    Fence,
    ForkedDocuments,
    Owner,
    OwnerQuery,
    PromptRow,
    SessionRow,
)
from frontdesk.store.changes import RESERVED_PREFIX, block_changed
from frontdesk.stores.memory import leases, log
from frontdesk.stores.memory.rows import SHARED, Rows
from frontdesk.tree import guards, owners


def get(rows: Rows, namespace: str, names: Sequence[DocumentName]) -> list[DocumentRow | None]:
    found = (_versions(rows, namespace, name) for name in names)
    return [versions[-1] if versions else None for versions in found]


def list_label(rows: Rows, namespace: str, owner: Owner, label: str) -> list[DocumentRow]:
    keys = _keys(rows, namespace, owner, label)
    return [keys[key][-1] for key in sorted(keys)]


def versions(rows: Rows, namespace: str, name: DocumentName) -> list[DocumentRow]:
    return _versions(rows, namespace, name)[::-1]


def put(
    rows: Rows,
    namespace: str,
    owner: Owner,
    document: DocumentRow,
    *,
    keep_history: bool = True,
    drop_prompt: bool = False,
    note: DocumentRow | None = None,
    fence: Fence | None = None,
) -> bool:
    _check_fence(rows, namespace, fence)
    number = known_number(rows, namespace, owner)
    for each in (document, note):
        if each is not None and not _follows(rows, namespace, owner, each):
            return False
    _add(rows, namespace, owner, document, keep_history=keep_history)
    if note is not None:
        _add(rows, namespace, owner, note, keep_history=False)
    if drop_prompt:
        drop(rows, number)
    _log(rows, namespace, owner, document)
    return True


def _follows(rows: Rows, namespace: str, owner: Owner, document: DocumentRow) -> bool:
    versions = _versions(rows, namespace, DocumentName(owner, document.label, document.key))
    return document.version == (versions[-1].version + 1 if versions else 1)


def _add(rows: Rows, namespace: str, owner: Owner, document: DocumentRow, *, keep_history: bool) -> None:
    versions = _versions(rows, namespace, DocumentName(owner, document.label, document.key)) if keep_history else []
    keys = rows.documents.setdefault((namespace, known_number(rows, namespace, owner), document.label), {})
    keys[document.key] = [*versions, document]


def _log(rows: Rows, namespace: str, owner: Owner, document: DocumentRow) -> None:
    number = max(known_number(rows, namespace, owner), SHARED)
    for entry in block_changed(document.label, owner.scope):
        log.write(rows, namespace, number, document.created_at, entry)


def rewrite(
    rows: Rows,
    namespace: str,
    name: DocumentName,
    versions: Sequence[DocumentRow],
    newest: int,
    *,
    hide: Sequence[int] = (),
    note: DocumentRow | None = None,
    fence: Fence | None = None,
) -> bool:
    _check_fence(rows, namespace, fence)
    current = _versions(rows, namespace, name)
    if newest != (current[-1].version if current else 0):
        return False
    if note is not None:
        if not _follows(rows, namespace, name.owner, note):
            return False
        _add(rows, namespace, name.owner, note, keep_history=False)
    if current or versions:
        keys = rows.documents.setdefault((namespace, known_number(rows, namespace, name.owner), name.label), {})
        keys.pop(name.key, None)
        if versions:
            keys[name.key] = sorted(versions, key=lambda row: row.version)
    for row in versions:
        if row.version > newest:
            _log(rows, namespace, name.owner, row)
    readers = [row for row in rows.sessions.values() if hide and owners.is_of(row, namespace, name.owner)]
    for session in readers:
        prompt = rows.prompts.get(session.number)
        if prompt is not None and msgspec.json.decode(prompt.blocks).get(name.label, [None])[0] in hide:
            drop(rows, session.number)
    return True


def delete_owned(rows: Rows, query: OwnerQuery) -> int:
    found = [key for key in rows.owners if key[0] == query.namespace and owners.matches(key[1], query)]
    return sum(forget(rows, -rows.owners.pop(key)) for key in found)


def get_prompt(rows: Rows, namespace: str, session_id: str) -> PromptRow | None:
    number = rows.owner(namespace, session_id)
    return None if number is None else rows.prompts.get(number)


def put_prompt(
    rows: Rows, namespace: str, session_id: str, prompt: PromptRow, replaces: int | None, *, fence: int | None = None
) -> PromptRow:
    _check_fence(rows, namespace, None if fence is None else Fence(session_id, fence))
    number = known_number(rows, namespace, Owner("session", session_id))
    present = rows.prompts.get(number)
    if present is not None and present.number != replaces:
        return present
    return _set_prompt(rows, number, replace(prompt, number=(replaces or 0) + 1))


def drop(rows: Rows, session: int) -> None:
    """Drop a session's frozen prompt: what was rendered before cannot be stored any more."""
    number = rows.prompts[session].number + 1 if session in rows.prompts else 1
    empty = PromptRow(number=number, text="", tokens=0, fingerprint="", blocks="{}", created_at=0)
    _set_prompt(rows, session, empty)


def _set_prompt(rows: Rows, session: int, prompt: PromptRow) -> PromptRow:
    rows.prompts[session] = prompt
    rows.sessions[session] = replace(rows.sessions[session], prompt_tokens=prompt.tokens)
    return prompt


def _check_fence(rows: Rows, namespace: str, fence: Fence | None) -> None:
    if fence is not None:
        session = rows.get(namespace, fence.session_id)
        turn = None if session is None else leases.turn_of(rows, session)
        guards.check_fence(fence.session_id, fence.number, turn)


def number_of(rows: Rows, namespace: str, owner: Owner) -> int | None:
    """The number of a session, or minus that of another owner; None if there is none."""
    if owner.scope == "session":
        return rows.owner(namespace, owner.session_id)
    number = rows.owners.get((namespace, owner))
    return None if number is None else -number


def known_number(rows: Rows, namespace: str, owner: Owner) -> int:
    number = number_of(rows, namespace, owner)
    if number is not None:
        return number
    if owner.scope == "session":
        raise SessionNotFoundError(owner.session_id or "", namespace)
    return -rows.owners.setdefault((namespace, owner), next(rows.numbers))


def _keys(rows: Rows, namespace: str, owner: Owner, label: str) -> dict[str, list[DocumentRow]]:
    number = number_of(rows, namespace, owner)
    return {} if number is None else rows.documents.get((namespace, number, label), {})


def _versions(rows: Rows, namespace: str, name: DocumentName) -> list[DocumentRow]:
    return _keys(rows, namespace, name.owner, name.label).get(name.key, [])


def copy(rows: Rows, source: SessionRow, fork: SessionRow, wanted: ForkedDocuments) -> None:
    """Give a fork the current texts of its source, and its frozen prompt, if they are wanted."""
    own = [key for key in rows.documents if key[1] == source.number and key[2] not in wanted.leave]
    others = ((source.namespace, number_of(rows, source.namespace, owner), label) for owner, label in wanted.copy)
    for namespace, number, label in [*own, *((ns, number, label) for ns, number, label in others if number)]:
        keys = rows.documents.get((namespace, number, label), {})
        rows.documents[namespace, fork.number, label] = {key: [found[-1]] for key, found in keys.items() if found}
    for document in wanted.add:
        rows.documents.setdefault((source.namespace, fork.number, document.label), {})[document.key] = [document]
    if wanted.prompt and source.number in rows.prompts:
        rows.prompts[fork.number] = rows.prompts[source.number]


def copy_labels(rows: Rows, source: SessionRow, new: SessionRow, labels: Sequence[str]) -> None:
    """Give a session the current texts of another one with these labels."""
    for label in labels:
        keys = rows.documents.get((source.namespace, source.number, label), {})
        rows.documents[source.namespace, new.number, label] = {key: [found[-1]] for key, found in keys.items() if found}


def forget(rows: Rows, owner: int) -> int:
    """Remove what an owner has; returns how many versions of blocks there were."""
    places = [place for place in rows.documents if place[1] == owner]
    removed = {place: rows.documents.pop(place) for place in places}
    rows.prompts.pop(owner, None)
    blocks = [keys for place, keys in removed.items() if not place[2].startswith(RESERVED_PREFIX)]
    return sum(len(versions) for keys in blocks for versions in keys.values())
