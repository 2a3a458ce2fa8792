"""What an import of transcripts has found so far."""

from __future__ import annotations

from collections import Counter

from frontdesk.records import TranscriptProblem, TranscriptReport

_MOST_PROBLEMS = 1_000


class Tally:
    """The counts of a report, by the names of its fields, and its problems."""

    def __init__(self, *, dry_run: bool) -> None:
        self.dry_run = dry_run
        self.counts: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.file = ""
        """the file that is being read"""
        self._problems: list[TranscriptProblem] = []

    def report_problem(self, line: int, problem: object) -> None:
        if len(self._problems) < _MOST_PROBLEMS:
            self._problems.append(TranscriptProblem(self.file, line, str(problem)))

    def report(self) -> TranscriptReport:
        names = ("files", "sessions", "messages", "known", "compactions", "usage_entries")
        return TranscriptReport(
            dry_run=self.dry_run,
            skipped=dict(sorted(self.skipped.items())),
            problems=tuple(self._problems),
            **{name: self.counts[name] for name in names},
        )
