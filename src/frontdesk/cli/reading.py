"""The commands that read: `list`, `stats`, `search`, `tail`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from frontdesk.cli.desk import Desk, parse_ref
from frontdesk.cli.output import Cell, ago, counted, size_of

if TYPE_CHECKING:
    from frontdesk.events.feed import Event
    from frontdesk.records import SessionInfo

AgentOption = Annotated[str | None, typer.Option("--agent", help="Only sessions of this agent.")]
ChannelOption = Annotated[str | None, typer.Option("--channel", help="Only sessions of this channel.")]
PeerOption = Annotated[str | None, typer.Option("--peer", help="Only sessions of this peer.")]
ThreadOption = Annotated[str | None, typer.Option("--thread", help="Only sessions of this thread.")]
StatusOption = Annotated[
    Literal["active", "idle", "compacting", "suspended", "archived"] | None,
    typer.Option("--status", help="Only sessions with this status."),
]
TagOption = Annotated[str | None, typer.Option("--tag", help="Only sessions with this tag.")]
LimitOption = Annotated[int, typer.Option("--limit", "-l", min=1, max=1000, help="At most this many.")]
CursorOption = Annotated[str | None, typer.Option("--cursor", help="Start after a page: its next cursor.")]

_STATUS_STYLES = {"active": "green", "compacting": "yellow", "suspended": "magenta", "archived": "dim"}
_NEARLY_FULL = 0.8


async def list_sessions(
    desk: Desk,
    agent: AgentOption = None,
    channel: ChannelOption = None,
    peer: PeerOption = None,
    thread: ThreadOption = None,
    status: StatusOption = None,
    tag: TagOption = None,
    id_prefix: Annotated[str | None, typer.Option("--id-prefix", help="Only ids that begin with this.")] = None,
    order: Annotated[
        Literal["recent", "created"], typer.Option("--order", help="Sort by the last activity, or by creation.")
    ] = "recent",
    limit: LimitOption = 50,
    cursor: CursorOption = None,
) -> None:
    """List sessions, the most recently active first."""
    page = await desk.manager.list(
        agent=agent,
        channel=channel,
        peer=peer,
        thread=thread,
        status=status,
        tag=tag,
        id_prefix=id_prefix,
        order=order,
        limit=limit,
        cursor=cursor,
    )
    if desk.out.json:
        for info in page:
            desk.out.record(info.to_dict())
    else:
        desk.out.table(
            ("id", "name", "key", "status", "messages#", "window#", "cost#", "active"), [_row(info) for info in page]
        )
    desk.out.more(page.next_cursor)


def _row(info: SessionInfo) -> tuple[str | Cell, ...]:
    full = "red" if info.window_usage >= _NEARLY_FULL else ""
    return (
        Cell(info.id, "bold"),
        info.name,
        "" if info.key is None else str(info.key),
        Cell(info.status, _STATUS_STYLES.get(info.status, "")),
        f"{info.message_count:,}",
        Cell(f"{info.window_usage:.0%}", full),
        f"{info.cost:.4f}" if info.cost else "",
        ago(info.last_active_at),
    )


async def show_stats(desk: Desk) -> None:
    """Show totals of the namespace."""
    stats = await desk.manager.stats()
    if desk.out.json:
        desk.out.record(stats.to_dict())
        return
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(stats.by_status.items()) if count)
    rows = [
        ("sessions", f"{stats.sessions:,}" + (f" ({statuses})" if statuses else "")),
        ("messages", f"{stats.messages:,}"),
        ("tokens in context", f"{stats.context_tokens:,}"),
        ("tokens read", f"{stats.input_tokens:,}"),
        ("tokens written", f"{stats.output_tokens:,}"),
        ("cost", f"{stats.cost:f}"),
        ("size of the store", size_of(stats.store_bytes)),
    ]
    rows += [
        (f"new on {day.day}", f"{counted(day.sessions, 'session')}, {counted(day.messages, 'message')}")
        for day in stats.growth
    ]
    desk.out.table(("", ""), [(Cell(name, "dim"), value) for name, value in rows])


async def search(
    desk: Desk,
    query: Annotated[str, typer.Argument(help='Words, "phrases", -excluded, prefix*, role:user, after:2026-01.')],
    session: Annotated[str | None, typer.Option("--session", help="Only this session: an id or a name.")] = None,
    role: Annotated[str | None, typer.Option("--role", help="Only messages of this role.")] = None,
    agent: AgentOption = None,
    channel: ChannelOption = None,
    peer: PeerOption = None,
    tag: TagOption = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first, instead of the best.")] = False,
    limit: LimitOption = 20,
    cursor: CursorOption = None,
) -> None:
    """Search what was said in all sessions."""
    found = await desk.manager.search(
        query,
        session=session,
        role=role,
        agent=agent,
        channel=channel,
        peer=peer,
        tag=tag,
        newest=newest,
        limit=limit,
        cursor=cursor,
    )
    if desk.out.json:
        for hit in found:
            desk.out.record(hit.to_dict())
    else:
        for hit in found:
            name = f" {hit.session_name}" if hit.session_name else ""
            where = Cell(f"  {hit.role or hit.kind} {ago(hit.created_at)} ago  {hit.message_id}", "dim")
            desk.out.line(Cell(hit.session_id, "bold"), name, where)
            desk.out.line(*_marked(hit.snippet), indent=4)
        desk.out.note(f"{len(found)} of {found.total:,}")
    desk.out.more(found.next_cursor)


def _marked(snippet: str) -> list[Cell]:
    """The snippet, with what it marks `**like this**` in bold."""
    parts = snippet.split("**")
    if len(parts) % 2 == 0:  # the text itself contains the mark
        return [Cell(snippet)]
    return [Cell(part, "bold yellow" if at % 2 else "") for at, part in enumerate(parts)]


async def tail(
    desk: Desk,
    ref: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="A session: an id, or @key. Default: all.")
    ] = None,
    agent: AgentOption = None,
    channel: ChannelOption = None,
    peer: PeerOption = None,
    after: Annotated[
        str | None, typer.Option("--after", help='Start after this position; "start": with the oldest event.')
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for new events.")] = True,
) -> None:
    """Follow the events of sessions, live, until Ctrl-C."""
    wanted = None if ref is None else parse_ref(ref)
    events = desk.manager.events(after=after, session=wanted, agent=agent, channel=channel, peer=peer, follow=follow)
    async for event in events:
        text = await _text_of(desk, event)
        if desk.out.json:
            desk.out.record({**event.to_dict(), "text": text})
            continue
        what = event.kind if event.session_id is None else f"{event.kind}  {event.session_id}"
        details = " ".join(f"{name}={value}" for name, value in event.data.items()) if text is None else ""
        desk.out.line(Cell(f"{event.at.astimezone():%H:%M:%S}  ", "dim"), Cell(what, "bold"), f"  {details}".rstrip())
        if text is not None:
            desk.out.line(text, indent=10)
        desk.out.flush()


async def _text_of(desk: Desk, event: Event) -> str | None:
    """What was said, for an event about a message that is still there."""
    from frontdesk.errors import NotFoundError

    if event.kind not in ("message.appended", "message.updated") or not event.session_id or not event.message_id:
        return None
    try:
        return (await desk.manager.session(event.session_id).get_message(event.message_id)).text
    except NotFoundError:
        return None
