"""A process that takes turns as requested on its standard input, and prints what happens:
`turn_worker.py URL NAMESPACE TTL`.

- `hold NAME`: take the turn of the session, append NAME, print `held NAME` and keep the turn until the end;
- `write NAME`: append NAME in the current turn, and print `written NAME` or `lost NAME`;
- `take NAME`: in a new task, take the turn and append two messages, reading before and after; print `took NAME`;
- `ask NAME`: queue NAME for the holder of the turn, or else become the holder; print `asked NAME`.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack

from frontdesk import Session, SessionManager, Turn, TurnLostError


def say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def message(name: str) -> dict[str, str]:
    return {"id": name, "role": "user", "content": name}


async def write(turn: Turn, name: str) -> None:
    try:
        await turn.append(message(name))
        say("written", name)
    except TurnLostError:
        say("lost", name)


async def take(session: Session, name: str) -> None:
    async with session.turn() as turn:
        before = [message.id async for message in turn.transcript()]
        await turn.append(message(f"{name}-asked"))
        await asyncio.sleep(0)
        await turn.append(message(f"{name}-answered"))
        after = [message.id async for message in turn.transcript()]
        assert after == [*before, f"{name}-asked", f"{name}-answered"]
    say("took", name)


async def ask(session: Session, name: str) -> None:
    async with session.turn(on_busy="queue", message=message(name)) as turn:
        while turn is not None and (question := await turn.take_queued()) is not None:
            await turn.append(message(f"{question.id}-answered"))
    say("asked", name)


async def main(url: str, namespace: str, ttl: str) -> None:
    held: list[Turn] = []
    async with SessionManager(url, namespace=namespace) as manager, AsyncExitStack() as stack:
        session = manager.session("chat")
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        say("ready")
        while order := await asyncio.to_thread(sys.stdin.readline):
            what, name = order.split()
            if what == "hold":
                held.append(await stack.enter_async_context(session.turn(ttl=float(ttl))))
                await held[-1].append(message(name))
                say("held", name)
            elif what == "write":
                await write(held[-1], name)
            else:
                tasks.create_task((take if what == "take" else ask)(session, name))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
