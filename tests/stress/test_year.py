"""A year of sweeps with a simulated clock: every session ends on time, and memory does not grow with their number."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stress.year_worker import ARCHIVED_AFTER, DAYS, DELETED_AFTER

MEBIBYTE = 1024
"""in the unit of the peak, KiB"""


def a_year(folder: Path, sessions: int, sweeps_a_day: int) -> dict[str, int]:
    worker = Path(__file__).parent / "year_worker.py"
    url = f"sqlite:///{folder}/{sessions}.db?synchronous=normal"
    done = subprocess.run(
        [sys.executable, str(worker), url, str(sessions), str(sweeps_a_day)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


def prove_each_ended_in_its_time(year: dict[str, int], sessions: int) -> None:
    def begun_by(day: int) -> int:
        return sessions * day // DAYS

    # The sessions of the day that is exactly the threshold before the last sweep are due as well.
    archived = begun_by(DAYS - ARCHIVED_AFTER.days + 1)
    deleted = begun_by(DAYS - ARCHIVED_AFTER.days - DELETED_AFTER.days + 1)
    assert (year["archived"], year["deleted"], year["left"]) == (archived, deleted, sessions - deleted)


def test_a_year_of_sweeps_ends_every_session_on_time(tmp_path: Path) -> None:
    prove_each_ended_in_its_time(a_year(tmp_path, 730, 1), 730)


@pytest.mark.long
def test_a_year_of_hourly_sweeps_over_100_000_sessions_takes_no_more_memory_than_over_1_000(tmp_path: Path) -> None:
    few, many = a_year(tmp_path, 1_000, 24), a_year(tmp_path, 100_000, 24)
    prove_each_ended_in_its_time(many, 100_000)
    assert many["peak"] - few["peak"] < 64 * MEBIBYTE
