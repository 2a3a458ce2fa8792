"""Providers, which supply the content of blocks that are not in the store: the protocols, and those that are built in.

The methods of a provider decide the kind of its block: with `get` alone it is readonly, with `set(content)` writable,
with `load(key)` a skill block, with `search(query)` searchable. Methods may be sync or async. If there is an
`init(label, session_id)`, it is called once, before the first `get`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from frontdesk.calls import call
from frontdesk.config.settings import Maybe
from frontdesk.errors import InvalidInputError

T = TypeVar("T")


class Provider(Protocol):
    """Returns the content of a block; None is an empty block."""

    def get(self) -> Maybe[str | None]: ...


class WritableProvider(Provider, Protocol):
    """Also accepts new content."""

    def set(self, content: str) -> Maybe[None]: ...


class SkillProvider(Provider, Protocol):
    """`get` lists the entries, `load` returns one of them. It may also have `set(key, content, description)`."""

    def load(self, key: str) -> Maybe[str | None]: ...


class SearchProvider(Provider, Protocol):
    """`get` describes what can be searched, `search` returns what was found. It may also have `set(key, content)`."""

    def search(self, query: str) -> Maybe[str | None]: ...


class CallableProvider:
    """A readonly block with the result of a function without arguments, sync or async."""

    def __init__(self, function: Callable[[], Maybe[str | None]]) -> None:
        self._function = function

    async def get(self) -> str | None:
        content: str | None = await call(self._function)
        return content


class FileProvider:
    """A readonly block with the content of a text file, such as AGENTS.md; empty if there is no such file."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def get(self) -> str | None:
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None


class SkillDirectory:
    """A skill block with the files of a directory: `<key>/SKILL.md` or `<key>.md`, described by their front matter.

    Keys are names of directory entries; nothing outside the directory can be loaded."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)

    def get(self) -> str | None:
        lines = [f"- {key}: {_description(path)}" for key, path in sorted(self._skills().items())]
        return "\n".join(lines) or None

    def load(self, key: str) -> str | None:
        path = self._skills().get(key)
        return None if path is None else _body(path.read_text(encoding="utf-8"))

    def _skills(self) -> dict[str, Path]:
        if not self._directory.is_dir():
            raise InvalidInputError(f"{str(self._directory)!r} is not a directory of skills")
        found = {}
        for path in self._directory.iterdir():
            skill = path / "SKILL.md" if path.is_dir() else path
            if skill.suffix == ".md" and skill.is_file():
                found[path.name if path.is_dir() else path.stem] = skill
        return found


_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)^---\s*?$\r?\n?", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^description:[ \t]*(.*)$", re.MULTILINE)


def _body(text: str) -> str:
    return _FRONT_MATTER.sub("", text, count=1).strip()


def _description(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    matter = _FRONT_MATTER.match(text)
    field = _FIELD.search(matter.group(1)) if matter else None
    if field is not None and field.group(1).strip():
        return field.group(1).strip().strip("\"'")
    lines = [line.strip("# ").strip() for line in _body(text).splitlines() if line.strip("# ").strip()]
    return lines[0] if lines else "(no description)"
