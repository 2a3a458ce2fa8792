"""The commands that move whole namespaces: `export`, `import`, `copy`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, cast

import typer

from frontdesk.cli.desk import (
    Desk,
    JSONOption,
    NamespaceOption,
    YesOption,
    check_kept,
    check_new_file,
    confirm,
    file_of,
    store_url,
)
from frontdesk.cli.output import Output, counted, size_of, was
from frontdesk.cli.progress import ProgressBar

if TYPE_CHECKING:
    from frontdesk import TranscriptFormat
    from frontdesk.records import CopyReport, ImportReport, TranscriptReport

STREAM = Path("-")
"""the argument for standard input and output"""
_FAILED = 1
_LONGEST_HEADER = 1 << 16


async def export(
    desk: Desk,
    file: Annotated[
        Path, typer.Argument(help='Where to write it; "-" is standard output.', dir_okay=False, allow_dash=True)
    ] = STREAM,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write the whole namespace as JSON lines."""
    total = (await desk.manager.stats()).sessions
    to_stream = file == STREAM
    if not to_stream:
        check_new_file(file, replace=force)
        own = file_of(desk.store)
        if own is not None and file.exists() and own.samefile(file):
            raise typer.BadParameter(f"{str(file)!r} is the store itself: choose another name")
    with ProgressBar("exporting", "sessions", hidden=to_stream and sys.stdout.isatty()) as bar:

        def show(done: int, _: int) -> None:
            bar.update(done, max(total, done))

        if to_stream:
            async for line in desk.manager.export(show):
                sys.stdout.buffer.write(line)
            return
        partial = file.with_name(f"{file.name}.partial")
        try:
            with partial.open("wb") as out:
                async for line in desk.manager.export(show):
                    out.write(line)
                out.flush()
                os.fsync(out.fileno())
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
    if desk.out.json:
        desk.out.record({"file": str(file), "bytes": file.stat().st_size})
    else:
        desk.out.note(f"{file}: {size_of(file.stat().st_size)}")


def _check_exists(file: Path) -> Path:
    """Called before the store is opened, which creates it."""
    if file != STREAM and not file.exists():
        raise typer.BadParameter(f"{file} does not exist")
    return file


