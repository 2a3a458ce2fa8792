"""A real PgBouncer in transaction mode, in front of the PostgreSQL server of the tests, gone when its owner is gone."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from frontdesk.errors import ConfigurationError, StoreUnavailableError
from tests.servers.postgres import free_port, unprivileged_account

FETCHED = Path(__file__).parents[2] / ".cache" / "pgbouncer"
SERVER_CONNECTIONS = 3

_START_SECONDS = 30
_POLL_SECONDS = 0.02

# Waits for a line or the end of its standard input: the owner is done, or died in whatever way.
_GUARDIAN = """
"$1" "$2" > "$3/log" 2>&1 &
read -r _
kill -KILL $!
wait
rm -rf "$3"
"""


class TransactionPooler:
    """Few connections to the server, given to whoever begins a transaction, in turn: two of them that follow each other
    never meet the same one. `server_url` names the server, and as whom to log in there."""

    def __init__(self, server_url: str) -> None:
        self._server = urlsplit(server_url)
        self._account = unprivileged_account()
        self._guardian: subprocess.Popen[bytes] | None = None
        self._port = 0

    def url(self, database_url: str) -> str:
        """The way to a database through the pooler; the options that its URL may have are left out."""
        return f"postgresql://anyone@127.0.0.1:{self._port}{urlsplit(database_url).path}"

    def __enter__(self) -> Self:
        # A directory that root made elsewhere might lie below one that the pooler's account cannot enter.
        directory = Path(tempfile.mkdtemp(prefix="frontdesk-pooler-", dir="/tmp" if self._account else None))
        surroundings: dict[str, Any] = {"cwd": directory, "start_new_session": True}
        try:
            program, libraries = _copied(directory)
            self._port = free_port()
            settings = directory / "pgbouncer.ini"
            settings.write_text(self._settings(program, libraries))
            if self._account:
                surroundings |= {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
                for path in (directory, *directory.rglob("*")):
                    os.chown(path, self._account.pw_uid, self._account.pw_gid)
            self._guardian = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDIAN, "guardian", str(program), str(settings), str(directory)],
                stdin=subprocess.PIPE,
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", **libraries},
                **surroundings,
            )
        except BaseException:
            shutil.rmtree(directory)
            raise
        try:
            self._await_ready(directory / "log")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._guardian:
            self._guardian.communicate(b"\n")
            self._guardian = None

    def _settings(self, program: Path, libraries: dict[str, str]) -> str:
        server = {
            "host": self._server.hostname,
            "port": self._server.port or 5432,
            "user": _quoted(self._server.username),
            "password": _quoted(self._server.password),
        }
        options = {
            "listen_addr": "127.0.0.1",
            "listen_port": self._port,
            "unix_socket_dir": "",
            "auth_type": "any",
            "pool_mode": "transaction",
            "default_pool_size": SERVER_CONNECTIONS,
            "server_round_robin": 1,
            "max_client_conn": 1000,
        }
        if _version(program, libraries) >= (1, 21):
            # It can learn the names of statements. Not every pooler does, and nothing here may depend on it.
            options["max_prepared_statements"] = 0
        lines = (f"{name} = {value}" for name, value in options.items())
        target = " ".join(f"{name}={value}" for name, value in server.items() if value)
        return "\n".join(["[databases]", f"* = {target}", "[pgbouncer]", *lines, ""])

    def _await_ready(self, log: Path) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(_POLL_SECONDS)
        raise StoreUnavailableError(f"PgBouncer did not start: {log.read_text(errors='replace')[-2000:].strip()}")


def _copied(directory: Path) -> tuple[Path, dict[str, str]]:
    """The program, and what its environment has to say; one that was fetched is copied to where any account can go."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
    if installed := shutil.which("pgbouncer", path=places):
        return Path(installed), {}
    fetched = FETCHED / "usr" / "sbin" / "pgbouncer"
    if not fetched.is_file():
        raise ConfigurationError("No PgBouncer was found: install it, or let `make test` fetch it once.")
    copy = directory / "bin"
    copy.mkdir()
    for path in (fetched, *FETCHED.glob("**/*.so*")):
        shutil.copy(path, copy / path.name)
    return copy / fetched.name, {"LD_LIBRARY_PATH": str(copy)}


def _version(program: Path, libraries: dict[str, str]) -> tuple[int, int]:
    said = subprocess.run([str(program), "--version"], env=libraries, capture_output=True, text=True, check=True)
    found = re.search(r"PgBouncer (\d+)\.(\d+)", said.stdout)
    assert found
    return int(found[1]), int(found[2])


def _quoted(text: str | None) -> str:
    return "'{}'".format(unquote(text).replace("'", "''")) if text else ""
