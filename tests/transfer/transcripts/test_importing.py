"""What holds for transcripts of every format: nothing is imported twice, and nothing is written by a dry run."""

from __future__ import annotations

import asyncio
import codecs
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from frontdesk import InvalidInputError, SessionManager, TranscriptReport
from tests.transfer.transcripts import samples
from tests.transfer.transcripts.samples import SESSIONS, WRITERS

every_format = pytest.mark.parametrize("format", WRITERS)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def manager(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionManager]:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/a.db"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    async with SessionManager(url) as manager:
        yield manager


@pytest.fixture
async def fresh() -> AsyncIterator[SessionManager]:
    async with SessionManager("memory://") as manager:
        yield manager


async def exported(manager: SessionManager) -> list[bytes]:
    return [line async for line in manager.export()]


async def content(manager: SessionManager, session_id: str) -> Any:
    """What a session contains, without the times of the import."""
    session = manager.session(session_id)
    leaves = await session.leaves()
    info = await session.info()
    return {
        "paths": {leaf.id: [message async for message in session.transcript(leaf=leaf.id)] for leaf in leaves},
        "history": await session.history(),
        "compactions": [(each.id, each.summary, each.from_id, each.to_id) for each in await session.compactions()],
        "usage": await manager.usage(session=session_id, by=("day", "model")),
        "info": (info.name, info.model, info.created_at, info.message_count, info.token_count),
    }


@every_format
async def test_importing_again_changes_nothing_and_a_dry_run_writes_nothing(
    manager: SessionManager, tmp_path: Path, format: str
) -> None:
    path = WRITERS[format](tmp_path)
    checked = await manager.import_transcripts(path, dry_run=True)
    assert await manager.get(SESSIONS[format]) is None
    report = await manager.import_transcripts(path)
    assert (report.sessions, report.known, report.problems) == (1, 0, ())
    assert {**checked.to_dict(), "dry_run": False} == report.to_dict()
    before = await exported(manager)
    again = await manager.import_transcripts(path)
    assert again.known == report.messages
    assert (again.sessions, again.messages, again.compactions, again.usage_entries) == (0, 0, 0, 0)
    dry = await manager.import_transcripts(path, dry_run=True)
    assert {**dry.to_dict(), "dry_run": False} == again.to_dict()
    assert await exported(manager) == before
    assert (await manager.check()).problems == ()


@every_format
async def test_a_dry_run_recognises_a_session_that_two_files_name(
    fresh: SessionManager, tmp_path: Path, format: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        WRITERS[format](tmp_path / name)
    await agree(fresh, tmp_path)


async def test_a_dry_run_recognises_a_session_that_has_grown_between_two_files(
    manager: SessionManager, tmp_path: Path
) -> None:
    samples.write_lines(tmp_path / "0.jsonl", samples.CLAUDE[:4])
    await agree(manager, tmp_path)
    samples.write_lines(tmp_path / "1.jsonl", samples.CLAUDE[:8])
    samples.write_lines(tmp_path / "2.jsonl", samples.CLAUDE)
    samples.write_lines(tmp_path / "3.jsonl", samples.CLAUDE)
    await agree(manager, tmp_path)


async def test_a_dry_run_recognises_a_conversation_that_an_export_repeats(
    fresh: SessionManager, tmp_path: Path
) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([samples.chatgpt_conversation(id) for id in ("a", "b", "a")]))
    report = await agree(fresh, path)
    assert report.sessions == 2
    assert report.known * 2 == report.messages


async def test_a_dry_run_reports_a_session_that_two_formats_name(fresh: SessionManager, tmp_path: Path) -> None:
    samples.write_lines(tmp_path / "a.jsonl", samples.CLAUDE)
    meta = samples.codex_line("session_meta", {"id": SESSIONS["claude-code"]})
    item = samples.codex_line("response_item", samples.codex_said("user", "hi"))
    samples.write_lines(tmp_path / "b.jsonl", [meta, item])
    assert len((await agree(fresh, tmp_path)).problems) == 1


async def agree(manager: SessionManager, path: Path) -> TranscriptReport:
    """Import, after a dry run that says the same."""
    dry = await manager.import_transcripts(path, dry_run=True)
    report = await manager.import_transcripts(path)
    assert {**dry.to_dict(), "dry_run": False} == report.to_dict()
    return report


