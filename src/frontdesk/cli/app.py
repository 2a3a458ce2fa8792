"""The application: every command with its name."""

from __future__ import annotations

from typing import Annotated

import typer

from frontdesk.cli import changing, keys, maintaining, moving, reading, serving, showing
from frontdesk.cli.desk import command

app = typer.Typer(
    name="frontdesk",
    no_args_is_help=True,
    rich_markup_mode=None,  # drawing help with rich takes twice as long as everything else together
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("frontdesk"))
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Inspect, search, move and serve the sessions of your agents."""


app.command("list")(command(reading.list_sessions))
app.command("show")(command(showing.show))
app.command("search")(command(reading.search))
app.command("tail")(command(reading.tail))
app.command("stats")(command(reading.show_stats))
app.command("compact")(command(changing.compact, configure=changing.with_summariser))
app.command("fork")(command(changing.fork))
app.command("archive")(command(changing.archive))
app.command("delete")(command(changing.delete))
app.command("erase")(command(changing.erase))
app.command("export")(command(moving.export))
app.command("import")(command(moving.import_file, creates=True))
app.command("copy")(moving.copy)
app.command("doctor")(command(maintaining.doctor))
app.command("backup")(command(maintaining.backup))
app.command("reindex")(command(maintaining.reindex))
app.command("mcp")(command(serving.mcp, configure=serving.with_blocks))
app.command("serve")(command(serving.serve, creates=True, configure=serving.with_blocks))
app.command("demo")(serving.demo)

_keys = typer.Typer(
    help="Create, list and revoke the API keys of a server.", no_args_is_help=True, rich_markup_mode=None
)
_keys.command("create")(command(keys.create, creates=True))
_keys.command("list")(command(keys.list_keys))
_keys.command("revoke")(command(keys.revoke))
app.add_typer(_keys, name="keys")
