"""Random histories with compactions: every message is always visible or under exactly one outermost overlay, and every
summary is made from exactly the messages that it covers."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest

from frontdesk import Compaction, CompactionError, FrontdeskError, Message, Session, SessionManager, Store
from frontdesk.messages import SUMMARY_PREFIX, new_id
from tests.public_api.steps import answer, call, result, user

NAMED = re.compile(r"\b(?:m\d+v\d+|S\d+)\b")


class Witness:
    """A summariser that records what each of its summaries was made from. It sometimes fails."""

    def __init__(self, chance: random.Random, failing: float = 0.0) -> None:
        self.made_from: dict[str, list[str]] = {}
        self._chance = chance
        self._failing = failing

    async def __call__(self, prompt: str) -> str:
        if self._chance.random() < self._failing:
            return self._chance.choice(["", "far too long " * 50_000])
        name = f"S{len(self.made_from)}"
        self.made_from[name] = NAMED.findall(prompt)
        return name

    def leaves(self, name: str) -> list[str]:
        """The messages that a summary was made from, including those behind earlier summaries."""
        found: list[str] = []
        left = [name]
        while left:
            each = left.pop()
            if each in self.made_from:
                left += reversed(self.made_from[each])
            else:
                found.append(each)
        return found


def names(messages: Iterable[Message]) -> list[str]:
    """Messages by number and version, as a summariser sees them."""
    return [
        name for message in messages for name in NAMED.findall(f"{message.text} {message.raw.get('tool_calls', '')}")
    ]


def _number(name: str) -> str:
    return name.partition("v")[0]


async def prove_covered(session: Session, witness: Witness) -> None:
    """Check both invariants on every path of a session."""
    compactions = {made.id: made for made in await session.compactions()}
    under = {id: [message async for message in session.expand(id)] for id in compactions}
    for made in compactions.values():
        if made.summary is not None and not made.stale:
            assert witness.leaves(made.summary) == names(under[made.id]), made
        if made.summary is not None:
            # A stale one may know an earlier version of a message, but never one that was deleted.
            assert set(map(_number, witness.leaves(made.summary))) == set(map(_number, names(under[made.id]))), made
    for leaf in await session.leaves():
        await _prove_path(session, leaf.id, compactions, under)


async def _prove_path(
    session: Session, leaf: str, compactions: dict[str, Compaction], under: dict[str, list[Message]]
) -> None:
    whole = [message.id async for message in session.transcript(leaf=leaf)]
    seen: list[str] = []
    for message in await session.history(leaf=leaf):
        covered = under[message.id.removeprefix(SUMMARY_PREFIX)] if message.is_summary else [message]
        seen += [each.id for each in covered]
    assert len(seen) == len(set(seen))
    assert seen == [id for id in whole if id in set(seen)]
    hidden = {each.id for id, made in compactions.items() if made.kind != "summary" for each in under[id]}
    assert set(whole) - set(seen) <= hidden


class Work:
    """Random steps on a family of sessions."""

    def __init__(self, manager: SessionManager, chance: random.Random) -> None:
        self.manager, self.chance = manager, chance
        self.sessions = ["s0"]
        self.serial = 0

    def pick(self) -> Session:
        return self.manager.session(self.chance.choice(self.sessions))

    def text(self, number: int, version: int) -> str:
        return f"m{number}v{version} " + "x " * self.chance.randrange(10, 40)

    def turn(self) -> list[dict[str, Any]]:
        """A message, or a tool call with its results; each contains its own name in its text or its arguments."""
        first = self.serial
        if self.chance.random() < 0.6:
            self.serial += 1
            return [self.chance.choice([user, answer])(f"id{first}", self.text(first, 0))]
        calls = [f"call{first}-{n}" for n in range(self.chance.randrange(1, 3))]
        asking = call(f"id{first}", *calls)
        asking["tool_calls"][0]["function"]["arguments"] = f'{{"name": "m{first}v0"}}'
        answers = [
            {**result(f"id{first + n}", id), "content": self.text(first + n, 0)} for n, id in enumerate(calls, 1)
        ]
        self.serial += 1 + len(calls)
        return [asking, *answers]

    async def any_message(self, session: Session) -> Message | None:
        leaves = await session.leaves()
        if not leaves:
            return None
        way = [message async for message in session.transcript(leaf=self.chance.choice(leaves).id)]
        return self.chance.choice(way)

    async def step(self) -> Session:
        session = self.pick()
        weights = {"append": 10, "branch": 1, "switch": 1, "fork": 1, "delete": 1, "update": 1, "compact": 4, "undo": 1}
        await getattr(self, self.chance.choices(list(weights), list(weights.values()))[0])(session)
        return session

    async def append(self, session: Session) -> None:
        for _ in range(self.chance.randrange(1, 5)):
            await session.append_all(self.turn())

    async def branch(self, session: Session) -> None:
        if (parent := await self.any_message(session)) is not None:
            await session.append_all(self.turn(), parent=parent.id)

    async def switch(self, session: Session) -> None:
        if (leaf := await self.any_message(session)) is not None:
            await session.switch(leaf.id)

    async def fork(self, session: Session) -> None:
        if len(self.sessions) < 4 and (at := await self.any_message(session)) is not None:
            self.sessions.append(f"s{len(self.sessions)}")
            await self.manager.fork(session.id, at.id, new_id=self.sessions[-1])

    async def delete(self, session: Session) -> None:
        if (gone := await self.any_message(session)) is not None:
            await session.delete_messages([gone.id])

    async def update(self, session: Session) -> None:
        old = await self.any_message(session)
        if old is not None and old.role == "user":
            [name] = names([old])
            number, version = map(int, name[1:].split("v"))
            await session.update_message(user(old.id, self.text(number, version + 1)))

    async def compact(self, session: Session) -> None:
        try:
            await (session.compact() if self.chance.random() < 0.8 else session.on_overflow(_OVERFLOW))
        except CompactionError:
            pass  # the witness sometimes fails

    async def undo(self, session: Session) -> None:
        if compactions := await session.compactions():
            await session.undo_compaction(self.chance.choice(compactions).id)


_OVERFLOW = FrontdeskError("prompt is too long")


async def run_covered(store: Store, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    witness = Witness(chance, failing=0.2)
    manager = SessionManager(store, namespace=f"covering-{new_id()}").with_compaction(
        witness,
        max_tokens=1000,
        tail_tokens=100,
        protect_head=chance.randrange(3),
        input_tokens=chance.choice([150, 60_000]),
        strategy=chance.choice(["summarize", "summarize", "hybrid"]),
        attempts=2,
        auto=False,
    )
    async with manager:
        work = Work(manager, chance)
        for _ in range(steps):
            await prove_covered(await work.step(), witness)
        for name in work.sessions:
            await prove_covered(manager.session(name), witness)


class CompactionCoverageTests:
    covered_histories: ClassVar[int] = 2_000
    """How many random histories to run: a store on which a step takes longer may run fewer."""

    async def test_every_message_is_visible_or_covered_once_and_each_summary_is_made_from_what_it_covers(
        self, store: Store
    ) -> None:
        for seed in range(12):
            await run_covered(store, seed, 40)
        await run_covered(store, 1091, 150)

    async def test_a_summary_made_in_chunks_has_each_message_complete_in_one_prompt(self, store: Store) -> None:
        # Each message counts as 10 tokens, but five of them count as 51: more than the 50 that one prompt may hold.
        witness = Witness(random.Random(0))
        manager = SessionManager(store, namespace=f"covering-{new_id()}").with_compaction(
            witness, max_tokens=1000, tail_tokens=10, protect_head=0, input_tokens=50, auto=False
        )
        async with manager:
            session = manager.session("s0")
            await session.append_all([(user, answer)[n % 2](f"id{n}", f"x x x m{n}v0") for n in range(10, 40)])
            assert await session.compact() is not None
            await prove_covered(session, witness)

    @pytest.mark.long
    @pytest.mark.parametrize("first", range(0, 2_000, 500))
    async def test_coverage_holds_in_many_random_histories(self, store: Store, first: int) -> None:
        for seed in range(first, first + self.covered_histories // 4):
            await run_covered(store, seed, 40)
