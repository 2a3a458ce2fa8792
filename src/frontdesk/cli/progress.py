"""Progress bars with a rate and the time left, for whatever takes long. Only in a terminal, on standard error."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_EVERY = 0.1
"""seconds between two updates of the screen"""


class ProgressBar:
    """A bar for `with`. `update(done, total)` may be called often; a total that is not known yet is None."""

    def __init__(self, what: str, unit: str, *, hidden: bool = False) -> None:
        self._what = what
        self._unit = unit
        self._hidden = hidden or not sys.stderr.isatty()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if not self._hidden:
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, done: int, total: int | None = None, what: str | None = None) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total, description=what or self._what)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
        from rich.text import Text

        unit = self._unit

        class Rate(ProgressColumn):
            def render(self, task: Task) -> Text:
                return Text("" if not task.speed else f"{task.speed:,.0f} {unit}/s", style="cyan")

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}"),
            Rate(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            refresh_per_second=1 / _EVERY,
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task(self._what, total=None)
