"""Sessions: list, count, create, change, end and delete them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Query, Request
from starlette.responses import Response

from frontdesk.errors import InvalidInputError
from frontdesk.keys import SessionKey
from frontdesk.lifecycle.transitions import MANAGER_DEFAULT, ManagerDefault
from frontdesk.manager.manager import SessionManager
from frontdesk.records import Page, SessionInfo
from frontdesk.server.access import CallerAccess
from frontdesk.server.bodies import Count, Deleted, ForkBody, NewBody, NewSessionBody, SessionChanges, SplitBody
from frontdesk.server.connected import while_connected
from frontdesk.server.gate import needs
from frontdesk.server.routes.parts import AccessOf, RefOf, SessionOf, router, to_key, words
from frontdesk.server.wire import answer, moment
from frontdesk.session import Session

routes = router("sessions")
Text = str | None


def filters(
    access: AccessOf,
    agent: Text = None,
    channel: Text = None,
    peer: Text = None,
    thread: Text = None,
    status: Text = None,
    tag: Text = None,
    metadata: Annotated[Text, Query(description="a JSON object")] = None,
    id_prefix: Text = None,
    created_after: Text = None,
    created_before: Text = None,
    model: Text = None,
    exclude: Annotated[list[str] | None, Query(description="`field:value`, such as `channel:cron`")] = None,
    min_usage: float | None = None,
) -> dict[str, Any]:
    """The filters of a list, no wider than the caller may reach."""
    given = {"agent": agent, "channel": channel, "peer": peer, "thread": thread, "status": status, "tag": tag}
    return access.narrow(
        {
            **given,
            "metadata": _json_object(metadata),
            "id_prefix": id_prefix,
            "created_after": moment(created_after, "created_after"),
            "created_before": moment(created_before, "created_before"),
            "model": model,
            "exclude": _excluded(exclude or []),
            "min_usage": min_usage,
        }
    )


def _excluded(pairs: list[str]) -> dict[str, list[str]]:
    """What a list leaves out, by field."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, colon, value = pair.partition(":")
        if not colon:
            raise InvalidInputError("exclude is written `field:value`, such as `channel:cron`")
        found.setdefault(name, []).append(value)
    return found


def _json_object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        raise InvalidInputError("metadata must be a JSON object") from None


Filters = Annotated[dict[str, Any], Depends(filters)]


@routes.get("/sessions", response_model=Page[SessionInfo], description=words(SessionManager.list))
async def list_sessions(
    access: AccessOf, filters: Filters, order: str = "recent", limit: int = 50, cursor: Text = None
) -> Response:
    return answer(await access.manager.list(**filters, order=order, limit=limit, cursor=cursor))  # type: ignore[arg-type]


@routes.get("/count", response_model=Count, description=words(SessionManager.count))
async def count_sessions(access: AccessOf, filters: Filters, most: int = 1000) -> Response:
    return answer({"count": await access.manager.count(**filters, most=most)})


@routes.post(
    "/sessions",
    response_model=SessionInfo,
    status_code=201,
    description=f"{words(SessionManager.create)}\n\nWith `existing`: {words(SessionManager.get_or_create)}",
)
async def create_session(access: AccessOf, body: NewSessionBody, existing: bool = False) -> Response:
    key = to_key(body.key)
    access.check_key(key)
    values = body.model_dump(exclude={"key", "id"})
    if not existing:
        session = await access.manager.create(**values, id=body.id, key=key)
        return answer(await session.info(), 201)
    ref = body.id if key is None else key
    if ref is None or (body.id is not None and key is not None):
        raise InvalidInputError("with `existing`, give an id or a key, not both")
    session = await access.manager.get_or_create(ref, **values)
    return answer(await session.info())


@routes.get("/sessions/{ref}", response_model=SessionInfo, description=words(Session.info))
async def get_session(session: SessionOf) -> Response:
    return answer(await session.info())


