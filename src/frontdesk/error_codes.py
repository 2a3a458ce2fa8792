"""The table from each error to its HTTP status, its exit code, and its outcome.

The server, its client and the command line use this table, so that all of them say the same."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from frontdesk import errors

Outcome = Literal["refused", "did not happen", "may have happened"]


class ErrorCode(NamedTuple):
    """What a program needs to know about an error. `code` is the name of its class, such as `session_not_found`.

    `outcome` says whether the call happened: it was refused, and will be until something changes (the text says why);
    it did not happen, and trying again may help; or it may have happened, and has to be checked first."""

    code: str
    status: int
    exit_code: int
    outcome: Outcome


FAILED, USAGE, NOT_FOUND, CONFLICT, LIMIT, MODEL, STORE, UNAVAILABLE, UNCERTAIN = range(1, 10)
_UNCERTAIN_STATUS = 504

_TABLE: dict[type[errors.FrontdeskError], tuple[int, int, Outcome]] = {
    errors.FrontdeskError: (500, FAILED, "refused"),
    errors.ConfigurationError: (500, USAGE, "refused"),
    errors.StoreURLError: (500, USAGE, "refused"),
    errors.AccessDeniedError: (403, USAGE, "refused"),
    errors.InvalidInputError: (400, USAGE, "refused"),
    errors.InvalidIdError: (400, USAGE, "refused"),
    errors.InvalidMessageError: (400, USAGE, "refused"),
    errors.MessageTooLargeError: (413, USAGE, "refused"),
    errors.InvalidRangeError: (400, USAGE, "refused"),
    errors.InvalidCursorError: (400, USAGE, "refused"),
    errors.InvalidStateError: (400, USAGE, "refused"),
    errors.StateTooLargeError: (413, USAGE, "refused"),
    errors.InvalidKeyError: (400, USAGE, "refused"),
    errors.NotFoundError: (404, NOT_FOUND, "refused"),
    errors.SessionNotFoundError: (404, NOT_FOUND, "refused"),
    errors.MessageNotFoundError: (404, NOT_FOUND, "refused"),
    errors.CompactionNotFoundError: (404, NOT_FOUND, "refused"),
    errors.StateNotFoundError: (404, NOT_FOUND, "refused"),
    errors.BlockNotFoundError: (404, NOT_FOUND, "refused"),
    errors.ChangesTrimmedError: (410, NOT_FOUND, "refused"),
    errors.ChangesRewoundError: (410, NOT_FOUND, "refused"),
    errors.ReadonlyBlockError: (403, LIMIT, "refused"),
    errors.BlockTooLargeError: (413, LIMIT, "refused"),
    errors.ConflictError: (409, CONFLICT, "refused"),
    errors.SessionExistsError: (409, CONFLICT, "refused"),
    errors.StateExistsError: (409, CONFLICT, "refused"),
    errors.HeadMovedError: (409, CONFLICT, "refused"),
    errors.BlockVersionError: (409, CONFLICT, "refused"),
    errors.StateVersionError: (409, CONFLICT, "refused"),
    errors.TurnBusyError: (409, CONFLICT, "did not happen"),
    errors.TurnLostError: (409, CONFLICT, "refused"),
    errors.SessionEndedError: (409, CONFLICT, "refused"),
    errors.InvalidTransitionError: (409, CONFLICT, "refused"),
    errors.ConcurrentChangeError: (409, CONFLICT, "did not happen"),
    errors.StateMismatchError: (422, LIMIT, "refused"),
    errors.CompactionError: (502, MODEL, "did not happen"),
    errors.ContextOverflowError: (422, LIMIT, "refused"),
    errors.ModelError: (502, MODEL, "did not happen"),
    errors.ModelTimeoutError: (504, MODEL, "did not happen"),
    errors.ModelRateLimitError: (429, MODEL, "did not happen"),
    errors.ModelOverflowError: (422, MODEL, "refused"),
    errors.ModelRefusedError: (502, MODEL, "refused"),
    errors.EmbeddingError: (502, MODEL, "did not happen"),
    errors.StoreError: (500, STORE, "refused"),
    errors.StoreClosedError: (503, STORE, "refused"),
    errors.StoreUnavailableError: (503, UNAVAILABLE, "did not happen"),
    errors.StateStoreMissingError: (503, UNAVAILABLE, "did not happen"),
    errors.StoreReadOnlyError: (503, STORE, "refused"),
    errors.StoreFullError: (507, STORE, "did not happen"),
    errors.StoreCorruptError: (500, STORE, "refused"),
    errors.DamagedRecordError: (500, STORE, "refused"),
    errors.StoreReplacedError: (503, STORE, "refused"),
    errors.SchemaVersionError: (500, STORE, "refused"),
}


def error_code(error: errors.FrontdeskError) -> ErrorCode:
    """The row of an error, or of the nearest class above it that the table has."""
    kind = next(base for base in type(error).__mro__ if base in _TABLE)
    status, exit_code, outcome = _TABLE[kind]
    if error.uncertain:
        status, exit_code, outcome = _UNCERTAIN_STATUS, UNCERTAIN, "may have happened"
    return ErrorCode(_name(kind), status, exit_code, outcome)


def error_class(code: str) -> type[errors.FrontdeskError] | None:
    """The class with this code, for a client that raises again what a server sent."""
    return _CLASSES.get(code)


def _name(kind: type[errors.FrontdeskError]) -> str:
    """`SessionNotFoundError` as `session_not_found`, and the root as `frontdesk`."""
    words = kind.__name__.removesuffix("Error").replace("URL", "Url")
    return re.sub(r"(?<!^)(?=[A-Z])", "_", words).lower()


_CLASSES = {_name(kind): kind for kind in _TABLE}
