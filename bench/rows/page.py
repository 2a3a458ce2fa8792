"""A page of 50 out of very many sessions, newest activity first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from bench.contenders.bare_store import BareStore
from bench.contenders.frontdesk import Frontdesk
from bench.http_load import connected
from bench.measure import Case, interleave, one_by_one
from bench.run import Run
from bench.targets import Outcome, Table, flat, within
from frontdesk.http.listening import listen
from frontdesk.server import create_app

_ROUNDS = 50
_FEW, _MANY = 1_000, 100_000
_PAGE = 50
_AT_ONCE = 500
_REASON = "the rest reads the leases, and makes the records: 28 values for each session"


async def measure(run: Run) -> Outcome:
    size = run.size(_MANY)
    few, many = Frontdesk(f"Frontdesk, {_FEW:,} sessions"), Frontdesk(f"Frontdesk, {size:,} sessions")
    async with run.opened(few, many, on=run.fast):
        await _create(run, few, _FEW)
        await _create(run, many, size)
        async with _over_http(many) as over_http:
            cases = [_first(few), _first(many), await _deep(many, size // _PAGE // 2), over_http]
            with BareStore(many) as bare:
                cases.append(one_by_one(bare.name, bare.settings, 10, lambda: bare.page(_PAGE)))
                timings = await interleave(cases, run.rounds(_ROUNDS))
    table = Table(f"a page of {_PAGE} sessions, tmpfs", "page", timings, ours=many.name)
    what = f"page of {_PAGE} out of {size:,} sessions"
    return Outcome(
        "page",
        [table],
        [
            within(what, 0.5, table[many.name], floor=table[BareStore.name].cpu_us / 1000, reason=_REASON),
            within(f"first {what}, over HTTP", 20, table[over_http.name], floor=table[many.name].cpu_us / 1000),
            flat(f"{what}, against out of {_FEW:,}", table[many.name], table[few.name], 1.2),
        ],
    )


async def _create(run: Run, contender: Frontdesk, count: int) -> None:
    start = time.perf_counter()
    for first in range(0, count, _AT_ONCE):
        numbers = range(first, min(first + _AT_ONCE, count))
        await asyncio.gather(*(contender.manager.create(f"session {number}") for number in numbers))
    run.note(f"set-up: {count:,} sessions: {time.perf_counter() - start:.1f} s")


@asynccontextmanager
async def _over_http(contender: Frontdesk) -> AsyncIterator[Case]:
    """The same page from a server in this process: its time is that of the server and of the client."""
    with listen("127.0.0.1", 0) as listener:
        app = create_app(contender.manager)
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_keep_alive=3600)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        async with connected(listener.getsockname()[1], 1) as (connection,):
            name = f"{contender.name}, over HTTP"
            yield one_by_one(
                name, contender.settings, 10, lambda: connection.send("GET", f"/v1/sessions?limit={_PAGE}")
            )
        server.should_exit = True
        await serving


def _first(contender: Frontdesk) -> Case:
    return _case(contender, contender.name, None)


async def _deep(contender: Frontdesk, pages: int) -> Case:
    """A page after many others: a cursor finds it directly, an offset would have to count."""
    cursor = None
    for _ in range(max(1, pages * _PAGE // 1000)):
        cursor = (await contender.manager.list(limit=1000, cursor=cursor)).next_cursor
    return _case(contender, f"{contender.name}, from the middle", cursor)


def _case(contender: Frontdesk, name: str, cursor: str | None) -> Case:
    async def page() -> None:
        found = await contender.manager.list(limit=_PAGE, cursor=cursor)
        if len(found) != _PAGE:
            raise AssertionError(f"{name} returned {len(found)} sessions")

    return one_by_one(name, contender.settings, 10, page)
