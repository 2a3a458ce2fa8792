"""The types of `frontdesk.sync`, for type checkers and editors. Written by `make stubs`."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any, Generic, Literal, Self, overload

from frontdesk import (
    ANY_HEAD,
    DEFAULT_MAX_TOKENS,
    FOLLOW_HEAD,
    Absence,
    AbsenceReason,
    AccessDeniedError,
    Appended,
    Blob,
    BlobRange,
    BlockKind,
    BlockNotFoundError,
    BlockTooLargeError,
    BlockVersion,
    BlockVersionError,
    ChangesRewoundError,
    ChangesTrimmedError,
    CheckProblem,
    CheckReport,
    Compaction,
    CompactionError,
    CompactionNotFoundError,
    CompactionResult,
    ConcurrentChangeError,
    ConfigurationError,
    ConflictError,
    ContextBlock,
    ContextBreakdown,
    ContextOverflowError,
    ContextPart,
    ContextUsage,
    Conversion,
    CopyReport,
    DamagedRecordError,
    DataPart,
    EmbeddingError,
    EndReason,
    ErasureReport,
    Event,
    FilePart,
    FrontdeskError,
    GrowthDay,
    HeadMovedError,
    ImportProblem,
    ImportReport,
    InvalidCursorError,
    InvalidIdError,
    InvalidInputError,
    InvalidKeyError,
    InvalidMessageError,
    InvalidRangeError,
    InvalidStateError,
    InvalidTransitionError,
    ItemKind,
    Loss,
    Message,
    MessageFormat,
    MessageNotFoundError,
    MessageTooLargeError,
    ModelError,
    ModelOverflowError,
    ModelRateLimitError,
    ModelRefusedError,
    ModelTimeoutError,
    NewMessage,
    NotFoundError,
    OrchestrationState,
    Outline,
    OutlineCompaction,
    OutlineFork,
    OutlineRun,
    Page,
    Part,
    PathEntry,
    PathPage,
    Prompt,
    PromptBlock,
    ReadonlyBlockError,
    ReasoningPart,
    RecoveryReport,
    SchemaVersionError,
    SearchHit,
    SearchInfo,
    SearchResults,
    SessionEndedError,
    SessionExistsError,
    SessionInfo,
    SessionKey,
    SessionNotFoundError,
    SessionStatus,
    ShelfRead,
    ShelfStore,
    ShelfVersion,
    StateExistsError,
    StateInfo,
    StateMismatchError,
    StateNotFoundError,
    StateStore,
    StateStoreMissingError,
    StateTooLargeError,
    StateVersionError,
    Stats,
    Store,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreReplacedError,
    StoreUnavailableError,
    StoreURLError,
    SweepReport,
    TextPart,
    Timeline,
    TimelineCompaction,
    TimelinePoint,
    TokenCounter,
    ToolCallPart,
    ToolResultPart,
    TranscriptFormat,
    TranscriptProblem,
    TranscriptReport,
    TurnBusyError,
    TurnInfo,
    TurnLostError,
    Usage,
    UsageEntry,
    UsageField,
    UsageGroup,
    ViewItem,
    ViewPage,
    convert,
    estimate_tokens,
    memory_fingerprint,
    normalise_memory,
    render_prompt,
    truncate_older_messages,
)
from frontdesk.config.runtime import Clock, Runtime
from frontdesk.config.scopes import SearchScope, WideScope
from frontdesk.config.settings import Embed, Model, OnError, Planner, PromptStore, Renderer, Sink, Strategy
from frontdesk.lifecycle.notes import EndingSession
from frontdesk.lifecycle.transitions import ManagerDefault
from frontdesk.manager.directory import ListOrder
from frontdesk.manager.manager import AppendedList, DictList, EventList, MessageList
from frontdesk.messages.formats import Notes
from frontdesk.records import AnyStatus
from frontdesk.session.components import Components
from frontdesk.session.requests import AnthropicRequest, OpenAIRequest, OpenAIResponsesRequest
from frontdesk.session.session import R
from frontdesk.session.turns import Duration, Holding
from frontdesk.session.writing import Given
from frontdesk.states.expiry import UsualTTL
from frontdesk.states.migration import Migrate
from frontdesk.states.orchestration import Step
from frontdesk.states.states import T
from frontdesk.store import AnyHead, FollowHead, Scope

__all__ = [
    "ANY_HEAD",
    "DEFAULT_MAX_TOKENS",
    "FOLLOW_HEAD",
    "Absence",
    "AbsenceReason",
    "AccessDeniedError",
    "Appended",
    "Blob",
    "BlobRange",
    "BlockKind",
    "BlockNotFoundError",
    "BlockTooLargeError",
    "BlockVersion",
    "BlockVersionError",
    "ChangesRewoundError",
    "ChangesTrimmedError",
    "CheckProblem",
    "CheckReport",
    "Compaction",
    "CompactionError",
    "CompactionNotFoundError",
    "CompactionResult",
    "ConcurrentChangeError",
    "ConfigurationError",
    "ConflictError",
    "ContextBlock",
    "ContextBreakdown",
    "ContextOverflowError",
    "ContextPart",
    "ContextUsage",
    "Conversion",
    "CopyReport",
    "DailyNotes",
    "DamagedRecordError",
    "DataPart",
    "EmbeddingError",
    "EndReason",
    "ErasureReport",
    "Event",
    "FilePart",
    "FrontdeskError",
    "GrowthDay",
    "HeadMovedError",
    "ImportProblem",
    "ImportReport",
    "InvalidCursorError",
    "InvalidIdError",
    "InvalidInputError",
    "InvalidKeyError",
    "InvalidMessageError",
    "InvalidRangeError",
    "InvalidStateError",
    "InvalidTransitionError",
    "ItemKind",
    "Loss",
    "Message",
    "MessageFormat",
    "MessageNotFoundError",
    "MessageTooLargeError",
    "ModelError",
    "ModelOverflowError",
    "ModelRateLimitError",
    "ModelRefusedError",
    "ModelTimeoutError",
    "NewMessage",
    "NotFoundError",
    "OrchestrationState",
    "Orchestrator",
    "Outline",
    "OutlineCompaction",
    "OutlineFork",
    "OutlineRun",
    "Page",
    "Part",
    "PathEntry",
    "PathPage",
    "Prompt",
    "PromptBlock",
    "ReadonlyBlockError",
    "ReasoningPart",
    "RecoveryReport",
    "SchemaVersionError",
    "SearchHit",
    "SearchInfo",
    "SearchResults",
    "Session",
    "SessionEndedError",
    "SessionExistsError",
    "SessionInfo",
    "SessionKey",
    "SessionManager",
    "SessionNotFoundError",
    "SessionStatus",
    "ShelfRead",
    "ShelfStore",
    "ShelfVersion",
    "Shelves",
    "StandaloneSession",
    "StateExistsError",
    "StateInfo",
    "StateMismatchError",
    "StateNotFoundError",
    "StateStore",
    "StateStoreMissingError",
    "StateTooLargeError",
    "StateVersionError",
    "States",
    "Stats",
    "Store",
    "StoreClosedError",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreReadOnlyError",
    "StoreReplacedError",
    "StoreURLError",
    "StoreUnavailableError",
    "SweepReport",
    "TextPart",
    "Timeline",
    "TimelineCompaction",
    "TimelinePoint",
    "TokenCounter",
    "Tool",
    "ToolCallPart",
    "ToolResultPart",
    "TranscriptFormat",
    "TranscriptProblem",
    "TranscriptReport",
    "Turn",
    "TurnBusyError",
    "TurnInfo",
    "TurnLostError",
    "Usage",
    "UsageEntry",
    "UsageField",
    "UsageGroup",
    "ViewItem",
    "ViewPage",
    "convert",
    "estimate_tokens",
    "memory_fingerprint",
    "normalise_memory",
    "render_prompt",
    "truncate_older_messages",
]

class DailyNotes:
    """A hook for `register_hook` that writes a note when a session with three or more messages ends: its title, end
    reason, duration and counts, and its summary, or else the first question and the last answer.

    With `directory`, the notes of a day (UTC) go to one Markdown file, `<namespace>/<date>.md`, which any number of
    workers may share. With `block`, they go to that context block; declare it with `scope="guest"`, so that later
    sessions of the guest see them and no other guest does. A note in a block is removed with the session, with the
    guest, or with a message that it quotes or whose summary it contains. A deleted session leaves no note.
    `clock` returns the time, as for `SessionManager`.

    Raises `ConfigurationError` unless exactly one of `directory` and `block` is given."""

    def __init__(
        self,
        directory: str | PathLike[str] | None = None,
        *,
        block: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None: ...
    def on_session_end(self, session: EndingSession, reason: str) -> None: ...

class Orchestrator:
    """Steps, and the progress of each session through them. Without steps it records usage and allows every tool.

    `states` is `manager.states(OrchestrationState, name="orchestration")`, or with another name. Without `states`, they
    are kept in memory, for the lifetime of this object. A call that changes the state of a session creates it if there
    is none. Every change is atomic. Raises `ConfigurationError` for contradictory steps."""

    def __init__(self, steps: Iterable[Step] = (), *, states: States[OrchestrationState] | None = None) -> None: ...
    def get_state(self, id: str) -> OrchestrationState | None:
        """The progress of a session; None if there is none."""

    def get_or_create_state(self, id: str | None = None) -> OrchestrationState:
        """The progress of a session. Without an `id`, one is generated; it is the `session_id` of the result."""

    def update_state(self, id: str, partial: Mapping[str, Any]) -> OrchestrationState:
        """Replace the given fields, and no others. Raises `InvalidInputError` for an unknown field."""

    def set_active_step(self, id: str, step: str | None) -> OrchestrationState:
        """Enter a step, at the start of its sequence. It stays active until the use of a tool completes the conditions
        of another step. Raises `InvalidInputError` for an unknown step."""

    def add_used_tool(self, id: str, tool: str) -> OrchestrationState:
        """Record the use of a tool, and enter the step whose conditions it completes."""

    def advance_sequence(self, id: str) -> OrchestrationState:
        """Move to the next tool of the sequence."""

    def process_tool(self, id: str, tool: str) -> bool:
        """Record the use of a tool, advance the sequence if the tool was the expected one, and enter the step whose
        conditions it completes.

        Returns whether the tool was allowed, as `is_allowed` says. The use of a tool that was not allowed is also
        recorded, but the sequence does not advance."""

    def is_allowed(self, id: str, tool: str) -> bool:
        """Whether a tool may be used now. Records nothing."""

    def allowed_tools(self, id: str, available: Iterable[str]) -> list[str]:
        """The available tools that may be used now, in their given order."""

    def add_token_usage(self, id: str, *, input_tokens: int = 0, output_tokens: int = 0) -> OrchestrationState:
        """Add the tokens of a model call to the totals. Raises `InvalidInputError` for invalid counts."""

    def reset_state(self, id: str) -> bool:
        """Delete the progress of a session; False if there was none."""

class Session:
    """A handle on one session. Creating a handle does no I/O; the first write creates the session.

    A handle made from a key looks up the key's current session at its first I/O, and stays with that session from then
    on. If there is none, the first write creates it."""

    def __init__(self, runtime: Runtime, ref: str | SessionKey, stored_key: SessionKey | None = None) -> None: ...
    @classmethod
    def create(
        cls,
        store: Store | str,
        *,
        namespace: str = "default",
        max_message_bytes: int = 16777216,
        clock: Clock | None = None,
    ) -> StandaloneSession:
        """One conversation without a manager. Its id is "default"; `for_session` chooses another."""

    @property
    def id(self) -> str:
        """The session's id. A handle made from a key has none before its first I/O: then this raises
        `ConfigurationError`."""

    @property
    def key(self) -> SessionKey | None:
        """The key of the session, as in `SessionInfo.key`. None if the session has none, or if it is not known yet: a
        handle made from an id knows the key once it has read it, for example with `info`. No I/O."""

    def info(self) -> SessionInfo:
        """Information about the session. Raises `SessionNotFoundError` if nothing has been written to it yet."""

    @overload
    def turn(
        self,
        *,
        wait: Duration | None = None,
        ttl: Duration = 30.0,
        on_busy: Literal["wait", "reject", "interrupt"] = "wait",
    ) -> AbstractContextManager[Turn]: ...
    @overload
    def turn(
        self, *, wait: Duration | None = None, ttl: Duration = 30.0, on_busy: Literal["queue"], message: Given
    ) -> AbstractContextManager[Turn | None]: ...
    @overload
    def append(
        self,
        message: Given,
        *,
        id: str | None = None,
        role: None = None,
        text: str | None = None,
        parent: str | FollowHead | None = ...,
        expected_head: str | AnyHead | None = ...,
        reopen: bool = False,
    ) -> Appended: ...
    @overload
    def append(
        self,
        message: Any,
        *,
        id: str | None = None,
        role: str,
        text: str | None = None,
        parent: str | FollowHead | None = ...,
        expected_head: str | AnyHead | None = ...,
        reopen: bool = False,
    ) -> Appended: ...
    def append_all(
        self,
        messages: Iterable[Given],
        *,
        parent: str | FollowHead | None = ...,
        expected_head: str | AnyHead | None = ...,
        reopen: bool = False,
    ) -> list[Appended]:
        """Store messages one after the other, all of them or none.

        Without `parent`, messages that the session already has are skipped, and the others continue after the head.
        With `parent`, the messages are a path after it: one that the session already has must follow the one before it,
        otherwise `InvalidRangeError` is raised. If there is nothing to store, the head stays. Raises the same errors as
        `append`."""

    def upsert(self, message: Given, *, reopen: bool = False) -> Appended:
        """Replace the message that has this id, in place, or append it if the id is new. Atomic. `inserted` says
        whether it was appended. Raises the same errors as `append`."""

    def update_message(self, message: Given) -> Message:
        """Replace the content of the message that has this id. If the content is the same, nothing is written.

        Summaries and facts that were made from the old content are made again with the next compaction or extraction.
        Raises `MessageNotFoundError`, `InvalidMessageError`."""

    def delete_messages(self, ids: Iterable[str], *, expected_head: str | AnyHead | None = ...) -> int:
        """Delete messages permanently, on any branch. The messages after them stay connected. If the head is deleted,
        the nearest message before it that is left becomes the head.

        Returns how many existed. Raises `InvalidMessageError` for the id of a summary, and `HeadMovedError` as `append`
        does."""

    def pop(self, *, expected_head: str | AnyHead | None = ...) -> Message | None:
        """Delete the message at the head permanently, as `delete_messages` does, and return it; None if there is no
        head. The message before it becomes the head.

        Concurrent calls never return the same message. Only this message is deleted: if it is a tool result, its call
        stays. Raises `HeadMovedError`."""

    def replace_messages(
        self, messages: Iterable[Given], *, expected_head: str | AnyHead | None = ...
    ) -> list[Message]:
        """Make this list the whole session, in one transaction, and return it. Readers see the old messages or the new
        ones.

        Messages that both lists begin with are left alone, so a list with one more message writes only that one. All
        others, on any branch, are deleted permanently, with every compaction that covers one of them. A message without
        an id matches the stored one if its content is the same. Raises the same errors as `append`, and
        `InvalidMessageError` if an id is in the list twice."""

    def clear_messages(self, *, expected_head: str | AnyHead | None = ...) -> None:
        """Delete all messages and compactions of the session permanently. Name, tags, metadata and usage stay. Raises
        `HeadMovedError`."""

    @overload
    def switch(self, leaf: str, *, expected_head: str | AnyHead | None = ...) -> Message: ...
    @overload
    def switch(self, leaf: None, *, expected_head: str | AnyHead | None = ...) -> None: ...
    @overload
    def switch(self, leaf: str | None, *, expected_head: str | AnyHead | None = ...) -> Message | None: ...
    @overload
    def history(
        self,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: None = None,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> list[Message]: ...
    @overload
    def history(
        self,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: MessageFormat,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> list[dict[str, Any]]: ...
    @overload
    def prepare(
        self,
        format: Literal["openai"],
        *,
        max_tokens: int | None = None,
        tools: bool | Mapping[str, Tool] = True,
        cache: bool = True,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> OpenAIRequest: ...
    @overload
    def prepare(
        self,
        format: Literal["openai-responses"],
        *,
        max_tokens: int | None = None,
        tools: bool | Mapping[str, Tool] = True,
        cache: bool = True,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> OpenAIResponsesRequest: ...
    @overload
    def prepare(
        self,
        format: Literal["anthropic"],
        *,
        max_tokens: int | None = None,
        tools: bool | Mapping[str, Tool] = True,
        cache: bool = True,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> AnthropicRequest: ...
    def transcript(
        self, *, leaf: str | None = None, after: str | None = None, limit: int | None = None, reverse: bool = False
    ) -> Iterator[Message]:
        """Stream the path to the head (or `leaf`) as it was written. The path may have any length.

        With `after`, the stream starts after that message, in the direction of reading. Raises
        `MessageNotFoundError`."""

    def page(
        self, *, leaf: str | None = None, position: int | None = None, around: str | None = None, limit: int = 50
    ) -> PathPage:
        """A page of the path to the head (or `leaf`) as it was written, by position: from `position` on, with the
        message `around` in the middle, or the last `limit` messages. Each entry says whether a compaction covers it,
        and which other messages there are at this point of the tree.

        Reads only the messages of the page. Raises `InvalidInputError`, `MessageNotFoundError`."""

    def view(
        self, *, leaf: str | None = None, position: int | None = None, limit: int = 50, max_tokens: int | None = None
    ) -> ViewPage:
        """What the model sees at the head (or at `leaf`), with the origin of each item: a message, a summary and what
        it covers, or a note; how long it was before it was shortened to fit `max_tokens`; and why messages are missing.

        Returns the items from `position` on, or the last `limit` items. Raises `InvalidInputError`,
        `MessageNotFoundError`, `ContextOverflowError`."""

    def outline(self) -> Outline:
        """The shape of the session without its messages: the runs between branches, the compactions, and the sessions
        forked from it. Raises `SessionNotFoundError`."""

    def timeline(self, *, leaf: str | None = None, points: int = 400) -> Timeline:
        """How many tokens the view has had along the path to the head (or `leaf`), what compactions changed, and what
        model calls cost, in at most `points` points (no more than 400). Reads only the messages at these points. Raises
        `SessionNotFoundError`, `MessageNotFoundError`, `InvalidInputError`."""

    def turn_info(self) -> TurnInfo:
        """Who has the turn, since when, and who is waiting for it."""

    def get_message(self, message_id: str) -> Message:
        """The message with this id, on any branch. Raises `MessageNotFoundError`."""

    def path_length(self, leaf: str | None = None) -> int:
        """The number of messages on the path to the head (or `leaf`), covered or not. Reads no messages."""

    def head(self) -> Message | None:
        """The message that the next append follows; None in an empty session."""

    def leaves(self) -> list[Message]:
        """The last message of every branch."""

    def branches(self, message_id: str | None) -> list[Message]:
        """The messages that follow a message directly (for None: the roots), oldest first."""

    def search(
        self,
        query: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        role: str | Sequence[str] | None = None,
        author: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        context: int = 0,
        newest: bool = False,
        meaning: bool = True,
    ) -> SearchResults:
        """Search the messages on all branches, and the summaries. Any of the words may match. The best hits come first,
        or with `newest` the latest. Each has `context` messages before and after it.

        Any text is a valid query. It can be words or a question, and can contain "exact phrases", -excluded, prefix*,
        role:user, from:ana, after:2025-01 and before:2025-06-30. `role` (one or several), `author`, `after` (inclusive)
        and `before` narrow the search further. With embeddings, texts that are near in meaning are also found, unless
        `meaning` is False. Pass `next_cursor` of the results as `cursor`, with the same arguments, for the next page.
        Raises `InvalidInputError`, `InvalidCursorError`."""

    def rename(self, name: str) -> None:
        """Set the session's name."""

    def add_tags(self, *tags: str) -> tuple[str, ...]:
        """Add tags. Returns all tags of the session."""

    def remove_tags(self, *tags: str) -> tuple[str, ...]:
        """Remove tags. Returns the tags that are left."""

    def set_metadata(self, /, **values: Any) -> dict[str, Any]:
        """Set values of the metadata; None removes a value. Returns all metadata."""

    def set_summary(self, text: str | None) -> None:
        """Set `SessionInfo.summary`. It has nothing to do with the summaries of compactions."""

    def set_lifecycle(
        self,
        *,
        idle_after: timedelta | ManagerDefault | None = ...,
        archive_after: timedelta | ManagerDefault | None = ...,
        delete_after: timedelta | ManagerDefault | None = ...,
    ) -> None:
        """Set thresholds for this session that override those of `with_lifecycle`. None means never. A threshold that
        is not passed is reset to that of the manager. Raises `InvalidInputError`."""

    def add_compaction(self, summary: str, from_id: str, to_id: str) -> Compaction:
        """Replace the messages from `from_id` to `to_id` with a summary whenever history is read. They stay stored.

        The id of a summary means the range that it covers. Leading system messages stay visible. Raises
        `InvalidRangeError`, `MessageNotFoundError`."""

    def compactions(self) -> list[Compaction]:
        """All compactions of the session, oldest first, including those inside newer ones."""

    def expand(self, compaction_id: str) -> Iterator[Message]:
        """Stream the messages under a compaction as they were written. Raises `CompactionNotFoundError`."""

    def undo_compaction(self, compaction_id: str) -> None:
        """Remove a compaction. The messages that it covered are visible again. Raises `CompactionNotFoundError`."""

    def context_usage(self, *, tools: Sequence[Mapping[str, Any]] = ()) -> ContextUsage:
        """How much of the model's window the next call takes: the view, the frozen prompt, and `tools` (schemas) if
        given.

        The cost does not depend on the length of the session."""

    def context_breakdown(self) -> ContextBreakdown:
        """What the next model call takes, by part: prompt, tools, summaries, and messages by role; how that differs
        from what was written; and the last call in the usage ledger. Reads no messages, and freezes nothing. Raises
        `SessionNotFoundError`."""

    def needs_compaction(self) -> bool:
        """Whether the view and the frozen prompt together have reached the hard ratio of the window, or the view has
        more than `max_messages` messages. Works without a summariser."""

    def compact(self, *, instructions: str | None = None, prompt: str | None = None) -> CompactionResult | None:
        """Compact the view now. Returns None if there is too little to gain. If a compaction is already running, waits
        for it and returns its result.

        `instructions` are added to the prompt of the model, `prompt` replaces it. Messages appended meanwhile stay in
        the view. Raises `CompactionError` and the errors of the model; the view is then unchanged."""

    def on_overflow(self, error: BaseException) -> bool:
        """Call this with the error of a model call. If the error means that the context was too long, the view is
        compacted further, with a shorter tail and no protected head. Returns True if that made the view shorter, so
        that the call is worth repeating. Returns False for any other error, or if the view could not be made
        shorter."""

    def needs_memory_refresh(self) -> bool:
        """Whether the view and the frozen prompt together have reached the soft ratio, and there are enough new
        messages since the last extraction."""

    def refresh_memory(self) -> list[str]:
        """Extract durable facts from the messages since the last extraction, write the new facts to the block (or pass
        them to the sink), and return them. A fact counts as known only after that has succeeded. If an extraction is
        already running, waits for it. Raises the errors of the extractor and the sink, `BlockTooLargeError` if the
        facts do not fit into the block, and `ConfigurationError` without `with_memory_refresh`."""

    def add_context(
        self,
        label: str,
        *,
        description: str | None = None,
        default_content: str = "",
        max_tokens: int | None = None,
        readonly: bool = False,
        scope: Scope = "session",
        provider: Any = None,
    ) -> None:
        """Declare another block, for this handle only. Raises `ConfigurationError` if the label is already declared."""

    def remove_context(self, label: str) -> bool:
        """Remove a block from the prompt and tools of this handle. Its content stays stored. False if there was
        none."""

    def context_blocks(self) -> list[ContextBlock]:
        """All blocks with their current content, in the order of their declaration."""

    def context_block(self, label: str) -> ContextBlock:
        """One block. Raises `BlockNotFoundError`."""

    def replace_context_block(
        self, label: str, text: str, *, if_version: int | None = None, author: str | None = None
    ) -> ContextBlock:
        """Replace the content of a block. The previous content is kept in the block's history. The frozen prompt does
        not change.

        Raises `BlockNotFoundError`, `ReadonlyBlockError`, `BlockTooLargeError`, `BlockVersionError` if the version of
        the block is not `if_version`, and `InvalidInputError` for a block that consists of entries."""

    def append_context_block(
        self, label: str, text: str, *, author: str | None = None, made_from: Iterable[str] = ()
    ) -> ContextBlock:
        """Add a line at the end of a block. No concurrent write is lost, unless a provider keeps the content.

        `made_from` are the ids of messages that the text was made from, or of summaries in the view. Once one of them
        is deleted, the lines of the text are removed from the block, from its earlier versions and from the prompts
        that show them, unless a provider keeps the content. Raises the same errors as `replace_context_block`,
        `MessageNotFoundError`, and `SessionNotFoundError` if the session is being deleted."""

    def block_history(self, label: str) -> list[BlockVersion]:
        """All versions of a block, newest first. Raises `BlockNotFoundError`, and `InvalidInputError` for a block whose
        content a provider keeps."""

    def count_sharing(self, label: str, *, most: int = 1000) -> int:
        """How many sessions share a block, including this one: depending on the scope of the block, those with the same
        key, guest or agent, or all of the namespace. Counting stops at `most`. Raises `BlockNotFoundError`."""

    def restore_context_block(self, label: str, version: int, *, author: str | None = None) -> ContextBlock:
        """Write the content of an earlier version again, as a new version. Raises `BlockNotFoundError` if there is no
        such version, and otherwise the same errors as `block_history` and `replace_context_block`."""

    def forget_block_history(self, label: str) -> None:
        """Remove all earlier versions of a block. The current one stays. Raises the same errors as `block_history`."""

    def remove_context_entry(self, label: str, key: str) -> bool:
        """Remove an entry of a block with `StoreSearch`, with all its versions. Returns False if there is none. Raises
        `BlockNotFoundError`, and `InvalidInputError` for another kind of block."""

    def set_system_prompt(self, text: str) -> None:
        """Set a text that is shown before all blocks, as the readonly block `system`. It takes effect with the next
        freeze."""

    def freeze_system_prompt(self) -> str:
        """The system prompt. It is rendered once, and then stays the same until `refresh_system_prompt`,
        `clear_messages`, a compaction, a deployment that changes what it is rendered from, or the deletion of messages
        from which facts in it were extracted. With `with_cached_prompt`, all workers get the same text: it is stored,
        and so this creates the session if there is none."""

    def prompt(self) -> Prompt | None:
        """The frozen system prompt, with the versions of its blocks; None if there is none. Nothing is rendered."""

    def refresh_system_prompt(self) -> str:
        """Render the prompt again from the current content of the blocks, and freeze it, as `freeze_system_prompt`
        does."""

    def context_changes(self) -> dict[str, Any] | None:
        """A message that says what has changed since the prompt was frozen, for you to append; None if nothing has.

        The frozen prompt, which the provider has cached, stays the same. Appending the same change twice does nothing.
        """

    def tools(self, *, scope: SearchScope | None = "guest") -> dict[str, Tool]:
        """The tools for the model, by name: those of the blocks; `expand_summary` with `with_compaction`, or once there
        is a compaction; and `session_search` and `read_session`, which search and read earlier conversations.

        `scope` says which conversations these two reach. By default it is "guest": those under keys with the same
        agent, channel and peer (as far as `with_isolation` distinguishes them), in all threads, including ended ones. A
        session without a key reaches only itself, with what it inherited as a fork. "session" means this session,
        "agent" all sessions of its agent, and "namespace" all sessions. Filters such as {"agent": "concierge", "tag":
        "public"} choose sessions, and so does a function from `SessionInfo` to a bool, sync or async. None leaves the
        two tools out.

        They show user, assistant and tool messages, and names and summaries of sessions, never system messages. What is
        out of scope looks as if it did not exist. The tools belong to this session: if it is deleted and its id is used
        again for another guest, they find nothing. Raises `ConfigurationError` for an unknown scope."""

