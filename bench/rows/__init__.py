"""The rows of the target table, one module each. A row sets up its contenders, times them and states its targets."""

from __future__ import annotations

from importlib import import_module

from bench.run import Run
from bench.targets import Outcome

ROWS = (
    *("append", "concurrent", "growth", "batch", "history", "transcript", "fork", "page", "postgres"),
    *("turns", "states", "storage", "idle", "imports", "server", "inspector", "langgraph", "frameworks"),
)
LONG_ROWS = ("large",)
"""those that take too long for every run"""


async def measure(name: str, run: Run) -> Outcome:
    """Measure one row. Its module is imported only now, because some peers take seconds to import."""
    outcome: Outcome = await import_module(f"bench.rows.{name}").measure(run)
    return outcome
