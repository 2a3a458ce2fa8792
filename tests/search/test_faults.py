"""A search answers from what can be read: on a store that cannot be written to, with damaged messages, and while the
index is not finished."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from frontdesk import SearchResults, SessionManager, StoreFullError, StoreReadOnlyError
from frontdesk.search import index
from frontdesk.search.tokeniser import VERSION
from frontdesk.store import IndexBatch
from frontdesk.stores.memory import MemoryStore
from tests.public_api.steps import user
from tests.waiting import eventually

MANY = 900
"""more messages than a search reads without waiting for the index"""


def ids(results: SearchResults) -> list[str]:
    return sorted(hit.message_id for hit in results)


async def fill(manager: SessionManager, count: int = MANY) -> None:
    await manager.session("chat").append_all([user(f"m{number}", f"lamp w{number}") for number in range(count)])
    await manager.session("other").append(user("o1", "another lamp"))


async def search_all(manager: SessionManager) -> list[Any]:
    """What searches of every kind find."""
    session = manager.session("chat")
    tools = manager.tools(scope="namespace")
    return [
        ids(await manager.search("w7 w8")),
        ids(await session.search("w7 w8")),
        len(await session.search("lamp", limit=1_000)),
        ids(await manager.search("lamp", session="other")),
        "**another** lamp" in await tools["search_sessions"](query="another"),
    ]


FOUND = [["m7", "m8"], ["m7", "m8"], MANY, ["o1"], True]

# stores that cannot be written to


def _search_as_nobody(url: str, result: Connection) -> None:
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)

    async def run() -> list[Any]:
        async with SessionManager(url) as manager:
            with pytest.raises(StoreReadOnlyError):
                await manager.append("chat", user("new"))
            return await search_all(manager)

    result.send(asyncio.run(run()))


@pytest.mark.parametrize("indexed", [0, MANY])
async def test_a_file_that_cannot_be_written_is_searched(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, indexed: int
) -> None:
    folder = tmp_path / "readonly"
    folder.mkdir()
    url = f"sqlite:///{folder}/sessions.db"
    async with SessionManager(url) as manager:
        await fill(manager)
        if indexed:
            await manager.reindex()
    if os.geteuid() == 0:  # the child is another user, who must be able to reach the file
        base = tmp_path_factory.getbasetemp()
        for parent in (base.parent.parent, base.parent, base, tmp_path):
            if parent != Path(tempfile.gettempdir()):
                parent.chmod(0o755)
    (folder / "sessions.db").chmod(0o444)
    folder.chmod(0o555)
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_search_as_nobody, args=(url, there))
    child.start()
    await asyncio.to_thread(child.join)
    folder.chmod(0o755)
    assert child.exitcode == 0
    assert here.recv() == FOUND


async def test_a_full_disk_is_searched(tmp_path: Path) -> None:
    async with SessionManager(f"sqlite:///{tmp_path}/sessions.db") as manager:
        await fill(manager)
        await manager.search("nothing")
        await manager.session("chat").append_all([user(f"n{number}", f"w7 n{number}") for number in range(MANY)])
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, unlimited[1]))
        try:
            with pytest.raises(StoreFullError):
                await manager.append("chat", user("new", "x" * 10_000))
            assert len(await manager.search("w7", limit=1_000)) == MANY + 1
            assert len(await manager.session("chat").search("w7", limit=1_000)) == MANY + 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
        await manager.append("chat", user("after", "w7 after"))
        assert len(await manager.search("w7", limit=1_000)) == MANY + 2


async def test_a_read_only_database_is_searched(postgres_url: str) -> None:
    async with SessionManager(postgres_url) as manager:
        await fill(manager)
    connection = await asyncpg.connect(postgres_url)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    await connection.close()
    async with SessionManager(postgres_url) as manager:
        with pytest.raises(StoreReadOnlyError):
            await manager.append("chat", user("new"))
        assert await search_all(manager) == FOUND
        info = await manager.search_info()
        assert info.texts == 0


# damaged messages


@pytest.mark.parametrize("damage", ["CAST(x'7b22ff' AS TEXT)", '\'{"role": "us\''], ids=["bytes", "json"])
@pytest.mark.parametrize("when", ["before it is indexed", "afterwards"])
async def test_a_damaged_message_is_left_out_and_the_others_are_found(tmp_path: Path, damage: str, when: str) -> None:
    path = tmp_path / "sessions.db"
    async with SessionManager(f"sqlite:///{path}") as manager:
        await manager.session("chat").append_all([user(f"m{number}", f"lamp {number}") for number in range(20)])
        await manager.session("other").append(user("o1", "lamp"))
        if when == "afterwards":
            await manager.reindex()
    connection = apsw.Connection(str(path))
    connection.execute(f"UPDATE messages SET raw = {damage} WHERE id = 'm7'")
    connection.close()
    async with SessionManager(f"sqlite:///{path}") as manager:
        rest = sorted(["o1", *(f"m{number}" for number in range(20) if number != 7)])
        for _ in range(2):
            assert ids(await manager.search("lamp", limit=50)) == rest
            assert ids(await manager.session("chat").search("lamp", limit=50, context=2)) == rest[:-1]
        await manager.reindex()
        assert ids(await manager.search("lamp", limit=50)) == rest


# an index that is not finished


class StuckStore(MemoryStore):
    """Writes nothing to the index until it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = asyncio.Event()

    async def write_index(self, batch: IndexBatch) -> bool:
        if batch.texts:
            await self.may_write.wait()
        return await super().write_index(batch)


