"""The types of `frontdesk.sync`, for type checkers and editors. Written by `make stubs`."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from os import PathLike
from typing import Any, Generic, Literal, Self, overload

from frontdesk import (
    DEFAULT_MAX_TOKENS,
    FOLLOW_HEAD,
    Appended,
    BlockKind,
    BlockNotFoundError,
    BlockTooLargeError,
    BlockVersion,
    BlockVersionError,
    ChangesTrimmedError,
    Compaction,
    CompactionError,
    CompactionNotFoundError,
    CompactionResult,
    ConcurrentChangeError,
    ConfigurationError,
    ConflictError,
    ContextBlock,
    ContextOverflowError,
    ContextUsage,
    DataPart,
    EmbeddingError,
    EndReason,
    ErasureReport,
    Event,
    FilePart,
    FrontdeskError,
    GrowthDay,
    HeadMovedError,
    InvalidCursorError,
    InvalidIdError,
    InvalidInputError,
    InvalidKeyError,
    InvalidMessageError,
    InvalidRangeError,
    InvalidStateError,
    InvalidTransitionError,
    Message,
    MessageFormat,
    MessageNotFoundError,
    MessageTooLargeError,
    ModelError,
    ModelOverflowError,
    ModelRateLimitError,
    ModelRefusedError,
    ModelTimeoutError,
    NotFoundError,
    OrchestrationState,
    Page,
    Part,
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
    StateExistsError,
    StateInfo,
    StateMismatchError,
    StateNotFoundError,
    StateStore,
    StateTooLargeError,
    Stats,
    Store,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreReadOnlyError,
    StoreUnavailableError,
    StoreURLError,
    SweepReport,
    TextPart,
    TokenCounter,
    ToolCallPart,
    ToolResultPart,
    TurnBusyError,
    TurnLostError,
    Usage,
    UsageDay,
    estimate_tokens,
    memory_fingerprint,
    normalise_memory,
    render_prompt,
    truncate_older_messages,
)
from frontdesk.config.runtime import Clock, Runtime
from frontdesk.config.settings import (
    Embed,
    Model,
    OnError,
    Planner,
    PromptStore,
    Renderer,
    SessionFilter,
    Sink,
    Strategy,
)
from frontdesk.lifecycle.notes import EndingSession
from frontdesk.lifecycle.transitions import ManagerDefault
from frontdesk.manager.manager import AppendedList, DictList, MessageList
from frontdesk.records import AnyStatus
from frontdesk.session.components import Components
from frontdesk.session.session import R
from frontdesk.session.turns import Duration, Holding
from frontdesk.session.writing import Given
from frontdesk.states.orchestration import Step
from frontdesk.states.states import T
from frontdesk.store import FollowHead

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "FOLLOW_HEAD",
    "Appended",
    "BlockKind",
    "BlockNotFoundError",
    "BlockTooLargeError",
    "BlockVersion",
    "BlockVersionError",
    "ChangesTrimmedError",
    "Compaction",
    "CompactionError",
    "CompactionNotFoundError",
    "CompactionResult",
    "ConcurrentChangeError",
    "ConfigurationError",
    "ConflictError",
    "ContextBlock",
    "ContextOverflowError",
    "ContextUsage",
    "DailyNotes",
    "DataPart",
    "EmbeddingError",
    "EndReason",
    "ErasureReport",
    "Event",
    "FilePart",
    "FrontdeskError",
    "GrowthDay",
    "HeadMovedError",
    "InvalidCursorError",
    "InvalidIdError",
    "InvalidInputError",
    "InvalidKeyError",
    "InvalidMessageError",
    "InvalidRangeError",
    "InvalidStateError",
    "InvalidTransitionError",
    "Message",
    "MessageFormat",
    "MessageNotFoundError",
    "MessageTooLargeError",
    "ModelError",
    "ModelOverflowError",
    "ModelRateLimitError",
    "ModelRefusedError",
    "ModelTimeoutError",
    "NotFoundError",
    "OrchestrationState",
    "Orchestrator",
    "Page",
    "Part",
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
    "StandaloneSession",
    "StateExistsError",
    "StateInfo",
    "StateMismatchError",
    "StateNotFoundError",
    "StateStore",
    "StateTooLargeError",
    "States",
    "Stats",
    "Store",
    "StoreClosedError",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreReadOnlyError",
    "StoreURLError",
    "StoreUnavailableError",
    "SweepReport",
    "TextPart",
    "TokenCounter",
    "Tool",
    "ToolCallPart",
    "ToolResultPart",
    "Turn",
    "TurnBusyError",
    "TurnLostError",
    "Usage",
    "UsageDay",
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
    workers may share. With `block`, they go to that context block; declare it `shared` so that later sessions see it.
    A deleted session leaves no note. `clock` returns the time, as for `SessionManager`. Raises `ConfigurationError`
    unless exactly one of `directory` and `block` is given."""

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
        """Enter a step, at the start of its sequence. Raises `InvalidInputError` for an unknown step."""

    def add_used_tool(self, id: str, tool: str) -> OrchestrationState:
        """Record the use of a tool, and enter the step whose conditions are now met."""

    def advance_sequence(self, id: str) -> OrchestrationState:
        """Move to the next tool of the sequence."""

    def process_tool(self, id: str, tool: str) -> bool:
        """Record the use of a tool, advance the sequence if the tool was the expected one, and enter the step whose
        conditions are now met. Returns False if another tool was expected: the use is still recorded, and the sequence
        does not advance."""

    def allowed_tools(self, id: str, available: Iterable[str]) -> list[str]:
        """The available tools that may be used now, in their given order."""

    def add_token_usage(self, id: str, *, input_tokens: int = 0, output_tokens: int = 0) -> OrchestrationState:
        """Add the tokens of a model call to the totals. Raises `InvalidInputError` for invalid counts."""

    def reset_state(self, id: str) -> bool:
        """Delete the progress of a session; False if there was none."""

