"""The records that explain one session: pages of a path, the model's view with the reason for each item, the outline of
the tree, the timeline, the turn and the parts of the context. Separate from `records`, which most programs need."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal, TypeAlias

from frontdesk.messages import Message
from frontdesk.record import Record
from frontdesk.records import UsageEntry


@dataclass(frozen=True, slots=True)
class PathEntry(Record):
    """A message on a path. `position` counts the messages before it.

    `compaction_id` is the id of the compaction that hides it from the model (None: there is none). `siblings` are the
    ids of all messages that follow the same message, oldest first, this one included; empty if it is the only one."""

    position: int
    message: Message
    compaction_id: str | None
    siblings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathPage(Record):
    """Some of the messages on a path, as they were written. `first` is the position of the first one, `total` the
    length of the path, and `leaf_id` its last message (None: the path is empty)."""

    leaf_id: str | None
    first: int
    total: int
    entries: tuple[PathEntry, ...]


ItemKind: TypeAlias = Literal["message", "summary", "note"]
"""what an item of a view is: a message that was written, the summary of a compaction, or a note on changes of the
context"""

AbsenceReason: TypeAlias = Literal["summary", "truncate", "reset", "window", "branch"]
"""why the model does not get messages: a compaction of this kind covers them, they do not fit into `max_tokens`, or
they are on other branches"""


@dataclass(frozen=True, slots=True)
class ViewItem(Record):
    """One item of what the model gets.

    `message` is what it gets, and `original_tokens` is how long that was before it was shortened. `position` is its
    position on the path; for a summary, that of the first of the `covered` messages that it replaces; None for a note
    that is not stored yet."""

    kind: ItemKind
    position: int | None
    message: Message
    tokens: int
    original_tokens: int
    compaction_id: str | None = None
    covered: int = 0


@dataclass(frozen=True, slots=True)
class Absence(Record):
    """Messages that were written and that the model does not get, and why. `first` and `last` are their positions on
    the path; None for other branches."""

    reason: AbsenceReason
    messages: int
    tokens: int
    compaction_id: str | None = None
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class ViewPage(Record):
    """Some items of what the model gets. `first` counts the items before them, `total` all items, and `tokens` are
    those of all items. `missing` says what is not among them, and why, for the whole view."""

    leaf_id: str | None
    first: int
    total: int
    tokens: int
    items: tuple[ViewItem, ...]
    missing: tuple[Absence, ...]


@dataclass(frozen=True, slots=True)
class OutlineRun(Record):
    """Messages without a branch between them. `parent` is the index of the run that they follow (None: a root), `first`
    the position of the first one on its path, and `text` the beginning of that one. `on_path` says whether the path to
    the head goes through the run."""

    parent: int | None
    first_id: str
    last_id: str
    first: int
    messages: int
    tokens: int
    created_at: datetime
    last_at: datetime
    role: str
    text: str
    on_path: bool
    is_leaf: bool


@dataclass(frozen=True, slots=True)
class OutlineCompaction(Record):
    """A compaction in an outline. `first` and `last` are the positions that it covers on its path, `run` the index of
    the run that it ends in, and `extends` the ids of the compactions inside it. `applies` says whether the view at the
    head shows it."""

    id: str
    kind: str
    run: int
    first: int
    last: int
    messages: int
    tokens: int
    created_at: datetime
    extends: tuple[str, ...]
    applies: bool
    stale: bool


@dataclass(frozen=True, slots=True)
class OutlineFork(Record):
    """A session that was forked from this one. `message_id` is the last message that both have (None: there is none
    that this session still has), `run` the index of its run, and `position` that on its path."""

    session_id: str
    name: str
    message_id: str | None
    run: int | None
    position: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Outline(Record):
    """The shape of a session: where it branches, what compactions cover, and which sessions were forked from it.
    `forked_at` is the last message that it took over from `parent_session_id`. A run comes after the one that it
    follows. `forks` are the latest 100."""

    head_id: str | None
    parent_session_id: str | None
    forked_at: str | None
    runs: tuple[OutlineRun, ...]
    compactions: tuple[OutlineCompaction, ...]
    forks: tuple[OutlineFork, ...]


@dataclass(frozen=True, slots=True)
class TimelinePoint(Record):
    """A point of a timeline: when the message at `position` was the last one, the view had this many `tokens`. `cost`
    is that of the model calls since the previous point."""

    position: int
    at: datetime
    tokens: int
    cost: Decimal


@dataclass(frozen=True, slots=True)
class TimelineCompaction(Record):
    """A compaction in a timeline: it was made when the path had `position` messages, and covers those from `first` to
    `last`. The view had `tokens_before`, and then `tokens_after`."""

    id: str
    kind: str
    at: datetime
    position: int
    first: int
    last: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class Timeline(Record):
    """How the view of a path has grown and shrunk. `total` is the length of the path, `max_tokens` the window, and
    `compacts_at` the number of tokens at which a compaction starts."""

    total: int
    max_tokens: int
    compacts_at: int
    points: tuple[TimelinePoint, ...]
    compactions: tuple[TimelineCompaction, ...]


@dataclass(frozen=True, slots=True)
class TurnInfo(Record):
    """Who has the turn of a session: `holder` (its host, its process and a random part), under this `number`, since
    `since`, until `expires_at` unless it is renewed. All are None if the turn is free. `waiting` are the callers in the
    queue, in their order."""

    holder: str | None
    number: int | None
    since: datetime | None
    expires_at: datetime | None
    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prompt(Record):
    """A frozen system prompt. `versions` are those of the blocks that it was rendered from, by label."""

    text: str
    tokens: int
    frozen_at: datetime
    versions: dict[str, int]


@dataclass(frozen=True, slots=True)
class PromptBlock(Record):
    """A block as a part of the context. `frozen_version` is the version in the frozen prompt (None: it is not in it),
    and `changed` says whether the block has changed since the prompt was frozen."""

    label: str
    description: str | None
    kind: str
    scope: str
    tokens: int
    max_tokens: int | None
    version: int
    frozen_version: int | None
    changed: bool


@dataclass(frozen=True, slots=True)
class ContextPart(Record):
    """One part of the context: "prompt", "tools", "summary", "system", "user", "assistant" or "tool" (results), and how
    many definitions or messages it consists of."""

    part: str
    count: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextBreakdown(Record):
    """What the next model call takes, by part, in the order in which it is sent. `used`, `max` and `ratio` are those of
    `context_usage()`; the definitions of tools, which every call sends as well, are a part, and not in `used`. `room`
    is what is left until a compaction starts, at `compacts_at` tokens. `covered_messages` are those under compactions,
    and `branch_messages` those on other branches."""

    used: int
    max: int
    ratio: float
    compacts_at: int
    room: int
    parts: tuple[ContextPart, ...]
    prompt_frozen_at: datetime | None
    blocks: tuple[PromptBlock, ...]
    covered_messages: int
    covered_tokens: int
    branch_messages: int
    last_call: UsageEntry | None
