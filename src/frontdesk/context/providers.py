"""Where the content of a block comes from when it is not the store: small protocols, and the providers we ship.

What a provider can do decides the kind of its block: `get` alone is readonly, `set(content)` makes it writable,
`load(key)` a skill block, `search(query)` a searchable one. Methods may be sync or async. `init(label, session_id)`,
if there is one, runs once, before the first `get`.
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
    """Gives the content of a block; None is an empty one."""

    def get(self) -> Maybe[str | None]: ...


class WritableProvider(Provider, Protocol):
    """Also takes a new content."""

    def set(self, content: str) -> Maybe[None]: ...


class SkillProvider(Provider, Protocol):
    """`get` lists what there is, `load` gives one of them. It may also have `set(key, content, description)`."""

    def load(self, key: str) -> Maybe[str | None]: ...


class SearchProvider(Provider, Protocol):
    """`get` says what can be searched, `search` gives what was found. It may also have `set(key, content)`."""

    def search(self, query: str) -> Maybe[str | None]: ...


class CallableProvider:
    """A readonly block from a function without arguments, sync or async."""

    def __init__(self, function: Callable[[], Maybe[str | None]]) -> None:
        self._function = function

    async def get(self) -> str | None:
        content: str | None = await call(self._function)
        return content


class FileProvider:
    """A readonly block from a text file, such as AGENTS.md; a file that is not there is an empty block."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def get(self) -> str | None:
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None


class SkillDirectory:
    """A skill block from a directory: `<key>/SKILL.md` or `<key>.md`, each with front matter that describes it.

    Keys are names of entries of the directory; nothing outside of it can be loaded."""

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