class Session:
    """A handle on one session. Making it does no I/O; the session is created by its first write.

    A handle made from a key finds (or, writing, makes) the current session at its first I/O, and stays with it."""

    def __init__(self, runtime: Runtime, ref: str | SessionKey) -> None: ...
    @classmethod
    def create(
        cls,
        store: Store | str,
        *,
        namespace: str = "default",
        max_message_bytes: int = 16777216,
        clock: Clock | None = None,
    ) -> StandaloneSession:
        """One conversation without a manager, called "default" unless `for_session` says otherwise."""

    @property
    def id(self) -> str:
        """The session's id. A handle made from a key learns it at its first I/O; before, `ConfigurationError`."""

    def info(self) -> SessionInfo:
        """What is known of the session. Raises `SessionNotFoundError` if nobody has written to it yet."""

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
    def append(
        self,
        message: Given,
        *,
        parent: str | FollowHead | None = ...,
        expected_head: str | None = None,
        reopen: bool = False,
    ) -> Appended:
        """Store a message after the head, after `parent`, or (`parent=None`) as a new root, and make it the head.

        When it returns, the message is durable. An id that the session already has is a no-op with `inserted=False`.
        A session that a sweep archived continues; one that was suspended or ended otherwise raises `SessionEndedError`
        unless `reopen` is given.
        Raises `InvalidMessageError`, `MessageTooLargeError`, `HeadMovedError`, `MessageNotFoundError`."""

    def append_all(
        self,
        messages: Iterable[Given],
        *,
        parent: str | FollowHead | None = ...,
        expected_head: str | None = None,
        reopen: bool = False,
    ) -> list[Appended]:
        """Store messages one after the other, all or none; one that is there already is skipped, and the next follows
        it. Raises as `append` does."""

    def upsert(self, message: Given, *, reopen: bool = False) -> Appended:
        """Replace the message that has this id and keep its position, or append it as `append` does. Atomic; `inserted`
        says which."""

    def update_message(self, message: Given) -> Message:
        """Replace the content of the message that has this id; unchanged content writes nothing.

        Raises `MessageNotFoundError`, `InvalidMessageError`."""

    def delete_messages(self, ids: Iterable[str]) -> int:
        """Remove messages for good, on any branch; those after them stay connected, a deleted head falls back.

        Returns how many were there. A summary's id raises `InvalidMessageError`."""

    def clear_messages(self) -> None:
        """Remove all messages and overlays of the session for good; name, tags, metadata and usage stay."""

    def switch(self, leaf: str) -> Message:
        """Make a message the head, so that the next append follows it. Raises `MessageNotFoundError`."""

    @overload
    def history(
        self, *, leaf: str | None = None, last: int | None = None, max_tokens: int | None = None, format: None = None
    ) -> list[Message]: ...
    @overload
    def history(
        self, *, leaf: str | None = None, last: int | None = None, max_tokens: int | None = None, format: MessageFormat
    ) -> list[dict[str, Any]]: ...
    def transcript(
        self, *, leaf: str | None = None, after: str | None = None, limit: int | None = None, reverse: bool = False
    ) -> Iterator[Message]:
        """Stream the path to the head (or `leaf`) as it was written, of any length.

        `after` begins after that message, in the direction of reading. Raises `MessageNotFoundError`."""

    def get_message(self, message_id: str) -> Message:
        """The message with this id, on any branch. Raises `MessageNotFoundError`."""

    def path_length(self, leaf: str | None = None) -> int:
        """How many messages the path to the head (or `leaf`) has, overlays ignored; no message is read for it."""

    def head(self) -> Message | None:
        """The message that the next append follows."""

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
        role: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        context: int = 0,
        newest: bool = False,
    ) -> SearchResults:
        """Messages on any branch, and summaries, that answer the query: any of its words may match, best first (or
        `newest` first), each with `context` messages before and after it.

        Every text is a query: words or a question; "exact phrases", -excluded, prefix*, role:user, after:2025-01 and
        before:2025-06-30 mean what they say. `role`, `after` (included) and `before` narrow it further.
        `next_cursor` of the results gets the next ones with the same arguments.
        Raises `InvalidInputError`, `InvalidCursorError`."""

    def rename(self, name: str) -> None:
        """Set the session's name."""

    def add_tags(self, *tags: str) -> tuple[str, ...]:
        """Add tags; returns all that the session then has."""

    def remove_tags(self, *tags: str) -> tuple[str, ...]:
        """Remove tags; returns those that are left."""

    def set_metadata(self, **values: Any) -> dict[str, Any]:
        """Set values of the metadata (None removes one); returns all of it."""

    def set_summary(self, text: str | None) -> None:
        """Set the summary shown in lists; it has nothing to do with compactions."""

    def set_lifecycle(
        self,
        *,
        idle_after: timedelta | ManagerDefault | None = ...,
        archive_after: timedelta | ManagerDefault | None = ...,
        delete_after: timedelta | ManagerDefault | None = ...,
    ) -> None:
        """Give the session times of its own in place of those of `with_lifecycle`; None means never, and what is left
        out follows the manager's again. Raises `InvalidInputError`."""

    def add_compaction(self, summary: str, from_id: str, to_id: str) -> Compaction:
        """Replace the messages from `from_id` to `to_id` by a summary whenever history is read; they stay stored.

        An end may be the id of a summary: it means the range that one covers. Leading system messages stay visible.
        Raises `InvalidRangeError`, `MessageNotFoundError`."""

    def compactions(self) -> list[Compaction]:
        """Every overlay that the session has, oldest first, including those inside newer ones."""

    def expand(self, compaction_id: str) -> Iterator[Message]:
        """Stream the messages under a compaction as they were written. Raises `CompactionNotFoundError`."""

    def undo_compaction(self, compaction_id: str) -> None:
        """Remove a compaction; what it covered is visible again. Raises `CompactionNotFoundError`."""

    def context_usage(self, *, tools: Sequence[Mapping[str, Any]] = ()) -> ContextUsage:
        """How much of the model's window the next call takes: the view, the frozen prompt, and tool schemas if given.

        Costs the same however long the session is."""

    def needs_compaction(self) -> bool:
        """Whether the view has reached the hard ratio of its window, or `max_messages`; works without a summariser."""

    def compact(self, *, instructions: str | None = None, prompt: str | None = None) -> CompactionResult | None:
        """Compact the view now; None if there is too little to gain. Joins a compaction that is running.

        `instructions` add a focus, `prompt` replaces the question that the model is asked. Raises `CompactionError` and
        what the model raises; the view is then as it was. Messages appended meanwhile stay in the view."""

    def on_overflow(self, error: BaseException) -> bool:
        """Whether to try again after a model's refusal: True if the error says that the context was too long, and a
        harder compaction (shorter tail, no protected head) made it shorter. False for any other error."""

    def needs_memory_refresh(self) -> bool:
        """Whether the view has reached the soft ratio, and enough was said since the last extraction."""

    def refresh_memory(self) -> list[str]:
        """Extract durable facts from what is new since the last time, hand those not known yet to the sink, and return
        them. A fact counts as known only after the sink took it. Waits for an extraction that is running. Raises what
        extractor and sink raise, `BlockTooLargeError` for facts that the block has no room for, and
        `ConfigurationError` without `with_memory_refresh`."""

    def add_context(
        self,
        label: str,
        *,
        description: str | None = None,
        default_content: str = "",
        max_tokens: int | None = None,
        readonly: bool = False,
        shared: bool = False,
        provider: Any = None,
    ) -> None:
        """Declare one more block, for this handle. `ConfigurationError` if there is one with this label."""

    def remove_context(self, label: str) -> bool:
        """Remove a block from this handle's prompt and tools; its value stays stored. False if there was none."""

    def context_blocks(self) -> list[ContextBlock]:
        """All blocks with their present contents, in the order of their declaration."""

    def context_block(self, label: str) -> ContextBlock:
        """One block. Raises `BlockNotFoundError`."""

    def replace_context_block(
        self, label: str, text: str, *, if_version: int | None = None, author: str | None = None
    ) -> ContextBlock:
        """Replace the content of a block; the earlier one is kept in its history, and the frozen prompt stays as it is.

        Raises `BlockNotFoundError`, `ReadonlyBlockError`, `BlockTooLargeError`, and `BlockVersionError` if the block
        has another version than `if_version`."""

    def append_context_block(self, label: str, text: str, *, author: str | None = None) -> ContextBlock:
        """Add a line at the end of a block; no concurrent write is lost. Raises as `replace_context_block` does."""

    def block_history(self, label: str) -> list[BlockVersion]:
        """Every value that a block in the store had, newest first."""

    def restore_context_block(self, label: str, version: int, *, author: str | None = None) -> ContextBlock:
        """Write an earlier value again, as a new version. Raises `BlockNotFoundError` for a version that never was."""

    def set_system_prompt(self, text: str) -> None:
        """Set a readonly block `system` of this session that is shown first; the next freeze renders it."""

    def freeze_system_prompt(self) -> str:
        """The system prompt, rendered once and then kept the same until `refresh_system_prompt`, `clear_messages`,
        a compaction, or a change of the declared blocks. All workers agree on it with `with_cached_prompt`."""

    def refresh_system_prompt(self) -> str:
        """Render the prompt again from what the blocks hold now, and freeze that."""

    def context_changes(self) -> dict[str, Any] | None:
        """A message that says what changed since the freeze, to be appended at the end; None if nothing did.

        The prefix that the provider has cached stays as it is. Appending the same change twice is a no-op."""

    def tools(self) -> dict[str, Tool]:
        """The tools for the blocks there are, and `expand_summary` with compaction, by name. No I/O after first use."""

