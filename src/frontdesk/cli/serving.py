"""The commands that keep running: `serve`, `demo`, `mcp`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frontdesk.cli.desk import Desk, JSONOption, store_url
from frontdesk.cli.output import Cell, Output, size_of
from frontdesk.cli.progress import ProgressBar

if TYPE_CHECKING:
    from frontdesk.manager import SessionManager
    from frontdesk.mcp import Reach

_SCOPES = ("session", "key", "guest", "agent", "namespace")
BlockOption = Annotated[
    list[str] | None,
    typer.Option("--block", metavar="LABEL[:SCOPE]", help="A context block that update_context may write."),
]


def with_blocks(manager: SessionManager, *, block: list[str] | None = None, **others: Any) -> SessionManager:
    """Declare blocks that were given as `label` or `label:scope`."""
    from frontdesk.errors import ConfigurationError

    for given in block or ():
        label, _, scope = given.partition(":")
        if scope and scope not in _SCOPES:
            raise ConfigurationError(f"no scope {scope!r}: a block belongs to one of {', '.join(_SCOPES)}")
        manager = manager.with_context(label, scope=scope or "session")  # type: ignore[arg-type]
    return manager


HostOption = Annotated[str, typer.Option("--host", help="The address to listen on.")]
PortOption = Annotated[int, typer.Option("--port", "-p", min=1, max=65535, help="The port to listen on.")]


TelemetryOption = Annotated[
    bool,
    typer.Option("--telemetry", help="Record OpenTelemetry spans; run it under opentelemetry-instrument."),
]


async def serve(
    desk: Desk,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    block: BlockOption = None,
    telemetry: TelemetryOption = False,
) -> None:
    """Serve the inspector and the HTTP API, until Ctrl-C. Each request is logged as JSON on standard error."""
    from frontdesk.server import log_as_json

    log_as_json()
    await _serve(desk, host, port, telemetry=telemetry)


async def _serve(desk: Desk, host: str, port: int, *, telemetry: bool = False) -> None:
    """Serve with the API keys of the store. Without keys, only this machine is answered."""
    from frontdesk.server import ApiKeys, ServerSettings, serve

    provider = None
    if telemetry:
        from opentelemetry.trace import get_tracer_provider

        provider = get_tracer_provider()

    async with ApiKeys(desk.store) as keys:
        has_keys = await keys.count() > 0

        def announce(address: str) -> None:
            if desk.out.json:
                desk.out.record({"address": address})
                return
            desk.out.line(Cell(address, "bold"))
            if not has_keys:
                desk.out.note(
                    "There are no API keys, so only programs on this machine are answered. To answer others, create one"
                    " with `frontdesk keys create`."
                )
            desk.out.flush()

        settings = ServerSettings(store_name=desk.store.rsplit("/", 1)[-1])
        await serve(
            desk.manager,
            keys=keys,
            host=host,
            port=port,
            settings=settings,
            tracer_provider=provider,
            on_listening=announce,
        )


def demo(
    file: Annotated[Path, typer.Argument(help="The SQLite file of the demo.")] = Path("frontdesk-demo.db"),
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    only_fill: Annotated[bool, typer.Option("--only-fill", help="Only write the file.")] = False,
    messages: Annotated[
        int, typer.Option("--messages", min=1, help="How many messages the longest session has.")
    ] = 100_000,
    json: JSONOption = False,
) -> None:
    """Fill a SQLite file with a demo, and serve it. It has several agents, languages, branches, forks, compactions and
    a very long session."""
    import asyncio

    asyncio.run(_demo(file, host, port, messages, Output(json=json), only_fill=only_fill))


async def _demo(file: Path, host: str, port: int, messages: int, out: Output, *, only_fill: bool) -> None:
    from frontdesk.demo import DemoClock, demo_manager, fill

    url = store_url(str(file), creates=True)
    if file.exists():
        out.note(f"{file} already exists, and is shown as it is. Delete it for a new demo.")
    else:
        partial = file.with_name(f"{file.name}.partial")
        for left in (partial, *(partial.with_name(partial.name + end) for end in ("-wal", "-shm"))):
            left.unlink(missing_ok=True)
        clock = DemoClock()
        with ProgressBar("filling", "steps", hidden=out.json) as bar:
            quick = f"{store_url(str(partial), creates=True)}?synchronous=normal"
            async with demo_manager(quick, clock=clock) as manager:
                await fill(
                    manager,
                    clock,
                    long_session=messages,
                    on_progress=lambda what, done, total: bar.update(done, total, what),
                )
        partial.replace(file)
        out.note(f"{file}: {size_of(file.stat().st_size)}")
    if not only_fill:
        async with demo_manager(url) as manager:
            await _serve(Desk(manager, out, url), host, port)


async def mcp(
    desk: Desk,
    guest: Annotated[
        str | None, typer.Option("--guest", metavar="KEY", help="Reach the conversations of agent:channel:peer.")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Reach all conversations of an agent.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Reach the whole namespace.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no tool that writes.")] = False,
    block: BlockOption = None,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP instead of standard input and output.")] = False,
    host: Annotated[str, typer.Option("--host", help="With --http: the loopback address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="With --http: the port.")] = 8766,
) -> None:
    """Serve the Model Context Protocol. One of --guest, --agent and --all says what a client can reach."""
    from frontdesk.mcp import create_server, serve_http, serve_stdio

    server = create_server(desk.manager, _reach(guest, agent, everything=everything), read_only=read_only)
    if not http:
        await serve_stdio(server)
        return
    await serve_http(server, host, port, on_listening=lambda address: desk.out.note(f"MCP at {address}"))


def _reach(guest: str | None, agent: str | None, *, everything: bool) -> Reach:
    from frontdesk.keys import SessionKey
    from frontdesk.mcp import Reach

    if [guest is not None, agent is not None, everything].count(True) != 1:
        raise typer.BadParameter("name what can be reached, with one of --guest, --agent and --all")
    if guest is not None:
        return Reach.guest(SessionKey.parse(guest))
    return Reach(agent=agent)
