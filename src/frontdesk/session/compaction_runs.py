"""Reports compactions to operators: when one starts, finishes or fails, as events of the change log and through
`logging`. Only figures and names are reported, never text."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, NamedTuple

from frontdesk.compaction.summariser import Summariser
from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError
from frontdesk.session.overlays import RangeChangedError
from frontdesk.store import NewChange, changes

_log = logging.getLogger("frontdesk.compaction")

Trigger = Literal["automatic", "manual", "overflow", "deletion", "split"]
"""why a compaction runs: the view was full, the caller asked for it, a model refused a call as too long, messages were
deleted under a summary, which has to be made again, or another session starts with the summary"""


class Figures(NamedTuple):
    """What a compaction did, in numbers."""

    tokens_before: int
    tokens_after: int
    messages_covered: int
    attempts: int


class CompactionRun:
    """One compaction of a session. Every run that started either finishes or fails, once, unless its process dies."""

    def __init__(self, runtime: Runtime, session_id: str, trigger: Trigger, summariser: Summariser) -> None:
        self._runtime = runtime
        self._session_id = session_id
        self.trigger = trigger
        self._summariser = summariser
        self._model = _name_of(runtime.settings.compaction.summarize)
        self._started: float | None = None
        self._is_over = False

    @property
    def model(self) -> str | None:
        """The name of the model that wrote the summary, if known."""
        return next(filter(None, map(_name_of, reversed(self._summariser.answers))), self._model)

    async def start(self, tokens: int, messages: int) -> None:
        """Report that a compaction of this many messages starts, in a view with this many tokens. Once for each run."""
        if self._started is None:
            self._started = time.monotonic()
            names = {"trigger": self.trigger, "model": self._model}
            await self._write(changes.compaction_started(**names, tokens_before=tokens, messages_covered=messages))

    async def finish(self, figures: Figures, **made: str) -> None:
        """Report what a compaction did; `made` has the id and the kind of what was added."""
        self._is_over = True
        values = {**made, "trigger": self.trigger, "model": self.model, **figures._asdict()}
        await self._write(changes.compaction_finished(**values, seconds=self._seconds()))
        _log.info(
            "compacted session %r (%s): %d messages covered, from %d to %d tokens, %d attempts, %.3f s",
            self._session_id,
            self.trigger,
            figures.messages_covered,
            figures.tokens_before,
            figures.tokens_after,
            figures.attempts,
            self._seconds(),
        )

    async def fail(self, error: BaseException) -> None:
        """Report a failure, if the run has started and is not over. The error itself is for the caller to log or to
        raise."""
        if self._started is not None and not self._is_over:
            self._is_over = True
            names = {"error": type(error).__name__, "trigger": self.trigger, "model": self._model}
            attempts, seconds = self._summariser.attempts, self._seconds()
            await self._write(changes.compaction_failed(**names, attempts=attempts, seconds=seconds))

    def _seconds(self) -> float:
        return round(time.monotonic() - (self._started or time.monotonic()), 3)

    async def _write(self, change: NewChange) -> None:
        """An event that cannot be written is no reason to give up a compaction."""
        runtime = self._runtime
        with suppress(FrontdeskError):
            await runtime.store.log_change(runtime.namespace, self._session_id, runtime.now(), change)


@asynccontextmanager
async def report_run(
    runtime: Runtime, session_id: str, trigger: Trigger, summariser: Summariser
) -> AsyncIterator[CompactionRun]:
    """A run that is reported as failed if the block raises, is cancelled, or ends without a result: what it should have
    compacted no longer exists."""
    run = CompactionRun(runtime, session_id, trigger, summariser)
    try:
        yield run
    except BaseException as error:
        await run.fail(error)
        raise
    await run.fail(RangeChangedError())


def _name_of(model: Any) -> str | None:
    """The name of a model: a `Completion` has it as `model`, a ready-made model as `name`."""
    for attribute in ("model", "name"):
        name = getattr(model, attribute, None)
        if isinstance(name, str):
            return name
    return None
