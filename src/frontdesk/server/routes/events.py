"""Events: a stream that can be resumed, or those until now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from itertools import count
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from frontdesk.events.feed import Event
from frontdesk.http.addresses import read_query_ref
from frontdesk.keys import SessionKey
from frontdesk.manager.manager import SessionManager
from frontdesk.server.access import CallerAccess
from frontdesk.server.bodies import ItemList
from frontdesk.server.gate import Gate
from frontdesk.server.routes.parts import AccessOf, router, words
from frontdesk.server.streams import EVENT_STREAM, event_stream, started
from frontdesk.server.wire import NDJSON, answer, lines

routes = router("events")
Text = str | None
_KINDS: dict[int | str, dict[str, Any]] = {
    200: {"content": {EVENT_STREAM: {}, NDJSON: {}}, "description": "Events, each with its position as its id."}
}
_RESUME = (
    "\n\nAs server-sent events. `Last-Event-ID` continues after that event. With `follow=false`, the answer is the"
    " events until now, one per line, at most `limit`."
)


@routes.get("/events", response_model=None, responses=_KINDS, description=words(SessionManager.events) + _RESUME)
async def read_events(
    request: Request,
    access: AccessOf,
    after: Text = None,
    session: Annotated[Text, Query(description="an id, or `@` and a key")] = None,
    agent: Text = None,
    channel: Text = None,
    peer: Text = None,
    follow: bool = True,
    limit: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    gate: Gate = request.app.state.gate
    ref, where = await _selected(access, session, {"agent": agent, "channel": channel, "peer": peer})
    start = request.headers.get("last-event-id") or after
    if start is None and follow:
        start = await access.manager.position()  # also what happens before the first byte is sent
    events = access.manager.events(after=start, session=ref, **where, follow=follow)
    if follow:
        is_admitted = partial(gate.still_admits, access)
        return event_stream(events, gate.settings.keep_alive, request.app.state.metrics, is_admitted)
    return lines(_first(await started(events), limit))


@routes.get("/recent-events", response_model=ItemList[Event], description=words(SessionManager.recent_events))
async def read_recent_events(
    access: AccessOf,
    count: int = 100,
    session: Annotated[Text, Query(description="an id, or `@` and a key")] = None,
    agent: Text = None,
    channel: Text = None,
    peer: Text = None,
) -> Response:
    ref, where = await _selected(access, session, {"agent": agent, "channel": channel, "peer": peer})
    return answer({"items": await access.manager.recent_events(count, session=ref, **where)})


@routes.get("/position", response_model=dict[str, str], description=words(SessionManager.position))
async def read_position(access: AccessOf) -> Response:
    return answer({"position": await access.manager.position()})


async def _selected(
    access: CallerAccess, session: str | None, where: dict[str, str | None]
) -> tuple[str | SessionKey | None, dict[str, Any]]:
    """The session and the parts of keys whose events the caller asked for, no more than it may reach."""
    if session is None:
        return None, access.narrow(where)
    ref = read_query_ref(session)
    if access.bounds:
        await access.session(ref)  # its key is within reach, and stays the same as long as it exists
    return ref, where


async def _first(events: AsyncIterator[Event], limit: int | None) -> AsyncIterator[Event]:
    for number in count(1):
        event = await anext(events, None)
        if event is None:
            return
        yield event
        if number == limit:
            return
