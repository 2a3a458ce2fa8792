"""What routes share: the session of a path, and descriptions that repeat the words of Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request

from frontdesk.errors import InvalidInputError
from frontdesk.http.addresses import SESSION_HEADER, TURN_HEADER, read_header, read_id, read_ref
from frontdesk.keys import SessionKey
from frontdesk.messages import check_id
from frontdesk.server.access import CallerAccess
from frontdesk.server.bodies import KeyParts, Problem
from frontdesk.server.gate import GatedRoute, access_of
from frontdesk.server.telemetry import note_conversation
from frontdesk.server.wire import key_from
from frontdesk.session.detached import DetachedSession

_REF = "an id, percent-encoded, or `@` and a key; an id that begins with `~` or `@`, or is only dots, follows a `~`"


def router(tag: str) -> APIRouter:
    """A router whose routes are behind the gate."""
    problems: dict[int | str, dict[str, Any]] = {
        "4XX": {"model": Problem, "description": "The request was refused."},
        "5XX": {"model": Problem, "description": "The server or its store failed."},
    }
    return APIRouter(prefix="/v1", route_class=GatedRoute, tags=[tag], responses=problems)


def words(call: Callable[..., Any]) -> str:
    """The description of a call, for the documentation of its route."""
    return inspect.getdoc(call) or ""


async def open_session(request: Request, ref: Annotated[str, Path(description=_REF)]) -> DetachedSession:
    """The session that the path names, if the caller may reach it. The headers `Frontdesk-Session` and `Frontdesk-Turn`
    say which session the caller's handle had found before, and in which turn it writes."""
    found = read_ref(ref)
    known, turn = request.headers.get(SESSION_HEADER), request.headers.get(TURN_HEADER)
    known_id = None if known is None else check_id(read_header(known), "session id")
    session = await access_of(request).session(found, known_id, None if turn is None else _number(turn))
    request.state.session = session
    key = session.key
    note_conversation(request.scope, str(found), None if key is None else key.agent)
    return session


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise InvalidInputError(f"{TURN_HEADER} must be the number of a turn")
    return int(text)


async def open_ref(request: Request, ref: Annotated[str, Path(description=_REF)]) -> str | SessionKey:
    """The same as an id or a key, for calls of the manager."""
    await open_session(request, ref)
    return read_ref(ref)


def message_id(message_id: Annotated[str, Path(description="the id of a message, percent-encoded")]) -> str:
    return read_id(message_id)


def block_label(label: Annotated[str, Path(description="the label of a block, percent-encoded")]) -> str:
    return read_id(label)


SessionOf = Annotated[DetachedSession, Depends(open_session)]
RefOf = Annotated[str | SessionKey, Depends(open_ref)]
AccessOf = Annotated[CallerAccess, Depends(access_of)]
MessageId = Annotated[str, Depends(message_id)]
Label = Annotated[str, Depends(block_label)]


def to_key(given: KeyParts | str | None) -> SessionKey | None:
    return key_from(given.model_dump() if isinstance(given, KeyParts) else given)
