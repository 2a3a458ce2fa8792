"""Unpacks servers that the tests need into .cache, if they are not installed: PgBouncer, and a Redis that can do TLS.

They are Debian's packages, with the libraries that they need and that are not installed. Needs no root, starts no
service, and touches nothing outside .cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).parents[1] / ".cache"
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
_ROUNDS = 5
_SECONDS = 300


@dataclass(frozen=True)
class Server:
    """A program, the packages that contain it, where they put it, and what it says with `--version`."""

    program: str
    packages: tuple[str, ...]
    path: str
    says: str

    @property
    def target(self) -> Path:
        return CACHE / self.program

    @property
    def advice(self) -> str:
        return f"install it ('apt install {self.packages[0]}'): any {self.program} on the PATH is used as it is"


SERVERS = (
    Server("pgbouncer", ("pgbouncer",), "usr/sbin/pgbouncer", "PgBouncer"),
    Server("redis-server", ("redis-server", "redis-tools"), "usr/bin/redis-server", "Redis server"),
)


class FetchError(Exception):
    """A server cannot be fetched; the text says why."""


def main() -> None:
    for server in SERVERS:
        if shutil.which(server.program, path=SEARCH_PATH) or _runs(server, server.target):
            continue
        print(f"fetching {server.program} into .cache")
        CACHE.mkdir(exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(prefix=f"{server.program}-", dir=CACHE) as scratch:
                _fetch(server, Path(scratch))
        except FetchError as error:
            sys.exit(f"The tests need {server.program}, and it could not be fetched: {error}\nEither {server.advice}.")


def _fetch(server: Server, scratch: Path) -> None:
    for program in ("apt-get", "dpkg-deb", "dpkg-query"):
        if shutil.which(program) is None:
            raise FetchError(f"{program} is not installed.")
    root, packages = scratch / "root", scratch / "packages"
    root.mkdir()
    packages.mkdir()
    apt = _Apt(scratch)
    wanted = [*server.packages]
    for _ in range(_ROUNDS):
        files = apt.download(wanted, packages)
        for file in files:
            _run(["dpkg-deb", "--extract", str(file), str(root)])
        if _runs(server, root):
            shutil.rmtree(server.target, ignore_errors=True)
            root.rename(server.target)
            return
        wanted = [name for file in files for name in _missing_libraries(file)]
        if not wanted:
            break
    raise FetchError(f"the fetched program does not run: {_version_output(server, root)}")


class _Apt:
    """Downloads packages with the machine's package lists; if that fails, with fresh lists in the scratch directory."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._options: list[str] = []

    def download(self, names: Sequence[str], into: Path) -> list[Path]:
        before = set(into.glob("*.deb"))
        try:
            self._download(names, into)
        except FetchError:
            if self._options:
                raise
            self._update()
            self._download(names, into)
        return sorted(set(into.glob("*.deb")) - before)

    def _download(self, names: Sequence[str], into: Path) -> None:
        _run(["apt-get", "--quiet", "--quiet", *self._options, "download", *names], into)

    def _update(self) -> None:
        lists, cache = self._scratch / "lists", self._scratch / "cache"
        for directory in (lists / "partial", cache / "archives" / "partial"):
            directory.mkdir(parents=True)
        # apt's sandbox user could not read a directory below a private one, hence no sandbox.
        own = {"Dir::State::lists": lists, "Dir::Cache": cache, "APT::Sandbox::User": ""}
        self._options = [f"--option={name}={value}" for name, value in own.items()]
        _run(["apt-get", "--quiet", "--quiet", *self._options, "update"])


def _missing_libraries(package: Path) -> list[str]:
    """The libraries that a package depends on and that are not installed."""
    depends = _run(["dpkg-deb", "--field", str(package), "Depends"])
    names = [re.split(r"[ (|:]", part.strip(), maxsplit=1)[0] for part in depends.split(",")]
    return [name for name in names if name.startswith("lib") and not _is_installed(name)]


def _is_installed(name: str) -> bool:
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", name]
    result = subprocess.run(query, capture_output=True, text=True, check=False)
    return result.stdout.strip() == "installed"


def _environment(root: Path) -> dict[str, str]:
    """The environment variables with which a program below `root` finds its libraries."""
    libraries = {str(path.parent) for path in root.glob("**/*.so*")}
    return {"LD_LIBRARY_PATH": os.pathsep.join(sorted(libraries))} if libraries else {}


def _runs(server: Server, root: Path) -> bool:
    return server.says in _version_output(server, root)


def _version_output(server: Server, root: Path) -> str:
    try:
        result = subprocess.run(
            [str(root / server.path), "--version"],
            env={**os.environ, **_environment(root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except OSError as error:
        return str(error)
    return result.stdout if result.returncode == 0 else f"it failed: {result.stdout}"


def _run(command: list[str], where: Path | None = None) -> str:
    try:
        result = subprocess.run(
            command,
            cwd=where,
            env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"{' '.join(command)} took longer than {_SECONDS} s.") from None
    if result.returncode:
        raise FetchError(f"{' '.join(command)}: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


if __name__ == "__main__":
    main()
