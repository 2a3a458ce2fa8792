"""Keys, roles, bounds, limits and headers: what a caller without the right may not see or do."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from frontdesk import ConfigurationError, InvalidInputError, NotFoundError, SessionKey, SessionManager
from frontdesk.server import ApiKeys, NewApiKey, ServerSettings, create_app, serve
from frontdesk.server.limits import Buckets
from tests.server.live import live_server, running
from tests.waiting import PATIENCE, eventually

ANA, BEN = SessionKey("concierge", "web", "ana"), SessionKey("concierge", "web", "ben")
CLERK = SessionKey("clerk", "web", "ana")
SECRET = "Ben's PIN is quokka"

Connect = Callable[[str | None], httpx.AsyncClient]


@pytest.fixture
async def keys(tmp_path: Path) -> AsyncIterator[ApiKeys]:
    async with ApiKeys(f"sqlite:///{tmp_path}/desk.db") as keys:
        yield keys


@pytest.fixture
async def connect(manager: SessionManager, keys: ApiKeys) -> AsyncIterator[Connect]:
    """Makes clients of a server with keys; each sends a secret."""
    made: list[httpx.AsyncClient] = []
    async with live_server(manager, keys=keys) as address:

        def connect(secret: str | None) -> httpx.AsyncClient:
            headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
            made.append(httpx.AsyncClient(base_url=address, headers=headers, timeout=PATIENCE))
            return made[-1]

        yield connect
        for client in made:
            await client.aclose()


async def fill(manager: SessionManager) -> None:
    """Sessions of Ana and of Ben at one agent, of Ana at another, and one without a key."""
    for session_id, key in (("ana", ANA), ("ben", BEN), ("clerk", CLERK), ("plain", None)):
        session = await manager.create(f"{session_id}'s session", id=session_id, key=key, model="large")
        text = SECRET if session_id != "ana" else "Ana likes tea"
        await session.append({"id": "m1", "role": "user", "content": text})
        await session.append({"id": "m2", "role": "assistant", "content": "Noted."})
        await manager.add_usage(session_id, input_tokens=1000 if session_id == "ana" else 777_000_777, model="large")
        await session.replace_context_block("memory", text)


# keys


async def test_keys_are_made_listed_found_and_revoked(keys: ApiKeys) -> None:
    first = await keys.create("grafana", role="read")
    second = await keys.create("web", namespace="shop", role="write", guest=ANA)
    assert (second.key.agent, second.key.channel, second.key.peer) == ("concierge", "web", "ana")
    assert await keys.list() == [first.key, second.key]
    assert await keys.find(first.secret) == first.key
    for wrong in ("", "fd", first.secret[:-1], first.secret + "x", f"fd_{first.key.id}_", f"fd_{'0' * 16}_x", "fd_é_x"):
        assert await keys.find(wrong) is None
    await keys.revoke(first.key.id)
    assert await keys.find(first.secret) is None
    assert await keys.count() == 1
    with pytest.raises(NotFoundError):
        await keys.revoke(first.key.id)
    for options in ({"role": "owner"}, {"agent": "a", "guest": ANA}, {"namespace": ""}):
        with pytest.raises(InvalidInputError):
            await keys.create("x", **options)


async def test_the_store_contains_no_secret(keys: ApiKeys, tmp_path: Path) -> None:
    made = await keys.create("grafana")
    await keys.close()
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"grafana" in stored
    assert made.secret.rpartition("_")[2].encode() not in stored


async def test_without_a_valid_key_nothing_is_answered(
    manager: SessionManager, keys: ApiKeys, connect: Connect
) -> None:
    assert (await connect(None).get("v1/sessions")).status_code == 200  # there are no keys yet, and this is local
    made = await keys.create("web", role="admin")
    for secret in (None, "wrong", made.secret[:-1]):
        for path in ("v1", "v1/sessions", "v1/events", "metrics"):
            response = await connect(secret).get(path)
            assert (response.status_code, response.json()["code"]) == (401, "unauthorized"), path
            assert response.headers["www-authenticate"] == "Bearer"
        assert (await connect(secret).get("healthz")).status_code == 200
    assert (await connect(made.secret).get("v1/sessions")).status_code == 200
    by_header = await connect(None).get("v1/sessions", headers={"X-Api-Key": made.secret})
    assert by_header.status_code == 200
    assert (await connect(None).get(f"v1/sessions?key={made.secret}")).status_code == 401


async def test_revoking_the_last_key_does_not_open_the_server(keys: ApiKeys, connect: Connect) -> None:
    assert (await connect(None).get("v1/sessions")).status_code == 200
    made = await keys.create("phone", role="read")
    assert (await connect(made.secret).get("v1/sessions")).status_code == 200
    await keys.revoke(made.key.id)
    assert await keys.count() == 0
    for secret in (None, made.secret):
        assert (await connect(secret).get("v1/sessions")).status_code == 401


async def test_a_key_of_another_namespace_is_refused(keys: ApiKeys, connect: Connect) -> None:
    made = await keys.create("other", namespace="shop", role="admin")
    refused = await connect(made.secret).get("v1/sessions")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_each_namespace_has_its_own_manager(tmp_path: Path, keys: ApiKeys) -> None:
    url = f"sqlite:///{tmp_path}/desk.db"
    async with SessionManager(url) as first, SessionManager(url, namespace="shop") as second:
        await first.append("one", {"role": "user", "content": "here"})
        await second.append("two", {"role": "user", "content": "there"})
        made = await keys.create("shop", namespace="shop")
        async with live_server(first, second, keys=keys) as address, httpx.AsyncClient(base_url=address) as client:
            headers = {"Authorization": f"Bearer {made.secret}"}
            listed = (await client.get("v1/sessions", headers=headers)).json()["items"]
            assert [each["id"] for each in listed] == ["two"]
            assert (await client.get("v1/sessions/one", headers=headers)).status_code == 404
            other = {**headers, "Frontdesk-Namespace": "default"}
            assert (await client.get("v1/sessions", headers=other)).status_code == 403


# roles


async def test_roles_allow_reading_writing_and_administration(
    manager: SessionManager, keys: ApiKeys, connect: Connect
) -> None:
    await fill(manager)
    reader, writer, admin = [
        connect((await keys.create(role, role=role)).secret) for role in ("read", "write", "admin")
    ]
    body = {"message": {"role": "user", "content": "hi"}}
    for client, reads, writes, administers in (
        (reader, 200, 403, 403),
        (writer, 200, 201, 403),
        (admin, 200, 201, 200),
    ):
        assert (await client.get("v1/sessions/ana/messages")).status_code == reads
        assert (await client.post("v1/sessions/ana/messages", json=body)).status_code == writes
        assert (await client.post("v1/sweep")).status_code == administers
    refused = await reader.delete("v1/sessions/ana")
    assert refused.json()["detail"] == "this needs a key with the role write, and yours has read"
    assert await manager.get("ana") is not None
    for method, path in (("PUT", "v1/sessions/ana/blocks/memory"), ("PATCH", "v1/sessions/ana"), ("POST", "v1/erase")):
        assert (await reader.request(method, path, json={})).status_code == 403


# bounds: an attack


def every_get(manager: SessionManager) -> dict[str, set[str]]:
    """The paths of all reads of the API, with the names of their parameters."""
    paths = create_app(manager).openapi()["paths"]
    reads = {path: operations["get"].get("parameters", []) for path, operations in paths.items() if "get" in operations}
    return {
        path: {each["name"] for each in parameters if each["in"] == "query"}
        for path, parameters in reads.items()
        if path.startswith("/v1")
    }


async def test_a_guest_s_key_never_shows_another_guest(
    manager: SessionManager, keys: ApiKeys, connect: Connect
) -> None:
    await fill(manager)
    await manager.append("ana", {"role": "user", "content": "more"})
    made = await keys.create("ana's phone", role="admin", guest=ANA)
    client = connect(made.secret)
    seen: dict[str, int] = {}
    reads = every_get(manager)
    for target in ("ben", "clerk", "plain", "@concierge:web:ben", "@clerk:web:ana", "missing"):
        for path, names in reads.items():
            address = path.replace("{ref}", target).replace("{message_id}", "m1").replace("{label}", "memory")
            address = address.replace("{name}", "carts").replace("{id}", "ana").replace("{compaction_id}", "c")
            parameters = {"query": "PIN", "follow": "false", "after": "start", "session": target, "by": "peer"}
            known = {name: value for name, value in parameters.items() if name in names}
            response = await client.get(address, params=known)
            seen[path] = response.status_code
            text = response.text
            assert "quokka" not in text, address
            assert "ben's session" not in text, address
            assert "777000777" not in text, address
            if "{ref}" in path:
                assert response.status_code in (400, 404), (address, response.text)
    assert {path for path, status in seen.items() if status == 200} <= {
        "/v1",
        "/v1/sessions",
        "/v1/count",
        "/v1/position",
    }


async def test_a_guest_s_key_finds_its_own(manager: SessionManager, keys: ApiKeys, connect: Connect) -> None:
    await fill(manager)
    client = connect((await keys.create("ana's phone", role="write", guest=ANA)).secret)

    async def get(path: str) -> Any:
        response = await client.get(path)
        assert response.status_code == 200, (path, response.text)
        return response.json()

    assert [each["id"] for each in (await get("v1/sessions"))["items"]] == ["ana"]
    assert await get("v1/count") == {"count": 1}
    assert (await client.get("v1/sessions?peer=ben")).status_code == 403
    assert (await get("v1/search?query=tea PIN likes"))["hits"][0]["session_id"] == "ana"
    assert (await get("v1/search?query=PIN"))["total"] == 0
    assert (await get("v1/usage"))["total"]["input_tokens"] == 1000
    events = (await client.get("v1/events?after=start&follow=false")).text.splitlines()
    assert {json.loads(line)["session_id"] for line in events} == {"ana"}
    assert (await get("v1/sessions/@concierge:web:ana/history"))["messages"][0]["content"] == "Ana likes tea"
    assert (await client.get("v1/stats")).status_code == 403
    assert (await client.get("v1/states/carts")).status_code == 403


async def test_a_guest_s_key_writes_only_to_its_own(manager: SessionManager, keys: ApiKeys, connect: Connect) -> None:
    await fill(manager)
    client = connect((await keys.create("ana's phone", role="admin", guest=ANA)).secret)
    body = {"message": {"role": "user", "content": "mine"}}
    before = [await manager.history(each) for each in ("ben", "clerk", "plain")]
    attempts: list[tuple[str, str, Any]] = [
        ("POST", "v1/sessions/ben/messages", body),
        ("POST", "v1/sessions/fresh/messages", body),  # would make a session without a key
        ("DELETE", "v1/sessions/ben", None),
        ("POST", "v1/sessions/ben/fork", {"key": "concierge:web:ana:stolen"}),
        ("POST", "v1/sessions/ana/fork", {"key": "concierge:web:ben:gift"}),
        ("POST", "v1/sessions/ana/fork", {}),
        ("POST", "v1/sessions", {"id": "x"}),
        ("POST", "v1/sessions", {"key": "concierge:web:ben:x"}),
        ("POST", "v1/sessions?existing=true", {"id": "ben"}),
        ("POST", "v1/new", {"key": "concierge:web:ben"}),
        ("PUT", "v1/sessions/ben/blocks/memory", {"text": "x"}),
        ("POST", "v1/sessions/ben/usage", {"input_tokens": 1}),
        ("POST", "v1/erase", {"peer": "ben"}),
        ("POST", "v1/sweep", None),
        ("PUT", "v1/states/carts/ben", {"value": {}}),
    ]
    for method, path, content in attempts:
        response = await client.request(method, path, json=content)
        assert response.status_code in (403, 404), (method, path, response.status_code, response.text)
    assert [await manager.history(each) for each in ("ben", "clerk", "plain")] == before
    assert {info.id for info in await manager.list()} == {"ana", "ben", "clerk", "plain"}
    own = await client.post("v1/sessions/@concierge:web:ana:thread-2/messages", json=body)
    assert own.status_code == 201


async def test_a_bound_key_does_not_write_blocks_that_others_share(tmp_path: Path, keys: ApiKeys) -> None:
    manager = SessionManager(f"sqlite:///{tmp_path}/desk.db").with_context("house", scope="agent")
    async with manager.with_context("rules", scope="namespace"):
        await manager.append(ANA, {"role": "user", "content": "hi"})
        guest = await keys.create("guest", role="write", guest=ANA)
        agent = await keys.create("agent", role="write", agent="concierge")
        async with live_server(manager, keys=keys) as address, httpx.AsyncClient(base_url=address) as client:

            async def write(key: NewApiKey, label: str) -> int:
                path = f"v1/sessions/@concierge:web:ana/blocks/{label}"
                headers = {"Authorization": f"Bearer {key.secret}"}
                return (await client.put(path, json={"text": "x"}, headers=headers)).status_code

            assert [await write(guest, label) for label in ("house", "rules")] == [403, 403]
            assert [await write(agent, label) for label in ("house", "rules")] == [200, 403]


# the machine's own callers


@pytest.mark.parametrize(
    ("client", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {"host": "[::1]:8080"}, 200),
        ("127.0.0.1", {"host": "localhost:8080", "origin": "http://localhost:8080"}, 200),
        ("192.168.0.7", {}, 401),
        ("127.0.0.1", {"host": "evil.example"}, 401),  # a name that was pointed at this machine
        ("127.0.0.1", {"origin": "https://evil.example"}, 401),  # a page of another site
    ],
)
async def test_without_keys_only_this_machine_is_answered(
    manager: SessionManager, client: str, headers: dict[str, str], status: int
) -> None:
    transport = httpx.ASGITransport(app=create_app(manager), client=(client, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
        assert (await http.get("/v1/sessions", headers=headers)).status_code == status
    opened = httpx.ASGITransport(app=create_app(manager, settings=ServerSettings(anonymous=True)), client=(client, 1))
    async with httpx.AsyncClient(transport=opened, base_url="http://127.0.0.1:8080") as http:
        assert (await http.get("/v1/sessions", headers=headers)).status_code == 200


async def test_without_keys_the_server_refuses_to_listen_elsewhere(manager: SessionManager, keys: ApiKeys) -> None:
    for options in ({}, {"keys": keys}):
        with pytest.raises(ConfigurationError, match=r"only listens on 127\.0\.0\.1"):
            await serve(manager, host="0.0.0.0", port=0, **options)  # type: ignore[arg-type]


# limits


def test_a_bucket_fills_again() -> None:
    now = 0.0
    buckets = Buckets(rate=2, burst=3, clock=lambda: now)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0
    now = 1.0
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 0.5]


async def test_requests_are_limited_by_key(manager: SessionManager, keys: ApiKeys) -> None:
    first, second = await keys.create("a"), await keys.create("b")
    settings = ServerSettings(rate=0.001, burst=2)
    async with (
        live_server(manager, keys=keys, settings=settings) as address,
        httpx.AsyncClient(base_url=address) as client,
    ):

        async def status(key: NewApiKey) -> httpx.Response:
            return await client.get("v1/position", headers={"X-Api-Key": key.secret})

        assert [(await status(first)).status_code for _ in range(3)] == [200, 200, 429]
        limited = await status(first)
        assert (limited.json()["code"], limited.json()["outcome"]) == ("rate_limited", "did not happen")
        assert int(limited.headers["retry-after"]) > 0
        assert (await status(second)).status_code == 200


async def test_large_bodies_are_refused(manager: SessionManager) -> None:
    settings = ServerSettings(max_body=1000)
    async with live_server(manager, settings=settings) as address, httpx.AsyncClient(base_url=address) as client:
        declared = await client.post("v1/sessions", content=b"x" * 2000)
        assert (declared.status_code, declared.json()["code"]) == (413, "body_too_large")

        async def portions() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 100

        undeclared = await client.post("v1/sessions", content=portions())
        assert (undeclared.status_code, undeclared.json()["code"]) == (413, "body_too_large")
        disguised = await client.put("v1/states/v1/import", json={"value": "x" * 2000})
        assert disguised.status_code == 413, "only the import itself may have any size"
        small = await client.post("v1/sessions", json={"id": "a"})
        assert small.status_code == 201


async def test_slow_requests_are_ended(manager: SessionManager) -> None:
    settings = ServerSettings(long_timeout=0.05)
    await manager.append(ANA, {"role": "user", "content": "hi"})
    async with (
        live_server(manager, settings=settings) as address,
        httpx.AsyncClient(base_url=address, timeout=PATIENCE) as client,
        manager.session(ANA).turn(),
    ):
        response = await client.post("v1/new", json={"key": "concierge:web:ana"})
    assert (response.status_code, response.json()["outcome"]) == (504, "may have happened")


# headers, logs, prefix


async def test_every_answer_has_the_security_headers(http: httpx.AsyncClient) -> None:
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:;"
        " font-src 'self'; worker-src 'self'; manifest-src 'self'; require-trusted-types-for 'script';"
        " trusted-types svelte-trusted-html frontdesk-worker;"
        " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    for path in ("", "healthz", "v1/sessions", "v1/nothing", "v1/sessions/nobody", "v1/openapi.json"):
        headers = (await http.get(path)).headers
        assert headers["content-security-policy"] == policy, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] in ("no-store", "no-cache")


async def test_cors_is_closed_unless_an_origin_is_named(manager: SessionManager) -> None:
    asked = {"Origin": "https://desk.example", "Access-Control-Request-Method": "GET"}
    settings = ServerSettings(origins=("https://desk.example",))
    for chosen, allowed in ((ServerSettings(), None), (settings, "https://desk.example")):
        async with live_server(manager, settings=chosen) as address, httpx.AsyncClient(base_url=address) as client:
            response = await client.options("v1/sessions", headers=asked)
            assert response.headers.get("access-control-allow-origin") == allowed


async def test_nothing_that_was_said_is_logged(
    manager: SessionManager, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="frontdesk"):
        await http.post("v1/sessions/secret-room/messages", json={"message": {"role": "user", "content": SECRET}})
        await http.post("v1/sessions/secret-room/messages", json={"message": {"role": 7, "content": SECRET}})
        await http.get("v1/search", params={"query": SECRET})
    records = [record.frontdesk for record in caplog.records if hasattr(record, "frontdesk")]
    assert [(each["method"], each["route"], each["status"]) for each in records] == [
        ("POST", "/v1/sessions/{ref}/messages", 201),
        ("POST", "/v1/sessions/{ref}/messages", 400),
        ("GET", "/v1/search", 200),
    ]
    assert all(len(each["request_id"]) == 16 and each["milliseconds"] >= 0 for each in records)
    for word in ("quokka", "secret-room"):
        assert word not in caplog.text + repr([vars(record) for record in caplog.records])


async def test_the_app_works_under_a_prefix(manager: SessionManager) -> None:
    outer = FastAPI()
    outer.mount("/desk", create_app(manager))
    async with running(outer, manager) as address, httpx.AsyncClient(base_url=address) as client:
        made = await client.post("/desk/v1/sessions/a%2Fb/messages", json={"message": {"role": "user", "content": "x"}})
        assert made.status_code == 201
        assert (await client.get("/desk/v1/sessions/a%2Fb")).json()["id"] == "a/b"
        assert (await client.get("/desk/healthz")).json() == {"status": "ok"}
        assert (await client.get("/desk/")).status_code == 200
        assert (await client.get("/v1/sessions")).status_code == 404


async def test_figures_are_exposed_without_ids(manager: SessionManager, http: httpx.AsyncClient) -> None:
    await http.get("v1/sessions/nobody")

    async def is_counted() -> bool:
        text = (await http.get("metrics")).text
        assert "nobody" not in text
        return 'frontdesk_http_requests_total{method="GET",route="/v1/sessions/{ref}",status="404"} 1.0' in text

    await eventually(is_counted)


async def test_a_server_whose_store_does_not_answer_is_alive_but_not_ready(tmp_path: Path) -> None:
    manager = SessionManager(f"sqlite:///{tmp_path}/desk.db")
    async with manager, live_server(manager) as address, httpx.AsyncClient(base_url=address) as client:
        assert (await client.get("readyz")).json() == {"status": "ok"}
        await manager.close()
        refused = await client.get("readyz")
        assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
        assert (await client.get("healthz")).json() == {"status": "ok"}


async def test_a_key_that_another_process_revokes_is_refused_soon(manager: SessionManager, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/desk.db"
    async with ApiKeys(url) as ours, ApiKeys(url) as theirs:
        made = await ours.create("web")
        async with live_server(manager, keys=ours) as address, httpx.AsyncClient(base_url=address) as client:
            headers = {"Authorization": f"Bearer {made.secret}"}
            assert (await client.get("v1/position", headers=headers)).status_code == 200
            await theirs.revoke(made.key.id)

            async def is_refused() -> bool:
                return (await client.get("v1/position", headers=headers)).status_code == 401

            await eventually(is_refused)
