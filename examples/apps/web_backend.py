"""A web backend for several tenants and several workers: answers, and every change, as server-sent events.

    uvicorn web_backend:app --workers 4

Needs `chat_bot.py` next to it. STORE names the store: by default a SQLite file that all workers share.
"""

import json
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Annotated

from chat_bot import answer, open_manager
from fastapi import Depends, FastAPI, Header, Request
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI
from pydantic import BaseModel

from frontdesk import Message, Page, SessionInfo, SessionKey, SessionManager
from frontdesk.stores import open_url


class Desk:
    """One store, and a manager for each tenant: nothing crosses a namespace."""

    def __init__(self) -> None:
        self.store = open_url(os.environ.get("STORE", "sqlite:///web.db"))
        self.client = AsyncOpenAI()
        self.managers: dict[str, SessionManager] = {}

    def manager(self, tenant: str) -> SessionManager:
        if tenant not in self.managers:
            self.managers[tenant] = open_manager(self.store, namespace=tenant)
        return self.managers[tenant]

    def end_streams(self) -> None:
        for manager in self.managers.values():
            manager.end_events()

    async def close(self) -> None:
        for manager in self.managers.values():
            await manager.close()
        await self.store.close()
        await self.client.close()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    app.state.desk = desk = Desk()

    def stop(number: int, frame: FrameType | None) -> None:
        desk.end_streams()
        handler = handlers[signal.Signals(number)]  # that of the server, which waits for open streams
        if callable(handler):
            handler(number, frame)

    numbers = (signal.SIGTERM, signal.SIGINT) if current_thread() is main_thread() else ()  # none in a TestClient
    handlers = {number: signal.signal(number, stop) for number in numbers}
    yield
    await desk.close()


app = FastAPI(lifespan=lifespan)


def desk_of(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


def manager_of(request: Request, x_tenant: Annotated[str, Header()]) -> SessionManager:
    """The tenant's manager. In production the tenant comes from the caller's credentials, never from a plain header."""
    return desk_of(request).manager(x_tenant)


Manager = Annotated[SessionManager, Depends(manager_of)]


class Question(BaseModel):
    text: str


@app.post("/guests/{guest}/messages")
async def ask(guest: str, question: Question, manager: Manager, request: Request) -> StreamingResponse:
    """Answer a guest. If the guest disconnects, the answer is cut off, and what was sent is kept."""
    session = manager.session(SessionKey("concierge", "web", guest))

    async def body() -> AsyncIterator[str]:
        async for text in answer(session, desk_of(request).client, question.text):
            yield f"data: {json.dumps(text)}\n\n"

    return StreamingResponse(body(), media_type="text/event-stream")


@app.get("/guests/{guest}/messages")
async def messages(guest: str, manager: Manager) -> list[Message]:
    return await manager.session(SessionKey("concierge", "web", guest)).history(last=50)


@app.post("/guests/{guest}/new")
async def new(guest: str, manager: Manager) -> SessionInfo:
    return await (await manager.new(SessionKey("concierge", "web", guest))).info()


@app.get("/sessions")
async def sessions(manager: Manager, cursor: str | None = None) -> Page[SessionInfo]:
    return await manager.list(agent="concierge", cursor=cursor)


@app.get("/guests/{guest}/events")
async def events(
    guest: str, manager: Manager, last_event_id: Annotated[str | None, Header()] = None
) -> StreamingResponse:
    """What happens to a guest's conversations. A client that reconnects sends the last id, and misses nothing."""
    changes = manager.events(after=last_event_id, session=SessionKey("concierge", "web", guest))

    async def body() -> AsyncIterator[str]:
        async for event in changes:
            yield f"id: {event.position}\nevent: {event.kind}\ndata: {json.dumps(event.to_dict())}\n\n"

    return StreamingResponse(body(), media_type="text/event-stream")
