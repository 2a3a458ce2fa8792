"""The client has every call of the session layer: sent to the server, or refused because it belongs there."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from inspect import getattr_static
from pathlib import Path
from typing import Any

import pytest

from frontdesk import AccessDeniedError, ConfigurationError, SessionKey, SessionManager, SessionNotFoundError, Turn
from frontdesk.client import Client
from frontdesk.client.session import RemoteSession, RemoteTurn
from frontdesk.server import ApiKeys
from frontdesk.session import Session
from frontdesk.stores import open_url
from tests.public_api.steps import ids, say, user
from tests.server.live import live_server

BY_SESSION = {
    *("append", "append_all", "upsert", "history", "delete_messages", "clear_messages", "get"),
    *("add_compaction", "needs_compaction", "compact"),
}
"""calls of the manager that only call its sessions: they are the same for a client"""


@pytest.mark.parametrize(
    ("remote", "local", "inherited"),
    [(Client, SessionManager, BY_SESSION), (RemoteSession, Session, {"create"}), (RemoteTurn, Turn, {"create"})],
)
def test_every_call_is_sent_to_the_server_or_refused(remote: Any, local: Any, inherited: set[str]) -> None:
    public = [name for name in dir(local) if not name.startswith("_")]
    assert {name for name in public if getattr_static(remote, name) is getattr_static(local, name)} == inherited


@pytest.mark.parametrize(("remote", "local"), [(Client, SessionManager), (RemoteSession, Session), (RemoteTurn, Turn)])
def test_calls_from_the_table_have_the_signatures_and_descriptions_of_python(remote: Any, local: Any) -> None:
    made = [name for name in dir(local) if hasattr(getattr(remote, name), "__wrapped__") and not name.startswith("_")]
    assert len(made) > 25
    for name in made:
        assert inspect.signature(getattr(remote, name)) == inspect.signature(getattr(local, name)), name
        assert inspect.getdoc(getattr(remote, name)) == inspect.getdoc(getattr(local, name)), name


async def test_set_up_and_hooks_belong_to_the_server() -> None:
    async with Client("http://127.0.0.1:1") as client:
        for name in dir(SessionManager):
            if name.startswith("with_"):
                with pytest.raises(ConfigurationError, match="server"):
                    getattr(client, name)()
        with pytest.raises(ConfigurationError, match="server"):
            client.register_hook(object())
        with pytest.raises(ConfigurationError, match="server"):
            client.session("chat").add_context("notes")
        with pytest.raises(ConfigurationError, match="function"):
            client.tools(scope=lambda info: True)


def test_an_address_must_be_one_of_http() -> None:
    with pytest.raises(ConfigurationError, match="http://"):
        Client("sqlite:///agents.db")


@pytest.fixture
async def keys(tmp_path: Path) -> AsyncIterator[ApiKeys]:
    store = open_url(f"sqlite:///{tmp_path}/keys.db")
    yield ApiKeys(store)
    await store.close()


ANA, BEN = SessionKey("concierge", "web", "ana"), SessionKey("concierge", "web", "ben")


async def test_a_key_opens_what_it_is_bound_to(manager: SessionManager, keys: ApiKeys) -> None:
    await say(manager.session(ANA), "of ana")
    await say(manager.session(BEN), "of ben")
    (ben,) = (await manager.list(peer="ben")).items
    guest = await keys.create("guest", role="write", guest=ANA)
    reader = await keys.create("reader", role="read")
    async with live_server(manager, keys=keys) as address:
        async with Client(address) as nobody:
            with pytest.raises(AccessDeniedError, match="API key"):
                await nobody.list()
        async with Client(address, api_key=reader.secret) as client:
            assert ids(await client.history(BEN)) == ["of ben"]
            with pytest.raises(AccessDeniedError, match="role write"):
                await client.append(BEN, user("m"))
        async with Client(address, api_key=guest.secret) as client:
            session = client.session(ANA)
            assert ids(await session.history()) == ["of ana"]
            assert session.id != ben.id
            session._remote._id = ben.id  # type: ignore[attr-defined]
            with pytest.raises(SessionNotFoundError):
                await session.history()
            with pytest.raises(SessionNotFoundError):
                await client.history(ben.id)
            with pytest.raises(AccessDeniedError):
                await client.session(ANA).tools(scope="namespace")


async def test_an_export_is_imported_through_clients(manager: SessionManager, client: Client, tmp_path: Path) -> None:
    await say(manager.session("chat"), *(f"m{number}" for number in range(500)))
    async with (
        SessionManager(f"sqlite:///{tmp_path}/second.db") as second,
        live_server(second) as address,
        Client(address) as target,
    ):
        sent: list[tuple[int, int]] = []
        report = await target.import_lines(client.export(), on_progress=lambda *done: sent.append(done))
        assert (report.sessions, report.messages, report.problems) == (1, 500, ())
        assert sent[-1][0] == report.lines
        assert await second.history("chat") == await manager.history("chat")
        await target.backup(tmp_path / "backup.jsonl")
        assert (tmp_path / "backup.jsonl").read_bytes().count(b"\n") == report.lines


async def test_tools_of_an_id_that_is_used_again_show_nothing(manager: SessionManager, client: Client) -> None:
    await say(manager.session("room"), "of ana")
    tools = await client.session("room").tools()
    assert "**ana**" in await tools["session_search"](query="ana")
    await manager.delete("room")
    await say(manager.session("room"), "of ben")
    assert await tools["session_search"](query="ben") == (
        "Error: there is no session 'room': use an id exactly as it was shown to you."
    )
