"""Runs the command `frontdesk` as users do: in a process, with pipes or in a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TIMEOUT = 120


class Command:
    """A finished command: its exit code and what it printed."""

    def __init__(
        self,
        arguments: Sequence[object],
        folder: Path,
        environment: dict[str, str],
        *,
        store: object = None,
        input: str = "",
    ) -> None:
        if store is not None:
            environment = {**environment, "FRONTDESK_STORE": str(store)}
        done = subprocess.run(
            command_line(*arguments),
            cwd=folder,
            env=environment,
            input=input,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def rows(self) -> list[Any]:
        """The JSON lines that it printed."""
        assert self.code == 0, self.err
        return [json.loads(line) for line in self.out.splitlines()]


def command_line(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "frontdesk", *map(str, arguments)]


def in_terminal(*arguments: object, store: object, answer: str = "", columns: int = 160) -> tuple[int, bytes]:
    """The exit code of a command in a terminal, and every byte that the terminal got. The answer is typed when the
    command asks."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(FRONTDESK_STORE=str(store), COLUMNS=str(columns), TERM="xterm-256color")
        os.execv(sys.executable, command_line(*arguments))
    seen = b""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            try:
                block = os.read(terminal, 65_536)
            except OSError:  # the command has ended, and with it the other side of the terminal
                break
            if not block:
                break
            seen += block
            if answer and b"[y/N]: " in seen:
                os.write(terminal, answer.encode())
                answer = ""
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), seen