@pytest.mark.parametrize(("format", "records"), [("claude-code", samples.CLAUDE), ("codex", samples.CODEX)])
async def test_a_transcript_that_has_grown_is_continued(
    manager: SessionManager, fresh: SessionManager, tmp_path: Path, format: str, records: list[samples.Record]
) -> None:
    """However it is cut, the result is that of importing it at once."""
    whole = samples.write_lines(tmp_path / "whole.jsonl", records)
    await fresh.import_transcripts(whole)
    for end in range(1, len(records) + 1):
        part = samples.write_lines(tmp_path / "part.jsonl", records[:end])
        await manager.import_transcripts(part, format=format)  # type: ignore[arg-type]
    assert await content(manager, SESSIONS[format]) == await content(fresh, SESSIONS[format])


async def test_an_interrupted_import_is_completed_by_the_next_one(
    manager: SessionManager, fresh: SessionManager, tmp_path: Path
) -> None:
    records = [samples.claude_record("m0", None, "user", "0")]
    records += [
        samples.claude_record(f"m{n}", f"m{n - 1 - (n % 50 == 0)}", "user", str(n) * 50) for n in range(1, 3000)
    ]
    path = samples.write_lines(tmp_path / "long.jsonl", [*records, *samples.CLAUDE[-1:]])
    (session_id,) = {record["sessionId"] for record in records}

    def stop(done: int, total: int) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await manager.import_transcripts(path, on_progress=stop)
    interrupted = await manager.get(session_id)
    assert interrupted is not None
    assert 0 < interrupted.message_count < 3000
    report = await manager.import_transcripts(path)
    assert (report.known, report.messages) == (interrupted.message_count, 3000 - interrupted.message_count)
    await fresh.import_transcripts(path)
    assert await content(manager, session_id) == await content(fresh, session_id)


async def test_a_conversation_that_was_continued_keeps_its_head(fresh: SessionManager, tmp_path: Path) -> None:
    path = WRITERS["chatgpt"](tmp_path)
    await fresh.import_transcripts(path)
    session = fresh.session(SESSIONS["chatgpt"])
    appended = await session.append({"role": "user", "content": "And breakfast?"})
    await fresh.import_transcripts(path)
    head = await session.head()
    assert head is not None
    assert head.id == appended.message.id


async def test_what_was_deleted_is_imported_again_and_what_was_edited_stays(
    manager: SessionManager, tmp_path: Path
) -> None:
    path = WRITERS["claude-code"](tmp_path)
    await manager.import_transcripts(path)
    session = manager.session(SESSIONS["claude-code"])
    await session.update_message({"id": "u1", "role": "user", "content": "List the free rooms."})
    await session.delete_messages(["u4"])
    await session.undo_compaction("b1")
    report = await manager.import_transcripts(path)
    assert (report.messages, report.known, report.compactions) == (1, 9, 1)
    texts = [message.text async for message in session.transcript()]
    assert (texts[0], texts[-1]) == ("List the free rooms.", "Thanks!")


async def test_a_message_that_was_deleted_between_others_comes_back_on_a_branch_of_its_own(
    manager: SessionManager, tmp_path: Path
) -> None:
    path = WRITERS["claude-code"](tmp_path)
    await manager.import_transcripts(path)
    session = manager.session(SESSIONS["claude-code"])
    await session.delete_messages(["r1"])
    before = await session.history(), [message.id async for message in session.transcript()]
    assert (await manager.import_transcripts(path)).messages == 1
    assert (await session.history(), [message.id async for message in session.transcript()]) == before
    assert [message.id async for message in session.transcript(leaf="r1")] == ["u1", "a1", "a2", "r1"]
    assert (await manager.import_transcripts(path)).messages == 0


async def test_a_session_that_was_deleted_is_imported_again_and_an_archived_one_stays_without_what_was_deleted(
    manager: SessionManager, tmp_path: Path
) -> None:
    path = WRITERS["claude-code"](tmp_path)
    await manager.import_transcripts(path)
    await manager.delete(SESSIONS["claude-code"])
    report = await manager.import_transcripts(path)
    assert (report.sessions, report.messages) == (1, 10)
    await manager.session(SESSIONS["claude-code"]).delete_messages(["u4"])
    await manager.archive(SESSIONS["claude-code"])
    refused = await manager.import_transcripts(path)
    assert (refused.messages, len(refused.problems)) == (0, 1)


async def test_a_file_cannot_write_to_a_session_of_somebody_else(fresh: SessionManager, tmp_path: Path) -> None:
    await fresh.append(SESSIONS["pi"], {"role": "user", "content": "mine"})
    before = await exported(fresh)
    report = await fresh.import_transcripts(WRITERS["pi"](tmp_path))
    assert report.messages == 0
    assert "was not imported from pi" in report.problems[0].problem
    assert await exported(fresh) == before


