"""Compactions and the memory of a session."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Request
from starlette.responses import Response

from frontdesk.errors import ConfigurationError, ModelOverflowError
from frontdesk.http.addresses import read_id
from frontdesk.records import Compaction
from frontdesk.server.bodies import CompactBody, CompactionBody, ItemList
from frontdesk.server.gate import needs
from frontdesk.server.problems import failure
from frontdesk.server.routes.parts import SessionOf, router, words
from frontdesk.server.streams import MESSAGES, started
from frontdesk.server.wire import answer, lines
from frontdesk.session import Session

routes = router("compaction")


def compaction_id(compaction_id: Annotated[str, Path(description="the id of a compaction")]) -> str:
    return read_id(compaction_id)


CompactionId = Annotated[str, Depends(compaction_id)]


@routes.get("/sessions/{ref}/compactions", response_model=ItemList[Compaction], description=words(Session.compactions))
async def list_compactions(session: SessionOf) -> Response:
    return answer({"items": await session.compactions()})


@routes.post(
    "/sessions/{ref}/compactions", response_model=Compaction, status_code=201, description=words(Session.add_compaction)
)
async def add_compaction(session: SessionOf, body: CompactionBody) -> Response:
    return answer(await session.add_compaction(body.summary, body.from_id, body.to_id), 201)


@routes.delete(
    "/sessions/{ref}/compactions/{compaction_id}",
    response_model=dict[str, Any],
    description=words(Session.undo_compaction),
)
async def undo_compaction(session: SessionOf, compaction_id: CompactionId) -> Response:
    await session.undo_compaction(compaction_id)
    return answer({})


@routes.get(
    "/sessions/{ref}/compactions/{compaction_id}/messages",
    response_model=None,
    responses=MESSAGES,
    description=words(Session.expand),
)
async def expand(session: SessionOf, compaction_id: CompactionId) -> Response:
    return lines(await started(session.expand(compaction_id)))


@routes.post("/sessions/{ref}/compact", response_model=dict[str, Any], description=words(Session.compact))
@needs("write", long=True)
async def compact(session: SessionOf, body: CompactBody) -> Response:
    return answer({"result": await session.compact(instructions=body.instructions, prompt=body.prompt)})


@routes.get(
    "/sessions/{ref}/needs-compaction", response_model=dict[str, bool], description=words(Session.needs_compaction)
)
async def needs_compaction(session: SessionOf) -> Response:
    return answer({"needed": await session.needs_compaction()})


@routes.post("/sessions/{ref}/overflow", response_model=dict[str, bool], description=words(Session.on_overflow))
@needs("write", long=True)
async def on_overflow(session: SessionOf) -> Response:
    """The caller has found that the error of its model call means that the context was too long."""
    error = ModelOverflowError("the context of a model call was too long", model="")
    return answer({"shorter": await session.on_overflow(error)})


@routes.get(
    "/sessions/{ref}/needs-memory-refresh",
    response_model=dict[str, bool],
    description=words(Session.needs_memory_refresh),
)
async def needs_memory_refresh(session: SessionOf) -> Response:
    return answer({"needed": await session.needs_memory_refresh()})


@routes.post(
    "/sessions/{ref}/refresh-memory", response_model=dict[str, list[str]], description=words(Session.refresh_memory)
)
@needs("write", long=True)
async def refresh_memory(request: Request, session: SessionOf) -> Response:
    try:
        return answer({"facts": await session.refresh_memory()})
    except ConfigurationError as error:  # nothing is broken: this server has no extractor
        return failure(error, request.state.request_id, status=409)
