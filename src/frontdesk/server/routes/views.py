"""What the model gets, and why it is not what was written."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from frontdesk.records import ContextUsage
from frontdesk.server.bodies import ContextUsageBody, PrepareBody
from frontdesk.server.gate import needs
from frontdesk.server.routes.parts import SessionOf, router, words
from frontdesk.server.shortening import cut_content
from frontdesk.server.wire import answer
from frontdesk.session import Session
from frontdesk.session.records import ContextBreakdown, Outline, Timeline, TurnInfo, ViewPage
from frontdesk.tools import Tool

routes = router("what the model gets")
Text = str | None


@routes.get("/sessions/{ref}/history", response_model=dict[str, Any], description=words(Session.history))
async def read_history(
    session: SessionOf,
    leaf: Text = None,
    last: int | None = None,
    max_tokens: int | None = None,
    format: Text = None,
    notes: str = "user",
    alternate: bool = False,
) -> Response:
    options: dict[str, Any] = {"format": format, "notes": notes, "alternate": alternate}
    messages = await session.history(leaf=leaf, last=last, max_tokens=max_tokens, **options)
    return answer({"messages": messages})


@routes.post("/sessions/{ref}/prepare", response_model=dict[str, Any], description=words(Session.prepare))
async def prepare(session: SessionOf, body: PrepareBody) -> Response:
    options: dict[str, Any] = body.model_dump()
    if isinstance(body.tools, list):
        options["tools"] = {each.name: Tool(**each.model_dump(), run=_not_here) for each in body.tools}
    return answer(await session.prepare(options.pop("format"), **options))


def _not_here() -> str:
    """A tool of the caller is only described to the model here."""
    raise NotImplementedError


@routes.get("/sessions/{ref}/view", response_model=ViewPage, description=words(Session.view))
async def read_view(
    session: SessionOf,
    leaf: Text = None,
    position: int | None = None,
    limit: int = 50,
    max_tokens: int | None = None,
    max_content: int | None = None,
) -> Response:
    page = await session.view(leaf=leaf, position=position, limit=limit, max_tokens=max_tokens)
    if max_content is None:
        return answer(page)
    document = page.to_dict()
    for item in document["items"]:
        item["cut"] = cut_content(item["message"], max(1, max_content))
    return answer(document)


@routes.get("/sessions/{ref}/breakdown", response_model=ContextBreakdown, description=words(Session.context_breakdown))
async def read_breakdown(session: SessionOf) -> Response:
    return answer(await session.context_breakdown())


@routes.get("/sessions/{ref}/outline", response_model=Outline, description=words(Session.outline))
async def read_outline(session: SessionOf) -> Response:
    return answer(await session.outline())


@routes.get("/sessions/{ref}/timeline", response_model=Timeline, description=words(Session.timeline))
async def read_timeline(session: SessionOf, leaf: Text = None, points: int = 400) -> Response:
    return answer(await session.timeline(leaf=leaf, points=points))


@routes.get("/sessions/{ref}/turn", response_model=TurnInfo, description=words(Session.turn_info))
async def read_turn(session: SessionOf) -> Response:
    return answer(await session.turn_info())


@routes.get("/sessions/{ref}/context-usage", response_model=ContextUsage, description=words(Session.context_usage))
async def read_context_usage(session: SessionOf) -> Response:
    return answer(await session.context_usage())


@routes.post("/sessions/{ref}/context-usage", response_model=ContextUsage, description=words(Session.context_usage))
@needs("read")
async def read_context_usage_with_tools(session: SessionOf, body: ContextUsageBody) -> Response:
    return answer(await session.context_usage(tools=body.tools))