async def test_an_archived_session_is_not_continued(fresh: SessionManager, tmp_path: Path) -> None:
    path = samples.write_lines(tmp_path / "a.jsonl", samples.CLAUDE[:4])
    await fresh.import_transcripts(path)
    await fresh.archive(SESSIONS["claude-code"])
    report = await fresh.import_transcripts(samples.write_lines(path, samples.CLAUDE))
    assert report.messages == 0
    assert len(report.problems) == 1


async def test_a_folder_is_imported_with_all_its_files(fresh: SessionManager, tmp_path: Path) -> None:
    for format, write in WRITERS.items():
        (tmp_path / format).mkdir()
        write(tmp_path / format)
    samples.write_lines(tmp_path / "other.jsonl", [{"a": 1}])
    seen: list[tuple[int, int]] = []
    report = await fresh.import_transcripts(tmp_path, on_progress=lambda *counts: seen.append(counts))
    assert (report.files, report.sessions) == (5, 5)
    assert [Path(problem.file).name for problem in report.problems] == ["other.jsonl"]
    sessions = [info async for info in fresh.iterate()]
    assert {info.source: info.id for info in sessions} == SESSIONS
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] == sum(file.stat().st_size for file in tmp_path.rglob("*.*"))


async def test_broken_lines_are_reported_with_their_numbers_and_the_rest_is_imported(
    fresh: SessionManager, tmp_path: Path
) -> None:
    lines: list[samples.Record | str] = [*samples.CLAUDE]
    lines[5] = '{"type": "user", "uuid": "r1", '
    lines[8:8] = ["", "[1, 2]", "\ufeffnonsense"]
    report = await fresh.import_transcripts(samples.write_lines(tmp_path / "a.jsonl", lines))
    assert [(problem.line, problem.problem.split(":")[0]) for problem in report.problems] == [
        (6, "the line is not JSON"),
        (7, "the record follows one that is not in the file"),
        (10, "the line is not a JSON object"),
        (11, "the line is not JSON"),
    ]
    texts = [message.text async for message in fresh.session(SESSIONS["claude-code"]).transcript()]
    assert texts == [
        *("List the rooms.", "I look.", "", "One: the suite.", "Book it for Friday.", "Booked for Friday.", "Thanks!")
    ]


@pytest.mark.parametrize("format", ["claude-code", "codex", "pi", "chatgpt"])
async def test_a_byte_order_mark_at_the_start_is_ignored(fresh: SessionManager, tmp_path: Path, format: str) -> None:
    path = WRITERS[format](tmp_path)
    if format == "chatgpt":  # with a long title, only the bracket shows what the file is
        path.write_text(json.dumps([samples.chatgpt_conversation() | {"title": "A" * 5_000}]))
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    report = await fresh.import_transcripts(path)
    assert report.messages > 0
    assert report.problems == ()


async def test_problems_are_counted_even_if_there_are_too_many_to_list(fresh: SessionManager, tmp_path: Path) -> None:
    path = samples.write_lines(tmp_path / "a.jsonl", [*samples.CLAUDE, *["{"] * 1_200])
    report = await fresh.import_transcripts(path)
    assert (len(report.problems), report.problems_total) == (1_000, 1_200)


async def test_half_a_character_is_replaced_and_reported(fresh: SessionManager, tmp_path: Path) -> None:
    """Tools that cut outputs off by UTF-16 units leave half of an emoji, which is not text."""
    record = samples.claude_record("u1", None, "user", "cut here: \ud83d")
    report = await fresh.import_transcripts(samples.write_lines(tmp_path / "a.jsonl", [record]))
    assert [problem.line for problem in report.problems] == [1]
    assert [message.text for message in await fresh.session(SESSIONS["claude-code"]).history()] == ["cut here: ?"]


async def test_messages_that_cannot_be_stored_are_reported(tmp_path: Path) -> None:
    long = samples.claude_record("u5", "u4", "user", "x" * 20_000)
    after = samples.claude_record("u6", "u5", "user", "after")
    path = samples.write_lines(tmp_path / "a.jsonl", [*samples.CLAUDE[:-1], long, after])
    async with SessionManager("memory://", max_message_bytes=10_000) as manager:
        report = await manager.import_transcripts(path)
        assert [problem.line for problem in report.problems] == [15]
        texts = [message.text for message in await manager.session(SESSIONS["claude-code"]).history()]
        assert texts[-2:] == ["Thanks!", "after"]


_HOSTILE: dict[str, Any] = {
    "nested": "[" * 100_000,
    "number": 1e400,
    "null": None,
    "list": [],
    "object": {},
    "text": "\0\ud800",
    "long": "i" * 5_000,
    "true": True,
}