async def import_file(
    desk: Desk,
    file: Annotated[
        Path,
        typer.Argument(
            help='An export, a transcript, or a folder of transcripts; "-" reads an export from standard input.',
            callback=_check_exists,
        ),
    ],
    format: Annotated[
        str | None,
        typer.Option("--format", help="The format of transcripts: claude-code, codex, pi, chatgpt or hermes."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file, and write nothing.")] = False,
) -> None:
    """Import an export, or transcripts of other tools. What already exists is not changed."""
    if not dry_run:
        check_kept(desk.store)
    if file == STREAM and format is not None:
        raise typer.BadParameter("transcripts are read from a file or a folder, not from standard input")
    if file == STREAM and sys.stdin.isatty():
        raise typer.BadParameter("standard input is the terminal: name a file, or pipe an export into this command")
    if file == STREAM or (format is None and _is_export(file)):
        await _import_export(desk, file, dry_run=dry_run)
    else:
        await _import_transcripts(desk, file, format, dry_run=dry_run)


def _is_export(file: Path) -> bool:
    from frontdesk.transfer.lines import is_header

    if file.is_dir():
        return False
    with file.open("rb") as lines:
        return is_header(lines.readline(_LONGEST_HEADER))


async def _import_export(desk: Desk, file: Path, *, dry_run: bool) -> None:
    size = None if file == STREAM else file.stat().st_size
    with ProgressBar("checking" if dry_run else "importing", "lines") as bar:
        source: IO[bytes] = sys.stdin.buffer if size is None else file.open("rb")
        with source:

            def show(lines: int, read: int) -> None:
                bar.update(lines, None if size is None else max(round(lines * size / max(read, 1)), lines))

            report = await desk.manager.import_lines(source, dry_run=dry_run, on_progress=show)
    if desk.out.json:
        desk.out.record(report.to_dict())
    else:
        desk.out.line(
            f"{counted(report.sessions, 'session')} with {counted(report.messages, 'message')}"
            f" {_imported(dry_run, was(report.sessions))}, {report.skipped:,} already existed."
        )
        for problem in report.problems:
            desk.out.note(f"line {problem.line}: {problem.problem}")
        _note_total(desk, report)
    if report.problems:
        raise typer.Exit(_FAILED)


async def _import_transcripts(desk: Desk, path: Path, format: str | None, *, dry_run: bool) -> None:
    with ProgressBar("checking" if dry_run else "importing", "bytes") as bar:
        report = await desk.manager.import_transcripts(
            path, format=cast("TranscriptFormat | None", format), dry_run=dry_run, on_progress=bar.update
        )
    if desk.out.json:
        desk.out.record(report.to_dict())
    else:
        desk.out.line(
            f"{counted(report.sessions, 'session')}, {counted(report.messages, 'message')},"
            f" {counted(report.compactions, 'compaction')} and"
            f" {counted(report.usage_entries, 'usage entry', 'usage entries')} {_imported(dry_run)},"
            f" from {counted(report.files, 'file')}. {counted(report.known, 'message')} already existed."
        )
        if report.skipped:
            kinds = ", ".join(f"{kind} ({count:,})" for kind, count in report.skipped.items())
            desk.out.note(f"Records that are not messages: {kinds}")
        for problem in report.problems:
            where = f"{problem.file}:{problem.line}" if problem.line else problem.file
            desk.out.note(f"{where}: {problem.problem}")
        _note_total(desk, report)
    if report.problems:
        raise typer.Exit(_FAILED)


def _note_total(desk: Desk, report: ImportReport | TranscriptReport) -> None:
    """Say how many problems there are, if not all of them were shown."""
    shown = len(report.problems)
    if shown < report.problems_total:
        desk.out.note(f"{report.problems_total:,} problems, of which the first {shown:,} are shown.")


def _imported(dry_run: bool, verb: str = "were") -> str:
    return "would be imported" if dry_run else f"{verb} imported"


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The store to copy: a URL, or a SQLite file.")],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="The store to copy to. It must not be in use. What FROM does not have is deleted from it.",
        ),
    ],
    namespace: NamespaceOption = "default",
    follow: Annotated[bool, typer.Option("--follow", help="Then keep copying changes, until Ctrl-C.")] = False,
    yes: YesOption = False,
    json: JSONOption = False,
) -> None:
    """Copy a namespace to another store while it is in use. Run it again to continue."""
    import asyncio

    old, new = store_url(source), store_url(target, creates=True)
    check_kept(new)
    if _place(old) == _place(new):
        raise typer.BadParameter("FROM and TO are the same store")
    asyncio.run(_copy(old, new, namespace, Output(json=json), follow, yes))


def _place(store: str) -> str | Path:
    """What a URL names: a file may be written in several ways."""
    file = file_of(store)
    return store if file is None else file.resolve()


async def _copy(source: str, target: str, namespace: str, out: Output, follow: bool, yes: bool) -> None:
    from frontdesk.manager import SessionManager

    async with SessionManager(source, namespace=namespace) as old, SessionManager(target, namespace=namespace) as new:
        present = (await new.stats()).sessions
        if present:
            confirm(
                f"The target has {counted(present, 'session')}. Delete those that the source does not have?", yes=yes
            )
        total = (await old.stats()).sessions
        with ProgressBar("following" if follow else "copying", "sessions", hidden=out.json) as bar:

            def show(report: CopyReport) -> None:
                done = report.sessions + report.unchanged
                bar.update(done, max(total, done))

            report = await old.copy_to(new, follow=follow, on_progress=show)
    if out.json:
        out.record(report.to_dict())
    else:
        out.line(
            f"{counted(report.sessions, 'session')} {was(report.sessions)} copied,"
            f" {report.unchanged:,} {was(report.unchanged)} the same,"
            f" {report.deleted:,} {was(report.deleted)} deleted from the target."
        )
