"""A server whose event stream ends on SIGTERM or SIGINT, for `test_fastapi`: `python shutdown_server.py PORT DIR`."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from frontdesk import SessionManager

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
manager = SessionManager(f"sqlite:///{FOLDER}/agents.db")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # The server closes its connections before it leaves this block. So streams are ended when the signal arrives.
    def stop(number: int, frame: FrameType | None) -> None:
        manager.end_events()
        handler = handlers[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    async with manager:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/ready")
async def ready() -> bool:
    return True


@app.get("/events")
async def events() -> StreamingResponse:
    stream = manager.events(after="start")  # a wrong position would be refused here, before the response begins

    async def lines() -> AsyncIterator[str]:
        async for event in stream:
            yield f"data: {json.dumps(event.to_dict())}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@app.post("/say")
async def say() -> None:
    await manager.append("chat", {"role": "user", "content": "Hi"})


@app.post("/slow")
async def slow() -> dict[str, bool]:
    """A request that is still at work when the server is asked to stop."""
    FOLDER.joinpath("slow").touch()
    while server.started and not server.should_exit:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    appended = await manager.append("chat", {"role": "assistant", "content": "Done"})
    return {"inserted": appended.inserted}


server = uvicorn.Server(uvicorn.Config(app, port=PORT, log_level="warning"))
server.run()
