"""The memory of an import does not grow with the transcript. Each import runs in a process of its own."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.transfer.transcripts import samples

# The peak of `getrusage` starts with the memory of the process that started this one.
_IMPORT = """
import asyncio, re, sys
from pathlib import Path
from frontdesk import SessionManager

async def main(path, store, dry_run):
    async with SessionManager(store) as manager:
        report = await manager.import_transcripts(path, dry_run=dry_run == "dry")
        if not report.dry_run:
            await manager.reindex()
        peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
        print(report.messages, len(report.problems), peak // 1024)

asyncio.run(main(*sys.argv[1:]))
"""
_TEXT = "The suite on the third floor is free from Monday on. " * 38


Writer = Callable[[Path, int], None]


def write_claude_code(path: Path, megabytes: int) -> None:
    """A long session with a branch, a compaction and tool results here and there."""
    with path.open("w") as file:
        parent, number = None, 0
        while file.tell() < megabytes * 1_000_000:
            number += 1
            call = {"type": "text", "text": f"{number} {_TEXT}"}
            answer = samples.claude_answer(f"m{number}", parent or "", f"call-{number}", call, 5, number % 60)
            records = [answer | {"parentUuid": parent}]
            if number % 3 == 0:
                records.append({"type": "progress", "uuid": f"p{number}", "parentUuid": f"m{number}", "sessionId": "s"})
            if number % 4000 == 0:
                boundary = dict(samples.CLAUDE[11]) | {"uuid": f"b{number}", "logicalParentUuid": f"m{number}"}
                summary = samples.claude_record(f"s{number}", f"b{number}", "user", "Sum.", isCompactSummary=True)
                records += [boundary, summary]
            file.writelines(json.dumps(record) + "\n" for record in records)
            parent = f"m{number - 1}" if number % 2000 == 1000 else f"m{number}"


def write_chatgpt(path: Path, megabytes: int) -> None:
    with path.open("w") as file:
        file.write("[")
        number = 0
        while file.tell() < megabytes * 1_000_000:
            conversation = samples.chatgpt_conversation(f"c{number}")
            conversation["mapping"]["friday"]["message"]["content"]["parts"] = [_TEXT * 5, '"{[\\']
            file.write(json.dumps(conversation) + ", ")
            number += 1
        file.write(json.dumps(samples.chatgpt_conversation("last")) + "]")


def write_codex(path: Path, megabytes: int) -> None:
    """A long rollout in which turns are taken back and compacted here and there."""
    with path.open("w") as file:
        file.write(json.dumps(samples.CODEX[0]) + "\n")
        number = 0
        while file.tell() < megabytes * 1_000_000:
            number += 1
            asked, answered = samples.codex_said("user", f"{number}"), samples.codex_said("assistant", _TEXT)
            records = [
                samples.codex_line("response_item", asked),
                samples.codex_line("event_msg", {"type": "user_message", "message": f"{number}"}),
                samples.codex_line("response_item", answered),
                samples.codex_line("event_msg", samples.codex_count(100 * number, 100)),
            ]
            if number % 1000 == 500:
                records.append(samples.codex_line("event_msg", {"type": "thread_rolled_back", "num_turns": 2}))
            if number % 4000 == 0:
                records.append(samples.codex_line("compacted", {"message": "Sum."}))
            file.writelines(json.dumps(record) + "\n" for record in records)


def write_pi(path: Path, megabytes: int) -> None:
    """A long session, as Pi and OpenClaw write it, with branches and compactions."""
    with path.open("w") as file:
        file.write(json.dumps(samples.PI[0]) + "\n")
        parent, number = None, 0
        while file.tell() < megabytes * 1_000_000:
            number += 1
            answer = samples.pi_answer({"type": "text", "text": f"{number} {_TEXT}"})
            records = [samples.pi_entry(f"e{number}", parent, "message", number % 60, message=answer)]
            parent = f"e{number - 1}" if number % 2000 == 1000 else f"e{number}"
            if number % 4000 == 0:
                kept = {"summary": "Sum.", "firstKeptEntryId": parent, "tokensBefore": 500}
                records.append(samples.pi_entry(f"c{number}", parent, "compaction", 0, **kept))
                parent = f"c{number}"
            file.writelines(json.dumps(record) + "\n" for record in records)


def write_hermes(path: Path, megabytes: int) -> None:
    """One long session, of which a part was compacted and a part taken back."""
    samples.write_hermes(path)
    add = (
        "INSERT INTO messages (session_id, role, content, active, compacted, timestamp)"
        " VALUES ('20260305_hermes', 'assistant', ?, ?, 0, ?)"
    )
    rows = ((f"{number} {_TEXT}", number % 1000 > 10, 1772704900 + number) for number in range(megabytes * 500))
    with sqlite3.connect(path) as database:
        database.executemany(add, rows)
    database.close()


def memory_of_import(folder: Path, write: Writer, megabytes: int, *, dry_run: bool = False) -> int:
    """The megabytes that a process takes which imports a file of this size and, unless it is a dry run, indexes it."""
    path = folder / f"{megabytes}.json"
    if not path.exists():
        write(path, megabytes)
    store = f"sqlite:///{folder}/{megabytes}.db?synchronous=normal&readers=1"
    command = [sys.executable, "-c", _IMPORT, str(path), store, "dry" if dry_run else "write"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    messages, problems, memory = map(int, done.stdout.split())
    assert messages > megabytes * 100
    assert problems == 0
    return memory


_every_format = pytest.mark.parametrize(
    "write", [write_claude_code, write_chatgpt, write_codex, write_pi, write_hermes]
)


@_every_format
def test_the_memory_for_reading_does_not_grow_with_the_file(tmp_path: Path, write: Writer) -> None:
    small, large = (memory_of_import(tmp_path, write, size, dry_run=True) for size in (1, 30))
    assert large < small + 8


@pytest.mark.long
@_every_format
def test_the_memory_for_writing_does_not_grow_with_the_file(tmp_path: Path, write: Writer) -> None:
    # Both files are large enough to fill the caches of the store and to be indexed during the import.
    small, large = (memory_of_import(tmp_path, write, size) for size in (40, 80))
    assert large < small + 25


@pytest.mark.long
def test_the_memory_for_a_large_file_is_that_of_the_store(tmp_path: Path) -> None:
    small, large = (memory_of_import(tmp_path, write_claude_code, size) for size in (60, 300))
    assert large < small + 60  # of the 240 that the file has more: what the merges of a larger index take
    assert large < 250
