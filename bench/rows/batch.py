"""Append a hundred messages in one call: the cost per message in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bench.contenders import Contender
from bench.contenders.bare_store import BareStore
from bench.contenders.frontdesk import Frontdesk, indexing_of
from bench.contenders.openai_agents import OpenAISQLite
from bench.contenders.raw_sqlite import RawSQLite
from bench.measure import Case, interleave
from bench.run import Run
from bench.targets import Outcome, Table, at_most

_ROUNDS = 50
_BATCH = 100
_CALLS = 5
_REASON = "half of it checks each message and estimates its tokens, which the raw rows do without"


async def measure(run: Run) -> Outcome:
    ours = Frontdesk()
    contenders: list[Contender] = [RawSQLite(), ours, OpenAISQLite()]
    async with run.opened(*contenders, on=run.fast):
        cases = [_case(run, contender) for contender in contenders]
        await ours.append("s", run.fresh()[0])
        with BareStore(ours) as bare:
            cases.append(_repeated(bare.name, bare.settings, lambda: bare.append("s", run.fresh(_BATCH))))
            timings = await interleave(cases, run.rounds(_ROUNDS))
    table = Table(f"append {_BATCH} messages in one call, tmpfs", "message", timings, ours="Frontdesk")
    what = f"batch of {_BATCH}, against raw executemany"
    raw = table["raw sqlite3"]
    floor = table[BareStore.name].cpu_us / raw.cpu_us
    target = at_most(what, 3.8, table["Frontdesk"], raw, floor=floor, reason=_REASON)
    return Outcome("batch", [table], [target])


def _case(run: Run, contender: Contender) -> Case:
    name, settings = contender.name, contender.settings
    return _repeated(name, settings, lambda: contender.append_many("s", run.fresh(_BATCH)), indexing_of(contender))


def _repeated(
    name: str,
    settings: str,
    append: Callable[[], Awaitable[object]],
    after: Callable[[], Awaitable[object]] | None = None,
) -> Case:
    async def work() -> None:
        for _ in range(_CALLS):
            await append()

    return Case(name, settings, _CALLS * _BATCH, work, after)
