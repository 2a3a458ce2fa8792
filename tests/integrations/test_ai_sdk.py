"""The endpoints of `frontdesk.integrations.ai_sdk`, used by the AI SDK itself, in Node."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request

from frontdesk import Session, SessionKey, SessionManager, Turn
from frontdesk.integrations.ai_sdk import Chunk, chat_routes, text_chunks
from frontdesk.integrations.ai_sdk_chunks import Seen, add_chunk, build_message
from scripts.build_page import node_folder
from tests.waiting import PATIENCE, eventually

HERE = Path(__file__).parent / "ai_sdk"
INSTALLED = Path(__file__).parents[2] / ".cache" / "ai-sdk"
HELLO = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}


@pytest.fixture(scope="module")
def node() -> Path:
    """Node, with the AI SDK installed as the lock file says."""
    lock = (HERE / "package-lock.json").read_bytes()
    found = node_folder() / "node"
    if not (INSTALLED / "package-lock.json").exists() or (INSTALLED / "package-lock.json").read_bytes() != lock:
        shutil.rmtree(INSTALLED, ignore_errors=True)
        shutil.copytree(HERE, INSTALLED)
        environment = {**os.environ, "PATH": f"{found.parent}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run(["npm", "ci", "--silent"], cwd=INSTALLED, env=environment, check=True, timeout=300)
    shutil.copy(HERE / "chat.mjs", INSTALLED / "chat.mjs")
    return found


class Model:
    """Answers with two words, the second only when it may go on."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()
        self.asked: list[str] = []

    async def texts(self) -> AsyncIterator[str]:
        yield "Good "
        await self.may_go_on.wait()
        yield "day!"

    def answer(self, turn: Turn) -> AsyncIterator[Chunk]:
        return self._answer(turn)

    async def _answer(self, turn: Turn) -> AsyncIterator[Chunk]:
        self.asked.append((await turn.history())[-1].text)
        async for chunk in text_chunks(self.texts()):
            yield chunk


