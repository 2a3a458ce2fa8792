"""The rows of the target table, one module each. A row sets up its contenders, times them and states its targets."""

from __future__ import annotations

from importlib import import_module

from bench.run import Run
from bench.targets import Outcome

ROWS = ("append", "concurrent", "growth", "batch", "history", "transcript", "fork", "page", "postgres", "turns")


async def measure(name: str, run: Run) -> Outcome:
    """Do one row. It is imported only now, because some peers take seconds to be imported."""
    outcome: Outcome = await import_module(f"bench.rows.{name}").measure(run)
    return outcome
