"""Pure: the row that a new session or a fork begins with, once for all stores."""

from __future__ import annotations

from msgspec.structs import asdict

from frontdesk.store import NewFork, NewSession, SessionRow


def new_row(new: NewSession, number: int) -> SessionRow:
    """The row of a new session. It is the first of its family, and current under its key, if it has one."""
    values = asdict(new)
    now = values.pop("now")
    return SessionRow(
        number=number,
        tree=number,
        family=number,
        created_at=now,
        updated_at=now,
        last_active_at=now,
        key_current=new.agent is not None,
        **values,
    )


def fork_row(fork: NewFork, source: SessionRow, number: int) -> SessionRow:
    """The row of a fork. Its head is where it was forked, and its tail is empty until it has a message of its own."""
    values = asdict(new_row(fork.session, number)) | {
        "family": source.family,
        "base": fork.base,
        "head": fork.base,
        "tail": 0 if fork.base is None else fork.base.position + 1,
        "view": "plain" if fork.base is None else "stale" if fork.view is None else "stored",
        "view_tokens": fork.view_tokens,
        "view_messages": fork.view_messages,
        "message_count": fork.message_count,
        "compaction_count": fork.compaction_count,
        "prompt_tokens": source.prompt_tokens,
    }
    return SessionRow(**values)
