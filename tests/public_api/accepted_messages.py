"""What can be appended: opaque items of frameworks, objects of provider SDKs, and all that `json.dumps` takes."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from enum import Enum, IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import anthropic.types
import openai.types.chat
import openai.types.responses
import pydantic
import pytest

from frontdesk import InvalidIdError, InvalidMessageError, NewMessage, Session, SessionManager
from tests.public_api.steps import ids, path, user


class Role(StrEnum):
    USER = "user"


class Kind(str, Enum):  # noqa: UP042 (the older spelling prints differently)
    TEXT = "text"


class Level(IntEnum):
    HIGH = 3


class Name(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Pair(NamedTuple):
    left: int
    right: str


OPAQUE: list[Any] = [
    {"__enc__": "gAAAAA", "v": 1},
    {"type": "foo"},
    {"id": 7, "content": {"nested": [1, None, {"deep": True}]}},
    {"role": 5, "created_at": "yesterday"},
    {"content": "said"},
    {"role": "user", "content": {"x": "y"}},
    {"parts": 3, "tool_calls": "no"},
    {},
    [],
    ["a", {"text": "b"}, None],
    "a string",
    "",
    3,
    -1.5,
    True,
    None,
]

COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
            },
        }
    ],
}
ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"where": "here"}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 5},
}
RESPONSE_ITEMS: list[dict[str, Any]] = [
    {"id": "rs_1", "type": "reasoning", "summary": []},
    {
        "id": "msg_2",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
    },
    {"id": "fc_1", "type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
]


def response(output: list[dict[str, Any]]) -> openai.types.responses.Response:
    fields = {"id": "resp_1", "object": "response", "created_at": 1.0, "model": "gpt", "output": output}
    more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return openai.types.responses.Response.model_validate({**fields, **more})


class AcceptedMessageTests:
    # opaque items

    @pytest.mark.parametrize("item", OPAQUE, ids=repr)
    async def test_with_a_role_any_json_value_comes_back_exactly(self, session: Session, item: Any) -> None:
        appended = await session.append(item, role="user", id="i1")
        assert appended.inserted
        assert not (await session.append(item, role="user", id="i1")).inserted
        [message] = await session.history()
        assert (message.id, message.role) == ("i1", "user")
        assert (message.raw, type(message.raw)) == (item, type(item))
        assert (await session.history(format="raw")) == [item]
        assert (await session.get_message("i1")).raw == item
        assert (message.author, message.metadata) == (None, {})
        assert message.to_dict()["content"] == message.content == message.text

    @pytest.mark.parametrize("item", OPAQUE, ids=repr)
    async def test_an_item_is_rendered_as_its_text_or_as_nothing(self, session: Session, item: Any) -> None:
        await session.append(user("m1", "question"))
        await session.append(item, role="assistant", text="spoken")
        await session.append(item, role="assistant", text="")
        await session.append(user("m2", "thanks"))
        [message] = [message async for message in session.transcript(after="m1", limit=1)]
        assert (message.text, message.content) == ("spoken", "spoken")
        for format in ("openai", "openai-responses", "anthropic", "ui"):
            rendered = json.dumps(await session.history(format=format))
            assert "question" in rendered
            assert "thanks" in rendered
            assert rendered.count("spoken") == 1

    @pytest.mark.parametrize(
        ("item", "text"),
        [
            ("a string", "a string"),
            ({"content": "said"}, "said"),
            ({"content": {"text": "inside"}}, "inside"),
            ({"text": "here", "blob": "x"}, "here"),
            (["a", {"text": "b"}, None], "a\nb"),
            ({"__enc__": "gAAAAA"}, ""),
            (7, ""),
        ],
    )
    async def test_the_text_of_an_item_is_that_of_its_known_fields(
        self, session: Session, item: Any, text: str
    ) -> None:
        message = (await session.append(item, role="user")).message
        assert message.text == text

    async def test_a_given_text_is_what_is_searched_and_counted(
        self, manager: SessionManager, session: Session
    ) -> None:
        secret = {"role": "user", "content": "qqqq " * 500}
        given = (await session.append(secret, text="the lighthouse")).message
        plain = (await session.append(user("m2", "the lighthouse"))).message
        assert given.raw == secret
        assert (given.text, given.tokens) == ("the lighthouse", plain.tokens)
        assert {hit.message_id for hit in await session.search("lighthouse")} == {given.id, "m2"}
        assert len(await manager.search("qqqq")) == 0
        assert (await session.info()).token_count == 2 * plain.tokens
        other = manager.session("other")
        copied = (await other.append(given)).message
        assert (copied.text, copied.tokens, copied.raw) == ("the lighthouse", plain.tokens, secret)

    async def test_a_known_format_stays_known_with_another_id_role_or_text(self, session: Session) -> None:
        call = COMPLETION["choices"][0]["message"]  # type: ignore[index]
        await session.append(user("m1"))
        appended = await session.append(call, id="mine", role="assistant", text="looks around")
        assert appended.message.tool_call_ids == ("c1",)
        await session.append({"role": "tool", "tool_call_id": "c1", "content": "a wall"}, id="result")
        rendered = await session.history(format="openai")
        assert [message["role"] for message in rendered] == ["user", "assistant", "tool"]
        assert ids(await session.history()) == ["m1", "mine", "result"]

    async def test_id_role_and_text_override_those_of_a_message(self, manager: SessionManager) -> None:
        source, target = manager.session("a"), manager.session("b")
        message = (await source.append(user("m1", "hello"))).message
        copied = (await target.append(message, id="m2", role="assistant", text="bye")).message
        assert (copied.id, copied.role, copied.text, copied.raw) == ("m2", "assistant", "bye", message.raw)

    async def test_append_all_takes_items_with_their_ids_and_roles(self, session: Session) -> None:
        items: list[NewMessage | dict[str, Any]] = [
            NewMessage({"__enc__": "x"}, id="i1", role="user", text="hello"),
            user("m2"),
            NewMessage(["any"], role="assistant"),
        ]
        appended = await session.append_all(items)
        assert [each.message.raw for each in appended] == [{"__enc__": "x"}, user("m2"), ["any"]]
        assert [each.inserted for each in await session.append_all(items[:2])] == [False, False]

    async def test_an_item_can_be_updated_and_upserted(self, session: Session) -> None:
        await session.upsert(NewMessage(1, id="i1", role="user"))
        assert not (await session.upsert(NewMessage(2, id="i1", role="user"))).inserted
        assert (await session.update_message(NewMessage([3], id="i1", role="tool", text="three"))).text == "three"
        [message] = await session.history()
        assert (message.raw, message.role) == ([3], "tool")
        await session.update_message(NewMessage([3], id="i1", role="tool", text="four"))
        assert (await session.get_message("i1")).text == "four"

    async def test_items_go_through_forks_compactions_and_windows(
        self, manager: SessionManager, session: Session
    ) -> None:
        for n in range(6):
            await session.append({"n": n}, id=f"i{n}", role="user", text=f"number {n}")
        await session.add_compaction("sum", "i1", "i2")
        fork = await manager.fork("chat")
        await fork.append([7], id="i7", role="assistant")
        assert [message.raw for message in await fork.history(last=3)] == [{"n": 4}, {"n": 5}, [7]]
        assert len(await session.history(max_tokens=60)) > 0
        assert await path(fork) == ["i0", "i1", "i2", "i3", "i4", "i5", "i7"]

    async def test_what_cannot_be_stored_is_refused_with_what_to_do(self, session: Session) -> None:
        for bad, reason in (
            ("text", "pass `role=`"),
            ({"content": "x"}, "role is missing"),
            (response(RESPONSE_ITEMS), "append_all"),
        ):
            with pytest.raises(InvalidMessageError, match=reason):
                await session.append(bad)  # type: ignore[arg-type]
        with pytest.raises(InvalidMessageError, match="id is missing"):
            await session.update_message({"role": "user", "content": "x"})
        with pytest.raises(InvalidIdError, match="id="):
            await session.append({"id": 7, "role": "user", "content": "x"})
        appended = await session.append({"id": 7, "role": "user", "content": "x"}, id="seven")
        assert (appended.message.id, appended.message.raw["id"]) == ("seven", 7)
        summary = {"id": "frontdesk-summary:1", "role": "user", "content": "x"}
        for given in (summary, NewMessage(summary, role="user"), NewMessage(user("m"), id="frontdesk-summary:1")):
            with pytest.raises(InvalidMessageError, match="synthetic summary"):
                await session.append(given)
        wrong: list[dict[str, Any]] = [{"role": ""}, {"role": 5}, {"text": 5}, {"text": "\ud800"}, {"id": ""}]
        for options in wrong:
            with pytest.raises((InvalidMessageError, InvalidIdError)):
                await session.append(user("bad"), **options)
        assert len(await session.history()) == 1

    # values that are not plain JSON types

    async def test_everything_that_json_takes_is_taken(self, session: Session) -> None:
        given = {
            "role": Role.USER,
            "content": [{"type": Kind.TEXT, "text": Name("hello")}],
            "pair": Pair(1, "b"),
            "tuple": (1, (2, 3)),
            "level": Level.HIGH,
            "ordered": OrderedDict(a=1),
            "keys": {1: "a", None: "b", False: "c", 2.5: "d"},
        }
        message = (await session.append(given)).message
        assert message.raw == json.loads(json.dumps(given))
        assert (message.role, message.text) == ("user", "hello")
        [stored] = await session.history()
        assert stored.raw == message.raw
        assert type(stored.raw["role"]) is str

    async def test_mappings_inside_and_out_are_objects(self, session: Session) -> None:
        given: Mapping[str, Any] = MappingProxyType({"role": "user", "content": "hi", "x": MappingProxyType({"a": 1})})
        assert (await session.append(given)).message.raw == {"role": "user", "content": "hi", "x": {"a": 1}}

    async def test_string_enums_are_taken_as_id_role_and_text(self, session: Session) -> None:
        message = (await session.append([1], id=Name("i1"), role=Role.USER, text=Name("said"))).message
        assert (message.id, message.role, message.text) == ("i1", "user", "said")

    # objects of provider SDKs

    async def test_a_chat_completion_message_is_stored_as_the_provider_sent_it(self, session: Session) -> None:
        answer = openai.types.chat.ChatCompletion.model_validate(COMPLETION)
        for given in (answer.choices[0].message, answer):
            message = (await session.append(given)).message
            assert message.raw == COMPLETION["choices"][0]["message"]  # type: ignore[index]
            assert message.tool_call_ids == ("c1",)

    async def test_a_completion_with_several_choices_is_refused(self, session: Session) -> None:
        choices = COMPLETION["choices"] * 2  # type: ignore[operator]
        answer = openai.types.chat.ChatCompletion.model_validate({**COMPLETION, "choices": choices})
        with pytest.raises(InvalidMessageError, match="choices"):
            await session.append(answer)

    async def test_response_items_are_stored_as_the_provider_sent_them(self, session: Session) -> None:
        answer = response(RESPONSE_ITEMS)
        appended = await session.append_all(answer.output)
        assert [each.message.raw for each in appended] == RESPONSE_ITEMS
        assert [each.message.id for each in appended] == ["rs_1", "msg_2", "fc_1"]
        assert not any(each.inserted for each in await session.append_all(answer.output))

    async def test_an_anthropic_answer_and_its_blocks_are_stored_as_the_provider_sent_them(
        self, session: Session
    ) -> None:
        answer = anthropic.types.Message.model_validate(ANTHROPIC)
        message = (await session.append(answer)).message
        assert (message.raw, message.id) == (ANTHROPIC, "msg_1")
        assert message.tool_call_ids == ("t1",)
        given = {"id": "m2", "role": "assistant", "content": answer.content}
        again = (await session.append(given)).message
        assert again.raw == {"id": "m2", "role": "assistant", "content": ANTHROPIC["content"]}
        block = (await session.append(answer.content[0], role="assistant")).message
        assert (block.raw, block.text) == ({"type": "text", "text": "Let me look."}, "Let me look.")

    async def test_defaults_of_a_model_that_say_something_are_kept(self, session: Session) -> None:
        class Text(pydantic.BaseModel):
            type: str = "text"
            text: str
            note: str | None = None

        class Said(pydantic.BaseModel):
            role: str = "user"
            content: list[Text]
            name: str | None = None

        message = (await session.append(Said(content=[Text(text="hello")]))).message
        assert message.raw == {"role": "user", "content": [{"type": "text", "text": "hello"}]}
