"""Random appends in all their combinations (fences, queues, waking, forks, duplicates, heads, parents, several at once)
leave the same rows, log, statuses and keys in every store, and return the same results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frontdesk.errors import FrontdeskError
from frontdesk.lifecycle import transitions
from frontdesk.store import (
    ANY_HEAD,
    FOLLOW_HEAD,
    TURN,
    Append,
    AppendResult,
    ChangeRow,
    LeaseWanted,
    NewSession,
    Place,
    Plan,
    SessionRow,
    Span,
    Store,
)
from frontdesk.stores.memory import MemoryStore
from frontdesk.stores.postgres import PostgresStore
from frontdesk.stores.sqlite import SQLiteStore
from frontdesk.testing.store_contract.steps import NOW, message
from frontdesk.tree import edits, forks, plans
from frontdesk.tree.tree import Tree
from tests.servers.postgres import PostgresServer

KEY = ("agent", "chat", "ann", None)
SESSIONS = ("a", "b", "fork", "next")
IDS = ("m1", "m2", "m3", "m4", "m5", "m6")
HOUR = 3_600_000_000

_runs = count(1)
_ids = st.sampled_from(IDS)
_sessions = st.sampled_from(SESSIONS)


class Write(msgspec.Struct, frozen=True):
    """An append. `fence` says whether it is made in the current turn, in one that has ended, or in none."""

    session: str
    ids: tuple[str, ...]
    fresh: bool
    parent: str | None
    expected: str | None
    """an id, "any" for no check, "head" for the head as it is, None for no head"""
    fence: str | None
    dequeue: bool
    reopen: bool
    existing: bool = False


class Step(msgspec.Struct, frozen=True):
    what: str
    session: str = ""
    id: str = ""


_writes = st.builds(
    Write,
    session=_sessions,
    ids=st.lists(_ids, max_size=4).map(tuple),
    fresh=st.booleans(),
    parent=st.sampled_from(("follow", "follow", None, *IDS)),
    expected=st.sampled_from(("any", "any", "any", "any", None, "head", *IDS)),
    fence=st.sampled_from((None, None, "held", "held", "over")),
    dequeue=st.booleans(),
    reopen=st.booleans(),
    existing=st.booleans(),
)
_plain_writes = st.builds(
    Write,
    session=_sessions,
    ids=st.lists(_ids, min_size=1, max_size=3, unique=True).map(tuple),
    fresh=st.just(False),
    parent=st.just("follow"),
    expected=st.just("any"),
    fence=st.none(),
    dequeue=st.booleans(),
    reopen=st.booleans(),
    existing=st.booleans(),
)
_steps = st.builds(
    Step,
    what=st.sampled_from(
        ("fork", "time out", "archive", "suspend", "succeed", "turn", "interrupt", "queue", "give back", "delete")
    ),
    session=_sessions,
    id=_ids,
)


def _at_once(session: str, writes: list[Write]) -> list[Write]:
    """Concurrent appends to one session: the order among several sessions is not guaranteed."""
    return [msgspec.structs.replace(write, session=session) for write in writes]


_bursts = st.builds(_at_once, _sessions, st.lists(st.one_of(_writes, _plain_writes), min_size=1, max_size=4))
_histories = st.lists(st.one_of(_bursts, _steps), min_size=1, max_size=14)


class Ranks(NamedTuple):
    """The numbers that one store assigned, in the order in which all stores assign them."""

    sessions: list[int]
    segments: list[int]

    def session(self, number: int) -> int:
        return self.sessions.index(number)

    def segment(self, number: int) -> int:
        return self.segments.index(number)


class Actor:
    """Does to one store what its twins do to the others. Numbers are represented by their rank."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._now = NOW
        self._turns: dict[str, list[int]] = {}
        self._made = 0

    async def begin(self) -> None:
        agent, channel, peer, thread = KEY
        await self._store.create(self._new("a", agent=agent, channel=channel, peer=peer, thread=thread))

    async def do(self, step: Sequence[Write] | Step) -> Any:
        self._now += 1000
        if not isinstance(step, Step):
            rows = {id: await self._store.get(self._namespace, id) for id in SESSIONS}
            heads = {id: await self._head(row) for id, row in rows.items()}
            requests = [self._request(write, heads) for write in step]
            answers = await asyncio.gather(*map(self._store.append, requests), return_exceptions=True)
            return [self._answer(answer) for answer in answers]
        try:
            return await self._change(step)
        except FrontdeskError as error:
            return type(error)

    def _request(self, write: Write, heads: dict[str, str | None]) -> Append:
        turns = self._turns.get(write.session, [])
        fence = {None: None, "held": turns[-1] if turns else 1, "over": turns[-2] if len(turns) > 1 else 2}[write.fence]
        ids = write.ids
        if write.fresh:  # ids that were generated for this call
            self._made += 1
            ids = tuple(f"made {self._made} {number}" for number in range(len(ids)))
        return Append(
            namespace=self._namespace,
            session_id=write.session,
            messages=tuple(message(id) for id in ids),
            fresh=(write.fresh,) * len(ids),
            now=self._now,
            parent=FOLLOW_HEAD if write.parent == "follow" else write.parent,
            expected_head={"any": ANY_HEAD, "head": heads[write.session]}.get(str(write.expected), write.expected),
            fence=fence,
            dequeue=write.dequeue,
            reopen=write.reopen,
            existing=write.existing,
        )

    def _answer(self, answer: AppendResult | BaseException) -> Any:
        if isinstance(answer, FrontdeskError):
            told = {name: value for name, value in answer.details.items() if name != "number"}  # each store has its own
            return "refused", type(answer), told
        if isinstance(answer, BaseException):
            raise answer
        session = answer.session
        return answer.rows, answer.created, session.id, session.status, session.message_count, session.revision

    async def _change(self, step: Step) -> Any:
        found = await self._store.trees(self._namespace, [step.session], find=[step.id], family=True)
        if not found:
            return None
        row, tree = found[0].session, Tree(found[0])
        match step.what:
            case "fork":
                return await self._apply(forks.fork(tree, self._new("fork"), row.head, self._now))
            case "time out" | "archive":
                reason = "timeout" if step.what == "time out" else "done"
                return await self._apply(transitions.end(row, reason, self._now))
            case "suspend":
                return await self._apply(plans.change_row(row, self._now, status="suspended"))
            case "succeed":
                new_id = self._new("next").id
                plan = transitions.succeed(row, new_id, "new", self._now, ("system",))
                return row.key_current and await self._apply(plan)
            case "delete":
                place = tree.find(step.id)
                return place and await self._apply(edits.delete_messages(tree, [place], self._now))
            case "give back":
                turns = self._turns.get(row.id, [])
                return bool(turns) and await self._store.renew_lease(self._namespace, row.id, TURN, turns[-1], 0)
            case _:
                return await self._turn(step)

    async def _turn(self, step: Step) -> Any:
        self._made += 1
        wanted = LeaseWanted(
            namespace=self._namespace,
            session_id=step.session,
            name=TURN,
            holder=f"holder {self._made}",
            ttl=HOUR,
            force=step.what == "interrupt",
            message=message(step.id) if step.what == "queue" else None,
        )
        answer = await self._store.queue_lease(wanted)
        lease = answer.lease
        if lease is not None and lease.holder == wanted.holder:
            self._turns.setdefault(step.session, []).append(lease.number)
        return lease and lease.holder, answer.ticket, answer.ahead, answer.queued

    async def _apply(self, plan: Plan) -> bool:
        return await self._store.apply(plan)

    def _new(self, session_id: str, **values: Any) -> NewSession:
        return NewSession(namespace=self._namespace, id=session_id, now=self._now, **values)

    async def _head(self, row: SessionRow | None) -> str | None:
        if row is None or row.head is None:
            return None
        (piece,) = await self._store.read([_span(row.head)])
        return piece.messages[0].id

    async def state(self) -> dict[str, Any]:
        """Everything that can be read, with numbers represented by their rank."""
        found = await self._store.trees(self._namespace, SESSIONS, family=True)
        trees = {rows.session.id: rows for rows in found}
        segments = {segment.number for rows in trees.values() for segment in rows.segments}
        sessions = {rows.session.number for rows in trees.values()} | {rows.session.tree for rows in trees.values()}
        ranks = Ranks(sorted(sessions), [0, *sorted(segments)])
        current = await self._store.get_current(self._namespace, KEY)
        return {
            "trees": {id: await self._tree(rows, ranks) for id, rows in trees.items()},
            "current": current and current.id,
            "log": _lines(await self._store.changes(self._namespace, None, 1000, settled=False), ranks),
            "leases": sorted(
                (held.session_id or "", held.lease.holder, held.lease.intake)
                for held in await self._store.held_leases(self._namespace)
            ),
        }

    async def _tree(self, rows: Any, ranks: Ranks) -> Any:
        tree = Tree(rows)
        items = [item for segment in tree.visible_segments() for item in tree.segment_items(segment.number)]
        shape = [
            (
                ranks.segment(s.number),
                ranks.session(s.tree),
                _ranked(s.parent, ranks),
                s.last,
                s.next,
                s.shared,
                s.tokens,
            )
            for s in rows.segments
        ]
        row = msgspec.structs.asdict(rows.session)
        for name in ("number", "tree", "family"):
            row[name] = ranks.session(row[name])
        row |= {"base": _ranked(rows.session.base, ranks), "head": _ranked(rows.session.head, ranks), "namespace": ""}
        edits = [
            (ranks.session(e.tree), e.revision, e.kind, ranks.segment(e.segment), e.first, e.last) for e in rows.edits
        ]
        return row, sorted(shape), sorted(edits), await self._store.read(items)

    async def drain(self) -> list[str]:
        """The queued messages, read by taking them."""
        found = []
        for id in SESSIONS:
            if await self._store.get(self._namespace, id) is None:
                continue
            wanted = LeaseWanted(
                namespace=self._namespace, session_id=id, name=TURN, holder="last", ttl=HOUR, force=True
            )
            lease = (await self._store.queue_lease(wanted)).lease
            assert lease is not None
            while queued := await self._store.next_queued(self._namespace, id, TURN, lease.number):
                found.append(queued.id)
                write = Write(id, (queued.id,), False, "follow", "any", None, True, True)
                request = msgspec.structs.replace(self._request(write, {id: None}), fence=lease.number)
                await self._store.append(request)
        return found


