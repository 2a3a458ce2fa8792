"""What the stress tests share: worker processes, and a check that a namespace is valid."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from frontdesk import SessionManager

WORKER = Path(__file__).with_name("worker.py")


@contextmanager
def working(url: str, namespace: str, work: str, name: str, many: int = 0) -> Iterator[subprocess.Popen[str]]:
    """A worker process; killed if it is still running at the end."""
    command = [sys.executable, str(WORKER), url, namespace, work, name, str(many)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def check_namespace(manager: SessionManager) -> dict[str, list[str]]:
    """Check that the counters of every session are right; returns the ids of each path."""
    paths: dict[str, list[str]] = {}
    async for info in manager.iterate(limit=1000):
        session = manager.session(info.id)
        history = await session.history()
        assert info.token_count == sum(message.tokens for message in history), info.id
        assert info.compaction_count == len(await session.compactions()), info.id
        stored: set[str] = set()
        for leaf in await session.leaves():
            seen = [message.id async for message in session.transcript(leaf=leaf.id)]
            assert len(seen) == len(set(seen)) == await session.path_length(leaf.id)
            stored.update(seen)
        assert info.message_count == len(stored), info.id
        paths[info.id] = [message.id async for message in session.transcript()]
    return paths
