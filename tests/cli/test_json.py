"""`--json` on every command: nothing but JSON lines, also for errors."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from frontdesk.cli.app import app
from tests.cli.command import Command, command_line
from tests.cli.test_reading import Run

CALLS: dict[str, tuple[object, ...]] = {
    "list": ("--limit", 3),
    "show": ("lisbon", "--as-model"),
    "search": ("Lisbon",),
    "tail": ("--after", "start", "--no-follow"),
    "stats": (),
    "fork": ("lisbon", "--id", "forked"),
    "compact": ("forked",),
    "archive": ("forked",),
    "delete": ("forked", "--yes"),
    "erase": ("--peer", "ben", "--yes"),
    "export": ("out.jsonl",),
    "import": ("out.jsonl",),
    "doctor": (),
    "backup": ("backup.db",),
    "reindex": (),
    "keys create": ("phone",),
    "keys list": (),
}
OTHERS = {"copy", "demo", "mcp", "serve", "keys revoke"}
"""that are called in another way below, or that keep running: tests/cli/test_serving.py and tests/mcp"""


def names() -> set[str]:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    keys = commands.pop("keys")
    return {*commands, *(f"keys {name}" for name in keys.commands)}


def test_every_command_prints_json_lines(frontdesk: Run, demo: Path) -> None:
    assert {*CALLS, *OTHERS} == names()
    rows: dict[str, list[Any]] = {}
    for name, arguments in CALLS.items():
        done = frontdesk(*name.split(), *arguments, "--json", store=demo)
        rows[name] = done.rows
        assert rows[name], name
        assert all(isinstance(row, dict) for row in rows[name]), name
        assert all(isinstance(json.loads(line), dict) for line in done.err.splitlines()), (name, done.err)
    revoked = frontdesk("keys", "revoke", rows["keys create"][0]["id"], "--yes", "--json", store=demo)
    assert revoked.rows == [{"id": rows["keys create"][0]["id"], "revoked": True}]
    [copied] = frontdesk("copy", demo, "copy.db", "--json").rows
    assert copied["sessions"] == rows["doctor"][0]["sessions"]
    assert frontdesk("demo", "new.db", "--only-fill", "--messages", 10, "--json").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (("show", "nobody"), 3, "session_not_found"),
        (("fork", "lisbon", "--id", "lisbon"), 4, "session_exists"),
        (("list", "--cursor", "x"), 2, "invalid_cursor"),
        (("list", "--status", "happy"), 2, "usage"),
        (("list", "--unknown"), 2, "usage"),
        (("show",), 2, "usage"),
        (("delete", "lisbon"), 2, "usage"),
        (("import", "missing.jsonl"), 2, "usage"),
        (("export", "long" * 100), 1, "file"),
        (("backup", "no/such/folder/b.db"), 2, "usage"),
    ],
)
def test_errors_are_json_lines_with_the_exit_code_of_the_table(
    frontdesk: Run, demo: Path, arguments: tuple[str, ...], code: int, error: str
) -> None:
    done: Command = frontdesk(*arguments, "--json", store=demo)
    assert (done.code, done.out) == (code, ""), done.err
    [line] = done.err.splitlines()
    document = json.loads(line)
    assert document["error"] == error
    assert document["message"]


def test_a_full_disk_is_one_line_and_no_traceback(demo: Path, tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command_line("show", "dome-3", "--all"),
            env={**os.environ, "FRONTDESK_STORE": str(demo)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
    assert (done.returncode, done.stderr) == (1, "frontdesk: No space left on device\n")