@routes.patch("/sessions/{ref}", response_model=SessionInfo)
async def change_session(session: SessionOf, body: SessionChanges) -> Response:
    """Change the name, the summary, values of the metadata, tags and life-cycle times of a session. A value of the
    metadata that is null is removed. Thresholds that are not sent go back to those of the manager."""
    if body.name is not None:
        await session.rename(body.name)
    if "summary" in body.model_fields_set:
        await session.set_summary(body.summary)
    if body.metadata is not None:
        await session.set_metadata(**body.metadata)
    if "add_tags" in body.model_fields_set:
        await session.add_tags(*body.add_tags)
    if "remove_tags" in body.model_fields_set:
        await session.remove_tags(*body.remove_tags)
    times = body.given("idle_after", "archive_after", "delete_after")
    if times:
        await session.set_lifecycle(**{name: _threshold(name, value) for name, value in times.items()})
    return answer(await session.info())


def _threshold(name: str, value: float | str | None) -> timedelta | ManagerDefault | None:
    if value is None:
        return None
    if isinstance(value, str):
        if value != "default":
            raise InvalidInputError(f'{name} must be a number of seconds, null or "default"')
        return MANAGER_DEFAULT
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise InvalidInputError(f"{name} is out of range") from None


@routes.delete("/sessions/{ref}", response_model=Deleted, description=words(SessionManager.delete))
async def delete_session(access: AccessOf, ref: RefOf) -> Response:
    return answer({"deleted": await access.manager.delete(ref)})


@routes.post("/sessions/{ref}/archive", response_model=SessionInfo, description=words(SessionManager.archive))
async def archive_session(access: AccessOf, ref: RefOf) -> Response:
    await access.manager.archive(ref)
    return await _info(access, ref)


@routes.post("/sessions/{ref}/suspend", response_model=SessionInfo, description=words(SessionManager.suspend))
async def suspend_session(access: AccessOf, ref: RefOf) -> Response:
    await access.manager.suspend(ref)
    return await _info(access, ref)


@routes.post("/sessions/{ref}/resume", response_model=SessionInfo, description=words(SessionManager.resume))
async def resume_session(access: AccessOf, ref: RefOf) -> Response:
    await access.manager.resume(ref)
    return await _info(access, ref)


@routes.post("/sessions/{ref}/reset", response_model=SessionInfo, description=words(SessionManager.reset))
async def reset_session(access: AccessOf, ref: RefOf) -> Response:
    await access.manager.reset(ref)
    return await _info(access, ref)


@routes.post(
    "/sessions/{ref}/fork", response_model=SessionInfo, status_code=201, description=words(SessionManager.fork)
)
async def fork_session(access: AccessOf, ref: RefOf, body: ForkBody) -> Response:
    key = to_key(body.key)
    access.check_key(key)
    fork = await access.manager.fork(ref, body.at, name=body.name, new_id=body.new_id, key=key)
    return answer(await fork.info(), 201)


@routes.post(
    "/sessions/{ref}/split",
    response_model=SessionInfo,
    status_code=201,
    description=words(SessionManager.compact_and_split),
)
@needs("write", long=True)
async def split_session(access: AccessOf, ref: RefOf, body: SplitBody) -> Response:
    busy = {"on_busy": body.on_busy, "wait": body.wait}
    session = await access.manager.compact_and_split(ref, body.summary, body.name, **busy)  # type: ignore[arg-type]
    return answer(await session.info(), 201)


@routes.post("/new", response_model=SessionInfo, status_code=201, description=words(SessionManager.new))
@needs("write", long=True)
async def start_new_session(request: Request, access: AccessOf, body: NewBody) -> Response:
    key = to_key(body.key)
    assert key is not None
    access.check_key(key)
    starting = access.manager.new(key, on_busy=body.on_busy, wait=body.wait)  # type: ignore[arg-type]
    session = await while_connected(request, starting)
    return answer(await session.info(), 201)


async def _info(access: CallerAccess, ref: str | SessionKey) -> Response:
    return answer(await access.manager.session(ref).info())
