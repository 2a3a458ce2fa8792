"""Work that no caller waits for: how it pauses, and how its failures are logged."""

from __future__ import annotations

import logging
from asyncio import sleep

from frontdesk.errors import FrontdeskError, InvalidInputError

__all__ = ["log_failure", "sleep"]  # `asyncio.sleep` as it was on import: if a test replaces it, loops do not spin


def log_failure(log: logging.Logger, error: BaseException, text: str, *values: object) -> None:
    """Log a warning with the traceback of an error and of its causes.

    The text of an error may contain what somebody said. So it is logged only for our own errors, whose texts contain
    ids and numbers."""
    log.warning(f"{text}: %s", *values, _describe(error), exc_info=_without_texts(error))


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if _is_ours(error) else type(error).__name__


def _is_ours(error: BaseException) -> bool:
    """Whether the text of an error is free of content. An `InvalidInputError` shows the value that was refused."""
    return isinstance(error, FrontdeskError) and not isinstance(error, InvalidInputError)


def _without_texts(error: BaseException, depth: int = 10) -> BaseException:
    """An exception with the name, the traceback and the causes of another one, but without their texts."""
    kind = type(error)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    copy: BaseException = type(kind.__name__, (Exception,), names)(*([str(error)] if _is_ours(error) else []))
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and depth:
        copy.__cause__ = _without_texts(cause, depth - 1)
    return copy.with_traceback(error.__traceback__)
