"""Ids made of anything, through the addresses that a client writes and its server reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from frontdesk import SessionManager
from frontdesk.client import Client
from tests.server.live import live_server
from tests.waiting import PATIENCE

# Half of them from the characters that mean something in an address.
_ids = st.text("%2F25/~@.:?#&+ a", min_size=1, max_size=12) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40
)


@dataclass(frozen=True)
class Note:
    text: str


class Served:
    """A manager, a client of its server, and requests without the client."""

    manager: SessionManager
    client: Client
    http: httpx.AsyncClient

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()

    async def open(self) -> None:
        self.manager = await self.stack.enter_async_context(SessionManager("memory://").with_context("memory"))
        address = await self.stack.enter_async_context(live_server(self.manager))
        self.client = await self.stack.enter_async_context(Client(address, timeout=PATIENCE))
        self.http = await self.stack.enter_async_context(httpx.AsyncClient(base_url=address, timeout=PATIENCE))


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    served = Served()
    with served.runner:
        served.runner.run(served.open())
        yield served
        served.runner.run(served.stack.aclose())


@given(session_id=_ids, message_id=_ids)
@example(session_id="a%2Fb", message_id="c%252Fd")
@example(session_id="~%2F", message_id="@%25")
@example(session_id="..", message_id=".")
@example(session_id="\u2028", message_id="\xa0")
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_any_id_names_the_same_session_and_message_on_both_sides(
    served: Served, session_id: str, message_id: str
) -> None:
    served.runner.run(_use(served, session_id, message_id))


async def _use(served: Served, session_id: str, message_id: str) -> None:
    manager, client = served.manager, served.client
    await manager.delete(session_id)
    await client.session(session_id).append({"id": message_id, "role": "user", "content": "heron"})
    await client.add_usage(session_id, input_tokens=7)
    await client.states(Note, name=message_id).set(session_id, Note("kept"))

    session = client.session(session_id)
    assert (await manager.session(session_id).get_message(message_id)).id == message_id
    assert (await session.get_message(message_id)).id == message_id
    assert [message.id for message in await session.history(leaf=message_id)] == [message_id]
    assert await session.path_length(message_id) == 1
    assert (await session.info()).id == session_id
    assert {event.session_id for event in await client.recent_events(session=session_id)} == {session_id}
    assert (await client.usage(session=session_id, by=())).total.input_tokens == 7
    hits = [hit.message_id for hit in await client.search("heron", session=session_id)]
    assert message_id in hits
    assert hits == [hit.message_id for hit in await manager.search("heron", session=session_id)]
    assert await manager.states(Note, name=message_id).get(session_id) == Note("kept")

    marked = f"~{session_id}" if session_id.startswith(("~", "@")) else session_id
    plain = await served.http.get(f"v1/recent-events?session={quote(marked, safe='')}")
    assert {event["session_id"] for event in plain.json()["items"]} == {session_id}
