"""Fork a long session: as cheap as an append, whatever its length, because nothing is copied."""

from __future__ import annotations

import itertools

from bench.contenders.frontdesk import Frontdesk
from bench.contenders.openai_agents import OpenAIAdvanced
from bench.measure import Case, interleave, one_by_one
from bench.run import Run
from bench.targets import FLAT, Outcome, Table, at_most

_ROUNDS = 50
_SHORT, _LONG, _ADVANCED = 100, 100_000, 10_000


async def measure(run: Run) -> Outcome:
    size, copied = run.size(_LONG), run.size(_ADVANCED)
    ours, advanced = Frontdesk(), OpenAIAdvanced(f"OpenAI Advanced branch at {copied:,}")
    async with run.opened(ours, advanced, on=run.fast):
        await run.fill(ours, "long", size)
        await run.fill(ours, "short", _SHORT)
        await run.fill(ours, "appended", _SHORT)
        await run.fill(advanced, "s", copied)
        append = one_by_one("Frontdesk append", ours.settings, 10, lambda: ours.append("appended", run.fresh()[0]))
        cases = [append, _fork(ours, "short", _SHORT), _fork(ours, "long", size), _branch(advanced, copied)]
        timings = await interleave(cases, run.rounds(_ROUNDS))
    table = Table("fork a session, tmpfs", "fork", timings, ours=f"Frontdesk fork at {size:,}")
    append_timing, short, long, _ = timings
    return Outcome(
        "fork",
        [table],
        [
            at_most(f"fork at {size:,} messages, against one append", 3, long, append_timing),
            at_most(f"fork at {size:,} messages, against at {_SHORT}", FLAT, long, short),
        ],
    )


def _fork(contender: Frontdesk, session: str, length: int) -> Case:
    name = f"Frontdesk fork at {length:,}"
    return one_by_one(name, contender.settings, 10, lambda: contender.manager.fork(session))


def _branch(contender: OpenAIAdvanced, length: int) -> Case:
    """A branch from the middle of the conversation (a turn is a message of the user and its answer)."""
    session = contender.session("s")
    numbers = itertools.count()

    async def branch() -> None:
        await session.switch_to_branch("main")
        await session.create_branch_from_turn(length // 4, f"branch-{next(numbers)}")

    return one_by_one(contender.name, contender.settings, 1, branch)
