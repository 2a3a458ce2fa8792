"""Serves the built inspector at `/`: its files, and its first page for every other address that it routes itself."""

from __future__ import annotations

import mimetypes
from html import escape
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response

from frontdesk.inspector import STATIC

_NOT_BUILT = (
    "The inspector is not built. In a checkout, `make page` builds it (with Node); the wheel contains it.\n"
    "The API is under v1/, and described by v1/openapi.json.\n"
)
_FOREVER = "public, max-age=31536000, immutable"
"""for files whose names contain a hash of their content"""
_FIRST_PAGE = "index.html"
_ASSETS = "assets/"
_PACKED = ".gz"
"""follows the name of a file that the build has also compressed"""


def add_page(app: FastAPI, folder: Path = STATIC) -> None:
    """Add the page to an app, after all other routes."""

    async def serve_page(request: Request, path: str) -> Response:
        if path == "v1" or path.startswith("v1/"):
            raise HTTPException(404, "there is no such route: v1/openapi.json describes those that exist")
        index = folder / _FIRST_PAGE
        if not index.is_file():
            return PlainTextResponse(_NOT_BUILT, 200 if not path else 404)
        file = _file_in(folder, path)
        if file is None and path.startswith(_ASSETS):
            raise HTTPException(404, "the page has no such file: load the page again")
        if file is None or file == index:
            prefix = request.scope.get("root_path", "").rstrip("/")
            return HTMLResponse(_at_prefix(index.read_text(), prefix), headers={"Cache-Control": "no-cache"})
        headers = {"Cache-Control": _FOREVER if path.startswith(_ASSETS) else "no-cache", "Vary": "Accept-Encoding"}
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        packed = file.with_name(file.name + _PACKED)
        if packed.is_file() and _accepts_gzip(request):
            file, headers["Content-Encoding"] = packed, "gzip"
        return FileResponse(file, headers=headers, media_type=kind)

    app.add_api_route("/{path:path}", serve_page, methods=["GET", "HEAD"], include_in_schema=False)


def _accepts_gzip(request: Request) -> bool:
    """Whether the caller takes gzip; `gzip;q=0` says that it does not."""
    for choice in request.headers.get("accept-encoding", "").split(","):
        coding, _, quality = choice.partition(";")
        if coding.strip().lower() == "gzip":
            return quality.replace(" ", "").rstrip("0.") != "q="
    return False


def _at_prefix(page: str, prefix: str) -> str:
    """The first page with the addresses of its files below a mount prefix. They are relative in the built page, and
    the policy forbids a `<base>`."""
    return page.replace(f'"./{_ASSETS}', f'"{escape(prefix)}/{_ASSETS}')


def _file_in(folder: Path, path: str) -> Path | None:
    """A file of the page; None for anything that is not in its folder."""
    if not path or "\0" in path:
        return None
    file = (folder / path).resolve()
    return file if file.is_relative_to(folder.resolve()) and file.is_file() else None