@every_format
@pytest.mark.parametrize("name", _HOSTILE)
async def test_no_value_makes_an_import_fail(fresh: SessionManager, tmp_path: Path, format: str, name: str) -> None:
    """Whatever is in a field: it is imported or reported."""
    value = _HOSTILE[name]
    if format == "hermes":
        path = WRITERS[format](tmp_path)
        damaged = str(value).encode(errors="replace")
        with sqlite3.connect(path) as database:
            for column in ("content", "tool_calls", "tool_call_id", "timestamp", "role"):
                database.execute(f"UPDATE messages SET {column} = ? WHERE id = 2", (damaged,))
        database.close()
    elif format == "chatgpt":
        path = tmp_path / "conversations.json"
        whole = samples.chatgpt_conversation()
        variants = [{**whole, "id": f"{at}", "conversation_id": f"{at}", key: value} for at, key in enumerate(whole)]
        nodes = [_with_node(whole, key, value) for key in ("parent", "children", "message")]
        path.write_text(json.dumps([whole, *variants, *nodes, value]))
    else:
        records = {"claude-code": samples.CLAUDE, "codex": samples.CODEX, "pi": samples.PI}[format]
        changed = [{**record, key: value} for record in records for key in record]
        inner = [
            {**record, key: {**record[key], within: value}}
            for record in records
            for key in ("message", "payload")
            if key in record
            for within in record[key]
        ]
        path = samples.write_lines(tmp_path / "a.jsonl", [*records, *changed, *inner])
    report = await fresh.import_transcripts(path, format=format)  # type: ignore[arg-type]
    assert report.messages > 0
    assert (await fresh.check()).problems == ()
    again = await fresh.import_transcripts(path, format=format)  # type: ignore[arg-type]
    assert (again.sessions, again.messages) == (0, 0)


def _with_node(conversation: samples.Record, key: str, value: Any) -> samples.Record:
    nodes = conversation["mapping"]
    changed = {**nodes, "answer": {**nodes["answer"], key: value}}
    return {**conversation, "mapping": changed, "id": f"node-{key}", "conversation_id": f"node-{key}"}


async def test_a_cycle_in_a_tree_ends(fresh: SessionManager, tmp_path: Path) -> None:
    conversation = samples.chatgpt_conversation()
    conversation["mapping"]["friday-answer"]["children"] = ["q1"]
    conversation["mapping"]["q1"]["parent"] = "friday-answer"
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([conversation]))
    report = await fresh.import_transcripts(path)
    assert report.messages == 8


async def test_what_is_no_transcript_is_refused(fresh: SessionManager, tmp_path: Path) -> None:
    path = samples.write_lines(tmp_path / "a.jsonl", [{"a": 1}])
    with pytest.raises(InvalidInputError, match="known format"):
        await fresh.import_transcripts(path)
    with pytest.raises(InvalidInputError, match="choose one of"):
        await fresh.import_transcripts(path, format="word")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        await fresh.import_transcripts(tmp_path / "missing.jsonl")


async def test_a_damaged_database_is_reported(fresh: SessionManager, tmp_path: Path) -> None:
    path = WRITERS["hermes"](tmp_path)
    path.write_bytes(path.read_bytes()[:6000])
    report = await fresh.import_transcripts(path)
    assert "cannot be read" in report.problems[-1].problem


async def test_a_session_without_an_id_is_reported_and_the_others_are_imported(
    fresh: SessionManager, tmp_path: Path
) -> None:
    path = WRITERS["hermes"](tmp_path)
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO sessions (id, source, started_at) VALUES (NULL, 'cli', 1)")
    database.close()
    report = await fresh.import_transcripts(path)
    assert (report.sessions, len(report.problems)) == (1, 1)
    assert "has no id" in report.problems[0].problem


async def test_a_format_is_recognised_whatever_is_in_its_messages(fresh: SessionManager, tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "write", "input": {"mapping": {}, "payload": {}, "id": "x"}}
    transcript = samples.write_lines(tmp_path / "a.jsonl", [samples.claude_answer("a1", "", "m1", call, 1, 1)])
    assert (await fresh.import_transcripts(transcript)).messages == 1
    conversation = tmp_path / "one.json"
    for indent in (None, 2):  # one conversation of ChatGPT, without the list around it
        conversation.write_text(json.dumps(samples.chatgpt_conversation(f"c{indent}"), indent=indent))
        assert (await fresh.import_transcripts(conversation)).messages == 8
