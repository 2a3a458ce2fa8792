"""Damaged SQLite files: every error is typed, a damaged record is named, and everything else can still be read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from frontdesk import DamagedRecordError, FrontdeskError, SessionKey, SessionManager, StoreCorruptError

FILES = 40


@dataclass
class Cart:
    items: int = 0


def _manager(path: Path) -> SessionManager:
    manager = SessionManager(f"sqlite:///{path}")
    return manager.with_context("memory", max_tokens=500, scope="guest").with_cached_prompt()


def _messages(session: str) -> list[dict[str, Any]]:
    text = "the quick brown fox jumps over the lazy dog, " * 4
    return [
        {"id": f"{session}-m{n}", "role": ("user", "assistant")[n % 2], "content": f"{n} {text}"} for n in range(20)
    ]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with some of everything."""
    path = tmp_path_factory.mktemp("sound") / "sessions.db"

    async def build() -> None:
        async with _manager(path) as manager:
            for number in range(8):
                key = SessionKey("desk", "web", f"guest{number % 4}", thread=str(number))
                session = await manager.create(f"talk {number}", id=f"s{number}", key=key, metadata={"n": number})
                await session.append_all(_messages(session.id))
                await session.add_compaction("a summary", f"{session.id}-m2", f"{session.id}-m6")
                await session.replace_context_block("memory", f"likes {number}")
                await session.freeze_system_prompt()
                await manager.add_usage(session.id, input_tokens=5, model="x")
                await manager.states(Cart).set(session.id, Cart(number))
                if number % 2:
                    fork = await manager.fork(session.id, new_id=f"f{number}")
                    await fork.append({"role": "user", "content": "another fox"})
                    await session.update_message({"id": f"{session.id}-m8", "role": "user", "content": "edited"})
            await manager.search("fox")

    asyncio.run(build())
    return path.read_bytes()


def _calls(manager: SessionManager) -> Iterator[Awaitable[Any]]:
    yield manager.list()
    yield _all(manager.iterate())
    yield manager.search("fox")
    yield _all(manager.events(follow=False))
    yield manager.stats()
    yield manager.usage(by=("session", "model"))
    for name in ("s0", "s1", "s3", "f1", "f7"):
        session = manager.session(name)
        yield _raw(session.transcript())
        yield session.history()
        yield session.prepare("openai")
        yield session.info()
        yield session.compactions()
        yield session.context_blocks()
        yield session.search("fox")
        yield session.get_message(f"s{name[1]}-m8")
        yield manager.states(Cart).get(name)
        yield session.append({"role": "user", "content": "more"})
        yield manager.fork(name)
        yield session.update_message({"id": f"s{name[1]}-m10", "role": "user", "content": "changed"})
        yield session.delete_messages([f"s{name[1]}-m12"])
        yield session.rename("renamed")
        yield session.clear_messages()
    yield manager.erase(peer="guest1")
    yield manager.delete("s2")


async def _all(found: AsyncIterator[Any]) -> list[Any]:
    return [one async for one in found]


async def _raw(messages: AsyncIterator[Any]) -> list[Any]:
    return [(message.raw, message.text, message.to_dict()) async for message in messages]


@pytest.mark.parametrize("seed", range(FILES))
async def test_a_file_with_random_bytes_in_it_raises_no_untyped_error(sound: bytes, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    damaged = bytearray(sound)
    for _ in range(chance.choice((1, 3, 10, 30, 60))):
        at = chance.randrange(4096, len(damaged) - 24)
        length = chance.randrange(1, 24)
        damaged[at : at + length] = chance.randbytes(length)
    path = tmp_path / "sessions.db"
    path.write_bytes(damaged)
    manager = _manager(path)
    for call in _calls(manager):
        try:
            await asyncio.wait_for(call, 60)
        except FrontdeskError:
            pass
    await manager.close()


@pytest.mark.parametrize("content", [b"\xff\xfe not text", b'{"role": "user", "conte'])
async def test_a_damaged_message_is_named_and_the_rest_can_be_read(
    sound: bytes, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "sessions.db"
    path.write_bytes(sound)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE messages SET raw = CAST(? AS TEXT) WHERE id = 's1-m8'", (content,))
        connection.execute("UPDATE messages SET raw = CAST(? AS TEXT) WHERE id = 's0-m8'", (content,))
    async with _manager(path) as manager:
        session = manager.session("s0")
        with pytest.raises(DamagedRecordError) as raised:
            await _raw(session.transcript())
        assert (raised.value.record, raised.value.id) == ("message", "s0-m8")
        with pytest.raises(DamagedRecordError, match="'s0-m8'"):
            await session.history(format="openai")
        # other sessions, other messages, and writes
        assert len(await _raw(manager.session("s2").transcript())) == 20
        assert (await session.get_message("s0-m9")).text.startswith("9 the quick")
        assert len((await manager.list()).items) == 12
        await session.append({"id": "more", "role": "user", "content": "more"})
        # what is damaged can be deleted, and then everything is readable
        assert await session.delete_messages(["s0-m8"]) == 1
        assert len(await _raw(session.transcript())) == 20
        assert [one["content"][:4] for one in await session.history(format="openai")][-1] == "more"


async def test_a_transcript_with_a_lost_message_ends_with_an_error(sound: bytes, tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.write_bytes(sound)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("DELETE FROM messages WHERE id = 's0-m8'")
    async with _manager(path) as manager:
        with pytest.raises(StoreCorruptError):
            await asyncio.wait_for(_raw(manager.session("s0").transcript()), 60)
