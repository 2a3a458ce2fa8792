"""Copies of a PostgreSQL server: a standby that follows it, and dumps that are restored into another database."""

from __future__ import annotations

import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers.postgres import PostgresServer


class Standby(PostgresServer):
    """A hot standby of another server, asynchronous. `promote` makes it a primary."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self._primary = primary

    def _initialise(self) -> None:
        parts = urlsplit(self._primary.url)
        data = self._data()
        self._check(
            self._run(
                self._binaries / "pg_basebackup",
                *("-h", str(parts.hostname), "-p", str(parts.port), "-U", "postgres", "-D", str(data)),
                *("-R", "-X", "stream", "-c", "fast", "--no-sync"),
            )
        )

    def url_of(self, url: str) -> str:
        """A database of the primary, on this server."""
        return urlsplit(self.url)._replace(path=urlsplit(url).path).geturl()

    def promote(self) -> None:
        self._check(self._run(self._binaries / "pg_ctl", "promote", "-w", "-t", "60", "-D", str(self._data())))

    def _data(self) -> Path:
        assert self._directory
        return self._directory / "data"

    @staticmethod
    def _check(result: subprocess.CompletedProcess[str]) -> None:
        assert result.returncode == 0, result.stdout


def copy_database(server: PostgresServer, source: str, target: str) -> None:
    """Dump a database with pg_dump, and restore it with pg_restore into an empty one, also of another server."""
    program = server.binaries
    dump = subprocess.run([program / "pg_dump", "-Fc", source], stdout=subprocess.PIPE, check=True)
    subprocess.run([program / "pg_restore", "--exit-on-error", "-d", target], input=dump.stdout, check=True)
