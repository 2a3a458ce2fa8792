"""The rows of the target table, one module each. A row sets up its contenders, times them and states its targets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bench.rows import append, batch, concurrent, fork, growth, history, page, postgres, transcript
from bench.run import Run
from bench.targets import Outcome

ROWS: dict[str, Callable[[Run], Awaitable[Outcome]]] = {
    "append": append.measure,
    "concurrent": concurrent.measure,
    "growth": growth.measure,
    "batch": batch.measure,
    "history": history.measure,
    "transcript": transcript.measure,
    "fork": fork.measure,
    "page": page.measure,
    "postgres": postgres.measure,
}
