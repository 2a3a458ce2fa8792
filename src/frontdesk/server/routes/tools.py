"""The tools for models: their definitions, and calls of them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Path, Query
from starlette.responses import Response

from frontdesk.config.settings import ANSWER_TOKENS
from frontdesk.context.tools import UPDATE
from frontdesk.errors import ConfigurationError, InvalidInputError, NotFoundError, SessionNotFoundError
from frontdesk.manager.manager import SessionManager
from frontdesk.server.access import CallerAccess
from frontdesk.server.bodies import ManagerToolBody, ToolAnswer, ToolBody
from frontdesk.server.gate import needs
from frontdesk.server.routes.parts import AccessOf, SessionOf, router, words
from frontdesk.server.wire import answer
from frontdesk.session import Session
from frontdesk.tools import Tool

routes = router("tools")
Name = Annotated[str, Path(description="the name of a tool")]
Scope = Annotated[
    str | None, Query(description="a name, filters as a JSON object, or nothing: no search of other conversations")
]


@routes.get("/sessions/{ref}/tools", response_model=dict[str, Any], description=words(Session.tools))
async def list_tools(access: AccessOf, session: SessionOf, scope: Scope = "guest") -> Response:
    created_at = await _created_at(session)
    tools = await _tools(access, session, _scope(scope))
    definitions = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools.values()
    ]
    return answer({"tools": definitions, "created_at": created_at})


@routes.post(
    "/sessions/{ref}/tools/{name}",
    response_model=ToolAnswer,
    description="Call a tool of a session, and return its text for the model.\n\n" + words(Tool),
)
async def call_tool(access: AccessOf, session: SessionOf, name: Name, body: ToolBody) -> Response:
    if body.created_at is not None and body.created_at != await _created_at(session):
        raise SessionNotFoundError(session.id, access.manager.namespace)  # another session has this id now
    tools = await _tools(access, session, body.scope)
    if name == UPDATE and access.bounds:
        await _check_label(access, session, body.arguments)
    return await _call(tools, name, body.arguments)


@routes.post("/tools/{name}", response_model=ToolAnswer, description=words(SessionManager.tools))
@needs("read")
async def call_manager_tool(access: AccessOf, name: Name, body: ManagerToolBody) -> Response:
    access.require_unbound()
    scope: Any = body.scope
    most = ANSWER_TOKENS if body.max_tokens is None else body.max_tokens
    try:
        tools = access.manager.tools(scope=scope, max_tokens=most)
    except ConfigurationError as error:
        raise InvalidInputError(str(error)) from None
    return await _call(tools, name, body.arguments)


async def _created_at(session: Session) -> str | None:
    """Distinguishes the session of a caller's tools from another one that gets its id later."""
    try:
        return (await session.info()).created_at.isoformat()
    except SessionNotFoundError:
        return None


def _scope(given: str | None) -> Any:
    if not given:
        return None
    if not given.startswith("{"):
        return given
    try:
        return msgspec.json.decode(given, type=dict[str, Any])
    except msgspec.DecodeError:
        raise InvalidInputError("scope must be a name or a JSON object") from None


async def _tools(access: CallerAccess, session: Session, scope: Any) -> dict[str, Tool]:
    """The tools of a session. A restricted caller gets none that reach further than its key."""
    if access.bounds and scope not in ("session", "guest", None):
        access.require_unbound()
    try:
        return await session.tools(scope=scope)
    except ConfigurationError as error:
        raise InvalidInputError(str(error)) from None


async def _check_label(access: CallerAccess, session: Session, arguments: dict[str, Any] | str) -> None:
    """A restricted caller does not write a block that others share, by a tool either. Raises `RefusedError`. What is
    wrong with the arguments, the tool says."""
    try:
        given = msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
    except msgspec.DecodeError:
        return
    label = given.get("label") if isinstance(given, dict) else None
    shared = [block for block in await session.context_blocks() if block.label == label]
    for block in shared:
        access.check_block(block)


async def _call(tools: dict[str, Tool], name: str, arguments: Any) -> Response:
    if name not in tools:
        raise NotFoundError(f"there is no tool {name!r}: there are {', '.join(tools) or 'none'}", name=name)
    return answer({"text": await tools[name].call(arguments)})
