"""`frontdesk import` with transcripts of other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.command import Command, in_terminal
from tests.transfer.transcripts import samples
from tests.transfer.transcripts.samples import SESSIONS, WRITERS

Run = Callable[..., Command]


def test_transcripts_are_imported_from_a_folder(frontdesk: Run, tmp_path: Path) -> None:
    folder = tmp_path / "transcripts"
    folder.mkdir()
    for write in WRITERS.values():
        write(folder)
    checked = frontdesk("import", "transcripts", "--dry-run", store="a.db")
    assert checked.code == 0
    assert checked.out.startswith("5 sessions, ")
    assert "would be imported, from 5 files. 0 messages already existed." in checked.out
    assert frontdesk("list", "--json", store="a.db").rows == []
    (report,) = frontdesk("import", "transcripts", "--json", store="a.db").rows
    assert report["sessions"] == 5
    (again,) = frontdesk("import", "transcripts", "--json", store="a.db").rows
    assert (again["messages"], again["known"]) == (0, report["messages"])
    assert {row["id"] for row in frontdesk("list", "--json", store="a.db").rows} == {*SESSIONS.values()}
    (hit, *_) = frontdesk("search", "Friday", "--json", store="a.db").rows
    assert hit["session_id"] in SESSIONS.values()


def test_what_is_not_imported_is_reported(frontdesk: Run, tmp_path: Path) -> None:
    samples.write_lines(tmp_path / "a.jsonl", [*samples.CLAUDE, "{"])
    done = frontdesk("import", "a.jsonl", store="a.db")
    assert done.code == 1
    assert "a.jsonl:16: the line is not JSON" in done.err
    assert "Records that are not messages: file-history-snapshot (1), progress (1)" in done.err
    samples.write_lines(tmp_path / "b.jsonl", [{"a": 1}])
    assert frontdesk("import", "b.jsonl", store="a.db").code == 2
    assert frontdesk("import", "a.jsonl", "--format", "word", store="a.db").code == 2
    assert frontdesk("import", "missing.jsonl", store="a.db").code == 1


def test_progress_is_shown_in_a_terminal(tmp_path: Path) -> None:
    path = samples.write_lines(tmp_path / "a.jsonl", samples.CLAUDE)
    code, seen = in_terminal("import", path, store=tmp_path / "a.db")
    assert code == 0
    assert b"importing" in seen
    assert b"1 sessions" in seen
