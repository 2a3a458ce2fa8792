"""The records that the public API returns, as frozen dataclasses. Those of a single feature (`SearchHit`, `Event`,
`ContextBlock`) are in its package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from frontdesk.keys import SessionKey
from frontdesk.messages import Message
from frontdesk.moments import to_datetime
from frontdesk.record import Record, draft_of
from frontdesk.store import NewOverlay, OverlayRow, SessionRow, UsageRow, metadata_of, tags_of
from frontdesk.store.damage import parse_stored
from frontdesk.tree.sessions import Status

T = TypeVar("T")
_NOTHING = Decimal(0)
_decode_details = msgspec.json.Decoder(dict[str, Any]).decode


class SessionStatus(StrEnum):
    ACTIVE = "active"
    IDLE = "idle"
    COMPACTING = "compacting"
    SUSPENDED = "suspended"
    ARCHIVED = "archived"


AnyStatus: TypeAlias = SessionStatus | Status
"""a status, or its name as text"""


class EndReason(StrEnum):
    """Why a session ended. `reset`, `delete` and `erase` are only passed to hooks: after a reset the session continues,
    and after the others it no longer exists."""

    ARCHIVE = "archive"
    TIMEOUT = "timeout"
    NEW = "new"
    COMPACTION = "compaction"
    RESET = "reset"
    DELETE = "delete"
    ERASE = "erase"


@dataclass(frozen=True, slots=True)
class Appended(Record):
    """What an append did. If the session already had the id, `inserted` is False and `message` is the stored
    message."""

    message: Message
    inserted: bool


@dataclass(frozen=True, slots=True)
class Page(Record, Generic[T]):
    """One page of results. Pass `next_cursor` as `cursor` for the next page; it is None on the last one."""

    items: list[T]
    next_cursor: str | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Compaction(Record):
    """A compaction (or overlay): it replaces the messages from `from_id` to `to_id` in history.

    `stale` is True if a message in the range was deleted or changed after the summary was made. If one was deleted, the
    summary is hidden until it has been made again: `kind` is "truncate", and `summary` is None. `details` says how the
    compaction was made, if Frontdesk made it: `trigger` ("automatic", "manual", "overflow" or "deletion"), `ratio` (how
    full the window was), `model`, `duration` in seconds, `attempts`, `usage` (the tokens of the model calls),
    `messages_covered`, `messages_kept`, `tokens_before` and `tokens_after`."""

    id: str
    kind: str
    summary: str | None
    from_id: str
    to_id: str
    created_at: datetime
    tokens: int
    stale: bool
    details: dict[str, Any]

    @classmethod
    def from_row(cls, row: OverlayRow | NewOverlay, from_id: str, to_id: str) -> Compaction:
        return cls(
            id=row.id,
            kind=row.kind,
            summary=row.summary,
            from_id=from_id,
            to_id=to_id,
            created_at=to_datetime(row.created_at),
            tokens=row.tokens,
            stale=row.stale,
            details=parse_stored(_decode_details, row.details, "compaction", row.id),
        )


@dataclass(frozen=True, slots=True)
class CompactionResult(Record):
    """What a compaction did, and what it cost. `summary` is None if the range is only hidden.

    `messages_covered` is how many messages are replaced, those under earlier summaries included, and `messages_kept`
    how many others the view has. `tokens_before` and `tokens_after` are the tokens of the view. For a summary that is
    made again, `tokens_before` counts the messages that it was made from in place of the summary.

    `attempts` is how many attempts it took to get a usable summary. `usage` has the tokens of the model calls."""

    id: str
    summary: str | None
    from_id: str
    to_id: str
    messages_covered: int
    messages_kept: int
    tokens_before: int
    tokens_after: int
    tokens_saved: int
    duration: float
    attempts: int
    usage: dict[str, int]

    @classmethod
    def of(cls, made: Compaction) -> CompactionResult:
        details = made.details
        before, after = details.get("tokens_before", 0), details.get("tokens_after", 0)
        return cls(
            id=made.id,
            summary=made.summary,
            from_id=made.from_id,
            to_id=made.to_id,
            messages_covered=details.get("messages_covered", 0),
            messages_kept=details.get("messages_kept", 0),
            tokens_before=before,
            tokens_after=after,
            tokens_saved=before - after,
            duration=details.get("duration", 0.0),
            attempts=details.get("attempts", 0),
            usage=details.get("usage", {}),
        )


@dataclass(frozen=True, slots=True)
class ContextUsage(Record):
    """How much of the model's window is used, in tokens. `ratio` is `used / max`."""

    used: int
    max: int
    ratio: float


