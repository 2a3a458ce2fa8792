"""The values that the public API gives back: frozen, typed, in the words of the product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar, overload

import msgspec

from frontdesk.errors import InvalidInputError
from frontdesk.keys import SessionKey
from frontdesk.messages import Message
from frontdesk.store import NewOverlay, OverlayRow, SessionRow, UsageRow

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING = Decimal(0)
_decode = msgspec.json.Decoder().decode


class SessionStatus(StrEnum):
    ACTIVE = "active"
    IDLE = "idle"
    COMPACTING = "compacting"
    SUSPENDED = "suspended"
    ARCHIVED = "archived"


class EndReason(StrEnum):
    """Why a session ended. `reset`, `delete` and `erase` are told to hooks only: after the first the session lives on,
    after the others it is gone."""

    ARCHIVE = "archive"
    TIMEOUT = "timeout"
    NEW = "new"
    COMPACTION = "compaction"
    RESET = "reset"
    DELETE = "delete"
    ERASE = "erase"


class Appended(msgspec.Struct, frozen=True):
    """What became of a message: `inserted` is False if its id was there already; then `message` is the stored one."""

    message: Message
    inserted: bool


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page; `next_cursor` gets the next one and is None on the last."""

    items: list[T]
    next_cursor: str | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Compaction:
    """An overlay: what stands in for the messages from `from_id` to `to_id`.

    `stale` says that a message under it was deleted or changed after the summary was made; `details` what is known of
    how it was made."""

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
            details=msgspec.json.decode(row.details),
        )


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a compaction did: the overlay it laid (`summary` is None where the range is only hidden), and at what price.

    `attempts` counts the tries it took to get a summary worth storing; `usage` is what the model's calls took."""

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
class ContextUsage:
    """How much of the window is used; `ratio` is their quotient."""

    used: int
    max: int
    ratio: float


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a session without reading its messages.

    `message_count` counts all stored messages on all branches; `token_count` those of the view at the head;
    `token_usage` is its share of `max_tokens`."""

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
    max_tokens: int
    token_usage: float
    input_tokens: int
    output_tokens: int
    cost: Decimal
    compaction_count: int
    created_at: datetime
    updated_at: datetime
    last_active_at: datetime
    compacted_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def from_row(cls, row: SessionRow, limit: int, status: SessionStatus) -> SessionInfo:
        """What a row says; `limit` is the window of the session, `status` what is derived for it."""
        return cls(
            id=row.id,
            namespace=row.namespace,
            key=key_of(row),
            name=row.name,
            status=status,
            end_reason=None if row.end_reason is None else EndReason(row.end_reason),
            parent_session_id=row.parent_session_id,
            model=row.model,
            source=row.source,
            tags=() if row.tags == "[]" else tuple(_decode(row.tags)),
            metadata={} if row.metadata == "{}" else _decode(row.metadata),
            summary=row.summary,
            message_count=row.message_count,
            token_count=row.view_tokens,
            max_tokens=limit,
            token_usage=row.view_tokens / limit,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            cost=_NOTHING if row.cost == "0" else Decimal(row.cost),
            compaction_count=row.compaction_count,
            created_at=to_datetime(row.created_at),
            updated_at=to_datetime(row.updated_at),
            last_active_at=to_datetime(row.last_active_at),
            compacted_at=None if row.compacted_at is None else to_datetime(row.compacted_at),
            ended_at=None if row.ended_at is None else to_datetime(row.ended_at),
        )


@dataclass(frozen=True, slots=True)
class UsageDay:
    """Tokens and cost of one day (UTC) and one model."""

    day: date
    model: str | None
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost: Decimal

    @classmethod
    def from_row(cls, row: UsageRow) -> UsageDay:
        return cls(
            date.fromisoformat(row.day),
            row.model,
            row.input_tokens,
            row.output_tokens,
            row.cache_read_tokens,
            row.cache_write_tokens,
            row.reasoning_tokens,
            Decimal(row.cost),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Totals of a ledger, and the days and models they are made of, oldest first."""

    days: tuple[UsageDay, ...]
    input_tokens: int = field(init=False)
    output_tokens: int = field(init=False)
    cache_read_tokens: int = field(init=False)
    cache_write_tokens: int = field(init=False)
    reasoning_tokens: int = field(init=False)
    cost: Decimal = field(init=False)

    def __post_init__(self) -> None:
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"):
            object.__setattr__(self, name, sum(getattr(day, name) for day in self.days))
        object.__setattr__(self, "cost", sum((day.cost for day in self.days), Decimal(0)))


