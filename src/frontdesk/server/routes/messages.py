"""Messages: append, change and delete them, and read them as they were written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from frontdesk import ANY_HEAD, FOLLOW_HEAD
from frontdesk.messages import Message
from frontdesk.records import Appended
from frontdesk.server.bodies import (
    AppendAllBody,
    AppendBody,
    Body,
    DeletedCount,
    DeleteMessagesBody,
    HeadBody,
    ItemList,
    Messages,
    OneMessage,
    ReplaceMessagesBody,
    SwitchBody,
    UpdateBody,
    UpsertBody,
    WholeMessage,
)
from frontdesk.server.given_messages import given_message, given_messages
from frontdesk.server.routes.parts import MessageId, SessionOf, router, words
from frontdesk.server.shortening import cut_content
from frontdesk.server.streams import MESSAGES, started
from frontdesk.server.wire import answer, lines
from frontdesk.session import Session
from frontdesk.session.records import PathPage

routes = router("messages")
Text = str | None


@routes.get("/sessions/{ref}/messages", response_model=PathPage, description=words(Session.page))
async def read_page(
    session: SessionOf,
    leaf: Text = None,
    position: int | None = None,
    around: Text = None,
    limit: int = 50,
    max_content: Annotated[
        int | None, Query(ge=1, description="texts longer than this are cut, and `cut` says how long the content is")
    ] = None,
) -> Response:
    page = await session.page(leaf=leaf, position=position, around=around, limit=limit)
    if max_content is None:
        return answer(page)
    document = page.to_dict()
    for entry in document["entries"]:
        entry["cut"] = cut_content(entry["message"], max_content)
    return answer(document)


@routes.post("/sessions/{ref}/messages", response_model=Appended, status_code=201, description=words(Session.append))
async def append(session: SessionOf, body: AppendBody) -> Response:
    appended = await session.append(
        given_message(body),
        parent=body.parent if "parent" in body.model_fields_set else FOLLOW_HEAD,
        expected_head=_expected(body),
        reopen=body.reopen,
    )
    return answer(appended, 201 if appended.inserted else 200)


@routes.post("/sessions/{ref}/messages/batch", response_model=ItemList[Appended], description=words(Session.append_all))
async def append_all(session: SessionOf, body: AppendAllBody) -> Response:
    appended = await session.append_all(
        given_messages(body),
        parent=body.parent if "parent" in body.model_fields_set else FOLLOW_HEAD,
        expected_head=_expected(body),
        reopen=body.reopen,
    )
    return answer({"items": appended})


@routes.put("/sessions/{ref}/messages", response_model=Messages, description=words(Session.replace_messages))
async def replace_messages(session: SessionOf, body: ReplaceMessagesBody) -> Response:
    return answer({"messages": await session.replace_messages(given_messages(body), expected_head=_expected(body))})


@routes.delete("/sessions/{ref}/messages", response_model=dict[str, Any], description=words(Session.clear_messages))
async def clear_messages(request: Request, session: SessionOf, expected_head: Text = None) -> Response:
    await session.clear_messages(expected_head=_expected_in(request))
    return answer({})


@routes.post("/sessions/{ref}/messages/delete", response_model=DeletedCount, description=words(Session.delete_messages))
async def delete_messages(session: SessionOf, body: DeleteMessagesBody) -> Response:
    return answer({"deleted": await session.delete_messages(body.ids, expected_head=_expected(body))})


@routes.post("/sessions/{ref}/messages/pop", response_model=OneMessage, description=words(Session.pop))
async def pop(session: SessionOf, body: HeadBody) -> Response:
    return answer({"message": await session.pop(expected_head=_expected(body))})


@routes.get(
    "/sessions/{ref}/messages/{message_id}", response_model=WholeMessage, description=words(Session.get_message)
)
async def get_message(session: SessionOf, message_id: MessageId) -> Response:
    message = await session.get_message(message_id)
    return answer({"message": message, "raw": message.raw, "shape": message.shape, "text": message.text})


@routes.get("/sessions/{ref}/messages/{message_id}/raw", response_model=Any)
async def get_raw_message(session: SessionOf, message_id: MessageId) -> Response:
    """The message exactly as it was appended, as a file."""
    message = await session.get_message(message_id)
    headers = {"Content-Disposition": 'attachment; filename="message.json"'}
    return answer(message.raw, headers=headers)


@routes.put("/sessions/{ref}/messages/{message_id}", response_model=Appended, description=words(Session.upsert))
async def upsert(session: SessionOf, message_id: MessageId, body: UpsertBody) -> Response:
    appended = await session.upsert(given_message(body, message_id), reopen=body.reopen)
    return answer(appended, 201 if appended.inserted else 200)


@routes.patch(
    "/sessions/{ref}/messages/{message_id}", response_model=OneMessage, description=words(Session.update_message)
)
async def update_message(session: SessionOf, message_id: MessageId, body: UpdateBody) -> Response:
    return answer({"message": await session.update_message(given_message(body, message_id))})


@routes.delete("/sessions/{ref}/messages/{message_id}", response_model=DeletedCount)
async def delete_message(
    request: Request, session: SessionOf, message_id: MessageId, expected_head: Text = None
) -> Response:
    """Delete one message permanently, as `delete_messages` does."""
    return answer({"deleted": await session.delete_messages([message_id], expected_head=_expected_in(request))})


@routes.get(
    "/sessions/{ref}/transcript", response_model=None, responses=MESSAGES, description=words(Session.transcript)
)
async def read_transcript(
    session: SessionOf,
    leaf: Text = None,
    after: Text = None,
    limit: int | None = None,
    reverse: bool = False,
    raw: Annotated[bool, Query(description="add each message as it was appended")] = False,
) -> Response:
    stream = session.transcript(leaf=leaf, after=after, limit=limit, reverse=reverse)
    return lines(_with_raw(await started(stream), raw))


@routes.get("/sessions/{ref}/head", response_model=OneMessage, description=words(Session.head))
async def get_head(session: SessionOf) -> Response:
    return answer({"message": await session.head()})


@routes.put("/sessions/{ref}/head", response_model=OneMessage, description=words(Session.switch))
async def switch(session: SessionOf, body: SwitchBody) -> Response:
    return answer({"message": await session.switch(body.leaf, expected_head=_expected(body))})


@routes.get("/sessions/{ref}/leaves", response_model=Messages, description=words(Session.leaves))
async def get_leaves(session: SessionOf) -> Response:
    return answer({"messages": await session.leaves()})


@routes.get("/sessions/{ref}/branches", response_model=Messages, description=words(Session.branches))
async def get_branches(session: SessionOf, message: Text = None) -> Response:
    return answer({"messages": await session.branches(message)})


@routes.get("/sessions/{ref}/path-length", response_model=dict[str, int], description=words(Session.path_length))
async def get_path_length(session: SessionOf, leaf: Text = None) -> Response:
    return answer({"length": await session.path_length(leaf)})


def _expected(body: Body) -> Any:
    """The head that the caller expects: also none at all, if that was sent."""
    return body.given("expected_head").get("expected_head", ANY_HEAD)


def _expected_in(request: Request) -> Any:
    """The same in a query, where an empty text means that there is no head."""
    given = request.query_params.get("expected_head")
    return ANY_HEAD if given is None else given or None


async def _with_raw(stream: AsyncIterator[Message], raw: bool) -> AsyncIterator[Any]:
    async for message in stream:
        yield {**message.to_dict(), "raw": message.raw} if raw else message
