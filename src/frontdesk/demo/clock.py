"""A clock that the scenes of the demo move, so that a conversation of last week has the times of last week."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class DemoClock:
    """The `clock` of a manager. It shows the time that was set last, and the real time before that."""

    def __init__(self) -> None:
        self._shown: datetime | None = None

    def __call__(self) -> datetime:
        return datetime.now(UTC) if self._shown is None else self._shown

    def set(self, moment: datetime) -> None:
        self._shown = moment

    def advance(self, seconds: float) -> None:
        self._shown = self() + timedelta(seconds=seconds)

    def release(self) -> None:
        """Show the real time again."""
        self._shown = None