@dataclass(frozen=True, slots=True)
class Stats:
    """Totals over a namespace; `store_bytes` is the size of the whole store (0 in memory).

    `growth` holds the last 30 days (UTC) that had any, oldest first; `hook_failures` counts what went wrong in the
    hooks of this manager."""

    sessions: int
    by_status: dict[str, int]
    messages: int
    input_tokens: int
    output_tokens: int
    cost: Decimal
    store_bytes: int
    growth: tuple[GrowthDay, ...] = ()
    hook_failures: int = 0


@dataclass(frozen=True, slots=True)
class GrowthDay:
    """The sessions that began on a day (UTC), and how many messages they have by now."""

    day: date
    sessions: int
    messages: int


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep did; `ran` is False if another worker was sweeping at the time. `states` had expired, `events` were
    older than the log keeps them."""

    ran: bool
    archived: int = 0
    deleted: int = 0
    states: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """How much an erasure removed; what was shared with a session that stays is not removed, and not counted."""

    sessions: int = 0
    messages: int = 0
    summaries: int = 0
    block_versions: int = 0
    states: int = 0
    usage_lines: int = 0
    queued_messages: int = 0

    def __add__(self, other: ErasureReport) -> ErasureReport:
        names = [field.name for field in fields(self)]
        return ErasureReport(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What was left behind by processes that died: how many leases were freed, which sessions are no longer
    `compacting` for it, and (about) how many texts the search index had not taken in."""

    leases_freed: int
    sessions: tuple[str, ...]
    unindexed: int = 0


@dataclass(frozen=True, slots=True)
class SearchHit:
    """Something that matched; `snippet` is the part of its text around the matches, which are marked `**like this**`.

    `kind` is "message"; or "summary" for that of a compaction, with the id of its synthetic message; or "session" for a
    session's own name and summary, without a message id. `position` counts the messages ahead of it on the path to the
    head and is None off that path, where `branch` is the last message of the branch that it stands on; `visible` says
    whether the history at the head shows it (what was compacted away, or stands on another branch, is not shown).
    `context_before` and `context_after` are its neighbours, if they were asked for."""

    session_id: str
    message_id: str
    role: str
    score: float
    snippet: str
    created_at: datetime
    kind: Literal["message", "summary", "session"] = "message"
    session_name: str = ""
    position: int | None = None
    visible: bool = True
    key: SessionKey | None = None
    branch: str | None = None
    context_before: tuple[Message, ...] = ()
    context_after: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResults(Sequence[SearchHit]):
    """Hits, best first; `total` counts all that matched; `next_cursor` gets the next ones and is None at the end.

    Of very common words only the latest 1,000 texts are looked at, and `total` counts among these."""

    hits: tuple[SearchHit, ...]
    total: int
    next_cursor: str | None

    @overload
    def __getitem__(self, index: int) -> SearchHit: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[SearchHit, ...]: ...

    def __getitem__(self, index: int | slice) -> SearchHit | tuple[SearchHit, ...]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def by_session(self) -> dict[str, tuple[SearchHit, ...]]:
        """The hits of each session, in the order in which the sessions first appear."""
        found: dict[str, list[SearchHit]] = {}
        for hit in self.hits:
            found.setdefault(hit.session_id, []).append(hit)
        return {session_id: tuple(hits) for session_id, hits in found.items()}


@dataclass(frozen=True, slots=True)
class SearchInfo:
    """How a namespace is searched. `mode` is "lexical" (by words) or "hybrid" (by words and by meaning).

    The index holds `texts` texts and everything up to the moment `indexed_up_to` (None: nothing yet); `pending` changes
    are not in it so far (a search takes them into account all the same). It is `building` while it is made, or made
    anew for another language or version.

    With embeddings, `vectors` texts have a vector of `dimensions` numbers so far, by `embedding_model` if that is
    known; the others are found by words. `embedding_error` says why all are at the moment, for `mode` is "lexical"
    then, too."""

    mode: Literal["lexical", "hybrid"]
    language: str
    reasoning: bool
    texts: int
    pending: int
    indexed_up_to: datetime | None
    building: bool
    made_with: str
    dimensions: int | None = None
    embedding_model: str | None = None
    vectors: int = 0
    embedding_error: str | None = None


def key_of(row: SessionRow) -> SessionKey | None:
    """The key of a session, if it has one."""
    if row.agent is None or row.channel is None or row.peer is None:
        return None
    return SessionKey(row.agent, row.channel, row.peer, row.thread)


def to_datetime(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def to_microseconds(moment: datetime) -> int:
    """Microseconds since the epoch; a datetime without a zone is taken as UTC. Raises `InvalidInputError`."""
    if not isinstance(moment, datetime):
        raise InvalidInputError(f"a moment is a datetime, not {type(moment).__name__}")
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)
