"""The quality and speed of search: `python -m bench.search [--quick] [--only PART,PART]`.

`relevance`: with LoCoMo (see `--locomo`), the share of the evidence for its questions among the first hits. `sqlite`
and `postgresql`: the speed of indexing and searching a generated corpus. `vectors`: the speed of search by meaning.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from bench.relevance import measure_relevance
from bench.speed import measure_speed
from bench.vectors import measure_vectors

_LOCOMO = Path("../shared/data/locomo_dev.json")
_STORES = ("sqlite", "postgresql")
_PARTS = ("relevance", *_STORES, "vectors")


async def _run(arguments: argparse.Namespace) -> None:
    parts = arguments.only.split(",")
    if "relevance" in parts:
        if arguments.locomo.exists():
            await measure_relevance(arguments.locomo)
        else:
            print(f"no {arguments.locomo}: recall is not measured")
    if stores := [store for store in _STORES if store in parts]:
        await measure_speed(20_000 if arguments.quick else arguments.messages, stores)
    if "vectors" in parts:
        await measure_vectors(10_000 if arguments.quick else 100_000, arguments.locomo)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.search", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small corpus")
    parser.add_argument("--only", default=",".join(_PARTS), help="some of: %(default)s")
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many to search in (default: %(default)s)")
    parser.add_argument("--locomo", type=Path, default=_LOCOMO, help="a LoCoMo file (default: %(default)s)")
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
