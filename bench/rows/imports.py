"""`import frontdesk` in a new interpreter: what every short program pays, such as a command."""

from __future__ import annotations

import asyncio
import os
import resource
import sys

from bench.measure import Case, interleave, one_by_one
from bench.run import Run
from bench.targets import Outcome, Table, within

_ROUNDS = 15
_REASON = "it has 200 modules with 100 records; loading them one by one when they are used would move that into calls"
_EMPTY, _NEEDED, _OURS = "an empty program", "what Frontdesk imports", "Frontdesk"
_PROGRAMS = {
    _EMPTY: "pass",
    _NEEDED: "import asyncio, dataclasses, datetime, decimal, importlib.resources, logging, ssl, apsw, msgspec",
    _OURS: "from frontdesk import SessionManager",
}
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""the first round, which does not count, writes compiled modules"""


async def measure(run: Run) -> Outcome:
    cases = [_case(name, program) for name, program in _PROGRAMS.items()]
    timings = await interleave(cases, run.rounds(_ROUNDS), cpu_clock=_time_of_children)
    table = Table("import in a new interpreter", "program", timings, ours=_OURS)
    target = within("import of frontdesk", 150, table[_OURS], floor=table[_NEEDED].cpu_us / 1000, reason=_REASON)
    return Outcome("imports", [table], [target])


def _case(name: str, program: str) -> Case:
    async def run() -> None:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=_ENVIRONMENT)
        if await process.wait():
            raise AssertionError(f"{name}: {program!r} failed")

    return one_by_one(name, "compiled", 1, run)


def _time_of_children() -> int:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9)
