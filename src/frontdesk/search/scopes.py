"""What a model may see of a namespace: the sessions in its scope, and the hits in these.

Everything that a model learns about other conversations comes from here, so that it cannot distinguish a session that
is out of scope from one that does not exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from frontdesk.config.runtime import Runtime
from frontdesk.config.scopes import SearchScope
from frontdesk.errors import InvalidIdError, SessionNotFoundError
from frontdesk.history import turns, views
from frontdesk.keys import SessionKey
from frontdesk.messages import check_id
from frontdesk.search.hits import SearchHit
from frontdesk.search.pipeline import search
from frontdesk.search.request import parse_request
from frontdesk.search.texts import DAMAGE
from frontdesk.search.visibility import EVERYTHING, NOTHING, Access, AccessRule
from frontdesk.store import SessionRow, SessionSelection
from frontdesk.tree.owners import Key, key_of, owner_of

_SPARE = 10
"""how many more hits than needed are read, since some are near-duplicates"""
_RECENT = 50
"""messages of the model's own session among which its current request is"""
_PAGE = 100
_MAX_LEFT_OUT = 2_000
"""how many hits are looked through for some that are not to be left out"""
_SIMILARITY = 0.9
"""the share of words that near-duplicates have in common, of the words of both"""
_MAX_COMPARED = 20_000
"""characters of a text that are compared"""
_WORD = re.compile(r"\w+")


# the session whose model asks, and its scope


class SessionHandle(Protocol):
    """Addresses a session by id or key."""

    key: SessionKey | None

    async def find_row(self) -> SessionRow | None: ...


class OwnSession:
    """The session that a handle's tools belong to: the one that the handle addressed when it was first looked for.

    An id can be deleted and used again, by another guest. So a session that has the id later counts only if it has the
    handle's key, or is of the same guest."""

    def __init__(self, runtime: Runtime, handle: SessionHandle) -> None:
        self._runtime = runtime
        self._handle = handle
        self._first: SessionRow | None = None

    async def row(self) -> SessionRow | None:
        """The session's row; None if it does not exist, or is not the same session any more."""
        row = await self._handle.find_row()
        if row is None or not self._is_own(row):
            return None
        self._first = self._first or row
        return row

    def _is_own(self, row: SessionRow) -> bool:
        key, first = key_of(row), self._first
        if self._handle.key is not None:
            return key == self._runtime.stored_key(self._handle.key).parts
        if first is None or row.number == first.number:
            return True
        return key is not None and owner_of("guest", row.id, key) == owner_of("guest", first.id, key_of(first))

    async def key(self) -> Key | None:
        """The key of the handle or of its session, as sessions store it."""
        if self._handle.key is not None:
            return self._runtime.stored_key(self._handle.key).parts
        row = await self.row()
        return None if row is None else key_of(row)


async def resolve(scope: SearchScope, own: OwnSession | None) -> AccessRule:
    """The sessions that a scope includes now. `own` may be None for a scope that does not depend on a session.

    What a session without a key inherited by a fork or a split needs no rule of its own: it sees those messages itself,
    up to that point, and so they are found as its own."""
    if scope == "namespace":
        return EVERYTHING
    if isinstance(scope, str):
        return NOTHING if own is None else await _resolve_name(scope, own)
    if callable(scope):
        return AccessRule(function=scope)
    ids = scope.get("sessions")
    selection = SessionSelection(
        agent=scope.get("agent"),
        channel=scope.get("channel"),
        peer=scope.get("peer"),
        thread=scope.get("thread"),
        tags=(scope["tag"],) if "tag" in scope else (),
    )
    return AccessRule(
        selection=None if selection == SessionSelection() else selection, ids=None if ids is None else frozenset(ids)
    )


async def _resolve_name(scope: Literal["session", "guest", "agent"], own: OwnSession) -> AccessRule:
    key = await own.key()
    if scope != "session" and key is not None:
        owner = owner_of(scope, "", key)
        return AccessRule(SessionSelection(agent=owner.agent, channel=owner.channel, peer=owner.peer))
    row = await own.row()
    return NOTHING if row is None else AccessRule(numbers=frozenset((row.number,)))


# what a model finds


class VisibleHits(NamedTuple):
    """The best hits, and how many were found: at least `total` if not `total_is_exact`. If there were too many sessions
    to look at all of them, `is_exhausted`, and `cursor` continues with the next ones where an index makes that
    possible."""

    hits: list[SearchHit]
    total: int
    total_is_exact: bool
    is_exhausted: bool
    cursor: str | None


