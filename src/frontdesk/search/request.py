"""The request of a search: the query and the filters, checked in one place for sessions and managers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from frontdesk import cursors
from frontdesk.checks import check_count
from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError
from frontdesk.lifecycle.transitions import StatusFilter, current_status_filter
from frontdesk.moments import to_microseconds
from frontdesk.search.query import Query, parse
from frontdesk.search.settings import tokeniser
from frontdesk.search.tokeniser import fold
from frontdesk.store import Address, SessionRow

_MAX_CONTEXT = 100
SHOWN_ROLES = frozenset(("assistant", "function", "tool", "user"))
"""the roles of messages that a model is shown of other conversations: what was said, never instructions"""
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_decode_tags = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The parsed arguments of a search."""

    query: Query
    limit: int
    context: int
    group: bool
    newest: bool
    where: dict[str, str]
    """the required values of columns of the session's row"""
    status: StatusFilter | None
    """the required status of the session"""
    returned: int
    """the number of hits on earlier pages"""
    last_hit: Address | None
    """the last hit of the previous page"""
    call: list[Any]
    """identifies the call that a cursor is for"""
    for_model: bool = False
    """leave out messages of other roles than `SHOWN_ROLES`"""

    @property
    def narrows_sessions(self) -> bool:
        return bool(self.query.sessions or self.query.tags or self.where or self.status)

    def accepts(self, row: SessionRow) -> bool:
        """Whether a session passes the filters."""
        query = self.query
        if query.sessions and row.id not in query.sessions and fold(row.name) not in map(fold, query.sessions):
            return False
        if self.status is not None and not self.status.matches(row):
            return False
        if any(getattr(row, name) != value for name, value in self.where.items()):
            return False
        return not query.tags or query.tags <= set(_decode_tags(row.tags))

    def is_in_time(self, at: int) -> bool:
        after, before = self.query.after, self.query.before
        return (after is None or at >= after) and (before is None or at < before)

    def cursor(self, returned: int, last: Address) -> str:
        """A cursor for the hits after the first `returned`, of which `last` is the last."""
        return cursors.seal([returned, *last], self.call)


async def parse_request(
    runtime: Runtime,
    text: str,
    *,
    limit: int,
    cursor: str | None,
    within: str | None = None,
    session: str | None = None,
    role: str | None = None,
    status: str | None = None,
    tag: str | None = None,
    before: datetime | None = None,
    after: datetime | None = None,
    context: int = 0,
    group: bool = False,
    newest: bool = False,
    for_model: bool = False,
    **key: str | None,
) -> Request:
    """Parse the arguments of a search. Filters apply in addition to those in the query.

    Raises `InvalidInputError`, and `InvalidCursorError` for a cursor of another call."""
    if not isinstance(text, str):
        raise InvalidInputError(f"a query must be a text, not {type(text).__name__}")
    if limit is None:
        raise InvalidInputError("limit must be a whole number, at least 1, not None: pass `next_cursor` for more hits")
    check_count(limit, "limit")
    if not isinstance(context, int) or isinstance(context, bool) or not 0 <= context <= _MAX_CONTEXT:
        raise InvalidInputError(f"context must be a whole number from 0 to {_MAX_CONTEXT}, not {context!r}")
    words = {"session": session, "role": role, "status": status, "tag": tag, **key}
    for name, value in words.items():
        if value is not None and not isinstance(value, str):
            raise InvalidInputError(f"{name} must be a text, not {type(value).__name__}")
    session, status, tag = _storable(session), _storable(status), _storable(tag)
    key = {name: _storable(value) for name, value in key.items()}
    query = parse(_storable(text) or "", tokeniser(runtime.settings.search))
    query = replace(
        query,
        roles=frozenset((role.lower(),)) if role is not None else query.roles,
        sessions=frozenset((session,)) if session is not None else query.sessions,
        tags=query.tags if tag is None else query.tags | {tag},
        after=_later(query.after, None if after is None else to_microseconds(after)),
        before=_earlier(query.before, None if before is None else to_microseconds(before)),
    )
    where = {name: value for name, value in key.items() if value is not None}
    call = ["search", runtime.namespace, within, text, words, query.after, query.before, group, newest, for_model]
    returned, *last = [0] if cursor is None else cursors.unseal(cursor, call)
    return Request(
        query=query,
        limit=limit,
        context=context,
        group=group,
        newest=newest,
        where=where,
        status=None if status is None else await current_status_filter(runtime, status),
        returned=returned,
        last_hit=Address(*last) if last else None,
        call=call,
        for_model=for_model,
    )


def is_shown(role: str) -> bool:
    """Whether a model is shown messages of this role."""
    return role.lower() in SHOWN_ROLES


def _storable(text: str | None) -> str | None:
    """A text with a space for each character that no stored text can contain: NUL, and halves of surrogate pairs."""
    return None if text is None else _UNSTORABLE.sub(" ", text)


def _later(first: int | None, second: int | None) -> int | None:
    return max((moment for moment in (first, second) if moment is not None), default=None)


def _earlier(first: int | None, second: int | None) -> int | None:
    return min((moment for moment in (first, second) if moment is not None), default=None)
