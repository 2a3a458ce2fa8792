"""One SQLite file under difficult conditions: many processes, forks, foreign or read-only files, a full disk."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import apsw
import pytest

from frontdesk import SessionKey, SessionManager
from frontdesk.errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
)
from frontdesk.store import StatsQuery
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.stores.sqlite.checkpoints import Checkpointer
from frontdesk.stores.sqlite.connections import DatabaseFile
from frontdesk.testing.store_contract.steps import NAMESPACE, add, message
from frontdesk.testing.store_contract.steps import path as ids

FORK = multiprocessing.get_context("fork")

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(path)
    yield store
    await store.close()


# several processes


def _append_many(path: str, name: str, count: int) -> None:
    async def run() -> None:
        store = SQLiteStore(path)
        for number in range(count):
            session = "shared" if number % 2 else name
            await add(store, session, f"{name}-{number}")
        await store.close()

    _in_new_loop(run)


def _open_and_append(path: str, name: str, barrier: Any) -> None:
    barrier.wait()
    _append_many(path, name, 1)


async def test_eight_processes_append_without_a_lock_error(store: SQLiteStore, path: Path) -> None:
    processes = [FORK.Process(target=_append_many, args=(str(path), f"p{i}", 40)) for i in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join)
    assert [process.exitcode for process in processes] == [0] * 8
    shared = await ids(store, "shared")
    assert sorted(shared) == sorted(f"p{i}-{n}" for i in range(8) for n in range(1, 40, 2))
    assert [await ids(store, f"p{i}") for i in range(8)] == [[f"p{i}-{n}" for n in range(0, 40, 2)] for i in range(8)]


async def test_ten_processes_create_one_schema(store: SQLiteStore, path: Path) -> None:
    barrier = FORK.Barrier(10)
    processes = [FORK.Process(target=_open_and_append, args=(str(path), f"p{i}", barrier)) for i in range(10)]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join)
    assert [process.exitcode for process in processes] == [0] * 10
    assert (await store.stats(StatsQuery(namespace=NAMESPACE))).messages == 10


@contextmanager
def locked_by_another_process(path: Path) -> Iterator[None]:
    script = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    arguments = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        yield
        process.communicate()


async def test_a_lock_that_stays_is_reported(path: Path) -> None:
    store = SQLiteStore(path, busy_timeout=0.05)
    await add(store, "s", "a")
    with locked_by_another_process(path):
        with pytest.raises(StoreUnavailableError) as raised:
            await add(store, "s", "b")
        assert raised.value.details["path"] == str(path)
        assert await ids(store, "s") == ["a"]
    await add(store, "s", "b")
    await store.close()


async def test_a_forked_process_uses_its_own_connections(store: SQLiteStore) -> None:
    await add(store, "s", "a")
    assert await ids(store, "s") == ["a"]

    def in_child(result: Connection) -> None:
        async def run() -> list[str]:
            await add(store, "s", "child")
            found = await ids(store, "s")
            await store.close()
            return found

        result.send(_in_new_loop(run))

    parent_end, child_end = multiprocessing.Pipe()
    child = FORK.Process(target=in_child, args=(child_end,))
    child.start()
    await asyncio.gather(*(add(store, "s", f"parent-{i}") for i in range(50)))
    found = await asyncio.to_thread(parent_end.recv)
    await asyncio.to_thread(child.join)
    assert child.exitcode == 0
    assert {"a", "child"} <= set(found)
    assert sorted(await ids(store, "s")) == sorted(["a", "child", *(f"parent-{i}" for i in range(50))])


async def test_a_forked_process_takes_its_own_locks(path: Path) -> None:
    store = SQLiteStore(path, busy_timeout=0.05)
    await add(store, "s", "a")
    with locked_by_another_process(path):

        def in_child(result: Connection) -> None:
            async def run() -> str:
                try:
                    await add(store, "s", "child")
                except StoreUnavailableError:
                    return "locked"
                return "written"

            result.send(_in_new_loop(run))

        parent_end, child_end = multiprocessing.Pipe()
        child = FORK.Process(target=in_child, args=(child_end,))
        child.start()
        assert await asyncio.to_thread(parent_end.recv) == "locked"
        await asyncio.to_thread(child.join)
    await store.close()


def _in_new_loop(run: Callable[[], Any]) -> Any:
    # The child has a copy of the loop of its parent, which is marked as running.
    asyncio._set_running_loop(None)
    return asyncio.run(run())


# files that cannot be written


async def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    store = SQLiteStore(path)
    with pytest.raises(StoreError, match="another program"):
        await add(store, "s", "a")
    await store.close()
    assert path.read_bytes() == before


async def test_a_file_that_is_not_a_database_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database at all, " * 400)
    store = SQLiteStore(path)
    with pytest.raises(StoreCorruptError) as raised:
        await store.open()
    assert raised.value.details["path"] == str(path)
    await store.close()


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "missing" / "file.db")
    with pytest.raises(StoreError, match="no directory"):
        await store.open()
    await store.close()


def _as_nobody(path: str, result: Connection) -> None:
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)

    async def run() -> list[Any]:
        store = SQLiteStore(path)
        found: list[Any] = [await ids(store, "s")]
        try:
            await add(store, "s", "b")
        except StoreReadOnlyError as error:
            found.append(error.details["path"])
        found.append(await ids(store, "s"))
        await store.close()
        return found

    result.send(_in_new_loop(run))


async def test_a_file_without_write_permission_can_be_read(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path / "readonly"
    folder.mkdir()
    path = folder / "sessions.db"
    store = SQLiteStore(path)
    await add(store, "s", "a")
    await store.close()
    if os.geteuid() == 0:  # must not be reached
        base = tmp_path_factory.getbasetemp()
        for parent in (base.parent.parent, base.parent, base, tmp_path):
            if parent != Path(tempfile.gettempdir()):
                parent.chmod(0o755)
    path.chmod(0o444)
    folder.chmod(0o555)
    parent_end, child_end = multiprocessing.Pipe()
    child = FORK.Process(target=_as_nobody, args=(str(path), child_end))
    child.start()
    await asyncio.to_thread(child.join)
    folder.chmod(0o755)
    assert child.exitcode == 0
    assert parent_end.recv() == [["a"], str(path), ["a"]]


# a full disk


async def test_a_full_disk_refuses_and_keeps_what_was_acknowledged(path: Path) -> None:
    store = SQLiteStore(path)
    await add(store, "s", "a")
    _limit_file_size(1 << 20)
    try:
        acknowledged = ["a"]

        async def fill() -> None:
            for number in range(1000):
                await add(store, "s", message(f"m{number}", "x" * 4000))
                acknowledged.append(f"m{number}")

        with pytest.raises(StoreFullError) as raised:
            await fill()
        assert raised.value.details["path"] == str(path)
        assert len(acknowledged) > 10
        assert await ids(store, "s") == acknowledged
    finally:
        _limit_file_size(resource.RLIM_INFINITY)
    await add(store, "s", "after")
    assert await ids(store, "s") == [*acknowledged, "after"]
    await store.close()
    again = SQLiteStore(path)
    assert await ids(again, "s") == [*acknowledged, "after"]
    await again.close()


def _limit_file_size(size: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


# reading while writing is impossible


async def test_a_view_that_must_be_computed_can_be_read_while_another_process_holds_the_lock(path: Path) -> None:
    async with SessionManager(f"sqlite:///{path}") as manager:
        session = manager.session("chat")
        await session.append({"id": "m1", "role": "user", "content": "one"})
        await session.append({"id": "m2", "role": "user", "content": "two"})
        await session.switch("m1")
    holder = apsw.Connection(str(path))
    holder.execute("BEGIN IMMEDIATE")
    # A reader does not wait for the lock as long as a writer does.
    async with SessionManager(f"sqlite:///{path}?busy_timeout=3600") as manager:
        try:
            assert [message.id for message in await manager.history("chat")] == ["m1"]
            assert [info.token_count for info in await manager.list()] == [(await manager.history("chat"))[0].tokens]
            assert [message.id for message in await manager.history("chat", max_tokens=50)] == ["m1"]
            async with SessionManager(f"sqlite:///{path}?busy_timeout=0.2") as writing:
                with pytest.raises(StoreUnavailableError):
                    await writing.append("chat", {"role": "user", "content": "three"})
        finally:
            holder.close()


@dataclass
class Note:
    text: str = ""


async def test_an_erasure_waits_for_the_copying_of_the_log_that_is_under_way(path: Path) -> None:
    """After so much was written, a thread of the same process copies the log into the file."""
    async with SessionManager(f"sqlite:///{path}") as manager:
        states = manager.states(Note, ttl=None)
        for _ in range(8):
            for number in range(4):
                await states.set(str(number), Note("x" * 1_000_000), owner=SessionKey("desk", "web", "ana"))
            assert (await manager.erase(peer="ana")).states == 4


# threads


def test_a_thread_that_is_started_while_the_store_closes_is_waited_for(path: Path) -> None:
    def start(checkpointer: Checkpointer, ready: threading.Barrier) -> None:
        ready.wait()
        checkpointer.start_once()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as writer:
            for _ in range(300):
                checkpointer = Checkpointer(DatabaseFile(str(path), synchronous="normal", busy_timeout=1.0))
                ready = threading.Barrier(2)
                starting = writer.submit(start, checkpointer, ready)
                ready.wait()
                checkpointer.stop()
                checkpointer.join()
                starting.result()
                assert not [thread for thread in threading.enumerate() if thread.name == "frontdesk-checkpointer"]
    finally:
        sys.setswitchinterval(interval)