async def test_a_search_does_not_wait_until_the_index_is_finished() -> None:
    store = StuckStore()
    async with SessionManager(store) as manager:
        await fill(manager)
        assert await search_all(manager) == FOUND
        assert (await manager.search_info()).building
        store.may_write.set()
        await manager.reindex()
        assert not (await manager.search_info()).building
        assert await search_all(manager) == FOUND


async def test_an_older_version_neither_rebuilds_nor_extends_the_index_of_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/sessions.db"
    version = VERSION
    async with SessionManager(url) as old:
        await old.session("chat").append(user("m1", "lamp"))
        await old.reindex()
        monkeypatch.setattr(index, "VERSION", version + 1)
        async with SessionManager(url) as new:  # it builds the index again by itself
            assert ids(await new.search("lamp")) == ["m1"]
            await eventually(lambda: _is_built(new))
            newest = (await new.search_info()).made_with
        monkeypatch.setattr(index, "VERSION", version)
        await old.session("chat").append_all([user(f"n{number}", "another lamp") for number in range(MANY)])
        assert len(await old.search("lamp", limit=1_000)) == MANY + 1
        assert len(await old.session("chat").search("lamp", limit=1_000)) == MANY + 1
        assert not await index.update(old._runtime) or (await old.search_info()).pending == MANY
        row = await old._runtime.store.index_state("default")
        assert row is not None
        assert (row.state.made_with, row.texts) == (newest, 1)


async def _is_built(manager: SessionManager) -> bool:
    info = await manager.search_info()
    return not info.building and info.pending == 0


async def test_an_index_that_is_half_built_is_used_and_the_rest_is_read() -> None:
    async with SessionManager("memory://") as manager:
        for number in range(200):
            await manager.session(f"s{number}").append(user(f"m{number}", f"lamp w{number}"))
        done = 0

        def stop(texts: int, total: int) -> None:
            nonlocal done
            done = texts
            if texts >= 100:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            await manager.reindex(stop)
        info = await manager.search_info()
        assert info.building
        assert 0 < info.texts == done < 200
        assert len(await manager.session("s3").search("lamp")) == 1
        assert len(await manager.session("s199").search("lamp")) == 1
        assert len(await manager.search("lamp", limit=500)) == 200
