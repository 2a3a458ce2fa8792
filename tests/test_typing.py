"""What an editor and a type checker know about the public API: mypy reads a program that uses it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[1]

PROGRAM = """
import anthropic
import frontdesk
import openai
from frontdesk import MessageFormat, SessionManager, SessionStatus, sync
from frontdesk.errors import SessionNotFoundError


async def use(manager: SessionManager, format: MessageFormat, maybe: MessageFormat | None) -> None:
    session = manager.session("s")
    reveal_type(await session.history())  # messages
    reveal_type(await session.history(format="anthropic", last=3))  # dicts
    reveal_type(await session.history(format=format))  # any format
    reveal_type(await session.history(format=maybe))  # any format or none
    reveal_type(await manager.history("s"))  # by id
    reveal_type(await manager.history("s", format="ui"))  # by id, dicts
    reveal_type(await session.append_all([]))  # appended
    reveal_type(await manager.append_all("s", []))  # appended by id
    reveal_type((await manager.list(status="idle")).items)  # sessions
    reveal_type(await session.search("tea"))  # results
    reveal_type((await session.search("tea"))[0].kind)  # kind of hit
    reveal_type(SessionNotFoundError("s", "n").session_id)  # id of an error
    async for info in manager.iterate(status=SessionStatus.ACTIVE, tag="vip"):
        reveal_type(info.status)  # status
    async with session.turn() as turn:
        reveal_type(turn)  # turn
    async with session.turn(on_busy="queue", message={"role": "user", "content": "hi"}) as maybe_turn:
        reveal_type(maybe_turn)  # turn or none

    chat, claude = openai.AsyncOpenAI(), anthropic.AsyncAnthropic()
    reveal_type(await chat.chat.completions.create(model="m", **await session.prepare("openai")))  # chat answer
    reveal_type(await chat.responses.create(model="m", **await session.prepare("openai-responses")))  # response
    reveal_type(await claude.messages.create(model="m", max_tokens=9, **await session.prepare("anthropic")))  # answer

    await session.prepare("ui")  # not a provider
    await session.history(format="klingon")  # wrong format
    await manager.history("s", format="klingon")  # wrong format by id
    await manager.list(status="asleep")  # wrong status
    manager.iterate(statsu="idle")  # wrong filter
    manager.iterate(limit="all")  # wrong type of a filter
    session.turn(on_busy="hope")  # wrong on_busy
    SessionNotFoundError("s")  # missing id


def use_sync(manager: sync.SessionManager) -> None:
    session = manager.session("s")
    reveal_type(session.history())  # sync messages
    reveal_type(session.history(format="openai"))  # sync dicts
    request = session.prepare("openai", notes="system")
    reveal_type(openai.OpenAI().chat.completions.create(model="m", **request))  # sync chat answer
    reveal_type([info.name for info in manager.iterate(status="idle")])  # sync names
    session.history(format="klingon")  # sync wrong format
"""

REVEALED = {
    "messages": "list[Message]",
    "dicts": "list[dict[str, Any]]",
    "any format": "list[dict[str, Any]]",
    "any format or none": "list[dict[str, Any]] | list[Message]",
    "by id": "list[Message]",
    "by id, dicts": "list[dict[str, Any]]",
    "appended": "list[Appended]",
    "appended by id": "list[Appended]",
    "sessions": "list[SessionInfo]",
    "results": "SearchResults",
    "kind of hit": "Literal['message'] | Literal['summary'] | Literal['session']",
    "id of an error": "str",
    "status": "SessionStatus",
    "turn": "Turn",
    "turn or none": "Turn | None",
    "chat answer": "openai.types.chat.chat_completion.ChatCompletion",
    "response": "openai.types.responses.response.Response",
    "answer": "anthropic.types.message.Message",
    "sync messages": "list[Message]",
    "sync chat answer": "openai.types.chat.chat_completion.ChatCompletion",
    "sync dicts": "list[dict[str, Any]]",
    "sync names": "list[str]",
}
REFUSED = {
    "not a provider": "call-overload",
    "wrong format": "call-overload",
    "wrong format by id": "call-overload",
    "wrong status": "arg-type",
    "wrong filter": "call-arg",
    "wrong type of a filter": "arg-type",
    "wrong on_busy": "call-overload",
    "missing id": "call-arg",
    "sync wrong format": "call-overload",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy reports for each line, by the comment on it."""
    path = tmp_path_factory.mktemp("typing") / "program.py"
    path.write_text(PROGRAM)
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".cache" / "mypy")]
    output, errors, _ = api.run([*config, "--no-error-summary", str(path)])
    assert not errors
    comments = {number: line.partition("  # ")[2] for number, line in enumerate(PROGRAM.splitlines(), 1)}
    said: dict[str, list[str]] = {comment: [] for comment in comments.values()}
    # With a warm cache, mypy reports the same program under the path that it had in an earlier run.
    for number, text in re.findall(rf"{path.name}:(\d+): (.*)", output):
        said[comments[int(number)]].append(text)
    return said


@pytest.mark.parametrize(("what", "expected"), REVEALED.items())
def test_the_type_of_a_result_is_known(said: dict[str, list[str]], what: str, expected: str) -> None:
    (text,) = said[what]
    revealed = text.removeprefix('note: Revealed type is "').removesuffix('"')
    assert re.sub(r"\b(?:builtins|typing|frontdesk(?:\.\w+)*)\.", "", revealed) == expected


@pytest.mark.parametrize(("what", "code"), REFUSED.items())
def test_a_wrong_argument_is_refused(said: dict[str, list[str]], what: str, code: str) -> None:
    assert [text for text in said[what] if text.endswith(f"[{code}]")]


def test_nothing_else_is_wrong(said: dict[str, list[str]]) -> None:
    assert {what for what, texts in said.items() if texts} == REVEALED.keys() | REFUSED.keys()
