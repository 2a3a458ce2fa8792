"""A change is done once, however many answers are lost, and a caller knows when that cannot be known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from frontdesk import SessionKey, SessionManager, StoreUnavailableError
from frontdesk.client import Client
from tests.client.conftest import LosingProxy
from tests.public_api.steps import ids, path, say, user
from tests.waiting import PATIENCE, eventually

ANA = SessionKey("concierge", "web", "ana")


@dataclass
class Cart:
    items: int = 0


CHANGES: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "append": lambda client: client.append("chat", {"role": "user", "content": "again"}),
    "append_all": lambda client: client.append_all("chat", [{"role": "user", "content": "again"}]),
    "pop": lambda client: client.session("chat").pop(),
    "delete_messages": lambda client: client.delete_messages("chat", ["m2"]),
    "append_context_block": lambda client: client.session("chat").append_context_block("memory", "once"),
    "add_usage": lambda client: client.add_usage("chat", input_tokens=5),
    "fork": lambda client: client.fork("chat"),
    "create": lambda client: client.create("Trip"),
    "new": lambda client: client.new(ANA),
    "update": lambda client: client.states(Cart).update("c", lambda cart: replace(cart, items=cart.items + 1)),
}


async def prepare(manager: SessionManager) -> None:
    await say(manager.session("chat"), "m1", "m2", "m3")
    await say(manager.session(ANA), "hello")
    await manager.states(Cart).create("c")


async def seen(manager: SessionManager) -> Any:
    """All that the changes above could do twice."""
    session = manager.session("chat")
    info, block = await session.info(), await session.context_block("memory")
    cart = await manager.states(Cart).get("c")
    counts = info.message_count, info.input_tokens, await manager.count()
    return len(await path(session)), counts, block.content, cart


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_whose_answer_is_lost_is_done_once(
    name: str, manager: SessionManager, client: Client, proxy: LosingProxy, tmp_path: Any
) -> None:
    await prepare(manager)
    async with SessionManager(f"sqlite:///{tmp_path}/other.db").with_context("memory").with_cached_prompt() as other:
        await prepare(other)
        await CHANGES[name](other)  # type: ignore[arg-type]
        expected = await seen(other)
    proxy.lost = 2
    done = await CHANGES[name](client)
    assert proxy.lost == 0
    assert await seen(manager) == expected
    if name == "pop":
        assert done.id == "m3"
    if name == "append":
        assert done.message.text == "again"


async def test_a_lost_answer_says_that_the_change_may_have_happened(
    manager: SessionManager, client: Client, proxy: LosingProxy
) -> None:
    proxy.lost = 1000
    with pytest.raises(StoreUnavailableError) as changed:
        await client.append("chat", user("m1"))
    assert changed.value.uncertain
    with pytest.raises(StoreUnavailableError) as read:
        await client.history("chat")
    assert not read.value.uncertain
    proxy.lost = 0
    assert ids(await client.history("chat")) == ["m1"]


async def test_a_server_that_cannot_be_reached_has_done_nothing(client: Client, proxy: LosingProxy) -> None:
    await proxy.down()
    with pytest.raises(StoreUnavailableError) as refused:
        await client.append("chat", user("m1"))
    assert not refused.value.uncertain
    await proxy.restore()
    assert (await client.append("chat", user("m1"))).inserted


async def test_a_request_that_takes_too_long_may_have_happened(manager: SessionManager, proxy: LosingProxy) -> None:
    async with Client(f"http://127.0.0.1:{proxy.port}", timeout=1.0) as client:
        proxy.freeze()
        with pytest.raises(StoreUnavailableError) as late:
            await client.append("chat", user("m2"))
        assert late.value.uncertain
        proxy.thaw()


async def test_events_continue_where_the_connection_was_cut(client: Client, proxy: LosingProxy) -> None:
    found: list[str | None] = []

    async def follow() -> None:
        async for event in client.events(after="start"):
            found.extend([event.message_id] if event.kind == "message.appended" else [])

    following = asyncio.create_task(follow())
    expected = []
    for round in range(3):
        for number in range(5):
            expected.append(f"{round}.{number}")
            await client.append("chat", user(expected[-1]))
        await eventually(lambda: len(found) == len(expected))
        proxy.cut()
    await client.close()
    await asyncio.wait_for(following, PATIENCE)
    assert found == expected


async def test_a_turn_survives_a_connection_that_is_cut_and_ends_when_the_server_is_away(
    manager: SessionManager, client: Client, proxy: LosingProxy
) -> None:
    async with client.session("chat").turn(ttl=PATIENCE) as turn:
        proxy.cut()
        await turn.append(user("m1"))
        assert (await manager.session("chat").turn_info()).number == turn.number
    async with client.session("chat").turn(ttl=0.5) as turn:
        await proxy.down()
        await eventually(lambda: turn.lost)
    async with manager.session("chat").turn(wait=PATIENCE) as local:
        assert local.number > turn.number


async def test_a_caller_that_gives_up_leaves_the_queue(manager: SessionManager, client: Client) -> None:
    async with manager.session("chat").turn():
        waiting = asyncio.create_task(client.session("chat").turn().__aenter__())
        session = manager.session("chat")

        async def is_waiting() -> bool:
            return len((await session.turn_info()).waiting) == 1

        await eventually(is_waiting)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

        async def is_gone() -> bool:
            return not (await session.turn_info()).waiting

        await eventually(is_gone)
    async with manager.session("chat").turn(on_busy="reject"):
        pass


async def test_the_holder_of_a_turn_splits_its_session_and_goes_on(manager: SessionManager, client: Client) -> None:
    await say(client.session(ANA), "m1")
    async with client.session(ANA).turn() as turn:
        following = await turn.compact_and_split("short", "Part two")
        await following.append(user("m2"))
        assert [message.text for message in await following.history()] == ["short", "m2"]
        assert turn.lost
        assert (await manager.session(following.id).turn_info()).number == following.number
    info = await following.info()
    assert (info.name, info.key, info.parent_session_id) == ("Part two", ANA, turn.id)
    assert (await manager.session(following.id).turn_info()).number is None
