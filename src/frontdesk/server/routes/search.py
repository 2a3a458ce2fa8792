"""Search, in the namespace or in one session."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from frontdesk.http.addresses import read_query_ref
from frontdesk.manager.manager import SessionManager
from frontdesk.search.hits import SearchResults
from frontdesk.search.index import SearchInfo
from frontdesk.server.gate import needs
from frontdesk.server.routes.parts import AccessOf, SessionOf, router, words
from frontdesk.server.wire import answer, moment
from frontdesk.session import Session

routes = router("search")
Text = str | None
Roles = Annotated[list[str] | None, Query(description="one role, or several by repeating the parameter")]


@routes.get("/search", response_model=SearchResults, description=words(SessionManager.search))
async def search(
    access: AccessOf,
    query: str,
    limit: int = 20,
    cursor: Text = None,
    session: Annotated[Text, Query(description="an id, after a `~` if it begins with `~` or `@`")] = None,
    role: Roles = None,
    author: Text = None,
    agent: Text = None,
    channel: Text = None,
    peer: Text = None,
    thread: Text = None,
    status: Text = None,
    archived: bool = True,
    tag: Text = None,
    before: Text = None,
    after: Text = None,
    context: int = 0,
    group: bool = False,
    newest: bool = False,
    meaning: bool = True,
) -> Response:
    where = access.narrow({"agent": agent, "channel": channel, "peer": peer, "thread": thread})
    ref = None if session is None else read_query_ref(session)
    options: dict[str, Any] = {"session": ref, "role": role, "author": author, "status": status}
    results = await access.manager.search(
        query,
        limit=limit,
        cursor=cursor,
        **where,
        **options,
        archived=archived,
        tag=tag,
        before=moment(before, "before"),
        after=moment(after, "after"),
        context=context,
        group=group,
        newest=newest,
        meaning=meaning,
    )
    return answer(results)


@routes.get("/sessions/{ref}/search", response_model=SearchResults, description=words(Session.search))
async def search_in_session(
    session: SessionOf,
    query: str,
    limit: int = 20,
    cursor: Text = None,
    role: Roles = None,
    author: Text = None,
    before: Text = None,
    after: Text = None,
    context: int = 0,
    newest: bool = False,
    meaning: bool = True,
) -> Response:
    results = await session.search(
        query,
        limit=limit,
        cursor=cursor,
        role=role,
        author=author,
        before=moment(before, "before"),
        after=moment(after, "after"),
        context=context,
        newest=newest,
        meaning=meaning,
    )
    return answer(results)


@routes.get("/search-info", response_model=SearchInfo, description=words(SessionManager.search_info))
async def read_search_info(access: AccessOf) -> Response:
    access.require_unbound()
    return answer(await access.manager.search_info())


@routes.post("/reindex", response_model=SearchInfo, description=words(SessionManager.reindex))
@needs("admin", long=True)
async def reindex(access: AccessOf) -> Response:
    access.require_unbound()
    return answer(await access.manager.reindex())
