"""Pure: the values of a session's row at its creation and at its end, the status that follows from a row, and how
sessions are found by their id and metadata."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

import msgspec
from msgspec.structs import asdict

from frontdesk.store import Columns, NewFork, NewSession, SessionRow

Status = Literal["active", "idle", "compacting", "suspended", "archived"]


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
        "prompt_tokens": source.prompt_tokens if fork.documents.prompt else 0,
    }
    return SessionRow(**values)


def ended(reason: str, now: int) -> Columns:
    """The columns of a session that ends now."""
    return {"status": "archived", "end_reason": reason, "ended_at": now, "updated_at": now}


def is_idle(row: SessionRow, now: int, idle_after: int) -> bool:
    """Whether a session was last active longer ago than its own `idle_after`, or the given one if it has none."""
    return row.last_active_at + (idle_after if row.idle_after is None else row.idle_after) <= now


def status_of(row: SessionRow, now: int, idle_after: int, *, is_compacting: bool) -> Status:
    """The status of a session. Its row says only whether it is active, suspended or archived."""
    if row.status != "active":
        return row.status
    if is_compacting:
        return "compacting"
    return "idle" if is_idle(row, now, idle_after) else "active"


# how sessions are found

Scalar = str | int | float | bool
_SURROGATES = range(0xD800, 0xE000)
_LAST = 0x10FFFF


def metadata_digest(name: str, value: Scalar) -> bytes:
    """What an index has for a value of the metadata. Numbers are equal if they have the same value; true and 1 are not
    equal."""
    same = int(value) if isinstance(value, float) and value.is_integer() else value
    text = str(same) if type(same) is int else msgspec.json.encode(same).decode()
    return sha256(msgspec.json.encode((name, text))).digest()


def metadata_digests(metadata: str) -> list[bytes]:
    """The digests of all top-level values of a session's metadata that a filter can ask for."""
    values = msgspec.json.decode(metadata, type=dict).items() if metadata != "{}" else ()
    return [metadata_digest(name, value) for name, value in values if isinstance(value, Scalar)]


def prefix_end(prefix: str) -> str | None:
    """The first text, in the order of code points, after all that begin with a prefix; None if there is none.

    Examples: "ab" -> "ac"; "a" followed by the last code point -> "b"."""
    while prefix:
        prefix, last = prefix[:-1], ord(prefix[-1])
        if last < _LAST:
            following = last + 1
            return prefix + chr(_SURROGATES.stop if following in _SURROGATES else following)
    return None
