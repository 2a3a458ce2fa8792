"""Which skills a conversation has loaded. A loaded skill stands in the conversation as a tool's answer; unloading it
takes the text out of that answer, whether the answer was appended before or will be later."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from frontdesk.config.settings import RESERVED_PREFIX
from frontdesk.context.working import WorkingContext
from frontdesk.messages import Message, StoredMessage, ToolResultPart
from frontdesk.store import DocumentRow

_LABEL = RESERVED_PREFIX + "skills"
_MARK = "[skill "

Rewrite = Callable[[str, Callable[[Any], Any]], Awaitable[None]]


class Load(msgspec.Struct, frozen=True, omit_defaults=True):
    """A skill that was loaded: the mark its text begins with, and the message it stands in, once that is known."""

    mark: str
    label: str
    key: str
    message_id: str | None = None
    unloaded: bool = False


class LoadedSkills:
    """The loads of one session, kept in the store; `rewrite` changes the content of a stored message."""

    def __init__(self, context: WorkingContext, rewrite: Rewrite) -> None:
        self._context = context
        self._rewrite = rewrite

    async def load(self, label: str, key: str, content: str) -> str:
        """Remember a load and give the text that the tool answers with."""
        mark = f"{_MARK}{label}/{key} #{secrets.token_hex(6)}]"
        await self._change(lambda loads: [*loads, Load(mark, label, key)], makes_session=True)
        return f"{mark}\n{content}"

    async def unload(self, label: str, key: str) -> bool:
        """Take a skill out of the conversation; False if it is not loaded."""
        wanted: list[Load] = []

        def change(loads: list[Load]) -> list[Load]:
            wanted[:] = [load for load in loads if (load.label, load.key, load.unloaded) == (label, key, False)]
            pending = [msgspec.structs.replace(load, unloaded=True) for load in wanted if load.message_id is None]
            return [load for load in loads if load not in wanted] + pending

        await self._change(change)
        for load in wanted:
            if load.message_id is not None:
                await self._rewrite(load.message_id, partial(_without, load))
        return bool(wanted)

    async def loaded(self) -> list[str]:
        """`label/key` of every skill that is loaded now."""
        row = await self._context.document(_LABEL)
        return [f"{load.label}/{load.key}" for load in _decode(row) if not load.unloaded]

    async def notice(self, messages: Sequence[StoredMessage]) -> None:
        """Look at stored messages for the answers that loads gave, so that unloading finds them."""
        answers = [(message.id, text) for message in messages if _MARK in message.raw for text in _results(message)]
        late: list[tuple[str, Load]] = []

        def change(loads: list[Load]) -> list[Load]:
            late.clear()
            kept = []
            for load in loads:
                found = next((id for id, text in answers if text.startswith(load.mark)), None)
                if found is None or load.message_id is not None:
                    kept.append(load)
                elif load.unloaded:
                    late.append((found, load))
                else:
                    kept.append(msgspec.structs.replace(load, message_id=found))
            return kept

        if answers:
            await self._change(change)
        for message_id, load in late:
            await self._rewrite(message_id, partial(_without, load))

    async def _change(self, change: Callable[[list[Load]], list[Load]], *, makes_session: bool = False) -> None:
        while True:
            row = await self._context.document(_LABEL)
            loads = _decode(row)
            changed = change(list(loads))
            content = msgspec.json.encode(changed).decode()
            version = 1 if row is None else row.version + 1
            if changed == loads or await self._context.note(_LABEL, content, version, makes_session=makes_session):
                return


def may_carry(messages: Sequence[StoredMessage]) -> bool:
    """Whether any of these messages could hold the answer of a load."""
    return any(_MARK in message.raw for message in messages)


def rewritten(message: Message, change: Callable[[Any], Any]) -> dict[str, Any]:
    """The raw form of a message with its texts changed, under its own id."""
    raw: dict[str, Any] = change(message.raw)
    return {**raw, "id": message.id}


def _decode(row: DocumentRow | None) -> list[Load]:
    return [] if row is None else msgspec.json.decode(row.content, type=list[Load])


def _results(stored: StoredMessage) -> list[str]:
    """The texts of tool results in a message."""
    found: list[str] = []
    for part in Message.from_stored(stored, None).parts:
        if isinstance(part, ToolResultPart):
            content = part.content
            blocks = content if isinstance(content, list) else [content]
            found += [block.get("text", "") if isinstance(block, dict) else block for block in blocks]
    return [text for text in found if isinstance(text, str)]


def _without(load: Load, value: Any) -> Any:
    """A JSON value in which the text that the load gave says that it was unloaded."""
    if isinstance(value, str):
        return f"[skill unloaded: {load.key}]" if value.startswith(load.mark) else value
    if isinstance(value, list):
        return [_without(load, item) for item in value]
    if isinstance(value, dict):
        return {name: _without(load, item) for name, item in value.items()}
    return value
