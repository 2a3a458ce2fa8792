"""Checking a store finds what is wrong and repairs what can be computed again; a backup is whole and can be opened."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from frontdesk import SessionManager
from tests.transfer.histories import Writer, configured, observe


@pytest.mark.parametrize("seed", range(4))
async def test_nothing_is_wrong_after_any_history(tmp_path: Path, postgres_url: str, seed: int) -> None:
    for url in ("memory://", f"sqlite:///{tmp_path}/a.db", postgres_url):
        async with configured(url) as manager:
            await Writer(manager, seed).write(60)
            await observe(manager)
            report = await manager.check()
            assert report.problems == ()
            assert report.sessions == len([info async for info in manager.iterate()])


@pytest.fixture
async def damaged(tmp_path: Path) -> Path:
    """A file in which counters, a record, a message and a total are wrong."""
    path = tmp_path / "a.db"
    async with configured(f"sqlite:///{path}") as manager:
        for name in ("one", "two", "three", "four"):
            for number in range(5):
                await manager.append(name, {"id": f"{name}{number}", "role": "user", "content": f"word{number}"})
            await manager.add_usage(name, input_tokens=7, cost="0.5")
    with sqlite3.connect(path) as file:
        file.execute("UPDATE sessions SET message_count = 99, view_tokens = 1 WHERE id = 'one'")
        file.execute("UPDATE messages SET raw = '{broken' WHERE id = 'two3'")
        file.execute("DELETE FROM messages WHERE id = 'three1'")
        file.execute("UPDATE sessions SET input_tokens = 0, cost = '9' WHERE id = 'four'")
    file.close()
    return path


async def test_problems_are_counted_even_if_there_are_too_many_to_list(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SessionManager(f"sqlite:///{path}") as manager:
        await asyncio.gather(*(manager.append(f"s{n}", {"role": "user", "content": "hi"}) for n in range(1_200)))
    with sqlite3.connect(path) as file:
        file.execute("UPDATE sessions SET message_count = 99")
    file.close()
    async with SessionManager(f"sqlite:///{path}") as manager:
        report = await manager.check()
        assert (len(report.problems), report.problems_total) == (1_000, 1_200)


async def test_damage_is_found_and_counters_are_repaired(damaged: Path) -> None:
    async with SessionManager(f"sqlite:///{damaged}") as manager:
        found = {(problem.session_id, problem.kind) for problem in (await manager.check()).problems}
        assert found == {
            ("one", "counter"),
            ("two", "damaged record"),
            ("three", "missing messages"),
            ("four", "counter"),
        }
        assert all(problem.fixed for problem in (await manager.check(fix=True)).problems if problem.kind == "counter")
        left = {(problem.session_id, problem.kind) for problem in (await manager.check()).problems}
        assert left == {("two", "damaged record"), ("three", "missing messages")}
        one, four = await manager.get("one"), await manager.get("four")
        assert one is not None
        assert four is not None
        assert (one.message_count, four.input_tokens, str(four.cost)) == (5, 7, "0.5")
        await manager.append("one", {"role": "user", "content": "more"})
        assert len(await manager.history("one")) == 6


async def test_a_backup_is_whole_while_others_write(tmp_path: Path) -> None:
    async with SessionManager(f"sqlite:///{tmp_path}/a.db") as manager:
        await manager.append("s", {"id": "first", "role": "user", "content": "hi"})

        async def write() -> None:
            for number in range(200):
                await manager.append("s", {"id": f"m{number}", "role": "user", "content": "hi"})

        writing = asyncio.ensure_future(write())
        await manager.backup(tmp_path / "copy.db")
        await writing
        with pytest.raises(FileExistsError):
            await manager.backup(tmp_path / "copy.db")
    async with SessionManager(f"sqlite:///{tmp_path}/copy.db") as copy:
        ids = [message.id async for message in copy.session("s").transcript()]
        assert ids == ["first", *(f"m{number}" for number in range(len(ids) - 1))]
        assert (await copy.check()).problems == ()


async def test_a_backup_of_another_store_is_an_export(tmp_path: Path, postgres_url: str) -> None:
    async with configured(postgres_url) as manager, configured("memory://") as target:
        await manager.append("s", {"role": "user", "content": "hi"})
        await manager.backup(tmp_path / "copy.jsonl")
        with pytest.raises(FileExistsError):
            await manager.backup(tmp_path / "copy.jsonl")
        lines = (tmp_path / "copy.jsonl").read_bytes().splitlines(keepends=True)
        assert (await target.import_lines(lines)).sessions == 1
