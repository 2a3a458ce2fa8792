"""ETags: the version of a block or a state, and the conditions of requests on it."""

from __future__ import annotations

from datetime import datetime

from fastapi import Request

from frontdesk.moments import to_datetime, to_microseconds
from frontdesk.server.problems import RefusedError


def tag(version: int, created_at: datetime | None = None) -> str:
    """The ETag of a version; with the time of creation, of something that may be deleted and created again."""
    return f'"{version}"' if created_at is None else f'"{version}.{to_microseconds(created_at)}"'


def if_match(request: Request) -> int | None:
    """The version that `If-Match` requires; None without one, or for `*`. Raises `RefusedError`."""
    return if_match_created(request)[0]


def if_match_created(request: Request) -> tuple[int | None, datetime | None]:
    """The same, and the time of creation that it requires, if it has one."""
    value = request.headers.get("if-match", "").strip()
    if value in ("", "*"):
        return None, None
    number, point, created = value.removeprefix("W/").strip('"').partition(".")
    if not (_is_number(number) and (not point or _is_number(created))):
        raise RefusedError(412, "version_mismatch", "If-Match is not an ETag of this resource: read it again")
    return int(number), to_datetime(int(created)) if point else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 17
