"""A server whose disk is full answers reads, refuses writes, and continues when there is space again."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.server.live import server_process

WRITES = (
    ("POST", "v1/sessions", {"id": "other"}),
    ("PATCH", "v1/sessions/chat", {"name": "trams"}),
    ("POST", "v1/sessions/chat/fork", {"new_id": "fork"}),
    ("DELETE", "v1/sessions/chat/messages/m0", None),
    ("POST", "v1/sessions/chat/usage", {"input_tokens": 3}),
    ("PUT", "v1/states/cart/chat", {"value": 1}),
    ("POST", "v1/reindex", None),
    ("POST", "v1/sweep", None),
    ("DELETE", "v1/sessions/chat", None),
)
READS = (
    "readyz", "metrics", "v1", "v1/stats", "v1/usage", "v1/sessions", "v1/sessions/chat", "v1/sessions/chat/history",
    "v1/sessions/chat/view", "v1/sessions/chat/outline", "v1/sessions/chat/timeline", "v1/recent-events", "v1/export",
)  # fmt: skip


async def append(client: httpx.AsyncClient, name: str) -> httpx.Response:
    """Append a message, and continue if that was tried before."""
    message = {"id": name, "role": "user", "content": f"tram {name}"}
    path = "v1/sessions/chat/messages"
    return await client.post(path, json={"message": message}, headers={"Idempotency-Key": name})


async def test_a_full_disk_refuses_writes_and_only_while_it_is_full(tmp_path: Path) -> None:
    async with server_process(tmp_path) as (client, _):

        async def stored() -> list[str]:
            """The messages of the transcript, all of which are found, too."""
            transcript = (await client.get("v1/sessions/chat/transcript")).text.splitlines()
            found = await client.get("v1/search", params={"query": "tram"})
            assert found.json()["total"] == len(transcript)
            return [json.loads(line)["id"] for line in transcript]

        for name in ("m0", "m1"):
            assert (await append(client, name)).status_code == 201
        (tmp_path / "full").touch()
        refused = await append(client, "m2")
        assert refused.headers["content-type"] == "application/problem+json"
        problem = refused.json()
        assert (refused.status_code, problem["code"], problem["outcome"]) == (507, "store_full", "did not happen")
        for method, path, body in WRITES:
            answer = await client.request(method, path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (507, "store_full"), path
        for path in READS:
            assert (await client.get(path)).status_code == 200, path
        assert await stored() == ["m0", "m1"]
        (tmp_path / "full").unlink()
        assert (await append(client, "m2")).status_code == 201
        assert await stored() == ["m0", "m1", "m2"]
