"""Frontdesk in a minute: sessions in one SQLite file, step by step. Needs no API key and no network.

Run it with `make run`.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from frontdesk import Message, Session, SessionKey, SessionManager
from frontdesk.models import extractive

BOLD, DIM, GREEN, RESET = ("\033[1m", "\033[2m", "\033[32m", "\033[0m") if sys.stdout.isatty() else ("",) * 4


def title(text: str) -> None:
    print(f"\n{BOLD}{text}{RESET}")


def show(messages: Sequence[Message], head: str | None = None) -> None:
    for message in messages:
        mark = f" {GREEN}<- head{RESET}" if message.id == head else ""
        role = "summary" if message.is_summary else message.role
        text = message.text if len(message.text) < 100 else message.text[:97] + "..."
        print(f"  {DIM}{role:>9}{RESET}  {' '.join(text.split())}{mark}")


def user(id: str, text: str) -> dict[str, str]:
    return {"id": id, "role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def open_desk(url: str) -> SessionManager:
    return (
        SessionManager(url)
        .with_context("soul", default_content="You plan journeys.", readonly=True)
        .with_context("memory", description="Learned facts", max_tokens=200)
        .with_cached_prompt()
        .with_compaction(extractive(), max_tokens=2_000, tail_tokens=150, auto=False)
    )


async def branch_and_fork(manager: SessionManager) -> Session:
    title("1. A conversation is appended, message by message")
    session = await manager.create("Trip to Lisbon", id="trip", tags=["travel"])
    await session.append({"id": "hello", "role": "assistant", "content": "Where shall we go?"})
    await session.append(user("lisbon", "Three days in Lisbon in May: where to stay?"))
    await session.append(assistant("In Alfama, near the tram 28. Budget: about 120 euro a night."))
    last = await session.append(user("next", "And what should I not miss?"))
    show(await session.history(), last.message.id)
    again = await session.append(user("next", "And what should I not miss?"))
    print(f"  the same id again: inserted={again.inserted}, nothing is stored twice")

    title("2. The user edits a question: that starts a branch, and the first one stays")
    await session.append(user("porto", "Three days in Porto in May: where to stay?"), parent="hello")
    await session.append(assistant("In Ribeira, by the river. Budget: about 95 euro a night."))
    show(await session.history())
    print(f"  leaves: {[leaf.text for leaf in await session.leaves()]}")

    title("3. A fork: another session that shares the past; no message is copied")
    fork = await manager.fork("trip", at="porto", name="Porto, by train", new_id="trip-by-train")
    await fork.append(user("train", "I come by train from Madrid."))
    show(await fork.history())
    print(f"  the original session still has {await session.path_length()} messages on its path")
    return session


async def remember(session: Session) -> None:
    title("4. A tool call updates a context block; the frozen prompt stays the same until it is refreshed")
    frozen = await session.freeze_system_prompt()
    print(f"{DIM}{frozen}{RESET}")
    update = (await session.tools())["update_context"]
    print(f"  the tool answers: {await update(label='memory', content='Prefers trains to planes.')}")
    print(f"  the prompt is byte for byte the same: {await session.freeze_system_prompt() == frozen}; refreshed:")
    print(f"{DIM}{await session.refresh_system_prompt()}{RESET}")


async def compact(session: Session) -> None:
    title("5. A compaction: a summary replaces messages in the view, and nothing is lost")
    for day in range(1, 9):
        await session.append(user(f"day-{day}", f"Day {day}: what about museum number {day * 7} near tram stop {day}?"))
        await session.append(assistant(f"Open from 10 to 18; {day + 4} euro. We decided to go at {day + 9}."))
    before = await session.context_usage()
    result = await session.compact()
    await session.freeze_system_prompt()
    after = await session.context_usage()
    assert result is not None
    show(await session.history())
    print(f"  {before.used} -> {after.used} tokens; {result.messages_covered} messages are covered, and still there:")
    show([message async for message in session.expand(result.id)][:2])
    expand = (await session.tools())["expand_summary"]
    print(f"  the model can expand it: {(await expand(question='museum 21')).splitlines()[0]}")


async def look_back(manager: SessionManager) -> None:
    title("6. Closed and opened again: everything is there")
    async for info in manager.iterate():
        print(f"  {info.id:<14} {info.name:<17} {info.message_count} messages, {info.token_count} tokens in view")

    title("7. Search with a question: what was the budget for a night?")
    for hit in await manager.search("What was the budget for a night?", limit=2):
        print(f"  {hit.session_id}: {hit.snippet}")

    title("8. A key finds its session from any worker; usage is recorded exactly")
    key = SessionKey("concierge", "telegram", "@ana:example.org")
    await manager.session(key).append(user("hi", "Hello!"))
    found = await manager.get(key)
    print(f"  {key} -> session {found.id if found else None}")
    await manager.add_usage("trip", input_tokens=812, output_tokens=120, cost="0.00284", model="small", usage_id="1")
    usage = (await manager.usage()).total
    print(f"  {usage.input_tokens} tokens in, {usage.output_tokens} out, {usage.cost} spent")


@dataclass
class Basket:
    """What a guest has chosen; any dataclass will do."""

    nights: int = 0


async def run_the_desk(manager: SessionManager) -> None:
    title("9. A turn: one worker at a time extends a session, and a late worker cannot write")
    key = SessionKey("concierge", "telegram", "@ana:example.org")
    async with manager.session(key).turn() as turn:
        await turn.append(assistant("Welcome back, Ana. Three nights in Porto, as before?"))
        print("  we have the turn; other workers wait for it, and a worker that lost it cannot write")

    title("10. A typed state that loses no update, and /new: the old session is kept")
    baskets = manager.states(Basket)
    await baskets.get_or_create(turn.id)
    await asyncio.gather(*(baskets.update(turn.id, lambda it: Basket(it.nights + 1)) for _ in range(3)))
    print(f"  {await baskets.get(turn.id)}")
    fresh = await manager.new(key)
    ended = await manager.get(turn.id)
    print(f"  before: {ended and ended.status} ({ended and ended.end_reason}); now: {(await fresh.info()).status}")
    stats = await manager.stats()
    print(f"  {stats.sessions} sessions, {stats.messages} messages: {dict(stats.by_status)}")


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="frontdesk-demo-") as folder:
        url = f"sqlite:///{Path(folder) / 'agents.db'}"
        print(f"{DIM}store: {url}{RESET}")
        async with open_desk(url) as manager:
            session = await branch_and_fork(manager)
            await remember(session)
            await compact(session)
        async with open_desk(url) as manager:
            await look_back(manager)
            await run_the_desk(manager)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(130)
