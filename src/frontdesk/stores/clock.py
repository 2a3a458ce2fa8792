"""The clock of leases and states where all processes that share a store run on one machine."""

from __future__ import annotations

import time


def now() -> int:
    """The machine's time in microseconds."""
    return time.time_ns() // 1000
