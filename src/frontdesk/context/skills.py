"""The skills that a conversation has loaded.

The text of a loaded skill is in the conversation, as the result of a tool call. Unloading removes the text from that
result, whether the result was already appended or is appended later.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from frontdesk.context.session_blocks import SessionBlocks
from frontdesk.messages import Message, NewMessage, StoredMessage, ToolResultPart
from frontdesk.store import DocumentRow
from frontdesk.store.changes import RESERVED_PREFIX

_LABEL = RESERVED_PREFIX + "skills"
_TAG_START = "[skill "

Rewrite = Callable[[str, Callable[[Any], Any]], Awaitable[None]]


class Load(msgspec.Struct, frozen=True, omit_defaults=True):
    """A skill that was loaded: the tag at the start of its text, and the message that contains it, once known."""

    tag: str
    label: str
    key: str
    message_id: str | None = None
    unloaded: bool = False


class LoadedSkills:
    """The loads of one session, kept in the store; `rewrite` changes the content of a stored message."""

    def __init__(self, blocks: SessionBlocks, rewrite: Rewrite) -> None:
        self._blocks = blocks
        self._rewrite = rewrite

    async def load(self, label: str, key: str, content: str) -> str:
        """Record a load, and return the text that the tool returns to the model."""
        tag = f"{_TAG_START}{label}/{key} #{secrets.token_hex(6)}]"
        await self._change(lambda loads: [*loads, Load(tag, label, key)], create_session=True)
        return f"{tag}\n{content}"

    async def unload(self, label: str, key: str) -> bool:
        """Remove a skill from the conversation; False if it is not loaded."""
        unloaded: list[Load] = []

        def change(loads: list[Load]) -> list[Load]:
            unloaded[:] = [load for load in loads if (load.label, load.key, load.unloaded) == (label, key, False)]
            # A load whose result is not appended yet stays recorded, for `record_results` to remove the text then.
            pending = [msgspec.structs.replace(load, unloaded=True) for load in unloaded if load.message_id is None]
            return [load for load in loads if load not in unloaded] + pending

        await self._change(change)
        for load in unloaded:
            if load.message_id is not None:
                await self._rewrite(load.message_id, partial(_remove_text, load))
        return bool(unloaded)

    async def loaded(self) -> list[str]:
        """`label/key` of every skill that is loaded now."""
        row = await self._blocks.document(_LABEL)
        return [f"{load.label}/{load.key}" for load in _decode(row) if not load.unloaded]

    async def record_results(self, messages: Sequence[StoredMessage]) -> None:
        """Record which of these stored messages contain loaded skills, so that unloading finds them."""
        results = [
            (message.id, text) for message in messages if _TAG_START in message.raw for text in _tool_results(message)
        ]
        late: list[tuple[str, Load]] = []

        def change(loads: list[Load]) -> list[Load]:
            late.clear()
            kept = []
            for load in loads:
                found = next((id for id, text in results if text.startswith(load.tag)), None)
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
            await self._rewrite(message_id, partial(_remove_text, load))

    async def _change(self, change: Callable[[list[Load]], list[Load]], *, create_session: bool = False) -> None:
        while True:
            row = await self._blocks.document(_LABEL)
            loads = _decode(row)
            changed = change(list(loads))
            content = msgspec.json.encode(changed).decode()
            version = 1 if row is None else row.version + 1
            if changed == loads or await self._blocks.put_document(
                _LABEL, content, version, create_session=create_session
            ):
                return


def may_hold_skill(messages: Sequence[StoredMessage]) -> bool:
    """Whether any of these messages could contain a loaded skill."""
    return any(_TAG_START in message.raw for message in messages)


def rewrite_raw(message: Message, change: Callable[[Any], Any]) -> NewMessage:
    """A message after a change of its texts, with the id and the role that it has."""
    text = message.text if message.has_given_text else None
    return NewMessage(change(message.raw), id=message.id, role=message.role, text=text)


def _decode(row: DocumentRow | None) -> list[Load]:
    return [] if row is None else msgspec.json.decode(row.content, type=list[Load])


def _tool_results(stored: StoredMessage) -> list[str]:
    """The texts of tool results in a message."""
    found: list[str] = []
    for part in Message.from_stored(stored, None).parts:
        if isinstance(part, ToolResultPart):
            content = part.content
            blocks = content if isinstance(content, list) else [content]
            found += [block.get("text", "") if isinstance(block, dict) else block for block in blocks]
    return [text for text in found if isinstance(text, str)]


def _remove_text(load: Load, value: Any) -> Any:
    """A JSON value with the text of the skill replaced by a note that it was unloaded."""
    if isinstance(value, str):
        return f"[skill unloaded: {load.key}]" if value.startswith(load.tag) else value
    if isinstance(value, list):
        return [_remove_text(load, item) for item in value]
    if isinstance(value, dict):
        return {name: _remove_text(load, item) for name, item in value.items()}
    return value