class LiveState(NamedTuple):
    """What a session's row does not say: its status, its branches, and since when it is busy."""

    status: SessionStatus
    branches: int
    turn_since: datetime | None
    compacting_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo(Record):
    """Information about a session.

    `message_count` counts all stored messages, on all branches, and `branch_count` the branches. `token_count` is the
    number of tokens of the view at the head, and `prompt_tokens` that of the frozen prompt. `token_usage` is the share
    of `max_tokens` that the view takes, and `window_usage` the share that the view and the prompt take, as in
    `context_usage`. `turn_since` and `compacting_since` are set while a worker has the turn, or compacts the
    session."""

    id: str
    namespace: str
    key: SessionKey | None
    name: str
    status: SessionStatus
    end_reason: EndReason | None
    parent_session_id: str | None
    model: str | None
    source: str | None
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    summary: str | None
    message_count: int
    token_count: int
    prompt_tokens: int
    max_tokens: int
    token_usage: float
    window_usage: float
    input_tokens: int
    output_tokens: int
    cost: Decimal
    compaction_count: int
    branch_count: int
    turn_since: datetime | None
    compacting_since: datetime | None
    created_at: datetime
    updated_at: datetime
    last_active_at: datetime
    compacted_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def from_row(cls, row: SessionRow, limit: int, live: LiveState) -> SessionInfo:
        """The record for a row. `limit` is the window of the session."""
        updated_at = to_datetime(row.updated_at)
        info = _InfoDraft(
            id=row.id,
            namespace=row.namespace,
            key=key_of(row),
            name=row.name,
            status=live.status,
            end_reason=None if row.end_reason is None else parse_stored(EndReason, row.end_reason, "session", row.id),
            parent_session_id=row.parent_session_id,
            model=row.model,
            source=row.source,
            tags=tuple(tags_of(row)),
            metadata=metadata_of(row),
            summary=row.summary,
            message_count=row.message_count,
            token_count=row.view_tokens,
            prompt_tokens=row.prompt_tokens,
            max_tokens=limit,
            token_usage=row.view_tokens / limit,
            window_usage=row.used_tokens / limit,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            cost=_NOTHING if row.cost == "0" else parse_stored(Decimal, row.cost, "session", row.id),
            compaction_count=row.compaction_count,
            branch_count=live.branches,
            turn_since=live.turn_since,
            compacting_since=live.compacting_since,
            created_at=to_datetime(row.created_at),
            updated_at=updated_at,
            last_active_at=updated_at if row.last_active_at == row.updated_at else to_datetime(row.last_active_at),
            compacted_at=None if row.compacted_at is None else to_datetime(row.compacted_at),
            ended_at=None if row.ended_at is None else to_datetime(row.ended_at),
        )
        info.__class__ = cls
        made: SessionInfo = info
        return made


_InfoDraft = draft_of(SessionInfo)


UsageField: TypeAlias = Literal["day", "session", "agent", "channel", "peer", "model"]
"""what usage can be grouped by"""


@dataclass(frozen=True, slots=True)
class UsageGroup(Record):
    """Tokens and cost of one group. A field is None if the totals are not grouped by it, or if it is not known: a
    session without a key has no agent, and a deleted session has neither its id nor its peer."""

    day: date | None
    session_id: str | None
    agent: str | None
    channel: str | None
    peer: str | None
    model: str | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost: Decimal

    @classmethod
    def from_row(cls, row: UsageRow) -> UsageGroup:
        return cls(
            parse_stored(date.fromisoformat, row.day, "usage of day", row.day) if row.day else None,
            row.session_id,
            row.agent,
            row.channel,
            row.peer,
            row.model,
            row.input_tokens,
            row.output_tokens,
            row.cache_read_tokens,
            row.cache_write_tokens,
            row.reasoning_tokens,
            Decimal(row.cost),
        )


@dataclass(frozen=True, slots=True)
class UsageEntry(Record):
    """One model call in the usage ledger. `input_tokens` include what was read from or written to the cache."""

    id: str
    at: datetime
    model: str | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost: Decimal

    @classmethod
    def from_row(cls, row: UsageRow) -> UsageEntry:
        return cls(
            row.id,
            to_datetime(row.at),
            row.model,
            row.input_tokens,
            row.output_tokens,
            row.cache_read_tokens,
            row.cache_write_tokens,
            row.reasoning_tokens,
            parse_stored(Decimal, row.cost, "usage entry", row.id),
        )


@dataclass(frozen=True, slots=True)
class Usage(Record):
    """Totals of usage entries: one row for each group, sorted by what they are grouped by, and the sum of all rows."""

    rows: tuple[UsageGroup, ...]
    total: UsageGroup


