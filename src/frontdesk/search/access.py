"""Which sessions a search may show. Every search, of a model or of a user, decides that here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from frontdesk.calls import call_each
from frontdesk.config.runtime import Runtime
from frontdesk.config.scopes import SessionFilter
from frontdesk.history import trees
from frontdesk.lifecycle import transitions
from frontdesk.models.windows import session_window
from frontdesk.records import SessionInfo
from frontdesk.store import SessionRow, SessionSelection

MAX_ASKED = 10_000
"""how many sessions a function is asked about for one answer"""
_BATCH = 500


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The sessions that may be shown: those that meet all of these conditions. None means that there is no such
    condition."""

    selection: SessionSelection | None = None
    numbers: frozenset[int] | None = None
    ids: frozenset[str] | None = None
    function: SessionFilter | None = None

    @property
    def is_limited(self) -> bool:
        return self != EVERYTHING

    def accepts(self, row: SessionRow) -> bool:
        """Whether a session meets all conditions but the function."""
        if self.numbers is not None and row.number not in self.numbers:
            return False
        if self.ids is not None and row.id not in self.ids:
            return False
        return self.selection is None or self.selection.includes(row)


EVERYTHING = AccessRule()
NOTHING = AccessRule(numbers=frozenset())


class Access:
    """Applies a rule, for the time of one answer: the function is asked once about each session, and about no more
    than `MAX_ASKED`. `is_exhausted` says that there were more; those are not shown."""

    def __init__(self, runtime: Runtime, rule: AccessRule = EVERYTHING) -> None:
        self._runtime = runtime
        self.rule = rule
        self.is_exhausted = False
        self._answers: dict[int, bool] = {}

    async def admit(self, rows: Collection[SessionRow]) -> list[SessionRow]:
        """Those of the sessions that may be shown, in the given order."""
        accepted = [row for row in rows if self.rule.accepts(row)] if self.rule.is_limited else list(rows)
        if self.rule.function is None:
            return accepted
        unknown = [row for row in accepted if row.number not in self._answers]
        allowed = MAX_ASKED - len(self._answers)
        self.is_exhausted = self.is_exhausted or len(unknown) > allowed
        for start in range(0, min(len(unknown), allowed), _BATCH):
            await self._ask(self.rule.function, unknown[start : min(start + _BATCH, allowed)])
        return [row for row in accepted if self._answers.get(row.number)]

    async def _ask(self, function: SessionFilter, rows: Sequence[SessionRow]) -> None:
        measured = await trees.measure_rows(self._runtime, rows)
        statuses = await transitions.statuses(self._runtime, measured)
        max_tokens = self._runtime.settings.compaction.max_tokens
        infos = [
            SessionInfo.from_row(row, session_window(row, max_tokens), status)
            for row, status in zip(measured, statuses, strict=True)
        ]
        answers = await call_each(function, infos)
        self._answers.update((row.number, bool(answer)) for row, answer in zip(rows, answers, strict=True))
