"""Imports transcripts: a file, or all that a folder has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError
from frontdesk.records import TranscriptReport
from frontdesk.transfer.transcripts import FORMATS, TranscriptFormat
from frontdesk.transfer.transcripts.detecting import NAMES, READERS, detect_format, find_files
from frontdesk.transfer.transcripts.rehearsal import Rehearsal
from frontdesk.transfer.transcripts.steps import TranscriptFile
from frontdesk.transfer.transcripts.tally import Tally
from frontdesk.transfer.transcripts.writing import TranscriptWriter

_EVERY = 1 << 20
"""bytes between two reports of progress"""


async def import_transcripts(
    runtime: Runtime,
    path: Path,
    *,
    format: TranscriptFormat | None,
    dry_run: bool,
    on_progress: Callable[[int, int], Any] | None,
) -> TranscriptReport:
    """See `SessionManager.import_transcripts`."""
    if format is not None and format not in FORMATS:
        raise InvalidInputError(f"unknown format {format!r}: choose one of {', '.join(FORMATS)}", format=format)
    files = await asyncio.to_thread(lambda: {file: file.stat().st_size for file in find_files(path)})
    if not files:
        raise InvalidInputError(f"{path} has no transcripts: files named {', '.join(NAMES)} are looked for")
    progress = _Progress(sum(files.values()), on_progress)
    tally = Tally(dry_run=dry_run)
    with closing(Rehearsal()) if dry_run else nullcontext() as rehearsal:
        for file, size in files.items():
            found = detect_format(file) if format is None else format
            if found is None and file == path:
                raise InvalidInputError(f"{path} is not a transcript of a known format: {', '.join(FORMATS)}")
            tally.file = str(file)
            if found is None:
                tally.report_problem(0, "this is not a transcript of a known format")
            else:
                source = TranscriptFile(file, size, on_progress=progress.update)
                await _import_file(source, found, tally, TranscriptWriter(runtime, found, tally, rehearsal))
            progress.end_file(size)
    return tally.report()


async def _import_file(
    source: TranscriptFile, format: TranscriptFormat, tally: Tally, writer: TranscriptWriter
) -> None:
    tally.counts["files"] += 1
    for step in READERS[format](source):
        await writer.take(step)
    await writer.finish()


class _Progress:
    """Counts the bytes of all files."""

    def __init__(self, total: int, on_progress: Callable[[int, int], Any] | None) -> None:
        self._total = total
        self._on_progress = on_progress
        self._done = self._reported = 0

    def update(self, done: int) -> None:
        """So much of the current file was read."""
        now = self._done + done
        if self._on_progress is not None and now - self._reported >= _EVERY:
            self._reported = now
            self._on_progress(now, max(self._total, now))

    def end_file(self, size: int) -> None:
        self._done += size
        if self._on_progress is not None:
            self._reported = self._done
            self._on_progress(self._done, max(self._total, self._done))
