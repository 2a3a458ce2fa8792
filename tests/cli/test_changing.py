"""The commands that change, destroy and move sessions."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import Command, command_line, in_terminal

Run = Callable[..., Command]


def test_fork_archive_and_compact(frontdesk: Run, demo: Path) -> None:
    assert frontdesk("fork", "standup", "--id", "stand-2", "--name", "Copy", store=demo).out == "stand-2\n"
    (info,) = frontdesk("archive", "stand-2", "--json", store=demo).rows
    assert (info["status"], info["parent_session_id"], info["name"]) == ("archived", "standup", "Copy")
    again = frontdesk("archive", "stand-2", store=demo)
    assert again.code == 4
    (done,) = frontdesk("compact", "dome-3", "--json", store=demo).rows
    assert done["result"]["tokens_after"] < done["result"]["tokens_before"]
    assert "too little" in frontdesk("compact", "standup", store=demo).out
    assert frontdesk("compact", "standup", "--model", "oracle:x", store=demo).code == 2


def test_deleting_asks_first(frontdesk: Run, demo: Path) -> None:
    refused = frontdesk("delete", "standup", store=demo)
    assert (refused.code, "--yes" in refused.err) == (2, True)
    code, seen = in_terminal("delete", "standup", store=demo, answer="n\n")
    assert code == 1
    assert b"Delete 'standup' (Platform stand-up) with 5 messages?" in seen
    assert frontdesk("show", "standup", store=demo).code == 0
    code, _ = in_terminal("delete", "standup", store=demo, answer="\x03")
    assert code == 1
    assert frontdesk("show", "standup", store=demo).code == 0
    code, _ = in_terminal("delete", "standup", store=demo, answer="y\n")
    assert code == 0
    assert frontdesk("show", "standup", store=demo).code == 3
    assert frontdesk("delete", "standup", "--yes", store=demo).code == 3


def test_erase_removes_a_guest(frontdesk: Run, demo: Path) -> None:
    assert frontdesk("erase", store=demo).code == 2
    assert frontdesk("erase", "--peer", "kenji", store=demo).code == 2
    (report,) = frontdesk("erase", "--peer", "kenji", "--yes", "--json", store=demo).rows
    assert (report["sessions"], report["messages"]) == (1, 4)
    assert frontdesk("search", "京都", "--json", store=demo).rows == []


def test_export_and_import_move_a_namespace(frontdesk: Run, demo: Path, tmp_path: Path) -> None:
    assert frontdesk("export", "all.jsonl", store=demo).code == 0
    assert frontdesk("export", "all.jsonl", store=demo).code == 2  # it is there already
    assert "is the store itself" in frontdesk("export", demo, "--force", store=demo).err
    checked = frontdesk("import", "all.jsonl", "--dry-run", store="new.db")
    assert checked.code == 0
    assert "would be imported" in checked.out
    (report,) = frontdesk("import", "all.jsonl", "--json", store="new.db").rows
    assert report["sessions"] > 20
    assert frontdesk("export", "-", store="new.db").out == (tmp_path / "all.jsonl").read_text()

    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    lines[3] = "broken"
    broken = frontdesk("import", "-", "--namespace", "other", store="new.db", input="\n".join(lines))
    assert broken.code == 1
    assert broken.err.startswith("line 4: ")


def test_an_export_that_fails_leaves_no_file(demo: Path, tmp_path: Path) -> None:
    line = ["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", *command_line("export", "all.jsonl", "--store", demo)]
    failed = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert (failed.returncode, failed.stderr) == (1, "frontdesk: File too large\n")
    assert not list(tmp_path.glob("all.jsonl*"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("export", "--force", "folder"), "is a directory"),
        (("export", "nowhere/all.jsonl"), "there is no folder 'nowhere'"),
        (("backup", "nowhere/all.db"), "there is no folder 'nowhere'"),
        (("backup", "folder"), "'folder' exists: choose another name"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is(
    frontdesk: Run, tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "folder").mkdir()
    refused = frontdesk(*arguments, store="memory://")
    assert refused.code == 2
    assert reason in refused.err
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".partial")]


def test_reindex(frontdesk: Run, demo: Path) -> None:
    (info,) = frontdesk("reindex", "--json", store=demo).rows
    assert info["texts"] > 3_000
    assert json.dumps(info["building"]) == "false"


def test_doctor_and_backup(frontdesk: Run, demo: Path, tmp_path: Path) -> None:
    assert "the first search builds it" in frontdesk("doctor", "--namespace", "empty", store=demo).out
    assert "(forks share theirs)" in frontdesk("doctor", store=demo).out
    (report,) = frontdesk("doctor", "--json", store=demo).rows
    assert report["problems"] == []
    with sqlite3.connect(demo) as file:
        file.execute("UPDATE sessions SET message_count = 1 WHERE id = 'lisbon'")
    file.close()
    found = frontdesk("doctor", store=demo)
    assert found.code == 1
    assert "message_count is 1" in found.out
    fixed = frontdesk("doctor", "--fix", "--backup", "before.db", store=demo)
    assert (fixed.code, "fixed" in fixed.out) == (0, True)
    assert "message_count is 1" in frontdesk("doctor", store=tmp_path / "before.db").out
    assert frontdesk("backup", "copy.db", store=demo).code == 0
    assert frontdesk("doctor", "--json", store=tmp_path / "copy.db").rows[0]["problems"] == []
    refused = frontdesk("backup", "copy.db", store=demo)
    assert (refused.code, "'copy.db' exists: choose another name" in refused.err) == (2, True)


def test_copy_moves_a_namespace_to_another_store(frontdesk: Run, demo: Path) -> None:
    (first,) = frontdesk("copy", demo, "new.db", "--json").rows
    (second,) = frontdesk("copy", demo, "new.db", "--json", "--yes").rows
    assert (second["sessions"], second["unchanged"]) == (0, first["sessions"])
    assert frontdesk("copy", demo, "new.db").code == 2  # there are sessions, and nobody can be asked
    shown = [frontdesk("show", "lisbon", "--all", "--json", store=store).out for store in (demo, "new.db")]
    assert shown[0] == shown[1]
    assert frontdesk("copy", "missing.db", "new.db").code == 2
    for other_name in (f"sqlite:///{demo}", f"{demo.parent}/./{demo.name}"):
        itself = frontdesk("copy", demo, other_name, "--yes")
        assert (itself.code, "the same store" in itself.err) == (2, True), other_name
