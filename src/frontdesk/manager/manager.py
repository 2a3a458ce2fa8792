"""All conversations of a namespace: creating, finding, listing, forking and removing them, and what they cost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import Any, Self

import msgspec

from frontdesk import cursors
from frontdesk.checks import check_count, check_json, check_list, check_summary, check_text
from frontdesk.config.runtime import Clock, Runtime
from frontdesk.config.settings import DEFAULT_MAX_MESSAGE_BYTES
from frontdesk.errors import InvalidKeyError, SessionExistsError, SessionNotFoundError
from frontdesk.history import reading
from frontdesk.keys import SessionKey
from frontdesk.lifecycle.ledger import MOST_TOKENS
from frontdesk.lifecycle.transitions import check_status, status_filter, statuses
from frontdesk.manager.erasure import ErasureCalls
from frontdesk.messages import check_id, new_id
from frontdesk.models.windows import session_window
from frontdesk.records import (
    EndReason,
    Page,
    SessionInfo,
    to_microseconds,
)
from frontdesk.session.session import Session
from frontdesk.store import (
    NewSession,
    Plan,
    SessionQuery,
    SessionRow,
    Store,
    ViewRow,
)
from frontdesk.tree import forks
from frontdesk.tree.tree import Tree

_PAGE = 50
_MAX_PAGE = 1000


class SessionManager(ErasureCalls):
    """The sessions of one namespace of a store, named by a URL or given as a `Store`.

    Set it up with the chainable calls, then use it in `async with`, or close it; a store given by URL is closed, too.
    """

    def __init__(
        self,
        store: Store | str,
        *,
        namespace: str = "default",
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        clock: Clock | None = None,
    ) -> None:
        """`clock` gives the time (a datetime with a zone) in place of the machine's, for tests and simulations."""
        self._runtime = Runtime(store, namespace, max_message_bytes, clock)
        self._runtime.when_used(self._sweep_beside)

    async def __aenter__(self) -> Self:
        await self._runtime.store.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Finish what is in flight and let go of the store; idempotent."""
        await self._runtime.close()

    def __repr__(self) -> str:
        return f"SessionManager(namespace={self._runtime.namespace!r})"

    async def create(
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
        new = self._new(name, id, key, parent, model, source, max_tokens, tags, metadata)
        row, created = await self._runtime.store.create(new)
        if not created:
            raise SessionExistsError(new.id if row.id == new.id else str(key), self.namespace)
        return self._begun(row.id)

    async def get_or_create(
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
        key = ref if isinstance(ref, SessionKey) else None
        session_id = None if isinstance(ref, SessionKey) else check_id(ref, "session id")
        new = self._new(name, session_id, key, parent, model, source, max_tokens, tags, metadata)
        row, created = await self._runtime.store.create(new)
        return self._begun(row.id) if created else Session(self._runtime, row.id)

    def _new(
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
        for what, text in (("name", name), ("model", model), ("source", source)):
            if text is not None:
                check_text(text, what)
        check_count(max_tokens, "max_tokens", most=MOST_TOKENS)
        if key is not None and not isinstance(key, SessionKey):
            raise InvalidKeyError(f"a key is a SessionKey, not {type(key).__name__}: use `SessionKey.parse` for a text")
        agent, channel, peer, thread = (None,) * 4 if key is None else self._runtime.address(key).parts
        return NewSession(
            namespace=self.namespace,
            id=new_id() if session_id is None else check_id(session_id, "session id"),
            now=self._runtime.now(),
            agent=agent,
            channel=channel,
            peer=peer,
            thread=thread,
            name=name,
            parent_session_id=None if parent is None else check_id(parent, "parent session id"),
            model=model,
            source=source,
            tags=_json(list(dict.fromkeys(check_id(tag, "tag") for tag in check_list(tags, "tags")))),
            metadata=check_json(metadata or {}, "metadata"),
            max_tokens=max_tokens,
        )

    async def get(self, ref: str | SessionKey) -> SessionInfo | None:
        """What is known of a session, or None if there is none."""
        try:
            return await self.session(ref).info()
        except SessionNotFoundError:
            return None

    async def list(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        thread: str | None = None,
        status: str | None = None,
        tag: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int = _PAGE,
        cursor: str | None = None,
    ) -> Page[SessionInfo]:
        """A page of sessions, newest activity first, every status unless asked. Raises `InvalidCursorError`."""
        check_count(limit, "limit", most=_MAX_PAGE)
        names = {"agent": agent, "channel": channel, "peer": peer, "thread": thread, "tag": tag}
        filters = {
            **{what: None if name is None else check_text(name, what) for what, name in names.items()},
            "created_after": None if created_after is None else to_microseconds(created_after),
            "created_before": None if created_before is None else to_microseconds(created_before),
        }
        wanted = None if status is None else check_status(status)
        call = ["sessions", self.namespace, {**filters, "status": wanted}]
        after = None if cursor is None else tuple(cursors.unseal(cursor, call))
        query = msgspec.convert(
            {
                **filters,
                **status_filter(self._runtime, wanted),
                "namespace": self.namespace,
                "limit": limit + 1,
                "after": after,
            },
            SessionQuery,
        )
        rows = await self._runtime.store.page(query)
        shown = rows[:limit]
        more = len(rows) > limit
        next_cursor = cursors.seal([shown[-1].last_active_at, shown[-1].number], call) if more else None
        compaction = self._runtime.settings.compaction
        measured = [await reading.measured_row(self._runtime, row) for row in shown]
        known = zip(measured, await statuses(self._runtime, measured), strict=True)
        infos = [
            SessionInfo.from_row(row, session_window(row.max_tokens, compaction.max_tokens, row.model), status)
            for row, status in known
        ]
        return Page(infos, next_cursor)

    async def iterate(self, **filters: Any) -> AsyncIterator[SessionInfo]:
        """Every session that `list` with these filters would give, page by page."""
        cursor: str | None = None
        while True:
            page = await self.list(cursor=cursor, **filters)
            for info in page:
                yield info
            cursor = page.next_cursor
            if cursor is None:
                return

    async def rename(self, id: str | SessionKey, name: str) -> None:
        """Give a session another name. Raises `SessionNotFoundError`."""
        await (await self._existing(id)).rename(name)

    async def fork(
        self, id: str | SessionKey, at: str | None = None, *, name: str | None = None, new_id: str | None = None
    ) -> Session:
        """A session that begins with the history of another up to `at` (its head, if not given), at no cost of copying.

        It sees the messages, overlays, tags and metadata as they are now; from here on both go their own ways.
        Raises `SessionNotFoundError`, `MessageNotFoundError`, `SessionExistsError`."""
        made = _fork_id(new_id)

        def build_at_head(row: SessionRow, view: ViewRow) -> Plan | None:
            now = self._runtime.now()
            return forks.fork_at_head(row, view, _forked(row, made, name, now), now)

        async def build(tree: Tree) -> Plan | None:
            place = tree.session.head if at is None else reading.place_of(tree, at)
            now = self._runtime.now()
            return forks.fork(tree, _forked(tree.session, made, name, now), place, now)

        source = self.session(id)
        is_made = at is None and await source._change_at_head(build_at_head)
        if not is_made and not await source._change(build, find=() if at is None else [at]):
            raise SessionNotFoundError(str(id), self.namespace)
        await source._prompt.copy_to(made)
        return self._begun(made)

    async def compact_and_split(
        self, id: str | SessionKey, summary: str | None = None, name: str | None = None
    ) -> Session:
        """End a session (reason `compaction`) and go on in a new one that opens with the summary of it.

        The new one takes over the key, keeps blocks, tags and metadata, has the old one as its parent, and can expand
        the summary into what was said. Without a `summary` the summariser of `with_compaction` is asked for one.
        Raises `SessionNotFoundError`, `CompactionError`."""
        if summary is not None:
            check_summary(summary)
        source = await self._existing(id)
        text = summary if summary is not None else await source._summarise_all()
        made = new_id()

        async def build(tree: Tree) -> Plan | None:
            now = self._runtime.now()
            row = tree.session
            key = (row.agent, row.channel, row.peer, row.thread) if row.key_current else (None, None, None, None)
            return forks.split(tree, _forked(row, made, name, now, key), EndReason.COMPACTION, now)

        async with self._ending(source, EndReason.COMPACTION):
            if not await source._change(build):
                raise SessionNotFoundError(str(id), self.namespace)
        child = self._begun(made)
        await child._cover_all(text)
        return child


def _fork_id(wanted: str | None) -> str:
    return new_id() if wanted is None else check_id(wanted, "session id")


def _forked(
    source: SessionRow,
    session_id: str,
    name: str | None,
    now: int,
    key: tuple[str | None, str | None, str | None, str | None] = (None, None, None, None),
) -> NewSession:
    agent, channel, peer, thread = key
    return NewSession(
        namespace=source.namespace,
        id=session_id,
        now=now,
        agent=agent,
        channel=channel,
        peer=peer,
        thread=thread,
        name=source.name if name is None else check_text(name, "name"),
        parent_session_id=source.id,
        model=source.model,
        source=source.source,
        tags=source.tags,
        metadata=source.metadata,
        summary=source.summary,
        max_tokens=source.max_tokens,
        idle_after=source.idle_after,
        archive_after=source.archive_after,
        delete_after=source.delete_after,
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
