"""`FrontdeskMemoryStore`: the store of LlamaIndex's `Memory`, which archives the oldest messages of a conversation when
they no longer fit."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from pydantic import PrivateAttr

from frontdesk import sync
from frontdesk.errors import InvalidInputError, MessageNotFoundError
from frontdesk.integrations.llama_index.chat_store import FrontdeskChatStore
from frontdesk.integrations.llama_index.messages import chat_messages, chat_messages_with_sources, to_message
from frontdesk.integrations.pairs import with_calls
from frontdesk.messages import SUMMARY_PREFIX, Message

_ARCHIVED = "llama_index_archived"
"""the name in the metadata of a session under which the last archived message is kept"""


class FrontdeskMemoryStore(AsyncDBChatStore):
    """Stores the messages of a `Memory` as `FrontdeskChatStore` does. Archived messages are the oldest ones of the
    conversation; they stay in it."""

    agent: str = "llama-index"
    channel: str = "memory"
    _chats: FrontdeskChatStore = PrivateAttr()

    def __init__(self, manager: sync.SessionManager, *, agent: str = "llama-index", channel: str = "memory") -> None:
        fields: dict[str, Any] = {"agent": agent, "channel": channel}
        super().__init__(**fields)
        self._chats = FrontdeskChatStore(manager, agent=agent, channel=channel)

    @classmethod
    def class_name(cls) -> str:
        return "FrontdeskMemoryStore"

    def conversation(self, key: str) -> sync.Session:
        """The Frontdesk session of a key: use it for branches, forks, search, compaction and context blocks."""
        return self._chats.conversation(key)

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """The active messages as the model sees them, with summaries in place of what they cover; or those that are
        archived; or (None) all, as they were added."""
        found = await asyncio.to_thread(lambda: chat_messages(self._find(key, status)))
        first = offset or 0
        return found[first:] if limit is None else found[first : first + limit]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        return len(await self.get_messages(key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add messages: all of them, or none. Raises frontdesk's `InvalidInputError` for archived messages after active
        ones, since those that are archived are the oldest."""
        await asyncio.to_thread(self._add, key, messages, status)

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Make these messages all that the key has."""
        await asyncio.to_thread(self._set, key, messages, status)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete the message at a position among all messages, and return it; None if there is none."""
        return await asyncio.to_thread(self._delete, key, idx)

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Delete the messages with a status, or all."""
        await asyncio.to_thread(self._delete_all, key, status)

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Delete the oldest active messages, and return them. For a summary, what it covers is deleted."""
        return await asyncio.to_thread(self._delete_oldest, key, n)

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest active messages, and return them. For a summary, what it covers is archived."""
        return await asyncio.to_thread(self._archive_oldest, key, n)

    async def get_keys(self) -> list[str]:
        return await asyncio.to_thread(self._chats.get_keys)

    def _find(self, key: str, status: MessageStatus | None) -> list[Message]:
        conversation = self.conversation(key)
        if status is None:
            return list(conversation.transcript())
        last = self._last_archived(conversation)
        if status is MessageStatus.ARCHIVED:
            return [] if last is None else list(conversation.transcript(leaf=last))
        if last is None:
            return list(conversation.history())
        active = {message.id for message in conversation.transcript(after=last)}
        active |= {SUMMARY_PREFIX + made.id for made in conversation.compactions() if made.to_id in active}
        return with_calls(message for message in conversation.history() if message.id in active)

    def _last_archived(self, conversation: sync.Session) -> str | None:
        """The last archived message; None if it is not in the conversation any more, so that nothing is archived."""
        if conversation.head() is None:
            return None
        last: str | None = conversation.info().metadata.get(_ARCHIVED)
        try:
            next(iter(conversation.transcript(after=last, limit=1)), None)
        except MessageNotFoundError:
            return None
        return last

    def _oldest(self, key: str, n: int) -> list[Message]:
        """The oldest active messages that together are at least `n` chat messages."""
        taken: list[Message] = []
        count = 0
        for message in self._find(key, MessageStatus.ACTIVE):
            if count >= n:
                break
            taken.append(message)
            count += len(chat_messages([message]))
        return taken

    def _last_of(self, conversation: sync.Session, message: Message) -> str:
        """The id of a message, or of the last one that a summary covers."""
        ends = {SUMMARY_PREFIX + made.id: made.to_id for made in conversation.compactions()}
        return ends.get(message.id, message.id)

    def _archive_oldest(self, key: str, n: int) -> list[ChatMessage]:
        conversation, oldest = self.conversation(key), self._oldest(key, n)
        if oldest:
            conversation.set_metadata(**{_ARCHIVED: self._last_of(conversation, oldest[-1])})
        return chat_messages(oldest)

    def _delete_oldest(self, key: str, n: int) -> list[ChatMessage]:
        conversation, oldest = self.conversation(key), self._oldest(key, n)
        if oldest:
            archived = {message.id for message in self._find(key, MessageStatus.ARCHIVED)}
            until = self._last_of(conversation, oldest[-1])
            ids = [message.id for message in conversation.transcript(leaf=until) if message.id not in archived]
            conversation.delete_messages(ids)
        return chat_messages(oldest)

    def _add(self, key: str, messages: list[ChatMessage], status: MessageStatus) -> None:
        if not messages:
            return
        if status is MessageStatus.ARCHIVED and self._find(key, MessageStatus.ACTIVE):
            raise InvalidInputError("archived messages are the oldest: archive the active ones first")
        conversation = self.conversation(key)
        appended = conversation.append_all([to_message(message) for message in messages])
        if status is MessageStatus.ARCHIVED:
            conversation.set_metadata(**{_ARCHIVED: appended[-1].message.id})

    def _set(self, key: str, messages: list[ChatMessage], status: MessageStatus) -> None:
        self._chats.set_messages(key, messages)
        conversation = self.conversation(key)
        head = conversation.head()
        last = head.id if head is not None and status is MessageStatus.ARCHIVED else None
        conversation.set_metadata(**{_ARCHIVED: last})

    def _delete(self, key: str, idx: int) -> ChatMessage | None:
        conversation = self.conversation(key)
        every = chat_messages_with_sources(list(conversation.transcript()))
        if not 0 <= idx < len(every):
            return None
        deleted, message = every[idx]
        if message.id == self._last_archived(conversation):
            conversation.set_metadata(**{_ARCHIVED: message.parent_id})
        conversation.delete_messages([message.id])
        return deleted

    def _delete_all(self, key: str, status: MessageStatus | None) -> None:
        if status is None:
            self._chats.delete_messages(key)
            return
        conversation = self.conversation(key)
        archived = [message.id for message in self._find(key, MessageStatus.ARCHIVED)]
        if status is MessageStatus.ARCHIVED:
            conversation.delete_messages(archived)
        else:
            known = set(archived)
            conversation.delete_messages(
                [message.id for message in conversation.transcript() if message.id not in known]
            )
