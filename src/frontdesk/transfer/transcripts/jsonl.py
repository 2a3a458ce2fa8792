"""Reads the records of a JSONL file, line by line."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import IO, Any

from frontdesk.transfer.transcripts.decoding import HALF_CHARACTER, decode
from frontdesk.transfer.transcripts.steps import Broken, TranscriptFile

LONGEST = 64 * 1024 * 1024
"""bytes of a line that is read; a longer one is reported"""


def read_records(source: TranscriptFile) -> Iterator[tuple[int, dict[str, Any] | Broken]]:
    """The objects of a file with the numbers of their lines, from 1 on. Empty lines are left out."""
    with source.path.open("rb") as file:
        for number, line in enumerate(_lines(file), 1):
            source.advance(file.tell())
            for record in _read(number, line):
                yield number, record


def _lines(file: IO[bytes]) -> Iterator[bytes | None]:
    """The lines of a file; None for one that is too long."""
    while line := file.readline(LONGEST):
        if len(line) < LONGEST or line.endswith(b"\n"):
            yield line
            continue
        while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
            pass
        yield None


def _read(number: int, line: bytes | None) -> Iterator[dict[str, Any] | Broken]:
    if line is None:
        yield Broken(number, f"the line is longer than {LONGEST:,} bytes")
        return
    if number == 1:
        line = line.removeprefix(BOM_UTF8)
    if not line.strip():
        return
    try:
        record, is_repaired = decode(line)
    except ValueError:
        yield Broken(number, "the line is not JSON: it may have been cut off")
        return
    if is_repaired:
        yield Broken(number, HALF_CHARACTER)
    yield record if type(record) is dict else Broken(number, "the line is not a JSON object")
