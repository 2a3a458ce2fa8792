"""`show`: one session, as it was written or as its model sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from frontdesk.cli.branching import show_tree
from frontdesk.cli.desk import Desk, RefArgument, parse_ref
from frontdesk.cli.output import Cell, ago, counted

if TYPE_CHECKING:
    from frontdesk.messages import Message
    from frontdesk.records import SessionInfo
    from frontdesk.session import Session

_ROLE_STYLES = {"user": "bold cyan", "assistant": "bold green", "system": "bold magenta", "tool": "bold blue"}
_SUMMARY_STYLE = "bold yellow"
_LONGEST = 4_000
"""characters of a message that are shown"""
_LAST = 20


async def show(
    desk: Desk,
    ref: RefArgument,
    tree: Annotated[bool, typer.Option("--tree", help="The branches, instead of the messages.")] = False,
    as_model: Annotated[bool, typer.Option("--as-model", help="What the model sees: with summaries applied.")] = False,
    leaf: Annotated[str | None, typer.Option("--leaf", help="The path to this message instead of the head.")] = None,
    last: Annotated[int, typer.Option("--last", min=1, help="Only this many messages, from the end.")] = _LAST,
    everything: Annotated[bool, typer.Option("--all", help="All messages, at full length.")] = False,
) -> None:
    """Show a session and its messages."""
    session = desk.manager.session(parse_ref(ref))
    info = await session.info()
    if desk.out.json:
        desk.out.record(info.to_dict())
    else:
        _show_info(desk, info)
    if tree:
        await show_tree(desk, session)
    elif as_model:
        await _show_history(desk, session, leaf, None if everything else last)
    else:
        await _show_transcript(desk, session, leaf, None if everything else last)


async def _show_history(desk: Desk, session: Session, leaf: str | None, last: int | None) -> None:
    messages = await session.history(leaf=leaf, last=last)
    for message in messages:
        _show_message(desk, message, whole=last is None)


async def _show_transcript(desk: Desk, session: Session, leaf: str | None, last: int | None) -> None:
    length = await session.path_length(leaf)
    if last is None:
        async for message in session.transcript(leaf=leaf):
            _show_message(desk, message, whole=True)
        return
    if length > last:
        desk.out.note(f"The last {last} of {length:,} messages: --all shows all of them.")
    shown = [message async for message in session.transcript(leaf=leaf, limit=last, reverse=True)]
    for message in reversed(shown):
        _show_message(desk, message, whole=False)


def _show_info(desk: Desk, info: SessionInfo) -> None:
    facts = [
        "no key" if info.key is None else str(info.key),
        info.status if info.end_reason is None else f"{info.status} ({info.end_reason})",
        info.model or "",
        counted(info.message_count, "message"),
        f"{info.token_count + info.prompt_tokens:,} of {info.max_tokens:,} tokens ({info.window_usage:.0%})",
        f"cost {info.cost:f}" if info.cost else "",
        counted(info.compaction_count, "compaction") if info.compaction_count else "",
        f"active {ago(info.last_active_at)} ago",
        f"from {info.parent_session_id}" if info.parent_session_id else "",
        f"tags {', '.join(info.tags)}" if info.tags else "",
    ]
    desk.out.line(Cell(info.id, "bold"), f"  {info.name}")
    desk.out.line(Cell(" · ".join(fact for fact in facts if fact), "dim"))
    desk.out.line()


def _show_message(desk: Desk, message: Message, *, whole: bool) -> None:
    if desk.out.json:
        desk.out.record(message.to_dict())
        return
    role = "summary" if message.is_summary else message.role
    style = _SUMMARY_STYLE if message.is_summary else _ROLE_STYLES.get(role, "bold")
    author = f" {message.author}" if message.author else ""
    when = f"  {message.created_at.astimezone():%Y-%m-%d %H:%M:%S}  {message.tokens} tokens  {message.id}"
    desk.out.line(Cell(role, style), Cell(author, "bold"), Cell(when, "dim"))
    text = message.text if whole or len(message.text) <= _LONGEST else message.text[:_LONGEST] + " …"
    desk.out.line(text or _without_text(message), indent=4)


def _without_text(message: Message) -> str:
    """What to show of a message that has no text, such as a call of a tool."""
    calls = [part.to_dict() for part in message.parts]
    return "\n".join(
        f"[{call.get('type')}] {call.get('name', '')} {call.get('arguments', '')}".rstrip() for call in calls
    )
