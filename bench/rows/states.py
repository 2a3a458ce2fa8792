"""Updates of a typed state in Redis: compare-and-set by a script, against WATCH/MULTI with the same payload."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import WatchError

from bench.measure import at_once, interleave, one_by_one
from bench.run import Run
from bench.targets import Outcome, Table, at_least
from frontdesk import SessionManager
from frontdesk.store import StateKey, StateWrite
from tests.servers.redis import RedisServer

_ROUNDS = 25
_OPERATIONS = 100
_TASKS = 16
_TTL = 1800
_OURS, _SET, _WATCH = "Frontdesk States.update", "Frontdesk compare-and-set", "WATCH/MULTI"
_PLAIN = "SET alone"
_REASON = "an update also waits in a queue, has a mark of its own, and returns a copy, read back from what is stored"


@dataclass(frozen=True)
class State:
    """About 800 bytes."""

    count: int = 0
    step: str = "research"
    tools: list[str] = field(default_factory=lambda: [f"tool-{number:02}-of-the-agent" for number in range(30)])


class WatchUpdates:
    """Updates as in the Redis documentation: watch, read, change, and write unless the key was changed; then retry."""

    def __init__(self, url: str) -> None:
        self._client = Redis.from_pool(BlockingConnectionPool.from_url(url, max_connections=50))

    async def update(self, id: str) -> None:
        key = f"watched:{id}"
        async with self._client.pipeline() as pipeline:
            while True:
                try:
                    await pipeline.watch(key)
                    value = await pipeline.get(key)
                    state = State() if value is None else msgspec.json.decode(value, type=State)
                    pipeline.multi()  # type: ignore[no-untyped-call]
                    pipeline.set(key, msgspec.json.encode(replace(state, count=state.count + 1)), ex=_TTL)
                    await pipeline.execute()
                except WatchError:
                    continue
                return

    async def write(self) -> None:
        """One command, which checks nothing: no update can cost less."""
        await self._client.set("plain", msgspec.json.encode(State()), ex=_TTL)

    async def close(self) -> None:
        await self._client.aclose()


class CompareAndSet:
    """The store's operation alone: replaces a known value by the next one in one round trip."""

    def __init__(self, manager: SessionManager, url: str) -> None:
        self._states = manager.states(State, name="set", store=url)
        self._store = manager._runtime.state_store(url)
        self._key = StateKey("default", "one", "set")
        self._text, self._state, self._mark, self._count = "", State(), "", 0

    async def open(self) -> None:
        await self._states.create("one")
        row = await self._store.peek_state(self._key)
        assert row is not None
        self._text, self._mark = row.value, row.mark

    async def update(self) -> None:
        state = msgspec.json.decode(self._text, type=State)
        self._text = msgspec.json.encode(replace(state, count=state.count + 1)).decode()
        self._count += 1
        row = await self._store.replace_state(
            self._key, StateWrite(self._text, f"m{self._count}", _TTL * 1_000_000), self._mark
        )
        assert row is not None
        self._mark = row.mark


async def measure(run: Run) -> Outcome:
    with RedisServer() as server:
        async with SessionManager("memory://") as manager:
            states = manager.states(State, store=server.url)
            setting, watching = CompareAndSet(manager, server.url), WatchUpdates(server.url)
            await setting.open()
            for id in ("one", "shared"):
                await states.create(id)

            async def update(id: str) -> None:
                await states.update(id, lambda state: replace(state, count=state.count + 1))

            alone = await interleave(
                [
                    one_by_one(_SET, "one script", _OPERATIONS, setting.update),
                    one_by_one(_OURS, "compare and set", _OPERATIONS, lambda: update("one")),
                    one_by_one(_WATCH, "watch, get, multi", _OPERATIONS, lambda: watching.update("one")),
                    one_by_one(_PLAIN, "one command", _OPERATIONS, watching.write),
                ],
                run.rounds(_ROUNDS),
            )
            together = await interleave(
                [
                    at_once(_OURS, "compare and set", _TASKS, 10, lambda task: update("shared")),
                    at_once(_WATCH, "watch, get, multi", _TASKS, 10, lambda task: watching.update("shared")),
                ],
                run.rounds(_ROUNDS),
            )
            await watching.close()
    one = Table("Redis: update of one state, one at a time", "update", alone, ours=_SET)
    many = Table(f"Redis: update of one state, {_TASKS} tasks at once", "update", together, ours=_OURS)
    compared = (
        ("state update by compare-and-set", one[_SET], one[_WATCH], ""),
        ("state update by `States.update`", one[_OURS], one[_WATCH], _REASON),
        (f"state update, {_TASKS} tasks at one state", many[_OURS], many[_WATCH], _REASON),
    )
    return Outcome(
        "states",
        [one, many],
        [
            at_least(
                f"{what}, against WATCH/MULTI", 1.8, ours, peer, floor=peer.cpu_us / one[_PLAIN].cpu_us, reason=reason
            )
            for what, ours, peer, reason in compared
        ],
    )
