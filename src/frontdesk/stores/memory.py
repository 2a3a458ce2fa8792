"""The store for tests, notebooks and throw-away agents: everything in this process, gone with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal
from functools import reduce
from itertools import count
from typing import Any

import msgspec
from msgspec.structs import replace

from frontdesk.errors import (
    HeadMovedError,
    MessageNotFoundError,
    SessionExistsError,
    SessionNotFoundError,
    StoreClosedError,
)
from frontdesk.messages import StoredMessage
from frontdesk.store import (
    FOLLOW_HEAD,
    SEGMENT_SIZE,
    Append,
    AppendedRow,
    AppendResult,
    Choose,
    EditItem,
    EditRow,
    Found,
    Item,
    Lineage,
    NewFork,
    NewSession,
    OverlayItem,
    OverlayRow,
    Piece,
    Place,
    Plan,
    SegmentRow,
    SessionQuery,
    SessionRow,
    Span,
    StatsRow,
    TreeRows,
    UsageQuery,
    UsageRow,
    ViewRead,
    ViewRow,
)

_EXACT = Context(prec=1000)
_Key = tuple[str, str, str, str, str | None]


class _Row(msgspec.Struct, frozen=True):
    message: StoredMessage
    running: int


class MemoryStore:
    """A `Store` in memory. One lock, held only for the moment of a change, makes it safe for threads and loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._numbers = count(1)
        self._sessions: dict[int, SessionRow] = {}
        self._by_id: dict[tuple[str, str], int] = {}
        self._by_key: dict[_Key, int] = {}
        self._views: dict[int, ViewRow] = {}
        self._segments: dict[int, SegmentRow] = {}
        self._owned: dict[int, list[int]] = {}
        self._rows: dict[int, dict[int, _Row]] = {}
        self._ids: dict[tuple[int, str], list[Place]] = {}
        self._overlays: dict[int, OverlayRow] = {}
        self._edits: dict[int, EditRow] = {}
        self._lineage: list[Lineage] = []
        self._ledger: dict[int, dict[str, UsageRow]] = {}
        self._days: dict[str, dict[tuple[str, str | None], UsageRow]] = {}

    async def open(self) -> None:
        with self._held():
            pass

    async def close(self) -> None:
        self._closed = True

    @contextmanager
    def _held(self) -> Iterator[None]:
        if self._closed:
            raise StoreClosedError("the memory store was closed: make a new manager")
        with self._lock:
            yield

    # sessions

    async def create(self, new: NewSession) -> tuple[SessionRow, bool]:
        with self._held():
            existing = self._taken(new)
            return (self._sessions[existing], False) if existing is not None else (self._insert(new), True)

    def _taken(self, new: NewSession) -> int | None:
        by_id = self._by_id.get((new.namespace, new.id))
        return by_id if by_id is not None else self._by_key.get(_key(new)) if new.agent is not None else None

    def _insert(self, new: NewSession, **values: Any) -> SessionRow:
        number = next(self._numbers)
        given = {name: getattr(new, name) for name in new.__struct_fields__ if name != "now"}
        row = SessionRow(
            **{
                "number": number,
                "tree": number,
                "family": number,
                "key_current": new.agent is not None,
                "created_at": new.now,
                "updated_at": new.now,
                "last_active_at": new.now,
                **given,
                **values,
            }
        )
        self._sessions[number] = row
        self._by_id[new.namespace, new.id] = number
        if new.agent is not None:
            self._by_key[_key(new)] = number
        return row

    async def get(self, namespace: str, session_id: str) -> SessionRow | None:
        with self._held():
            return self._get(namespace, session_id)

    def _get(self, namespace: str, session_id: str) -> SessionRow | None:
        number = self._by_id.get((namespace, session_id))
        return None if number is None else self._sessions[number]

    async def get_current(self, namespace: str, key: tuple[str, str, str, str | None]) -> SessionRow | None:
        with self._held():
            number = self._by_key.get((namespace, *key))
            return None if number is None else self._sessions[number]

    async def page(self, query: SessionQuery) -> list[SessionRow]:
        with self._held():
            rows = [row for row in self._sessions.values() if _matches(row, query)]
        rows.sort(key=lambda row: (-row.last_active_at, -row.number))
        return rows[: query.limit]

    # append

    async def append(self, request: Append) -> AppendResult:
        with self._held():
            return self._append(request)

    def _append(self, request: Append) -> AppendResult:
        session = self._get(request.namespace, request.session_id)
        known = [
            None if session is None or fresh else self._find(session, message.id)
            for message, fresh in zip(request.messages, request.fresh, strict=True)
        ]
        head_id = None if session is None or session.head is None else self._message(session, session.head).id
        if request.expected_head is not None and request.expected_head != head_id and None in known:
            raise HeadMovedError(request.expected_head, head_id, request.session_id)
        parent = self._parent(session, request) if None in known else None
        if session is None:
            new = NewSession(namespace=request.namespace, id=request.session_id, now=request.now)
            session = self._insert(new)
        result: list[AppendedRow] = []
        for message, place in zip(request.messages, known, strict=True):
            place = place or self._twin(session, message.id, request, result)
            if place is not None:
                before = self._before(session, place)
                parent_id = None if before is None else self._message(session, before).id
                result.append(AppendedRow(False, parent_id, self._message(session, place)))
            else:
                parent_id = None if parent is None else self._message(session, parent).id
                session, place = self._add(session, parent, message, request.now)
                result.append(AppendedRow(True, parent_id))
            parent = place
        return AppendResult(tuple(result), session)

    def _twin(self, session: SessionRow, message_id: str, request: Append, done: list[AppendedRow]) -> Place | None:
        """The same id twice within one request."""
        if any(earlier.id == message_id for earlier in request.messages[: len(done)]):
            return self._find(session, message_id)
        return None

    def _parent(self, session: SessionRow | None, request: Append) -> Place | None:
        if request.parent is FOLLOW_HEAD or request.parent is None:
            return session.head if session is not None and request.parent is FOLLOW_HEAD else None
        assert isinstance(request.parent, str)
        place = None if session is None else self._find(session, request.parent)
        if place is None:
            raise MessageNotFoundError(request.parent, request.session_id)
        return place

    def _add(
        self, session: SessionRow, parent: Place | None, message: StoredMessage, now: int
    ) -> tuple[SessionRow, Place]:
        segment = None if parent is None else self._segments[parent.segment]
        extends = (
            segment is not None
            and parent is not None
            and segment.tree == session.tree
            and segment.last == parent.position
            and segment.next < SEGMENT_SIZE
        )
        at_head = parent == session.head
        changes: dict[str, Any] = {}
        if segment is None or not extends:
            segment = SegmentRow(next(self._numbers), session.tree, parent, -1, 0, -1, 0)
            self._owned.setdefault(session.tree, []).append(segment.number)
            changes = _view_after_new_segment(session, parent, at_head, message.tokens)
        elif not at_head:
            changes = {"view": "stale", "revision": session.revision + 1}
        place = Place(segment.number, segment.next)
        running = segment.tokens + message.tokens
        self._segments[segment.number] = replace(segment, last=place.position, next=place.position + 1, tokens=running)
        self._rows.setdefault(segment.number, {})[place.position] = _Row(message, running)
        self._ids.setdefault((session.family, message.id), []).append(place)
        counters = {
            "head": place,
            "message_count": session.message_count + 1,
            "view_tokens": session.view_tokens + message.tokens,
            "view_messages": session.view_messages + 1,
            "last_active_at": max(now, session.last_active_at),
            "updated_at": max(now, session.updated_at),
        }
        session = replace(session, **{**counters, **changes})
        self._sessions[session.number] = session
        return session, place

    # reading

    def _find(self, session: SessionRow, message_id: str) -> Place | None:
        places = self._ids.get((session.family, message_id), ())
        return next((place for place in places if self._sees(session, place)), None)

    def _sees(self, session: SessionRow, place: Place) -> bool:
        if self._segments[place.segment].tree != session.tree:
            base = session.base
            while base is not None and base.segment != place.segment:
                base = self._segments[base.segment].parent
            if base is None or place.position > base.position:
                return False
        return not any(
            edit.kind == "removed" and edit.segment == place.segment and edit.first <= place.position <= edit.last
            for edit in self._edits_of(session)
        )

    def _before(self, session: SessionRow, place: Place) -> Place | None:
        at: Place | None = place
        while at is not None:
            at = Place(at.segment, at.position - 1) if at.position > 0 else self._segments[at.segment].parent
            if at is not None and self._sees(session, at):
                return at
        return None

    def _message(self, session: SessionRow, place: Place) -> StoredMessage:
        edits = [
            edit
            for edit in self._edits_of(session)
            if edit.kind == "replaced" and (edit.segment, edit.first) == place and edit.message is not None
        ]
        if edits:
            newest = max(edits, key=lambda edit: (edit.tree, edit.revision))
            assert newest.message is not None
            return newest.message
        return self._rows[place.segment][place.position].message

    def _untils(self, tree: int) -> dict[int, int]:
        return {tree: 1 << 62, **{line.ancestor: line.until for line in self._lineage if line.tree == tree}}

    def _edits_of(self, session: SessionRow) -> list[EditRow]:
        if not self._edits:
            return []
        untils = self._untils(session.tree)
        return [edit for edit in self._edits.values() if edit.revision <= untils.get(edit.tree, -1)]

    async def view(self, namespace: str, session_id: str, choose: Choose) -> ViewRead | None:
        with self._held():
            session = self._get(namespace, session_id)
            if session is None:
                return None
            items = tuple(choose(session, self._views.get(session.number, ViewRow())))
            return ViewRead(session, items, tuple(self._piece(item) for item in items))

    async def read(self, items: Sequence[Item]) -> tuple[Piece, ...]:
        with self._held():
            return tuple(self._piece(item) for item in items)

    def _piece(self, item: Item) -> Piece:
        before = None
        if item.before is not None:
            row = self._rows.get(item.before.segment, {}).get(item.before.position)
            before = None if row is None else row.message.id
        if isinstance(item, OverlayItem):
            return Piece(before, overlay=self._overlays.get(item.number))
        if isinstance(item, EditItem):
            edit = self._edits.get(item.number)
            return Piece(before, (edit.message,) if edit is not None and edit.message is not None else ())
        rows = self._rows.get(item.segment, {})
        found = (rows.get(position) for position in range(item.first, item.last + 1))
        return Piece(before, tuple(row.message for row in found if row is not None))

    async def sums(self, places: Sequence[Place]) -> list[tuple[int, int]]:
        with self._held():
            rows = [self._rows.get(place.segment, {}).get(place.position) for place in places]
            return [(0, 0) if row is None else (row.message.tokens, row.running) for row in rows]

    async def tree(
        self, namespace: str, session_id: str, *, find: Sequence[str] = (), family: bool = False
    ) -> TreeRows | None:
        with self._held():
            session = self._get(namespace, session_id)
            return None if session is None else self._tree(session, find, family)

    def _tree(self, session: SessionRow, find: Sequence[str], family: bool) -> TreeRows:
        sessions = tuple(row for row in self._sessions.values() if row.family == session.family) if family else ()
        untils = self._untils(session.tree)
        if family:
            trees = {row.tree for row in sessions}
            trees |= {line.ancestor for line in self._lineage if line.tree in trees}
            untils = dict.fromkeys(trees, 1 << 62)
        numbers = {number for tree in untils for number in self._owned.get(tree, ())} if family else set()
        numbers |= set(self._owned.get(session.tree, ()))
        base = session.base
        while base is not None:
            numbers.add(base.segment)
            base = self._segments[base.segment].parent
        return TreeRows(
            session=session,
            view=self._views.get(session.number, ViewRow()),
            segments=tuple(self._segments[number] for number in sorted(numbers)),
            overlays=tuple(
                replace(row, summary=None)
                for row in self._overlays.values()
                if row.revision <= untils.get(row.tree, -1)
            ),
            edits=tuple(row for row in self._edits.values() if row.revision <= untils.get(row.tree, -1)),
            lineage=tuple(line for line in self._lineage if line.tree in untils),
            forked_until=max((line.until for line in self._lineage if line.ancestor == session.tree), default=-1),
            found=tuple(
                Found(message_id, place, self._rows[place.segment][place.position].message.tokens)
                for message_id in find
                for place in self._ids.get((session.family, message_id), ())
            ),
            sessions=sessions,
        )

    # changes

    async def apply(self, plan: Plan) -> bool:
        with self._held():
            rows = [self._sessions.get(number) for number, _ in plan.guards]
            if any(row is None or row.revision != guard[1] for row, guard in zip(rows, plan.guards, strict=True)):
                return False
            session = rows[0]
            assert session is not None
            if plan.head is not None and plan.head != session.head:
                return False
            if plan.fork and self._taken(plan.fork.session) is not None:
                raise SessionExistsError(plan.fork.session.id, plan.fork.session.namespace)
            self._change(session, plan)
            return True

    def _change(self, session: SessionRow, plan: Plan) -> None:
        revision = session.revision + 1
        self._change_rows(session, plan)
        for overlay in plan.add_overlays:
            number = next(self._numbers)
            given = {name: getattr(overlay, name) for name in overlay.__struct_fields__}
            self._overlays[number] = OverlayRow(number=number, tree=session.tree, revision=revision, **given)
        for number in plan.mark_overlays:
            self._overlays[number] = replace(self._overlays[number], stale=True)
        for edit in plan.add_edits:
            number = next(self._numbers)
            given = {name: getattr(edit, name) for name in edit.__struct_fields__}
            self._edits[number] = EditRow(number=number, tree=session.tree, revision=revision, **given)
        for number in plan.settle_edits:
            self._edits[number] = replace(self._edits[number], kind="adjusted", message=None)
        for number in plan.delete_overlays:
            del self._overlays[number]
        for number in plan.delete_edits:
            del self._edits[number]
        self._lineage = [line for line in self._lineage if line.tree not in plan.delete_lineage]
        if plan.fork is not None:
            self._fork(session, plan.fork, revision)
        values = {**plan.set, **{name: getattr(session, name) + amount for name, amount in plan.add.items()}}
        if plan.fresh_tree:
            values["tree"] = values["family"] = next(self._numbers)
        changed = self._sessions[session.number] = replace(session, revision=revision, **values)
        if session.key_current and not changed.key_current:
            self._by_key.pop(_key(session), None)
        if plan.view is not None:
            self._views[session.number] = plan.view
        for number in plan.delete_sessions:
            self._forget(self._sessions.pop(number))

    def _change_rows(self, session: SessionRow, plan: Plan) -> None:
        for place, message, change in plan.replace_rows:
            row = self._rows[place.segment][place.position]
            self._rows[place.segment][place.position] = _Row(message, row.running + change)
            segment = self._segments[place.segment]
            self._segments[place.segment] = replace(segment, tokens=segment.tokens + change)
        for span in plan.delete_rows:
            self._delete_rows(session.family, span)
        for number, last in plan.set_last:
            self._segments[number] = replace(self._segments[number], last=last)
        for number, shared in plan.set_shared:
            self._segments[number] = replace(self._segments[number], shared=shared)
        for number in plan.delete_segments:
            self._delete_rows(session.family, Span(number, 0, SEGMENT_SIZE, None))
            self._owned[self._segments.pop(number).tree].remove(number)
            self._rows.pop(number, None)

    def _delete_rows(self, family: int, span: Span) -> None:
        rows = self._rows.get(span.segment, {})
        for position in [position for position in rows if span.first <= position <= span.last]:
            key = family, rows.pop(position).message.id
            self._ids[key].remove(Place(span.segment, position))
            if not self._ids[key]:
                del self._ids[key]

    def _fork(self, source: SessionRow, fork: NewFork, revision: int) -> None:
        row = self._insert(
            fork.session,
            family=source.family,
            base=fork.base,
            head=fork.base,
            tail=0 if fork.base is None else fork.base.position + 1,
            view="plain" if fork.base is None else "stale" if fork.view is None else "stored",
            view_tokens=fork.view_tokens,
            view_messages=fork.view_messages,
            message_count=fork.message_count,
            compaction_count=fork.compaction_count,
        )
        if fork.view is not None:
            self._views[row.number] = fork.view
        inherited = [Lineage(row.tree, line.ancestor, line.until) for line in self._lineage if line.tree == source.tree]
        self._lineage += [*inherited, Lineage(row.tree, source.tree, revision)]
        for number, position in fork.share:
            segment = self._segments[number]
            self._segments[number] = replace(segment, shared=max(segment.shared, position))

    def _forget(self, row: SessionRow) -> None:
        del self._by_id[row.namespace, row.id]
        if row.key_current:
            self._by_key.pop(_key(row), None)
        self._views.pop(row.number, None)
        self._ledger.pop(row.number, None)

    # usage and totals

    async def add_usage(self, namespace: str, session_id: str, line: UsageRow) -> bool:
        with self._held():
            session = self._get(namespace, session_id)
            if session is None:
                raise SessionNotFoundError(session_id, namespace)
            lines = self._ledger.setdefault(session.number, {})
            if line.id in lines:
                return False
            lines[line.id] = line
            self._sessions[session.number] = replace(
                session,
                input_tokens=session.input_tokens + line.input_tokens,
                output_tokens=session.output_tokens + line.output_tokens,
                cost=_sum(session.cost, line.cost),
                updated_at=max(line.at, session.updated_at),
            )
            _add_to_day(self._days.setdefault(namespace, {}), line)
            return True

    async def usage(self, query: UsageQuery) -> list[UsageRow]:
        with self._held():
            totals = self._days.get(query.namespace, {})
            if query.session_id is not None:
                session = self._get(query.namespace, query.session_id)
                if session is None:
                    raise SessionNotFoundError(query.session_id, query.namespace)
                totals = {}
                for line in self._ledger.get(session.number, {}).values():
                    _add_to_day(totals, line)
            first, last = query.first_day or "", query.last_day or "~"
            rows = [row for row in totals.values() if first <= row.day <= last]
        return sorted(rows, key=lambda row: (row.day, row.model or ""))

    async def stats(self, namespace: str) -> StatsRow:
        with self._held():
            rows = [row for row in self._sessions.values() if row.namespace == namespace]
            days = self._days.get(namespace, {}).values()
            statuses = sorted({row.status for row in rows})
            return StatsRow(
                sessions={status: sum(1 for row in rows if row.status == status) for status in statuses},
                messages=sum(row.message_count for row in rows),
                input_tokens=sum(row.input_tokens for row in days),
                output_tokens=sum(row.output_tokens for row in days),
                cost=_sum(*(row.cost for row in days)),
                store_bytes=0,
            )