@dataclass(frozen=True, slots=True)
class Stats(Record):
    """Totals over a namespace. `context_tokens` is the sum of the `token_count` of all sessions: what their models see
    now. `store_bytes` is the size of the whole store (0 in memory).

    `growth` has an entry for each of the last 30 days (UTC) on which sessions were created, oldest first.
    `hook_failures` counts failures in the hooks of this manager.

    `event_lag` is how many seconds ago the oldest change was made that events cannot report yet, because an older
    transaction is still running on the PostgreSQL server, in any database. `event_lag_cause` describes that
    transaction. On other stores, and usually on PostgreSQL, they are 0 and None."""

    sessions: int
    by_status: dict[str, int]
    messages: int
    input_tokens: int
    output_tokens: int
    cost: Decimal
    context_tokens: int
    store_bytes: int
    growth: tuple[GrowthDay, ...] = ()
    hook_failures: int = 0
    event_lag: float = 0.0
    event_lag_cause: str | None = None


@dataclass(frozen=True, slots=True)
class GrowthDay(Record):
    """The sessions that were created on a day (UTC), and how many messages they have now."""

    day: date
    sessions: int
    messages: int


@dataclass(frozen=True, slots=True)
class SweepReport(Record):
    """What a sweep did. `ran` is False if another worker was sweeping at the time. `states` counts the expired states,
    and `events` the old log entries, that were removed."""

    ran: bool
    archived: int = 0
    deleted: int = 0
    states: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class ErasureReport(Record):
    """How much an erasure removed. Messages that another session shares are not removed, and not counted.

    `remaining` counts sessions that others started during the erasure, and that still exist because others did not stop
    writing: call `erase` again. Everything that existed when the erasure began is gone."""

    sessions: int = 0
    messages: int = 0
    summaries: int = 0
    block_versions: int = 0
    states: int = 0
    usage_entries: int = 0
    queued_messages: int = 0
    shelves: int = 0
    remaining: int = 0

    def __add__(self, other: ErasureReport) -> ErasureReport:
        names = [field.name for field in fields(self)]
        return ErasureReport(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True)
class RecoveryReport(Record):
    """What was cleaned up after dead processes: how many leases were released, which sessions are no longer
    `compacting` because of that, and roughly how many texts were not in the search index."""

    leases_freed: int
    sessions: tuple[str, ...]
    unindexed: int = 0


@dataclass(frozen=True, slots=True)
class ImportProblem(Record):
    """A line of an export that could not be imported, by its number, and why."""

    line: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport(Record):
    """What an import added, or would add (`dry_run`). `skipped` counts sessions that already existed, and those that
    share messages with them: they stay as they are. `problems` has the first 1,000 of `problems_total`."""

    dry_run: bool
    lines: int
    sessions: int
    messages: int
    skipped: int
    documents: int
    states: int
    shelves: int = 0
    problems: tuple[ImportProblem, ...] = ()
    problems_total: int = 0


@dataclass(frozen=True, slots=True)
class TranscriptProblem(Record):
    """Something in a transcript that could not be imported as it is: the file, the number of the line (in ChatGPT's
    export that of the conversation, in a database that of the message; 0 for the whole file), and why."""

    file: str
    line: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptReport(Record):
    """What an import of transcripts added, or would add (`dry_run`): sessions, messages, compactions and usage entries.
    `known` counts messages that already existed, and `skipped` the records that are not messages, by their type.
    `problems` has the first 1,000 of `problems_total`."""

    dry_run: bool
    files: int
    sessions: int
    messages: int
    known: int
    compactions: int
    usage_entries: int
    skipped: dict[str, int]
    problems: tuple[TranscriptProblem, ...] = ()
    problems_total: int = 0


@dataclass(frozen=True, slots=True)
class CopyReport(Record):
    """How many sessions a copy has written, found unchanged in the target, and deleted from it."""

    sessions: int = 0
    unchanged: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class CheckProblem(Record):
    """Something that is wrong in a store, and the session that it concerns, or the first one of those that share its
    messages. `fixed` says whether it was repaired."""

    kind: str
    session_id: str
    problem: str
    fixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Record):
    """How much was checked, and what was wrong: `problems` has the first 1,000 of `problems_total`."""

    sessions: int
    messages: int
    problems: tuple[CheckProblem, ...] = ()
    problems_total: int = 0


def key_of(row: SessionRow) -> SessionKey | None:
    """The key of a session, if it has one."""
    if row.agent is None or row.channel is None or row.peer is None:
        return None
    return SessionKey(row.agent, row.channel, row.peer, row.thread)
