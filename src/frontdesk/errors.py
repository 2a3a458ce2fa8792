"""Every exception that Frontdesk raises, under one root. The text of each says what happened and what to do next.

FrontdeskError
├── ConfigurationError            an impossible setup, or a setup call after first use
│   └── StoreURLError             unknown scheme, unknown or malformed option
├── AccessDeniedError             a server does not accept the API key, or the key does not allow the call
├── InvalidInputError (ValueError)
│   ├── InvalidIdError            empty, too long, or with NUL or lone surrogates
│   ├── InvalidMessageError       a message that cannot be stored as it was given
│   ├── MessageTooLargeError
│   ├── InvalidRangeError         ends that are not a range on one path
│   ├── InvalidCursorError        a cursor that was altered, or belongs to another call
│   ├── InvalidStateError         a state that cannot be stored and read back as it is
│   ├── StateTooLargeError
│   └── InvalidKeyError           text that is not a session key
├── NotFoundError (LookupError)
│   ├── SessionNotFoundError
│   ├── MessageNotFoundError
│   ├── CompactionNotFoundError
│   ├── StateNotFoundError        never created, deleted, or expired
│   └── BlockNotFoundError        no context block with this label
├── ChangesTrimmedError           the change log no longer reaches back to this position
│   └── ChangesRewoundError       the change log has gone back: it no longer contains this position
├── ReadonlyBlockError            a block whose declaration does not allow writes
├── BlockTooLargeError            over the block's `max_tokens`; nothing was written
├── ConflictError
│   ├── SessionExistsError
│   ├── StateExistsError
│   ├── HeadMovedError            `expected_head` was not the head
│   ├── BlockVersionError         `if_version` was not the block's version
│   ├── StateVersionError         `if_version` was not the state's version
│   ├── TurnBusyError             another worker has the turn, and the wait is over
│   ├── TurnLostError             a write in a turn that is over: it was refused
│   ├── SessionEndedError         an append to a session that was ended or suspended by hand
│   ├── InvalidTransitionError    a status that cannot follow the current one
│   └── ConcurrentChangeError     other changes came first every time; nothing was written
├── StateMismatchError            the stored value does not fit the requested type
├── CompactionError               a compaction failed; the view is unchanged
├── ContextOverflowError          what must stay of a history does not fit into `max_tokens`
├── ModelError                    a model call returned no usable answer: server fault, broken stream, empty answer
│   ├── ModelTimeoutError         the model sent nothing for longer than the timeout
│   ├── ModelRateLimitError       too many requests or tokens; `retry_after` says when to try again
│   ├── ModelOverflowError        the prompt does not fit into the model's context window
│   └── ModelRefusedError         the key, model name or request was rejected, or the answer was withheld
├── EmbeddingError                an embedding failed, or returned no vectors or vectors of other dimensions
└── StoreError                    the storage engine reported an error
    ├── StoreClosedError
    ├── StoreUnavailableError     cannot be reached or stayed locked; trying again may help
    ├── StateStoreMissingError    the namespace keeps states in a store that this manager cannot open
    ├── StoreReadOnlyError
    ├── StoreFullError            disk or quota exhausted
    ├── StoreCorruptError         the file is not a valid database
    ├── DamagedRecordError        one stored record cannot be read; the others can
    ├── StoreReplacedError        the file was deleted or replaced while it was open
    └── SchemaVersionError        the schema is newer than this code, or unreleased
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, TypeVar, dataclass_transform


class FrontdeskError(Exception):
    """The root of all errors. `details` contains the ids and numbers that the text mentions, by name.

    `uncertain` is True if the call may have taken effect, because the answer of the storage engine was lost. Every
    other error means that nothing of the call was stored."""

    details: dict[str, Any]
    uncertain: bool = False
    template: ClassVar[str]

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details

    def __post_init__(self) -> None:
        """Called for errors that declare fields, as soon as these are set."""
        details = dict(vars(self))
        Exception.__init__(self, self._text())
        self.details = details

    def _text(self) -> str:
        return self.template.format_map(vars(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), self.args, self.details)


def rebuild(kind: type[FrontdeskError], args: tuple[str, ...], details: dict[str, Any]) -> FrontdeskError:
    """The error that had this text and these details, for another process."""
    error = kind.__new__(kind)
    Exception.__init__(error, *args)
    error.__dict__.update(details, details=details)
    return error


_E = TypeVar("_E", bound=FrontdeskError)


@dataclass_transform(eq_default=False)
def _declared(kind: type[_E]) -> type[_E]:
    """Make the annotated fields of an error its parameters, its attributes and its `details`.

    The text is `template` with the fields filled in, or what `_text` returns where that is not enough."""
    return dataclass(eq=False, repr=False)(kind)


class ConfigurationError(FrontdeskError):
    """The setup is impossible, or was changed after first use."""


class StoreURLError(ConfigurationError):
    """A store URL names an unknown scheme or option, or is malformed."""


class AccessDeniedError(FrontdeskError):
    """A server does not accept the API key of a client, or the key does not allow this call; nothing happened."""


class InvalidInputError(FrontdeskError, ValueError):
    """An argument was refused; nothing was read or written."""


class InvalidIdError(InvalidInputError):
    """An id is empty, longer than 512 characters, or contains NUL or lone surrogates."""


class InvalidMessageError(InvalidInputError):
    """A message cannot be stored as it was given."""


class MessageTooLargeError(InvalidInputError):
    """A message is larger than the limit of the manager."""


class InvalidRangeError(InvalidInputError):
    """Two messages are not the start and the end of a range on one path."""


class InvalidCursorError(InvalidInputError):
    """A cursor was altered, or belongs to another call."""


class InvalidStateError(InvalidInputError):
    """A state is not of its type, or cannot be written as JSON and read back; nothing was written."""


class StateTooLargeError(InvalidInputError):
    """A state is larger than 1 MiB; nothing was written."""


class InvalidKeyError(InvalidInputError):
    """A text is not a session key."""


class NotFoundError(FrontdeskError, LookupError):
    """Nothing with this id exists."""


@_declared
class SessionNotFoundError(NotFoundError):
    """No session with this id in the namespace."""

    session_id: str
    namespace: str
    template = "no session {session_id!r} in namespace {namespace!r}: it was never written to, or it was deleted"


@_declared
class MessageNotFoundError(NotFoundError):
    """The session has no message with this id."""

    message_id: str
    session_id: str
    template = (
        "no message {message_id!r} in session {session_id!r}: check that the id belongs to this session"
        " and was not deleted"
    )


@_declared
class CompactionNotFoundError(NotFoundError):
    """The session has no compaction with this id."""

    compaction_id: str
    session_id: str
    template = "no compaction {compaction_id!r} in session {session_id!r}: `compactions()` lists those that exist"


@_declared
class StateNotFoundError(NotFoundError):
    """There is no state with this id under this name: it was never created, was deleted, or has expired."""

    id: str
    name: str
    namespace: str
    template = (
        "no state {id!r} in {name!r} of namespace {namespace!r}: it was never created, was deleted, or has expired;"
        " `get_or_create` creates one"
    )


@_declared
class BlockNotFoundError(NotFoundError):
    """The session has no context block with this label, or no such version of it."""

    label: str
    labels: tuple[str, ...]

    def _text(self) -> str:
        known = ", ".join(map(repr, self.labels)) or "none at all"
        return f"no context block {self.label!r}: there are {known}"


@_declared
class ChangesTrimmedError(FrontdeskError):
    """Events after this position have been removed from the log, so a reader that continued there would miss them."""

    namespace: str
    template = (
        "the change log of namespace {namespace!r} no longer reaches back to this position: load the current state"
        " again, and continue with `events(after=None)`"
    )


class ChangesRewoundError(ChangesTrimmedError):
    """The change log no longer contains this position: it was restored from a backup or copied, or a standby without
    the last changes took over. What was read after `position` is no longer in the log, and a reader that continued
    would miss what replaced it.

    `position` is where to continue: pass it as `after`. Events before it may be returned again."""

    def __init__(self, namespace: str, position: Any) -> None:
        FrontdeskError.__init__(
            self,
            f"the change log of namespace {namespace!r} has gone back, and no longer contains this position: it was"
            " restored or copied, or a standby took over; load the current state again, and continue with"
            " `events(after=error.position)`",
            namespace=namespace,
            position=position,
        )
        self.namespace = namespace
        self.position = position


@_declared
class ReadonlyBlockError(FrontdeskError):
    """A readonly block cannot be written: its content comes from its declaration or its provider."""

    label: str
    template = "context block {label!r} is readonly: change its declaration or its provider"


@_declared
class BlockTooLargeError(FrontdeskError):
    """The content does not fit into its block; nothing was written."""

    label: str
    tokens: int
    max_tokens: int

    def _text(self) -> str:
        return (
            f"context block {self.label!r} would have {self.tokens} tokens, {self.tokens - self.max_tokens} more than"
            f" its limit of {self.max_tokens}: shorten it"
        )


class ConflictError(FrontdeskError):
    """Another writer was first; nothing was written by this call."""


@_declared
class SessionExistsError(ConflictError):
    """A session with this id, or a current one under this key, already exists."""

    name: str
    namespace: str
    template = "session {name!r} already exists in namespace {namespace!r}: use `get_or_create` to get the existing one"


@_declared
class StateExistsError(ConflictError):
    """A state with this id already exists under this name."""

    id: str
    name: str
    namespace: str
    template = (
        "state {id!r} already exists in {name!r} of namespace {namespace!r}: use `get_or_create` to get the existing"
        " one"
    )


@_declared
class HeadMovedError(ConflictError):
    """The head was not the expected one. `head` is the id of the actual head. None, for both, means no head."""

    expected: str | None
    head: str | None
    session_id: str
    template = "the head of session {session_id!r} is {head!r}, not {expected!r}: read what was added and decide again"


@_declared
class BlockVersionError(ConflictError):
    """Another writer changed the block in the meantime. `version` is its current version."""

    label: str
    expected: int
    version: int
    template = "context block {label!r} has version {version}, not {expected}: read it again and decide"


@_declared
class StateVersionError(ConflictError):
    """Another writer changed the state in the meantime. `version` is its current version; 0 means that there is no
    state."""

    id: str
    name: str
    expected: int
    version: int
    template = "the state {id!r} in {name!r} has version {version}, not {expected}: read it again and decide"


@_declared
class TurnBusyError(ConflictError):
    """Another worker has the turn: `holder` (its host, its process and a random part), since `since`.

    Both are None if the turn is free but other callers are before this one in the queue."""

    session_id: str
    holder: str | None
    since: datetime | None

    def _text(self) -> str:
        who = (
            "others are waiting for its turn"
            if self.holder is None
            else f"{self.holder} has had its turn since {self.since}"
        )
        return (
            f"session {self.session_id!r} is busy, because {who}: try again, wait longer, or choose another `on_busy`"
        )


@_declared
class TurnLostError(ConflictError):
    """The turn with this number is over: it expired, was taken over, was ended, or its session was deleted."""

    session_id: str
    number: int
    template = (
        "turn {number} of session {session_id!r} is over, and the write was refused: take another turn and read"
        " what was added meanwhile"
    )


@_declared
class SessionEndedError(ConflictError):
    """The session was suspended, archived by hand, or ended by `new` or a split; nothing was appended."""

    session_id: str
    status: str
    end_reason: str | None

    def _text(self) -> str:
        why = f" (reason {self.end_reason})" if self.end_reason else ""
        return (
            f"session {self.session_id!r} is {self.status}{why}: append with reopen=True to continue it,"
            " or start another under its key with `new`"
        )


@_declared
class InvalidTransitionError(ConflictError):
    """A session cannot change from its current status to the wanted one."""

    session_id: str
    status: str
    wanted: str
    allowed: tuple[str, ...]

    def _text(self) -> str:
        return (
            f"session {self.session_id!r} is {self.status} and cannot become {self.wanted}: it can only become"
            f" {' or '.join(self.allowed)}"
        )


class ConcurrentChangeError(ConflictError):
    """Other changes came first, too many times in a row. Trying again is safe."""


@_declared
class StateMismatchError(FrontdeskError):
    """The stored value does not fit the requested type. It is kept as it is. The text shows no content."""

    id: str
    name: str
    kind: str
    reason: str
    template = (
        "the state {id!r} in {name!r} is not a {kind} ({reason}): pass a `migrate` that reads older values, give new"
        " fields a default, or use another name for another type"
    )


class CompactionError(FrontdeskError):
    """A compaction failed: there is no summariser, no answer came in time, or no summary was worth storing. The view is
    unchanged, and no message is lost."""


@_declared
class ContextOverflowError(FrontdeskError):
    """What must stay does not fit into `max_tokens`: the leading system messages, the summaries and the current request
    with its steps, even with all tool outputs shortened; in `prepare`, also the prompt and the tools. `needed` is the
    smallest value that is enough."""

    needed: int
    max_tokens: int
    session_id: str
    template = (
        "session {session_id!r} needs at least {needed} tokens, more than max_tokens={max_tokens}:"
        " raise it, shorten the prompt or the tools, or compact the session"
    )


class EmbeddingError(FrontdeskError):
    """An embedding failed, or returned no vectors, or vectors that do not fit the stored ones."""


class StoreError(FrontdeskError):
    """The storage engine reported an error. The text contains its reason."""

    def __init__(self, message: str, *, uncertain: bool = False, **details: Any) -> None:
        super().__init__(message, **({"uncertain": True} if uncertain else {}), **details)
        self.uncertain = uncertain


class StoreClosedError(StoreError):
    """The store was used after it was closed."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached, or stayed locked for longer than its timeout; trying again may help."""


