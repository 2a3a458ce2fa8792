"""The rows behind a conversation: what an append, a branch, a fork, a deletion and a compaction write into SQLite.

Run it with `python examples/rows.py`. ARCHITECTURE.md explains what it prints.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import apsw

from frontdesk import SessionManager


def place(segment: str, position: str) -> str:
    return f"{segment} || ':' || {position}"


def same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


TABLES: dict[str, dict[str, str]] = {  # for each table, the columns to show and how to select them
    "sessions": {
        **same("number", "id", "tree", "family"),
        "base": place("base_segment", "base_position"),
        "head": place("head_segment", "head_position"),
        **same("tail", "view", "view_tokens", "revision"),
    },
    "segments": {
        **same("number", "tree"),
        "parent": place("parent_segment", "parent_position"),
        **same("last", "next", "shared", "tokens"),
    },
    "messages": {"place": place("(place >> 24)", "(place & 0xffffff)"), **same("id", "tokens", "running")},
    "lineage": same("tree", "ancestor", "until"),
    "edits": same("number", "tree", "revision", "kind", "segment", "first", "last"),
    "overlays": {
        **same("number", "tree", "revision", "kind"),
        "start": place("start_segment", "start_position"),
        "end": place("end_segment", "end_position"),
        **same("tokens", "stale"),
    },
    "views": same("session", "items"),
}
Row = tuple[str, ...]


def message(id: str) -> dict[str, str]:
    return {"id": id, "role": "user", "content": "six words are ten tokens here"}


def count_words(text: str) -> int:
    """One token per word; each message counts four more."""
    return len(text.split())


class Watch:
    """Reads the tables after each step and prints the rows that the step added (+), changed (~) or deleted (-)."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self._before: dict[str, dict[str, Row]] = {table: {} for table in TABLES}

    def show(self, title: str) -> None:
        print(f"\n{title}\n")
        for table, columns in TABLES.items():
            query = f"SELECT {', '.join(columns.values())} FROM {table}"
            rows = {str(row[0]): tuple(map(_text, row)) for row in self._connection.execute(query)}
            before, self._before[table] = self._before[table], rows
            changed = [("-", row) for key, row in before.items() if key not in rows]
            changed += [("~" if key in before else "+", row) for key, row in rows.items() if before.get(key) != row]
            if changed:
                print(f"  {table}")
                _print_table([("", tuple(columns)), *changed])


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _print_table(rows: list[tuple[str, Row]]) -> None:
    widths = [max(map(len, column)) for column in zip(*(row for _, row in rows), strict=True)]
    for sign, row in rows:
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(f"  {sign:1} {cells}".rstrip())


async def main(folder: Path) -> None:
    path = folder / "rows.db"
    async with SessionManager(f"sqlite:///{path}").with_token_counter(count_words) as manager:
        trip = await manager.create(id="trip")
        watch = Watch(path)
        await trip.append_all([message("m1"), message("m2"), message("m3"), message("m4")])
        watch.show("1. append m1, m2, m3, m4")

        await trip.append(message("m5"), parent="m2")
        watch.show("2. branch: append m5 after m2")

        await trip.history()
        watch.show("3. read: the stale view is computed and stored")

        plan_b = await manager.fork("trip", new_id="plan-b")
        await plan_b.append(message("m6"))
        watch.show("4. fork trip into plan-b, and append m6 there")

        await trip.delete_messages(["m1"])
        watch.show("5. delete m1 in trip")

        await plan_b.add_compaction("They agreed on a plan.", "m1", "m2")
        await plan_b.history()
        watch.show("6. compact m1 and m2 in plan-b, and read")

        await manager.delete("trip")
        watch.show("7. delete trip")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="frontdesk-rows-") as folder:
        try:
            asyncio.run(main(Path(folder)))
        except KeyboardInterrupt:
            sys.exit(130)
