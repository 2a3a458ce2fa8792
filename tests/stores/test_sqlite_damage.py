"""Damaged SQLite files: every error is typed, a damaged record is named, and everything else can still be read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from frontdesk import DamagedRecordError, FrontdeskError, SessionKey, SessionManager
from frontdesk.context import SkillDirectory
from frontdesk.store import Place
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.stores.sqlite.rows import POSITION_BITS

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


@pytest.fixture
def path(sound: bytes, tmp_path: Path) -> Path:
    """A copy of the file, to be damaged."""
    path = tmp_path / "sessions.db"
    path.write_bytes(sound)
    return path


def _damage(path: Path, statement: str, *values: Any) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(statement, values)


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
async def test_a_damaged_message_is_named_and_the_rest_can_be_read(path: Path, content: bytes) -> None:
    _damage(path, "UPDATE messages SET raw = CAST(? AS TEXT) WHERE id IN ('s0-m8', 's1-m8')", content)
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


async def test_a_transcript_with_a_lost_message_ends_with_an_error(path: Path) -> None:
    _damage(path, "DELETE FROM messages WHERE id = 's0-m8'")
    async with _manager(path) as manager:
        with pytest.raises(DamagedRecordError):
            await asyncio.wait_for(_raw(manager.session("s0").transcript()), 60)


@pytest.mark.parametrize("lost", [0, 1, 8, 19])
async def test_a_history_with_a_lost_message_is_not_returned(path: Path, lost: int) -> None:
    _damage(path, "DELETE FROM messages WHERE id = ?", f"s0-m{lost}")
    async with _manager(path) as manager:
        session = manager.session("s0")
        for read in (
            session.history,
            lambda: session.history(format="openai"),
            lambda: session.history(last=20),
            lambda: session.history(max_tokens=5_000),
            lambda: session.prepare("openai"),
        ):
            with pytest.raises(DamagedRecordError, match="a message of session 's0'"):
                await asyncio.wait_for(read(), 60)
        assert len(await manager.session("s2").history()) == 16


async def test_a_lost_message_at_the_head_is_reported_at_once(path: Path) -> None:
    _damage(path, "DELETE FROM messages WHERE id = 's0-m19'")
    async with _manager(path) as manager:
        session = manager.session("s0")
        for call in (session.head, session.leaves, session.pop):
            with pytest.raises(DamagedRecordError, match="a message of session 's0'"):
                await asyncio.wait_for(call(), 60)


@pytest.mark.parametrize(
    ("column", "value"), [("tags", "{["), ("metadata", "{["), ("metadata", "[]"), ("cost", "much"), ("end_reason", "?")]
)
async def test_a_damaged_session_is_named(path: Path, column: str, value: str) -> None:
    _damage(path, f"UPDATE sessions SET {column} = ? WHERE id = 's0'", value)
    async with _manager(path) as manager:
        for call in (manager.list, manager.session("s0").info):
            with pytest.raises(DamagedRecordError, match="session 's0' is damaged"):
                await call()
        assert (await manager.session("s1").info()).id == "s1"
        assert len(await _raw(manager.session("s0").transcript())) == 20


async def test_damaged_tags_and_metadata_are_not_written_over(path: Path) -> None:
    _damage(path, "UPDATE sessions SET tags = '{[', metadata = '{[' WHERE id = 's0'")
    async with _manager(path) as manager:
        session = manager.session("s0")
        for call in (
            lambda: session.add_tags("vip"),
            lambda: session.remove_tags("vip"),
            lambda: session.set_metadata(n=1),
            lambda: manager.fork("s0"),
        ):
            with pytest.raises(DamagedRecordError, match="session 's0' is damaged"):
                await call()


@pytest.mark.parametrize("details", ["{[", "[]"])
async def test_a_damaged_compaction_is_named(path: Path, details: str) -> None:
    async with _manager(path) as manager:
        session = manager.session("s0")
        (compaction,) = await session.compactions()
        _damage(path, "UPDATE overlays SET details = ?", details)
        with pytest.raises(DamagedRecordError, match=f"compaction '{compaction.id}'"):
            await session.compactions()
        assert [message.text for message in await session.history()][2] == "a summary"


async def test_damaged_usage_is_named(path: Path) -> None:
    _damage(path, "UPDATE usage_entries SET cost = 'much'")
    async with _manager(path) as manager:
        with pytest.raises(DamagedRecordError, match="usage entry"):
            await manager.usage_entries("s0")


async def test_a_damaged_log_entry_is_reported(path: Path) -> None:
    _damage(path, "UPDATE changes SET detail = '{[' WHERE detail <> ''")
    async with _manager(path) as manager:
        with pytest.raises(DamagedRecordError, match="log entry number"):
            await _all(manager.events(after="start", follow=False))


@pytest.fixture
async def skilled(tmp_path: Path) -> AsyncIterator[SessionManager]:
    """A manager whose session "s" has facts from its only message, and a skill that was loaded."""
    skills = tmp_path / "skills"
    skills.mkdir()
    (skills / "tea.md").write_text("# Tea\nBoil water.\n")
    manager = _manager(tmp_path / "skilled.db").with_memory_refresh(lambda prompt: "- likes tea", enabled=False)
    async with manager.with_context("skills", provider=SkillDirectory(skills)):
        session = manager.session("s")
        await session.append({"id": "m0", "role": "user", "content": "I like tea"})
        assert await session.refresh_memory() == ["likes tea"]
        await (await session.tools())["load_context"](label="skills", key="tea")
        yield manager


@pytest.mark.parametrize("content", ["{[", "7"])
@pytest.mark.parametrize(
    ("label", "record", "call"),
    [
        ("memory", "extraction progress of session 's'", lambda session: session.refresh_memory()),
        ("extractions", "extraction '", lambda session: session.delete_messages(["m0"])),
        ("facts", "facts of context block 'memory'", lambda session: session.delete_messages(["m0"])),
    ],
)
async def test_a_damaged_note_is_named(
    skilled: SessionManager,
    tmp_path: Path,
    label: str,
    record: str,
    call: Callable[[Any], Awaitable[Any]],
    content: str,
) -> None:
    _damage(tmp_path / "skilled.db", "UPDATE documents SET content = ? WHERE label = ?", content, f"frontdesk:{label}")
    session = skilled.session("s")
    await session.append({"id": "m1", "role": "user", "content": "And coffee"})
    with pytest.raises(DamagedRecordError, match=record):
        await call(session)
    assert [message.id for message in await session.history()] == ["m0", "m1"]


async def test_a_damaged_list_of_loaded_skills_is_reported_to_the_model(
    skilled: SessionManager, tmp_path: Path
) -> None:
    _damage(tmp_path / "skilled.db", "UPDATE documents SET content = '{[' WHERE label = 'frontdesk:skills'")
    answer = await (await skilled.session("s").tools())["load_context"](label="skills", key="tea")
    assert "DamagedRecordError" in answer


async def test_what_was_written_is_not_called_refused_because_a_note_is_damaged(
    skilled: SessionManager, tmp_path: Path
) -> None:
    _damage(tmp_path / "skilled.db", "UPDATE documents SET content = '{[' WHERE label LIKE 'frontdesk:%'")
    session = skilled.session("s")
    await session.append({"id": "m1", "role": "tool", "tool_call_id": "c", "content": "[skill skills/tea #0123]\nBoil"})
    await session.update_message({"id": "m0", "role": "user", "content": "I like coffee"})
    assert [message.text[:12] for message in await session.history()] == ["I like coffe", "[skill skill"]


async def test_a_damaged_prompt_is_reported(path: Path) -> None:
    _damage(path, "UPDATE prompts SET blocks = '{['")
    async with _manager(path) as manager:
        with pytest.raises(DamagedRecordError, match="frozen prompt"):
            await manager.session("s0").prepare("openai")
        assert len(await _raw(manager.session("s0").transcript())) == 20


async def test_a_damaged_token_count_is_reported(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:  # a damaged header changes the type of a value
        connection.execute("PRAGMA writable_schema = on")
        connection.execute("UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'messages'")
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE messages SET running = x'ff', tokens = x'ff' WHERE id LIKE 's0-%'")
        place: Any = connection.execute("SELECT place FROM messages WHERE id = 's0-m19'").get
    store = SQLiteStore(path)
    with pytest.raises(DamagedRecordError, match=f"message number {place}"):
        await store.sums([Place(place >> POSITION_BITS, place & ((1 << POSITION_BITS) - 1))])
    await store.close()
