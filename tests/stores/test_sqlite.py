"""What is specific to SQLite: URLs, group commit, the end of its threads, and the write-ahead log."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from frontdesk.errors import (
    HeadMovedError,
    StoreClosedError,
    StoreURLError,
)
from frontdesk.messages import new_id
from frontdesk.store import AppendResult, ViewRead
from frontdesk.stores import open_url
from frontdesk.stores.sqlite import SQLiteStore, reading
from frontdesk.stores.sqlite.connections import SQLiteConnection
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


# the URL


def test_a_relative_url_names_a_file_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert SQLiteStore.from_url("sqlite:///some/file.db").path == str(tmp_path / "some" / "file.db")


def test_an_absolute_url_is_percent_decoded() -> None:
    assert SQLiteStore.from_url("sqlite:////data/a%20b%3F%25.db?readers=2&busy_timeout=0.5").path == "/data/a b?%.db"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite:///a.db?cache=1", "busy_timeout, readers, synchronous"),
        ("sqlite:///a.db?readers=1&readers=2", "each once"),
        ("sqlite:///a.db?synchronous=off", "full or normal"),
        ("sqlite:///a.db?busy_timeout=soon", "must be a number"),
        ("sqlite:///a.db?busy_timeout=-1", "busy_timeout"),
        ("sqlite:///a.db?busy_timeout=nan", "busy_timeout"),
        ("sqlite:///a.db?readers=0", "readers"),
        ("sqlite:///a.db?readers=1.5", "readers"),
        ("sqlite://", "memory://"),
        ("sqlite:///", "memory://"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite://host/a.db", "host"),
        ("sqlite:///a.db#part", "fragment"),
        ("sqlite:///a%00b.db", "NUL"),
    ],
)
def test_a_malformed_url_is_refused(url: str, said: str) -> None:
    with pytest.raises(StoreURLError, match=said):
        open_url(url)


async def test_the_writer_uses_synchronous_normal_if_set(path: Path) -> None:
    async def level(url: str) -> Any:
        store = SQLiteStore.from_url(url)
        try:
            found = await store.engine.write(lambda connection: connection.execute("PRAGMA synchronous").fetchall())
        finally:
            await store.close()
        return found[0][0]

    assert await level(f"sqlite:///{path}?synchronous=normal") == 1
    assert await level(f"sqlite:///{path}") == 2


# the writer


class Held:
    """Keeps the writer busy with one operation until it is released."""

    def __init__(self, store: SQLiteStore) -> None:
        self._begun = threading.Event()
        self._end = threading.Event()
        self.done = asyncio.ensure_future(store.engine.write(self._hold))

    def _hold(self, connection: Any) -> None:
        self._begun.set()
        self._end.wait()

    async def begun(self) -> None:
        await asyncio.to_thread(self._begun.wait)

    async def let_go(self) -> None:
        self._end.set()
        await self.done


async def test_a_failing_operation_does_not_affect_others_in_its_transaction(store: SQLiteStore) -> None:
    def write_and_fail(connection: Any) -> None:
        connection.execute("UPDATE sessions SET name = 'half-done'")
        raise ZeroDivisionError

    await add(store, "s", "first")
    held = Held(store)
    await held.begun()
    waiting = [
        asyncio.ensure_future(add(store, "s", "a")),
        asyncio.ensure_future(add(store, "s", "b", expected_head="nothing")),
        asyncio.ensure_future(store.engine.write(write_and_fail)),
        asyncio.ensure_future(add(store, "s", "c")),
    ]
    await asyncio.sleep(0)
    await held.let_go()
    results: list[Any] = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [AppendResult, HeadMovedError, ZeroDivisionError, AppendResult]
    assert await ids(store, "s") == ["first", "a", "c"]
    session = await store.get(NAMESPACE, "s")
    assert session is not None
    assert (session.name, session.message_count) == ("", 3)


async def test_what_arrives_during_a_commit_is_committed_together(store: SQLiteStore, path: Path) -> None:
    await store.open()
    held = Held(store)
    await held.begun()
    waiting = [asyncio.ensure_future(add(store, f"s{i}", "a")) for i in range(100)]
    await asyncio.sleep(0)
    with closing(apsw.Connection(str(path))) as watcher:
        seen = {watcher.execute("SELECT count(*) FROM sessions").fetchall()[0][0]}
        await held.let_go()
        for done in asyncio.as_completed(waiting):
            await done
            seen.add(watcher.execute("SELECT count(*) FROM sessions").fetchall()[0][0])
    assert seen == {0, 100}


async def test_the_writer_survives_a_cancelled_caller(store: SQLiteStore) -> None:
    held = Held(store)
    await held.begun()
    cancelled = asyncio.ensure_future(add(store, "s", "a"))
    await asyncio.sleep(0)
    cancelled.cancel()
    await held.let_go()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    again = await add(store, "s", "a")
    assert again.session.message_count == 1
    assert await ids(store, "s") == ["a"]


async def test_the_writer_survives_a_caller_whose_loop_is_closed(store: SQLiteStore) -> None:
    held = Held(store)
    await held.begun()

    def leave_one_behind() -> None:
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(add(store, "s", "a"))
        loop.run_until_complete(asyncio.sleep(0))
        waiting.cancel()
        loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))
        loop.close()

    await asyncio.to_thread(leave_one_behind)
    await held.let_go()
    await add(store, "s", "b")
    assert await ids(store, "s") == ["a", "b"]


async def test_callers_over_the_limit_wait_for_their_turn(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontdesk.stores.sqlite.engine.MAX_WAITING", 20)
    monkeypatch.setattr("frontdesk.stores.sqlite.writer.MAX_BATCH", 5)
    held = Held(store)
    await held.begun()
    waiting = [asyncio.ensure_future(add(store, "s", f"m{i}")) for i in range(200)]
    await asyncio.sleep(0)
    assert store.engine._writes.qsize() == 20
    await held.let_go()
    await asyncio.gather(*waiting)
    assert sorted(await ids(store, "s")) == sorted(f"m{i}" for i in range(200))


async def test_loops_of_several_threads_share_a_store(store: SQLiteStore) -> None:
    async def append_some(name: str) -> None:
        await asyncio.gather(*(add(store, "s", f"{name}-{i}") for i in range(25)))

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, append_some(f"t{i}")) for i in range(4)))
    assert len(set(await ids(store, "s"))) == 100


# the end


async def test_closing_twice_does_nothing_more(path: Path) -> None:
    store = SQLiteStore(path)
    await add(store, "s", "a")
    await asyncio.gather(store.close(), store.close())
    await store.close()
    with pytest.raises(StoreClosedError):
        await add(store, "s", "b")
    with pytest.raises(StoreClosedError):
        await store.get(NAMESPACE, "s")
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


async def test_closing_finishes_pending_operations(path: Path) -> None:
    store = SQLiteStore(path)
    held = Held(store)
    await held.begun()
    waiting = [asyncio.ensure_future(add(store, "s", f"m{i}")) for i in range(30)]
    await asyncio.sleep(0)
    closing_down = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    await held.let_go()
    await closing_down
    results = await asyncio.gather(*waiting)
    assert [result.session.message_count for result in results] == list(range(1, 31))


def test_a_process_that_does_not_close_its_store_ends(path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from frontdesk.store import NewSession\n"
        "from frontdesk.stores.sqlite import SQLiteStore\n"
        "store = SQLiteStore(sys.argv[1])\n"
        "async def main():\n"
        "    await store.create(NewSession(namespace='n', id='s', now=1))\n"
        "    assert await store.get('n', 's')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


# the log


async def test_the_log_does_not_grow_forever(store: SQLiteStore, path: Path) -> None:
    largest = 0
    for _ in range(40):
        await asyncio.gather(*(add(store, "s", message(new_id(), "x" * 8000)) for _ in range(100)))
        largest = max(largest, os.stat(f"{path}-wal").st_size)
    assert largest < 20 << 20
    assert path.stat().st_size > 20 << 20


async def test_overlapping_readers_do_not_keep_the_log_growing(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontdesk.stores.sqlite.checkpoints.WAL_PAGES_TO_STOP_AT", 2_048)
    await add(store, "s", "first")
    writing = True

    async def keep_reading() -> None:
        while writing:
            await ids(store, "s")

    readers = [asyncio.ensure_future(keep_reading()) for _ in range(3)]
    for _ in range(30):
        await asyncio.gather(*(add(store, "t", message(new_id(), "x" * 8000)) for _ in range(100)))
    writing = False
    await asyncio.gather(*readers)
    assert os.stat(f"{path}-wal").st_size < 28 << 20


async def test_a_long_read_sees_one_moment_and_blocks_no_writer(store: SQLiteStore) -> None:
    await add(store, "s", "a")
    begun, end = threading.Event(), threading.Event()

    def read_twice(connection: SQLiteConnection) -> list[ViewRead | None]:
        first = reading.view(connection, NAMESPACE, "s", None)
        begun.set()
        end.wait()
        return [first, reading.view(connection, NAMESPACE, "s", None)]

    long_read = asyncio.ensure_future(store.engine.read(read_twice))
    await asyncio.to_thread(begun.wait)
    await add(store, "s", "b")
    assert await ids(store, "s") == ["a", "b"]
    end.set()
    for read in await long_read:
        assert read is not None
        assert [message.id for message in read.pieces[0].messages] == ["a"]


# on the event loop


async def test_a_read_that_takes_long_is_taken_off_the_event_loop(store: SQLiteStore) -> None:
    await add(store, "s", "a")
    kind = object()
    threads: list[str] = []

    def count(connection: SQLiteConnection, to: int) -> int:
        threads.append(threading.current_thread().name)
        slowly = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT count(*) FROM n"
        return int(connection.execute(slowly, (to,)).fetchone()[0])

    main = threading.current_thread().name
    await store.get(NAMESPACE, "s")
    while not threads or threads[-1] != main:  # the first is timed by a thread; on a busy machine some of them are
        assert await store.engine.read(lambda connection: count(connection, 10), kind=kind) == 10
    threads.clear()
    assert await store.engine.read(lambda connection: count(connection, 1_000_000), kind=kind) == 1_000_000
    assert threads == [main, "frontdesk-reader"]


async def test_the_end_of_an_interrupted_read_may_be_interrupted_too(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite asks after a number of steps whether to go on: after some hundreds of reads that is at a ROLLBACK."""
    monkeypatch.setattr("frontdesk.stores.sqlite.workers.LONGEST_BLOCK", 0.0)
    await add(store, "s", "a")
    await ids(store, "s")

    def count(connection: SQLiteConnection) -> int:
        slowly = (
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT count(*) FROM n"
        )
        return int(connection.execute(slowly).fetchone()[0])

    for _ in range(6_000):
        store.engine._seconds["count"] = 0.0
        assert await store.engine.read(count, kind="count") == 1_000


