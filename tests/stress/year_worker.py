"""A process of `test_year`: a year of conversations and sweeps in minutes, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from datetime import UTC, datetime, timedelta

from frontdesk import SessionManager

DAYS = 365
ARCHIVED_AFTER, DELETED_AFTER = timedelta(days=7), timedelta(days=30)


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


async def live(url: str, sessions: int, sweeps_a_day: int) -> dict[str, int]:
    """New guests every day, and what has happened to them after a year."""
    clock = Clock()
    desk = SessionManager(url, clock=clock)
    desk = desk.with_lifecycle(archive_after=ARCHIVED_AFTER, delete_after=DELETED_AFTER, every=None)
    archived = deleted = begun = 0
    async with desk:
        for day in range(DAYS):
            names = [f"guest-{number}" for number in range(begun, sessions * (day + 1) // DAYS)]
            begun += len(names)
            await asyncio.gather(*(desk.append(name, {"role": "user", "content": "hello"}) for name in names))
            for _ in range(sweeps_a_day):
                clock.time += timedelta(days=1) / sweeps_a_day
                report = await desk.sweep()
                archived, deleted = archived + report.archived, deleted + report.deleted
        stats = await desk.stats()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"archived": archived, "deleted": deleted, "left": stats.sessions, "peak": peak}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(live(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
