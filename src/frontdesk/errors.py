"""Every exception Frontdesk raises, under one root, so that callers can catch by meaning and act on the text.

FrontdeskError
├── ConfigurationError            a builder call after first use, an impossible set-up
│   └── StoreURLError             unknown scheme, unknown or malformed option
├── InvalidInputError (ValueError)
│   ├── InvalidIdError            empty, too long, NUL or lone surrogates in an id
│   ├── InvalidMessageError       a message that cannot be stored as it was given
│   │   └── MessageTooLargeError
│   ├── InvalidRangeError         ends that are not a range on one path
│   ├── InvalidCursorError        a cursor that was not made by the call it is given to
│   ├── InvalidStateError         a state that cannot be stored so that it comes back
│   │   └── StateTooLargeError
│   └── InvalidKeyError           text that is not a session key
├── NotFoundError (LookupError)
│   ├── SessionNotFoundError
│   ├── MessageNotFoundError
│   ├── CompactionNotFoundError
│   ├── StateNotFoundError        never made, deleted, or expired
│   └── BlockNotFoundError        no context block with this label
├── ChangesTrimmedError           the change log does not reach back to this position any more
├── ReadonlyBlockError            a block that its declaration does not let anybody write
├── BlockTooLargeError            over the block's `max_tokens`; nothing was written
├── ConflictError
│   ├── SessionExistsError
│   ├── StateExistsError
│   ├── HeadMovedError            `expected_head` was not the head
│   ├── BlockVersionError         `if_version` was not the block's version
│   ├── TurnBusyError             another has the turn, and it was not to be waited for any longer
│   ├── TurnLostError             a write of a turn that is over: it was refused
│   ├── SessionEndedError         an append to a session that was ended or suspended by hand
│   ├── InvalidTransitionError    a status that cannot follow the one the session has
│   └── ConcurrentChangeError     a change kept losing against others; nothing was written
├── StateMismatchError            what is stored is no value of the type that is asked for
├── CompactionError               a compaction failed; the view is as it was
├── ContextOverflowError          the last turn alone is larger than `max_tokens`
├── ModelError                    a call to a model gave no usable answer: server fault, broken stream, empty answer
│   ├── ModelTimeoutError         silent for longer than the time-out
│   ├── ModelRateLimitError       too many requests or tokens; `retry_after` says when to come back
│   ├── ModelOverflowError        the prompt does not fit into the model's context window
│   └── ModelRefusedError         key, model name or request not accepted, or the answer withheld
├── EmbeddingError                an embedding failed, gave what are not vectors, or vectors of other dimensions
└── StoreError                    the storage engine refused
    ├── StoreClosedError
    ├── StoreUnavailableError     cannot be reached or stayed locked; trying again may help
    ├── StoreReadOnlyError
    ├── StoreFullError            disk or quota exhausted
    ├── StoreCorruptError         the file is not a sound database
    └── SchemaVersionError        the schema is newer than this code
"""

from __future__ import annotations

from datetime import datetime
from typing import Any


class FrontdeskError(Exception):
    """Root of all errors. `details` holds the ids and figures the text speaks of."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.details = details

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.details)


def _rebuild(kind: type[FrontdeskError], args: tuple[str, ...], details: dict[str, Any]) -> FrontdeskError:
    error = kind.__new__(kind)
    Exception.__init__(error, *args)
    error.__dict__.update(details, details=details)
    return error


class ConfigurationError(FrontdeskError):
    """The set-up is impossible, or was changed after first use."""


class StoreURLError(ConfigurationError):
    """A store URL names an unknown scheme or option, or is malformed."""


class InvalidInputError(FrontdeskError, ValueError):
    """An argument is refused; nothing was read or written."""


class InvalidIdError(InvalidInputError):
    """An id is empty, longer than 512 characters, or holds NUL or lone surrogates."""


class InvalidMessageError(InvalidInputError):
    """A message cannot be stored in the form it was given."""


class MessageTooLargeError(InvalidMessageError):
    """A message is larger than the limit of the manager."""


class InvalidRangeError(InvalidInputError):
    """Two ends are not the beginning and the end of a range on one path."""


class InvalidCursorError(InvalidInputError):
    """A cursor was altered, or belongs to another call."""


class InvalidStateError(InvalidInputError):
    """A state is not of its type, or cannot be written as JSON and read back; nothing was written."""


class StateTooLargeError(InvalidStateError):
    """A state is larger than a store of states should hold; nothing was written."""


class InvalidKeyError(InvalidInputError):
    """A text is not a session key."""


class NotFoundError(FrontdeskError, LookupError):
    """Something named by an id does not exist where it was looked for."""


class SessionNotFoundError(NotFoundError):
    """No session with this id in the namespace."""

    def __init__(self, session_id: str, namespace: str) -> None:
        super().__init__(
            f"no session {session_id!r} in namespace {namespace!r}: it was never written to, or it was deleted",
            session_id=session_id,
            namespace=namespace,
        )
        self.session_id = session_id
        self.namespace = namespace


class MessageNotFoundError(NotFoundError):
    """The session does not see a message with this id."""

    def __init__(self, message_id: str, session_id: str) -> None:
        super().__init__(
            f"no message {message_id!r} in session {session_id!r}: check that the id belongs to this session"
            " and was not deleted",
            message_id=message_id,
            session_id=session_id,
        )
        self.message_id = message_id
        self.session_id = session_id


class CompactionNotFoundError(NotFoundError):
    """The session does not see a compaction with this id."""

    def __init__(self, compaction_id: str, session_id: str) -> None:
        super().__init__(
            f"no compaction {compaction_id!r} in session {session_id!r}: `compactions()` lists those there are",
            compaction_id=compaction_id,
            session_id=session_id,
        )
        self.compaction_id = compaction_id
        self.session_id = session_id


class StateNotFoundError(NotFoundError):
    """There is no state with this id under this name: it was never made, was deleted, or has expired."""

    def __init__(self, id: str, name: str, namespace: str) -> None:
        super().__init__(
            f"no state {id!r} in {name!r} of namespace {namespace!r}: it was never made, was deleted, or has expired;"
            " `get_or_create` makes one",
            id=id,
            name=name,
            namespace=namespace,
        )
        self.id = id
        self.name = name
        self.namespace = namespace


class BlockNotFoundError(NotFoundError):
    """The session has no context block with this label (or no such version of it)."""

    def __init__(self, label: str, labels: tuple[str, ...]) -> None:
        known = ", ".join(repr(name) for name in labels) or "none at all"
        super().__init__(f"no context block {label!r}: there are {known}", label=label, labels=labels)
        self.label = label


class ChangesTrimmedError(FrontdeskError):
    """Changes after a position were removed from the log, so that a reader who went on there would miss them."""

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"the change log of namespace {namespace!r} does not reach back to this position any more: read the state"
            " that you follow afresh, and go on from `events(after=None)`",
            namespace=namespace,
        )
        self.namespace = namespace


class ReadonlyBlockError(FrontdeskError):
    """A readonly block cannot be written: its content comes from its declaration or its provider."""

    def __init__(self, label: str) -> None:
        super().__init__(f"context block {label!r} is readonly: change its declaration or its provider", label=label)
        self.label = label


class BlockTooLargeError(FrontdeskError):
    """A content does not fit into its block; nothing was written."""

    def __init__(self, label: str, tokens: int, max_tokens: int) -> None:
        super().__init__(
            f"context block {label!r} would have {tokens} tokens, {tokens - max_tokens} more than its limit of"
            f" {max_tokens}: shorten it",
            label=label,
            tokens=tokens,
            max_tokens=max_tokens,
        )
        self.label = label
        self.tokens = tokens
        self.max_tokens = max_tokens


class ConflictError(FrontdeskError):
    """Another writer was first; nothing was written by this call."""


class SessionExistsError(ConflictError):
    """A session with this id, or a current one under this key, exists already."""

    def __init__(self, name: str, namespace: str) -> None:
        super().__init__(
            f"session {name!r} exists in namespace {namespace!r}: use `get_or_create` to accept the one that is there",
            name=name,
            namespace=namespace,
        )
        self.name = name
        self.namespace = namespace


class StateExistsError(ConflictError):
    """There is a state with this id under this name already."""

    def __init__(self, id: str, name: str, namespace: str) -> None:
        super().__init__(
            f"state {id!r} exists in {name!r} of namespace {namespace!r}: use `get_or_create` to accept the one that"
            " is there",
            id=id,
            name=name,
            namespace=namespace,
        )
        self.id = id
        self.name = name
        self.namespace = namespace


class HeadMovedError(ConflictError):
    """The head was not the expected one. `head` is the id of the actual head, or None in an empty session."""

    def __init__(self, expected: str, head: str | None, session_id: str) -> None:
        super().__init__(
            f"the head of session {session_id!r} is {head!r}, not {expected!r}: read what was added and decide again",
            expected=expected,
            head=head,
            session_id=session_id,
        )
        self.expected = expected
        self.head = head
        self.session_id = session_id


class BlockVersionError(ConflictError):
    """A block was written by another in the meantime. `version` is the one it has now."""

    def __init__(self, label: str, expected: int, version: int) -> None:
        super().__init__(
            f"context block {label!r} has version {version}, not {expected}: read it again and decide",
            label=label,
            expected=expected,
            version=version,
        )
        self.label = label
        self.expected = expected
        self.version = version


class TurnBusyError(ConflictError):
    """Another holds the turn: `holder` (host, process and a random part) since `since`; both are None if it is free,
    but others are ahead in the line."""

    def __init__(self, session_id: str, holder: str | None, since: datetime | None) -> None:
        who = "others wait for its turn" if holder is None else f"{holder} has its turn since {since}"
        super().__init__(
            f"session {session_id!r} is busy, {who}: try again, wait for longer, or take another `on_busy`",
            session_id=session_id,
            holder=holder,
            since=since,
        )
        self.session_id = session_id
        self.holder = holder
        self.since = since


class TurnLostError(ConflictError):
    """The turn under this number is over: it ran out, was taken over, was ended, or its session was deleted."""

    def __init__(self, session_id: str, number: int) -> None:
        super().__init__(
            f"turn {number} of session {session_id!r} is over, and the write was refused: take another turn and read"
            " what was added meanwhile",
            session_id=session_id,
            number=number,
        )
        self.session_id = session_id
        self.number = number


class SessionEndedError(ConflictError):
    """The session was suspended, archived by hand, or ended by `new` or a split; nothing was appended."""

    def __init__(self, session_id: str, status: str, end_reason: str | None) -> None:
        why = f" (reason {end_reason})" if end_reason else ""
        super().__init__(
            f"session {session_id!r} is {status}{why}: append with reopen=True to go on in it,"
            " or start another under its key with `new`",
            session_id=session_id,
            status=status,
            end_reason=end_reason,
        )
        self.session_id = session_id
        self.status = status
        self.end_reason = end_reason


class InvalidTransitionError(ConflictError):
    """A session cannot go from the status it has to the one that was asked for."""

    def __init__(self, session_id: str, status: str, wanted: str, allowed: tuple[str, ...]) -> None:
        super().__init__(
            f"session {session_id!r} is {status} and cannot become {wanted}: from there it can become"
            f" {' or '.join(allowed)}",
            session_id=session_id,
            status=status,
            wanted=wanted,
            allowed=allowed,
        )
        self.session_id = session_id
        self.status = status
        self.wanted = wanted
        self.allowed = allowed


class ConcurrentChangeError(ConflictError):
    """A change was overtaken by others too many times in a row; trying again is safe."""


class StateMismatchError(FrontdeskError):
    """What is stored is no value of the type that is asked for. It is kept as it is. The text names no content."""

    def __init__(self, id: str, name: str, kind: str, reason: str) -> None:
        super().__init__(
            f"the state {id!r} in {name!r} is no {kind} ({reason}): give new fields a default, use another name for"
            " another type, or delete it",
            id=id,
            name=name,
            kind=kind,
        )
        self.id = id
        self.name = name


class CompactionError(FrontdeskError):
    """A compaction did not come about: no summariser, no answer in time, or no summary worth storing. The view is as it
    was, and every message is there."""


class ContextOverflowError(FrontdeskError):
    """What must be kept does not fit. `needed` is the smallest `max_tokens` that would do."""

    def __init__(self, needed: int, max_tokens: int, session_id: str) -> None:
        super().__init__(
            f"the last turn of session {session_id!r} needs {needed} tokens, more than max_tokens={max_tokens}:"
            " raise the figure or shorten the turn",
            needed=needed,
            max_tokens=max_tokens,
            session_id=session_id,
        )
        self.needed = needed
        self.max_tokens = max_tokens
        self.session_id = session_id


class EmbeddingError(FrontdeskError):
    """An embedding failed, or gave what are not vectors, or vectors that do not go with those that are stored."""


class StoreError(FrontdeskError):
    """The storage engine refused; the text carries its reason."""


class StoreClosedError(StoreError):
    """The store was closed, and is used again."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached, or stayed locked for longer than its time-out; trying again may help."""


