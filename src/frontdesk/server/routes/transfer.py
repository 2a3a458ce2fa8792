"""Export, import and check of a whole namespace, for the role `admin`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from frontdesk.manager.manager import SessionManager
from frontdesk.records import CheckReport, ImportReport
from frontdesk.server.gate import needs
from frontdesk.server.routes.parts import AccessOf, router, words
from frontdesk.server.streams import started
from frontdesk.server.wire import NDJSON, answer

routes = router("transfer")
_LINES: dict[int | str, dict[str, Any]] = {200: {"content": {NDJSON: {}}, "description": "An export."}}


@routes.get("/export", response_model=None, responses=_LINES, description=words(SessionManager.export))
@needs("admin", long=True)
async def export(access: AccessOf) -> Response:
    access.require_unbound()
    return StreamingResponse(await started(access.manager.export()), media_type=NDJSON)


@routes.post(
    "/import",
    response_model=ImportReport,
    description=words(SessionManager.import_lines) + "\n\nThe body are the lines; its size is not limited.",
)
@needs("admin", long=True)
async def import_lines(request: Request, access: AccessOf, dry_run: bool = False) -> Response:
    access.require_unbound()
    return answer(await access.manager.import_lines(_lines(request), dry_run=dry_run))


@routes.post("/check", response_model=CheckReport, description=words(SessionManager.check))
@needs("admin", long=True)
async def check(access: AccessOf, fix: bool = False) -> Response:
    access.require_unbound()
    return answer(await access.manager.check(fix=fix))


async def _lines(request: Request) -> AsyncIterator[bytes]:
    """The lines of a body, each with its line break."""
    rest = b""
    async for portion in request.stream():
        *whole, rest = (rest + portion).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest
