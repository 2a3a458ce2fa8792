"""Run by `make test-wheel`, where only the built wheel and its required dependencies are installed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import subprocess
import sys
import tempfile
from importlib.metadata import files as installed_files
from importlib.metadata import metadata
from importlib.resources import files
from pathlib import Path

import frontdesk
from frontdesk import SessionManager
from frontdesk.errors import ConfigurationError

CONTRACTS = {"__init__.py", "inputs.py", "shelf_contract.py", "state_contract", "store_contract"}


def check_contents() -> None:
    """The wheel has the package with the page, its command and its metadata; of tests it has the contracts for authors
    of stores, nothing else."""
    recorded = [path for path in installed_files("frontdesk") or [] if "__pycache__" not in path.parts]
    commands = {path.name for path in recorded if path.parts[0] == ".."}
    assert commands == {"frontdesk"}, f"the wheel installs the commands {sorted(commands)}"
    installed = [path for path in recorded if path.parts[0] != ".."]
    folders = {path.parts[0].partition("-")[0] for path in installed}
    assert folders == {"frontdesk"}, f"the wheel has more than one package: {sorted(folders)}"
    testing = {path.parts[2] for path in installed if path.parts[:2] == ("frontdesk", "testing")}
    assert testing == CONTRACTS, f"frontdesk.testing ships {sorted(testing)}"
    assert files("frontdesk").joinpath("inspector", "static", "index.html").is_file(), "the wheel lacks the inspector"


def check_command() -> None:
    """Without its extra, the command says what to install."""
    command = [str(Path(sys.executable).parent / "frontdesk"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "frontdesk[cli]" in done.stderr, f"the command without its extra: {done.stderr}"
    assert "Traceback" not in done.stderr


def check_extras() -> None:
    """Without its extra, each optional part says what to install when it is imported."""
    modules = (
        f"integrations.{extra.replace('-', '_')}" for extra in metadata("frontdesk").get_all("Provides-Extra") or []
    )
    integrations = [module for module in modules if importlib.util.find_spec(f"frontdesk.{module}")]
    assert len(integrations) == 10, f"the integrations that have an extra: {integrations}"
    for part in ("client", "mcp", "server", *integrations):
        refusal = "none"
        try:
            importlib.import_module(f"frontdesk.{part}")
        except ModuleNotFoundError as error:
            refusal = str(error)
        extra = part.rpartition(".")[2].replace("_", "-")
        assert f"frontdesk[{extra}]" in refusal, f"frontdesk.{part} without its extra: {refusal}"


async def main() -> None:
    package = Path(frontdesk.__file__).parent
    assert "site-packages" in package.parts, f"{package} is not the installed wheel"
    assert files("frontdesk").joinpath("py.typed").is_file(), "the wheel lacks py.typed"
    assert importlib.util.find_spec("asyncpg") is None, "an extra was installed"
    check_contents()
    check_command()
    check_extras()

    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/smoke.db"
        async with SessionManager(url) as manager:
            await manager.session("chat").append({"role": "user", "content": "Is the wheel whole?"})
        async with SessionManager(url) as manager:
            history = await manager.session("chat").history()
        assert [message.text for message in history] == ["Is the wheel whole?"]

    refusal = "none"
    try:
        async with SessionManager("postgresql://localhost/nowhere") as manager:
            await manager.get("chat")
    except ConfigurationError as error:
        refusal = str(error)
    assert "frontdesk[postgres]" in refusal, f"PostgreSQL without its extra is not refused with what to do: {refusal}"


asyncio.run(main())
print("the wheel is whole")
