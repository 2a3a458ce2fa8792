"""A copy makes another store the same, can be interrupted, and follows what is written meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from frontdesk import CopyReport, SessionKey, SessionManager
from tests.transfer.histories import Writer, configured, observe

YESTERDAY = datetime.now(UTC) - timedelta(days=1)


async def seen(manager: SessionManager) -> dict[str, Any]:
    found = await observe(manager)
    found["order"] = sorted(found["order"])
    for session_id in found["order"]:
        found[session_id]["info"] = dataclasses.replace(found[session_id]["info"], namespace="")
    return found


async def events_of(manager: SessionManager, after: str) -> list[str | None]:
    """The messages in the events after a position; None for other events."""
    return [event.message_id async for event in manager.events(after=after, follow=False)]


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_copy_is_the_same_and_a_second_one_writes_only_what_has_changed(
    tmp_path: Path, postgres_url: str, seed: int
) -> None:
    async with configured(f"sqlite:///{tmp_path}/a.db") as source, configured(postgres_url) as target:
        writer = Writer(source, seed)
        await writer.write(60)
        await target.append("of another time", {"role": "user", "content": "gone after the copy"})
        first = await source.copy_to(target)
        assert (first.unchanged, first.deleted) == (0, 1)
        again = await source.copy_to(target)
        assert (again.sessions, again.deleted) == (0, 0)
        await writer.write(25)
        await source.append("new", {"role": "user", "content": "written between two copies"})
        assert (await source.copy_to(target)).sessions > 0
        assert await seen(target) == await seen(source)
        assert (await target.check()).problems == ()
        assert [hit.session_id for hit in await target.search("between")] == ["new"]


async def test_an_interrupted_copy_is_started_again(tmp_path: Path) -> None:
    async with configured("memory://") as source, configured(f"sqlite:///{tmp_path}/a.db") as target:
        await Writer(source, 3).write(60)
        for number in range(5):
            await source.append(f"more {number}", {"role": "user", "content": "hi"})
        copied: list[CopyReport] = []

        def stop(report: CopyReport) -> None:
            copied.append(report)
            if len(copied) == 3:
                raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            await source.copy_to(target, on_progress=stop)
        rest = await source.copy_to(target)
        assert rest.unchanged >= 3
        assert await seen(target) == await seen(source)


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
async def test_a_key_that_points_at_another_session_is_copied(store: str, tmp_path: Path, postgres_url: str) -> None:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/b.db", "postgres": postgres_url}[store]
    ana, ben = SessionKey("concierge", "web", "ana"), SessionKey("concierge", "web", "ben")
    async with configured(f"sqlite:///{tmp_path}/a.db") as source, configured(url) as target:
        for key in (ana, ben):
            await source.session(key).append({"role": "user", "content": "before"})
        await source.copy_to(target)
        info = await source.get(ana)
        assert info is not None
        await source.delete(info.id)
        await source.session(ana).append({"role": "user", "content": "after"})
        await source.new(ben)
        await source.copy_to(target)
        assert await seen(target) == await seen(source)
        for key in (ana, ben):
            assert await target.get(key) == await source.get(key)


async def test_a_copy_follows_what_is_written_and_deleted(tmp_path: Path) -> None:
    async with configured(f"sqlite:///{tmp_path}/a.db") as source, configured("memory://") as target:
        for name in ("stays", "goes"):
            await source.append(name, {"role": "user", "content": "before"})
        following = asyncio.ensure_future(source.copy_to(target, follow=True))
        while await target.get("goes") is None:
            assert not following.done()
            await asyncio.sleep(0.01)
        await source.append("stays", {"role": "user", "content": "after"})
        await source.session("stays").replace_context_block("house", "Quiet after ten.")
        await source.delete("goes")
        await source.append("comes", {"role": "user", "content": "last"})
        while await target.get("comes") is None or await target.get("goes") is not None:
            assert not following.done()
            await asyncio.sleep(0.01)
        # What the change log does not announce is followed, too.
        await source.shelves("checkpoints").write("t", put={b"k": b"v"})
        while (await target.shelves("checkpoints").read("t")).version is None:
            assert not following.done()
            await asyncio.sleep(0.01)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await source.copy_to(target)  # the last round, once nobody writes any more
        assert await seen(target) == await seen(source)
        assert [message.text for message in await target.history("stays")] == ["before", "after"]


async def test_a_copy_is_exact_while_a_writer_is_busy(tmp_path: Path, postgres_url: str) -> None:
    async with configured(f"sqlite:///{tmp_path}/a.db") as source, configured(postgres_url) as target:
        writer = Writer(source, 11)
        await writer.write(40)
        following = asyncio.ensure_future(source.copy_to(target, follow=True))
        for round in range(12):
            await writer.write(8)
            await source.append("busy", {"id": f"b{round}", "role": "user", "content": f"round{round} of the writer"})
            await source.add_usage("busy", input_tokens=round, usage_id=f"u{round}")
            assert not following.done()
        # It reaches the last message while it follows, without being asked again.
        while not any(hit.message_id == "b11" for hit in await target.search("round11")):
            assert not following.done()
            await asyncio.sleep(0.01)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await source.copy_to(target)  # the switch: nobody writes any more
        assert await seen(target) == await seen(source)
        assert (await target.check()).problems == ()
        found = [[hit.message_id for hit in await each.search("writer", limit=50)] for each in (source, target)]
        assert sorted(found[0]) == sorted(found[1])
        # The target continues as the source would.
        for each in (source, target):
            await each.append("busy", {"id": "after", "role": "user", "content": "after the switch"})
        texts = [[message.text for message in await each.history("busy")] for each in (source, target)]
        assert texts[0] == texts[1]


async def test_a_round_costs_what_is_new_in_a_long_conversation(tmp_path: Path) -> None:
    async with configured(f"sqlite:///{tmp_path}/a.db") as source, configured(f"sqlite:///{tmp_path}/b.db") as target:
        said = [{"id": f"m{n}", "role": "user", "content": f"word{n} of many"} for n in range(2000)]
        await source.session("long").append_all(said)
        await source.copy_to(target)
        before = await target.position()
        for round in range(3):
            await source.append("long", {"id": f"new{round}", "role": "user", "content": f"fresh{round} words"})
            await source.add_usage("long", input_tokens=7, cost="0.1", usage_id=f"u{round}")
            assert (await source.copy_to(target)).sessions == 1
            # The session stays, and only the message that is new is announced: nothing was deleted or written again.
            assert await events_of(target, after=before) == [f"new{round}"]
            before = await target.position()
            assert (await target.search(f"fresh{round}"))[0].message_id == f"new{round}"
        assert await seen(target) == await seen(source)
        assert (await target.check()).problems == ()


async def usage_of(manager: SessionManager) -> list[str]:
    """The usage lines of an export."""
    return [line.decode() async for line in manager.export() if b'"usage"' in line]


async def test_usage_that_the_totals_do_not_show_is_copied(tmp_path: Path) -> None:
    async with configured(f"sqlite:///{tmp_path}/a.db") as source, configured("memory://") as target:
        await source.append("trip", {"role": "user", "content": "hi"})
        await source.add_usage("trip", input_tokens=1, model="local", usage_id="first", at=YESTERDAY)
        await source.copy_to(target)
        await source.add_usage("trip", cache_write_tokens=50, model="m", usage_id="cached")
        assert (await source.copy_to(target)).sessions == 1
        assert (await target.usage(session="trip")).total.cache_write_tokens == 50
        await source.add_usage("trip", model="local", usage_id="free", at=YESTERDAY)  # the session stays the same
        assert await source.copy_to(target) == CopyReport(sessions=1)
        assert len(await usage_of(target)) == 3
        assert await usage_of(target) == await usage_of(source)
        assert await source.copy_to(target) == CopyReport(unchanged=1)


async def test_a_copy_follows_usage_that_the_totals_do_not_show() -> None:
    async with configured("memory://") as source, configured("memory://") as target:
        await source.append("trip", {"role": "user", "content": "hi"})
        following = asyncio.ensure_future(source.copy_to(target, follow=True))
        while await target.get("trip") is None:
            assert not following.done()
            await asyncio.sleep(0.01)
        await source.add_usage("trip", model="local", usage_id="free", at=YESTERDAY)
        while await usage_of(target) != await usage_of(source):
            assert not following.done()
            await asyncio.sleep(0.01)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_a_copy_that_was_killed_is_resumed(tmp_path: Path, postgres_url: str) -> None:
    async with configured(f"sqlite:///{tmp_path}/a.db") as source, configured(postgres_url) as target:
        await Writer(source, 5).write(60)
        for number in range(60):
            texts = [{"id": f"m{n}", "role": "user", "content": f"{number} {n}"} for n in range(50)]
            await source.session(f"s{number}").append_all(texts)
        command = [sys.executable, "-m", "frontdesk", "copy", str(tmp_path / "a.db"), postgres_url, "--follow"]
        copying = subprocess.Popen([*command, "--yes"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while await target.count(most=3) < 3:
                assert copying.poll() is None
                await asyncio.sleep(0.01)
        finally:
            copying.kill()
            copying.wait()
        copied = await target.count()
        rest = await source.copy_to(target)
        assert rest.unchanged >= copied > 0
        assert await seen(target) == await seen(source)
        assert (await target.check()).problems == ()
