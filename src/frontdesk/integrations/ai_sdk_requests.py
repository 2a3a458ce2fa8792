"""What `useChat` sends, and what it may change in a session: a page adds messages of the user and the outputs of tools
that it ran. It is not trusted to say anything in another role."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

from frontdesk.errors import InvalidInputError
from frontdesk.messages import Message, check_id, new_id
from frontdesk.session.session import Turn

_FIELDS = ("id", "role", "metadata", "parts")
_OUTPUTS = {"output-available": "output", "output-error": "errorText"}
"""states of a tool call that has ended, and the field that has its output"""


class _Body(msgspec.Struct):
    id: str
    messages: list[dict[str, Any]]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    messageId: str | None = None


@dataclass(frozen=True)
class ChatRequest:
    """A message of the user to add, outputs of tool calls (by the id of their call), or neither: then another answer is
    wanted. `target` is the message that is replaced, that has the calls, or whose answer is not wanted."""

    chat_id: str
    target: str | None
    message: dict[str, Any] | None = None
    outputs: dict[str, dict[str, Any]] | None = None


class Question(NamedTuple):
    """The message to answer, which is the head if it has no answer yet; None before the first message. `answer` is the
    answer that it has if the request was sent before."""

    id: str | None
    answer: Sequence[Message] = ()


def parse_request(body: bytes) -> ChatRequest:
    """The request in a body. Raises `InvalidInputError`, also for what a page may not write."""
    try:
        asked = msgspec.json.decode(body, type=_Body)
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"this is not a request of useChat: {error}") from None
    check_id(asked.id, "id of a chat")
    if asked.trigger == "regenerate-message":
        return ChatRequest(asked.id, asked.messageId)
    if not asked.messages:
        raise InvalidInputError("a message to answer is missing")
    given = asked.messages[-1]
    if given.get("role") == "user":
        return ChatRequest(asked.id, asked.messageId, message=_read_message(given, asked.messageId))
    outputs = _read_outputs(given) if given.get("role") == "assistant" else {}
    if not outputs:
        raise InvalidInputError("a page can send messages of the user and outputs of tool calls, and nothing else")
    return ChatRequest(asked.id, asked.messageId or check_id(given.get("id")), outputs=outputs)


async def place_request(turn: Turn, asked: ChatRequest) -> Question:
    """Store what a page sent. A message that replaces another one becomes a branch. Raises `InvalidInputError`,
    `MessageNotFoundError`."""
    if asked.message is not None:
        return await _add_message(turn, asked.message, asked.target)
    if asked.outputs is not None:
        return await _add_outputs(turn, asked.outputs, str(asked.target))
    message = await turn.head() if asked.target is None else await turn.get_message(asked.target)
    while message is not None and message.role != "user":
        message = None if message.parent_id is None else await turn.get_message(message.parent_id)
    question = None if message is None else message.id
    await turn.switch(question)
    return Question(question)


async def _find_again(turn: Turn, question: str) -> Question:
    """A message that the session had before, with its newest answer."""
    answer: list[Message] = []
    last = question
    while following := [message for message in await turn.branches(last) if message.role != "user"]:
        answer.append(following[-1])
        last = following[-1].id
    if not answer:
        await turn.switch(question)
    return Question(question, answer)


def _read_message(given: dict[str, Any], replaced: str | None) -> dict[str, Any]:
    """A message of the user, with the id that it gets. The page keeps the id of a message that it edits. Its new id is
    made from the content, so that the same request finds it again."""
    parts = given.get("parts")
    if not isinstance(parts, list) or not all(map(_is_said, parts)):
        raise InvalidInputError("a message of the user has parts, which are texts, files and data")
    message = {field: given[field] for field in _FIELDS if field in given}
    id = check_id(message.setdefault("id", new_id()))
    if id == replaced:
        message["id"] = hashlib.sha256(msgspec.json.encode(message)).hexdigest()[:32]
    return message


def _is_said(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and (kind in ("text", "file") or kind.startswith("data-"))


def _read_outputs(given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    parts = given.get("parts")
    ended = [part for part in parts if _has_ended(part)] if isinstance(parts, list) else []
    return {
        part["toolCallId"]: {field: part.get(field) for field in ("state", _OUTPUTS[part["state"]])} for part in ended
    }


def _has_ended(part: Any) -> bool:
    return isinstance(part, dict) and part.get("state") in (*_OUTPUTS,) and isinstance(part.get("toolCallId"), str)


async def _add_message(turn: Turn, message: dict[str, Any], replaced: str | None) -> Question:
    if replaced is None:
        appended = await turn.append(message)
    else:
        before = await turn.get_message(replaced)
        _check_author(before)
        appended = await turn.append(message, parent=before.parent_id)
    _check_author(appended.message)
    if appended.inserted:
        return Question(appended.message.id)
    question = await _find_again(turn, appended.message.id)
    if replaced is not None and question.answer:
        await turn.switch(question.answer[-1].id)  # back to an edit of before
    return question


def _check_author(message: Message) -> None:
    if message.role != "user":
        raise InvalidInputError(f"a page cannot replace the message {message.id!r}: the user did not write it")


async def _add_outputs(turn: Turn, outputs: dict[str, dict[str, Any]], id: str) -> Question:
    """Add outputs to the calls of a message. A call that has one keeps it, and everything else stays as it was
    written."""
    stored = await turn.get_message(id)
    known = stored.raw["parts"] if stored.role == "assistant" and stored.shape == "ui" else []
    if not any(part.get("toolCallId") in outputs for part in known):
        raise InvalidInputError(f"the message {id!r} has none of these tool calls")
    parts = [
        {**part, **outputs.get(part["toolCallId"], {})} if part.get("state") == "input-available" else part
        for part in known
    ]
    if parts == known:
        return await _find_again(turn, id)
    await turn.update_message({**stored.raw, "id": id, "parts": parts})
    await turn.switch(id)
    return Question(id)