def _span(place: Place) -> Span:
    return Span(place.segment, place.position, place.position, None)


def _ranked(place: Place | None, ranks: Ranks) -> tuple[int, int] | None:
    return None if place is None else (ranks.segment(place.segment), place.position)


def _lines(log: list[ChangeRow], ranks: Ranks) -> list[list[Any]]:
    """The log entries of each session in their order; consecutive runs are one, as when they are appended together."""
    lines: list[list[Any]] = []
    for line in sorted(log, key=lambda line: line.session):
        where = (ranks.session(line.session), line.kind, ranks.segment(line.segment))
        run = [*where, line.first, line.last, line.at, line.detail]
        if lines and line.kind == "message.appended" and lines[-1][:3] == run[:3] and lines[-1][4] == line.first - 1:
            lines[-1][4] = line.last
            continue
        lines.append(run)
    return lines


class Stores(NamedTuple):
    """One store of each kind, in an event loop that is used for many examples."""

    runner: asyncio.Runner
    each: tuple[Store, ...]


@pytest.fixture(scope="module")
def stores(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    url = postgres.create_database()
    path = tmp_path_factory.mktemp("alike") / "agents.db"
    with asyncio.Runner() as runner:
        each = MemoryStore(), SQLiteStore(path), PostgresStore(url)
        yield Stores(runner, each)
        for store in each:
            runner.run(store.close())
    postgres.drop_database(url)


_some = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
_many = settings(_some, max_examples=1000)


@given(history=_histories)
@_some
def test_every_store_answers_and_keeps_the_same(stores: Stores, history: list[list[Write] | Step]) -> None:
    stores.runner.run(_compare(stores.each, history))


@pytest.mark.long
@given(history=_histories)
@_many
def test_every_store_answers_and_keeps_the_same_for_long(stores: Stores, history: list[list[Write] | Step]) -> None:
    stores.runner.run(_compare(stores.each, history))


async def _compare(stores: Sequence[Store], history: list[list[Write] | Step]) -> None:
    namespace = f"run {next(_runs)}"
    actors = [Actor(store, namespace) for store in stores]
    for actor in actors:
        await actor.begin()
    before = await actors[0].state()
    for step in history:
        memory, *others = [(await actor.do(step), await actor.state()) for actor in actors]
        for other in others:
            _check(other, memory, step)
        if not isinstance(step, Step) and all(answer[0] == "refused" for answer in memory[0]):
            assert memory[1] == before
        before = memory[1]
    drained = [(await actor.drain(), await actor.state()) for actor in actors]
    assert drained[1:] == [drained[0]] * (len(stores) - 1)


def _check(other: tuple[Any, dict[str, Any]], memory: tuple[Any, dict[str, Any]], step: Sequence[Write] | Step) -> None:
    """Reports only the differences: a state is long."""
    found, wanted = ({"answer": answer, **state} for answer, state in (other, memory))
    differing = {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}
    assert not differing, (step, differing)
