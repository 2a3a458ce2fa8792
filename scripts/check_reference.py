"""Checks that the reference in build/site has every public name, every public call and every field of a record.

Run by `make docs` after the site is built."""

from __future__ import annotations

import inspect
import sys
import zlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import frontdesk

INVENTORY = Path(__file__).parents[1] / "build" / "site" / "objects.inv"


def documented() -> set[str]:
    """The names in the inventory of the site: four lines of header, then compressed lines that start with a name."""
    lines = zlib.decompress(INVENTORY.read_bytes().split(b"\n", 4)[4]).decode().splitlines()
    return {line.partition(" ")[0] for line in lines}


def promised() -> Iterator[str]:
    """Every public name, and the public members of each class."""
    for name in frontdesk.__all__:
        yield f"frontdesk.{name}"
        value: Any = getattr(frontdesk, name)
        if inspect.isclass(value):
            yield from (f"frontdesk.{name}.{member}" for member in members(value))


def members(kind: type) -> Iterator[str]:
    if is_dataclass(kind):
        yield from (field.name for field in fields(kind) if not field.name.startswith("_"))
    if kind.__module__.startswith("frontdesk."):
        functions = (name for name, value in vars(kind).items() if inspect.isfunction(value))
        yield from (name for name in functions if not name.startswith("_"))


def main() -> None:
    missing = sorted(set(promised()) - documented())
    if missing:
        sys.exit(f"docs/reference has nothing on: {', '.join(missing)}")
    print("the reference is complete")


if __name__ == "__main__":
    main()
