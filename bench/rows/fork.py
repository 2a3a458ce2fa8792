"""Fork a long session, and a fork of forks: as cheap as an append at any length, because nothing is copied."""

from __future__ import annotations

import itertools

from bench.contenders.frontdesk import Frontdesk
from bench.contenders.openai_agents import OpenAIAdvanced
from bench.measure import Case, interleave, one_by_one
from bench.run import Run
from bench.targets import Outcome, Table, at_most, flat

_ROUNDS = 50
_SHORT, _LONG, _ADVANCED = 100, 100_000, 10_000
_DEEP = 300
_DEEPER = 2
"""how much more a deep fork may cost: the view that it copies has a piece of each ancestor"""


async def measure(run: Run) -> Outcome:
    size, copied = run.size(_LONG), run.size(_ADVANCED)
    ours, advanced = Frontdesk(), OpenAIAdvanced(f"OpenAI Advanced branch at {copied:,}")
    async with run.opened(ours, advanced, on=run.fast):
        await run.fill(ours, "long", size)
        await run.fill(ours, "short", _SHORT)
        await run.fill(ours, "appended", _SHORT)
        await run.fill(advanced, "s", copied)
        deep = run.size(_DEEP)
        await _nest(run, ours, deep)
        append = one_by_one("Frontdesk append", ours.settings, 10, lambda: ours.append("appended", run.fresh()[0]))
        cases = [
            append,
            _fork(ours, "short", f"at {_SHORT:,}"),
            _fork(ours, "long", f"at {size:,}"),
            _fork(ours, "fork-1", "1 deep"),
            _fork(ours, f"fork-{deep}", f"{deep:,} deep"),
            _branch(advanced, copied),
        ]
        timings = await interleave(cases, run.rounds(_ROUNDS))
    table = Table("fork a session, tmpfs", "fork", timings, ours=f"Frontdesk fork at {size:,}")
    append_timing, short, long, once, often, _ = timings
    return Outcome(
        "fork",
        [table],
        [
            at_most(f"fork at {size:,} messages, against one append", 3, long, append_timing, floor=1),
            flat(f"fork at {size:,} messages, against at {_SHORT}", long, short),
            flat(f"fork {deep:,} forks deep, against 1 deep", often, once, _DEEPER),
        ],
    )


async def _nest(run: Run, contender: Frontdesk, depth: int) -> None:
    """Forks of forks, each with a few messages of its own."""
    source = "short"
    for number in range(1, depth + 1):
        fork = await contender.manager.fork(source, new_id=f"fork-{number}")
        await contender.append_many(fork.id, run.fresh(3))
        source = fork.id


def _fork(contender: Frontdesk, session: str, what: str) -> Case:
    return one_by_one(f"Frontdesk fork {what}", contender.settings, 10, lambda: contender.manager.fork(session))


def _branch(contender: OpenAIAdvanced, length: int) -> Case:
    """A branch from the middle of the conversation (a turn is a message of the user and its answer)."""
    session = contender.session("s")
    numbers = itertools.count()

    async def branch() -> None:
        await session.switch_to_branch("main")
        await session.create_branch_from_turn(length // 4, f"branch-{next(numbers)}")

    return one_by_one(contender.name, contender.settings, 1, branch)
