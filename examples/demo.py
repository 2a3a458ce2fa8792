"""Frontdesk in a minute: sessions in one SQLite file, a branch, a fork, a compaction and a search, shown as they happen.

Run it with `make run`; it needs no key and no network.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from frontdesk import Message, SessionKey, SessionManager

BOLD, DIM, GREEN, RESET = ("\033[1m", "\033[2m", "\033[32m", "\033[0m") if sys.stdout.isatty() else ("",) * 4


def title(text: str) -> None:
    print(f"\n{BOLD}{text}{RESET}")


def show(messages: list[Message], head: str | None = None) -> None:
    for message in messages:
        mark = f" {GREEN}<- head{RESET}" if message.id == head else ""
        role = "summary" if message.is_summary else message.role
        print(f"  {DIM}{role:>9}{RESET}  {message.text}{mark}")


async def converse(manager: SessionManager) -> None:
    title("1. A conversation is appended, message by message")
    session = await manager.create("Trip to Lisbon", id="trip", tags=["travel"])
    await session.append({"role": "system", "content": "You plan journeys."})
    asked = await session.append({"id": "q1", "role": "user", "content": "Three days in Lisbon in May: where to stay?"})
    await session.append({"role": "assistant", "content": "In Alfama, near the tram 28. Budget: about 120 euro a night."})
    last = await session.append({"role": "user", "content": "And what should I not miss?"})
    show(await session.history(), last.message.id)
    again = await session.append({"id": "q1", "role": "user", "content": "Three days in Lisbon in May: where to stay?"})
    print(f"  the same id again: inserted={again.inserted}, nothing is done twice")

    title("2. The user edits the first question: a branch; the first one stays")
    edited = await session.append(
        {"id": "q2", "role": "user", "content": "Three days in Porto in May: where to stay?"},
        parent=asked.message.parent_id,
    )
    await session.append({"role": "assistant", "content": "In Ribeira, by the river. Budget: about 95 euro a night."})
    show(await session.history())
    print(f"  leaves: {[leaf.text for leaf in await session.leaves()]}")
    print(f"  branches after the system message: {[m.id for m in await session.branches(edited.message.parent_id)]}")

    title("3. A fork: another session that shares the past and costs one row")
    fork = await manager.fork("trip", at="q2", name="Porto, by train", new_id="trip-by-train")
    await fork.append({"role": "user", "content": "I come by train from Madrid."})
    show(await fork.history())
    print(f"  the source still has {await session.path_length()} messages on its path")

    title("4. A compaction: a summary stands in, nothing is lost")
    await session.switch(last.message.id)
    compaction = await session.add_compaction("Lisbon, three days in May; Alfama, tram 28.", "q1", "q1")
    show(await session.history())
    print(f"  underneath: {[message.text async for message in session.expand(compaction.id)]}")


async def look_back(manager: SessionManager) -> None:
    title("5. Closed and opened again: everything is there")
    async for info in manager.iterate():
        print(f"  {info.id:<14} {info.name:<17} {info.message_count} messages, {info.token_count} tokens in view")

    title("6. Search: what was the budget?")
    for hit in await manager.search("budget euro"):
        print(f"  {hit.session_id}: {hit.snippet}")

    title("7. A key finds its session from any worker; usage is a ledger")
    key = SessionKey("concierge", "telegram", "@ana:example.org")
    await manager.session(key).append({"role": "user", "content": "Hello!"})
    found = await manager.get(key)
    print(f"  {key} -> session {found.id if found else None}")
    await manager.add_usage("trip", input_tokens=812, output_tokens=120, cost="0.00284", model="small", usage_id="call-1")
    usage = await manager.usage()
    print(f"  {usage.input_tokens} tokens in, {usage.output_tokens} out, {usage.cost} spent")


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="frontdesk-demo-") as folder:
        url = f"sqlite:///{Path(folder) / 'agents.db'}"
        print(f"{DIM}store: {url}{RESET}")
        async with SessionManager(url) as manager:
            await converse(manager)
        async with SessionManager(url) as manager:
            await look_back(manager)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(130)
