"""Small transcripts in every format, as their tools write them: each has a branch, tool calls, usage and, where the
tool has it, a compaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def write_lines(path: Path, records: Iterable[Record | str]) -> Path:
    """A JSONL file. A text is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in records))
    return path


def claude_record(uuid: str, parent: str | None, role: str, content: Any, second: int = 0, **more: Any) -> Record:
    """A message of Claude Code."""
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/ana/desk",
        "sessionId": "5d1f0a9e-claude",
        "version": "2.1.0",
        "type": role,
        "message": {"role": role, "content": content, **more.pop("message", {})},
        "uuid": uuid,
        "timestamp": f"2026-03-01T10:00:{second:02}.500Z",
        **more,
    }


def claude_answer(uuid: str, parent: str, call: str, block: Record, output: int, second: int) -> Record:
    """A record of an answer: each has one block, and repeats the usage of its call."""
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 3000,
        "output_tokens": output,
    }
    message = {"id": call, "type": "message", "model": "claude-opus-4-5", "usage": usage}
    return claude_record(uuid, parent, "assistant", [block], second, message=message)


CLAUDE: list[Record] = [
    {"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}},
    claude_record("u1", None, "user", "List the rooms.", 1),
    claude_answer("a1", "u1", "msg_1", {"type": "text", "text": "I look."}, 2, 2),
    claude_answer(
        "a2", "a1", "msg_1", {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}, 40, 3
    ),
    {"type": "progress", "uuid": "p1", "parentUuid": "a2", "sessionId": "5d1f0a9e-claude", "data": {}},
    claude_record("r1", "p1", "user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "suite"}], 4),
    claude_answer("a3", "r1", "msg_2", {"type": "text", "text": "One: the suite."}, 8, 5),
    claude_record("u2", "a3", "user", "Book it for Monday.", 6),
    claude_answer("a4", "u2", "msg_3", {"type": "text", "text": "Booked for Monday."}, 5, 7),
    # The user goes back to a3 and asks something else.
    claude_record("u3", "a3", "user", "Book it for Friday.", 8),
    claude_answer("a5", "u3", "msg_4", {"type": "text", "text": "Booked for Friday."}, 5, 9),
    {
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "uuid": "b1",
        "parentUuid": None,
        "logicalParentUuid": "a5",
        "compactMetadata": {"trigger": "manual", "preTokens": 3000},
        "sessionId": "5d1f0a9e-claude",
        "timestamp": "2026-03-01T10:00:10.500Z",
    },
    claude_record("s1", "b1", "user", "The suite is booked for Friday.", 11, isCompactSummary=True),
    claude_record("u4", "s1", "user", "Thanks!", 12),
    {"type": "custom-title", "customTitle": "A room for Friday", "sessionId": "5d1f0a9e-claude"},
]


def codex_line(kind: str, payload: Record, second: int = 0) -> Record:
    return {"timestamp": f"2026-03-02T10:00:{second:02}.000Z", "type": kind, "payload": payload}


def codex_said(role: str, text: str) -> Record:
    block = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": block, "text": text}]}


def codex_count(total: int, last: int) -> Record:
    def usage(tokens: int) -> Record:
        return {
            "input_tokens": tokens,
            "cached_input_tokens": tokens // 2,
            "output_tokens": 7,
            "reasoning_output_tokens": 3,
            "total_tokens": tokens + 7,
        }

    return {"type": "token_count", "info": {"total_token_usage": usage(total), "last_token_usage": usage(last)}}


CODEX: list[Record] = [
    codex_line("session_meta", {"id": "0199-codex", "timestamp": "2026-03-02T10:00:00Z", "cwd": "/desk"}),
    codex_line("response_item", codex_said("user", "<environment_context>/desk</environment_context>"), 1),
    codex_line("turn_context", {"cwd": "/desk", "model": "gpt-5.2-codex"}, 1),
    codex_line("response_item", codex_said("user", "List the rooms."), 2),
    codex_line("event_msg", {"type": "user_message", "message": "List the rooms."}, 2),
    codex_line("event_msg", {"type": "agent_reasoning", "text": "Look first."}, 3),
    codex_line(
        "response_item",
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Look first."}], "encrypted_content": "x"},
        3,
    ),
    codex_line(
        "response_item",
        {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "call_1"},
        4,
    ),
    codex_line("event_msg", codex_count(100, 100), 4),
    codex_line("event_msg", codex_count(100, 100), 4),  # Codex repeats counts
    codex_line("response_item", {"type": "function_call_output", "call_id": "call_1", "output": "suite"}, 5),
    codex_line("response_item", codex_said("assistant", "One: the suite."), 6),
    codex_line("event_msg", {"type": "agent_message", "message": "One: the suite."}, 6),
    codex_line("event_msg", codex_count(300, 200), 6),
    codex_line("event_msg", {"type": "user_message", "message": "Book it for Monday."}, 7),
    codex_line("response_item", codex_said("user", "Book it for Monday."), 7),
    codex_line("response_item", codex_said("assistant", "Booked for Monday."), 8),
    codex_line("event_msg", {"type": "thread_rolled_back", "num_turns": 1}, 9),
    codex_line("response_item", codex_said("user", "Book it for Friday."), 10),
    codex_line("event_msg", {"type": "user_message", "message": "Book it for Friday."}, 10),
    codex_line("response_item", codex_said("assistant", "Booked for Friday."), 11),
    codex_line("compacted", {"message": "The suite is booked for Friday."}, 12),
    codex_line("response_item", codex_said("user", "Thanks!"), 13),
    codex_line("response_item", {"type": "ghost_snapshot", "ghost_commit": {}}, 13),
]


def pi_entry(id: str, parent: str | None, kind: str, second: int, **more: Any) -> Record:
    timestamp = f"2026-03-03T10:00:{second:02}.000Z"
    return {"type": kind, "id": id, "parentId": parent, "timestamp": timestamp, **more}


def pi_answer(*blocks: Record) -> Record:
    cost = {"input": 0.01, "output": 0.02, "cacheRead": 0, "cacheWrite": 0, "total": 0.03}
    usage = {"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 20, "totalTokens": 135, "cost": cost}
    return {
        "role": "assistant",
        "content": list(blocks),
        "api": "anthropic-messages",
        "provider": "anthropic",
        "model": "claude-opus-4-5",
        "usage": usage,
        "stopReason": "stop",
        "timestamp": 1772532000000,
    }


def _text(text: str) -> Record:
    return {"type": "text", "text": text}


PI: list[Record] = [
    {"type": "session", "version": 3, "id": "0f3e-pi", "timestamp": "2026-03-03T10:00:00Z", "cwd": "/desk"},
    pi_entry("e0", None, "model_change", 1, provider="anthropic", modelId="claude-opus-4-5"),
    pi_entry("e1", "e0", "message", 2, message={"role": "user", "content": "List the rooms."}),
    pi_entry(
        "e2",
        "e1",
        "message",
        3,
        message=pi_answer(
            {"type": "thinking", "thinking": "Look first.", "thinkingSignature": "sig"},
            {"type": "toolCall", "id": "t1", "name": "bash", "arguments": {"command": "ls"}},
        ),
    ),
    pi_entry(
        "e3",
        "e2",
        "message",
        4,
        message={
            "role": "toolResult",
            "toolCallId": "t1",
            "toolName": "bash",
            "content": [_text("suite")],
            "isError": False,
        },
    ),
    pi_entry("e4", "e3", "message", 5, message=pi_answer(_text("One: the suite."))),
    pi_entry("e5", "e4", "message", 6, message={"role": "user", "content": [_text("Book it for Monday.")]}),
    pi_entry("e6", "e5", "message", 7, message=pi_answer(_text("Booked for Monday."))),
    pi_entry("e7", "e4", "branch_summary", 8, fromId="e6", summary="Monday was tried."),
    pi_entry("e8", "e7", "message", 9, message={"role": "user", "content": "Book it for Friday."}),
    pi_entry("e9", "e8", "compaction", 10, summary="The suite is free.", firstKeptEntryId="e8", tokensBefore=500),
    pi_entry("e10", "e9", "message", 11, message=pi_answer(_text("Booked for Friday."))),
    pi_entry("e11", "e10", "label", 12, targetId="e10", label="done"),
    pi_entry("e12", "e11", "session_info", 13, name="A room for Friday"),
    pi_entry("e13", "e12", "message", 14, message={"role": "user", "content": "Thanks!"}),
]


def chatgpt_node(id: str, parent: str | None, children: list[str], message: Record | None) -> Record:
    return {"id": id, "message": message, "parent": parent, "children": children}


def chatgpt_message(role: str, second: int, content: Any, **more: Any) -> Record:
    if isinstance(content, str):
        content = {"content_type": "text", "parts": [content]}
    return {
        "id": f"m-{second}",
        "author": {"role": role, "name": more.pop("name", None), "metadata": {}},
        "create_time": 1772618400.5 + second,
        "update_time": None,
        "content": content,
        "status": "finished_successfully",
        "end_turn": True,
        "weight": 1.0,
        "metadata": {"model_slug": "gpt-5"} if role == "assistant" else {},
        "recipient": "all",
        **more,
    }


def chatgpt_conversation(id: str = "68aa-chatgpt") -> Record:
    nodes = [
        chatgpt_node("root", None, ["sys"], None),
        chatgpt_node("sys", "root", ["q1"], chatgpt_message("system", 0, "")),
        chatgpt_node("q1", "sys", ["call"], chatgpt_message("user", 1, "List the rooms.")),
        chatgpt_node(
            "call",
            "q1",
            ["result"],
            chatgpt_message("assistant", 2, {"content_type": "code", "text": "ls()"}, recipient="python"),
        ),
        chatgpt_node(
            "result",
            "call",
            ["answer"],
            chatgpt_message("tool", 3, {"content_type": "execution_output", "text": "suite"}, name="python"),
        ),
        # The question after the answer was edited: its first version is a branch.
        chatgpt_node("answer", "result", ["friday", "monday"], chatgpt_message("assistant", 4, "One: the suite.")),
        chatgpt_node("monday", "answer", ["monday-answer"], chatgpt_message("user", 5, "Book it for Monday.")),
        chatgpt_node("monday-answer", "monday", [], chatgpt_message("assistant", 6, "Booked for Monday.")),
        chatgpt_node("friday", "answer", ["friday-answer"], chatgpt_message("user", 7, "Book it for Friday.")),
        chatgpt_node("friday-answer", "friday", [], chatgpt_message("assistant", 8, "Booked for Friday.")),
    ]
    return {
        "title": "A room for Friday",
        "create_time": 1772618400.0,
        "update_time": 1772618500.0,
        "mapping": {node["id"]: node for node in nodes},
        "current_node": "friday-answer",
        "conversation_id": id,
        "default_model_slug": "gpt-5",
        "id": id,
    }


_HERMES_SCHEMA = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, model TEXT, system_prompt TEXT, parent_session_id TEXT,
    started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, input_tokens INTEGER DEFAULT 0,
    output_tokens INTEGER DEFAULT 0, cache_read_tokens INTEGER DEFAULT 0, cache_write_tokens INTEGER DEFAULT 0,
    reasoning_tokens INTEGER DEFAULT 0, estimated_cost_usd REAL, actual_cost_usd REAL, title TEXT
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT,
    tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, finish_reason TEXT,
    reasoning_content TEXT, active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE session_model_usage (
    session_id TEXT NOT NULL, model TEXT NOT NULL, billing_provider TEXT NOT NULL DEFAULT '',
    billing_base_url TEXT NOT NULL DEFAULT '', billing_mode TEXT NOT NULL DEFAULT '', task TEXT NOT NULL DEFAULT '',
    input_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens INTEGER NOT NULL DEFAULT 0, cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens INTEGER NOT NULL DEFAULT 0, estimated_cost_usd REAL NOT NULL DEFAULT 0,
    actual_cost_usd REAL NOT NULL DEFAULT 0, last_seen REAL
);
"""
_HERMES_CALL = (
    '[{"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": "{\\"cmd\\": \\"ls\\"}"}}]'
)
# role, content, tool_call_id, tool_calls, tool_name, active, compacted
_HERMES_ROWS: list[tuple[Any, ...]] = [
    ("user", "List the rooms.", None, None, None, 0, 1),
    ("assistant", None, None, _HERMES_CALL, None, 0, 1),
    ("tool", "suite", "c1", None, "terminal", 0, 1),
    ("user", "[CONTEXT SUMMARY]: There is one room, the suite.", None, None, None, 1, 0),
    ("assistant", "One: the suite.", None, None, None, 1, 0),
    ("user", "Book it for Monday.", None, None, None, 0, 0),
    ("assistant", "Booked for Monday.", None, None, None, 0, 0),
    ("user", '\0json:[{"type": "text", "text": "Book it for Friday."}]', None, None, None, 1, 0),
    ("assistant", "Booked for Friday.", None, None, None, 1, 0),
]


def write_hermes(path: Path) -> Path:
    with sqlite3.connect(path) as database:
        database.executescript(_HERMES_SCHEMA)
        database.execute(
            "INSERT INTO sessions (id, source, model, system_prompt, started_at, title)"
            " VALUES ('20260305_hermes', 'cli', 'opus', 'You run a hotel.', 1772704800.25, 'A room for Friday')"
        )
        for second, row in enumerate(_HERMES_ROWS):
            database.execute(
                "INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls, tool_name, active,"
                " compacted, timestamp) VALUES ('20260305_hermes', ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, 1772704801.25 + second),
            )
        database.execute(
            "INSERT INTO session_model_usage (session_id, model, input_tokens, cache_read_tokens, output_tokens,"
            " actual_cost_usd, last_seen) VALUES ('20260305_hermes', 'opus', 10, 90, 5, 0.25, 1772704900)"
        )
    database.close()
    return path


WRITERS: dict[str, Callable[[Path], Path]] = {
    "claude-code": lambda folder: write_lines(folder / "5d1f0a9e-claude.jsonl", CLAUDE),
    "codex": lambda folder: write_lines(folder / "rollout-0199-codex.jsonl", CODEX),
    "pi": lambda folder: write_lines(folder / "0f3e-pi.jsonl", PI),
    "chatgpt": lambda folder: write_lines(folder / "conversations.json", [json.dumps([chatgpt_conversation()])]),
    "hermes": lambda folder: write_hermes(folder / "state.db"),
}
SESSIONS = {
    "claude-code": "5d1f0a9e-claude",
    "codex": "0199-codex",
    "pi": "0f3e-pi",
    "chatgpt": "68aa-chatgpt",
    "hermes": "20260305_hermes",
}
