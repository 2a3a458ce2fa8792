"""Each format is imported as a tree, with what its tool recorded."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from frontdesk import ReasoningPart, Session, SessionManager, ToolCallPart, ToolResultPart
from tests.transfer.transcripts import samples
from tests.transfer.transcripts.samples import SESSIONS, WRITERS

BOOKED = ["Book it for Friday.", "Booked for Friday."]


@pytest.fixture
async def manager() -> AsyncIterator[SessionManager]:
    async with SessionManager("memory://") as manager:
        yield manager


async def imported(manager: SessionManager, folder: Path, format: str) -> Session:
    report = await manager.import_transcripts(WRITERS[format](folder))
    assert report.problems == ()
    return manager.session(SESSIONS[format])


async def transcript(session: Session, leaf: str | None = None) -> list[str]:
    return [message.text for message in [each async for each in session.transcript(leaf=leaf)]]


async def view(session: Session) -> list[str]:
    return [message.text for message in await session.history()]


async def test_claude_code(manager: SessionManager, tmp_path: Path) -> None:
    session = await imported(manager, tmp_path, "claude-code")
    # The rewind is a branch, and records that are no messages do not interrupt the path.
    start = ["List the rooms.", "I look.", "", "", "One: the suite."]
    assert await transcript(session) == [*start, *BOOKED, "Thanks!"]
    assert await transcript(session, "a4") == [*start, "Book it for Monday.", "Booked for Monday."]
    # The compaction replaces what came before it, and its summary is not a message.
    assert await view(session) == ["The suite is booked for Friday.", "Thanks!"]
    (compaction,) = await session.compactions()
    assert (compaction.id, compaction.from_id, compaction.to_id) == ("b1", "u1", "a5")
    assert compaction.created_at == datetime(2026, 3, 1, 10, 0, 10, 500_000, UTC)
    call, result = await session.get_message("a2"), await session.get_message("r1")
    assert call.tool_call_ids == result.tool_result_ids == ("toolu_1",)
    message = await session.get_message("a5")
    assert message.raw == samples.CLAUDE[10]
    assert message.created_at == datetime(2026, 3, 1, 10, 0, 9, 500_000, UTC)
    # The records of a call repeat its usage: it counts once, and the last one has all tokens of the answer.
    info = await session.info()
    assert (info.input_tokens, info.output_tokens) == (4 * 3210, 40 + 8 + 5 + 5)
    assert (info.name, info.model, info.source) == ("A room for Friday", "claude-opus-4-5", "claude-code")
    assert info.created_at == datetime(2026, 3, 1, 10, 0, 1, 500_000, UTC)
    assert [row.day for row in (await manager.usage(session=session.id)).rows] == [date(2026, 3, 1)]


async def test_claude_code_keeps_what_a_partial_compaction_preserves(manager: SessionManager, tmp_path: Path) -> None:
    records = samples.CLAUDE
    kept = {"headUuid": "u3", "anchorUuid": "s1", "tailUuid": "a5"}
    changed = [
        {**each, "compactMetadata": {"preservedSegment": kept}} if each.get("uuid") == "b1" else each
        for each in records
    ]
    await manager.import_transcripts(samples.write_lines(tmp_path / "a.jsonl", changed))
    session = manager.session(SESSIONS["claude-code"])
    assert await view(session) == ["The suite is booked for Friday.", *BOOKED, "Thanks!"]


async def test_claude_code_keeps_the_summary_of_what_another_file_has(manager: SessionManager, tmp_path: Path) -> None:
    path = samples.write_lines(tmp_path / "a.jsonl", samples.CLAUDE[11:])
    report = await manager.import_transcripts(path)
    assert [problem.line for problem in report.problems] == [1]
    session = manager.session(SESSIONS["claude-code"])
    assert await transcript(session) == ["The suite is booked for Friday.", "Thanks!"]


async def test_claude_code_subagents(manager: SessionManager, tmp_path: Path) -> None:
    """A subagent in the same file is a branch; one in a file of its own is a session."""
    inside = samples.claude_record("x1", None, "user", "Count the beds.", 20, isSidechain=True)
    samples.write_lines(tmp_path / "main.jsonl", [*samples.CLAUDE, inside])
    own = samples.claude_record("y1", None, "user", "Count the towels.", 21, isSidechain=True, agentId="ab12")
    samples.write_lines(tmp_path / "main" / "subagents" / "agent-ab12.jsonl", [own])
    assert (await manager.import_transcripts(tmp_path)).sessions == 2
    session = manager.session(SESSIONS["claude-code"])
    assert (await view(session))[-1] == "Thanks!"
    assert await transcript(session, "x1") == ["Count the beds."]
    agent = await manager.session(f"{session.id}/ab12").info()
    assert agent.parent_session_id == session.id


async def test_codex(manager: SessionManager, tmp_path: Path) -> None:
    session = await imported(manager, tmp_path, "codex")
    start = ["<environment_context>/desk</environment_context>", "List the rooms.", "", "", "", "One: the suite."]
    # Events repeat items and are not imported; turns that were rolled back are a branch.
    assert await transcript(session) == [*start, *BOOKED, "Thanks!"]
    leaves = {leaf.text for leaf in await session.leaves()}
    assert leaves == {"Booked for Monday.", "Thanks!"}
    assert await view(session) == ["The suite is booked for Friday.", "Thanks!"]
    messages = [message async for message in session.transcript()]
    assert isinstance(messages[2].parts[0], ReasoningPart)
    call, result = messages[3].parts[0], messages[4].parts[0]
    assert call == ToolCallPart("call_1", "shell", {"command": ["ls"]})
    assert result == ToolResultPart("call_1", "suite")
    assert {"payload": messages[3].raw}.items() <= dict(samples.CODEX[7]).items()
    assert messages[3].created_at == datetime(2026, 3, 2, 10, 0, 4, tzinfo=UTC)
    usage = await manager.usage(session=session.id, by=("model",))
    assert [row.model for row in usage.rows] == ["gpt-5.2-codex"]
    assert (usage.total.input_tokens, usage.total.cache_read_tokens) == (300, 150)
    assert (usage.total.output_tokens, usage.total.reasoning_tokens) == (14, 6)


async def test_a_codex_rollout_without_a_readable_summary(manager: SessionManager, tmp_path: Path) -> None:
    """A provider may return a compaction that only it can read. What it kept of the conversation stays visible."""
    kept = [samples.codex_said("user", "Book it."), {"type": "compaction", "encrypted_content": "x"}]
    said = [samples.codex_line("response_item", samples.codex_said("user", text)) for text in ("Hi.", "Book it.")]
    for number, history in enumerate((kept, kept[1:])):
        meta = samples.codex_line("session_meta", {"id": f"s{number}"})
        compacted = samples.codex_line("compacted", {"message": "", "replacement_history": history})
        await manager.import_transcripts(samples.write_lines(tmp_path / f"{number}.jsonl", [meta, *said, compacted]))
    assert await view(manager.session("s0")) == ["Book it."]
    assert await view(manager.session("s1")) == []
    assert await transcript(manager.session("s1")) == ["Hi.", "Book it."]


async def test_the_first_codex_rollouts(manager: SessionManager, tmp_path: Path) -> None:
    lines: list[samples.Record] = [
        {"id": "old", "timestamp": "2025-06-01T10:00:00Z", "instructions": None},
        {"record_type": "state"},
        samples.codex_said("user", "Hi."),
        samples.codex_said("assistant", "Hello."),
    ]
    report = await manager.import_transcripts(samples.write_lines(tmp_path / "a.jsonl", lines))
    assert (report.messages, report.skipped) == (2, {"unknown": 1})
    assert await view(manager.session("old")) == ["Hi.", "Hello."]


async def test_pi(manager: SessionManager, tmp_path: Path) -> None:
    session = await imported(manager, tmp_path, "pi")
    start = ["List the rooms.", "", "", "One: the suite."]
    left = "Summary of the branch that was left: Monday was tried."
    assert await transcript(session) == [*start, left, *BOOKED, "Thanks!"]
    assert await transcript(session, "e6") == [*start, "Book it for Monday.", "Booked for Monday."]
    # The compaction keeps what it names as the first entry to keep.
    assert await view(session) == ["The suite is free.", *BOOKED, "Thanks!"]
    reasoning, call = (await session.get_message("e2")).parts
    assert reasoning == ReasoningPart("Look first.", "sig")
    assert call == ToolCallPart("t1", "bash", {"command": "ls"})
    (result,) = (await session.get_message("e3")).parts
    assert result == ToolResultPart("t1", "suite", "bash")
    assert (await session.get_message("e4")).metadata["pi"]["stopReason"] == "stop"
    info = await session.info()
    assert (info.name, info.model, info.cost) == ("A room for Friday", "claude-opus-4-5", Decimal("0.12"))
    assert (info.input_tokens, info.output_tokens) == (4 * 130, 4 * 5)
    assert info.created_at == datetime(2026, 3, 3, 10, tzinfo=UTC)


async def test_the_first_version_of_pi_has_no_ids(manager: SessionManager, tmp_path: Path) -> None:
    def message(role: str, content: str) -> samples.Record:
        return {"type": "message", "timestamp": "2025-12-01T10:00:00Z", "message": {"role": role, "content": content}}

    bash = {"role": "bashExecution", "command": "ls", "output": "suite", "exitCode": 0}
    lines = [
        {"type": "session", "id": "v1", "timestamp": "2025-12-01T10:00:00Z", "cwd": "/", "modelId": "m"},
        message("user", "one"),
        message("assistant", "two"),
        message("user", "three"),
        {"type": "message", "timestamp": "2025-12-01T10:00:00Z", "message": bash},
        {"type": "compaction", "timestamp": "2025-12-01T10:00:00Z", "summary": "sum", "firstKeptEntryIndex": 3},
        message("assistant", "four"),
    ]
    report = await manager.import_transcripts(samples.write_lines(tmp_path / "a.jsonl", lines))
    assert report.problems == ()
    assert await view(manager.session("v1")) == ["sum", "three", "Ran `ls`\nsuite", "four"]


async def test_a_reset_of_openclaw_hides_what_came_before(manager: SessionManager, tmp_path: Path) -> None:
    more = [
        samples.pi_entry("e14", "e13", "reset", 15),
        samples.pi_entry("e15", "e14", "message", 16, message={"role": "user", "content": "Something else."}),
    ]
    await manager.import_transcripts(samples.write_lines(tmp_path / "a.jsonl", [*samples.PI, *more]))
    session = manager.session(SESSIONS["pi"])
    assert await view(session) == ["Something else."]
    assert (await transcript(session))[-2:] == ["Thanks!", "Something else."]


async def test_chatgpt(manager: SessionManager, tmp_path: Path) -> None:
    session = await imported(manager, tmp_path, "chatgpt")
    start = ["List the rooms.", "", "", "One: the suite."]
    assert await transcript(session) == await view(session) == [*start, *BOOKED]
    assert await transcript(session, "monday-answer") == [*start, "Book it for Monday.", "Booked for Monday."]
    (call,) = (await session.get_message("call")).parts
    assert call == ToolCallPart("call", "python", {"input": "ls()"})
    (result,) = (await session.get_message("result")).parts
    assert result == ToolResultPart("call", "suite")
    answer = await session.get_message("answer")
    assert answer.metadata["chatgpt"]["metadata"] == {"model_slug": "gpt-5"}
    assert answer.created_at == datetime.fromtimestamp(1772618404.5, UTC)
    info = await session.info()
    assert (info.name, info.model) == ("A room for Friday", "gpt-5")
    # Every provider accepts what was imported.
    assert [message["role"] for message in await session.history(format="openai")] == [
        *("user", "assistant", "tool", "assistant", "user", "assistant")
    ]


async def test_what_only_chatgpt_has_is_kept_as_data(manager: SessionManager, tmp_path: Path) -> None:
    image = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_1", "width": 10}
    contents = {
        "a": {"content_type": "multimodal_text", "parts": ["Look:", image, {"content_type": "audio"}]},
        "b": {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "Hm."}]},
        "c": {"content_type": "user_editable_context", "user_profile": "Ana"},
    }
    ids = list(contents)
    nodes = {
        id: samples.chatgpt_node(
            id, ids[at - 1] if at else None, ids[at + 1 : at + 2], samples.chatgpt_message("user", at, contents[id])
        )
        for at, id in enumerate(ids)
    }
    path = tmp_path / "conversation.json"
    path.write_text(json.dumps({"id": "one", "title": None, "mapping": nodes, "current_node": "c"}))
    assert (await manager.import_transcripts(path)).messages == 3
    parts = [[part.to_dict() for part in message.parts] async for message in manager.session("one").transcript()]
    assert [[part["type"] for part in row] for row in parts] == [["text", "file", "data"], ["reasoning"], ["data"]]
    assert parts[0][1]["url"] == "sediment://file_1"
    assert parts[2][0]["data"] == contents["c"]


async def test_hermes(manager: SessionManager, tmp_path: Path) -> None:
    session = await imported(manager, tmp_path, "hermes")
    summary = "[CONTEXT SUMMARY]: There is one room, the suite."
    # What was compacted is hidden, and what was taken back is a branch.
    assert await view(session) == ["You run a hotel.", summary, "One: the suite.", *BOOKED]
    start = ["You run a hotel.", "List the rooms.", "", "suite", summary, "One: the suite."]
    assert await transcript(session) == [*start, *BOOKED]
    assert await transcript(session, "7") == [*start, "Book it for Monday.", "Booked for Monday."]
    call, result = await session.get_message("2"), await session.get_message("3")
    assert call.tool_call_ids == result.tool_result_ids == ("c1",)
    assert call.created_at == datetime.fromtimestamp(1772704802.25, UTC)
    info = await session.info()
    assert (info.name, info.model, info.cost) == ("A room for Friday", "opus", Decimal("0.25"))
    assert (info.input_tokens, info.output_tokens) == (100, 5)


async def test_totals_of_hermes_grow(manager: SessionManager, tmp_path: Path) -> None:
    session = await imported(manager, tmp_path, "hermes")
    with sqlite3.connect(tmp_path / "state.db") as database:
        database.execute("UPDATE session_model_usage SET input_tokens = 30, actual_cost_usd = 0.75")
    database.close()
    for _ in range(2):
        await manager.import_transcripts(tmp_path / "state.db")
        info = await session.info()
        assert (info.input_tokens, info.output_tokens, info.cost) == (120, 5, Decimal("0.75"))
