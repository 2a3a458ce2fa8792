"""An import that ends in the middle of a family leaves nothing, once it is repeated or the store is checked."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from frontdesk import SessionManager
from frontdesk.errors import ConcurrentChangeError
from tests.transfer.histories import configured, observe

TABLES = ("sessions", "segments", "messages", "overlays", "edits", "lineage", "usage_entries", "unfinished_sessions")
IMPORT = """
import asyncio, sys
from frontdesk import SessionManager
async def main():
    async with SessionManager(sys.argv[1]) as manager:
        await manager.import_lines(sys.stdin.buffer)
asyncio.run(main())
"""


async def export_of_a_family() -> list[bytes]:
    """The lines of a small session, and of two that share messages and are written in several steps."""
    async with configured("memory://") as source:
        await source.append("short", {"id": "s", "role": "user", "content": "hello"})
        trip = source.session("trip")
        await trip.append_all([{"id": f"m{n}", "role": "user", "content": f"word{n}"} for n in range(1200)])
        await source.fork("trip", "m700", new_id="plan-b")
        await source.session("plan-b").append_all([{"role": "user", "content": f"other{n}"} for n in range(600)])
        await source.add_compaction("plan-b", "summary", "m3", "m9")
        for number in range(700):
            await source.add_usage("plan-b", input_tokens=number, cost="0.01", usage_id=f"u{number:04}")
        return [line async for line in source.export()]


async def rows_in(url: str) -> dict[str, int]:
    """How many rows each table has."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            return {table: file.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}
    connection = await asyncpg.connect(url)
    try:
        return {table: await connection.fetchval(f"SELECT count(*) FROM frontdesk.{table}") for table in TABLES}
    finally:
        await connection.close()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/a.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


async def kill_in_the_middle(url: str, lines: list[bytes]) -> None:
    """Import these lines as far as they can be written, and kill the process, which waits for more."""
    async with SessionManager(url) as manager:
        await manager.count()  # the tables are there
    kinds = [json.loads(line)["type"] for line in lines]
    wanted = (kinds.count("message") + kinds.count("usage")) // 500 * 500
    process = subprocess.Popen([sys.executable, "-c", IMPORT, url], stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        process.stdin.write(b"".join(lines))
        process.stdin.flush()
        rows = await rows_in(url)
        while rows["messages"] + rows["usage_entries"] < wanted:
            assert process.poll() is None
            await asyncio.sleep(0.01)
            rows = await rows_in(url)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("fed", [600, 1300, 2100, 2500])
async def test_a_repeated_import_removes_what_a_killed_one_left(url: str, fed: int) -> None:
    lines = await export_of_a_family()
    await kill_in_the_middle(url, lines[:fed])
    assert (await rows_in(url))["messages"] >= 500
    async with configured(url) as manager, configured("memory://") as other:
        report = await manager.import_lines(lines)
        assert (report.problems, report.sessions, report.skipped) == ((), 2, 1)
        await other.import_lines(lines)
        assert await observe(manager) == await observe(other)
        assert (await manager.check()).problems == ()
    rows = await rows_in(url)
    assert (rows["sessions"], rows["messages"], rows["usage_entries"]) == (3, 1801, 700)
    assert rows["unfinished_sessions"] == 0


async def test_a_check_finds_and_removes_what_a_killed_import_left(url: str) -> None:
    lines = await export_of_a_family()
    await kill_in_the_middle(url, lines[:2500])
    async with configured(url) as manager:
        for fix in (False, True):
            problems = (await manager.check(fix=fix)).problems
            assert [(one.kind, one.session_id, one.fixed) for one in problems] == [("unfinished import", "trip", fix)]
        assert (await manager.check()).problems == ()
        await manager.delete("short")
    assert set((await rows_in(url)).values()) == {0}


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
async def test_a_family_with_a_broken_line_leaves_nothing(store: str, tmp_path: Path, postgres_url: str) -> None:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/a.db", "postgres": postgres_url}[store]
    lines = await export_of_a_family()
    broken = [*lines[:-20], b"{broken\n", *lines[-20:]]
    async with configured(url) as manager:
        report = await manager.import_lines(broken)
        assert (report.sessions, len(report.problems)) == (1, 1)
        assert (await manager.check()).problems == ()
        await manager.import_lines(lines)
        async with configured("memory://") as other:
            await other.import_lines(lines)
            seen, wanted = await observe(manager), await observe(other)
            assert seen | {"totals": None} == wanted | {"totals": None}
    if store != "memory":
        assert (await rows_in(url))["messages"] == 1801


async def test_an_import_whose_family_another_one_takes_over_stops(url: str) -> None:
    lines = await export_of_a_family()
    async with configured(url) as first, configured(url) as second:

        async def overtaken() -> AsyncIterator[bytes]:
            for number, line in enumerate(lines):
                if number == 1000:
                    assert (await second.import_lines(lines)).sessions == 2
                yield line

        with pytest.raises(ConcurrentChangeError):
            await first.import_lines(overtaken())
        assert (await first.check()).problems == ()
    assert (await rows_in(url))["messages"] == 1801