@asynccontextmanager
async def served(manager: SessionManager, model: Model) -> AsyncIterator[str]:
    """The address of a chat application whose users are guests of an agent."""

    async def open_session(request: Request, chat_id: str) -> Session:
        if request.headers.get("x-user", "ana") != "ana":
            raise HTTPException(403)
        return manager.session(SessionKey("concierge", "web", "ana", chat_id))

    app = Starlette(routes=chat_routes(manager, open_session, model.answer))
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await eventually(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/api/chat"
    finally:
        server.should_exit = True
        await serving
        listener.close()


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[SessionManager]:
    async with SessionManager(f"sqlite:///{tmp_path}/chats.db") as manager:
        yield manager


class FrontEnd:
    """A process that uses the AI SDK."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, node: Path, *arguments: str) -> FrontEnd:
        process = await asyncio.create_subprocess_exec(
            str(node), "chat.mjs", *arguments, cwd=INSTALLED, stdout=asyncio.subprocess.PIPE
        )
        return cls(process)

    async def text(self, wanted: str) -> None:
        """Read until the text of the message is the wanted one."""
        while text_of(await self._line()) != wanted:
            pass

    async def cut_off(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def end(self) -> list[Any]:
        """All that is still printed."""
        async with asyncio.timeout(PATIENCE):
            printed, _ = await self._process.communicate()
        assert self._process.returncode == 0
        return [json.loads(line) for line in printed.splitlines()]

    async def _line(self) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await self._process.stdout.readline()
        assert line, "it has ended"
        return json.loads(line)


def text_of(message: Any) -> str:
    return "".join(part.get("text", "") for part in message.get("parts", [])) if isinstance(message, dict) else ""


async def test_an_answer_that_was_cut_off_is_resumed_and_stored_once(manager: SessionManager, node: Path) -> None:
    model = Model()
    async with served(manager, model) as api:
        first = await FrontEnd.start(node, api, "send", "trip", json.dumps(HELLO))
        await first.text("Good ")
        await first.cut_off()
        second = await FrontEnd.start(node, api, "resume", "trip")
        await second.text("Good ")
        model.may_go_on.set()
        *_, last, failures = await second.end()
        assert (text_of(last), failures) == ("Good day!", {"failures": []})
        session = manager.session(SessionKey("concierge", "web", "ana", "trip"))

        async def is_stored() -> bool:
            return await session.path_length() == 2

        await eventually(is_stored)
        asked, answered = await session.history()
        assert (asked.raw, answered.id, answered.text) == (HELLO, last["id"], "Good day!")
        assert await (await FrontEnd.start(node, api, "resume", "trip")).end() == [None]
        async with httpx2.AsyncClient() as http:
            loaded = (await http.get(f"{api}/trip")).json()
        assert loaded == [HELLO, last]


async def test_another_server_of_the_store_resumes_an_answer(
    manager: SessionManager, node: Path, tmp_path: Path
) -> None:
    model = Model()
    async with (
        SessionManager(f"sqlite:///{tmp_path}/chats.db") as other,
        served(manager, model) as api,
        served(other, Model()) as elsewhere,
    ):
        first = await FrontEnd.start(node, api, "send", "trip", json.dumps(HELLO))
        await first.text("Good ")
        await first.cut_off()
        second = await FrontEnd.start(node, elsewhere, "resume", "trip")
        await second.text("Good ")
        model.may_go_on.set()
        *_, last, failures = await second.end()
        assert (text_of(last), failures) == ("Good day!", {"failures": []})


async def test_another_answer_becomes_a_branch(manager: SessionManager, node: Path) -> None:
    model = Model()
    model.may_go_on.set()
    async with served(manager, model) as api:
        *_, first, _ = await (await FrontEnd.start(node, api, "send", "trip", json.dumps(HELLO))).end()
        *_, again, _ = await (await FrontEnd.start(node, api, "regenerate", "trip", first["id"])).end()
    session = manager.session(SessionKey("concierge", "web", "ana", "trip"))
    assert {message.id for message in await session.branches("u1")} == {first["id"], again["id"]}
    head = await session.head()
    assert head is not None
    assert head.id == again["id"]
    assert model.asked == ["Hello", "Hello"]


async def test_other_users_and_wrong_requests_are_refused(manager: SessionManager) -> None:
    async with served(manager, Model()) as api, httpx2.AsyncClient() as http:
        body = {"id": "trip", "messages": [HELLO], "trigger": "submit-message"}
        assert (await http.post(api, json=body, headers={"x-user": "ben"})).status_code == 403
        assert (await http.get(f"{api}/trip/stream", headers={"x-user": "ben"})).status_code == 403
        for wrong in (b"", b"{}", b'{"id": "trip", "messages": []}', b'{"id": "", "messages": [{}]}'):
            assert (await http.post(api, content=wrong)).status_code == 400, wrong
        missing = {**body, "messageId": "nobody"}
        assert (await http.post(api, json=missing)).status_code == 404
        assert (await http.get(f"{api}/trip/stream")).status_code == 204
        assert (await http.get(f"{api}/trip")).json() == []
    assert await manager.count() <= 1


def test_chunks_are_put_together_as_the_message_that_they_describe() -> None:
    chunks: list[dict[str, Any]] = []
    for chunk in (
        {"type": "start", "messageId": "a", "messageMetadata": {"model": "large"}},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": "Hm"},
        {"type": "reasoning-delta", "id": "r", "delta": "m."},
        {"type": "tool-input-start", "toolCallId": "c", "toolName": "look"},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "look", "input": {"at": 1}},
        {"type": "tool-output-available", "toolCallId": "c", "output": "seen"},
        {"type": "data-plan", "id": "p", "data": 1},
        {"type": "data-plan", "id": "p", "data": 2},
        {"type": "data-ping", "data": 0, "transient": True},
        {"type": "source-url", "sourceId": "s", "url": "https://example.org"},
        {"type": "unheard-of"},
    ):
        add_chunk(chunks, chunk)
    assert build_message("a", chunks) == {
        "id": "a",
        "role": "assistant",
        "metadata": {"model": "large"},
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "Hmm.", "state": "done"},
            {
                "type": "tool-look",
                "toolCallId": "c",
                "state": "output-available",
                "input": {"at": 1},
                "output": "seen",
            },
            {"type": "data-plan", "id": "p", "data": 2},
            {"type": "source-url", "sourceId": "s", "url": "https://example.org"},
        ],
    }


def test_a_reader_gets_each_delta_once_although_they_are_joined() -> None:
    chunks: list[dict[str, Any]] = []
    seen, read = Seen(), []
    for letter in "abcdef":
        add_chunk(chunks, {"type": "text-delta", "id": "t", "delta": letter})
        if letter in "bcf":
            read += [chunk["delta"] for chunk in seen.take_new(chunks)]
    assert (len(chunks), read) == (1, ["ab", "c", "def"])
