"""Converts the errors of providers' packages to Frontdesk's, by the attributes that those errors have in common.

Error texts contain the model, the status and the provider's code, never its message, which may quote the prompt.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from frontdesk.errors import (
    ModelError,
    ModelOverflowError,
    ModelRateLimitError,
    ModelRefusedError,
    ModelTimeoutError,
)
from frontdesk.models.overflow import is_context_overflow

_TIMEOUTS = frozenset({"APITimeoutError", "TimeoutException", "TimeoutError"})
_TRANSPORT = frozenset({"APIConnectionError", "TransportError"})
_RETRIED_CLIENT_ERRORS = frozenset({408, 409})


def to_model_error(error: Exception, model: str) -> ModelError:
    """The `ModelError` for an error of a call to `model`."""
    status = _status(error)
    code = _code(error)
    detail = ", ".join(str(part) for part in (status and f"status {status}", code) if part) or type(error).__name__
    names = {kind.__name__ for kind in type(error).__mro__}
    if is_context_overflow(error):
        text = f"the prompt does not fit into the context window of model {model!r} ({detail}): send less"
        return ModelOverflowError(text, model=model, status=status)
    if names & _TIMEOUTS:
        text = f"model {model!r} did not answer within the timeout: try again, or raise timeout"
        return ModelTimeoutError(text, model=model, status=status)
    if code == "insufficient_quota":
        return ModelRefusedError(f"no quota left for model {model!r}: check the account", model=model, status=status)
    if status == 429 or code == "rate_limit_error":
        pause = _retry_after(error)
        when = "later" if pause is None else f"in {pause:g} s"
        text = f"model {model!r} is rate limited ({detail}): try again {when}"
        return ModelRateLimitError(text, model=model, status=status, retry_after=pause)
    if status is not None and 400 <= status < 500 and status not in _RETRIED_CLIENT_ERRORS:
        text = f"the server refused the request to model {model!r} ({detail}): check the key, the name and the settings"
        return ModelRefusedError(text, model=model, status=status)
    if names & _TRANSPORT:
        text = f"the connection to model {model!r} failed ({type(error).__name__}): check base_url, or try again"
        return ModelError(text, model=model)
    return ModelError(f"the call to model {model!r} failed ({detail}): try again", model=model, status=status)


def _status(error: Exception) -> int | None:
    # An error inside a stream has the status of the stream itself, which is a success.
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and status >= 400 else None


def _code(error: Exception) -> str | None:
    for name in ("code", "type"):
        value = getattr(error, name, None)
        if isinstance(value, str) and value and not value.isdigit():
            return value[:100]
    return None


def _retry_after(error: Exception) -> float | None:
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    value = headers.get("retry-after-ms")
    if value is not None and value.isdigit():
        return int(value) / 1000
    value = headers.get("retry-after") or ""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    from email.utils import parsedate_to_datetime  # slow to import, and rarely needed

    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
