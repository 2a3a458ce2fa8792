"""Chat history for LangChain: `RunnableWithMessageHistory(chain, lambda id: FrontdeskChatHistory(manager, id))`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontdesk.extras import needs_extra
from frontdesk.integrations.loop_thread import LoopThread
from frontdesk.integrations.pairs import as_functions
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.messages import Message, NewMessage, formats, new_id
from frontdesk.session.session import Session

with needs_extra(__name__, "langchain"):
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import (
        BaseMessage,
        convert_to_messages,
        convert_to_openai_messages,
        message_to_dict,
        messages_from_dict,
    )

_LOOP = LoopThread()
_OWN = "langchain"
"""the key of the message as LangChain writes it, next to the keys of OpenAI's format"""


class FrontdeskChatHistory(BaseChatMessageHistory):
    """The messages of one conversation. They come back as they were added.

    `session` is the Frontdesk session: use it for branches, forks, search, compaction and context blocks. If it is
    compacted, `messages` has the summary in place of what it covers; the originals stay. Sync calls run in a thread
    with an event loop, which all histories share."""

    def __init__(self, manager: SessionManager, session_id: str | SessionKey) -> None:
        self.session: Session = manager.session(session_id)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """What the model sees, including messages that other frameworks wrote."""
        return _LOOP.run(self.aget_messages)

    async def aget_messages(self) -> list[BaseMessage]:
        """What the model sees, including messages that other frameworks wrote."""
        found = await self.session.history()
        if all(message.is_summary or _own(message) for message in found):
            return [each for message in found for each in _to_langchain([message])]
        return _rendered(found)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages: all of them, or none."""
        _LOOP.run(lambda: self.aadd_messages(messages))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages: all of them, or none."""
        if messages:
            await self.session.append_all([_new_message(message) for message in messages])

    def clear(self) -> None:
        """Delete all messages."""
        _LOOP.run(self.aclear)

    async def aclear(self) -> None:
        """Delete all messages."""
        await self.session.clear_messages()


def _new_message(message: BaseMessage) -> NewMessage:
    """A message under an id of ours, since LangChain may add two with the same id."""
    own = {_OWN: message_to_dict(message)}
    try:
        openai: Any = convert_to_openai_messages(message)
    except ValueError:  # a content that OpenAI's format does not have
        role = {"human": "user", "ai": "assistant", "tool": "tool"}.get(message.type, "system")
        return NewMessage(own, id=new_id(), role=role, text=message.text)
    return NewMessage({**openai, **own}, id=new_id())


def _own(message: Message) -> dict[str, Any] | None:
    return message.raw.get(_OWN) if isinstance(message.raw, dict) else None


def _to_langchain(messages: list[Message]) -> list[BaseMessage]:
    own = [_own(message) for message in messages]
    return messages_from_dict(own) if all(own) else _rendered(messages)  # type: ignore[arg-type]


def _rendered(messages: Sequence[Message]) -> list[BaseMessage]:
    return convert_to_messages(as_functions(formats.render(messages, "openai")))
