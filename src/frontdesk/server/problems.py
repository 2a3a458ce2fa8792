"""Errors as problem documents (RFC 9457). The status and the outcome of each come from `error_codes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.responses import Response

from frontdesk.error_codes import error_code
from frontdesk.errors import FrontdeskError

MEDIA_TYPE = "application/problem+json"


class RefusedError(Exception):
    """A request that the server itself refuses, before the session layer sees it."""

    def __init__(
        self,
        status: int,
        code: str,
        text: str,
        *,
        outcome: str = "refused",
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.outcome = outcome
        self.headers = dict(headers or {})
        self.details = dict(details or {})


def problem(
    status: int,
    code: str,
    title: str,
    text: str,
    *,
    outcome: str = "refused",
    details: Mapping[str, Any] | None = None,
    request_id: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem document."""
    document = {
        "type": f"urn:frontdesk:error:{code}",
        "title": title,
        "status": status,
        "detail": text,
        "code": code,
        "outcome": outcome,
        "details": details or {},
        "request_id": request_id,
    }
    body = msgspec.json.encode(document, enc_hook=str)
    return Response(body, status, dict(headers or {}), MEDIA_TYPE)


def refusal(error: RefusedError, request_id: str = "") -> Response:
    title = error.code.replace("_", " ").capitalize()
    return problem(
        error.status,
        error.code,
        title,
        str(error),
        outcome=error.outcome,
        details=error.details,
        request_id=request_id,
        headers=error.headers,
    )


def failure(error: FrontdeskError, request_id: str = "", status: int | None = None) -> Response:
    """The document for an error of the session layer, with another status than that of the table if one is given."""
    code = error_code(error)
    headers = {}
    retry_after = error.details.get("retry_after")
    if isinstance(retry_after, int | float):
        headers["Retry-After"] = str(max(1, round(retry_after)))
    return problem(
        status or code.status,
        code.code,
        type(error).__name__,
        str(error),
        outcome=code.outcome,
        details=error.details,
        request_id=request_id,
        headers=headers,
    )


def invalid(errors: Sequence[Mapping[str, Any]]) -> RefusedError:
    """The refusal of parameters or a body that do not fit the description of the route. It repeats no values."""
    found = [_misfit(each) for each in errors]
    where = "; ".join(f"{each['where']}: {each['problem']}" for each in found[:3])
    return RefusedError(400, "invalid_input", f"the request does not fit: {where}", details={"errors": found})


def _misfit(error: Mapping[str, Any]) -> dict[str, str]:
    """Where a request does not fit, and why."""
    place = error.get("loc", ())
    if error.get("type") == "json_invalid":
        return {"where": "body", "problem": f"this is not JSON, from character {place[-1]} on"}
    if place == ("body",):
        return {"where": "body", "problem": "a JSON object is expected, with Content-Type: application/json"}
    return {"where": ".".join(map(str, place)), "problem": error.get("msg", "")}
