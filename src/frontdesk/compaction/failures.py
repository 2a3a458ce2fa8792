"""Reports failures of background work, and decides how long automatic compaction waits after one."""

from __future__ import annotations

import asyncio
import logging

from frontdesk.calls import call
from frontdesk.config.settings import OnError
from frontdesk.unattended import log_failure

_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 600.0


async def report_failure(
    log: logging.Logger, on_error: OnError | None, what: str, session_id: str, error: Exception
) -> None:
    """Log that background work for a session failed, and call `on_error`. Nothing of the conversation is logged."""
    log_failure(log, error, "%s of session %r failed", what, session_id)
    if on_error is not None:
        try:
            await call(on_error, session_id, error)
        except Exception as failure:
            log_failure(log, failure, "on_error failed, after %s of session %r", what, session_id)


class Pauses:
    """How long a session's automatic compaction waits after a failure: longer each time, so that a model that is down
    is not called at every append."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}

    def failed(self, session_id: str, now: float) -> None:
        """Start a pause, or a longer one."""
        count = self._failures.get(session_id, (0, 0.0))[0] + 1
        self._failures[session_id] = (count, now + min(_FIRST_PAUSE * 2 ** (count - 1), _LONGEST_PAUSE))

    def succeeded(self, session_id: str) -> None:
        """Forget all failures of a session."""
        self._failures.pop(session_id, None)

    def holds(self, session_id: str, now: float) -> bool:
        """Whether a session is in a pause."""
        return now < self._failures.get(session_id, (0, 0.0))[1]


class RunningCompaction:
    """A compaction in the background: its task, and whether to check the session again afterwards."""

    def __init__(self) -> None:
        self.again = False
        self.task: asyncio.Task[None] | None = None


class CompactionState:
    """What a manager remembers of compactions in the background: failures, and which ones are running."""

    def __init__(self) -> None:
        self.pauses = Pauses()
        self.running: dict[str, RunningCompaction] = {}
        """by session"""
        self.hidden: set[str] = set()
        """the sessions with a summary under which messages were deleted, and which has not been made again yet"""
