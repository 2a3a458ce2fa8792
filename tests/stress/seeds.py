"""Seeds of random faults. Each is printed, so that a failure shows its own: FRONTDESK_FAULT_SEED=... repeats that one
alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

_NAME = "FRONTDESK_FAULT_SEED"


def seeds(count: int) -> list[int]:
    """The same ones in every run."""
    return [int(os.environ[_NAME])] if _NAME in os.environ else list(range(1, count + 1))


def seeds_for(seconds: float) -> Iterator[int]:
    """Others in every run, until the time is over."""
    if _NAME in os.environ:
        yield from seeds(1)
        return
    seed, end = int(time.time()), time.monotonic() + seconds
    while time.monotonic() < end:
        seed += 1
        print(f"{_NAME}={seed}", flush=True)
        yield seed
