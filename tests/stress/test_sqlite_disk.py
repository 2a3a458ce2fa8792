"""A disk that fails at random under a SQLite store, and that loses power. Afterwards what is stored is compared with
what each call has reported.

A failure prints its seed; FRONTDESK_FAULT_SEED=... repeats that one."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import apsw
import pytest

from frontdesk import SessionManager, StoreUnavailableError
from tests.stores.failing_disk import FailingDisk
from tests.stress.outcomes import Outcomes, check, work
from tests.stress.seeds import seeds, seeds_for

WORKERS = 6
RATES = (0.002, 0.01, 0.05)


@asynccontextmanager
async def disk_for(seed: int) -> AsyncIterator[FailingDisk]:
    disk = FailingDisk(seed)
    try:
        yield disk
    finally:
        disk.close()


def assert_sound(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def run_with_faults(path: Path, seed: int, calls: int) -> None:
    seen = Outcomes()
    async with disk_for(seed) as disk:
        manager = SessionManager(f"sqlite:///{path}?busy_timeout=5")
        await manager.append("other", {"role": "user", "content": "the file is there"})
        for number, rate in enumerate(RATES):
            with disk.failing(rate):
                workers = range(number * WORKERS, (number + 1) * WORKERS)
                await asyncio.gather(*(work(manager, worker, calls, seed, seen) for worker in workers))
        await check_events_of(manager, seen)
        await manager.close()
        print(seen, disk.faults, f"in {disk.operations} operations")
        assert sum(disk.faults.values()) > 20
    assert len(seen.done) > calls
    async with SessionManager(f"sqlite:///{path}") as again:
        await check_events_of(again, seen)
    assert_sound(path)


async def run_with_power_loss(folder: Path, seed: int, calls: int) -> None:
    """Look at what a disk would have held at moments of a run, some of them while operations fail."""
    seen = Outcomes()
    path = folder / "sessions.db"
    async with disk_for(seed) as disk:
        manager = SessionManager(f"sqlite:///{path}?busy_timeout=5")
        await manager.append("other", {"role": "user", "content": "the file is there"})
        with disk.failing(0.001 if seed % 2 else 0.0), disk.losing_power(seen.mark, every=calls * 4):
            await asyncio.gather(*(work(manager, worker, calls, seed, seen) for worker in range(WORKERS)))
        await manager.close()
    print(seen, f"{len(disk.moments)} losses of power")
    for number, (mark, files) in enumerate(disk.moments):
        after = folder / f"after-{number}"
        after.mkdir()
        for name, content in files.items():
            (after / Path(name).name).write_bytes(content)
        async with SessionManager(f"sqlite:///{after / path.name}") as again:
            await check_events_of(again, seen.until(mark), complete=False)
        assert_sound(after / path.name)
    assert disk.moments


async def run_with_kills(folder: Path, seed: int, calls: int) -> None:
    """Look at what another process would find if this one died as soon as a call has reported that its commit could not
    be synced: what was written for it is in the file until the next commit replaces it."""
    seen = Outcomes()
    path = folder / "sessions.db"
    kills = 0
    async with disk_for(seed) as disk:
        manager = SessionManager(f"sqlite:///{path}")
        await manager.append("other", {"role": "user", "content": "the file is there"})
        for number in range(calls):
            disk.fail_next, before = disk.random.choice((None, "sync")), disk.faults.total()
            await work(manager, number, 1, seed, seen)
            if disk.faults.total() > before:
                kills += 1
                after = folder / f"after-{kills}"
                after.mkdir()
                for file in (path, folder / f"{path.name}-wal"):
                    if file.exists():  # without a log, the file has everything
                        shutil.copy(file, after)
                disk.fail_next = None
                async with SessionManager(f"sqlite:///{after / path.name}") as again:
                    await check_events_of(again, seen)
        await manager.close()
    print(seen, f"{kills} kills")
    assert seen.uncertain


async def check_events_of(manager: SessionManager, seen: Outcomes, *, complete: bool = True) -> None:
    await manager.delete("other")
    await check(manager, seen, complete=complete)


async def test_a_commit_that_was_written_and_could_not_be_synced_may_have_happened(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    async with disk_for(0) as disk:
        manager = SessionManager(f"sqlite:///{path}")
        await manager.append("s", {"id": "m1", "role": "user", "content": "one"})
        await manager.history("s")
        disk.fail_next = "sync"
        with pytest.raises(StoreUnavailableError, match="may have happened") as raised:
            await manager.append("s", {"id": "m2", "role": "user", "content": "two"})
        assert raised.value.uncertain
        # If the machine stops now, it is there when the file is opened again.
        after = tmp_path / "after"
        after.mkdir()
        for name in (path.name, f"{path.name}-wal"):
            shutil.copy(tmp_path / name, after / name)
        async with SessionManager(f"sqlite:///{after / path.name}") as again:
            assert [message.id for message in await again.history("s")] == ["m1", "m2"]
        # Appending it again is what the error says, and takes effect once.
        await manager.append("s", {"id": "m2", "role": "user", "content": "two"})
        assert [message.id for message in await manager.history("s")] == ["m1", "m2"]
        await manager.close()


@pytest.mark.parametrize("seed", seeds(8))
async def test_what_calls_report_is_what_is_stored(tmp_path: Path, seed: int) -> None:
    await run_with_faults(tmp_path / "sessions.db", seed, calls=30)


@pytest.mark.parametrize("seed", seeds(8))
async def test_what_was_acknowledged_survives_the_loss_of_power(tmp_path: Path, seed: int) -> None:
    await run_with_power_loss(tmp_path, seed, calls=20)


@pytest.mark.parametrize("seed", seeds(4))
async def test_a_commit_that_could_not_be_synced_is_not_reported_as_certain(tmp_path: Path, seed: int) -> None:
    await run_with_kills(tmp_path, seed, calls=30)


@pytest.mark.long
async def test_what_calls_report_is_what_is_stored_over_many_seeds(tmp_path: Path) -> None:
    for seed in seeds_for(400):
        await run_with_faults(tmp_path / f"faults-{seed}.db", seed, calls=60)
        folder = tmp_path / f"deaths-{seed}"
        for run in (run_with_power_loss, run_with_kills):
            folder.mkdir()
            await run(folder, seed, calls=30)
            shutil.rmtree(folder)