def _view_after_new_segment(session: SessionRow, parent: Place | None, at_head: bool, tokens: int) -> dict[str, Any]:
    """What opening a segment does to a view: a new root is all of it, a fork's first message begins an empty tail,
    anything else must be computed. It raises the revision, so that no plan overlooks the segment."""
    revision = session.revision + 1
    if parent is None:
        return {"view": "plain", "tail": 0, "view_tokens": tokens, "view_messages": 1, "revision": revision}
    if at_head and session.view == "stored" and session.tail > parent.position:
        return {"tail": 0, "revision": revision}
    return {"view": "stale", "revision": revision}


def _key(row: SessionRow | NewSession) -> _Key:
    return row.namespace, row.agent or "", row.channel or "", row.peer or "", row.thread


def _matches(row: SessionRow, query: SessionQuery) -> bool:
    wanted = (
        (query.agent, row.agent),
        (query.channel, row.channel),
        (query.peer, row.peer),
        (query.thread, row.thread),
        (query.status, row.status),
    )
    return (
        row.namespace == query.namespace
        and all(want is None or want == have for want, have in wanted)
        and (query.tag is None or query.tag in msgspec.json.decode(row.tags))
        and (query.created_after is None or row.created_at > query.created_after)
        and (query.created_before is None or row.created_at < query.created_before)
        and (query.after is None or (row.last_active_at, row.number) < query.after)
    )


def _sum(*costs: str) -> str:
    return str(reduce(_EXACT.add, map(Decimal, costs), Decimal(0)))


def _add_to_day(days: dict[tuple[str, str | None], UsageRow], line: UsageRow) -> None:
    total = days.get((line.day, line.model), UsageRow(day=line.day, model=line.model))
    days[line.day, line.model] = replace(
        total,
        input_tokens=total.input_tokens + line.input_tokens,
        output_tokens=total.output_tokens + line.output_tokens,
        cache_read_tokens=total.cache_read_tokens + line.cache_read_tokens,
        cache_write_tokens=total.cache_write_tokens + line.cache_write_tokens,
        reasoning_tokens=total.reasoning_tokens + line.reasoning_tokens,
        cost=_sum(total.cost, line.cost),
    )
