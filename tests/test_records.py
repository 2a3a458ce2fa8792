"""Public values are frozen dataclasses that json, dataclasses and pydantic can write, all in the same way."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

import frontdesk
from frontdesk import (
    Absence,
    Appended,
    BlockKind,
    BlockVersion,
    CheckProblem,
    CheckReport,
    Compaction,
    CompactionResult,
    ContextBlock,
    ContextBreakdown,
    ContextPart,
    ContextUsage,
    Conversion,
    CopyReport,
    DataPart,
    EndReason,
    ErasureReport,
    Event,
    FilePart,
    GrowthDay,
    ImportProblem,
    ImportReport,
    Loss,
    Message,
    NewMessage,
    OrchestrationState,
    Outline,
    OutlineCompaction,
    OutlineFork,
    OutlineRun,
    Page,
    Part,
    PathEntry,
    PathPage,
    Prompt,
    PromptBlock,
    ReasoningPart,
    RecoveryReport,
    SearchHit,
    SearchInfo,
    SearchResults,
    SessionInfo,
    SessionKey,
    SessionManager,
    SessionStatus,
    StateInfo,
    Stats,
    SweepReport,
    TextPart,
    Timeline,
    TimelineCompaction,
    TimelinePoint,
    ToolCallPart,
    ToolResultPart,
    TranscriptProblem,
    TranscriptReport,
    TurnInfo,
    Usage,
    UsageEntry,
    UsageGroup,
    ViewItem,
    ViewPage,
)
from frontdesk.record import Record

NOW = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
NOW_TEXT = "2026-02-03T04:05:06.000789Z"
KEY = SessionKey("concierge", "web", "ana")
MESSAGE = Message(
    "m1", "assistant", [TextPart("a"), ToolCallPart("c", "look", {"q": 1})], created_at=NOW, metadata={"n": [1]}
)
WRITTEN_MESSAGE = {
    "id": "m1",
    "role": "assistant",
    "content": [
        {"type": "text", "text": "a"},
        {"type": "tool-call", "id": "c", "name": "look", "arguments": {"q": 1}},
    ],
    "author": None,
    "metadata": {"n": [1]},
    "created_at": NOW_TEXT,
    "parent_id": None,
    "tokens": MESSAGE.tokens,
}
HIT = SearchHit("s", "m1", "user", 1.5, "**a**", NOW, key=KEY, context_before=(MESSAGE,))
DAY = UsageGroup(date(2026, 2, 3), None, "concierge", None, None, "m", 1, 2, 3, 4, 5, Decimal("0.10"))
INFO = SessionInfo(
    id="s",
    namespace="shop",
    key=KEY,
    name="Ana",
    status=SessionStatus.ARCHIVED,
    end_reason=EndReason.NEW,
    parent_session_id=None,
    model="m",
    source=None,
    tags=("a", "b"),
    metadata={"plan": {"free": True}},
    summary=None,
    message_count=3,
    token_count=25,
    prompt_tokens=5,
    max_tokens=100,
    token_usage=0.25,
    window_usage=0.3,
    input_tokens=1,
    output_tokens=2,
    cost=Decimal("0.5"),
    compaction_count=0,
    branch_count=1,
    turn_since=None,
    compacting_since=None,
    created_at=NOW,
    updated_at=NOW,
    last_active_at=NOW,
    compacted_at=None,
    ended_at=NOW,
)
ENTRY = PathEntry(3, MESSAGE, "o", ("m1", "m2"))
ITEM = ViewItem("summary", 3, MESSAGE, 5, 50, "o", 7)
MISSING = Absence("summary", 7, 45, "o", 3, 9)
CALL = UsageEntry("u", NOW, "m", 1, 2, 3, 4, 5, Decimal("0.10"))
PART = ContextPart("user", 3, 30)
BLOCK = PromptBlock("memory", None, "writable", "guest", 3, 100, 2, 1, True)
RUN = OutlineRun(None, "m1", "m9", 0, 9, 90, NOW, NOW, "user", "a", True, True)
COVERED = OutlineCompaction("o", "summary", 0, 1, 3, 3, 30, NOW, ("p",), True, False)
FORK = OutlineFork("f", "Fork", "m9", 0, 8, NOW)
POINT = TimelinePoint(3, NOW, 30, Decimal("0.1"))
CUT = TimelineCompaction("o", "summary", NOW, 3, 1, 2, 30, 12)
EXAMPLES: list[Record] = [
    CALL,
    PART,
    BLOCK,
    RUN,
    COVERED,
    FORK,
    POINT,
    CUT,
    ContextBreakdown(30, 100, 0.3, 80, 50, (PART,), NOW, (BLOCK,), 3, 30, 2, CALL),
    Outline("m9", None, None, (RUN,), (COVERED,), (FORK,)),
    Prompt("text", 3, NOW, {"memory": 1}),
    Timeline(9, 100, 80, (POINT,), (CUT,)),
    TurnInfo("host", 1, NOW, NOW, ("other",)),
    MISSING,
    Appended(MESSAGE, True),
    BlockVersion(2, "text", "agent", NOW),
    Compaction("o", "summary", "text", "m1", "m9", NOW, 12, False, {"attempts": 1}),
    CompactionResult("o", None, "m1", "m9", 9, 3, 900, 90, 810, 1.5, 1, {"input_tokens": 7}),
    ContextBlock("memory", "text", None, 3, 100, BlockKind.WRITABLE, "session", 1),
    ContextUsage(30, 100, 0.3),
    Conversion([{"role": "user", "content": "hi"}], (Loss("m1", "metadata"),)),
    Loss("m1", "reasoning", 2),
    DataPart("weather", {"degrees": 21}),
    ErasureReport(sessions=1, messages=2),
    CopyReport(1, 2, 3),
    CheckProblem("counter", "s", "wrong"),
    CheckReport(sessions=1, messages=2, problems=(CheckProblem("head", "s", "gone", True),), problems_total=1),
    TranscriptProblem("a.jsonl", 3, "no"),
    TranscriptReport(
        dry_run=False,
        files=1,
        sessions=1,
        messages=2,
        known=0,
        compactions=1,
        usage_entries=2,
        skipped={"progress": 3},
        problems=(TranscriptProblem("a.jsonl", 3, "no"),),
        problems_total=1,
    ),
    ImportProblem(3, "no"),
    ImportReport(
        dry_run=False,
        lines=9,
        sessions=1,
        messages=2,
        skipped=0,
        documents=0,
        states=0,
        problems=(ImportProblem(3, "no"),),
        problems_total=1,
    ),
    Event("p", NOW, "message.appended", "s", "m1", {"role": "user"}),
    FilePart("image/png", url="https://example.org/a.png"),
    GrowthDay(date(2026, 2, 3), 1, 2),
    INFO,
    OrchestrationState("s", tool_log=("a", "b"), last_accessed_at=NOW),
    Page([INFO], "next"),
    ENTRY,
    PathPage("m9", 3, 10, (ENTRY,)),
    ReasoningPart("hm"),
    RecoveryReport(1, ("s",)),
    HIT,
    SearchInfo("lexical", "english", True, 10, 0, NOW, False, "1"),
    SearchResults((HIT,), 1, None),
    KEY,
    StateInfo("i", "sessions", 1, NOW, NOW, None, KEY, 1),
    Stats(1, {"active": 1}, 3, 1, 2, Decimal(3), 30, 4096, (GrowthDay(date(2026, 2, 3), 1, 2),)),
    SweepReport(ran=True, archived=2),
    NewMessage({"any": [1]}, "m1", "user", "text"),
    TextPart("a"),
    ToolCallPart("c", "look", {"q": [1, None]}),
    ToolResultPart("c", "42", is_error=True),
    Usage((DAY,), DAY),
    DAY,
    ITEM,
    ViewPage("m9", 0, 1, 5, (ITEM,), (MISSING,)),
]

examples = pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)


def adapter(record: Record) -> TypeAdapter[Any]:
    return TypeAdapter(Page[SessionInfo] if isinstance(record, Page) else type(record))


def test_every_public_value_is_an_example_here() -> None:
    public: list[Any] = [getattr(frontdesk, name) for name in frontdesk.__all__]
    dataclass_types = {kind for kind in public if isinstance(kind, type) and dataclasses.is_dataclass(kind)}
    values = {kind for kind in dataclass_types if not issubclass(kind, Exception) and kind is not frontdesk.Tool}
    assert {kind.__name__ for kind in values} == {type(record).__name__ for record in EXAMPLES}


@examples
def test_a_record_is_a_frozen_dataclass_with_slots(record: Any) -> None:
    field = dataclasses.fields(record)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, field, None)
    assert not hasattr(record, "__dict__")
    assert dataclasses.replace(record) == record
    assert copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == record


@examples
def test_a_record_can_be_written_as_json(record: Record) -> None:
    written = record.to_dict()
    assert json.loads(json.dumps(written)) == written
    if not isinstance(record, Part):
        assert list(written) == [field.name for field in dataclasses.fields(record)]  # type: ignore[arg-type]


@examples
def test_pydantic_writes_a_record_as_we_do(record: Record) -> None:
    assert json.loads(adapter(record).dump_json(record)) == record.to_dict()


@examples
def test_pydantic_reads_what_asdict_makes_of_a_record(record: Any) -> None:
    assert adapter(record).validate_python(dataclasses.asdict(record)) == record


@examples
def test_pydantic_can_describe_a_record(record: Record) -> None:
    for mode in ("serialization", "validation"):
        assert adapter(record).json_schema(mode=mode)["type"] == "object"


def test_values_are_written_in_their_usual_forms() -> None:
    written = INFO.to_dict()
    assert written["key"] == {"agent": "concierge", "channel": "web", "peer": "ana", "thread": None}
    assert (written["status"], written["end_reason"], written["tags"]) == ("archived", "new", ["a", "b"])
    assert (written["cost"], written["created_at"], written["compacted_at"]) == ("0.5", NOW_TEXT, None)
    assert DAY.to_dict()["day"] == "2026-02-03"


def test_parts_are_written_as_blocks_of_our_own_format() -> None:
    parts = [record for record in EXAMPLES if isinstance(record, Part)]
    assert {part.to_dict()["type"] for part in parts} == {
        "text",
        "reasoning",
        "tool-call",
        "tool-result",
        "file",
        "data",
    }
    for part in parts:
        assert Message(None, "user", [part.to_dict()]).parts == (part,)


def test_a_message_is_written_in_our_own_format_wherever_it_is() -> None:
    assert MESSAGE.to_dict() == WRITTEN_MESSAGE
    assert Appended(MESSAGE, True).to_dict()["message"] == WRITTEN_MESSAGE
    assert HIT.to_dict()["context_before"] == [WRITTEN_MESSAGE]
    assert json.loads(TypeAdapter(list[Message]).dump_json([MESSAGE])) == [WRITTEN_MESSAGE]


async def test_a_message_of_another_format_is_written_in_ours() -> None:
    async with SessionManager("memory://") as manager:
        session = manager.session("s")
        await session.append({"role": "user", "content": "hi", "name": "ana"})
        await session.append({"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"q": 1}'})
        first, second = await session.history()
    assert (first.to_dict()["content"], first.to_dict()["author"]) == ("hi", "ana")
    assert second.to_dict()["role"] == "assistant"
    assert second.to_dict()["content"] == [{"type": "tool-call", "id": "c", "name": "look", "arguments": {"q": 1}}]
    assert second.to_dict()["parent_id"] == first.id


def test_pydantic_reads_a_message_from_any_known_format() -> None:
    message = TypeAdapter(Message).validate_json('{"role": "tool", "tool_call_id": "c", "content": "42"}')
    assert message.parts == (ToolResultPart("c", "42"),)
    assert TypeAdapter(Message).validate_python(message) is message
    again = TypeAdapter(Message).validate_python(MESSAGE.to_dict())
    assert (again.id, again.parts, again.created_at) == (MESSAGE.id, MESSAGE.parts, MESSAGE.created_at)
    with pytest.raises(ValidationError, match="role is missing"):
        TypeAdapter(Message).validate_python({"content": "hi"})


def test_pages_and_search_results_are_sequences() -> None:
    page, results = Page([1, 2], None), SearchResults((HIT, HIT), 2, None)
    assert (list(page), len(page)) == ([1, 2], 2)
    assert (list(results), results[0], results[1:], len(results)) == ([HIT, HIT], HIT, (HIT,), 2)
