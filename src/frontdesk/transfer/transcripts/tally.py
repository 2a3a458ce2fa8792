"""What an import of transcripts has found so far."""

from __future__ import annotations

from collections import Counter

from frontdesk.records import TranscriptProblem, TranscriptReport
from frontdesk.transfer.problems import Problems


class Tally:
    """The counts of a report, by the names of its fields, and its problems."""

    def __init__(self, *, dry_run: bool) -> None:
        self.dry_run = dry_run
        self.counts: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.file = ""
        """the file that is being read"""
        self._problems: Problems[TranscriptProblem] = Problems()

    def report_problem(self, line: int, problem: object) -> None:
        self._problems.add(TranscriptProblem(self.file, line, str(problem)))

    def report(self) -> TranscriptReport:
        names = ("files", "sessions", "messages", "known", "compactions", "usage_entries")
        return TranscriptReport(
            dry_run=self.dry_run,
            skipped=dict(sorted(self.skipped.items())),
            problems=self._problems.first,
            problems_total=self._problems.total,
            **{name: self.counts[name] for name in names},
        )
