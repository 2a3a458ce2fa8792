"""Which skills a conversation has loaded. A loaded skill stands in the conversation as a tool's answer; unloading it
takes the text out of that answer, whether the answer was appended before or will be later."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from frontdesk.context.blocks import RESERVED
from frontdesk.context.working import WorkingContext
from frontdesk.messages import Message, StoredMessage
from frontdesk.store import DocumentRow

_LABEL = RESERVED + "skills"
_MARK = "[skill "

Rewrite = Callable[[str, Callable[[Any], Any]], Awaitable[None]]


class Load(msgspec.Struct, frozen=True, omit_defaults=True):
    """A skill that was loaded: the mark its text carries, and the message it stands in, once that is known."""

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
        await self._change(lambda loads: [*loads, Load(mark, label, key)])
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
        return [f"{load.label}/{load.key}" for load in await self._loads() if not load.unloaded]

    async def notice(self, messages: Sequence[StoredMessage]) -> None:
        """Look at appended messages for the texts of loads, so that unloading finds them."""
        carrying = [message for message in messages if _MARK in message.raw]
        late: list[tuple[str, Load]] = []

        def change(loads: list[Load]) -> list[Load]:
            late.clear()
            kept = []
            for load in loads:
                message = next((m for m in carrying if _identity(load) in m.raw), None)
                if message is None:
                    kept.append(load)
                elif load.unloaded:
                    late.append((message.id, load))
                else:
                    kept.append(msgspec.structs.replace(load, message_id=message.id))
            return kept

        await self._change(change)
        for message_id, load in late:
            await self._rewrite(message_id, partial(_without, load))

    async def _loads(self) -> list[Load]:
        row = await self._context.document(_LABEL)
        return [] if row is None else msgspec.json.decode(row.content, type=list[Load])

    async def _change(self, change: Callable[[list[Load]], list[Load]]) -> None:
        while True:
            row = await self._context.document(_LABEL)
            loads = [] if row is None else msgspec.json.decode(row.content, type=list[Load])
            changed = change(list(loads))
            if changed == loads:
                return
            version = 1 if row is None else row.version + 1
            content = msgspec.json.encode(changed).decode()
            new = DocumentRow(label=_LABEL, version=version, content=content, created_at=self._context.now())
            if await self._context.put(new):
                return


def may_carry(messages: Sequence[StoredMessage]) -> bool:
    """Whether any of these messages could hold the text of a loaded skill."""
    return any(message.derived is not None and _MARK in message.raw for message in messages)


def rewritten(message: Message, change: Callable[[Any], Any]) -> dict[str, Any]:
    """The raw form of a message with its texts changed, under its own id."""
    raw: dict[str, Any] = change(message.raw)
    return {**raw, "id": message.id}


def _identity(load: Load) -> str:
    """The part of a mark that reads the same in JSON, whatever the label and the key are made of."""
    return load.mark[load.mark.rindex("#") :]


def _without(load: Load, value: Any) -> Any:
    """A JSON value in which every text that carries the load says that it was unloaded."""
    if isinstance(value, str):
        return f"[skill unloaded: {load.key}]" if _identity(load) in value else value
    if isinstance(value, list):
        return [_without(load, item) for item in value]
    if isinstance(value, dict):
        return {name: _without(load, item) for name, item in value.items()}
    return value
