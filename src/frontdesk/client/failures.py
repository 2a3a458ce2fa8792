"""Turns the answers of a server that report a failure into the errors that the same call raises in Python."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec

from frontdesk.error_codes import error_class
from frontdesk.errors import (
    AccessDeniedError,
    ConfigurationError,
    FrontdeskError,
    InvalidInputError,
    StoreError,
    StoreUnavailableError,
    rebuild,
)

RETRY_CODES = ("in_progress", "rate_limited")
"""codes of the server that mean: nothing happened, and the same request can be sent again in a moment"""
_OF_SERVER: dict[str, type[FrontdeskError]] = {
    "unauthorized": AccessDeniedError,
    "forbidden": AccessDeniedError,
    "not_found": ConfigurationError,
    "method_not_allowed": ConfigurationError,
    "body_too_large": InvalidInputError,
    "idempotency_key_reused": InvalidInputError,
    "version_mismatch": InvalidInputError,
    "internal": StoreError,
}
"""what the server itself refuses, before or after the session layer; everything else is `StoreUnavailableError`"""


class ReceivedProblem(msgspec.Struct):
    """A problem document (RFC 9457) of the server."""

    code: str = ""
    detail: str = ""
    outcome: str = ""
    title: str = ""
    details: dict[str, Any] = {}


def parse_problem(body: bytes) -> ReceivedProblem:
    """The problem that an answer reports; one without a code if another program has answered, such as a proxy."""
    try:
        return msgspec.json.decode(body, type=ReceivedProblem)
    except msgspec.DecodeError:
        return ReceivedProblem()


def error_of(status: int, problem: ReceivedProblem) -> FrontdeskError:
    """The error that an answer reports."""
    kind = error_class(problem.code)
    if kind is not None:
        return rebuild(kind, (problem.detail,), _typed(kind, problem.details))
    text = problem.detail or f"the server answered with the status {status}, and no reason: is this a Frontdesk server?"
    kind = _OF_SERVER.get(problem.code, StoreUnavailableError if status >= 429 else ConfigurationError)
    details: dict[str, Any] = {"status": status, "code": problem.code}
    if issubclass(kind, StoreError):
        return kind(text, uncertain=problem.outcome == "may have happened", **details)
    return kind(text, **details)


def _typed(kind: type[FrontdeskError], details: dict[str, Any]) -> dict[str, Any]:
    """The details with the types that they have in Python: moments, tuples."""
    hints = get_type_hints(kind)
    return {
        name: msgspec.convert(value, hints[name]) if name in hints else value
        for name, value in details.items()
        if name != "details"
    }
