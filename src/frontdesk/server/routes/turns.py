"""Turns of callers in other processes: they take a turn, renew it while they hold it, and end it. Requests that belong
to a turn have its number in the header `Frontdesk-Turn`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.responses import Response

from frontdesk.records import SessionInfo
from frontdesk.server.bodies import HeldTurn, OneMessage, RenewTurnBody, TakenTurn, TakeTurnBody, TurnSplitBody
from frontdesk.server.connected import while_connected
from frontdesk.server.gate import needs
from frontdesk.server.given_messages import given_message
from frontdesk.server.routes.parts import AccessOf, SessionOf, router, words
from frontdesk.server.wire import answer
from frontdesk.session import Session, Turn
from frontdesk.session.detached import DetachedSession

routes = router("turns")
Number = Annotated[int, Path(ge=0, le=10**18, description="the number of a turn")]
_LONGEST_WAIT = 30.0


@routes.post(
    "/sessions/{ref}/turn",
    response_model=TakenTurn,
    description=words(Session.turn) + "\n\n" + words(DetachedSession.take_turn),
)
async def take_turn(request: Request, session: SessionOf, body: TakeTurnBody) -> Response:
    options: dict[str, Any] = {"on_busy": body.on_busy, "keeps_place": body.keeps_place}
    message = None if body.new_message is None else given_message(body.new_message)
    taking = session.take_turn(
        body.holder, wait=min(body.wait, _LONGEST_WAIT), ttl=body.ttl, message=message, **options
    )
    taken = await while_connected(request, taking)
    session_id, number = (None, None) if taken is None else taken
    return answer({"session_id": session_id, "number": number})


@routes.delete("/sessions/{ref}/turn", response_model=HeldTurn, description=words(DetachedSession.leave_turn))
async def leave_turn(session: SessionOf, holder: Annotated[str, Query(max_length=512)]) -> Response:
    await session.leave_turn(holder)
    return answer({"held": False})


@routes.put("/sessions/{ref}/turn/{number}", response_model=HeldTurn, description=words(DetachedSession.renew_turn))
async def renew_turn(session: SessionOf, number: Number, body: RenewTurnBody) -> Response:
    return answer({"held": await session.renew_turn(number, body.ttl)})


@routes.post(
    "/sessions/{ref}/turn/{number}/new", response_model=SessionInfo, status_code=201, description=words(Turn.new)
)
async def start_next(access: AccessOf, session: SessionOf, number: Number) -> Response:
    following = await session.start_next(number)
    return answer(await access.manager.session(following).info(), 201)


@routes.post(
    "/sessions/{ref}/turn/{number}/split",
    response_model=SessionInfo,
    status_code=201,
    description=words(Turn.compact_and_split),
)
@needs("write", long=True)
async def split_in_turn(access: AccessOf, session: SessionOf, number: Number, body: TurnSplitBody) -> Response:
    following = await session.split(number, body.summary, body.name)
    return answer(await access.manager.session(following).info(), 201)


@routes.post(
    "/sessions/{ref}/turn/{number}/take-queued", response_model=OneMessage, description=words(Turn.take_queued)
)
async def take_queued(session: SessionOf, number: Number) -> Response:
    return answer({"message": await session.take_queued(number)})
