"""`FrontdeskChatStore`: a `BaseChatStore` whose keys are conversations."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base import BaseChatStore
from pydantic import PrivateAttr

from frontdesk import sync
from frontdesk.integrations.llama_index.messages import chat_messages, chat_messages_with_sources, to_message, to_value
from frontdesk.keys import SessionKey
from frontdesk.messages import NewMessage


class FrontdeskChatStore(BaseChatStore):
    """Stores the messages of a chat store key under a key: the agent, the channel and the chat store key.

    Messages come back exactly as they were added. If the conversation is compacted, `get_messages` returns the summary
    in place of what it covers; the originals stay."""

    agent: str = "llama-index"
    channel: str = "chat"
    _manager: sync.SessionManager = PrivateAttr()

    def __init__(self, manager: sync.SessionManager, *, agent: str = "llama-index", channel: str = "chat") -> None:
        fields: dict[str, Any] = {"agent": agent, "channel": channel}
        super().__init__(**fields)
        self._manager = manager

    @classmethod
    def class_name(cls) -> str:
        return "FrontdeskChatStore"

    def conversation(self, key: str) -> sync.Session:
        """The Frontdesk session of a key: use it for branches, forks, search, compaction and context blocks."""
        return self._manager.session(SessionKey(self.agent, self.channel, key))

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Make this list all messages of the key, in one transaction. Those that are already stored stay as they
        are."""
        self.conversation(key).replace_messages([NewMessage(to_value(message)) for message in messages])

    def get_messages(self, key: str) -> list[ChatMessage]:
        """What the model sees."""
        return chat_messages(self.conversation(key).history())

    def add_message(self, key: str, message: ChatMessage) -> None:
        self.conversation(key).append_all([to_message(message)])

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Delete all messages of a key, and return what the model saw; None if there is no such key."""
        conversation = self.conversation(key)
        if self._manager.get(SessionKey(self.agent, self.channel, key)) is None:
            return None
        shown = chat_messages(conversation.history())
        self._manager.delete(conversation.id)
        return shown

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete the message at a position of what the model sees, and return it; None if there is none. Raises
        frontdesk's `InvalidMessageError` for a summary."""
        conversation = self.conversation(key)
        shown = chat_messages_with_sources(conversation.history())
        if not -len(shown) <= idx < len(shown):
            return None
        deleted, message = shown[idx]
        conversation.delete_messages([message.id])
        return deleted

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Delete the last message and return it; None if there is none. Concurrent calls never return the same one."""
        popped = self.conversation(key).pop()
        return None if popped is None else next(iter(chat_messages([popped])[-1:]), None)

    def get_keys(self) -> list[str]:
        """The keys that have been written to, the oldest first."""
        found = [info.key.peer for info in self._manager.iterate(agent=self.agent, channel=self.channel) if info.key]
        return list(dict.fromkeys(reversed(found)))