class StoreReadOnlyError(StoreError):
    """The store can be read only: permissions, a read-only file system, or a standby server."""


class StoreFullError(StoreError):
    """Disk or quota is exhausted; what was acknowledged before is kept."""


class StoreCorruptError(StoreError):
    """The file is not a database, or a damaged one."""


class SchemaVersionError(StoreError):
    """The schema is newer than this version of Frontdesk knows: upgrade the package."""


class ModelError(FrontdeskError):
    """A call to a model gave no usable answer. Names the model and the HTTP status, never the text that was sent."""

    def __init__(self, message: str, *, model: str, status: int | None = None, **details: Any) -> None:
        super().__init__(message, model=model, status=status, **details)
        self.model = model
        self.status = status


class ModelTimeoutError(ModelError):
    """The model was silent for longer than the time-out; trying again may help."""


class ModelRateLimitError(ModelError):
    """Too many requests or tokens. `retry_after` is the server's pause in seconds, None if it named none."""

    def __init__(
        self, message: str, *, model: str, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, model=model, status=status, retry_after=retry_after)
        self.retry_after = retry_after


class ModelOverflowError(ModelError):
    """The prompt does not fit into the context window of the model: send less."""


class ModelRefusedError(ModelError):
    """The key, the model name or the request was not accepted, or the answer was withheld; repeating it is useless."""
