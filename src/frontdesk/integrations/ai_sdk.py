"""Chats of the AI SDK: the endpoints that `useChat` calls, with messages that are kept, branches for edited and
regenerated messages, and answers that continue when the connection is cut off."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec

from frontdesk.error_codes import error_code
from frontdesk.errors import FrontdeskError
from frontdesk.extras import needs_extra
from frontdesk.integrations.ai_sdk_chunks import Chunk, build_message, split_message
from frontdesk.integrations.ai_sdk_requests import ChatRequest, parse_request, place_request
from frontdesk.integrations.ai_sdk_streams import LiveStream, read_live, read_stored
from frontdesk.manager.manager import SessionManager
from frontdesk.messages import Message, formats, new_id
from frontdesk.session.session import Session, Turn
from frontdesk.unattended import log_failure

with needs_extra(__name__, "ai-sdk"):
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

__all__ = ["Chunk", "chat_routes", "text_chunks"]

OpenSession = Callable[[Request, str], Awaitable[Session]]
Answer = Callable[[Turn], AsyncIterable[Chunk]]
Chunks = AsyncIterator[dict[str, Any]]
_HEADERS = {
    "x-vercel-ai-ui-message-stream": "v1",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}
_UNFINISHED = {"type": "error", "errorText": "The answer could not be finished."}
_SHOWN = 500
_log = logging.getLogger("frontdesk.integrations.ai_sdk")


def chat_routes(
    manager: SessionManager, open_session: OpenSession, answer: Answer, *, path: str = "/api/chat"
) -> list[Route]:
    """The routes of a chat, for a Starlette or FastAPI application: `POST path` answers a message, `GET
    path/{id}/stream` continues an answer that was cut off, and `GET path/{id}` returns the messages of a chat.

    `open_session(request, chat_id)` returns the session of a chat. It decides who may use which: raise an
    `HTTPException` for others. `answer(turn)` yields the chunks of an answer to the last message; `turn` is the session
    to read from. The answer continues when its reader disconnects, and is stored as one message when it is complete.

    A page can add messages of the user, and outputs of tools that it ran; everything else is refused with 400. A
    message that is sent again gets the answer that it has."""
    chat = _Chat(manager, open_session, answer)
    return [
        Route(path, chat.post, methods=["POST"]),
        Route(f"{path}/{{id:path}}/stream", chat.resume, methods=["GET"]),
        Route(f"{path}/{{id:path}}", chat.load, methods=["GET"]),
    ]


async def text_chunks(texts: AsyncIterable[str]) -> AsyncIterator[Chunk]:
    """The chunks of an answer that is only text, such as the deltas of a model."""
    part = new_id()
    yield {"type": "text-start", "id": part}
    async for text in texts:
        yield {"type": "text-delta", "id": part, "delta": text}
    yield {"type": "text-end", "id": part}


class _Chat:
    def __init__(self, manager: SessionManager, open_session: OpenSession, answer: Answer) -> None:
        self._manager = manager
        self._open_session = open_session
        self._answer = answer
        self._live: dict[str, LiveStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def post(self, request: Request) -> Response:
        try:
            asked = parse_request(await request.body())
            session = await self._open_session(request, asked.chat_id)
            live = await self._find_live(session, asked)
            if live is not None:
                return _stream(read_live(live))
            started: asyncio.Future[Chunks] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(self._run(session, asked, started))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return _stream(await asyncio.shield(started))
        except FrontdeskError as error:
            return _refused(error)

    async def resume(self, request: Request) -> Response:
        try:
            session = await self._open_session(request, request.path_params["id"])
            info = await self._manager.get(await _id_of(session))
            live = None if info is None else self._live.get(info.id)
            if live is not None:
                return Response(status_code=204) if live.stored.done else _stream(read_live(live))
            stored = None if info is None else await read_stored(self._manager, info.id)
            return Response(status_code=204) if stored is None else _stream(stored)
        except FrontdeskError as error:
            return _refused(error)

    async def load(self, request: Request) -> Response:
        """The last messages of the path, as they were written."""
        try:
            session = await self._open_session(request, request.path_params["id"])
            page = await session.page(limit=_SHOWN)
            messages = formats.render([entry.message for entry in page.entries], "ui")
            return Response(msgspec.json.encode(messages), media_type="application/json")
        except FrontdeskError as error:
            return _refused(error)

    async def _find_live(self, session: Session, asked: ChatRequest) -> LiveStream | None:
        """The answer to the same message, if this process writes it now."""
        if asked.message is None:
            return None
        live = self._live.get(await _id_of(session))
        return live if live is not None and live.question == asked.message["id"] else None

    async def _run(self, session: Session, asked: ChatRequest, started: asyncio.Future[Chunks]) -> None:
        """Write the answer in a turn, or replay the one that a repeated message has. What is wrong before it begins is
        for the caller of the request."""
        try:
            async with session.turn() as turn:
                question = await place_request(turn, asked)
                if question.answer:
                    started.set_result(_replay(question.answer))
                    return
                live = LiveStream(self._manager, turn.id, turn.key, turn.number, question.id)
                self._live[turn.id] = live
                try:
                    await self._write(turn, live, started)
                finally:
                    self._live.pop(turn.id, None)
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _write(self, turn: Turn, live: LiveStream, started: asyncio.Future[Chunks]) -> None:
        message_id = new_id()
        try:
            await live.start({"type": "start", "messageId": message_id})
            started.set_result(read_live(live))
            is_complete = await self._read_answer(turn, live)
            await self._store(turn, live, message_id)
            if is_complete:
                live.add({"type": "finish"})
        except FrontdeskError as error:
            log_failure(_log, error, "an answer could not be stored")
            live.add(_UNFINISHED)
        finally:
            await live.finish()

    async def _read_answer(self, turn: Turn, live: LiveStream) -> bool:
        """Add the chunks of the answer, and return whether they are complete."""
        try:
            async for chunk in self._answer(turn):
                if chunk.get("type") not in ("start", "finish"):
                    live.add(chunk)
        except Exception as error:
            log_failure(_log, error, "an answer failed")
            live.add(_UNFINISHED)
            return False
        return True

    async def _store(self, turn: Turn, live: LiveStream, message_id: str) -> None:
        message = build_message(message_id, live.stored.chunks)
        if message["parts"]:
            await turn.append(message)


async def _id_of(session: Session) -> str:
    """The id of a session; that of one that does not exist yet is not known, and there is nothing to resume."""
    await session.head()
    try:
        return session.id
    except FrontdeskError:
        return "-"


async def _replay(answer: Sequence[Message]) -> Chunks:
    """The chunks of a stored answer, as one message."""
    yield {"type": "start", "messageId": answer[-1].id}
    for number, message in enumerate(formats.render(answer, "ui")):
        for chunk in split_message(message, number):
            yield chunk
    yield {"type": "finish"}


def _stream(chunks: Chunks) -> StreamingResponse:
    async def write() -> AsyncIterator[bytes]:
        async for chunk in chunks:
            yield b"data: %b\n\n" % msgspec.json.encode(chunk)
        yield b"data: [DONE]\n\n"

    return StreamingResponse(write(), media_type="text/event-stream", headers=_HEADERS)


def _refused(error: FrontdeskError) -> Response:
    document = msgspec.json.encode({"error": str(error), "code": error_code(error).code})
    return Response(document, error_code(error).status, media_type="application/json")
