"""A whole conversation, read and decoded: the cost of an export or an audit."""

from __future__ import annotations

from bench.contenders import Contender
from bench.contenders.frontdesk import Frontdesk
from bench.contenders.openai_agents import OpenAISQLite
from bench.contenders.raw_sqlite import RawSQLite
from bench.measure import Case, interleave, one_by_one
from bench.run import Run
from bench.targets import Outcome, Table, at_least, at_most

_ROUNDS = 30
_LENGTH = 10_000
_FLOOR = 1.25
"""times raw sqlite3: with a `Message` for each row"""


async def measure(run: Run) -> Outcome:
    size = run.size(_LENGTH)
    contenders: list[Contender] = [RawSQLite(), Frontdesk(), OpenAISQLite()]
    async with run.opened(*contenders, on=run.fast):
        for contender in contenders:
            await run.fill(contender, "s", size)
        timings = await interleave([_case(contender, size) for contender in contenders], run.rounds(_ROUNDS))
    table = Table(f"the whole transcript of {size:,} messages, decoded, tmpfs", "transcript", timings, ours="Frontdesk")
    raw, ours, peer = timings
    most = peer.cpu_us / (_FLOOR * raw.cpu_us)
    what = f"whole transcript of {size:,} messages"
    return Outcome(
        "transcript",
        [table],
        [
            at_most(f"{what}, against raw select + orjson", 1.45, ours, raw, floor=_FLOOR),
            at_least(f"{what}, against OpenAI SQLiteSession", 1.4, ours, peer, floor=most),
        ],
    )


def _case(contender: Contender, size: int) -> Case:
    async def read() -> None:
        found = await contender.read_all("s")
        if found != size:
            raise AssertionError(f"{contender.name} returned {found} messages")

    return one_by_one(contender.name, contender.settings, 1, read)
