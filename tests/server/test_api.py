"""The API over HTTP returns what Python returns, and does what Python does."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from frontdesk import SessionKey, SessionManager
from frontdesk.server.idempotency import NAME as ANSWERS
from frontdesk.server.idempotency import StoredAnswer
from tests.public_api.steps import say, user
from tests.server.live import live_server

ANA = SessionKey("concierge", "web", "ana")
STRANGE_IDS = ["a/b", "a%2Fb", "..", ".", "~x", "@x", "ü ?&#", "a\nb", "é" * 200]


def part(text: str) -> str:
    """An id as a part of a path."""
    return quote(f"~{text}" if text.startswith(("~", "@")) or not text.strip(".") else text, safe="")


def written(record: Any) -> Any:
    return json.loads(json.dumps(record.to_dict()))


async def test_reads_return_what_python_returns(manager: SessionManager, http: httpx.AsyncClient) -> None:
    await manager.create("Trip", id="chat", key=ANA, tags=["vip"], metadata={"plan": 1})
    session = manager.session("chat")
    await say(session, "m1", "m2", "m3")
    await session.append(user("other"), parent="m2")
    made = await session.add_compaction("m1 in short", "m1", "m1")
    await manager.add_usage("chat", input_tokens=5, cost="0.25", model="large")
    expected = {
        "v1/sessions": await manager.list(),
        "v1/sessions?agent=concierge&tag=vip&order=created&limit=1": await manager.list(agent="concierge"),
        "v1/sessions/chat": await session.info(),
        "v1/sessions/@concierge:web:ana": await session.info(),
        "v1/sessions/chat/messages": await session.page(),
        "v1/sessions/chat/messages?leaf=m3&position=1&limit=1": await session.page(leaf="m3", position=1, limit=1),
        "v1/sessions/chat/view": await session.view(),
        "v1/sessions/chat/context-usage": await session.context_usage(),
        "v1/sessions/chat/blocks/soul": await session.context_block("soul"),
        "v1/search?query=short": await manager.search("short"),
        "v1/sessions/chat/search?query=m2": await session.search("m2"),
        "v1/usage?by=model&by=day": await manager.usage(by=["model", "day"]),
        "v1/stats": await manager.stats(),
    }
    for path, record in expected.items():
        response = await http.get(path)
        assert response.status_code == 200, (path, response.text)
        assert response.json() == written(record), path
    history = await http.get("v1/sessions/chat/history?format=openai")
    assert history.json() == {"messages": await session.history(format="openai")}
    compactions = (await http.get("v1/sessions/chat/compactions")).json()
    assert compactions == {"items": [written(made)]}
    leaves = [written(message) for message in await session.leaves()]
    assert (await http.get("v1/sessions/chat/leaves")).json() == {"messages": leaves}
    assert (await http.get("v1/sessions/chat/path-length?leaf=m3")).json() == {"length": 3}
    whole = (await http.get("v1/sessions/chat/messages/m3")).json()
    assert (whole["raw"], whole["text"]) == (user("m3"), "m3")


async def test_the_server_says_when_compactions_start() -> None:
    manager = SessionManager("memory://").with_compaction(hard_ratio=0.6)
    async with manager, live_server(manager) as address, httpx.AsyncClient(base_url=address) as http:
        assert (await http.get("v1")).json()["compacts_at"] == 0.6


async def test_messages_are_appended_changed_and_deleted(manager: SessionManager, http: httpx.AsyncClient) -> None:
    first = await http.post("v1/sessions/chat/messages", json={"message": user("m1")})
    assert (first.status_code, first.json()["inserted"]) == (201, True)
    again = await http.post("v1/sessions/chat/messages", json={"message": user("m1")})
    assert (again.status_code, again.json()["inserted"]) == (200, False)
    batch = await http.post("v1/sessions/chat/messages/batch", json={"messages": [user("m2"), user("m3")]})
    assert [each["inserted"] for each in batch.json()["items"]] == [True, True]
    branch = await http.post("v1/sessions/chat/messages", json={"message": user("b"), "parent": "m1"})
    assert branch.json()["message"]["parent_id"] == "m1"
    root = await http.post("v1/sessions/chat/messages", json={"message": user("r"), "parent": None})
    assert root.json()["message"]["parent_id"] is None
    moved = await http.post("v1/sessions/chat/messages", json={"message": user("x"), "expected_head": "m3"})
    assert (moved.status_code, moved.json()["code"]) == (409, "head_moved")
    assert moved.json()["details"] == {"expected": "m3", "head": "r", "session_id": "chat"}
    switched = await http.put("v1/sessions/chat/head", json={"leaf": "m3"})
    assert switched.json()["message"]["id"] == "m3"
    changed = await http.put("v1/sessions/chat/messages/m2", json={"message": user("m2", "new text")})
    assert (changed.json()["inserted"], changed.json()["message"]["content"]) == (False, "new text")
    assert (await http.delete("v1/sessions/chat/messages/m2")).json() == {"deleted": 1}
    assert [message.id for message in await manager.history("chat")] == ["m1", "m3"]
    item = {"message": [1, {"a": None}], "role": "tool", "text": "t"}
    opaque = await http.post("v1/sessions/chat/messages", json=item)
    stored = await manager.session("chat").get_message(opaque.json()["message"]["id"])
    assert (stored.raw, stored.text) == ([1, {"a": None}], "t")


@pytest.mark.parametrize("strange", STRANGE_IDS)
async def test_ids_may_contain_anything(manager: SessionManager, http: httpx.AsyncClient, strange: str) -> None:
    path = f"v1/sessions/{part(strange)}/messages"
    response = await http.post(path, json={"message": user(strange, "hello")})
    assert response.status_code == 201, response.text
    assert (await manager.session(strange).get_message(strange)).text == "hello"
    found = await http.get(f"{path}/{part(strange)}")
    assert found.json()["message"]["id"] == strange
    assert (await http.get(f"v1/sessions/{part(strange)}")).json()["id"] == strange


async def test_a_transcript_is_streamed_as_lines(manager: SessionManager, http: httpx.AsyncClient) -> None:
    session = manager.session("chat")
    await say(session, *(f"m{number}" for number in range(3000)))
    response = await http.get("v1/sessions/chat/transcript?after=m10&raw=true")
    assert response.headers["content-type"].startswith("application/x-ndjson")
    found = [json.loads(line) for line in response.text.splitlines()]
    assert [each["id"] for each in found] == [f"m{number}" for number in range(11, 3000)]
    assert found[0]["raw"] == user("m11")
    missing = await http.get("v1/sessions/chat/transcript?after=nowhere")
    assert (missing.status_code, missing.json()["code"]) == (404, "message_not_found")


async def test_long_texts_are_cut_on_request(manager: SessionManager, http: httpx.AsyncClient) -> None:
    await manager.append("chat", user("m1", "x" * 50_000))
    await manager.append("chat", user("m2", "short"))
    page = (await http.get("v1/sessions/chat/messages?max_content=20000")).json()
    first, second = page["entries"]
    assert (len(first["message"]["content"]), first["cut"]) == (20_000, 50_002)
    assert (second["message"]["content"], second["cut"]) == ("short", None)


async def test_blocks_have_etags(manager: SessionManager, http: httpx.AsyncClient) -> None:
    path = "v1/sessions/@concierge:web:ana/blocks/memory"
    first = await http.put(path, json={"text": "Likes tea.", "author": "lena"})
    assert (first.status_code, first.headers["etag"]) == (200, '"1"')
    second = await http.put(path, json={"text": "Likes coffee."}, headers={"If-Match": '"1"'})
    assert second.headers["etag"] == '"2"'
    late = await http.put(path, json={"text": "Likes water."}, headers={"If-Match": '"1"'})
    assert (late.status_code, late.json()["code"]) == (412, "block_version")
    assert late.json()["details"] == {"label": "memory", "expected": 1, "version": 2}
    assert (await http.get(path)).json()["content"] == "Likes coffee."
    versions = (await http.get(f"{path}/versions")).json()["items"]
    assert [(each["version"], each["author"]) for each in versions] == [(2, None), (1, "lena")]
    restored = await http.post(f"{path}/restore", json={"version": 1})
    assert (restored.json()["content"], restored.json()["version"]) == ("Likes tea.", 3)
    refused = await http.put("v1/sessions/chat/blocks/soul", json={"text": "no"})
    assert (refused.status_code, refused.json()["code"]) == (403, "readonly_block")


async def test_states_have_etags(http: httpx.AsyncClient) -> None:
    path = "v1/states/carts/ana"
    assert (await http.get(path)).json()["code"] == "state_not_found"
    made = await http.put(path, json={"value": {"items": [1]}, "ttl": None}, headers={"If-None-Match": "*"})
    assert (made.status_code, made.json()["expires_at"]) == (200, None)
    again = await http.put(path, json={"value": {"items": []}}, headers={"If-None-Match": "*"})
    assert (again.status_code, again.json()["code"]) == (412, "state_version")
    read = await http.get(path)
    seen = {"If-Match": read.headers["etag"]}
    assert read.json()["value"] == {"items": [1]}
    assert (await http.put(path, json={"value": {"items": [1, 2]}}, headers=seen)).status_code == 200
    late = await http.put(path, json={"value": {"items": []}}, headers=seen)
    assert (late.status_code, late.json()["details"]["version"]) == (412, 2)
    assert [each["id"] for each in (await http.get("v1/states/carts")).json()["items"]] == ["ana"]
    assert (await http.delete(path)).json() == {"deleted": True}
    await http.put(path, json={"value": {"items": ["another"]}})  # its version is 1 again
    other = await http.put(path, json={"value": {"items": []}}, headers=seen)
    assert other.status_code == 412
    assert (await http.get(path)).json()["value"] == {"items": ["another"]}


async def test_a_state_is_deleted_only_in_the_version_that_if_match_names(http: httpx.AsyncClient) -> None:
    path = "v1/states/carts/ana"
    await http.put(path, json={"value": {"items": [1]}})
    seen = {"If-Match": (await http.get(path)).headers["etag"]}
    await http.put(path, json={"value": {"items": [1, 2]}})
    late = await http.delete(path, headers=seen)
    assert (late.status_code, late.json()["code"], late.json()["details"]["version"]) == (412, "state_version", 2)
    assert (await http.get(path)).json()["value"] == {"items": [1, 2]}
    now = {"If-Match": (await http.get(path)).headers["etag"]}
    assert (await http.delete(path, headers=now)).json() == {"deleted": True}
    gone = await http.delete(path, headers=now)
    assert (gone.status_code, gone.json()["details"]["version"]) == (412, 0)


async def test_the_same_idempotency_key_does_it_once(manager: SessionManager, http: httpx.AsyncClient) -> None:
    body = {"message": {"role": "user", "content": "no id of its own"}}
    headers = {"Idempotency-Key": "k1"}
    first = await http.post("v1/sessions/chat/messages", json=body, headers=headers)
    again = await http.post("v1/sessions/chat/messages", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert (again.json(), again.headers["idempotency-replayed"]) == (first.json(), "true")
    assert (await manager.session("chat").info()).message_count == 1
    other = await http.post("v1/sessions/other/messages", json=body, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    # a refusal is repeated, too: the caller learns the same thing
    taken = {"Idempotency-Key": "k2"}
    await manager.create(id="taken")
    for _ in range(2):
        response = await http.post("v1/sessions", json={"id": "taken"}, headers=taken)
        assert (response.status_code, response.json()["code"]) == (409, "session_exists")


async def test_a_kept_answer_cannot_be_read_in_the_store_and_is_erased_with_its_guest(
    manager: SessionManager, http: httpx.AsyncClient
) -> None:
    path, body = "v1/sessions/@concierge:web:ana/messages", {"message": {"role": "user", "content": "quokka"}}
    headers = {"Idempotency-Key": "first"}
    first = await http.post(path, json=body, headers=headers)
    again = await http.post(path, json=body, headers=headers)
    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    answers = manager.states(StoredAnswer, name=ANSWERS)
    [kept] = [await answers.get(info.id) for info in await answers.list()]
    assert kept is not None
    assert b"quokka" not in b64decode(kept.body)
    await manager.erase(key=SessionKey("concierge", "web", "ana"))
    assert await answers.count() == 0


async def test_errors_are_problem_documents(http: httpx.AsyncClient) -> None:
    response = await http.get("v1/sessions/nobody")
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document.pop("detail").startswith("no session 'nobody'")
    assert document.pop("request_id") == response.headers["x-request-id"]
    assert document == {
        "type": "urn:frontdesk:error:session_not_found",
        "title": "SessionNotFoundError",
        "status": 404,
        "code": "session_not_found",
        "outcome": "refused",
        "details": {"session_id": "nobody", "namespace": "default"},
    }
    for path, status, code in (
        ("v1/nothing", 404, "not_found"),
        ("v1/sessions?agnet=a", 400, "invalid_input"),
        ("v1/sessions?limit=0", 400, "invalid_input"),
        ("v1/sessions?limit=none", 400, "invalid_input"),
        ("v1/sessions?cursor=x", 400, "invalid_cursor"),
        ("v1/sessions/@nokey", 400, "invalid_key"),
        ("v1/sessions/%ff", 400, "invalid_input"),
    ):
        response = await http.get(path)
        assert (response.status_code, response.json()["code"]) == (status, code), path
    deep = await http.post("v1/sessions", content="[" * 100_000, headers={"Content-Type": "application/json"})
    assert (deep.status_code, deep.json()["code"]) == (400, "invalid_input")
    for sent, problem in (
        ('{"name": x}', "this is not JSON, from character 9 on"),
        ("", "a JSON object is expected, with Content-Type: application/json"),
        ("[1]", "a JSON object is expected, with Content-Type: application/json"),
    ):
        unread = await http.post("v1/sessions/a/messages", content=sent, headers={"Content-Type": "application/json"})
        assert unread.headers["content-type"] == "application/problem+json"
        assert (unread.status_code, unread.json()["code"]) == (400, "invalid_input")
        assert unread.json()["details"]["errors"] == [{"where": "body", "problem": problem}]
    wrong = await http.post("v1/sessions", json={"nmae": "x"})
    assert wrong.json()["details"]["errors"] == [{"where": "body.nmae", "problem": "Extra inputs are not permitted"}]


async def test_a_busy_session_is_followed_by_another_only_in_its_turn(
    manager: SessionManager, http: httpx.AsyncClient
) -> None:
    await manager.append(ANA, user("m1"))
    async with manager.session(ANA).turn() as turn:
        for path, body in (
            ("v1/sessions/@concierge:web:ana/split", {"summary": "short"}),
            ("v1/new", {"key": str(ANA)}),
        ):
            for busy in ({"on_busy": "reject"}, {"wait": 0}):
                refused = await http.post(path, json={**body, **busy})
                assert (refused.status_code, refused.json()["code"]) == (409, "turn_busy")
    split = await http.post("v1/sessions/@concierge:web:ana/split", json={"summary": "short", "name": "Part two"})
    assert (split.status_code, split.json()["name"], split.json()["parent_session_id"]) == (201, "Part two", turn.id)
    assert [message.text for message in await manager.session(ANA).history()] == ["short"]
    fresh = await http.post("v1/new", json={"key": str(ANA)})
    assert fresh.status_code == 201
    assert (await manager.session(split.json()["id"]).info()).end_reason == "new"
