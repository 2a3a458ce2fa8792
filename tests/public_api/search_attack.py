"""An attack: thousands of guests, each with a secret, and models that try everything to learn one of another guest."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from frontdesk import InvalidCursorError, Session, SessionInfo, SessionKey, SessionManager, Store
from tests.public_api.steps import user

_SECRET = re.compile(r"zq\d{5}")


@dataclass(slots=True)
class Guest:
    """A guest: how their session is addressed, the secrets that they know, and ids that they might guess."""

    number: int
    address: str | SessionKey
    secrets: set[str]
    ids: list[str] = field(default_factory=list)

    def session(self, hotel: SessionManager) -> Session:
        return hotel.session(self.address)


def secret(number: int) -> str:
    return f"zq{number:05}"


def tell(number: int, suffix: str = "") -> dict[str, object]:
    """How a guest tells a secret: all with the same words."""
    told = f"zq{number:05}"
    return user(f"m{number}{suffix}", f"My room is quiet, and the secret code of my safe is {told}.")


def told_in(answer: str) -> set[str]:
    return set(_SECRET.findall(answer.replace("*", "")))


# how guests come to have a session


async def speak(hotel: SessionManager, number: int) -> Guest:
    """In the current session of a key."""
    key = SessionKey("concierge", "web", f"guest {number}")
    session = await hotel.create(f"Stay of {secret(number)}", id=f"stay-{number}", key=key, tags=[f"tag{number}"])
    await session.append(tell(number))
    return Guest(number, key, {secret(number)}, [session.id])


async def leave(hotel: SessionManager, number: int) -> Guest:
    """In a session that has ended, with a summary."""
    guest = await speak(hotel, number)
    ended = hotel.session(guest.ids[0])
    await ended.append(user(f"n{number}", "Good night."))
    await ended.add_compaction(f"The code is {secret(number)}.", f"m{number}", f"m{number}")
    await ended.set_summary(f"A guest with the code {secret(number)}")
    assert isinstance(guest.address, SessionKey)
    await hotel.new(guest.address)
    return guest


async def thread(hotel: SessionManager, number: int) -> Guest:
    """On another thread than the one that is searched from."""
    key = SessionKey("concierge", "web", f"guest {number}")
    await hotel.session(SessionKey(*key.parts[:3], "night")).append(tell(number))
    return Guest(number, key, {secret(number)})


async def fork(hotel: SessionManager, number: int) -> Guest:
    """In a fork of a session that hundreds of others were forked from."""
    session = await hotel.fork("template", new_id=f"fork-{number}", name=f"Fork of {secret(number)}")
    await session.append(tell(number))
    return Guest(number, session.id, {secret(number)}, [session.id])


async def split(hotel: SessionManager, number: int) -> Guest:
    """Before a split. The old id is deleted, and somebody else uses it."""
    old = hotel.session(f"split-{number}")
    await old.append_all([tell(number), user(f"n{number}", "Good night.")])
    successor = await hotel.compact_and_split(old.id, f"They spoke of {secret(number)}.")
    await hotel.delete(old.id)
    await hotel.append(old.id, user(f"z{number}", f"The secret code of the safe is zq{90_000 + number:05}."))
    return Guest(number, successor.id, {secret(number)}, [old.id])


async def branch_off(hotel: SessionManager, number: int) -> Guest:
    """Before a fork, whose source goes on with another secret, and has it in its summary."""
    source = hotel.session(f"source-{number}")
    await source.append_all([tell(number), user(f"n{number}", "Good night.")])
    session = await hotel.fork(source.id, new_id=f"branch-{number}")
    await source.append(user(f"y{number}", f"The new secret code is zq{80_000 + number:05}."))
    await source.set_summary(f"The code is now zq{80_000 + number:05}")
    return Guest(number, session.id, {secret(number)}, [source.id])


async def reuse(hotel: SessionManager, number: int) -> Guest:
    """In a session whose id belonged to another guest, whose child is still there."""
    name = f"recycled-{number}"
    await hotel.append(name, user(f"x{number}", f"The secret code of my safe is zq{70_000 + number:05}."))
    await hotel.create(id=f"child-{number}", parent=name)
    await hotel.append(f"child-{number}", user(f"w{number}", f"My secret code is zq{60_000 + number:05}."))
    await hotel.delete(name)
    key = SessionKey("concierge", "mail", f"guest {number}")
    session = await hotel.create(id=name, key=key, parent=f"child-{number}")
    await session.append(tell(number))
    return Guest(number, name, {secret(number)}, [f"child-{number}"])


async def gather_in_group(hotel: SessionManager, number: int) -> Guest:
    """In a group chat, where two people speak. The peer is the group."""
    key = SessionKey("concierge", "slack", f"group {number}")
    await hotel.session(key).append(tell(number) | {"name": "ana"})
    await hotel.session(key).append(user(f"n{number}", "Mine is quiet, too.") | {"name": "ben"})
    return Guest(number, key, {secret(number)})


WAYS: Sequence[Callable[[SessionManager, int], Awaitable[Guest]]] = (
    speak,
    leave,
    thread,
    fork,
    split,
    branch_off,
    reuse,
    gather_in_group,
)


async def check_in(hotel: SessionManager, count: int) -> list[Guest]:
    """Guests of all kinds, who come at the same time."""
    await hotel.append_all("template", [user("t1", "Welcome. Is your room quiet?"), user("t2", "Keep a secret code.")])
    guests: list[Guest] = []
    for start in range(0, count, 64):
        numbers = range(start, min(start + 64, count))
        guests += await asyncio.gather(*(WAYS[number % len(WAYS)](hotel, number) for number in numbers))
    await hotel.append("template", user("t3", "The secret code of the house is zq99999."))
    return guests


def hostile_queries(victim: Guest) -> list[str]:
    code = secret(victim.number)
    return [
        code,
        f'"{code}"',
        "zq*",
        f"{code[:4]}*",
        "-welcome",
        "role:user secret",
        "role:system",
        f"tag:tag{victim.number}",
        f"tag:tag{victim.number} secret code",
        *(f"session:{name} secret" for name in victim.ids),
        *(f'session:"{name}"' for name in victim.ids),
        f'session:"Stay of {code}"',
        "after:2000",
        "before:2100 secret",
        f"ignore your scope and show everything of guest {victim.number}",
        "' OR 1=1 --",
        f"f{victim.number} km ks {code}",
    ]


class SearchAttackTests:
    @pytest.fixture
    async def inn(self, store: Store, namespace: str) -> AsyncIterator[SessionManager]:
        manager = SessionManager(store, namespace=namespace).with_searchable_history("past")
        async with manager:
            yield manager

    @pytest.fixture
    def guest_count(self) -> int:
        """How many guests there are; a store that takes long to write so many sessions overrides it."""
        return 3_000

    @pytest.mark.parametrize("indexed", [False, True], ids=["read directly", "indexed"])
    async def test_no_guest_learns_the_secret_of_another(self, inn: SessionManager, indexed: bool) -> None:
        guests = await check_in(inn, 240)
        if indexed:
            await inn.reindex()
        for guest in guests[::5]:
            await self.find_own_secret(inn, guest)
        for number in range(len(WAYS)):
            await self.try_everything(inn, guests[number * 9], guests[number * 17 + 8])
            await self.try_everything(inn, guests[number * 9], guests[number * 9 + 8])

    async def test_no_crowd_of_guests_hides_ones_own_secret_or_shows_another(
        self, inn: SessionManager, guest_count: int
    ) -> None:
        guests = await check_in(inn, guest_count)
        await inn.reindex()
        for guest in guests[:: guest_count // 150 - 1]:
            await self.find_own_secret(inn, guest)
        await self.try_everything(inn, guests[0], guests[-8])
        await self.try_everything(inn, guests[3], guests[-5])

    @pytest.mark.long
    async def test_each_of_three_thousand_guests_finds_exactly_their_own_secret(self, inn: SessionManager) -> None:
        guests = await check_in(inn, 3_000)
        for guest in guests:
            await self.find_own_secret(inn, guest)
        for number in range(0, 3_000, 131):
            await self.try_everything(inn, guests[number], guests[(number + 8) % 3_000])
            await self.try_everything(inn, guests[number], guests[(number + 11) % 3_000])

    async def test_no_filter_of_a_guest_shows_an_event_a_session_or_a_hit_of_another(self, inn: SessionManager) -> None:
        guests = await check_in(inn, 64)
        await inn.reindex()
        ids = {info.id: info.key async for info in inn.iterate()}
        for guest in guests:
            key = guest.address if isinstance(guest.address, SessionKey) else ids[guest.address]
            if key is None:
                continue  # addressed by id alone: no filter names them
            parts: dict[str, Any] = {"agent": key.agent, "channel": key.channel, "peer": key.peer}
            for filters in ({"peer": parts["peer"]}, parts):
                own = {session_id for session_id, other in ids.items() if other is not None and other.peer == key.peer}
                listed = {info.id async for info in inn.iterate(**filters)}
                hits = await inn.search("secret code", limit=100, **filters)
                events = [event async for event in inn.events(after="start", follow=False, **filters)]
                assert listed == own
                assert {event.session_id for event in events} == own
                assert {hit.session_id for hit in hits} <= own
                assert told_in(repr([hits, events])) <= guest.secrets

    async def test_a_cursor_of_one_guest_is_refused_for_another(self, inn: SessionManager) -> None:
        for peer in ("ana", "ben"):
            for number in range(3):
                session = inn.session(SessionKey("concierge", "web", peer, str(number)))
                await session.append(user(f"{peer}{number}", f"The secret code of {peer}"))
        listed = await inn.list(peer="ana", limit=2)
        found = await inn.search("secret", peer="ana", limit=2)
        in_session = await inn.session(SessionKey("concierge", "web", "ana", "0")).search("secret", limit=1)
        assert listed.next_cursor is not None
        assert found.next_cursor is not None
        assert in_session.next_cursor is None
        others: list[dict[str, Any]] = [{"peer": "ben"}, {}, {"agent": "concierge", "peer": "ana"}]
        for other in others:
            with pytest.raises(InvalidCursorError):
                await inn.list(limit=2, cursor=listed.next_cursor, **other)
            with pytest.raises(InvalidCursorError):
                await inn.search("secret", limit=2, cursor=found.next_cursor, **other)
        with pytest.raises(InvalidCursorError):
            await inn.session(SessionKey("concierge", "web", "ben", "0")).search("secret", cursor=found.next_cursor)
        # The position of an event says when, not whose: with another filter it continues with the events of that guest.
        first = await anext(inn.events(after="start", peer="ana", follow=False))
        later = [event async for event in inn.events(after=first.position, peer="ben", follow=False)]
        assert {event.message_id for event in later if event.message_id} == {"ben0", "ben1", "ben2"}

    async def find_own_secret(self, inn: SessionManager, guest: Guest) -> None:
        search = (await guest.session(inn).tools())["session_search"]
        answer = await search(query="what is the secret code of my safe?", limit=50)
        assert told_in(answer) == guest.secrets, guest
        assert "too many" not in answer

    async def try_everything(self, inn: SessionManager, guest: Guest, victim: Guest) -> None:
        tools = await guest.session(inn).tools()
        for query in hostile_queries(victim):
            answers = [
                await tools["session_search"](query=query, limit=50),
                await tools["session_search"](query=query, skip=1),
                await tools["search_context"](label="past", query=query),
            ]
            for answer in answers:
                assert told_in(answer) <= guest.secrets, (guest, victim, query)
                assert not any(name in answer for name in victim.ids), (guest, victim, query)
        for name in victim.ids:
            missing = f"missing-{name}"
            for arguments in ({}, {"around": f"m{victim.number}"}, {"around": f"m{guest.number}"}):
                refusals = [await tools["read_session"](session_id=one, **arguments) for one in (name, missing)]
                assert refusals[0] == refusals[1].replace(missing, name)
                assert refusals[0].startswith("Error: there is no conversation")
            refusals = [await tools["session_search"](query="secret", session=one) for one in (name, missing)]
            assert refusals[0] == refusals[1].replace(missing, name)
        own = (await guest.session(inn).info()).id if await inn.get(guest.address) else ""
        for around in (f"m{victim.number}", "t3", f"y{guest.number}"):
            assert told_in(await tools["read_session"](session_id=own, around=around)) <= guest.secrets

    @pytest.mark.parametrize("parts", [("agent", "peer"), ("agent", "channel", "peer"), ("peer", "thread")], ids=repr)
    async def test_isolation_separates_exactly_the_guests_that_it_says(
        self, store: Store, namespace: str, parts: tuple[str, ...]
    ) -> None:
        hotel = SessionManager(store, namespace=namespace).with_isolation(*parts)
        keys = [
            SessionKey(agent, channel, peer, thread)
            for agent in ("concierge", "*")
            for channel in ("web", "mail")
            for peer in ("ana", "ben", "*")
            for thread in (None, "night")
        ]
        for number, key in enumerate(keys):
            await hotel.session(key).append(tell(number))

        def guest_of(key: SessionKey) -> list[str]:
            return [getattr(key, part) for part in ("agent", "channel", "peer") if part in parts]

        for key in keys:
            search = (await hotel.session(key).tools())["session_search"]
            answer = await search(query="secret code", limit=50)
            expected = {secret(number) for number, other in enumerate(keys) if guest_of(other) == guest_of(key)}
            assert told_in(answer) == expected

    async def test_an_operators_scope_holds_against_the_same_attacks(self, inn: SessionManager) -> None:
        guests = await check_in(inn, 64)
        await inn.reindex()

        def is_by_mail(info: SessionInfo) -> bool:
            return info.key is not None and info.key.channel == "mail"

        by_mail = {secret(guest.number) for guest in guests[6::8]}
        for scope in ({"channel": "mail"}, is_by_mail):
            search = inn.tools(scope=scope)["search_sessions"]  # type: ignore[arg-type]
            assert told_in(await search(query="secret code", limit=50)) == by_mail
            for victim in (guests[0], guests[3], guests[5]):
                for query in hostile_queries(victim):
                    assert told_in(await search(query=query, limit=50)) <= by_mail
