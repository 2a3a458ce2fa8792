"""The model's view of a long session: a summary of nearly all of it, and the last 50 messages."""

from __future__ import annotations

from bench.contenders import Contender
from bench.contenders.bare_store import BareStore
from bench.contenders.frontdesk import Frontdesk
from bench.contenders.openai_agents import OpenAIAdvanced, OpenAISQLite
from bench.contenders.raw_sqlite import RawSQLite
from bench.measure import Case, interleave, one_by_one
from bench.payload import message_id
from bench.run import Run
from bench.targets import Outcome, Table, at_most, flat

_ROUNDS = 50
_SHORT, _LONG, _ADVANCED = 100, 100_000, 10_000
_SHOWN = 50
_COMPACTIONS = 20
_REASON = "rows have six columns instead of one, and become messages"
_SUMMARY = "They looked for a parcel that had gone missing, found it, and agreed on a refund for the damaged box. " * 10


async def measure(run: Run) -> Outcome:
    size = run.size(_LONG)
    raw, openai = RawSQLite(), OpenAISQLite()
    short, long = Frontdesk(f"Frontdesk at {_SHORT}"), Frontdesk(f"Frontdesk at {size:,}")
    advanced = OpenAIAdvanced(f"OpenAI AdvancedSQLiteSession at {run.size(_ADVANCED):,}")
    async with run.opened(raw, openai, short, long, advanced, on=run.fast):
        for contender in (raw, openai, long):
            await run.fill(contender, "s", size)
        await run.fill(short, "s", _SHORT)
        await run.fill(advanced, "s", run.size(_ADVANCED))
        await _compact(short, _SHORT, 1)
        await _compact(long, size, _COMPACTIONS)
        cases = [_last(raw, 20), _view(short), _view(long), _last(openai, 20), _last(advanced, 1)]
        with BareStore(long) as bare:
            cases.append(one_by_one(bare.name, bare.settings, 20, lambda: bare.read("s")))
            timings = await interleave(cases, run.rounds(_ROUNDS))
    table = Table(
        f"history: a summary and the last {_SHOWN} of {size:,} messages (the others: the last {_SHOWN}), tmpfs",
        "view",
        timings,
        ours=long.name,
    )
    return Outcome(
        "history",
        [table],
        [
            at_most(
                f"history at {size:,} messages, summary + {_SHOWN}, against {_SHOWN} raw rows",
                2.2,
                table[long.name],
                table["raw sqlite3"],
                floor=table[BareStore.name].cpu_us / table["raw sqlite3"].cpu_us,
                reason=_REASON,
            ),
            flat(f"history at {size:,} messages, against at {_SHORT}", table[long.name], table[short.name], 1.2),
        ],
    )


async def _compact(contender: Frontdesk, size: int, times: int) -> None:
    """Add compactions as in a long conversation: each covers the range of the one before it, and more."""
    session = contender.session("s")
    for turn in range(1, times + 1):
        last = (size - _SHOWN) * turn // times - 1
        await session.add_compaction(_SUMMARY, message_id(0), message_id(last))


def _view(contender: Frontdesk) -> Case:
    session = contender.session("s")

    async def view() -> None:
        messages = [found.raw for found in await session.history()]
        if len(messages) != _SHOWN + 1:
            raise AssertionError(f"{len(messages)} messages in the view of {contender.name}")

    return one_by_one(contender.name, contender.settings, 20, view)


def _last(contender: Contender, operations: int) -> Case:
    async def last() -> None:
        found = await contender.read_last("s", _SHOWN)
        if found != _SHOWN:
            raise AssertionError(f"{contender.name} returned {found} messages")

    return one_by_one(contender.name, contender.settings, operations, last)
