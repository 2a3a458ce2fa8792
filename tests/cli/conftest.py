"""A small demo in a SQLite file, and the real command in a subprocess."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from frontdesk.demo import DemoClock, demo_manager, fill
from tests.cli.command import Command


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the demo, which tests copy before they change it."""
    path = tmp_path_factory.mktemp("demo") / "demo.db"

    async def write() -> None:
        clock = DemoClock()
        async with demo_manager(f"sqlite:///{path}", clock=clock) as manager:
            await fill(manager, clock, long_session=3_000, sessions=6)

    asyncio.run(write())
    return path


@pytest.fixture
def demo(filled: Path, tmp_path: Path) -> Path:
    """A copy of the demo."""
    return Path(shutil.copy(filled, tmp_path / "demo.db"))


@pytest.fixture
def frontdesk(tmp_path: Path) -> Callable[..., Command]:
    """Runs the command in an empty folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FRONTDESK")}
    return lambda *arguments, **options: Command(arguments, tmp_path, environment, **options)
