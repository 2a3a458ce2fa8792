"""What a command prints: tables and lines for people, tab-separated values for a pipe, JSON lines for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from frontdesk.cli.escaping import one_line, to_json, visible

if TYPE_CHECKING:
    from rich.console import Console

_ID_WIDTH = 36
"""what a terminal shows of an id at least: all of one that Frontdesk made, so that it can be copied"""


class Cell(NamedTuple):
    """A text in a style, such as "bold" or "red"."""

    text: str
    style: str = ""


class Output:
    """Standard output, for one command. Colours and tables appear only in a terminal."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.is_terminal = sys.stdout.isatty() and not json

    def record(self, value: Any) -> None:
        """One line of JSON."""
        sys.stdout.write(to_json(value) + "\n")
        self.flush()

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str | Cell]]) -> None:
        """A table in a terminal, otherwise lines with tabs. A column whose name ends in "#" has numbers."""
        if not self.is_terminal:
            self._write_tabs([column.rstrip("#") for column in columns], rows)
            return
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="dim", show_header=any(columns), pad_edge=False, padding=(0, 2, 0, 0))
        for column in columns:
            justify: Literal["left", "right"] = "right" if column.endswith("#") else "left"
            least = _ID_WIDTH if column == "id" else None
            table.add_column(column.rstrip("#"), justify=justify, no_wrap=True, min_width=least)
        for row in rows:
            table.add_row(*(Text(one_line(cell.text), style=cell.style) for cell in map(_cell, row)))
        self._console.print(table)

    def line(self, *parts: str | Cell, indent: int = 0) -> None:
        """One or more lines of text, in styles if there is a terminal."""
        cells = [_cell(part) for part in parts]
        if not self.is_terminal:
            plain = visible("".join(cell.text for cell in cells))
            sys.stdout.write(_indented(plain, indent) + "\n")
            return
        from rich.padding import Padding
        from rich.text import Text

        text = Text.assemble(*((visible(cell.text), cell.style) for cell in cells))
        self._console.print(Padding(text, (0, 0, 0, indent)) if indent else text)

    def note(self, text: str) -> None:
        """A remark for people, on standard error, so that it never mixes with the result."""
        if not self.json:
            sys.stderr.write(visible(text) + "\n")

    def more(self, cursor: str | None) -> None:
        """Say how to continue, if there is more; as JSON, if that is wanted."""
        if cursor is not None:
            text = to_json({"next_cursor": cursor}) if self.json else f"There are more: --cursor {cursor}"
            sys.stderr.write(text + "\n")

    def flush(self) -> None:
        sys.stdout.flush()

    def _write_tabs(self, columns: Sequence[str], rows: Iterable[Sequence[str | Cell]]) -> None:
        if any(columns):
            sys.stdout.write("\t".join(columns) + "\n")
        for row in rows:
            sys.stdout.write("\t".join(one_line(_cell(cell).text) for cell in row) + "\n")

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(markup=False, highlight=False, emoji=False, soft_wrap=False)


def counted(count: int, thing: str, things: str | None = None) -> str:
    """A number of things: "1 message", "2,000 messages"; `things` is the plural if it does not only add an s."""
    return f"{count:,} {thing if count == 1 else things or f'{thing}s'}"


def was(count: int) -> str:
    """The verb after a number of things."""
    return "was" if count == 1 else "were"


def _cell(part: str | Cell) -> Cell:
    return Cell(part) if isinstance(part, str) else part


def _indented(text: str, indent: int) -> str:
    return "\n".join(" " * indent + line if line else line for line in text.split("\n"))


def ago(moment: datetime) -> str:
    """How long ago, in one unit."""
    seconds = max((datetime.now(UTC) - moment).total_seconds(), 0)
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {name}"
    return f"{int(seconds)} s"


def size_of(count: float) -> str:
    """A number of bytes."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
