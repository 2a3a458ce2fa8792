"""The commands that change sessions: `compact`, `fork`, `archive`, `delete`, `erase`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from frontdesk.cli.desk import Desk, RefArgument, YesOption, confirm, parse_ref
from frontdesk.cli.output import Cell, counted

if TYPE_CHECKING:
    from frontdesk.keys import SessionKey
    from frontdesk.manager import SessionManager

KeyOption = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="A session key: agent:channel:peer[:thread].")
]


def with_summariser(manager: SessionManager, *, model: str = "extractive", **others: Any) -> SessionManager:
    """Set up the model that writes summaries: `extractive`, `openai:NAME` or `anthropic:NAME`."""
    from frontdesk import models
    from frontdesk.errors import ConfigurationError

    provider, _, name = model.partition(":")
    if provider == "extractive" and not name:
        return manager.with_compaction(models.extractive(), auto=False)
    if provider == "openai" and name:
        return manager.with_compaction(models.openai(name), auto=False)
    if provider == "anthropic" and name:
        return manager.with_compaction(models.anthropic(name), auto=False)
    raise ConfigurationError(f"no model {model!r}: write extractive, openai:NAME or anthropic:NAME")


async def compact(
    desk: Desk,
    ref: RefArgument,
    model: Annotated[
        str, typer.Option("--model", help="What writes the summary: extractive, openai:NAME or anthropic:NAME.")
    ] = "extractive",
    instructions: Annotated[str | None, typer.Option("--instructions", help="What the summary must keep.")] = None,
) -> None:
    """Show the model a summary in place of older messages. Nothing is deleted, and it can be undone."""
    result = await desk.manager.compact(await _existing(desk, ref), instructions=instructions)
    if desk.out.json:
        desk.out.record({"result": None if result is None else result.to_dict()})
    elif result is None:
        desk.out.line("Nothing was compacted: there is too little to gain.")
    else:
        saved = f"{result.tokens_before:,} to {result.tokens_after:,} tokens"
        desk.out.line(f"A summary covers {counted(result.messages_covered, 'message')}: {saved}.")
        desk.out.line(result.summary or "", indent=4)


async def fork(
    desk: Desk,
    ref: RefArgument,
    at: Annotated[str | None, typer.Option("--at", help="The last message of the fork. Default: the head.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="The name of the fork.")] = None,
    new_id: Annotated[str | None, typer.Option("--id", help="The id of the fork.")] = None,
    key: KeyOption = None,
) -> None:
    """Fork a session, and print the id of the fork. The two share their past, and nothing is copied."""
    made = await desk.manager.fork(parse_ref(ref), at, name=name, new_id=new_id, key=_key(key))
    if desk.out.json:
        desk.out.record((await made.info()).to_dict())
    else:
        desk.out.line(made.id)


async def archive(desk: Desk, ref: RefArgument) -> None:
    """End a session. It stays listed and searchable."""
    session_id = await _existing(desk, ref)
    await desk.manager.archive(session_id)
    await _print_info(desk, session_id, "archived")


async def delete(desk: Desk, ref: RefArgument, yes: YesOption = False) -> None:
    """Delete a session and all its data, permanently."""
    session_id = await _existing(desk, ref)
    info = await desk.manager.session(session_id).info()
    confirm(f"Delete {info.id!r} ({info.name}) with {counted(info.message_count, 'message')}?", yes=yes)
    deleted = await desk.manager.delete(session_id)
    if desk.out.json:
        desk.out.record({"id": session_id, "deleted": deleted})
    else:
        desk.out.line(f"{session_id} was deleted.")


async def erase(
    desk: Desk,
    key: KeyOption = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Everything of this agent.")] = None,
    channel: Annotated[str | None, typer.Option("--channel", help="Everything of this channel.")] = None,
    peer: Annotated[str | None, typer.Option("--peer", help="Everything of this peer.")] = None,
    author: Annotated[str | None, typer.Option("--author", help="Only the messages of this author.")] = None,
    yes: YesOption = False,
) -> None:
    """Remove every trace of a person, an agent or a channel."""
    wanted = {"key": key, "agent": agent, "channel": channel, "peer": peer, "author": author}
    what = ", ".join(f"{name} {value!r}" for name, value in wanted.items() if value is not None)
    if what:
        confirm(f"Erase everything of {what} from namespace {desk.manager.namespace!r}?", yes=yes)
    report = await desk.manager.erase(key=_key(key), agent=agent, channel=channel, peer=peer, author=author)
    if desk.out.json:
        desk.out.record(report.to_dict())
    else:
        rows = ((Cell(name.replace("_", " "), "dim"), f"{count:,}") for name, count in report.to_dict().items())
        desk.out.table(("", ""), rows)


async def _existing(desk: Desk, ref: str) -> str:
    """The id of a session that exists. Raises `SessionNotFoundError`."""
    return (await desk.manager.session(parse_ref(ref)).info()).id


async def _print_info(desk: Desk, session_id: str, done: str) -> None:
    if desk.out.json:
        desk.out.record((await desk.manager.session(session_id).info()).to_dict())
    else:
        desk.out.line(f"{session_id} was {done}.")


def _key(text: str | None) -> SessionKey | None:
    if text is None:
        return None
    from frontdesk.keys import SessionKey

    return SessionKey.parse(text)
