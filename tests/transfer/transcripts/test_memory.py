"""The memory of an import does not grow with the transcript. Each import runs in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.transfer.transcripts import samples

_IMPORT = """
import asyncio, resource, sys
from frontdesk import SessionManager

async def main(path, store, dry_run):
    async with SessionManager(store) as manager:
        report = await manager.import_transcripts(path, dry_run=dry_run == "dry")
        print(report.messages, len(report.problems), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)

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
            conversation["mapping"]["friday"]["message"]["content"]["parts"] = [_TEXT * 20, '"{[\\']
            file.write(json.dumps(conversation) + ", ")
            number += 1
        file.write(json.dumps(samples.chatgpt_conversation("last")) + "]")


def memory_of_import(folder: Path, write: Writer, megabytes: int, *, dry_run: bool = False) -> int:
    """The megabytes that a process takes which imports a file of this size."""
    path = folder / f"{megabytes}.json"
    if not path.exists():
        write(path, megabytes)
    store = f"sqlite:///{folder}/{megabytes}.db?synchronous=normal"
    command = [sys.executable, "-c", _IMPORT, str(path), store, "dry" if dry_run else "write"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    messages, problems, memory = map(int, done.stdout.split())
    assert messages > megabytes * 100
    assert problems == 0
    return memory


@pytest.mark.parametrize("write", [write_claude_code, write_chatgpt])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, write: Writer) -> None:
    read = [memory_of_import(tmp_path, write, size, dry_run=True) for size in (1, 30)]
    assert read[1] < read[0] + 8
    written = [memory_of_import(tmp_path, write, size) for size in (1, 20)]
    assert written[1] < written[0] + 30  # the caches of the store fill up, and the index is built in the background


@pytest.mark.long
def test_the_memory_for_a_large_file_is_that_of_the_store(tmp_path: Path) -> None:
    assert memory_of_import(tmp_path, write_claude_code, 300) < 250
