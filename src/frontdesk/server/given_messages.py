"""Messages as requests give them: with an id, a role, a text or a time that the message does not have itself."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from frontdesk.errors import InvalidInputError
from frontdesk.messages import Message, NewMessage, ingest
from frontdesk.messages.tokens import estimate_tokens
from frontdesk.moments import to_microseconds
from frontdesk.server.bodies import MessageBody, MessageListBody, UpdateBody
from frontdesk.server.wire import moment


def given_message(body: MessageBody | UpdateBody, id: str | None = None) -> Any:
    """What to append for a message of a request; `id` is that of its path, if it has one."""
    wanted = body.id if isinstance(body, MessageBody) else id
    if wanted is body.role is body.text is body.created_at is None:
        return body.message
    new = NewMessage(body.message, wanted, body.role, body.text)
    at = moment(body.created_at, "created_at")
    if at is None:
        return new
    return Message.from_stored(replace(ingest(new, counter=estimate_tokens), created_at=to_microseconds(at)), None)


def given_messages(body: MessageListBody) -> list[Any]:
    """The same for a list. Raises `InvalidInputError`."""
    if body.messages and body.new_messages:
        raise InvalidInputError("give `messages` or `new_messages`, not both")
    return [given_message(each) for each in body.new_messages] or body.messages
