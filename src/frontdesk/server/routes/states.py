"""Typed states as JSON objects, with their version as ETag."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from pydantic import RootModel
from starlette.responses import Response

from frontdesk.errors import InvalidInputError, StateNotFoundError, StateVersionError
from frontdesk.http.addresses import read_id
from frontdesk.records import Page
from frontdesk.server.access import CallerAccess
from frontdesk.server.bodies import Count, Deleted, DeletedCount, StateBody
from frontdesk.server.problems import RefusedError, failure
from frontdesk.server.routes.parts import AccessOf, router, to_key, words
from frontdesk.server.versions import if_match_created, tag
from frontdesk.server.wire import answer
from frontdesk.states import StateInfo, States

routes = router("states")
Text = str | None
_RESERVED = "frontdesk:"


class JsonState(RootModel[Any]):
    """Any JSON value, so that the server can keep states whose type only its callers know."""


def state_name(name: Annotated[str, Path(description="the name of the states, percent-encoded")]) -> str:
    decoded = read_id(name)
    if decoded.startswith(_RESERVED):
        raise RefusedError(403, "forbidden", f"names that begin with {_RESERVED!r} are reserved")
    return decoded


def state_id(id: Annotated[str, Path(description="the id of a state, percent-encoded")]) -> str:
    return read_id(id)


Name = Annotated[str, Depends(state_name)]
StateId = Annotated[str, Depends(state_id)]
TypeVersion = Annotated[int, Query(ge=1, description="the version of the type of the value")]


def _states(access: CallerAccess, name: str, version: int = 1, **options: Any) -> States[JsonState]:
    access.require_unbound()
    return access.manager.states(JsonState, name=name, version=version, **options)


@routes.get("/states/{name}", response_model=Page[StateInfo], description=words(States.list))
async def list_states(access: AccessOf, name: Name, prefix: str = "", limit: int = 50, cursor: Text = None) -> Response:
    return answer(await _states(access, name).list(prefix=prefix, limit=limit, cursor=cursor))


@routes.get("/states/{name}/{id}", response_model=dict[str, Any], description=words(States.get_versioned))
async def get_state(access: AccessOf, name: Name, id: StateId, version: TypeVersion = 1) -> Response:
    found = await _states(access, name, version).get_versioned(id)
    if found is None:
        raise StateNotFoundError(id, name, access.manager.namespace)
    value, info = found
    return _state(value.root, info)


@routes.put(
    "/states/{name}/{id}",
    response_model=dict[str, Any],
    description=words(States.set) + "\n\n`If-Match` is the ETag of the version to replace; `If-None-Match: *` creates.",
)
async def set_state(
    request: Request, access: AccessOf, name: Name, id: StateId, body: StateBody, version: TypeVersion = 1
) -> Response:
    states = _states(access, name, version, **_times(body, usual_ttl="ttl"))
    creates = request.headers.get("if-none-match") == "*"
    expected, created_at = (0, None) if creates else if_match_created(request)
    options: dict[str, Any] = {"if_version": expected, "if_created_at": created_at, **_times(body, ttl="ttl")}
    try:
        await states.set(id, JsonState(body.value), owner=to_key(body.owner), **options)
    except StateVersionError as error:
        return failure(error, request.state.request_id, status=412)
    return answer(await states.info(id))


@routes.get("/states/{name}/{id}/info", response_model=StateInfo, description=words(States.info))
async def read_state_info(access: AccessOf, name: Name, id: StateId) -> Response:
    info = await _states(access, name).info(id)
    return answer(info, headers={"ETag": tag(info.version, info.created_at)})


@routes.get("/count-states/{name}", response_model=Count, description=words(States.count))
async def count_states(access: AccessOf, name: Name) -> Response:
    return answer({"count": await _states(access, name).count()})


@routes.delete("/states/{name}", response_model=DeletedCount, description=words(States.clear))
async def clear_states(access: AccessOf, name: Name) -> Response:
    return answer({"deleted": await _states(access, name).clear()})


@routes.delete(
    "/states/{name}/{id}",
    response_model=Deleted,
    description=words(States.delete) + "\n\n`If-Match` is the ETag of the version to delete.",
)
async def delete_state(request: Request, access: AccessOf, name: Name, id: StateId) -> Response:
    expected, created_at = if_match_created(request)
    try:
        deleted = await _states(access, name).delete(id, if_version=expected, if_created_at=created_at)
    except StateVersionError as error:
        return failure(error, request.state.request_id, status=412)
    return answer({"deleted": deleted})


@routes.post("/states/{name}/{id}/touch", response_model=dict[str, Any], description=words(States.touch))
async def touch_state(access: AccessOf, name: Name, id: StateId) -> Response:
    await _states(access, name).touch(id)
    return answer({})


def _state(value: Any, info: StateInfo) -> Response:
    return answer({"value": value, "info": info}, headers={"ETag": tag(info.version, info.created_at)})


def _times(body: StateBody, **names: str) -> dict[str, timedelta | None]:
    """The times of a body that were sent, by the names that they have in Python."""
    return {names[name]: _ttl(value) for name, value in body.given(*names).items()}


def _ttl(seconds: float | None) -> timedelta | None:
    if seconds is None:
        return None
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise InvalidInputError("ttl is out of range") from None