@_declared
class StateStoreMissingError(StoreError):
    """The namespace keeps states in another store, which this manager was not given and cannot open by itself. So it
    cannot delete what is there. `url` names the store, without user and password."""

    namespace: str
    url: str
    reason: str
    template = (
        "namespace {namespace!r} keeps states in {url}, which this manager cannot open ({reason}): nothing was deleted;"
        " pass it as the `store` of `manager.states(...)` or in FRONTDESK_STATE_URL, and call again; if the store no"
        " longer exists, call `forget_state_store`"
    )


class StoreReadOnlyError(StoreError):
    """The store can only be read: permissions, a read-only file system, or a standby server."""


class StoreFullError(StoreError):
    """Disk or quota is exhausted; what was acknowledged before is kept."""


class StoreCorruptError(StoreError):
    """The file is not a database, or it is damaged."""


@_declared
class DamagedRecordError(StoreError):
    """One stored record cannot be read. The others can. `record` says what it is (a message, a segment ...), and `id`
    is its id, or None if it has none or the damage hides it; then `number` is its number in the store."""

    record: str
    id: str | None
    number: int | None = None

    def _text(self) -> str:
        name = f"{self.record} number {self.number}" if self.id is None else f"{self.record} {self.id!r}"
        return (
            f"{name} is damaged and cannot be read: restore a backup of the store, or delete what is damaged;"
            " everything else can still be read"
        )


class StoreReplacedError(StoreError):
    """The file was deleted or replaced while it was open. Nothing of this call was stored, and nothing is read from
    another file in its place."""


class SchemaVersionError(StoreError):
    """The schema is newer than this version of Frontdesk (upgrade the package), or an unreleased version created it."""


class ModelError(FrontdeskError):
    """A model call returned no usable answer. The text names the model and the HTTP status, never what was sent."""

    def __init__(self, message: str, *, model: str, status: int | None = None, **details: Any) -> None:
        super().__init__(message, model=model, status=status, **details)
        self.model = model
        self.status = status


class ModelTimeoutError(ModelError):
    """The model sent nothing for longer than the timeout; trying again may help."""


class ModelRateLimitError(ModelError):
    """Too many requests or tokens. `retry_after` is how many seconds the server asks to wait, or None."""

    def __init__(
        self, message: str, *, model: str, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, model=model, status=status, retry_after=retry_after)
        self.retry_after = retry_after


class ModelOverflowError(ModelError):
    """The prompt does not fit into the context window of the model: send less."""


class ModelRefusedError(ModelError):
    """The key, the model name or the request was rejected, or the answer was withheld. Trying again does not help."""
