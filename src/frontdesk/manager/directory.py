"""Creating and finding sessions: create, get or create, and pages of a list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from frontdesk import cursors
from frontdesk.checks import check_count, check_json, check_list, check_text
from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError, InvalidKeyError, SessionExistsError
from frontdesk.history import trees
from frontdesk.history.live import live_states
from frontdesk.keys import SessionKey
from frontdesk.lifecycle.transitions import COMPACTION_LEASE, check_status, status_query
from frontdesk.lifecycle.usage import MAX_TOKENS
from frontdesk.messages.ids import check_id, new_id
from frontdesk.models.windows import SMALLEST_WINDOW, session_window
from frontdesk.moments import to_microseconds
from frontdesk.records import Page, SessionInfo, SessionStatus
from frontdesk.store import NewSession, SessionQuery, SessionRow
from frontdesk.tree.sessions import Scalar, metadata_digest

MAX_PAGE = 1000
_MOST_COUNTED = 100_000
_EXCLUDABLE = ("agent", "channel", "peer", "thread", "tag", "model", "source")
ListOrder = Literal["recent", "created"]
ORDERS: tuple[ListOrder, ...] = ("recent", "created")


class Filters(NamedTuple):
    """What `SessionManager.list` was given to choose sessions by."""

    agent: str | None
    channel: str | None
    peer: str | None
    thread: str | None
    status: str | None
    tag: str | None
    metadata: Mapping[str, Any] | None
    id_prefix: str | None
    created_after: datetime | None
    created_before: datetime | None
    model: str | None = None
    exclude: Mapping[str, str | Sequence[str]] | None = None
    min_usage: float | None = None

    def columns(self) -> dict[str, Any]:
        """The fields of a `SessionQuery`, checked, except for the status. Raises `InvalidInputError`."""
        texts = ("agent", "channel", "peer", "thread", "tag", "id_prefix", "model")
        moments = ("created_after", "created_before")
        given = {what: value for what, value in self._asdict().items() if value is not None}
        return {
            **{what: check_text(given[what], what) for what in texts if what in given},
            **{what: to_microseconds(given[what]) for what in moments if what in given},
            "metadata": _metadata_digests({} if self.metadata is None else self.metadata),
            "exclude": _excluded({} if self.exclude is None else self.exclude),
        }


class KeyColumns(NamedTuple):
    """The parts of a key as columns of a session; all None without a key."""

    agent: str | None = None
    channel: str | None = None
    peer: str | None = None
    thread: str | None = None


def key_columns(runtime: Runtime, key: SessionKey | None) -> KeyColumns:
    """Where the session of a key is kept. Raises `InvalidKeyError`."""
    return KeyColumns() if key is None else KeyColumns(*runtime.stored_key(check_key(key)).parts)


def check_key(key: SessionKey) -> SessionKey:
    """Raises `InvalidKeyError` for what is not a `SessionKey`."""
    if not isinstance(key, SessionKey):
        raise InvalidKeyError(
            f"a key must be a SessionKey, not {type(key).__name__}: use `SessionKey.parse` for a text"
        )
    return key


class Directory:
    """The sessions of a namespace."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def new_session(
        self,
        name: str,
        session_id: str | None,
        key: SessionKey | None,
        parent: str | None,
        model: str | None,
        source: str | None,
        max_tokens: int | None,
        tags: Iterable[str],
        metadata: dict[str, Any] | None,
    ) -> NewSession:
        """A session to be created from what the caller gave, checked."""
        for what, text in (("name", name), ("model", model), ("source", source)):
            if text is not None:
                check_text(text, what)
        check_count(max_tokens, "max_tokens", most=MAX_TOKENS)
        distinct = list(dict.fromkeys(check_id(tag, "tag") for tag in check_list(tags, "tags")))
        return NewSession(
            namespace=self._runtime.namespace,
            id=new_id() if session_id is None else check_id(session_id, "session id"),
            now=self._runtime.now(),
            name=name,
            parent_session_id=None if parent is None else check_id(parent, "parent session id"),
            model=model,
            source=source,
            tags=msgspec.json.encode(distinct).decode(),
            metadata=check_json(metadata or {}, "metadata"),
            max_tokens=max_tokens,
            **key_columns(self._runtime, key)._asdict(),
        )

    async def create(self, new: NewSession, key: SessionKey | None) -> str:
        """Create a session. Raises `SessionExistsError` if its id is taken or its key has a current session."""
        row, created = await self._runtime.store.create(new)
        if not created:
            raise SessionExistsError(new.id if row.id == new.id else str(key), self._runtime.namespace)
        self._runtime.hooks.announce(row.id, "on_session_start")
        return row.id

    async def get_or_create(self, new: NewSession) -> str:
        """The id of the session that is there already, or of the new one."""
        row, created = await self._runtime.store.create(new)
        if created:
            self._runtime.hooks.announce(row.id, "on_session_start")
        return row.id

    async def page(self, filters: Filters, order: ListOrder, limit: int, cursor: str | None) -> Page[SessionInfo]:
        """A page of sessions. Raises `InvalidInputError`, `InvalidCursorError`."""
        check_limit(limit)
        if order not in ORDERS:
            raise InvalidInputError(f"unknown order {order!r}: choose one of {', '.join(ORDERS)}")
        columns = {**filters.columns(), "order": order}
        status = None if filters.status is None else check_status(filters.status)
        ratio = _check_usage(filters.min_usage)
        call = ["sessions", self._runtime.namespace, {**columns, "status": status, "min_usage": ratio}]
        after = None if cursor is None else tuple(cursors.unseal(cursor, call))
        rows = await self._rows(columns, status, ratio, limit + 1, after)
        shown = rows[:limit]
        more = len(rows) > limit
        next_cursor = cursors.seal([shown[-1].last_active_at, shown[-1].number], call) if more else None
        return Page(await self._infos(shown), next_cursor)

    async def count(self, filters: Filters, most: int) -> int:
        """How many sessions match, but at most `most`. Raises `InvalidInputError`."""
        check_count(most, "most", most=_MOST_COUNTED)
        columns = {**filters.columns(), "order": "recent"}
        status = None if filters.status is None else check_status(filters.status)
        return len(await self._rows(columns, status, _check_usage(filters.min_usage), most, None))

    async def _rows(
        self,
        columns: dict[str, Any],
        status: SessionStatus | None,
        ratio: float | None,
        limit: int,
        after: tuple[int, ...] | None,
    ) -> list[SessionRow]:
        """The rows of a page. How full a session is depends on the window of its model, which no store knows: stores
        return those that may be full enough, and the others are left out here."""
        configured = self._runtime.settings.compaction.max_tokens
        values = {**columns, **status_query(self._runtime, status), "namespace": self._runtime.namespace}
        values["shown_lease"] = COMPACTION_LEASE
        if ratio is not None:
            values["fullness"] = (ratio, SMALLEST_WINDOW if configured is None else configured)
        found: list[SessionRow] = []
        while True:
            query = msgspec.convert({**values, "limit": limit, "after": after}, SessionQuery)
            rows = await self._runtime.store.page(query)
            if ratio is None:
                return rows
            sizes = [row.used_tokens for row in await trees.measure_rows(self._runtime, rows)]
            found += [
                row
                for row, tokens in zip(rows, sizes, strict=True)
                if tokens >= ratio * session_window(row, configured)
            ]
            if len(found) >= limit or len(rows) < limit:
                return found[:limit]
            after = (rows[-1].last_active_at, rows[-1].number)

    async def _infos(self, rows: list[SessionRow]) -> list[SessionInfo]:
        measured = await trees.measure_rows(self._runtime, rows)
        # Whether they are compacted is known from the moment when they were listed, as the filter by status is.
        compacting = [row.is_leased for row in rows]
        known = zip(measured, await live_states(self._runtime, measured, compacting), strict=True)
        configured = self._runtime.settings.compaction.max_tokens
        return [SessionInfo.from_row(row, session_window(row, configured), live) for row, live in known]

    async def iterate(self, filters: Filters, limit: int) -> AsyncIterator[SessionInfo]:
        """Every session of the list, page by page. Their numbers never change, so that none is passed by or repeated,
        and later ones have higher numbers than the first."""
        cursor: str | None = None
        while True:
            page = await self.page(filters, "created", limit, cursor)
            for info in page:
                yield info
            cursor = page.next_cursor
            if cursor is None:
                return


