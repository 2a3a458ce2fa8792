"""What a caller sees when something happens to the file of a SQLite store, and what a forgotten store leaves."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from frontdesk import SessionManager
from frontdesk.errors import StoreError, StoreFullError, StoreReplacedError, StoreUnavailableError
from frontdesk.stores.sqlite import SQLiteStore, connections
from frontdesk.testing.store_contract.steps import add
from frontdesk.testing.store_contract.steps import path as ids
from tests.waiting import eventually

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path)
    await add(store, "s", "a")
    assert await ids(store, "s") == ["a"]
    yield store
    await store.close()


# another file, or none


def _delete(path: Path) -> None:
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        name.unlink()


def _replace(path: Path) -> None:
    """As a restored backup that was moved to its place."""
    other = path.with_name("other.db")
    shutil.copy(path, other)
    other.rename(path)


def _delete_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


@pytest.mark.parametrize("harm", [_delete, _replace, _delete_log])
async def test_nothing_is_acknowledged_or_read_once_the_file_is_another_one(
    store: SQLiteStore, path: Path, harm: Any
) -> None:
    harm(path)
    names = sorted(entry.name for entry in path.parent.iterdir())
    for _ in range(2):
        with pytest.raises(StoreReplacedError) as raised:
            await add(store, "s", "b")
        assert raised.value.details["path"] == str(path)
        with pytest.raises(StoreReplacedError):
            await ids(store, "s")
    # As many reads at once as need further connections: none of these may create a file.
    reads: list[Any] = await asyncio.gather(*(ids(store, "s") for _ in range(8)), return_exceptions=True)
    assert {type(read) for read in reads} == {StoreReplacedError}
    assert sorted(entry.name for entry in path.parent.iterdir()) == names


async def test_a_store_that_is_opened_again_uses_the_file_that_is_there(store: SQLiteStore, path: Path) -> None:
    await store.close()
    path.unlink()
    await store.open()
    await add(store, "s", "fresh")
    assert await ids(store, "s") == ["fresh"]


async def test_a_file_that_disappeared_before_its_first_use_is_created(path: Path) -> None:
    store = SQLiteStore(path)
    await add(store, "s", "a")
    await store.close()
    assert path.exists()


async def test_a_directory_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path)
    for _ in range(2):
        with pytest.raises(StoreError, match="it is a directory, name a file"):
            await store.open()
    with pytest.raises(StoreError, match="it is a directory, name a file"):
        await add(store, "s", "a")
    await store.close()


# locks


async def test_each_caller_waits_for_a_lock_once(path: Path) -> None:
    store = SQLiteStore(path, busy_timeout=5.0)
    await add(store, "s", "a")
    holder = apsw.Connection(str(path))
    holder.execute("BEGIN IMMEDIATE")

    async def seconds(name: str, pause: float) -> float:
        await asyncio.sleep(pause)
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="stayed locked"):
            await add(store, "s", name)
        return time.monotonic() - began

    waits = await asyncio.gather(*(seconds(f"m{number}", number * 0.8) for number in range(6)))
    holder.close()
    # A second wait of the same length, in SQLite or after the callers before it, would make it ten seconds and more.
    assert all(5.0 <= wait < 9.8 for wait in waits), waits
    await add(store, "s", "b")
    assert await ids(store, "s") == ["a", "b"]
    await store.close()


async def test_a_fork_does_not_wait_for_a_lock_and_the_caller_continues_to_wait(path: Path) -> None:
    store = SQLiteStore(path, busy_timeout=60)
    await add(store, "s", "a")
    holder = apsw.Connection(str(path))
    holder.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(add(store, "s", "b"))
    try:
        # One that waits now, in SQLite's busy handler.
        await eventually(lambda: store.engine._writer._lock.locked())
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            os._exit(0)
        forked_after = time.monotonic() - began
        os.waitpid(child, 0)
        assert not waiting.done()
    finally:
        holder.close()
    await waiting
    assert forked_after < 10
    assert await ids(store, "s") == ["a", "b"]
    await store.close()


async def test_a_fork_does_not_wait_for_a_long_statement(store: SQLiteStore) -> None:
    begun = threading.Event()
    counts: list[int] = []

    def count_slowly(connection: Any) -> int:
        begun.set()
        if counts:
            return 1
        counts.append(1)
        slowly = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        return int(connection.execute(slowly).fetchone()[0])

    reading = asyncio.ensure_future(store.engine.read(count_slowly))
    await asyncio.to_thread(begun.wait)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert await reading == 1  # it was repeated


# power


async def test_a_commit_reaches_the_platter_on_every_system(store: SQLiteStore) -> None:
    def settings(connection: Any) -> list[int]:
        names = ("synchronous", "fullfsync", "checkpoint_fullfsync")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await store.engine.write(settings) == [2, 1, 1]
    assert await store.engine.read(settings) == [2, 1, 1]


@pytest.mark.parametrize(("committing", "error"), [(True, apsw.IOError), (False, apsw.IOError), (True, apsw.FullError)])
def test_a_commit_that_met_a_quota_when_it_was_synced_may_have_happened(
    path: Path, committing: bool, error: type[apsw.Error]
) -> None:
    """A quota that is noticed at the sync, as on some file systems, which a test cannot have: the translation alone."""
    translated = connections._translated(error("no"), str(path), errno.EDQUOT, committing)
    assert isinstance(translated, StoreFullError)
    is_uncertain = committing and error is apsw.IOError
    assert translated.uncertain is is_uncertain
    assert ("may have happened" in str(translated)) is is_uncertain


# stores that nobody closes


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def _use_and_forget(path: Path) -> None:
    manager = SessionManager(f"sqlite:///{path}")
    await manager.append("s", {"role": "user", "content": "hello"})
    await asyncio.gather(*(manager.history("s") for _ in range(6)))
    assert len(await manager.search("hello")) == 1


async def test_managers_that_are_dropped_without_close_leave_no_threads_and_no_files(tmp_path: Path) -> None:
    others = set(threading.enumerate())  # what other tests left running is not the subject of this one

    def no_threads() -> bool:
        gc.collect()
        return not any(thread.name.startswith("frontdesk-") for thread in set(threading.enumerate()) - others)

    await _use_and_forget(tmp_path / "warm-up.db")
    await eventually(no_threads)
    files = _open_files()
    for number in range(10):
        await _use_and_forget(tmp_path / f"{number}.db")
    await eventually(no_threads)
    assert _open_files() <= files
