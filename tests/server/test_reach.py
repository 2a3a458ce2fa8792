"""A key that is restricted to a guest, against every operation that the OpenAPI document has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from frontdesk import Session, SessionKey, SessionManager
from frontdesk.server import ApiKeys, ServerSettings, create_app
from tests.server.live import UNLIMITED, live_server
from tests.waiting import PATIENCE

ANA, BEN = SessionKey("concierge", "web", "ana"), SessionKey("concierge", "web", "ben")
SECRET = "quokka"
PLACES = {"message_id": "m1", "label": "memory", "key": "entry", "compaction_id": "c", "number": "1", "id": "state"}
FOREIGN = ("ben", "plain", "missing", "@concierge:web:ben", "@clerk:web:ana")


@pytest.fixture
async def keys(tmp_path: Path) -> AsyncIterator[ApiKeys]:
    async with ApiKeys(f"sqlite:///{tmp_path}/keys.db") as keys:
        yield keys


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[SessionManager]:
    """A session of Ana, one of Ben and one of nobody, the last two with a secret in every place for text."""
    manager = SessionManager(f"sqlite:///{tmp_path}/shop.db").with_cached_prompt()
    manager.with_context("memory", scope="guest").with_context("house", scope="agent").with_context("own")
    async with manager:
        for session_id, key, text in (("ana", ANA, "tea"), ("ben", BEN, SECRET), ("plain", None, SECRET)):
            session = await manager.create(text, id=session_id, key=key, tags=[text], metadata={"a": text})
            for number in range(6):
                role = "assistant" if number % 2 else "user"
                await session.append({"id": f"m{number}", "role": role, "content": f"{text} {number}"})
            for label in ("memory", "own"):
                await session.replace_context_block(label, text)
            await session.add_compaction(text, "m0", "m1")
            await session.freeze_system_prompt()
        yield manager


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if path.startswith("/v1"):
                yield method.upper(), path, operation


def body_of(operation: dict[str, Any], document: dict[str, Any]) -> Any:
    """The smallest body that fits; None for an operation without one."""
    content = operation.get("requestBody", {}).get("content", {})
    return sample(content["application/json"]["schema"], document) if "application/json" in content else None


def sample(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    if "$ref" in schema:
        return sample(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    if "anyOf" in schema:
        return sample(schema["anyOf"][-1 if schema["anyOf"][-1].get("type") == "string" else 0], document)
    match schema.get("type"):
        case "object":
            required = schema.get("required", [])
            fields = {name: sample(schema["properties"][name], document) for name in required}
            return fields | ({"key": str(BEN)} if "key" in fields else {})
        case "array":
            return [sample(schema["items"], document)]
        case "string":
            return "m1"
        case "integer" | "number":
            return 1
        case "boolean":
            return True
    return {"role": "user", "content": "taken over"}


async def state_of(session: Session) -> Any:
    """Everything of a session that an operation could change."""
    info, turn = await session.info(), await session.turn_info()
    blocks, prompt = await session.context_blocks(), await session.prompt()
    messages = [message async for message in session.transcript()]
    return info, turn, blocks, prompt, messages, await session.compactions(), await session.leaves()


async def test_no_operation_of_the_document_reaches_another_guest(shop: SessionManager, keys: ApiKeys) -> None:
    app = create_app(shop, keys=keys, settings=UNLIMITED)
    document = app.openapi()
    secret = (await keys.create("ana's phone", role="admin", guest=ANA)).secret
    before = [await state_of(shop.session(each)) for each in ("ben", "plain")]
    names = {info.id async for info in shop.iterate()}
    transport = httpx.ASGITransport(app=app)
    headers = {"Authorization": f"Bearer {secret}"}
    tried = 0
    async with httpx.AsyncClient(transport=transport, base_url="http://desk", headers=headers) as client:
        for method, path, operation in operations(document):
            queries = {each["name"] for each in operation.get("parameters", []) if each["in"] == "query"}
            # An own session that the caller says to have resolved to another one is no way around.
            refs: list[tuple[str, dict[str, str]]] = [(each, {}) for each in FOREIGN]
            refs.append(("ana", {"Frontdesk-Session": "ben"}))
            for ref, more in refs if "{ref}" in path else refs[:1]:
                address = path.replace("{ref}", ref).replace("{name}", "update_context")
                for name, value in PLACES.items():
                    address = address.replace(f"{{{name}}}", value)
                given = {"query": SECRET, "session": "ben", "follow": "false", "after": "start", "holder": "h"}
                parameters = {name: value for name, value in given.items() if name in queries}
                response = await client.request(
                    method, address, params=parameters, json=body_of(operation, document), headers=more
                )
                where = (method, address, response.status_code, response.text)
                assert SECRET not in response.text, where
                if "{ref}" in path:
                    assert response.status_code in (403, 404), where
                    tried += 1
                else:
                    assert response.status_code < 500, where
    assert tried > 300
    assert [await state_of(shop.session(each)) for each in ("ben", "plain")] == before
    assert {info.id async for info in shop.iterate()} == names, "nothing was deleted, and nothing made for others"


@pytest.mark.parametrize("as_text", [False, True], ids=["object", "text"])
async def test_a_restricted_key_does_not_write_a_shared_block_with_a_tool(
    shop: SessionManager, keys: ApiKeys, as_text: bool
) -> None:
    secret = (await keys.create("ana's phone", role="write", guest=ANA)).secret
    async with (
        live_server(shop, keys=keys) as address,
        httpx.AsyncClient(base_url=address, headers={"X-Api-Key": secret}, timeout=PATIENCE) as client,
    ):

        async def write(label: str) -> httpx.Response:
            arguments: Any = {"label": label, "content": "Everything is free."}
            if as_text:
                arguments = f'{{"label": "{label}", "content": "Everything is free."}}'
            path = "v1/sessions/@concierge:web:ana/tools/update_context"
            return await client.post(path, json={"arguments": arguments})

        assert (await write("house")).status_code == 403
        assert (await shop.session("ana").context_block("house")).content == ""
        assert (await write("memory")).status_code == 200
        assert (await write("nothing")).json()["text"].startswith("Error: ")
    assert (await shop.session("ana").context_block("memory")).content == "Everything is free."


async def test_a_stream_of_events_ends_when_its_key_is_revoked(shop: SessionManager, keys: ApiKeys) -> None:
    made = await keys.create("ana's phone", guest=ANA)
    async with (
        live_server(shop, keys=keys, settings=ServerSettings(keep_alive=0.02)) as address,
        httpx.AsyncClient(base_url=address, headers={"X-Api-Key": made.secret}, timeout=PATIENCE) as client,
        client.stream("GET", "v1/events") as stream,
    ):
        lines = stream.aiter_lines()
        assert await anext(lines) == ":"
        await keys.revoke(made.key.id)
        await shop.append("ana", {"role": "user", "content": "after"})

        async def rest() -> list[str]:
            return [line async for line in lines if line not in (":", "")]

        assert await asyncio.wait_for(rest(), PATIENCE) == []
