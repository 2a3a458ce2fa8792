"""Usage of model calls, and totals."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from frontdesk.http.addresses import read_query_ref
from frontdesk.manager.manager import SessionManager
from frontdesk.records import Page, Stats, Usage, UsageEntry
from frontdesk.server.bodies import UsageBody
from frontdesk.server.routes.parts import AccessOf, RefOf, router, words
from frontdesk.server.telemetry import note_usage
from frontdesk.server.wire import answer, moment

routes = router("usage")
Text = str | None


@routes.get("/usage", response_model=Usage, description=words(SessionManager.usage))
async def read_usage(
    access: AccessOf,
    session: Annotated[Text, Query(description="an id, or `@` and a key")] = None,
    agent: Text = None,
    channel: Text = None,
    peer: Text = None,
    model: Text = None,
    since: date | None = None,
    until: date | None = None,
    by: Annotated[list[str] | None, Query(description="an empty one: one row for all")] = None,
) -> Response:
    where = access.narrow({"agent": agent, "channel": channel, "peer": peer})
    ref = None if session is None else read_query_ref(session)
    if ref is not None:
        await access.session(ref)
    fields: Any = ("day",) if by is None else [field for field in by if field]
    usage = await access.manager.usage(session=ref, **where, model=model, since=since, until=until, by=fields)
    return answer(usage)


@routes.post("/sessions/{ref}/usage", response_model=dict[str, bool], description=words(SessionManager.add_usage))
async def add_usage(request: Request, access: AccessOf, ref: RefOf, body: UsageBody) -> Response:
    values = body.model_dump(exclude={"at"})
    note_usage(request.scope, body.model, body.input_tokens, body.output_tokens)
    return answer({"added": await access.manager.add_usage(ref, **values, at=moment(body.at, "at"))})


@routes.get("/sessions/{ref}/usage", response_model=Page[UsageEntry], description=words(SessionManager.usage_entries))
async def read_entries(access: AccessOf, ref: RefOf, limit: int = 50, cursor: Text = None) -> Response:
    return answer(await access.manager.usage_entries(ref, limit=limit, cursor=cursor))


@routes.get("/stats", response_model=Stats, description=words(SessionManager.stats))
async def read_stats(access: AccessOf) -> Response:
    access.require_unbound()
    return answer(await access.manager.stats())
