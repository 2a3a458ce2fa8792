"""The skills that a conversation has loaded.

The text of a loaded skill is in the conversation, as the result of a tool call. Unloading removes the text from that
result, whether the result was already appended or is appended later.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec

from frontdesk.context.blocks import digest
from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.deadlines import one_call
from frontdesk.messages import Message, NewMessage, StoredMessage, ToolResultPart
from frontdesk.store import DocumentRow
from frontdesk.store.changes import RESERVED_PREFIX
from frontdesk.store.damage import parse_stored

_LABEL = RESERVED_PREFIX + "skills"
_TAG_START = "[skill "

Unloaded = Literal["removed", "pending", "missing", "not loaded"]
"""what unloading did: the text was removed; it will be when it is stored; it was not found; there was nothing to do"""
Rewrite = Callable[[str, Callable[[Any], Any]], Awaitable[None]]


class Load(msgspec.Struct, frozen=True, omit_defaults=True):
    """A skill that was loaded: the tag at the start of its text, the length and the digest of what follows, and the
    message that contains it, once known."""

    tag: str
    label: str
    key: str
    size: int
    digest: str
    message_id: str | None = None
    unloaded: bool = False

    @property
    def mark(self) -> str:
        """The end of the tag, which is unique, and the same inside of JSON."""
        return self.tag[self.tag.rindex("#") :]


_decode_loads = msgspec.json.Decoder(list[Load]).decode


class LoadedSkills:
    """The loads of one session, kept in the store; `rewrite` changes the content of a stored message."""

    def __init__(self, blocks: SessionBlocks, rewrite: Rewrite) -> None:
        self._blocks = blocks
        self._rewrite = rewrite

    async def load(self, label: str, key: str, content: str) -> str:
        """Record a load, and return the text that the tool returns to the model."""
        tag = f"{_TAG_START}{label}/{key} #{secrets.token_hex(6)}]"
        load = Load(tag, label, key, len(content), digest(content))
        await self._change(lambda loads: [*loads, load], create_session=True)
        return f"{tag}\n{content}"

    async def unload(self, label: str, key: str) -> Unloaded:
        """Remove a skill from the conversation."""
        unloaded: list[Load] = []

        def change(loads: list[Load]) -> list[Load]:
            unloaded[:] = [load for load in loads if (load.label, load.key, load.unloaded) == (label, key, False)]
            # A load whose result is not appended yet stays recorded, for `record_results` to remove the text then.
            pending = [msgspec.structs.replace(load, unloaded=True) for load in unloaded if load.message_id is None]
            return [load for load in loads if load not in unloaded] + pending

        await self._change(change)
        removed = [await self._remove(load) for load in unloaded if load.message_id is not None]
        if any(removed):
            return "removed"
        if len(removed) < len(unloaded):
            return "pending"
        return "missing" if unloaded else "not loaded"

    async def _remove(self, load: Load) -> bool:
        """Remove the text of a skill from its message; whether it was there."""
        removed = False

        def change(raw: Any) -> Any:
            nonlocal removed
            changed = _remove_text(load, raw)
            removed = changed != raw
            return changed

        assert load.message_id is not None
        await self._rewrite(load.message_id, change)
        return removed

    async def loaded(self) -> list[str]:
        """`label/key` of every skill that is loaded now."""
        row = await self._blocks.document(_LABEL)
        return [f"{load.label}/{load.key}" for load in self._decode(row) if not load.unloaded]

    async def record_results(self, messages: Sequence[StoredMessage]) -> None:
        """Record which of these stored messages contain loaded skills, so that unloading finds them."""
        results = [
            (message.id, content)
            for message in messages
            if _TAG_START in message.raw
            for content in _tool_results(message)
        ]
        late: list[tuple[str, Load]] = []

        def change(loads: list[Load]) -> list[Load]:
            late.clear()
            kept = []
            for load in loads:
                found = next((id for id, content in results if _remove_text(load, content) != content), None)
                if found is None or load.message_id is not None:
                    kept.append(load)
                elif load.unloaded:
                    late.append((found, load))
                else:
                    kept.append(msgspec.structs.replace(load, message_id=found))
            return kept

        if results:
            await self._change(change)
        for message_id, load in late:
            await self._remove(msgspec.structs.replace(load, message_id=message_id))

    @one_call
    async def _change(self, change: Callable[[list[Load]], list[Load]], *, create_session: bool = False) -> None:
        attempts = self._blocks.attempts(_LABEL)
        while True:
            await attempts.another()
            row = await self._blocks.document(_LABEL)
            loads = self._decode(row)
            changed = change(list(loads))
            content = msgspec.json.encode(changed).decode()
            version = 1 if row is None else row.version + 1
            if changed == loads or await self._blocks.put_document(
                _LABEL, content, version, create_session=create_session
            ):
                return

    def _decode(self, row: DocumentRow | None) -> list[Load]:
        name = self._blocks.session.name
        return [] if row is None else parse_stored(_decode_loads, row.content, "list of loaded skills of session", name)


def may_hold_skill(messages: Sequence[StoredMessage]) -> bool:
    """Whether any of these messages could contain a loaded skill."""
    return any(_TAG_START in message.raw for message in messages)


def rewrite_raw(message: Message, change: Callable[[Any], Any]) -> NewMessage:
    """A message after a change of its texts, with the id and the role that it has."""
    text = message.text if message.has_given_text else None
    return NewMessage(change(message.raw), id=message.id, role=message.role, text=text)


def _tool_results(stored: StoredMessage) -> list[Any]:
    """The contents of tool results in a message."""
    parts = Message.from_stored(stored, None).parts
    return [part.content for part in parts if isinstance(part, ToolResultPart)]


def _remove_text(load: Load, value: Any) -> Any:
    """A JSON value with the text of the skill replaced by a note that it was unloaded."""
    if isinstance(value, str):
        return _remove_from(load, value) if load.mark in value else value
    if isinstance(value, list):
        return [_remove_text(load, item) for item in value]
    if isinstance(value, dict):
        return {name: _remove_text(load, item) for name, item in value.items()}
    return value


def _remove_from(load: Load, text: str) -> str:
    """The text of a tool result without that of the skill: it is all of the result, a part of it, or inside of JSON
    that a framework has wrapped around it."""
    note = f"[skill unloaded: {load.key}]"
    if text.startswith(load.tag):
        return note
    start = text.find(load.tag)
    end = start + len(load.tag) + 1
    if start >= 0 and digest(text[end : end + load.size]) == load.digest:
        return text[:start] + note + text[end + load.size :]
    try:
        wrapped = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text
    changed = _remove_text(load, wrapped)
    return text if changed == wrapped else msgspec.json.encode(changed).decode()
