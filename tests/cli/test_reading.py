"""The commands that read, and what all commands have in common: exit codes, pipes, terminals, Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from frontdesk import Message, SessionManager
from tests.cli.command import Command, command_line, in_terminal
from tests.transfer.transcripts import samples
from tests.transfer.transcripts.samples import SESSIONS

Run = Callable[..., Command]


def test_list_prints_sessions_as_json_and_as_tabs(frontdesk: Run, demo: Path) -> None:
    rows = frontdesk("list", "--json", "--agent", "concierge", store=demo).rows
    assert {"room-204", "lisbon", "talk-ja"} <= {row["id"] for row in rows}
    assert {row["key"]["agent"] for row in rows} == {"concierge"}
    tabs = [line.split("\t") for line in frontdesk("list", "--store", f"sqlite:///{demo}").out.splitlines()]
    assert tabs[0][:3] == ["id", "name", "key"]
    assert tabs[1][:5] == ["room-204", "Room 204", "concierge:whatsapp:+351 910 000 118:room-204", "active", "4"]


def test_list_continues_with_a_cursor(frontdesk: Run, demo: Path) -> None:
    first = frontdesk("list", "--limit", 3, store=demo)
    cursor = re.search(r"--cursor (\S+)", first.err)
    assert cursor is not None
    second = frontdesk("list", "--limit", 3, "--cursor", cursor[1], store=demo)
    ids = [line.split("\t")[0] for line in (first.out + second.out).splitlines() if not line.startswith("id\t")]
    assert len(set(ids)) == 6
    described = frontdesk("list", "--limit", 3, "--json", store=demo)
    assert json.loads(described.err) == {"next_cursor": cursor[1]}


def test_show_prints_the_transcript_and_with_as_model_the_summary(frontdesk: Run, demo: Path) -> None:
    info, *written = frontdesk("show", "lisbon", "--all", "--json", store=demo).rows
    assert info["compaction_count"] == 1
    _, *seen = frontdesk("show", "lisbon", "--all", "--as-model", "--json", store=demo).rows
    assert "Can we see the tiles museum and still be back for lunch?" in [message["content"] for message in written]
    assert "Can we see the tiles museum and still be back for lunch?" not in [message["content"] for message in seen]
    assert seen[0]["content"].startswith("Ana and her daughter")
    text = frontdesk("show", "@concierge:whatsapp:kenji", store=demo).out
    assert "桜はまだ咲いていますか?" in text


def test_show_draws_the_branches(frontdesk: Run, demo: Path) -> None:
    info, *branches = frontdesk("show", "lisbon", "--tree", "--json", store=demo).rows
    assert info["id"] == "lisbon"
    assert [(branch["first"], branch["parent"], branch["head"]) for branch in branches] == [
        (0, None, True),
        (1, 0, False),
    ]
    assert branches[1]["begins"]["content"].startswith("Three days in Porto")
    drawn = frontdesk("show", "lisbon", "--tree", store=demo).out
    assert re.search(r"^  └ 2 to 3  user: Three days in Porto", drawn, re.MULTILINE)
    assert drawn.count("← head") == 1


def test_show_reads_only_the_end_of_a_long_session(frontdesk: Run, demo: Path) -> None:
    shown = frontdesk("show", "dome-3", "--last", 4, "--json", store=demo)
    assert len(shown.rows) == 5
    assert "of 3,002 messages" in frontdesk("show", "dome-3", "--last", 4, store=demo).err


def test_search_finds_and_marks_words(frontdesk: Run, demo: Path) -> None:
    hits = frontdesk("search", "umbrella OR azulejo", "--json", store=demo).rows
    assert any(hit["session_id"] == "lisbon" for hit in hits)
    assert "Azulejo" in frontdesk("search", "azulejo", store=demo).out


def test_stats_counts_the_namespace(frontdesk: Run, demo: Path) -> None:
    (stats,) = frontdesk("stats", "--json", store=demo).rows
    assert stats["sessions"] == sum(stats["by_status"].values()) > 20
    (empty,) = frontdesk("stats", "--json", "--namespace", "other", store=demo).rows
    assert empty["sessions"] == 0


async def test_tail_shows_what_another_process_writes_and_ends_with_ctrl_c(demo: Path) -> None:
    line = command_line("tail", "live", "--json", "--store", demo)
    process = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    async with SessionManager(f"sqlite:///{demo}") as manager:
        # The command follows from the moment at which it is ready, so write until it has reported something.
        first = asyncio.ensure_future(process.stdout.readline())
        written: list[Message] = []
        while not first.done():
            written.append((await manager.append("live", {"role": "user", "content": f"said {len(written)}"})).message)
            await asyncio.wait([first], timeout=0.2)
        event = json.loads(await first)
        while event["kind"] != "message.appended":
            event = json.loads(await process.stdout.readline())
    assert event["session_id"] == "live"
    assert (event["message_id"], event["text"]) in [(message.id, message.text) for message in written]
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 60) == 130


def test_errors_have_exit_codes_from_the_table_and_no_traceback(frontdesk: Run, demo: Path) -> None:
    missing = frontdesk("show", "nobody", store=demo)
    assert (missing.code, missing.out) == (3, "")
    assert missing.err.startswith("frontdesk: no session 'nobody'")
    assert "@concierge:web:ana" in frontdesk("show", "concierge:web:ana", store=demo).err
    described = frontdesk("show", "nobody", "--json", store=demo)
    assert json.loads(described.err)["error"] == "session_not_found"
    assert frontdesk("show", "@not-a-key", store=demo).code == 2
    assert frontdesk("list", "--limit", 0, store=demo).code == 2
    assert frontdesk("list", "--cursor", "forged", store=demo).code == 2
    for run in (missing, described):
        assert "Traceback" not in run.err


def test_a_store_must_be_named_and_must_exist(frontdesk: Run, tmp_path: Path) -> None:
    unnamed = frontdesk("list")
    assert unnamed.code == 2
    assert "FRONTDESK_STORE" in unnamed.err
    mistyped = frontdesk("list", store="agnets.db")
    assert mistyped.code == 2
    assert "there is no file 'agnets.db'" in mistyped.err
    assert not (tmp_path / "agnets.db").exists()
    assert frontdesk("list", store="oracle://host/db").code == 2


def test_a_closed_pipe_is_quiet(demo: Path) -> None:
    line = " ".join(command_line("show", "dome-3", "--all", "--store", demo))
    done = subprocess.run(f"{line} | head -n 1", shell=True, capture_output=True, text=True, timeout=60)
    assert (done.stdout.split("  ")[0], done.stderr) == ("dome-3", "")


@pytest.mark.parametrize("arguments", [("show", "untrusted", "--all"), ("list",), ("search", "red title bell")])
def test_hostile_content_never_reaches_the_terminal(demo: Path, arguments: tuple[str, ...]) -> None:
    code, seen = in_terminal(*arguments, store=demo)
    assert code == 0
    # The only escape sequences are those of our own colours.
    assert b"\x1b[" in seen
    assert re.sub(rb"\x1b\[[0-9;]*m", b"", seen).translate(None, b"\r\n\t").find(b"\x1b") == -1
    for dangerous in (b"\x07", "\u202e".encode(), b"\x1b[2J", b"\x1b[31mred", b"\x1b]0;"):
        assert dangerous not in seen
    if arguments[0] == "show":
        assert rb"\x1b[31mred?" in seen
        assert b"<script>alert('from a message')</script>" in seen


def test_a_narrow_terminal_shows_whole_ids(frontdesk: Run, tmp_path: Path) -> None:
    transcript = samples.write_lines(tmp_path / "a.jsonl", samples.CLAUDE)
    assert frontdesk("import", transcript, store="a.db").code == 0
    made = frontdesk("fork", SESSIONS["claude-code"], store="a.db").out.strip()
    _, seen = in_terminal("list", store=tmp_path / "a.db", columns=80)
    assert made.encode() in seen


def test_json_escapes_what_a_terminal_would_act_on(frontdesk: Run, demo: Path) -> None:
    shown = frontdesk("show", "untrusted", "--all", "--json", store=demo)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown.out)
    assert any("\x1b[31mred?" in str(row.get("content")) for row in shown.rows)


def test_help_lists_the_commands(frontdesk: Run) -> None:
    assert re.search(r"^  tail +Follow the events", frontdesk("--help").out, re.MULTILINE)
    assert "..." not in frontdesk("--help").out.partition("Commands:")[2]  # every sentence fits
    assert frontdesk().code == 2


def test_completion_completes_commands_and_options(frontdesk: Run, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "_FRONTDESK_COMPLETE": "complete_bash",
        "COMP_WORDS": "frontdesk st",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(command_line(), env=environment, capture_output=True, text=True, timeout=60)
    assert "stats" in done.stdout.split()


def test_help_loads_only_what_it_prints() -> None:
    """The start of the command takes as long as its imports: it must not load the library, or an event loop."""
    script = "import sys; from frontdesk.cli.app import app; app(['-h'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "frontdesk.cli.app" in loaded
    heavy = {"frontdesk.public", "frontdesk.manager", "msgspec", "apsw", "asyncio", "rich", "fastapi", "mcp"}
    assert not loaded & heavy


def test_a_manager_loads_what_moves_namespaces_when_that_is_called() -> None:
    """Every program that uses the library pays for its imports, and few import or export anything."""
    script = "import sys; from frontdesk import *; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("frontdesk.transfer")}
    assert loaded <= {"frontdesk.transfer", "frontdesk.transfer.transcripts"}


def test_the_command_prints_its_version(frontdesk: Run) -> None:
    assert frontdesk("--version").out.strip() == version("frontdesk")