@dataclass(frozen=True, slots=True)
class ScopedHistory:
    """The conversations of a namespace, limited to a scope. `own` is the session whose model asks, if it belongs to
    one."""

    runtime: Runtime
    scope: SearchScope
    own: OwnSession | None = None

    async def visible(self) -> VisibleSessions:
        """The sessions that are visible now, for the time of one answer."""
        return VisibleSessions(self.runtime, await resolve(self.scope, self.own), self.own)


class VisibleSessions:
    """The visible sessions."""

    def __init__(self, runtime: Runtime, rule: AccessRule, own: OwnSession | None) -> None:
        self._runtime = runtime
        self._access = Access(runtime, rule)
        self._own = own

    async def session(self, session_id: str) -> SessionRow:
        """A visible session. Raises `SessionNotFoundError` for any other, whether or not it exists."""
        runtime = self._runtime
        try:
            row = await runtime.store.get(runtime.namespace, check_id(session_id, "session id"))
        except InvalidIdError:
            row = None
        if row is None or not await self._access.admit([row]):
            raise SessionNotFoundError(session_id, runtime.namespace)
        return row

    async def hits(
        self,
        text: str,
        limit: int,
        *,
        session_id: str | None = None,
        cursor: str | None = None,
        leave_out: Callable[[SearchHit], bool] | None = None,
    ) -> VisibleHits:
        """The best visible hits in all sessions, or in one, each with its neighbours: of near-duplicates the newest,
        and the request that the model is answering last. Raises `SessionNotFoundError` as `session` does, and
        `InvalidCursorError`."""
        access = self._access
        if session_id is not None:
            row = await self.session(session_id)
            access = Access(self._runtime, AccessRule(numbers=frozenset((row.number,))))
        asked = await self._current_request()
        duplicates = NearDuplicates()
        hits: list[SearchHit] = []
        questions: list[SearchHit] = []
        total = left_out = 0
        while True:
            size = max(limit + _SPARE, _PAGE if leave_out else 0)
            request = await parse_request(
                self._runtime, text, limit=size, cursor=cursor, context=1, for_model=True, choose=duplicates.newest
            )
            results = await search(self._runtime, request, access)
            for hit in results:
                if (hit.kind == "summary" and not hit.visible) or (leave_out is not None and leave_out(hit)):
                    left_out += 1
                elif (hit.session_id, hit.message_id) in asked:
                    questions.append(hit)
                else:
                    hits.append(hit)
            total, cursor = max(total, results.total), results.next_cursor
            if cursor is None or len(hits) >= limit or left_out >= _MAX_LEFT_OUT or access.is_exhausted:
                break
        hits = [*hits, *questions]
        total = max(total - left_out - duplicates.dropped, len(hits))
        exhausted = access.is_exhausted
        return VisibleHits(hits[:limit], total, results.total_is_exact, exhausted, cursor if exhausted else None)

    async def _current_request(self) -> set[tuple[str, str]]:
        """The session and the id of each message of the model's own session that has no answer yet: the model has them
        before its eyes, and they contain the words of its search."""
        row = None if self._own is None else await self._own.row()
        if row is None:
            return set()
        try:
            messages = await views.read_view(self._runtime, row.id, last=_RECENT)
            return {(row.id, messages[index].id) for index in turns.current_request(messages)}
        except DAMAGE:
            return set()


class NearDuplicates:
    """The texts that one answer to a model has shown so far, over several pages of hits."""

    def __init__(self) -> None:
        self.dropped = 0
        self._shown: list[frozenset[str]] = []

    def newest(self, texts: Iterable[tuple[str, int]]) -> list[int]:
        """The indexes of some of the texts, each given with its time: of each group of near-duplicates the newest, in
        the place of the first one. A duplicate of what an earlier page has shown is left out."""
        groups: dict[int, tuple[int, int]] = {}
        for index, (text, at) in enumerate(texts):
            words = frozenset(_WORD.findall(text[:_MAX_COMPARED].casefold()))
            group = next((number for number, other in enumerate(self._shown) if _is_near(words, other)), None)
            if group is None:
                groups[len(self._shown)] = index, at
                self._shown.append(words)
                continue
            self.dropped += 1
            if group in groups and at > groups[group][1]:
                groups[group] = index, at
        return [index for index, _ in groups.values()]


def _is_near(one: frozenset[str], two: frozenset[str]) -> bool:
    """Whether two texts have almost the same words, and exactly the same numbers: "order 7 was sent" is not a duplicate
    of "order 8 was sent"."""
    if one == two:
        return True
    if len(one & two) < _SIMILARITY * len(one | two):
        return False
    return not any(character.isdigit() for word in one ^ two for character in word)
