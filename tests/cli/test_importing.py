"""`frontdesk import` with transcripts of other tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from frontdesk.cli.output import counted
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
    store = frontdesk("import", "a.db", store="b.db")
    assert (store.code, "to move a Frontdesk store, use `copy`" in store.err) == (1, True)


def test_a_folder_without_transcripts_is_refused(frontdesk: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").write_text("hello")
    refused = frontdesk("import", "folder", store="a.db")
    assert (refused.code, refused.out) == (2, "")
    assert "folder has no transcripts: files named *.jsonl, " in refused.err


def test_a_source_that_cannot_be_read_is_refused(frontdesk: Run, tmp_path: Path) -> None:
    missing = frontdesk("import", "missing.jsonl", store="a.db")
    assert (missing.code, "missing.jsonl does not exist" in missing.err) == (2, True)
    assert not (tmp_path / "a.db").exists()
    piped = frontdesk("import", "-", "--format", "codex", store="a.db", input="{}")
    assert (piped.code, "not from standard input" in piped.err) == (2, True)


def test_a_store_that_ends_with_the_command_is_not_written_to(frontdesk: Run, demo: Path, tmp_path: Path) -> None:
    samples.write_lines(tmp_path / "a.jsonl", samples.CLAUDE)
    for arguments in (("import", "a.jsonl"), ("import", "-"), ("keys", "create", "laptop")):
        refused = frontdesk(*arguments, store="memory://")
        assert (refused.code, refused.out) == (2, "")
        assert "'memory://' is lost when this command ends" in refused.err
    assert frontdesk("copy", demo, "memory://").code == 2
    assert frontdesk("import", "a.jsonl", "--dry-run", store="memory://").code == 0


def test_problems_that_are_not_listed_are_counted(frontdesk: Run, tmp_path: Path) -> None:
    samples.write_lines(tmp_path / "a.jsonl", [*samples.CLAUDE, *["{"] * 1_200])
    done = frontdesk("import", "a.jsonl", store="a.db")
    assert done.code == 1
    assert len([line for line in done.err.splitlines() if "the line is not JSON" in line]) == 1_000
    assert done.err.endswith("1,200 problems, of which the first 1,000 are shown.\n")


def test_an_export_is_not_read_from_the_keyboard(tmp_path: Path) -> None:
    code, seen = in_terminal("import", "-", store=tmp_path / "a.db")
    assert code == 2
    assert b"standard input is the terminal" in seen


def test_progress_is_shown_in_a_terminal(tmp_path: Path) -> None:
    path = samples.write_lines(tmp_path / "a.jsonl", samples.CLAUDE)
    code, seen = in_terminal("import", path, store=tmp_path / "a.db")
    assert code == 0
    assert b"importing" in seen
    assert b"1 session, " in seen


def test_one_thing_is_not_named_in_the_plural(frontdesk: Run, tmp_path: Path) -> None:
    samples.write_lines(tmp_path / "a.jsonl", samples.CLAUDE[:2])
    done = frontdesk("import", "a.jsonl", store="a.db")
    assert done.out.startswith("1 session, ")
    assert ", from 1 file. 0 messages already existed." in done.out
    assert frontdesk("export", "b.jsonl", store="a.db").code == 0
    moved = frontdesk("import", "b.jsonl", store="b.db")
    assert moved.out.startswith("1 session with ")
    assert moved.out.endswith(" was imported, 0 already existed.\n")
    assert frontdesk("copy", "b.db", "c.db").out.startswith("1 session was copied, 0 were the same, 0 were deleted")
    again = frontdesk("copy", "b.db", "c.db", "--yes")
    assert again.out.startswith("0 sessions were copied, 1 was the same, 0 were deleted")


def test_things_are_counted_in_the_plural_unless_there_is_one() -> None:
    assert [counted(number, "file") for number in (0, 1, 2_000)] == ["0 files", "1 file", "2,000 files"]
    assert [counted(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]
