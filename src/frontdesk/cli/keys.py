"""`keys`: the API keys of a server."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from frontdesk.cli.desk import Desk, YesOption, check_kept, confirm
from frontdesk.cli.output import Cell

Role = Literal["read", "write", "admin"]


async def create(
    desk: Desk,
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    role: Annotated[Role, typer.Option("--role", help="What it may do.")] = "read",
    agent: Annotated[str | None, typer.Option("--agent", help="Only for the sessions of this agent.")] = None,
    guest: Annotated[
        str | None, typer.Option("--guest", metavar="KEY", help="Only for the guest agent:channel:peer.")
    ] = None,
) -> None:
    """Create an API key for the namespace, and print it. It is shown only once."""
    from frontdesk.keys import SessionKey
    from frontdesk.server import ApiKeys

    check_kept(desk.store)
    async with ApiKeys(desk.store) as keys:
        made = await keys.create(
            name,
            namespace=desk.manager.namespace,
            role=role,
            agent=agent,
            guest=None if guest is None else SessionKey.parse(guest),
        )
    if desk.out.json:
        desk.out.record({"id": made.key.id, "secret": made.secret, "role": role, "namespace": made.key.namespace})
    else:
        desk.out.line(made.secret)
        desk.out.note(f"Key {made.key.id} ({role}). Only its digest is stored, so it cannot be shown again.")


async def list_keys(desk: Desk) -> None:
    """List the API keys of all namespaces in the store."""
    from frontdesk.server import ApiKeys

    async with ApiKeys(desk.store) as keys:
        found = await keys.list()
    if desk.out.json:
        for key in found:
            desk.out.record(key.to_dict())
        return
    rows = [
        (
            Cell(key.id, "bold"),
            key.name,
            key.role,
            key.namespace,
            ":".join(part for part in (key.agent, key.channel, key.peer) if part),
            f"{key.created_at:%Y-%m-%d}",
        )
        for key in found
    ]
    desk.out.table(("id", "name", "role", "namespace", "restricted to", "created"), rows)


async def revoke(
    desk: Desk,
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The id of the key: `keys list` shows it.")],
    yes: YesOption = False,
) -> None:
    """Revoke an API key. Running servers refuse it within seconds."""
    from frontdesk.server import ApiKeys

    confirm(f"Revoke the key {key_id!r}?", yes=yes)
    async with ApiKeys(desk.store) as keys:
        await keys.revoke(key_id)
    if desk.out.json:
        desk.out.record({"id": key_id, "revoked": True})
    else:
        desk.out.line(f"{key_id} was revoked.")