async def test_small_appends_at_once_are_committed_together_on_the_event_loop(store: SQLiteStore) -> None:
    await add(store, "s", "a")
    threads: set[str] = set()

    def note(connection: SQLiteConnection) -> int:
        threads.add(threading.current_thread().name)
        return int(connection.execute("SELECT total_changes()").fetchone()[0])

    store.engine._writer._commit_seconds = 0.0
    await asyncio.gather(*(store.engine.write(note, small=True) for _ in range(20)))
    assert threads == {threading.current_thread().name}
    held = Held(store)
    await held.begun()
    waiting = [asyncio.ensure_future(add(store, "s", f"m{number}")) for number in range(20)]
    await asyncio.sleep(0)
    await held.let_go()
    await asyncio.gather(*waiting)
    assert await ids(store, "s") == ["a", *(f"m{number}" for number in range(20))]


async def test_a_small_append_takes_one_pass_of_the_event_loop(store: SQLiteStore) -> None:
    await add(store, "s", "a")
    loop = asyncio.get_running_loop()
    passes = 0

    def count() -> None:
        nonlocal passes
        passes += 1
        loop.call_soon(count)

    count()
    fewest = 100
    for number in range(20):  # on a busy machine, a commit may take too long for the event loop
        before = passes
        store.engine._writer._commit_seconds = 0.0
        await add(store, "s", f"m{number}")
        fewest = min(fewest, passes - before)
    assert fewest == 1


async def test_a_cancelled_small_append_does_not_keep_others_waiting(store: SQLiteStore) -> None:
    await add(store, "s", "a")
    adding = [asyncio.ensure_future(add(store, "s", f"m{number}")) for number in range(3)]
    await asyncio.sleep(0)
    adding[0].cancel()
    results = await asyncio.gather(*adding, return_exceptions=True)
    assert [type(result) for result in results] == [asyncio.CancelledError, AppendResult, AppendResult]
    await add(store, "s", "z")
    assert {"a", "m1", "m2", "z"} <= set(await ids(store, "s"))


async def test_small_appends_stay_on_the_event_loop_while_the_log_is_copied(store: SQLiteStore) -> None:
    await add(store, "s", "a")
    threads: list[str] = []

    def note(connection: SQLiteConnection) -> None:
        threads.append(threading.current_thread().name)

    with store.engine._checkpointer.hold():  # the copy takes as long as this
        await add(store, "s", message("large", "x" * 5_000_000))
        for _ in range(100):  # the first of them are behind the large one
            store.engine._writer._commit_seconds = 0.0
            await store.engine.write(note, small=True)
    assert threading.current_thread().name in threads
