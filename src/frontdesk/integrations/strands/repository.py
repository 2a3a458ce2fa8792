"""`FrontdeskSessionRepository`: the messages of an agent are a conversation; what else Strands keeps of a session are
states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage

from frontdesk import sync
from frontdesk.errors import StateExistsError
from frontdesk.integrations.pairs import with_calls
from frontdesk.integrations.strands.messages import number_of, session_messages
from frontdesk.keys import SessionKey
from frontdesk.messages import SUMMARY_PREFIX, Message, NewMessage, new_id

if TYPE_CHECKING:
    from strands.multiagent import MultiAgentBase


@dataclass
class StoredRecord:
    """What Strands keeps of a session, of an agent, or of several agents that work together."""

    data: dict[str, Any] = field(default_factory=dict)


class FrontdeskSessionRepository(SessionRepository):
    """Stores the messages of an agent under a key: the agent, the channel and Strands' session.

    Messages come back exactly as they were stored. If the conversation is compacted, `list_messages` returns the
    summary in place of what it covers; the originals stay."""

    def __init__(self, manager: sync.SessionManager, *, channel: str = "strands") -> None:
        self._manager = manager
        self._channel = channel
        self._records = manager.states(StoredRecord, name="strands", ttl=None)

    def conversation(self, session_id: str, agent_id: str = "default") -> sync.Session:
        """The Frontdesk session of an agent: use it for branches, forks, search, compaction and context blocks."""
        return self._manager.session(self._key(session_id, agent_id))

    # sessions

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Create a session. Raises `SessionException` if there is one with this id."""
        try:
            self._records.create(
                _record_id("session", session.session_id),
                value=StoredRecord(session.to_dict()),
                owner=self._key(session.session_id, "session"),
            )
        except StateExistsError:
            raise SessionException(f"Session {session.session_id} already exists") from None
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        record = self._records.get(_record_id("session", session_id))
        return None if record is None else Session.from_dict(record.data)

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Delete a session with all its agents and their messages. Raises `SessionException` if there is none."""
        if self.read_session(session_id) is None:
            raise SessionException(f"Session {session_id} does not exist")
        for info in self._manager.iterate(channel=self._channel, peer=session_id):
            self._manager.delete(info.id)
        for kind in ("agent", "multi-agent"):
            for id in self._record_ids(_record_id(kind, session_id, "")):
                self._records.delete(id)
        self._records.delete(_record_id("session", session_id))

    # agents

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        self._set("agent", session_id, session_agent.agent_id, session_agent.to_dict())

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        data = self._get("agent", session_id, agent_id)
        return None if data is None else SessionAgent.from_dict(data)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Replace what is stored of an agent. Raises `SessionException` if there is nothing."""
        before = self.read_agent(session_id, session_agent.agent_id)
        if before is None:
            raise SessionException(f"Agent {session_agent.agent_id} in session {session_id} does not exist")
        session_agent.created_at = before.created_at
        self._set("agent", session_id, session_agent.agent_id, session_agent.to_dict())

    # messages

    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        self.conversation(session_id, agent_id).append_all([NewMessage(session_message.to_dict(), id=new_id())])

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        found = self._find(session_id, agent_id, message_id)
        return None if found is None else SessionMessage.from_dict(found.raw)

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Replace a message, usually because it was redacted. Raises `SessionException` if there is none."""
        found = self._find(session_id, agent_id, session_message.message_id)
        if found is None:
            raise SessionException(f"Message {session_message.message_id} does not exist")
        session_message.created_at = found.raw["created_at"]
        changed = NewMessage(session_message.to_dict(), id=found.id)
        self.conversation(session_id, agent_id).update_message(changed)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        """What the model sees of the messages from position `offset` on, at most `limit`. A summary stays if it covers
        one of them, and no tool result is without its call. Raises `SessionException` if there is no such agent."""
        if self._get("agent", session_id, agent_id) is None:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
        conversation = self.conversation(session_id, agent_id)
        shown: Sequence[Message] = conversation.history()
        if offset > 0 and shown:
            most = conversation.path_length() - offset
            later = {message.id for message in conversation.transcript(reverse=True, limit=most)} if most > 0 else set()
            later |= {SUMMARY_PREFIX + made.id for made in conversation.compactions() if made.to_id in later}
            shown = [message for message in shown if message.id in later]
        return session_messages(with_calls(shown))[:limit]

    # several agents

    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        self._set("multi-agent", session_id, multi_agent.id, multi_agent.serialize_state())

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> dict[str, Any] | None:
        return self._get("multi-agent", session_id, multi_agent_id)

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        """Replace the state of several agents. Raises `SessionException` if there is none."""
        if self._get("multi-agent", session_id, multi_agent.id) is None:
            raise SessionException(f"MultiAgent state {multi_agent.id} in session {session_id} does not exist")
        self._set("multi-agent", session_id, multi_agent.id, multi_agent.serialize_state())

    def _find(self, session_id: str, agent_id: str, number: int) -> Message | None:
        """The message with a number. The newest ones, which Strands redacts, are found first."""
        transcript = self.conversation(session_id, agent_id).transcript(reverse=True)
        return next((message for message in transcript if number_of(message) == number), None)

    def _record_ids(self, prefix: str) -> list[str]:
        ids: list[str] = []
        cursor: str | None = None
        while True:
            page = self._records.list(prefix=prefix, limit=1000, cursor=cursor)
            ids += [found.id for found in page.items]
            cursor = page.next_cursor
            if cursor is None:
                return ids

    def _get(self, kind: str, session_id: str, name: str) -> dict[str, Any] | None:
        record = self._records.get(_record_id(kind, session_id, name))
        return None if record is None else record.data

    def _set(self, kind: str, session_id: str, name: str, data: dict[str, Any]) -> None:
        owner = self._key(session_id, name)
        self._records.set(_record_id(kind, session_id, name), StoredRecord(data), owner=owner)

    def _key(self, session_id: str, agent_id: str) -> SessionKey:
        return SessionKey(agent_id, self._channel, session_id)


def _record_id(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)