def check_limit(limit: int) -> None:
    """Raises `InvalidInputError` for what is not the size of a page."""
    if limit is None:
        raise InvalidInputError(f"limit must be a whole number from 1 to {MAX_PAGE}: `iterate` returns all sessions")
    check_count(limit, "limit", most=MAX_PAGE)


def _excluded(exclude: Mapping[str, str | Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """(column, value) for each value that sessions must not have."""
    if not isinstance(exclude, Mapping):
        raise InvalidInputError(f"exclude must be a dict, not {type(exclude).__name__}")
    pairs: set[tuple[str, str]] = set()
    for name, given in exclude.items():
        if name not in _EXCLUDABLE:
            raise InvalidInputError(f"sessions cannot be excluded by {name!r}: choose from {', '.join(_EXCLUDABLE)}")
        values = [given] if isinstance(given, str) else check_list(given, name)
        pairs.update((name, check_text(value, name)) for value in values)
    return tuple(sorted(pairs))


def _check_usage(ratio: float | None) -> float | None:
    if ratio is not None and (isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio <= 100):
        raise InvalidInputError(f"min_usage must be a share of the window, such as 0.8, not {ratio!r}")
    return None if ratio is None else float(ratio)


def _metadata_digests(metadata: Mapping[str, Any]) -> tuple[bytes, ...]:
    if not isinstance(metadata, Mapping):
        raise InvalidInputError(f"metadata must be a dict, not {type(metadata).__name__}")
    check_json(dict(metadata), "metadata")
    for name, value in metadata.items():
        if not isinstance(value, Scalar):
            raise InvalidInputError(
                f"metadata[{name!r}] must be a text, a number or a bool to filter by, not {type(value).__name__}"
            )
    return tuple(sorted({metadata_digest(name, value) for name, value in metadata.items()}))
