"""The commands that look after a store: `doctor`, `backup`, `reindex`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frontdesk.cli.desk import Desk, check_new_file
from frontdesk.cli.output import Cell, counted, size_of
from frontdesk.cli.progress import ProgressBar

if TYPE_CHECKING:
    from frontdesk import SearchInfo

_FAILED = 1


async def doctor(
    desk: Desk,
    fix: Annotated[bool, typer.Option("--fix", help="Make a backup, then repair what can be computed again.")] = False,
    backup: Annotated[
        Path | None,
        typer.Option("--backup", help="With --fix: where to write the backup. Default: this folder."),
    ] = None,
) -> None:
    """Check the store, and repair it with --fix. It checks counters, views, compactions, missing messages, records that
    cannot be read, what a killed import has left, and the index."""
    if fix:
        await _back_up(desk, backup or _backup_name(desk))
    total = (await desk.manager.stats()).sessions
    with ProgressBar("checking", "sessions") as bar:
        report = await desk.manager.check(fix=fix, on_progress=lambda done, _: bar.update(done, max(total, done)))
    index = await desk.manager.search_info()
    if fix and (index.building or report.problems):
        with ProgressBar("indexing", "texts") as bar:
            index = await desk.manager.reindex(bar.update)
    if desk.out.json:
        desk.out.record({**report.to_dict(), "index": index.to_dict()})
    else:
        for problem in report.problems:
            state = Cell("fixed  ", "green") if problem.fixed else Cell("found  ", "red")
            desk.out.line(state, Cell(problem.session_id, "bold"), f"  {problem.kind}: {problem.problem}")
        desk.out.line(
            f"{counted(report.sessions, 'session')} with {counted(report.messages, 'stored message')}"
            f" (forks share theirs): {counted(report.problems_total, 'problem')}."
        )
        desk.out.line(_describe(index))
    is_all_shown = len(report.problems) == report.problems_total
    if not is_all_shown or any(not problem.fixed for problem in report.problems):
        raise typer.Exit(_FAILED)


async def backup(desk: Desk, file: Annotated[Path, typer.Argument(help="A file that does not exist yet.")]) -> None:
    """Write a backup of a store in use. It is a SQLite file, or for other stores an export."""
    await _back_up(desk, file)
    if desk.out.json:
        desk.out.record({"file": str(file), "bytes": file.stat().st_size})


async def reindex(desk: Desk) -> None:
    """Build the search index again, while it is in use."""
    with ProgressBar("indexing", "texts") as bar:
        info = await desk.manager.reindex(bar.update)
    if desk.out.json:
        desk.out.record(info.to_dict())
    else:
        desk.out.line(f"{info.texts:,} texts are in the index.")


async def _back_up(desk: Desk, file: Path) -> None:
    check_new_file(file)
    await desk.manager.backup(file)
    desk.out.note(f"Backup: {file} ({size_of(file.stat().st_size)})")


def _describe(index: SearchInfo) -> str:
    if not index.texts and index.indexed_up_to is None:
        return "Nothing is in the index yet: the first search builds it."
    are = "is" if index.pending == 1 else "are"
    pending = f", {counted(index.pending, 'change')} {are} not in it yet" if index.pending else ""
    return f"The index has {counted(index.texts, 'text')}{' and is being built' if index.building else ''}{pending}."


def _backup_name(desk: Desk) -> Path:
    kind = "db" if desk.store.startswith("sqlite:") else "jsonl"
    return Path(f"frontdesk-backup-{datetime.now(UTC):%Y%m%d-%H%M%S}.{kind}")
