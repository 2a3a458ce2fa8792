"""What a failure of the driver means: whether the connection is gone, whether waiting can help, and the typed error."""

from __future__ import annotations

import asyncpg

from frontdesk.errors import FrontdeskError, StoreError, StoreFullError, StoreReadOnlyError, StoreUnavailableError

_SHUT_DOWN = ("57P01", "57P02", "57P03", "25P03")
"""the server ends the connection: it stops, or the transaction was idle for too long"""
_CONFLICTS = ("40001", "40P01")
_EPOCH_IS_OVER = "FD001"
"""of our own: see `this_xid` in the schema"""
_TOO_MANY_CONNECTIONS = "53300"
_READ_ONLY = "25006"
_FULL = "53100"
_NAMES_LOST = ("26000", "42P05")
"""a prepared statement does not exist, or exists already"""
_PLAIN_CLASSES = ("08", "28", "3D", "42", "53", "57")
"""classes of errors whose text names roles, databases and tables, but never a value"""


def is_lost(error: BaseException) -> bool:
    """Whether the connection went away, so that it is unknown how far the server came."""
    if isinstance(error, asyncpg.PostgresError):
        return isinstance(error, asyncpg.PostgresConnectionError) or error.sqlstate in _SHUT_DOWN
    if isinstance(error, asyncpg.InternalClientError):
        return True  # the driver lost track of the connection, or of what the server sent
    return isinstance(error, OSError | asyncpg.InterfaceError) and not isinstance(error, TimeoutError | ValueError)


def is_conflict(error: BaseException) -> bool:
    """Whether another transaction was in the way. Nothing has happened, and trying again may help."""
    return getattr(error, "sqlstate", None) in _CONFLICTS


def is_epoch_over(error: BaseException) -> bool:
    """Whether the change log needs a new epoch before anything can be written. Nothing has happened."""
    return getattr(error, "sqlstate", None) == _EPOCH_IS_OVER


def is_read_only(error: BaseException) -> bool:
    return getattr(error, "sqlstate", None) == _READ_ONLY


def may_pass(error: BaseException) -> bool:
    """Whether a failure to connect may be over soon: the server starts, stops, is full, or another takes its place."""
    return (
        is_lost(error) or isinstance(error, TimeoutError) or getattr(error, "sqlstate", None) == _TOO_MANY_CONNECTIONS
    )


def translate(error: BaseException, address: str, *, uncertain: bool = False) -> FrontdeskError:
    """The typed error for a failure of the driver. Its text contains neither statements, values nor passwords, and the
    address of the server only if that cannot be reached."""
    if isinstance(error, FrontdeskError):
        return error
    happened = "; the change may have happened: check before trying again" if uncertain else "; nothing was written"
    if isinstance(error, TimeoutError):
        return StoreUnavailableError(
            f"PostgreSQL did not answer in time: it is overloaded, or another transaction holds a lock{happened}",
            uncertain=uncertain,
        )
    if isinstance(error, asyncpg.PostgresError):
        return _refusal(error, happened, uncertain=uncertain)
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return StoreUnavailableError(
            f"no server at {address} matches target_session_attrs{happened}",
            uncertain=uncertain,
            address=address,
        )
    if is_lost(error):
        return StoreUnavailableError(
            f"PostgreSQL at {address} cannot be reached ({type(error).__name__}){happened}",
            uncertain=uncertain,
            address=address,
        )
    return StoreError(
        f"PostgreSQL cannot take one of the values ({type(error).__name__}){happened}", uncertain=uncertain
    )


def _refusal(error: asyncpg.PostgresError, happened: str, *, uncertain: bool) -> StoreError:
    """The error for an answer of the server."""
    state = error.sqlstate or "unknown"
    reason = f" {error.message}" if state[:2] in _PLAIN_CLASSES and getattr(error, "message", None) else ""
    if state in _NAMES_LOST:
        reason = ": this seems to go through a transaction pooler; add pooler=transaction to the URL"
    kind: type[StoreError] = StoreError
    if is_lost(error) or state[:2] in ("53", "57", "55") or state in _CONFLICTS:
        kind = StoreUnavailableError
    if state == _FULL:
        kind = StoreFullError
    if state == _READ_ONLY:
        kind = StoreReadOnlyError
    text = f"PostgreSQL refused ({state} {type(error).__name__}){reason}{happened}"
    return kind(text, uncertain=uncertain, sqlstate=state)
