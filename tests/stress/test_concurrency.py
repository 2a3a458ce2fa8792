"""Many concurrent writers, in one process and in eight: every acknowledged message is stored exactly once."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from frontdesk import SessionManager
from tests.servers.pooler import TransactionPooler
from tests.stress.proof import check_namespace, working
from tests.stress.worker import SESSIONS, TASKS

PROCESSES = 8
EACH = 12


@pytest.fixture(params=["sqlite", "postgres", "pooler"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A durable store that several processes can share."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/stress.db"
    postgres_url: str = request.getfixturevalue("postgres_url")
    if request.param == "postgres":
        return postgres_url
    pooler: TransactionPooler = request.getfixturevalue("pooler")
    return f"{pooler.url(postgres_url)}?pooler=transaction"


@pytest.mark.parametrize("sessions", [1, SESSIONS], ids=["one session", "many sessions"])
async def test_64_tasks_append_and_nothing_is_lost_or_duplicated(url: str, sessions: int) -> None:
    async with SessionManager(url) as manager:

        async def task(number: int) -> None:
            for n in range(20):
                message = {"id": f"{number}-{n}", "role": "user", "content": f"text {n}"}
                assert (await manager.append(f"s{(number + n) % sessions}", message)).inserted

        await asyncio.gather(*(task(number) for number in range(64)))
        paths = await check_namespace(manager)
    assert len(paths) == sessions
    assert sorted(each for path in paths.values() for each in path) == sorted(
        f"{number}-{n}" for number in range(64) for n in range(20)
    )


@pytest.mark.parametrize("work", ["one", "many"])
async def test_8_processes_append_and_nothing_is_lost_or_duplicated(url: str, work: str) -> None:
    with ExitStack() as stack:
        workers = [stack.enter_context(working(url, "default", work, f"w{n}", EACH)) for n in range(PROCESSES)]
        outputs = await asyncio.gather(*(asyncio.to_thread(worker.communicate) for worker in workers))
    assert [(worker.returncode, errors) for worker, (_, errors) in zip(workers, outputs, strict=True)] == [
        (0, "")
    ] * PROCESSES
    acknowledged = sorted(line for lines, _ in outputs for line in lines.splitlines())
    assert len(acknowledged) == PROCESSES * TASKS * EACH
    async with SessionManager(url) as manager:
        paths = await check_namespace(manager)
    assert sorted(f"{session} {message}" for session, path in paths.items() for message in path) == acknowledged


async def test_sessions_stay_valid_when_tasks_change_everything_at_once(url: str) -> None:
    async with SessionManager(url) as manager:
        session = manager.session("shared")
        await session.append_all({"id": f"m{n}", "role": "user", "content": f"text {n}"} for n in range(40))

        async def task(number: int) -> None:
            own = f"m{number * 5}"
            await session.append({"id": f"x{number}", "role": "user", "content": "new"})
            await session.update_message({"id": own, "role": "user", "content": "changed " * number})
            compaction = await session.add_compaction("sum", own, f"m{number * 5 + 3}")
            fork = await manager.fork("shared", new_id=f"fork{number}")
            await session.delete_messages([f"m{number * 5 + 1}", f"x{number}"])
            await fork.delete_messages([f"m{number * 5 + 2}"])
            await fork.undo_compaction(compaction.id)
            await fork.append({"role": "user", "content": "in the fork"})
            if number % 2:
                await manager.delete(f"fork{number}")

        await asyncio.gather(*(task(number) for number in range(8)))
        paths = await check_namespace(manager)
    gone = {f"m{number * 5 + 1}" for number in range(8)}
    assert paths["shared"] == [f"m{n}" for n in range(40) if f"m{n}" not in gone]
    assert sorted(paths) == ["fork0", "fork2", "fork4", "fork6", "shared"]
