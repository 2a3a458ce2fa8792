"""A whole conversation, read and decoded: the cost of an export or an audit."""

from __future__ import annotations

from bench.contenders import Contender
from bench.contenders.bare_store import BareStore
from bench.contenders.frontdesk import Frontdesk
from bench.contenders.openai_agents import OpenAISQLite
from bench.contenders.raw_sqlite import RawSQLite
from bench.measure import Case, interleave, one_by_one
from bench.run import Run
from bench.targets import Outcome, Table, at_least, at_most

_ROUNDS = 30
_LENGTH = 10_000
_REASON = "rows have six columns instead of one, and come one by one, so that no length needs more memory"


async def measure(run: Run) -> Outcome:
    size = run.size(_LENGTH)
    frontdesk = Frontdesk()
    contenders: list[Contender] = [RawSQLite(), frontdesk, OpenAISQLite()]
    async with run.opened(*contenders, on=run.fast):
        for contender in contenders:
            await run.fill(contender, "s", size)
        cases = [_case(contender, size) for contender in contenders]
        with BareStore(frontdesk) as bare:
            cases.append(one_by_one(bare.name, bare.settings, 1, lambda: bare.read("s")))
            timings = await interleave(cases, run.rounds(_ROUNDS))
    table = Table(f"the whole transcript of {size:,} messages, decoded, tmpfs", "transcript", timings, ours="Frontdesk")
    raw, ours, peer, least = timings
    what = f"whole transcript of {size:,} messages"
    floor, most = least.cpu_us / raw.cpu_us, peer.cpu_us / least.cpu_us
    return Outcome(
        "transcript",
        [table],
        [
            at_most(f"{what}, against raw select + orjson", 1.45, ours, raw, floor=floor, reason=_REASON),
            at_least(f"{what}, against OpenAI SQLiteSession", 1.4, ours, peer, floor=most, reason=_REASON),
        ],
    )


def _case(contender: Contender, size: int) -> Case:
    async def read() -> None:
        found = await contender.read_all("s")
        if found != size:
            raise AssertionError(f"{contender.name} returned {found} messages")

    return one_by_one(contender.name, contender.settings, 1, read)