class SessionManager:
    """All sessions of one namespace of a store. `store` is a URL or a `Store`.

    Set it up with the `with_...` calls, which return the manager. Then use it in `with`, or close it. A store
    that was passed as a URL is closed with it. `with` opens a closed manager again."""

    def __init__(
        self,
        store: Store | str,
        *,
        namespace: str = "default",
        max_message_bytes: int = 16777216,
        clock: Clock | None = None,
    ) -> None:
        """`clock` returns the time (a datetime with a time zone) instead of the machine's clock, for tests and
        simulations."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None:
        """End all `events()` iterators, wait up to two seconds for background work and then cancel it, and close the
        store if it was passed as a URL. Idempotent. Afterwards calls raise `StoreClosedError`, until `with` opens
        the manager again."""

    @property
    def namespace(self) -> str: ...
    @property
    def compacts_at(self) -> float:
        """The share of a window at which a compaction starts: `hard_ratio` of `with_compaction`."""

    def session(self, ref: str | SessionKey) -> Session:
        """A handle on a session, by id or key. No I/O."""

    def create(
        self,
        name: str = "",
        *,
        id: str | None = None,
        key: SessionKey | None = None,
        parent: str | None = None,
        model: str | None = None,
        source: str | None = None,
        max_tokens: int | None = None,
        tags: Iterable[str] = (),
        metadata: dict[str, Any] | None = None,
    ) -> Session:
        """Create a session. `max_tokens` is the size of its window; without it, that of `with_compaction` or of its
        `model` applies. Raises `SessionExistsError` if its id is taken or its key has a current session."""

    def get_or_create(
        self,
        ref: str | SessionKey,
        *,
        name: str = "",
        parent: str | None = None,
        model: str | None = None,
        source: str | None = None,
        max_tokens: int | None = None,
        tags: Iterable[str] = (),
        metadata: dict[str, Any] | None = None,
    ) -> Session:
        """The session with this id, or the current session under this key. Created with these values if there is
        none."""

    def get(self, ref: str | SessionKey) -> SessionInfo | None:
        """Information about a session; None if there is none."""

    def list(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        tag: str | None = None,
        metadata: Mapping[str, str | int | float | bool] | None = None,
        id_prefix: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        model: str | None = None,
        exclude: Mapping[str, str | Sequence[str]] | None = None,
        min_usage: float | None = None,
        order: ListOrder = "recent",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[SessionInfo]:
        """A page of sessions, of every status unless one is given. Pass `next_cursor` of a page as `cursor`, with the
        same arguments, for the next page.

        `order` is "recent", with the newest activity first, or "created", with the newest session first. A session that
        becomes active between two pages changes its position in "recent", but never in "created": there, the pages
        contain every session that existed when the first page was read. `metadata` selects sessions that have all these
        values (texts, numbers or bools) at the top level of their metadata. `id_prefix` selects ids that begin with it.
        `created_after` and `created_before` are exclusive. `exclude` leaves out sessions with any of these values of
        agent, channel, peer, thread, tag, model or source, such as {"channel": "cron"}. `min_usage` is the least share
        of their window that they must use (their `window_usage`), such as 0.8. Raises `InvalidInputError`,
        `InvalidCursorError`."""

    def count(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        tag: str | None = None,
        metadata: Mapping[str, str | int | float | bool] | None = None,
        id_prefix: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        model: str | None = None,
        exclude: Mapping[str, str | Sequence[str]] | None = None,
        min_usage: float | None = None,
        most: int = 1000,
    ) -> int:
        """How many sessions match the filters of `list`. Counting stops at `most`, so that the cost is bounded. `stats`
        counts all sessions of the namespace. Raises `InvalidInputError`."""

    def iterate(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        tag: str | None = None,
        metadata: Mapping[str, str | int | float | bool] | None = None,
        id_prefix: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        model: str | None = None,
        exclude: Mapping[str, str | Sequence[str]] | None = None,
        min_usage: float | None = None,
        limit: int = 50,
    ) -> Iterator[SessionInfo]:
        """Every session that exists when the iteration begins and still matches when it is reached, exactly once,
        whatever is written meanwhile. The newest session comes first. Reads pages of `limit` sessions. Takes the
        filters of `list`, and raises `InvalidInputError` like it."""

    def rename(self, id: str | SessionKey, name: str) -> None:
        """Set the name of a session. Raises `SessionNotFoundError`."""

    def fork(
        self,
        id: str | SessionKey,
        at: str | None = None,
        *,
        name: str | None = None,
        new_id: str | None = None,
        key: SessionKey | None = None,
    ) -> Session:
        """Create a session that starts with the history of another one, up to the message `at` (default: its head).
        Nothing is copied.

        The fork has the messages, compactions, context blocks, frozen prompt, tags and metadata that its source has
        now. From then on, the two are independent. Without a `key`, it has its own copies of the blocks that its source
        shares with other sessions by its key. With a key of the same guest, it shares them. With the key of another
        guest, it gets neither those blocks nor the frozen prompt, the name or the summary.
        Raises `SessionNotFoundError`, `MessageNotFoundError`, and `SessionExistsError` if the id is taken or the key
        has a current session."""

    def compact_and_split(
        self,
        id: str | SessionKey,
        summary: str | None = None,
        name: str | None = None,
        *,
        on_busy: Literal["wait", "reject", "interrupt"] = "wait",
        wait: Duration | None = None,
    ) -> Session:
        """End a session (reason `compaction`) and continue in a new one that starts with a summary of it.

        The new session takes over the key, the blocks, the tags, the metadata, and the messages that are queued for a
        turn. Its parent is the old session, and it can expand the summary into the original messages. Without a
        `summary`, the summariser of `with_compaction` makes one: of everything except a request that has no finished
        answer yet, which stays as it is. Messages that are appended after the call began follow the summary.

        Once there is a summary, takes the turn of the session, as `new` does: `on_busy` and `wait` mean the same as
        there. The holder of a turn calls `Turn.compact_and_split` instead.
        Raises `SessionNotFoundError`, `CompactionError`, `InvalidInputError`, `TurnBusyError`, `TurnLostError`."""

    @overload
    def append(
        self,
        session: str | SessionKey,
        message: Given,
        /,
        *,
        id: str | None = None,
        role: None = None,
        text: str | None = None,
        parent: str | FollowHead | None = ...,
        expected_head: str | AnyHead | None = ...,
        reopen: bool = False,
    ) -> Appended: ...
    @overload
    def append(
        self,
        session: str | SessionKey,
        message: Any,
        /,
        *,
        id: str | None = None,
        role: str,
        text: str | None = None,
        parent: str | FollowHead | None = ...,
        expected_head: str | AnyHead | None = ...,
        reopen: bool = False,
    ) -> Appended: ...
    def append_all(
        self,
        id: str | SessionKey,
        messages: Iterable[Given],
        *,
        parent: str | FollowHead | None = ...,
        expected_head: str | AnyHead | None = ...,
        reopen: bool = False,
    ) -> AppendedList:
        """`Session.append_all`, by id or key."""

    def upsert(self, id: str | SessionKey, message: Given, *, reopen: bool = False) -> Appended:
        """`Session.upsert`, by id or key."""

    @overload
    def history(
        self,
        id: str | SessionKey,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: None = None,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> MessageList: ...
    @overload
    def history(
        self,
        id: str | SessionKey,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: MessageFormat,
        notes: Notes = "user",
        alternate: bool = False,
    ) -> DictList: ...
    def delete_messages(
        self, id: str | SessionKey, ids: Iterable[str], *, expected_head: str | AnyHead | None = ...
    ) -> int:
        """`Session.delete_messages`, by id or key."""

    def clear_messages(self, id: str | SessionKey, *, expected_head: str | AnyHead | None = ...) -> None:
        """`Session.clear_messages`, by id or key."""

    def add_compaction(self, id: str | SessionKey, summary: str, from_id: str, to_id: str) -> Compaction:
        """`Session.add_compaction`, by id or key."""

    def needs_compaction(self, id: str | SessionKey) -> bool:
        """`Session.needs_compaction`, by id or key."""

    def compact(
        self, id: str | SessionKey, *, instructions: str | None = None, prompt: str | None = None
    ) -> CompactionResult | None:
        """`Session.compact`, by id or key."""

    def add_usage(
        self,
        id: str | SessionKey,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        cost: Decimal | int | float | str = 0,
        model: str | None = None,
        usage_id: str | None = None,
        at: datetime | None = None,
    ) -> bool:
        """Record a model call in the usage ledger of a session. An entry with the same `usage_id` counts once: the
        second call returns False.

        `cost` is stored as an exact decimal; of a float, the digits that Python prints.
        Raises `SessionNotFoundError`."""

    def usage(
        self,
        *,
        session: str | SessionKey | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        model: str | None = None,
        since: date | None = None,
        until: date | None = None,
        by: Sequence[UsageField] = ...,
    ) -> Usage:
        """Totals of the usage ledger, grouped by any of `day` (UTC), `session`, `agent`, `channel`, `peer` and `model`.

        `session` (an id, or a key for its current session), `agent`, `channel`, `peer` and `model` select entries, and
        so do the days `since` and `until`, both included; a datetime counts as its day in UTC. One query.

        The totals include calls of sessions that were deleted or erased, without their session and peer, so a filter by
        `session` or `peer` does not find these. Raises `SessionNotFoundError`, `InvalidInputError`."""

    def usage_entries(self, id: str | SessionKey, *, limit: int = 50, cursor: str | None = None) -> Page[UsageEntry]:
        """The usage ledger of a session: a page of its model calls, the newest first, with what was read from and
        written to the cache. Raises `SessionNotFoundError`, `InvalidInputError`, `InvalidCursorError`."""

    def stats(self) -> Stats:
        """Totals over the namespace. Reads its sessions, but not their messages."""

    def search(
        self,
        query: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        session: str | None = None,
        role: str | Sequence[str] | None = None,
        author: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        archived: bool = True,
        tag: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        context: int = 0,
        group: bool = False,
        newest: bool = False,
        meaning: bool = True,
    ) -> SearchResults:
        """Search all sessions of the namespace, in the same way as `Session.search`, and also the names and summaries
        of sessions. A message that forks share is found once.

        `session` (an id or a name), `agent`, `channel`, `peer`, `thread`, `status` and `tag` choose sessions, and
        `archived=False` leaves out those that have ended. A query can also contain session:trip and tag:work. With
        `group`, the hits of a session come together, and the session with the best hit comes first. Raises
        `InvalidInputError`, `InvalidCursorError`."""

    def search_info(self) -> SearchInfo:
        """How the namespace is searched, and how much of it is indexed."""

    def reindex(self, on_progress: Callable[[int, int], Any] | None = None) -> SearchInfo:
        """Build the search index again while it is in use. Meanwhile, searches return correct results, and nothing is
        blocked.

        With embeddings, all vectors are also computed again, with the current model. Until then, a text without a
        vector is found by its words. `on_progress(done, total)` is called with the number of texts that are done and
        the approximate total, first for the index, then for the vectors. Raises `EmbeddingError` and the errors of the
        embedding."""

    def tools(self, *, scope: WideScope, max_tokens: int = 2000) -> dict[str, Tool]:
        """Tools for the agent of an operator, by name: `search_sessions` and `read_any_session`. They reach sessions of
        different guests. The tools for a guest's own agent are those of `Session.tools`.

        `scope` is "namespace" (all sessions), filters such as {"agent": "concierge", "tag": "public"}, or a function
        from `SessionInfo` to a bool, sync or async. A session outside the scope looks like one that does not exist.
        System messages are not shown. An answer has at most `max_tokens` tokens. Raises `ConfigurationError` for any
        other scope."""

    def events(
        self,
        *,
        after: str | None = None,
        session: str | SessionKey | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        follow: bool = True,
    ) -> Iterator[Event]:
        """Stream all changes of the namespace, by any process, in order, until the manager is closed.

        Pass a `position` as `after` to continue right after it: no event is lost or repeated. With `after="start"`, the
        stream starts with the oldest event in the log. Without `after`, it starts with the first change after the
        iteration begins. With `follow=False`, the stream ends with the events that existed when it began.

        `session` selects the events of a session by id, or of all sessions under a key, including those that `new`
        starts later. `agent`, `channel` and `peer` select the sessions under keys with all of these parts. None of them
        needs to exist yet.

        When a session was deleted, only "session.deleted" is reported. A message that was deleted meanwhile is not
        reported as appended. Arguments are checked at the call: it raises `InvalidInputError`, or `InvalidCursorError`
        for a position that was altered or belongs to another namespace. The iterator raises `ChangesTrimmedError` if
        the log no longer reaches back that far, and `ChangesRewoundError` if it has gone back: its `position` is where
        to continue."""

    def recent_events(
        self,
        count: int = 100,
        *,
        session: str | SessionKey | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
    ) -> EventList:
        """The last `count` (at most 1,000) events until now, newest first, of the sessions that `events` would report
        with the same arguments. There may be fewer, because `sweep` removes old entries. Raises `InvalidInputError`."""

    def position(self) -> str:
        """The current position, for `events(after=...)`. Take it, then load what you want to show, then follow: no
        change is missed. A change that you have already loaded may be reported again."""

    def end_events(self) -> None:
        """End all open iterators of `events`, for example when a server shuts down and waits for its connections. The
        manager stays open. No I/O; may be called in any thread and in a signal handler."""

    def states(
        self,
        kind: type[T],
        *,
        name: str = "sessions",
        default: Callable[[str], T | Awaitable[T]] | None = None,
        ttl: timedelta | None = ...,
        store: StateStore | str | None = None,
        version: int = 1,
        migrate: Migrate[T] | None = None,
    ) -> States[T]:
        """Typed states under `name`, one value per id. The id may be that of a session. No I/O.

        `kind` is a dataclass, a pydantic model, a msgspec Struct, a TypedDict or a NamedTuple. A new state is
        `default(id)`, or `kind()`. A state expires `ttl` after it was last used; None means never. Without `ttl`, the
        environment variable SESSION_TTL_SECONDS applies, otherwise 30 minutes. `store` is a URL or a `StateStore`.
        Without `store`, the environment variable FRONTDESK_STATE_URL applies, otherwise the manager's own store.

        `version` is stored with each value. A value that was written with a lower version, or that does not fit `kind`,
        is passed to `migrate(stored, version)` (sync or async), where `stored` is its JSON. The result is a `kind`, or
        JSON that fits it. The next write stores it as the current version. Raises `ConfigurationError`,
        `StoreURLError`, `InvalidInputError`."""

    def shelves(self, name: str) -> Shelves:
        """Bytes under ordered keys, on one shelf per id, for data that is not a conversation. `name` separates them
        from the shelves of other features. No I/O. Raises `InvalidIdError` and `InvalidInputError`."""

    def forget_state_store(self, url: str) -> bool:
        """Forget that the namespace keeps states in another store, because that store no longer exists. `url` is
        that of the `StateStoreMissingError`. False if it was not recorded.

        From then on, `delete` and `erase` do not find states in that store."""

    def export(self, on_progress: Callable[[int, int], Any] | None = None) -> Iterator[bytes]:
        """The whole namespace as JSON lines, each with its line break: sessions with their trees, compactions, blocks
        with all versions, prompts, usage, states, shelves. Sessions that share messages are read as of one moment.
        Leases and the search index are not part of it.

        Its use of memory does not grow with the namespace. `on_progress(done, total)` is called with the number of
        families of sessions that are done; the total is not known before the end. Raises `ConcurrentChangeError` if
        sessions change every time they are read."""

    def import_lines(
        self,
        lines: AsyncIterable[bytes] | Iterable[bytes],
        *,
        dry_run: bool = False,
        on_progress: Callable[[int, int], Any] | None = None,
    ) -> ImportReport:
        """Import the lines of an export: exactly what was exported, with the same ids, times, branches, forks and
        compactions. What already exists stays as it is, so importing again changes nothing. Sessions appear when they
        are complete.

        A line that cannot be read is reported, and the sessions that it belongs to are left out. With `dry_run`,
        nothing is written. `on_progress(lines, bytes)` is called with how much was read. Raises `InvalidInputError` if
        the lines are not an export."""

    def import_transcripts(
        self,
        path: str | Path,
        *,
        format: TranscriptFormat | None = None,
        dry_run: bool = False,
        on_progress: Callable[[int, int], Any] | None = None,
    ) -> TranscriptReport:
        """Import a transcript of another tool, or all in a folder: of Claude Code, Codex, Pi or OpenClaw (JSONL),
        ChatGPT (`conversations.json`) or Hermes (`state.db`), with branches, compactions, usage, tool calls and times.
        `format` ("claude-code", "codex", "pi", "chatgpt", "hermes") is recognised if it is not given.

        Sessions keep their ids, have no key, and their `source` is the format. What already exists stays as it is, so
        importing again changes nothing, and importing a transcript that has grown adds what is new. A session that was
        not imported from the same format is not written to. What cannot be read is reported, and the rest is imported.
        No hook and no model is called. Its use of memory does not grow with a JSONL file or a database; ChatGPT's
        export is read one conversation at a time. With `dry_run`, nothing is written. `on_progress(done, total)` is
        called with numbers of bytes. Raises `InvalidInputError` if the file is in no known format or the folder has no
        transcripts, and `OSError`s."""

    def copy_to(
        self, target: SessionManager, *, follow: bool = False, on_progress: Callable[[CopyReport], Any] | None = None
    ) -> CopyReport:
        """Make the namespace of another manager, in any store, the same as this one, while this one is in use. The
        target must not be in use, and what this one does not have is deleted from it.

        What is already the same is skipped, so a copy that was interrupted continues with the same call. Then what has
        changed meanwhile is copied; with `follow`, this continues until the call is cancelled. After appends, only new
        messages are copied; after any other change, the session is copied again with all sessions that share its
        messages. `on_progress(report)` is called after each family of sessions."""

    def check(self, *, fix: bool = False, on_progress: Callable[[int, int], Any] | None = None) -> CheckReport:
        """Check the namespace: counters, views, usage totals of sessions, heads, places of compactions, missing
        messages, records that cannot be read, and what an import that was killed has left. Reads everything.

        With `fix`, counters and totals are computed again from the rows, and what an import has left is removed; make a
        `backup` first, and let no import run meanwhile. Sessions that change meanwhile are left alone.
        `on_progress(done, total)` is called with the number of families of sessions that are done."""

    def backup(self, path: str | Path) -> None:
        """Write a backup of a store in use to a file that does not exist yet: for SQLite, a copy of the whole file as
        of one moment, which can be opened like the original; for any other store, an `export` of the namespace.

        Raises `FileExistsError` and other `OSError`s."""

    def register_hook(self, hook: Any, *, timeout: float = 10.0) -> None:
        """Call the methods of an object when something happens. It has one or more of `on_session_start(session)`,
        `on_message(session, message)`, `on_compaction(session, compaction)` and `on_session_end(session, reason)`, sync
        or async.

        Hooks are called in the order of their registration, and for each session in the order of its events. They run
        in the background. Only the end of a session waits for its hooks, which are called before anything changes. A
        hook that raises, or takes longer than `timeout` seconds, is cancelled, logged and counted
        (`stats().hook_failures`), and the operation continues. Raises `ConfigurationError` if the object has none of
        these methods, or is already registered.

        In `frontdesk.sync`, plain methods are passed the sync `Session`, and async methods the async one."""

    def unregister_hook(self, hook: Any) -> bool:
        """Stop calling a hook. False if it was not registered."""

    def archive(self, id: str | SessionKey) -> None:
        """End a session (reason `archive`). It stays listed and searchable, and its key still points at it.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` if it has already ended."""

    def suspend(self, id: str | SessionKey) -> None:
        """Suspend a session until `resume`: appends are refused, and sweeps skip it.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` unless it is active, idle or compacting."""

    def resume(self, id: str | SessionKey) -> None:
        """Make an idle, suspended or ended session active. This counts as activity. The session gets its key back,
        unless another session is current under it.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` if it is active."""

    def reset(self, id: str | SessionKey) -> None:
        """Hide everything in the view of a session except the leading system messages. Nothing is deleted: the
        transcript and search still have all messages, and `undo_compaction` makes them visible again. The prompt,
        blocks and status do not change. Hooks are called as for an end with reason `reset`. If the view is already
        empty, nothing happens. Raises `SessionNotFoundError`."""

    def new(
        self, key: SessionKey, *, on_busy: Literal["wait", "reject", "interrupt"] = "wait", wait: Duration | None = None
    ) -> Session:
        """End the current session under a key (reason `new`), if there is one, and start an empty one. The ended
        session stays listed and searchable.

        The new session has the system prompt, model, source, tags, `max_tokens` and life-cycle times of the old one,
        and the messages that are queued for a turn. Context blocks with a scope wider than the session stay the same.
        Messages, summary, name and metadata are not carried over.

        Takes the turn of the current session first: `on_busy` and `wait` mean the same as in `Session.turn`. So an
        answer in progress is finished in the session that it belongs to, and callers that wait for a turn by key
        continue in the new session. The holder of a turn calls `Turn.new` instead: here it would wait for itself, and
        an async task that would do so gets `InvalidInputError`. Of several concurrent calls, each ends the session that
        the one before it started.
        Raises `InvalidKeyError`, `InvalidInputError`, `TurnBusyError`, and `TurnLostError` if another worker took over
        the turn with "interrupt"."""

    def delete(self, id: str | SessionKey) -> bool:
        """Delete a session and all its data permanently, except messages that its forks still see. False if there was
        none.

        Its states are deleted as well: in the same transaction if they are in the same store, otherwise right after it.
        States with this id are deleted even if there was no session. Hooks are called as for an end (reason `delete`)
        if the session had not ended before."""

    def sweep(self) -> SweepReport:
        """Archive sessions that were not written to for `archive_after` (reason `timeout`), delete sessions that ended
        `delete_after` ago, and remove expired states and events older than `keep_events`. A sweep covers the whole
        namespace, and for states the whole store. It works in batches, so its use of memory is bounded. Only one worker
        at a time sweeps."""

    def recover(self) -> RecoveryReport:
        """Clean up after processes on this machine that died. Their leases are released, so that sessions that they
        were compacting are active and can be compacted again. The search index is brought up to date in the background.
        Leases held on other machines expire by themselves, within seconds."""

    def erase(
        self,
        *,
        key: SessionKey | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        author: str | None = None,
    ) -> ErasureReport:
        """Remove all data of a person, an agent or a channel: the sessions under the key, or under keys with all of
        these parts, of every status, and the sessions forked from them. A key without a thread means all threads of
        its guest, a key with one only that thread. Their messages, summaries, blocks, states, shelves, usage entries
        and search entries are removed with them. The events that remain (`session.deleted`) do not name them.

        With `author`, sessions stay: only the messages of that author are deleted, on all branches, as by
        `Session.delete_messages`. They are deleted from all sessions of the namespace, or from those under the key or
        parts and their forks. Reads all messages of these sessions.

        Everything that existed when it began is removed, whatever others write meanwhile. So are sessions that others
        start meanwhile; `remaining` counts those that are left if others do not stop. If an erasure is interrupted,
        call it again: it continues with what is left. Hooks are called for ends (reason `erase`). Usage totals per day
        stay, and so do the blocks of the namespace. Raises `InvalidInputError` without a filter, with both a key and
        parts, or for a part that does not distinguish sessions (`with_isolation`); `InvalidKeyError`; and
        `StoreUnavailableError` if another reader of the store prevents the removal of the last bytes."""

    def with_token_counter(self, counter: TokenCounter) -> Self:
        """Count tokens with `counter(text) -> int` instead of the built-in estimate."""

    def with_context(
        self,
        label: str,
        *,
        description: str | None = None,
        default_content: str = "",
        max_tokens: int | None = None,
        readonly: bool = False,
        scope: Scope = "session",
        provider: Any = None,
    ) -> Self:
        """Declare a context block for every session. `description` tells the model what the block is for. Its content
        is `default_content` until it is written to, and has at most `max_tokens`: a default content that is longer
        raises `ConfigurationError` at first use. A `readonly` block cannot be written to.

        Without a provider, the store keeps its content: one for each session, or for each `key`, `guest` (a key without
        its thread) or `agent`, or one for the whole `namespace`. For a session without a key, the scopes `key`, `guest`
        and `agent` mean the session itself.

        `provider` is an object with `get` (and `set`, `load` or `search`), or a factory `(session_id, key) ->
        provider`; `key` is None for a session without one. A provider keeps its own data, so `provider` together with
        `scope` or `default_content` raises `ConfigurationError`."""

    def with_searchable_history(
        self,
        label: str,
        *,
        description: str | None = "Earlier conversations",
        scope: SearchScope = "guest",
        max_tokens: int = 2000,
    ) -> Self:
        """Declare a searchable block over earlier conversations: by default those of the same guest.

        `scope` is that of `Session.tools`. Messages that the model sees in its own history are left out; those under a
        compaction are found. `max_tokens` limits each result. Raises `ConfigurationError` for an unknown scope."""

    def with_embeddings(self, embed: Embed, *, dimensions: int, batch_size: int = 64, timeout: float = 60.0) -> Self:
        """Search by meaning as well as by words. `embed(texts)`, sync or async, returns a vector of `dimensions`
        numbers for each text; see `frontdesk.models.openai_embeddings`. It gets at most `batch_size` texts at a time,
        and is abandoned after `timeout` seconds. Raises `ConfigurationError` without numpy."""

    def with_cached_prompt(self, store: PromptStore | None = None) -> Self:
        """Store frozen prompts, so that all workers use the same text, even after a restart: in the store of the
        sessions, or in a `PromptStore` with `get(namespace, session_id)` and `set(namespace, session_id, text)`."""

    def with_prompt_renderer(self, render: Renderer) -> Self:
        """Render blocks with `render(blocks) -> str` instead of `frontdesk.context.render_prompt`."""

    def with_compaction(
        self,
        summarize: Model | None = None,
        *,
        max_tokens: int | None = None,
        max_messages: int | None = None,
        soft_ratio: float = 0.6,
        hard_ratio: float = 0.8,
        protect_head: int = 3,
        tail_tokens: int = 20000,
        min_tail_messages: int = 2,
        summary_tokens: int = 2000,
        input_tokens: int = 60000,
        strategy: Strategy = "summarize",
        auto: bool = True,
        timeout: float = 120.0,
        attempts: int = 3,
        planner: Planner | None = None,
        on_error: OnError | None = None,
    ) -> Self:
        """Keep the view of every session within its context window.

        `summarize` is any callable `prompt -> text`, sync or async. With `auto`, a compaction starts in the background
        when the view and the frozen prompt reach `hard_ratio` of the window, or the view has more than `max_messages`.
        The window is the session's own `max_tokens`, otherwise this `max_tokens`, otherwise the context window of the
        session's model. About `protect_head` messages at the start and `tail_tokens` at the end are kept. The strategy
        "truncate" hides messages without a summary; "hybrid" hides old tool calls and results if the summariser fails.
        `input_tokens` limits what the summariser gets at a time, `summary_tokens` what it is asked for. Each call may
        take `timeout` seconds, and is made up to `attempts` times. `planner` chooses what to compact.
        `on_error(session_id, error)` is called with failures."""

    def with_memory_refresh(
        self,
        extract: Model,
        sink: Sink | None = None,
        *,
        label: str = "memory",
        enabled: bool = True,
        prompt: str | None = None,
        max_extract_tokens: int = 500,
        timeout: float = 60.0,
        on_error: OnError | None = None,
        share: bool = False,
    ) -> Self:
        """Extract durable facts from conversations. `extract(prompt) -> text`, sync or async, is called with the new
        messages when the view and the frozen prompt reach the soft ratio of `with_compaction`, with every compaction,
        and when a session ends. The facts are normalised. New ones are passed to `sink(session_id, facts)`, or without
        a sink written to the context block `label`, which must be declared, in the scope of that block.

        A block that has become too long is rewritten by the extractor; its earlier versions stay. Facts that were
        written to a block are deleted together with the messages that they came from. A block of an agent or of the
        namespace is read by other guests: it is accepted only with `share=True`, and raises `ConfigurationError`
        otherwise."""

    def with_lifecycle(
        self,
        idle_after: timedelta | None = ...,
        archive_after: timedelta | None = ...,
        delete_after: timedelta | None = None,
        keep_events: timedelta | None = ...,
        every: timedelta | None = ...,
    ) -> Self:
        """Set when sessions become idle, are archived (reason `timeout`) and are deleted; None means never.

        `idle_after` and `archive_after` count from the last message, `delete_after` from the end of the session. By
        default, sessions are never deleted. `events` can be resumed for as long as `keep_events`. The manager sweeps in
        the background, at the interval `every`; with None, only when `sweep` is called. `Session.set_lifecycle` sets
        thresholds for a single session."""

    def with_isolation(self, *parts: str) -> Self:
        """Set which parts of a key distinguish sessions: any of "agent", "channel", "peer" and "thread" (default: all).

        With `with_isolation("agent", "peer")`, a peer has one session with an agent over all channels and threads; its
        key has "*" for each part that is ignored."""

    def with_search(self, *, language: str = "english", reasoning: bool = False) -> Self:
        """Set the language (a Snowball name) in which search finds other forms of a word in Latin letters, and whether
        search includes the `reasoning` of models.

        All managers of a namespace must use the same settings: with others, the index is built again. Raises
        `ConfigurationError` for a language without a stemmer."""

class Shelves:
    """The shelves under one name, one for each id. Made by `SessionManager.shelves`.

    A shelf with an `owner` is deleted when `SessionManager.erase` erases that guest. Every call may raise
    `InvalidIdError`, `InvalidInputError` and `StoreError`s."""

    def __init__(self, runtime: Runtime, name: str) -> None: ...
    def read(self, id: str, *ranges: BlobRange) -> ShelfRead:
        """What is in each range of keys, and the version of the shelf: None if there is no shelf."""

    def write(
        self,
        id: str,
        *,
        put: Mapping[bytes, bytes] | None = None,
        add: Mapping[bytes, bytes] | None = None,
        delete: Sequence[BlobRange] = (),
        owner: SessionKey | None = None,
        if_number: int | None = None,
        if_edition: int | None = None,
        if_empty: Sequence[BlobRange] = (),
    ) -> ShelfVersion | None:
        """Change a shelf in one transaction: delete ranges, then `put` blobs, replacing those with the same keys, and
        `add` those whose keys do not exist yet. A shelf that does not exist is created. Without an `owner`, its owner
        stays.

        Returns the new version. Returns None, and changes nothing, if the number of the shelf's version is not
        `if_number`, if something was deleted from it since `if_edition`, or if there is something in a range of
        `if_empty`."""

    def delete(self, id: str) -> bool:
        """Delete a shelf with everything on it. False if there is none."""

    def ids(self, prefix: str = "") -> Iterator[str]:
        """The ids of all shelves that begin with `prefix`, in order."""

class StandaloneSession(Session):
    """One conversation without a manager: every call of a session, and the setup calls of a manager.

    Made by `Session.create`. Use it in `with`, or close it."""

    def __init__(self, runtime: Runtime, ref: str | SessionKey) -> None: ...
    def for_session(self, ref: str | SessionKey) -> StandaloneSession:
        """The same setup for the session with this id or key. Raises `ConfigurationError` after first use."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None:
        """Wait up to two seconds for background work, then cancel it, and close the store if it was passed as a URL.
        Idempotent. `with` opens the session again."""

    def with_token_counter(self, counter: TokenCounter) -> Self:
        """Count tokens with `counter(text) -> int` instead of the built-in estimate."""

    def with_context(
        self,
        label: str,
        *,
        description: str | None = None,
        default_content: str = "",
        max_tokens: int | None = None,
        readonly: bool = False,
        scope: Scope = "session",
        provider: Any = None,
    ) -> Self:
        """Declare a context block for every session. `description` tells the model what the block is for. Its content
        is `default_content` until it is written to, and has at most `max_tokens`: a default content that is longer
        raises `ConfigurationError` at first use. A `readonly` block cannot be written to.

        Without a provider, the store keeps its content: one for each session, or for each `key`, `guest` (a key without
        its thread) or `agent`, or one for the whole `namespace`. For a session without a key, the scopes `key`, `guest`
        and `agent` mean the session itself.

        `provider` is an object with `get` (and `set`, `load` or `search`), or a factory `(session_id, key) ->
        provider`; `key` is None for a session without one. A provider keeps its own data, so `provider` together with
        `scope` or `default_content` raises `ConfigurationError`."""

    def with_searchable_history(
        self,
        label: str,
        *,
        description: str | None = "Earlier conversations",
        scope: SearchScope = "guest",
        max_tokens: int = 2000,
    ) -> Self:
        """Declare a searchable block over earlier conversations: by default those of the same guest.

        `scope` is that of `Session.tools`. Messages that the model sees in its own history are left out; those under a
        compaction are found. `max_tokens` limits each result. Raises `ConfigurationError` for an unknown scope."""

    def with_embeddings(self, embed: Embed, *, dimensions: int, batch_size: int = 64, timeout: float = 60.0) -> Self:
        """Search by meaning as well as by words. `embed(texts)`, sync or async, returns a vector of `dimensions`
        numbers for each text; see `frontdesk.models.openai_embeddings`. It gets at most `batch_size` texts at a time,
        and is abandoned after `timeout` seconds. Raises `ConfigurationError` without numpy."""

    def with_cached_prompt(self, store: PromptStore | None = None) -> Self:
        """Store frozen prompts, so that all workers use the same text, even after a restart: in the store of the
        sessions, or in a `PromptStore` with `get(namespace, session_id)` and `set(namespace, session_id, text)`."""

    def with_prompt_renderer(self, render: Renderer) -> Self:
        """Render blocks with `render(blocks) -> str` instead of `frontdesk.context.render_prompt`."""

    def with_compaction(
        self,
        summarize: Model | None = None,
        *,
        max_tokens: int | None = None,
        max_messages: int | None = None,
        soft_ratio: float = 0.6,
        hard_ratio: float = 0.8,
        protect_head: int = 3,
        tail_tokens: int = 20000,
        min_tail_messages: int = 2,
        summary_tokens: int = 2000,
        input_tokens: int = 60000,
        strategy: Strategy = "summarize",
        auto: bool = True,
        timeout: float = 120.0,
        attempts: int = 3,
        planner: Planner | None = None,
        on_error: OnError | None = None,
    ) -> Self:
        """Keep the view of every session within its context window.

        `summarize` is any callable `prompt -> text`, sync or async. With `auto`, a compaction starts in the background
        when the view and the frozen prompt reach `hard_ratio` of the window, or the view has more than `max_messages`.
        The window is the session's own `max_tokens`, otherwise this `max_tokens`, otherwise the context window of the
        session's model. About `protect_head` messages at the start and `tail_tokens` at the end are kept. The strategy
        "truncate" hides messages without a summary; "hybrid" hides old tool calls and results if the summariser fails.
        `input_tokens` limits what the summariser gets at a time, `summary_tokens` what it is asked for. Each call may
        take `timeout` seconds, and is made up to `attempts` times. `planner` chooses what to compact.
        `on_error(session_id, error)` is called with failures."""

    def with_memory_refresh(
        self,
        extract: Model,
        sink: Sink | None = None,
        *,
        label: str = "memory",
        enabled: bool = True,
        prompt: str | None = None,
        max_extract_tokens: int = 500,
        timeout: float = 60.0,
        on_error: OnError | None = None,
        share: bool = False,
    ) -> Self:
        """Extract durable facts from conversations. `extract(prompt) -> text`, sync or async, is called with the new
        messages when the view and the frozen prompt reach the soft ratio of `with_compaction`, with every compaction,
        and when a session ends. The facts are normalised. New ones are passed to `sink(session_id, facts)`, or without
        a sink written to the context block `label`, which must be declared, in the scope of that block.

        A block that has become too long is rewritten by the extractor; its earlier versions stay. Facts that were
        written to a block are deleted together with the messages that they came from. A block of an agent or of the
        namespace is read by other guests: it is accepted only with `share=True`, and raises `ConfigurationError`
        otherwise."""

    def with_lifecycle(
        self,
        idle_after: timedelta | None = ...,
        archive_after: timedelta | None = ...,
        delete_after: timedelta | None = None,
        keep_events: timedelta | None = ...,
        every: timedelta | None = ...,
    ) -> Self:
        """Set when sessions become idle, are archived (reason `timeout`) and are deleted; None means never.

        `idle_after` and `archive_after` count from the last message, `delete_after` from the end of the session. By
        default, sessions are never deleted. `events` can be resumed for as long as `keep_events`. The manager sweeps in
        the background, at the interval `every`; with None, only when `sweep` is called. `Session.set_lifecycle` sets
        thresholds for a single session."""

    def with_isolation(self, *parts: str) -> Self:
        """Set which parts of a key distinguish sessions: any of "agent", "channel", "peer" and "thread" (default: all).

        With `with_isolation("agent", "peer")`, a peer has one session with an agent over all channels and threads; its
        key has "*" for each part that is ignored."""

    def with_search(self, *, language: str = "english", reasoning: bool = False) -> Self:
        """Set the language (a Snowball name) in which search finds other forms of a word in Latin letters, and whether
        search includes the `reasoning` of models.

        All managers of a namespace must use the same settings: with others, the index is built again. Raises
        `ConfigurationError` for a language without a stemmer."""

class States(Generic[T]):
    """The states of one type under one name, one value per id. Made by `SessionManager.states`.

    Returned values are copies: changing one does not change the stored state. An expired state counts as missing. A
    state with the id of a session is deleted with it. A state with an `owner` is also deleted when
    `SessionManager.erase` erases that guest; a write without an `owner` keeps the current one. Every call may raise
    `InvalidIdError` and `StoreError`s; a failure of the store is never reported as "not found"."""

    def __init__(
        self,
        runtime: Runtime,
        kind: type[T],
        *,
        name: str = "sessions",
        default: Callable[[str], T | Awaitable[T]] | None = None,
        ttl: timedelta | None = ...,
        store: StateStore | str | None = None,
        version: int = 1,
        migrate: Migrate[T] | None = None,
    ) -> None: ...
    def create(
        self,
        id: str | None = None,
        *,
        value: T | None = None,
        ttl: timedelta | UsualTTL | None = ...,
        owner: SessionKey | None = None,
    ) -> tuple[str, T]:
        """Create a state with this value, or with the default one. Without an `id`, one is generated. `ttl` applies to
        this state only; None means that it never expires.

        Raises `StateExistsError`, and `InvalidStateError` for a value that cannot be stored."""

    def get_or_create(self, id: str, *, owner: SessionKey | None = None) -> T:
        """The state. If there is none, it is created with the default value, for this owner. A state without an owner
        gets this one. Concurrent callers get the same state. Raises `StateMismatchError`."""

    def get(self, id: str) -> T | None:
        """The state, or None. Reading it postpones its expiry, unless the store is read-only or full, and writes
        nothing else. Raises `StateMismatchError`."""

    def get_versioned(self, id: str) -> tuple[T, StateInfo] | None:
        """The state with its information, both of the same version; otherwise like `get`."""

    def set(
        self,
        id: str,
        value: T,
        *,
        ttl: timedelta | UsualTTL | None = ...,
        owner: SessionKey | None = None,
        if_version: int | None = None,
        if_created_at: datetime | None = None,
    ) -> None:
        """Replace the state with this value, whatever it is now, or create it. `ttl=None` means that it never expires;
        without `ttl`, a state keeps the one it has. Raises `InvalidStateError`, and `StateVersionError` if the version
        of the state is not `if_version` (0: there is none). A state that was deleted and created again counts its
        versions from 1 again: `if_created_at` distinguishes the two."""

    def update(
        self, id: str, fn: Callable[[T], T | Awaitable[T]], *, create: bool = False, owner: SessionKey | None = None
    ) -> T:
        """Replace the state with the result of `fn(state)` and return it. No other change is ever overwritten. With
        `create`, a state that does not exist is created as `fn(default value)`.

        `fn` returns the whole new state. It may be async; if it is sync, it should be quick. It may be called more than
        once: first with the state as this process knows it, and again with the stored state if that is different. If
        it raises for the stored state, that error is raised and nothing is written. Raises `StateNotFoundError`,
        `InvalidStateError`, `StateMismatchError`, and `ConcurrentChangeError` if other changes came first every time.
        """

    def delete(self, id: str, *, if_version: int | None = None, if_created_at: datetime | None = None) -> bool:
        """Remove the state; False if there was none. Raises `StateVersionError`, and removes nothing, if the version of
        the state is not `if_version`, or it was not created at `if_created_at`: see `set`."""

    def touch(self, id: str) -> None:
        """Postpone the expiry of the state without reading it. Raises `StateNotFoundError`."""

    def info(self, id: str) -> StateInfo:
        """Information about the state. Does not postpone its expiry. Raises `StateNotFoundError`."""

    def list(self, *, prefix: str = "", limit: int = 50, cursor: str | None = None) -> Page[StateInfo]:
        """A page of the states whose ids begin with `prefix`, in the order of their ids. Does not postpone their
        expiry. All pages together contain every state that exists throughout, once. Raises `InvalidCursorError`.
        """

    def count(self) -> int:
        """How many states there are."""

    def clear(self) -> int:
        """Remove all states under this name, batch by batch; returns how many there were. If it is interrupted, call it
        again."""

@dataclass(frozen=True, slots=True)
class Tool:
    """A tool for a model. Calling it returns text and never raises. For wrong arguments, or if the tool fails, the text
    tells the model what is wrong and what to do.

    `run` is called with the arguments by name. It may be sync (it then runs in a thread) or async."""

    name: str
    description: str
    parameters: dict[str, Any]
    run: Callable[..., str | Awaitable[str]]

    def __call__(self, /, **arguments: Any) -> str: ...
    def call(self, arguments: str | Mapping[str, Any] | None) -> str:
        """Call the tool with the arguments as the model wrote them: a JSON text, or an object where the provider has
        decoded it. Returns text, as calling the tool does."""

    def to_openai(self) -> dict[str, Any]:
        """The entry for `tools=` of an OpenAI chat completion."""

    def to_openai_responses(self) -> dict[str, Any]:
        """The entry for `tools=` of an OpenAI response."""

    def to_anthropic(self) -> dict[str, Any]:
        """The entry for `tools=` of an Anthropic message."""

class Turn(Session):
    """A turn of a session. It has every call of a `Session`, but once the turn is over, writes raise `TurnLostError`.

    This includes writes of context blocks and the frozen prompt. Made by `Session.turn`. A turn taken inside a turn is
    the same turn."""

    def __init__(self, outside: Components, holding: Holding) -> None: ...
    @property
    def number(self) -> int:
        """The fencing number. It grows with every turn of the session."""

    @property
    def lost(self) -> bool:
        """Whether the turn is known to be over: it ended, expired or was taken over, or the store could not be reached
        for too long."""

    @property
    def interrupted(self) -> bool:
        """Whether another worker took over with `on_busy="interrupt"`. Known at once in the same process, and within a
        second in others."""

    def run(self, work: Awaitable[R]) -> R:
        """Await some work, such as a model call, and return its result. If the turn is lost, the work is cancelled and
        `TurnLostError` is raised."""

    def new(self) -> Turn:
        """End the session (reason `new`) and start another one under its key, as `SessionManager.new` does. Returns
        the turn of the new session, which is held until the end of this turn's `with` block. This turn is over.

        Raises `TurnLostError`, and `InvalidKeyError` if the session is not the current one under a key."""

    def compact_and_split(self, summary: str | None = None, name: str | None = None) -> Turn:
        """End the session (reason `compaction`) and continue in a new one that starts with a summary of it, as
        `SessionManager.compact_and_split` does. Returns the turn of the new session, which is held until the end of
        this turn's `with` block. This turn is over.

        Raises `CompactionError`, `TurnLostError`."""

    def take_queued(self) -> Message | None:
        """Append the next message that was queued for the holder of the turn, and return it. Each message is returned
        once.

        Returns None if there are no more. From then on, other callers wait for their own turn instead of queueing a
        message, so that none is left behind. Messages that are still queued when a turn ends go to the next one. Raises
        `TurnLostError`."""
