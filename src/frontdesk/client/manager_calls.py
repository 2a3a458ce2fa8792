"""The calls on a namespace that are not in the table of `calls`, as functions like those in `session_calls`."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from frontdesk.checks import check_list, check_text
from frontdesk.client.connection import HTTPRequest
from frontdesk.client.remote import Remote, RemoteHandle, iterate_lines
from frontdesk.client.session import RemoteSession
from frontdesk.client.values import to_body, to_query
from frontdesk.errors import ConfigurationError, InvalidInputError
from frontdesk.http.addresses import write_ref
from frontdesk.keys import SessionKey
from frontdesk.lifecycle.transitions import check_status
from frontdesk.manager.directory import ORDERS, Filters, check_limit
from frontdesk.manager.usage import day_text
from frontdesk.messages import check_id
from frontdesk.records import CheckReport, ImportReport, Page, SessionInfo, Usage
from frontdesk.search.index import SearchInfo

Given = dict[str, Any]


# sessions


async def create(remote: Remote, given: Given) -> RemoteSession:
    return await _made(remote, HTTPRequest("POST", "/sessions", body=to_body(given), keyed=True))


async def get_or_create(remote: Remote, given: Given) -> RemoteSession:
    ref = given.pop("ref")
    given["key" if isinstance(ref, SessionKey) else "id"] = ref
    if not isinstance(ref, SessionKey):
        check_id(ref, "session id")
    query = {"existing": "true"}
    return await _made(remote, HTTPRequest("POST", "/sessions", query, body=to_body(given), repeats=True))


async def fork(remote: Remote, given: Given) -> RemoteSession:
    path = f"/sessions/{_ref(given.pop('id'))}/fork"
    return await _made(remote, HTTPRequest("POST", path, body=to_body(given), keyed=True))


async def compact_and_split(remote: Remote, given: Given) -> RemoteSession:
    path = f"/sessions/{_ref(given.pop('id'))}/split"
    return await _made(remote, HTTPRequest("POST", path, body=to_body(given), keyed=True, long=True))


async def new(remote: Remote, given: Given) -> RemoteSession:
    return await _made(remote, HTTPRequest("POST", "/new", body=to_body(given), keyed=True, long=True))


async def _made(remote: Remote, request: HTTPRequest) -> RemoteSession:
    """A handle on the session that a request has made or found."""
    info: SessionInfo = await remote.ask(request, SessionInfo)
    return RemoteSession(RemoteHandle(remote.connection, info.id, known_key=info.key))


def _ref(ref: Any) -> str:
    return write_ref(ref if isinstance(ref, SessionKey) else check_id(ref, "session id"))


async def rename(remote: Remote, given: Given) -> None:
    ref = given["id"]
    session = RemoteSession(RemoteHandle(remote.connection, ref))
    await session.info()
    await session.rename(given["name"])


async def list_sessions(remote: Remote, given: Given) -> Page[SessionInfo]:
    _check_filters(given)
    page: Page[SessionInfo] = await remote.ask(HTTPRequest("GET", "/sessions", to_query(given)), Page[SessionInfo])
    return page


async def count(remote: Remote, given: Given) -> int:
    _check_filters(given)
    found: int = await remote.ask(HTTPRequest("GET", "/count", to_query(given)), int, "count")
    return found


def _check_filters(given: Given) -> None:
    """Refuse what the session layer refuses, and an address could not say. Raises `InvalidInputError`."""
    Filters(*(given.get(name) for name in Filters._fields)).columns()
    if given.get("status") is not None:
        check_status(given["status"])
    if "limit" in given:
        check_limit(given["limit"])
    if given.get("order", "recent") not in ORDERS:
        raise InvalidInputError(f"unknown order {given['order']!r}: choose one of {', '.join(ORDERS)}")


async def iterate(remote: Remote, given: Given) -> AsyncIterator[SessionInfo]:
    """The pages of `list` in the order of creation, which no write changes."""
    cursor: str | None = None
    while True:
        page = await list_sessions(remote, {**given, "order": "created", "cursor": cursor})
        for info in page.items:
            yield info
        cursor = page.next_cursor
        if cursor is None:
            return


async def usage(remote: Remote, given: Given) -> Usage:
    for name in {"since", "until"} & given.keys():
        given[name] = None if given[name] is None else day_text(given[name])
    if "by" in given:
        given["by"] = check_list(given["by"], "by") or [""]
    for name in {"agent", "channel", "peer", "model"} & given.keys():
        if given[name] is not None:
            check_text(given[name], name)
    totals: Usage = await remote.ask(HTTPRequest("GET", "/usage", to_query(given)), Usage)
    return totals


# the whole namespace


async def reindex(remote: Remote, given: Given) -> SearchInfo:
    _refuse_progress(given)
    info: SearchInfo = await remote.ask(HTTPRequest("POST", "/reindex", repeats=True, long=True), SearchInfo)
    return info


async def check(remote: Remote, given: Given) -> CheckReport:
    _refuse_progress(given)
    query = {"fix": "true"} if given.get("fix") else {}
    report: CheckReport = await remote.ask(HTTPRequest("POST", "/check", query, keyed=True, long=True), CheckReport)
    return report


async def export(remote: Remote, given: Given) -> AsyncIterator[bytes]:
    _refuse_progress(given)
    async with remote.connection.stream(HTTPRequest("GET", "/export", long=True)) as response:
        async for line in iterate_lines(response):
            yield line + b"\n"


async def import_lines(remote: Remote, given: Given) -> ImportReport:
    query = {"dry_run": "true"} if given.get("dry_run") else {}
    progress = given.get("on_progress")
    content = _counted(given["lines"], progress)
    request = HTTPRequest("POST", "/import", query, content, {"Content-Type": "application/x-ndjson"}, long=True)
    report: ImportReport = await remote.ask(request, ImportReport)
    return report


async def _counted(lines: AsyncIterable[bytes] | Iterable[bytes], progress: Any) -> AsyncIterator[bytes]:
    """The lines of an import; `progress` is called with how many were sent, and how many bytes."""
    count = size = 0
    async for line in _each(lines):
        yield line
        count, size = count + 1, size + len(line)
        if progress is not None:
            progress(count, size)


async def _each(lines: AsyncIterable[bytes] | Iterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(lines, AsyncIterable):
        async for line in lines:
            yield line
    else:
        for line in lines:
            yield line


async def backup(remote: Remote, given: Given) -> None:
    """An export, in a file of this machine."""
    with Path(given["path"]).open("xb") as file:  # noqa: ASYNC230 (one line at a time, to a local file)
        async for line in export(remote, {}):
            file.write(line)


async def copy_to(remote: Remote, given: Given) -> Any:
    raise ConfigurationError("a copy is made where the stores are: use `frontdesk copy` there, or export and import")


async def import_transcripts(remote: Remote, given: Given) -> Any:
    raise ConfigurationError("transcripts are imported where the store is: use `frontdesk import` there")


def _refuse_progress(given: Given) -> None:
    if given.get("on_progress") is not None:
        raise InvalidInputError("a server does not report its progress: leave out `on_progress`")


CALLS: dict[str, Any] = {"list": list_sessions} | {
    function.__name__: function
    for function in (
        create,
        get_or_create,
        fork,
        compact_and_split,
        new,
        rename,
        count,
        iterate,
        usage,
        reindex,
        check,
        export,
        import_lines,
        backup,
        copy_to,
        import_transcripts,
    )
}