class SessionManager:
    """The sessions of one namespace of a store, named by a URL or given as a `Store`.

    Set it up with the chainable calls, then use it in `with`, or close it; a store given by URL is closed too."""

    def __init__(
        self,
        store: Store | str,
        *,
        namespace: str = "default",
        max_message_bytes: int = 16777216,
        clock: Clock | None = None,
    ) -> None:
        """`clock` returns the time (a datetime with a zone) in place of the machine's, for tests and simulations."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None:
        """Finish what is in flight and close the store; idempotent."""

    @property
    def namespace(self) -> str: ...
    def session(self, ref: str | SessionKey) -> Session:
        """A handle on a session, by id or key; no I/O."""

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
        """A new session. Raises `SessionExistsError` if its id is taken or its key has a current session."""

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
        """The session with this id, or the current one under this key; made with these values if there is none."""

    def get(self, ref: str | SessionKey) -> SessionInfo | None:
        """What is known of a session, or None if there is none."""

    def list(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        tag: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[SessionInfo]:
        """A page of sessions, most recent activity first, of every status unless one is given.

        Raises `InvalidCursorError`."""

    def iterate(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        tag: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int = 50,
    ) -> Iterator[SessionInfo]:
        """Every session that `list` with these filters returns, in pages of `limit`."""

    def rename(self, id: str | SessionKey, name: str) -> None:
        """Set the name of a session. Raises `SessionNotFoundError`."""

    def fork(
        self, id: str | SessionKey, at: str | None = None, *, name: str | None = None, new_id: str | None = None
    ) -> Session:
        """A session that begins with the history of another up to `at` (its head, if not given); nothing is copied.

        It sees the messages, overlays, tags and metadata as they are now; from then on the two are independent.
        Raises `SessionNotFoundError`, `MessageNotFoundError`, `SessionExistsError`."""

    def compact_and_split(self, id: str | SessionKey, summary: str | None = None, name: str | None = None) -> Session:
        """End a session (reason `compaction`) and continue in a new one that opens with the summary of it.

        The new one takes over the key, keeps blocks, tags and metadata, has the old one as its parent, and can expand
        the summary into what was said. Without a `summary` the summariser of `with_compaction` is asked for one.
        Raises `SessionNotFoundError`, `CompactionError`."""

    def append(
        self,
        id: str | SessionKey,
        message: Given,
        *,
        parent: str | FollowHead | None = ...,
        expected_head: str | None = None,
        reopen: bool = False,
    ) -> Appended:
        """`Session.append` by id."""

    def append_all(
        self,
        id: str | SessionKey,
        messages: Iterable[Given],
        *,
        parent: str | FollowHead | None = ...,
        expected_head: str | None = None,
        reopen: bool = False,
    ) -> AppendedList:
        """`Session.append_all` by id."""

    def upsert(self, id: str | SessionKey, message: Given, *, reopen: bool = False) -> Appended:
        """`Session.upsert` by id."""

    @overload
    def history(
        self,
        id: str | SessionKey,
        *,
        leaf: str | None = None,
        last: int | None = None,
        max_tokens: int | None = None,
        format: None = None,
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
    ) -> DictList: ...
    def delete_messages(self, id: str | SessionKey, ids: Iterable[str]) -> int:
        """`Session.delete_messages` by id."""

    def clear_messages(self, id: str | SessionKey) -> None:
        """`Session.clear_messages` by id."""

    def add_compaction(self, id: str | SessionKey, summary: str, from_id: str, to_id: str) -> Compaction:
        """`Session.add_compaction` by id."""

    def needs_compaction(self, id: str | SessionKey) -> bool:
        """`Session.needs_compaction` by id."""

    def compact(
        self, id: str | SessionKey, *, instructions: str | None = None, prompt: str | None = None
    ) -> CompactionResult | None:
        """`Session.compact` by id."""

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
        """Enter a model call into the usage ledger of a session. The same `usage_id` counts once: the second time
        returns False.

        `cost` is kept as an exact decimal (a float as it is printed). Raises `SessionNotFoundError`."""

    def usage(
        self, id: str | SessionKey | None = None, *, first_day: date | None = None, last_day: date | None = None
    ) -> Usage:
        """Totals of one session, or of the whole namespace, per day (UTC) and model.

        The namespace's days keep the cost of sessions that were deleted since."""

    def stats(self) -> Stats:
        """Totals over the namespace, from one pass over its sessions; their messages are not read."""

    def search(
        self,
        query: str,
        *,
        limit: int = 20,
        cursor: str | None = None,
        session: str | None = None,
        role: str | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: AnyStatus | None = None,
        tag: str | None = None,
        before: datetime | None = None,
        after: datetime | None = None,
        context: int = 0,
        group: bool = False,
        newest: bool = False,
    ) -> SearchResults:
        """What answers the query in any session of the namespace, as `Session.search` does; also sessions by their
        names and summaries. What forks share is found once.

        session: and tag: in the query, and the other arguments, choose sessions: by id or name, by the parts of their
        keys, by status and by tag. With `group` the hits of a session come together, in the order of its best.
        Raises `InvalidInputError`, `InvalidCursorError`."""

    def search_info(self) -> SearchInfo:
        """How the namespace is searched, and how far its index has come."""

    def reindex(self, on_progress: Callable[[int, int], Any] | None = None) -> SearchInfo:
        """Build the search index again while it is in use. Searches stay right meanwhile, and nothing waits for it.

        With embeddings all vectors are computed again too, by the model that is set up now; until then, a text without
        one is found by words. `on_progress(done, total)` is called with how many texts are done and about how many
        there are, first of the index, then of the vectors. Raises what the embedding raises, and `EmbeddingError`."""

    def tools(self, *, scope: SessionFilter | None = None, max_tokens: int = 2000) -> dict[str, Tool]:
        """The tools that reach beyond one session, by name: `session_search` and `read_session`.

        `scope(session_info)`, sync or async, says of each session whether the model may see it; one out of scope looks
        like one that does not exist. `max_tokens` is the most that an answer costs."""

    def events(
        self, after: str | None = None, *, session: str | SessionKey | None = None, follow: bool = True
    ) -> Iterator[Event]:
        """Everything that changes in the namespace, by any process, in order, until the manager is closed.

        Begins after the event with the position `after`, with nothing lost or repeated; at the oldest event in the log
        with `after="start"`; without `after`, with what happens from the first step of the iteration on. `session`
        chooses the events of one session. With `follow=False` it ends with what was there when it began.

        Of a deleted session only "session.deleted" is reported; a message deleted meanwhile is not reported as
        appended. Raises `InvalidCursorError` for a position that is altered or of another namespace,
        `ChangesTrimmedError` if the log no longer reaches back that far."""

    def states(
        self,
        kind: type[T],
        *,
        name: str = "sessions",
        default: Callable[[str], T | Awaitable[T]] | None = None,
        ttl: timedelta | None = ...,
        store: StateStore | str | None = None,
    ) -> States[T]:
        """Typed states, a value per session id under `name`; no I/O.

        `kind` is a dataclass, a pydantic model, a msgspec Struct or a TypedDict; a fresh state is `default(session_id)`
        or `kind()`. A state expires `ttl` after it was last used; None means never, and without the argument
        SESSION_TTL_SECONDS decides. `store` is a URL or a `StateStore`; without it FRONTDESK_STATE_URL names one,
        or they live in the manager's own store. Raises `ConfigurationError`, `StoreURLError`, `InvalidInputError`."""

    def register_hook(self, hook: Any, *, timeout: float = 10.0) -> None:
        """Have an object called when something happens: it has any of `on_session_start(session)`,
        `on_message(session, message)`, `on_compaction(session, compaction)` and `on_session_end(session, reason)`, sync
        or async.

        Hooks are called in the order of registration, for each session one event after the other. They run in the
        background, except for ends: those are announced, and waited for, before anything changes. A hook that raises,
        or takes longer than `timeout` seconds, is cut off, logged and counted (`stats().hook_failures`); the operation
        continues. Raises `ConfigurationError` for an object with none of these methods, or one that is registered
        already."""

    def unregister_hook(self, hook: Any) -> bool:
        """Stop calling an object; False if it was not registered."""

    def archive(self, id: str | SessionKey) -> None:
        """End a session (reason `archive`). It stays listed and searchable, and its key keeps pointing at it.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` if it has ended already."""

    def suspend(self, id: str | SessionKey) -> None:
        """Suspend a session until `resume`: appends are refused, sweeps pass it over.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` unless it is active, idle or compacting."""

    def resume(self, id: str | SessionKey) -> None:
        """Make an idle, suspended or ended session active, as of now; it is current under its key again if no other is.

        Raises `SessionNotFoundError`, and `InvalidTransitionError` if it is active."""

    def reset(self, id: str | SessionKey) -> None:
        """Empty the view of a session at its head, except for the leading system messages. Nothing is removed:
        transcript and search still have it all, `undo_compaction` brings it back; prompt, blocks and status stay. Hooks
        are called as for an end with reason `reset`. If the view is empty already, nothing happens.
        Raises `SessionNotFoundError`."""

    def new(self, key: SessionKey) -> Session:
        """End the current session under a key, if there is one (reason `new`; it stays listed and searchable), and
        begin the next, an empty one. Of several at once, each ends the one before it. Raises `InvalidKeyError`."""

    def delete(self, id: str | SessionKey) -> bool:
        """Remove a session and everything of it for good, except what forks still see; False if there was none.

        Its states go with it, in one step where they live in the same store, right after it where they do not; states
        with this id are gone afterwards even if there was no session. Hooks are called as for an end (reason `delete`)
        if it had not ended before."""

    def sweep(self) -> SweepReport:
        """Archive what was not written to for `archive_after` (reason `timeout`), delete what ended `delete_after` ago,
        and remove expired states and events older than `keep_events`, in the whole namespace (states: in the whole
        store); one worker at a time. All is done in batches, so that memory is bounded."""

    def recover(self) -> RecoveryReport:
        """Clear up after processes of this machine that died: their leases are freed, so that sessions that were being
        compacted are active and can be compacted again, and the search index catches up in the background. Leases of
        other machines expire by themselves, within seconds."""

    def erase(
        self,
        *,
        key: SessionKey | None = None,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
    ) -> ErasureReport:
        """Remove every trace of a person, an agent or a channel: all sessions under the key, or under keys with all of
        these parts, of every status, and those forked from them; with everything that was said, summarised, remembered,
        indexed and counted in them, and their states. The events about it (`session.deleted`) do not name them.

        Sessions are taken in batches: an erasure that was interrupted is finished by calling it again. Hooks are called
        for ends (reason `erase`). What concerns no person stays: the totals of usage per day, and the blocks that a
        namespace shares. Raises `InvalidInputError` without a filter, with a key and parts, or for a part that does not
        tell sessions apart (`with_isolation`); `InvalidKeyError`; and `StoreUnavailableError` if a reader of the store
        keeps the last bytes there."""

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
        shared: bool = False,
        provider: Any = None,
    ) -> Self:
        """Declare a context block for every session.

        Without a provider, the store keeps its content, per session or (`shared`) per namespace. `provider` is an
        object with `get` (and `set`, `load` or `search`), or a factory `(session_id) -> provider`."""

    def with_searchable_history(
        self,
        label: str,
        *,
        description: str | None = "Earlier conversations",
        scope: SessionFilter | None = None,
        max_tokens: int = 2000,
    ) -> Self:
        """Declare a searchable block that searches all sessions of the namespace, as `SessionManager.tools` does.

        Messages in the session's own history are left out; those that were compacted away are found.
        `scope(session_info)` decides which sessions the model may see. `max_tokens` limits each result."""

    def with_embeddings(self, embed: Embed, *, dimensions: int, batch_size: int = 64, timeout: float = 60.0) -> Self:
        """Search by meaning as well as by words. `embed(texts)`, sync or async, returns a vector of `dimensions`
        numbers for each text; see `frontdesk.models.openai_embeddings`. It gets at most `batch_size` texts at a time,
        and is abandoned after `timeout` seconds. Raises `ConfigurationError` without numpy."""

    def with_cached_prompt(self, store: PromptStore | None = None) -> Self:
        """Store frozen prompts, so that all workers use the same text, also after a restart: in the store of the
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
        when the view reaches `hard_ratio` of `max_tokens` (by default the session's own limit, or its model's context
        window) or has more than `max_messages`. The strategy "truncate" hides messages without a summary; "hybrid"
        hides old tool calls and results if the summariser fails. `input_tokens` limits what the summariser gets at a
        time, `summary_tokens` what it is asked for. `planner` chooses what to compact. `on_error(session_id, error)` is
        called with failures."""

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
    ) -> Self:
        """Extract durable facts from conversations: when a view reaches the soft ratio of `with_compaction`, and with
        every compaction, `extract(prompt) -> text` is asked for the facts in the new messages. They are normalised, and
        new ones are passed to `sink(session_id, facts)`, or else written to the context block `label`, which must be
        declared."""

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
        the background at this interval, `every`; with None only when `sweep` is called. `Session.set_lifecycle` sets
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

