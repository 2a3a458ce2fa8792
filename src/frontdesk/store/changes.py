"""The entries of the change log: their kinds, which are the kinds of events, and the functions that make them. Separate
from the other rows, because plans, appends and stores all make entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2s
from typing import Any, Literal, NamedTuple

import msgspec

from frontdesk.store.damage import parse_stored
from frontdesk.store.rows import OverlayRow, Place, Scope, SessionRow, Span


class Position(NamedTuple):
    """The position of an entry in the log of its namespace. `major` and `minor` grow in the order of commits. Reading
    can start anywhere: `minor - 1` is right before the entry at `minor`.

    `epoch` is the identity of the part of the log that the entry belongs to: a random number. A log that may have gone
    back (it was restored from a backup, copied, or a standby without the last changes took over) begins another epoch
    before its next entry, after all that it has. So a position that is not in the log any more is recognised. Without
    an epoch (0), a position is not checked."""

    major: int
    minor: int
    epoch: int = 0

    @property
    def before(self) -> Position:
        """Right before the entry at this position."""
        return self._replace(minor=self.minor - 1)


BEGINNING = Position(0, 0)
"""before every entry"""

ChangeKind = Literal[
    "session.created",
    "session.changed",
    "session.deleted",
    "message.appended",
    "message.updated",
    "message.deleted",
    "messages.cleared",
    "head.moved",
    "compaction.started",
    "compaction.finished",
    "compaction.failed",
    "compaction.added",
    "compaction.removed",
    "block.changed",
    "usage.added",
]

RESERVED_PREFIX = "frontdesk:"
"""documents whose labels start with it are not blocks: their changes are not logged"""

KEY_PARTS = ("agent", "channel", "peer", "thread")
_WITH_VALUE = ("status", "end_reason")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ChangeRow(msgspec.Struct, frozen=True):
    """A log entry. If `session` is 0, it concerns the namespace. `session_id` is None then, and for a deleted session.

    `segment`, `first` and `last` are the messages that it concerns, `number` is that of an overlay or an edit, and
    `detail` is JSON or empty. `agent`, `channel`, `peer` and `thread` are those of the session. When a session is
    deleted, only its entry "session.deleted" remains. That entry has the id of the session and digests of the parts of
    its key, unless the session was erased."""

    position: Position
    at: int
    kind: ChangeKind
    session: int
    session_id: str | None
    segment: int = 0
    first: int = 0
    last: int = 0
    number: int = 0
    detail: str = ""
    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    thread: str | None = None

    @property
    def data(self) -> dict[str, Any]:
        """What `detail` says; empty without one. Raises `DamagedRecordError`."""
        return parse_stored(_decode, self.detail, "log entry", None, self.position.major) if self.detail else {}


class NewChange(msgspec.Struct, frozen=True, kw_only=True):
    """An entry to write. The store assigns its position.

    With `adds`, its number is that of the row that the plan adds at this index: an overlay for "compaction.added",
    otherwise an edit."""

    kind: ChangeKind
    segment: int = 0
    first: int = 0
    last: int = 0
    number: int = 0
    adds: int | None = None
    detail: str = ""


def detail(**values: Any) -> str:
    return msgspec.json.encode(values).decode()


def session_created(parent: str | None) -> NewChange:
    return NewChange(kind="session.created", detail="" if parent is None else detail(parent=parent))


def session_changed(values: Mapping[str, Any]) -> NewChange:
    """Contains the names of the changed columns, and the new status. Other values are left out, as they may be
    private."""
    names = sorted(name for name in values if name != "updated_at")
    shown = {name: values[name] for name in _WITH_VALUE if name in values}
    return NewChange(kind="session.changed", detail=detail(**shown, changed=names))


def session_woken() -> NewChange:
    """An append made the session active again."""
    return session_changed({"status": "active", "end_reason": None, "ended_at": None})


def session_erased() -> NewChange:
    """Says that a session was deleted, but not which one."""
    return NewChange(kind="session.deleted")


def session_deleted(row: SessionRow) -> NewChange:
    """Of the key only digests are kept, so that the entry can be matched, and does not name a person."""
    if row.agent is None:
        return NewChange(kind="session.deleted", detail=detail(id=row.id))
    key = [digest_part(row.namespace, getattr(row, part)) for part in KEY_PARTS]
    return NewChange(kind="session.deleted", detail=detail(id=row.id, key=key))


def digest_part(namespace: str, part: str | None) -> str | None:
    """A digest of a part of a key."""
    if part is None:
        return None
    return blake2s(f"{namespace}\0{part}".encode(), digest_size=8, person=b"frontdsk").hexdigest()


def message_updated(place: Place, adds: int | None = None) -> NewChange:
    segment, position = place
    return NewChange(kind="message.updated", segment=segment, first=position, last=position, adds=adds)


def messages_deleted(runs: Iterable[Span], ids: Mapping[Place, str]) -> list[NewChange]:
    """One entry for each run."""
    return [
        NewChange(
            kind="message.deleted",
            segment=run.segment,
            first=run.first,
            last=run.last,
            detail=detail(ids=[ids[Place(run.segment, at)] for at in range(run.first, run.last + 1)]),
        )
        for run in runs
    ]


def messages_cleared() -> NewChange:
    return NewChange(kind="messages.cleared")


def head_moved(place: Place | None) -> NewChange:
    """Without a place, there is no head any more."""
    if place is None:
        return NewChange(kind="head.moved")
    return NewChange(kind="head.moved", segment=place.segment, first=place.position, last=place.position)


def compaction_added(overlay_id: str, kind: str) -> NewChange:
    return NewChange(kind="compaction.added", adds=0, detail=detail(id=overlay_id, kind=kind))


def compaction_started(**values: str | float | None) -> NewChange:
    return NewChange(kind="compaction.started", detail=_known(values))


def compaction_finished(**values: str | float | None) -> NewChange:
    return NewChange(kind="compaction.finished", detail=_known(values))


def compaction_failed(**values: str | float | None) -> NewChange:
    """`error` is the name of a type: the text of an error may quote a conversation."""
    return NewChange(kind="compaction.failed", detail=_known(values))


def _known(values: Mapping[str, str | float | None]) -> str:
    """The values that are known, as a detail."""
    return detail(**{name: value for name, value in values.items() if value is not None})


def compaction_removed(overlay: OverlayRow) -> NewChange:
    return NewChange(kind="compaction.removed", number=overlay.number, detail=detail(id=overlay.id))


def block_changed(label: str, scope: Scope) -> tuple[NewChange, ...]:
    """None for documents that are not blocks. A block that does not belong to one session is logged without one."""
    if label.startswith(RESERVED_PREFIX):
        return ()
    return (NewChange(kind="block.changed", detail=detail(label=label, scope=scope)),)
