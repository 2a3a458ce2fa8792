"""`python -m bench`: measure, print which targets are met, and write results.json and results.png.

A full run writes them next to this file; a quick, partial or pinned run writes them to build/bench.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.environment import describe
from bench.plot import draw
from bench.report import print_outcome, print_summary, write_json
from bench.rows import LONG_ROWS, ROWS, measure
from bench.run import Run, new_run
from bench.targets import Outcome

_HERE = Path(__file__).parent
_BUILD = _HERE.parent / "build" / "bench"


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", metavar="ROW,ROW", help=f"some of: {', '.join((*ROWS, *LONG_ROWS))}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages and a fifth of the rounds")
    parser.add_argument("--pinned", action="store_true", help="use one core, so that threads do not wake another one")
    arguments = parser.parse_args(given)
    arguments.rows = arguments.only.split(",") if arguments.only else list(ROWS)
    if unknown := [name for name in arguments.rows if name not in (*ROWS, *LONG_ROWS)]:
        parser.error(f"no such row: {', '.join(unknown)}; the rows are {', '.join((*ROWS, *LONG_ROWS))}")
    return arguments


async def _measure(run: Run, names: Sequence[str]) -> list[Outcome]:
    outcomes = []
    for name in names:
        print(f"== {name}", flush=True)
        run.notes = []
        outcome = await measure(name, run)
        outcome.notes = run.notes
        print_outcome(outcome)
        outcomes.append(outcome)
    return outcomes


def main(given: Sequence[str]) -> None:
    arguments = _arguments(given)
    if arguments.pinned:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    start = time.perf_counter()
    with new_run(quick=arguments.quick) as run:
        environment = describe(run)
        for what, value in environment.items():
            print(f"{what}: {value}")
        outcomes = asyncio.run(_measure(run, arguments.rows))
    seconds = time.perf_counter() - start
    print_summary(outcomes)
    folder = _BUILD if arguments.quick or arguments.only or arguments.pinned else _HERE
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "results.json", environment, outcomes, seconds)
    draw(folder / "results.png", outcomes)
    print(f"{seconds:.0f} s; see {folder.relative_to(_HERE.parent)}/results.json and results.png")


if __name__ == "__main__":
    main(sys.argv[1:])
