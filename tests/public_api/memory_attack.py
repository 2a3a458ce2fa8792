"""The same attack on what is remembered: every guest has the secret in blocks, in a prompt and in a summary, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from frontdesk import Session, SessionKey, SessionManager, Store
from tests.public_api.search_attack import Guest, SearchAttackTests, check_in, secret, told_in

SHARED = ("memory", "profile")
"""labels of blocks that a guest, and a key, has in common"""


async def remember(hotel: SessionManager, guest: Guest) -> None:
    """Write the secret wherever the session keeps something."""
    session, code = guest.session(hotel), secret(guest.number)
    for label in (*SHARED, "diary"):
        await session.replace_context_block(label, f"Not the code: {guest.number}")
        await session.replace_context_block(label, f"The code is {code}.")
    for message in await session.history(last=1):
        await session.add_compaction(f"They said {code}.", message.id, message.id)
    await session.freeze_system_prompt()


async def all_that_is_shown(session: Session) -> list[Any]:
    """What applications and models are given of a session."""
    tools = await session.tools()
    compactions = await session.compactions()
    return [
        await session.history(),
        [message async for message in session.transcript()],
        compactions,
        [[message async for message in session.expand(compaction.id)] for compaction in compactions],
        await session.context_blocks(),
        [await session.block_history(label) for label in (*SHARED, "diary")],
        await session.freeze_system_prompt(),
        await session.context_changes(),
        [await session.prepare(format) for format in ("openai", "openai-responses", "anthropic")],
        await tools["search_context"](label="past", query="secret code"),
        await tools["session_search"](query="said", limit=50),
        *[await tools["expand_summary"](summary_id=compaction.id) for compaction in compactions],
    ]


async def memory_of(session: Session) -> list[Any]:
    """What a session knows of others: the prompt, and the blocks that it shares."""
    return [await session.freeze_system_prompt(), [await session.context_block(label) for label in SHARED]]


class MemoryAttackTests(SearchAttackTests):
    @pytest.fixture
    async def lodge(self, store: Store, namespace: str) -> AsyncIterator[SessionManager]:
        manager = SessionManager(store, namespace=namespace).with_cached_prompt()
        manager.with_context("memory", scope="guest").with_context("profile", scope="key").with_context("diary")
        async with manager.with_searchable_history("past") as manager:
            yield manager

    async def test_nothing_that_is_remembered_of_a_guest_is_shown_to_another(self, lodge: SessionManager) -> None:
        guests = await self.remember_all(lodge, 64)
        for guest in guests[::3]:
            await self.see_only_own(lodge, guest)
        for number in range(8):
            await self.try_everything(lodge, guests[number], guests[-1 - number])
            await self.move_on(lodge, guests[number])

    @pytest.mark.long
    async def test_nothing_that_is_remembered_of_three_thousand_guests_is_shown_to_another(
        self, lodge: SessionManager
    ) -> None:
        guests = await self.remember_all(lodge, 3_000)
        for guest in guests:
            await self.see_only_own(lodge, guest)
        for number in range(0, 3_000, 131):
            await self.try_everything(lodge, guests[number], guests[(number + 8) % 3_000])
            await self.move_on(lodge, guests[number])

    async def remember_all(self, hotel: SessionManager, count: int) -> list[Guest]:
        guests = await check_in(hotel, count)
        for start in range(0, count, 64):
            await asyncio.gather(*(remember(hotel, guest) for guest in guests[start : start + 64]))
        await hotel.reindex()
        return guests

    async def see_only_own(self, hotel: SessionManager, guest: Guest) -> None:
        assert told_in(repr(await all_that_is_shown(guest.session(hotel)))) == guest.secrets, guest
        await self.find_own_secret(hotel, guest)

    async def move_on(self, hotel: SessionManager, guest: Guest) -> None:
        """Fork the session, for the same guest and for another, and begin the next one."""
        own = (await hotel.session(guest.address).info()).id
        fork = await hotel.fork(own)
        assert told_in(repr(await all_that_is_shown(fork))) == guest.secrets
        stranger = SessionKey("concierge", "web", f"stranger {guest.number}")
        lent = await hotel.fork(own, key=stranger)
        assert told_in(repr(await memory_of(lent))) <= {secret(guest.number)}  # the diary goes with the conversation
        assert [(await lent.context_block(label)).content for label in SHARED] == ["", ""]
        assert told_in(repr(await memory_of(await hotel.new(stranger)))) == set()
        if isinstance(guest.address, SessionKey):
            assert told_in(repr(await memory_of(await hotel.new(guest.address)))) == guest.secrets
            events = [event async for event in hotel.events(after="start", session=guest.address, follow=False)]
            assert told_in(repr(events)) <= guest.secrets
