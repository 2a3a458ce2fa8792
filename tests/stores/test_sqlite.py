"""What is particular to SQLite: its URL, several processes on one file, its failures, group commit and its log."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import apsw
import pytest

from frontdesk.errors import (
    HeadMovedError,
    SchemaVersionError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    StoreURLError,
)
from frontdesk.messages import StoredMessage, new_id
from frontdesk.store import Append, AppendResult, Item, Place, SessionRow, Span, ViewRow
from frontdesk.stores import open_url
from frontdesk.stores.sqlite import SQLiteStore

NAMESPACE = "default"
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


def request(session_id: str, message_id: str, *, size: int = 10, expected_head: str | None = None) -> Append:
    message = StoredMessage(message_id, "user", 1, 1, '{"content":"' + "x" * size + '"}')
    return Append(
        namespace=NAMESPACE,
        session_id=session_id,
        messages=(message,),
        fresh=(False,),
        now=1,
        expected_head=expected_head,
    )


def everything(session: SessionRow, view: ViewRow) -> list[Item]:
    return [] if session.head is None else [Span(session.head.segment, 0, session.head.position, None)]


async def ids(store: SQLiteStore, session_id: str) -> list[str]:
    read = await store.view(NAMESPACE, session_id, everything)
    return [] if read is None else [message.id for piece in read.pieces for message in piece.messages]


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
def test_a_url_that_cannot_be_meant_is_refused(url: str, said: str) -> None:
    with pytest.raises(StoreURLError, match=said):
        open_url(url)


async def test_normal_synchronous_is_what_the_writer_uses(path: Path) -> None:
    async def level(url: str) -> Any:
        store = SQLiteStore.from_url(url)
        try:
            found = await store._engine.write(lambda connection: connection.execute("PRAGMA synchronous").fetchall())
        finally:
            await store.close()
        return found[0][0]

    assert await level(f"sqlite:///{path}?synchronous=normal") == 1
    assert await level(f"sqlite:///{path}") == 2


# several processes


def _append_many(path: str, name: str, count: int) -> None:
    async def run() -> None:
        store = SQLiteStore(path)
        for number in range(count):
            session = "shared" if number % 2 else name
            await store.append(request(session, f"{name}-{number}"))
        await store.close()

    _in_new_loop(run)


def _open_and_append(path: str, name: str, barrier: Any) -> None:
    barrier.wait()
    _append_many(path, name, 1)


async def test_eight_processes_append_without_meeting_a_lock(store: SQLiteStore, path: Path) -> None:
    processes = [FORK.Process(target=_append_many, args=(str(path), f"p{i}", 40)) for i in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join)
    assert [process.exitcode for process in processes] == [0] * 8
    shared = await ids(store, "shared")
    assert sorted(shared) == sorted(f"p{i}-{n}" for i in range(8) for n in range(1, 40, 2))
    assert [await ids(store, f"p{i}") for i in range(8)] == [[f"p{i}-{n}" for n in range(0, 40, 2)] for i in range(8)]


async def test_ten_processes_make_one_schema(store: SQLiteStore, path: Path) -> None:
    barrier = FORK.Barrier(10)
    processes = [FORK.Process(target=_open_and_append, args=(str(path), f"p{i}", barrier)) for i in range(10)]
    for process in processes:
        process.start()
    for process in processes:
        await asyncio.to_thread(process.join)
    assert [process.exitcode for process in processes] == [0] * 10
    assert (await store.stats(NAMESPACE)).messages == 10


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
    await store.append(request("s", "a"))
    with locked_by_another_process(path):
        with pytest.raises(StoreUnavailableError) as raised:
            await store.append(request("s", "b"))
        assert raised.value.details["path"] == str(path)
        assert await ids(store, "s") == ["a"]
    await store.append(request("s", "b"))
    await store.close()


async def test_a_forked_process_goes_on_with_connections_of_its_own(store: SQLiteStore) -> None:
    await store.append(request("s", "a"))
    assert await ids(store, "s") == ["a"]

    def in_child(result: Connection) -> None:
        async def run() -> list[str]:
            await store.append(request("s", "child"))
            found = await ids(store, "s")
            await store.close()
            return found

        result.send(_in_new_loop(run))

    parent_end, child_end = multiprocessing.Pipe()
    child = FORK.Process(target=in_child, args=(child_end,))
    child.start()
    await asyncio.gather(*(store.append(request("s", f"parent-{i}")) for i in range(50)))
    found = await asyncio.to_thread(parent_end.recv)
    await asyncio.to_thread(child.join)
    assert child.exitcode == 0
    assert {"a", "child"} <= set(found)
    assert sorted(await ids(store, "s")) == sorted(["a", "child", *(f"parent-{i}" for i in range(50))])


async def test_a_forked_process_takes_its_own_locks(path: Path) -> None:
    store = SQLiteStore(path, busy_timeout=0.05)
    await store.append(request("s", "a"))
    with locked_by_another_process(path):

        def in_child(result: Connection) -> None:
            async def run() -> str:
                try:
                    await store.append(request("s", "child"))
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
    # The child has a copy of the loop it was forked in, which believes that it is running.
    asyncio._set_running_loop(None)
    return asyncio.run(run())


# files that are not ours to write


async def test_a_newer_schema_is_refused(path: Path) -> None:
    first = SQLiteStore(path)
    await first.open()
    await first.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 1000")
    store = SQLiteStore(path)
    with pytest.raises(SchemaVersionError) as raised:
        await store.open()
    assert raised.value.details["version"] == 1000
    await store.close()


async def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    store = SQLiteStore(path)
    with pytest.raises(StoreError, match="another program"):
        await store.append(request("s", "a"))
    await store.close()
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
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
            await store.append(request("s", "b"))
        except StoreReadOnlyError as error:
            found.append(error.details["path"])
        found.append(await ids(store, "s"))
        await store.close()
        return found

    result.send(_in_new_loop(run))


async def test_a_file_without_write_permission_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / "readonly"
    folder.mkdir()
    path = folder / "sessions.db"
    store = SQLiteStore(path)
    await store.append(request("s", "a"))
    await store.close()
    for parent in [folder, *folder.parents][: len(folder.parents) - 1]:
        if parent.owner() == Path(folder).owner() and parent.stat().st_mode & 0o005 != 0o005:
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
    await store.append(request("s", "a"))
    _limit_file_size(1 << 20)
    try:
        acknowledged = ["a"]

        async def fill() -> None:
            for number in range(1000):
                await store.append(request("s", f"m{number}", size=4000))
                acknowledged.append(f"m{number}")

        with pytest.raises(StoreFullError) as raised:
            await fill()
        assert raised.value.details["path"] == str(path)
        assert len(acknowledged) > 10
        assert await ids(store, "s") == acknowledged
    finally:
        _limit_file_size(resource.RLIM_INFINITY)
    await store.append(request("s", "after"))
    assert await ids(store, "s") == [*acknowledged, "after"]
    await store.close()
    again = SQLiteStore(path)
    assert await ids(again, "s") == [*acknowledged, "after"]
    await again.close()


def _limit_file_size(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


# the writer


class Held:
    """Keeps the writer busy with one operation until it is let go."""

    def __init__(self, store: SQLiteStore) -> None:
        self._begun = threading.Event()
        self._end = threading.Event()
        self.done = asyncio.ensure_future(store._engine.write(self._hold))

    def _hold(self, connection: Any) -> None:
        self._begun.set()
        self._end.wait()

    async def begun(self) -> None:
        await asyncio.to_thread(self._begun.wait)

    async def let_go(self) -> None:
        self._end.set()
        await self.done


async def test_one_failing_operation_does_not_touch_the_others_of_its_transaction(store: SQLiteStore) -> None:
    def write_and_fail(connection: Any) -> None:
        connection.execute("UPDATE sessions SET name = 'half-done'")
        raise ZeroDivisionError

    await store.append(request("s", "first"))
    held = Held(store)
    await held.begun()
    waiting = [
        asyncio.ensure_future(store.append(request("s", "a"))),
        asyncio.ensure_future(store.append(request("s", "b", expected_head="nothing"))),
        asyncio.ensure_future(store._engine.write(write_and_fail)),
        asyncio.ensure_future(store.append(request("s", "c"))),
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
    waiting = [asyncio.ensure_future(store.append(request(f"s{i}", "a"))) for i in range(100)]
    await asyncio.sleep(0)
    with closing(apsw.Connection(str(path))) as watcher:
        seen = {watcher.execute("SELECT count(*) FROM sessions").fetchall()[0][0]}
        await held.let_go()
        for done in asyncio.as_completed(waiting):
            await done
            seen.add(watcher.execute("SELECT count(*) FROM sessions").fetchall()[0][0])
    assert seen == {0, 100}


async def test_a_cancelled_caller_leaves_the_writer_sound(store: SQLiteStore) -> None:
    held = Held(store)
    await held.begun()
    cancelled = asyncio.ensure_future(store.append(request("s", "a")))
    await asyncio.sleep(0)
    cancelled.cancel()
    await held.let_go()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    again = await store.append(request("s", "a"))
    assert again.session.message_count == 1
    assert await ids(store, "s") == ["a"]


async def test_a_caller_whose_loop_is_gone_leaves_the_writer_sound(store: SQLiteStore) -> None:
    held = Held(store)
    await held.begun()

    def leave_one_behind() -> None:
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(store.append(request("s", "a")))
        loop.run_until_complete(asyncio.sleep(0))
        waiting.cancel()
        loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))
        loop.close()

    await asyncio.to_thread(leave_one_behind)
    await held.let_go()
    await store.append(request("s", "b"))
    assert await ids(store, "s") == ["a", "b"]


async def test_callers_beyond_the_limit_wait_their_turn(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frontdesk.stores.sqlite.engine.MAX_WAITING", 20)
    monkeypatch.setattr("frontdesk.stores.sqlite.workers.MAX_BATCH", 5)
    held = Held(store)
    await held.begun()
    waiting = [asyncio.ensure_future(store.append(request("s", f"m{i}"))) for i in range(200)]
    await asyncio.sleep(0)
    assert store._engine._writes.qsize() == 20
    await held.let_go()
    await asyncio.gather(*waiting)
    assert sorted(await ids(store, "s")) == sorted(f"m{i}" for i in range(200))


async def test_loops_of_several_threads_share_a_store(store: SQLiteStore) -> None:
    async def append_some(name: str) -> None:
        await asyncio.gather(*(store.append(request("s", f"{name}-{i}")) for i in range(25)))

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, append_some(f"t{i}")) for i in range(4)))
    assert len(set(await ids(store, "s"))) == 100


# the end


async def test_closing_twice_is_the_same_as_once(path: Path) -> None:
    store = SQLiteStore(path)
    await store.append(request("s", "a"))
    await asyncio.gather(store.close(), store.close())
    await store.close()
    with pytest.raises(StoreClosedError):
        await store.append(request("s", "b"))
    with pytest.raises(StoreClosedError):
        await store.get(NAMESPACE, "s")
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


async def test_closing_finishes_what_was_handed_over(path: Path) -> None:
    store = SQLiteStore(path)
    held = Held(store)
    await held.begun()
    waiting = [asyncio.ensure_future(store.append(request("s", f"m{i}"))) for i in range(30)]
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


async def test_the_log_does_not_grow_for_ever(store: SQLiteStore, path: Path) -> None:
    largest = 0
    for _ in range(40):
        await asyncio.gather(*(store.append(request("s", new_id(), size=8000)) for _ in range(100)))
        largest = max(largest, os.stat(f"{path}-wal").st_size)
    assert largest < 20 << 20
    assert path.stat().st_size > 20 << 20


async def test_overlapping_readers_do_not_keep_the_log_growing(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frontdesk.stores.sqlite.workers.WAL_PAGES_TO_STOP_AT", 2_048)
    await store.append(request("s", "first"))
    writing = True

    async def keep_reading() -> None:
        while writing:
            await store.view(NAMESPACE, "s", everything)

    readers = [asyncio.ensure_future(keep_reading()) for _ in range(3)]
    for _ in range(30):
        await asyncio.gather(*(store.append(request("t", new_id(), size=8000)) for _ in range(100)))
    writing = False
    await asyncio.gather(*readers)
    assert os.stat(f"{path}-wal").st_size < 28 << 20


async def test_a_long_read_sees_one_moment_and_holds_up_no_writer(store: SQLiteStore) -> None:
    await store.append(request("s", "a"))
    begun, end = threading.Event(), threading.Event()

    def choose(session: SessionRow, view: ViewRow) -> list[Item]:
        begun.set()
        end.wait()
        assert session.head is not None
        return [Span(session.head.segment, 0, 100, Place(session.head.segment, 0))]

    reading = asyncio.ensure_future(store.view(NAMESPACE, "s", choose))
    await asyncio.to_thread(begun.wait)
    await store.append(request("s", "b"))
    assert await ids(store, "s") == ["a", "b"]
    end.set()
    read = await reading
    assert read is not None
    assert [message.id for message in read.pieces[0].messages] == ["a"]
    assert read.pieces[0].before_id == "a"
