"""History for Microsoft's Agent Framework: `Agent(..., context_providers=[FrontdeskHistoryProvider(manager)])`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from frontdesk.errors import InvalidInputError
from frontdesk.extras import needs_extra
from frontdesk.integrations.pairs import as_functions
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.messages import Message as StoredMessage
from frontdesk.messages import NewMessage, formats, new_id
from frontdesk.session.session import Session

with needs_extra(__name__, "agent-framework"):
    from agent_framework import Content, HistoryProvider, Message
    from agent_framework.exceptions import ContentError

_SHAPE = "agent-framework"


class FrontdeskHistoryProvider(HistoryProvider):
    """Loads the history of a session before a run, and stores what the run adds, under a key: the agent, the channel
    and the session.

    Messages come back exactly as they were stored. If the conversation is compacted, the agent gets the summary in
    place of what it covers; the originals stay."""

    def __init__(
        self,
        manager: SessionManager,
        *,
        agent: str = "agent",
        channel: str = "agent-framework",
        source_id: str = "frontdesk",
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
    ) -> None:
        """`agent` and `channel` are those of the key. The other options are those of every history provider."""
        super().__init__(
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self._manager = manager
        self._agent = agent
        self._channel = channel

    def conversation(self, session_id: str | None) -> Session:
        """The Frontdesk session behind a session of the framework: use it for branches, forks, search, compaction and
        context blocks. Raises `InvalidInputError` without an id."""
        if not session_id:
            raise InvalidInputError("a session needs an id: run the agent with `session=agent.create_session()`")
        return self._manager.session(SessionKey(self._agent, self._channel, session_id))

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """What the model sees of a session."""
        return _to_messages(await self.conversation(session_id).history())

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Store messages: all of them, or none. If they begin with those that the session ends with, as when a client
        sends a whole conversation again, these are not stored twice."""
        conversation = self.conversation(session_id)
        last = [stored async for stored in conversation.transcript(reverse=True, limit=max(1, len(messages)))]
        new = _without_repeated(last[::-1], messages)
        if new:
            await conversation.append_all([NewMessage(message.to_dict(), id=new_id()) for message in new])


def _without_repeated(stored: Sequence[StoredMessage], messages: Sequence[Message]) -> Sequence[Message]:
    """Messages without the longest beginning that is the end of what is stored. One user message without an id is no
    repetition: users say the same thing twice."""
    ends = [_identity(message.raw) if message.shape == _SHAPE else None for message in stored]
    starts = [_identity(message.to_dict()) for message in messages]
    for overlap in range(min(len(ends), len(starts)), 0, -1):
        is_repeated_input = overlap == 1 and messages[0].role == "user" and messages[0].message_id is None
        if ends[-overlap:] == starts[:overlap] and not is_repeated_input:
            return messages[overlap:]
    return messages


def _identity(raw: dict[str, Any]) -> tuple[Any, ...]:
    id = raw.get("message_id")
    return (id,) if id is not None else (raw["role"], raw["contents"])


def _to_messages(messages: Sequence[StoredMessage]) -> list[Message]:
    """Messages of the framework as they were stored; summaries, and messages of others, written for its models."""
    written: list[Message] = []
    for is_own, run in groupby(messages, key=lambda message: message.shape == _SHAPE):
        if is_own:
            written += [Message.from_dict(message.raw) for message in run]
        else:
            written += [_from_openai(raw) for raw in as_functions(formats.render(list(run), "openai"))]
    return written


def _from_openai(raw: dict[str, Any]) -> Message:
    content = raw.get("content") or []
    if raw["role"] == "tool":
        return Message("tool", [Content.from_function_result(raw["tool_call_id"], result=content or "")])
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    contents = [made for block in blocks for made in _contents(block)]
    for call in raw.get("tool_calls", ()):
        function = call["function"]
        contents.append(Content.from_function_call(call["id"], function["name"], arguments=function["arguments"]))
    return Message(raw["role"], contents)


def _contents(block: dict[str, Any]) -> Iterator[Content]:
    match block["type"]:
        case "text":
            yield Content.from_text(block["text"])
        case "image_url":
            url = block["image_url"]["url"]
            yield _file(url, None if url.startswith("data:") else "image/*")
        case "file" if "file_data" in block["file"]:
            yield _file(block["file"]["file_data"], None)
        case kind:
            yield Content.from_text(f"[{kind}]")


def _file(uri: str, media_type: str | None) -> Content:
    try:
        return Content.from_uri(uri, media_type=media_type)
    except ContentError:
        return Content.from_text("[file]")  # it is not a URI, as some APIs allow it