class StandaloneSession(Session):
    """One conversation without a manager: every call of a session, and the set-up calls of a manager.

    Close it, or use it in `with`. Comes from `Session.create`."""

    def __init__(self, runtime: Runtime, ref: str | SessionKey) -> None: ...
    def for_session(self, ref: str | SessionKey) -> StandaloneSession:
        """Choose which session it is. Raises `ConfigurationError` after first use."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def close(self) -> None:
        """Finish background work and close the store; idempotent."""

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
        shared: bool = False,
        provider: Any = None,
    ) -> Self:
        """Declare a context block for every session.

        Without a provider, the store keeps its content, per session or (`shared`) per namespace. `provider` is an
        object with `get` (and `set`, `load` or `search`), or a factory `(session_id) -> provider`."""

    def with_searchable_history(
        self,
        label: str,
        *,
        description: str | None = "Earlier conversations",
        scope: SessionFilter | None = None,
        max_tokens: int = 2000,
    ) -> Self:
        """Declare a searchable block that searches all sessions of the namespace, as `SessionManager.tools` does.

        Messages in the session's own history are left out; those that were compacted away are found.
        `scope(session_info)` decides which sessions the model may see. `max_tokens` limits each result."""

    def with_embeddings(self, embed: Embed, *, dimensions: int, batch_size: int = 64, timeout: float = 60.0) -> Self:
        """Search by meaning as well as by words. `embed(texts)`, sync or async, returns a vector of `dimensions`
        numbers for each text; see `frontdesk.models.openai_embeddings`. It gets at most `batch_size` texts at a time,
        and is abandoned after `timeout` seconds. Raises `ConfigurationError` without numpy."""

    def with_cached_prompt(self, store: PromptStore | None = None) -> Self:
        """Store frozen prompts, so that all workers use the same text, also after a restart: in the store of the
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
        when the view reaches `hard_ratio` of `max_tokens` (by default the session's own limit, or its model's context
        window) or has more than `max_messages`. The strategy "truncate" hides messages without a summary; "hybrid"
        hides old tool calls and results if the summariser fails. `input_tokens` limits what the summariser gets at a
        time, `summary_tokens` what it is asked for. `planner` chooses what to compact. `on_error(session_id, error)` is
        called with failures."""

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
    ) -> Self:
        """Extract durable facts from conversations: when a view reaches the soft ratio of `with_compaction`, and with
        every compaction, `extract(prompt) -> text` is asked for the facts in the new messages. They are normalised, and
        new ones are passed to `sink(session_id, facts)`, or else written to the context block `label`, which must be
        declared."""

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
        the background at this interval, `every`; with None only when `sweep` is called. `Session.set_lifecycle` sets
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
    """The states of one type under one name, one value per session id. Made by `SessionManager.states`.

    Returned values are copies: changing one does not change the stored state. An expired state counts as missing. Every
    call may raise `InvalidIdError` and `StoreError`s; a failure of the store is never reported as "not found"."""

    def __init__(
        self,
        runtime: Runtime,
        kind: type[T],
        *,
        name: str = "sessions",
        default: Callable[[str], T | Awaitable[T]] | None = None,
        ttl: timedelta | None = ...,
        store: StateStore | str | None = None,
    ) -> None: ...
    def create(self, id: str | None = None, *, ttl: timedelta | None = None) -> tuple[str, T]:
        """Create a state with the default value. Without an `id`, one is generated; `ttl` applies to this state only.

        Raises `StateExistsError`, and `InvalidStateError` for a default that cannot be stored."""

    def get_or_create(self, id: str) -> T:
        """The state; created with the default value if there is none. Concurrent callers get the same state."""

    def get(self, id: str) -> T | None:
        """The state, or None. Reading it postpones its expiry. Raises `StateMismatchError`."""

    def update(self, id: str, fn: Callable[[T], T | Awaitable[T]]) -> T:
        """Replace the state by the result of `fn(state)` and return it. No other change is ever overwritten.

        `fn` returns the whole new state. It may be async; if it is sync, it should be quick. It may be called more than
        once: first with the state as this process knows it, and again with the stored state if that is another one. If
        it raises for the stored state, that error is raised and nothing is written. Raises `StateNotFoundError`,
        `InvalidStateError`, `StateMismatchError`, and `ConcurrentChangeError` if other changes came first every time.
        """

    def delete(self, id: str) -> bool:
        """Remove the state; False if there was none."""

    def touch(self, id: str) -> None:
        """Postpone the expiry of the state without reading it. Raises `StateNotFoundError`."""

    def info(self, id: str) -> StateInfo:
        """Information about the state. Does not postpone its expiry. Raises `StateNotFoundError`."""

@dataclass(frozen=True, slots=True)
class Tool:
    """A tool for a model. `tool(**arguments)` returns text and never raises. For wrong arguments, or if the tool
    fails, the text tells the model what is wrong and what to do."""

    name: str
    description: str
    parameters: dict[str, Any]
    run: Callable[..., Awaitable[str]]

    def __call__(self, /, **arguments: Any) -> str: ...
    def to_openai(self) -> dict[str, Any]:
        """The entry for `tools=` of an OpenAI chat completion."""

    def to_anthropic(self) -> dict[str, Any]:
        """The entry for `tools=` of an Anthropic message."""

class Turn(Session):
    """A session in one's turn: everything that a `Session` can do, but what it writes is refused with `TurnLostError`
    once the turn is over. Comes from `Session.turn`; a turn taken inside it is the same turn.

    Context blocks are guarded by their versions, not by the turn."""

    def __init__(self, outside: Components, holding: Holding) -> None: ...
    @property
    def number(self) -> int:
        """The fencing number: it grows with every turn of the session."""

    @property
    def lost(self) -> bool:
        """Whether the turn is known to be over: ended, run out, taken over, or the store out of reach for too long."""

    @property
    def interrupted(self) -> bool:
        """Whether another worker took over with `on_busy="interrupt"`: known at once in the same process, otherwise
        within a second."""

    def run(self, work: Awaitable[R]) -> R:
        """The result of some work, such as a model's answer; cancelled, with `TurnLostError`, when the turn is lost."""

    def take_queued(self) -> Message | None:
        """Append the next message that was queued for the holder of the turn, and return it; each comes once.

        None if there is no more. From then on other callers wait for their turn instead of queueing a message, so that
        none is left behind; what is queued when a turn ends goes to the next one. Raises `TurnLostError`."""
