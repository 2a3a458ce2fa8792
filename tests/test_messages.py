"""Message, its ids, and what a message is made of."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from frontdesk.errors import InvalidIdError, InvalidMessageError
from frontdesk.messages import (
    SUMMARY_PREFIX,
    DataPart,
    FilePart,
    Message,
    Part,
    ReasoningPart,
    StoredMessage,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    check_id,
    ingest,
    new_id,
)
from frontdesk.messages.tokens import MESSAGE_TOKENS, estimate_tokens

EVERY_PART: list[Part] = [
    TextPart("hello"),
    ReasoningPart("hm", "sig"),
    ToolCallPart("c1", "look", {"n": 2**80}),
    ToolResultPart("c0", [1, None], "peek", is_error=True),
    FilePart("image/png", "cat.png", data="AAAA"),
    DataPart("weather", {"sun": True}),
]


def stored(raw: str, derived: str | None = None) -> StoredMessage:
    return StoredMessage("m1", "user", 7, 1_700_000_000_123_456, raw, derived)


def test_a_constructed_message_has_the_attributes_of_its_arguments() -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=2)))
    message = Message("m1", "user", "hi", created_at=when, author="ann", metadata={"k": 1})
    assert (message.id, message.role, message.content, message.text) == ("m1", "user", "hi", "hi")
    assert message.created_at == when
    assert message.created_at.tzinfo is UTC
    assert (message.author, message.metadata, message.parent_id) == ("ann", {"k": 1}, None)
    assert message.tokens == MESSAGE_TOKENS + estimate_tokens("hi")
    assert not message.is_summary


def test_every_kind_of_part_is_read_back_equal() -> None:
    message = Message("m1", "assistant", EVERY_PART)
    assert message.content == EVERY_PART
    assert message.parts == tuple(EVERY_PART)
    assert message.text == "hello"
    assert (message.tool_call_ids, message.tool_result_ids) == (("c1",), ("c0",))


def test_without_an_id_one_is_generated_and_raw_is_unchanged() -> None:
    message = Message(None, "user", "hi")
    assert uuid.UUID(message.id).version == 7
    assert message.raw == {"role": "user", "content": "hi"}


@pytest.mark.parametrize("content", [b"hi", 5, {"type": "text"}, {"a"}, True])
def test_content_that_is_neither_text_nor_parts_is_refused(content: Any) -> None:
    with pytest.raises(InvalidMessageError, match="content"):
        Message(None, "user", content)


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="time zone"):
        Message(None, "user", "hi", created_at=datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_message_is_frozen() -> None:
    message = Message("m1", "user", "hi")
    for name in ("id", "raw", "tokens", "something"):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(message, name, "x")
    with pytest.raises(AttributeError, match="frozen"):
        del message._stored
    assert not hasattr(message, "__dict__")


def test_messages_are_equal_by_what_is_stored_and_where() -> None:
    one = Message.from_stored(stored('{"role":"user","content":"hi"}'), "p")
    same = Message.from_stored(stored('{"role":"user","content":"hi"}'), "p")
    assert one == same
    assert hash(one) == hash(same)
    assert one != Message.from_stored(stored('{"role":"user","content":"ho"}'), "p")
    assert one != Message.from_stored(stored('{"role":"user","content":"hi"}'), "q")
    assert one != "m1"


def test_a_message_can_be_copied_and_pickled() -> None:
    message = Message("m1", "user", EVERY_PART)
    assert copy.copy(message) == message
    assert copy.deepcopy(message) == message
    assert pickle.loads(pickle.dumps(message)) == message


def test_a_stored_message_is_decoded_when_asked() -> None:
    message = Message.from_stored(
        stored('{"role":"user","content":[]}', '{"text":"t","calls":["a"],"results":["b"]}'), "p"
    )
    assert (message.text, message.tool_call_ids, message.tool_result_ids) == ("t", ("a",), ("b",))
    assert message.created_at == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert message.raw is message.raw


def test_repr_shows_no_more_than_a_line_of_the_conversation() -> None:
    shown = repr(Message("m1", "user", "secret " * 100))
    assert "m1" in shown
    assert len(shown) < 120


@pytest.mark.parametrize(
    ("raw", "author"),
    [
        ({"role": "user", "content": "x", "name": "ann"}, "ann"),
        ({"role": "user", "content": "x", "author": "bob", "name": "ann"}, "bob"),
        ({"role": "tool", "tool_call_id": "c", "content": "x", "name": "look"}, None),
        ({"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}, None),
        ({"role": "user", "content": "x", "author": {"id": 1}}, None),
    ],
)
def test_the_author_is_who_wrote_it_and_never_a_tool(raw: dict[str, object], author: str | None) -> None:
    assert Message.from_stored(ingest(raw, counter=len), None).author == author


def test_a_summary_message_is_marked_and_cannot_be_appended() -> None:
    summary = Message.summary("k1", "so far", 9, 1_000_000, "p")
    assert summary.is_summary
    assert summary.id == SUMMARY_PREFIX + "k1"
    assert (summary.role, summary.text, summary.tokens, summary.parent_id) == ("system", "so far", 9, "p")
    for given in (summary, summary.raw):
        with pytest.raises(InvalidMessageError, match="synthetic summary"):
            ingest(given, counter=len)


@pytest.mark.parametrize("id", ["a", "../../x", "a:b", "a%", "'; drop table", "🦊", "汉" * 500, "x" * 512, " ", "\n"])
def test_any_text_is_an_id(id: str) -> None:
    assert check_id(id) == id


@pytest.mark.parametrize(
    ("id", "reason"),
    [
        ("", "1 to 512 characters, not 0"),
        ("x" * 513, "not 513"),
        ("a\0b", "NUL"),
        ("a\ud800", "lone surrogate"),
        (5, "must be a string, not int"),
        (None, "must be a string, not NoneType"),
        (b"a", "must be a string, not bytes"),
    ],
)
def test_an_invalid_id_is_refused_with_its_name(id: object, reason: str) -> None:
    with pytest.raises(InvalidIdError, match=f"session id.*{reason}"):
        check_id(id, "session id")


def test_new_ids_are_uuid7_in_increasing_order() -> None:
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(set(ids))
    assert all(uuid.UUID(id).version == 7 and uuid.UUID(id).variant == uuid.RFC_4122 for id in ids[::100])
    milliseconds = uuid.UUID(ids[0]).int >> 80
    assert abs(milliseconds / 1000 - datetime.now(UTC).timestamp()) < 60


def test_new_ids_are_unique_across_threads() -> None:
    made: list[list[str]] = [[] for _ in range(8)]
    threads = [threading.Thread(target=lambda row=row: row.extend(new_id() for _ in range(2_000))) for row in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id for row in made for id in row}) == 16_000


def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    new_id()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, " ".join(new_id() for _ in range(100)).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        theirs = pipe.read().split()
    os.waitpid(child, 0)
    ours = [new_id() for _ in range(100)]
    assert len(theirs) == 100
    assert not {id[-17:] for id in theirs} & {id[-17:] for id in ours}
