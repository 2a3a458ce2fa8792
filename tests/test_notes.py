"""Daily notes: what a note says, where it goes, and that nothing is lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontdesk import ConfigurationError, DailyNotes, SessionKey, SessionManager
from frontdesk.lifecycle.notes import _file_name

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time


def manager(clock: Clock, namespace: str = "default") -> SessionManager:
    return SessionManager("memory://", clock=clock, namespace=namespace)


async def talk(desk: SessionManager, session: str | SessionKey, clock: Clock) -> None:
    await desk.append(session, {"role": "user", "content": "Where is\n# the station?"})
    await desk.append(session, {"role": "assistant", "content": "Which one?"})
    clock.time += timedelta(hours=2, minutes=5)
    await desk.append(session, {"role": "assistant", "content": "Straight on." + " really" * 100})


async def test_a_note_says_how_a_conversation_went(tmp_path: Path) -> None:
    clock = Clock()
    async with manager(clock) as desk:
        desk.register_hook(DailyNotes(tmp_path, clock=clock))
        key = SessionKey("bot", "web", "ada:1")
        await talk(desk, key, clock)
        await desk.session(key).rename("Trip")
        await desk.new(key)
    note = (tmp_path / "default" / "2026-03-01.md").read_text()
    assert note.startswith("## Trip\n\n- ended 2026-03-01 14:05 UTC (reason new) after 2 h 5 min\n")
    assert "key bot:web:ada%3A1\n" in note
    assert "- 3 messages, 0 compactions," in note
    assert "- first question: Where is # the station?\n" in note
    answer = next(line for line in note.splitlines() if line.startswith("- last answer: Straight on."))
    assert (len(answer), answer[-1]) == (len("- last answer: ") + 200, "…")


async def test_a_summary_replaces_question_and_answer(tmp_path: Path) -> None:
    clock = Clock()
    async with manager(clock) as desk:
        desk.register_hook(DailyNotes(tmp_path, clock=clock))
        await desk.append_all("s", [{"id": f"m{n}", "role": "user", "content": "hi"} for n in range(4)])
        await desk.add_compaction("s", "They greeted.", "m0", "m2")
        await desk.archive("s")
        await desk.append_all("t", [{"role": "user", "content": "hi"}] * 3)
        await desk.session("t").set_summary("They said hi.")
        await desk.archive("t")
    note = (tmp_path / "default" / "2026-03-01.md").read_text()
    assert "- summary: They greeted.\n" in note
    assert "- summary: They said hi.\n" in note
    assert "first question" not in note


async def test_short_and_deleted_sessions_leave_no_note(tmp_path: Path) -> None:
    clock = Clock()
    async with manager(clock) as desk:
        desk.register_hook(DailyNotes(tmp_path, clock=clock))
        await desk.append_all("short", [{"role": "user", "content": "hi"}] * 2)
        await desk.archive("short")
        await talk(desk, "deleted", clock)
        await desk.delete("deleted")
        assert (await desk.stats()).hook_failures == 0
    assert list(tmp_path.iterdir()) == []


async def test_notes_go_to_a_block_that_later_sessions_see() -> None:
    clock = Clock()
    async with manager(clock).with_context("notes", scope="namespace") as desk:
        desk.register_hook(DailyNotes(block="notes", clock=clock))
        await talk(desk, "a", clock)
        await talk(desk, "b", clock)
        await desk.reset("a")
        await desk.archive("b")
        content = (await desk.session("later").context_block("notes")).content
        assert content.count("## ") == 2
        assert "(reason reset)" in content
        assert "(reason archive)" in content
        assert (await desk.stats()).hook_failures == 0


@pytest.mark.parametrize("remove", ["message", "summary", "author", "session", "guest"])
async def test_a_note_in_a_block_goes_with_what_it_quotes(remove: str) -> None:
    clock = Clock()
    async with manager(clock).with_context("notes", scope="namespace") as desk:
        desk.register_hook(DailyNotes(block="notes", clock=clock))
        await talk(desk, "other", clock)
        await desk.archive("other")
        session = desk.session(SessionKey("bot", "web", "ana"))
        await session.append({"id": "m1", "role": "user", "content": "My PIN is 4711.", "author": "ana"})
        await session.append_all([{"id": f"a{n}", "role": "assistant", "content": "Thank you."} for n in range(3)])
        if remove == "summary":
            await session.add_compaction("The PIN is 4711.", "m1", "a0")
        await desk.archive(session.id)
        assert "4711" in (await session.context_block("notes")).content
        match remove:
            case "author":
                await desk.erase(author="ana")
            case "session":
                await desk.delete(session.id)
            case "guest":
                await desk.erase(peer="ana")
            case _:
                await session.delete_messages(["m1"])
        later = desk.session("later")
        content = (await later.context_block("notes")).content
        assert "4711" not in repr([content, await later.block_history("notes")])
        assert "- first question: Where is # the station?" in content
        assert (await desk.stats()).hook_failures == 0


async def test_a_day_is_one_file_for_all_sessions_and_namespaces_have_their_own(tmp_path: Path) -> None:
    clock = Clock()
    hook = DailyNotes(tmp_path, clock=clock)
    for namespace in ("a", "../b"):
        async with manager(clock, namespace) as desk:
            desk.register_hook(hook)
            for number in range(3):
                await talk(desk, f"../../{number}\n## evil", clock)
            await asyncio.gather(*(desk.archive(f"../../{number}\n## evil") for number in range(3)))
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md"))
    assert found == ["%2E%2E%2Fb/2026-03-02.md", "a/2026-03-01.md"]
    for name in found:
        titles = [line for line in (tmp_path / name).read_text().splitlines() if line.startswith("## ")]
        assert sorted(titles) == [f"## ../../{number} ## evil" for number in range(3)]


WORKER = """
import asyncio, sys
from frontdesk import DailyNotes, SessionManager

async def main(folder, worker):
    async with SessionManager("memory://") as desk:
        desk.register_hook(DailyNotes(folder))
        for number in range(20):
            name = f"{worker}-{number}"
            await desk.append_all(name, [{"role": "user", "content": "x" * 5000}] * 3)
            await desk.archive(name)

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def test_workers_that_write_at_once_do_not_overwrite_each_other(tmp_path: Path) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), str(number)], env=dict(os.environ))
        for number in range(4)
    ]
    assert [worker.wait(60) for worker in workers] == [0] * 4
    text = "".join(path.read_text() for path in tmp_path.rglob("*.md"))
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert sorted(titles) == sorted(f"## {worker}-{number}" for worker in range(4) for number in range(20))
    assert text.count("- first question: ") == 80


@pytest.mark.parametrize("given", [{}, {"directory": "a", "block": "b"}])
def test_notes_go_to_one_place(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        DailyNotes(**given)


@given(st.text(min_size=1, max_size=200, alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_namespace_is_a_safe_file_name(namespace: str) -> None:
    name = _file_name(namespace)
    assert name not in ("", ".", "..")
    assert not {"/", "\\", "\0", ":"} & set(name)
    assert len(name.encode()) <= 255
    assert name == name.strip()


@given(st.sets(st.text("aA .~%é/", min_size=1, max_size=60), max_size=20))
def test_different_namespaces_have_different_file_names(namespaces: set[str]) -> None:
    assert len({_file_name(each) for each in namespaces}) == len(namespaces)
