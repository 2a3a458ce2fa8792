"""What 200,000 appends to 100 sessions leave in PostgreSQL: the size of a message, with the search index, and whether
the rows of busy sessions are updated in place."""

from __future__ import annotations

import asyncio
import time

import asyncpg

from bench.contenders.frontdesk import Frontdesk
from bench.payload import JSON_BYTES
from bench.run import Run
from bench.targets import Outcome, Target
from tests.servers.postgres import PostgresServer

_MESSAGES, _SESSIONS = 200_000, 100
_MB = 1_000_000
_INDEX = "half of it is the search index: the words of each text, with their places, for phrases and highlights"
_OLD_ROWS = "old versions of busy rows stay while an ANALYZE, or a batch of the index, is running"
_SIZES = """
SELECT sum(pg_total_relation_size(c.oid)) AS whole,
    sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname = 'search_texts') AS index,
    sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname = 'sessions') AS sessions
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'frontdesk' AND c.relkind = 'r'
"""
_UPDATES = """
SELECT n_tup_upd AS updates, n_tup_hot_upd AS hot FROM pg_stat_user_tables
WHERE schemaname = 'frontdesk' AND relname = 'sessions'
"""


async def measure(run: Run) -> Outcome:
    size = run.size(_MESSAGES)
    with PostgresServer() as server:
        ours = Frontdesk(url=server.create_database())
        async with run.opened(ours, on=run.fast):
            await _append(run, ours, size)
            await ours.settle()
        sizes, updates, packed = await _figures(ours.url)
    run.note(f"{updates['updates']:,} updates of sessions, {updates['hot']:,} in place")
    raw = size * JSON_BYTES
    what = f"PostgreSQL, {size:,} appends to {_SESSIONS} sessions"
    return Outcome(
        "storage",
        [],
        [
            Target(
                f"{what}: bytes of a message with its index, against raw JSON",
                "at most",
                3,
                float(sizes["whole"]) / raw,
                "x",
                float(sizes["whole"] - sizes["index"]) / raw,
                reason=_INDEX,
            ),
            Target(
                f"{what}: updates of sessions that are HOT",
                "at least",
                90,
                100 * updates["hot"] / updates["updates"],
                "%",
                100,
                reason=_OLD_ROWS,
            ),
            Target(
                f"{what}: size of sessions",
                "at most",
                1,
                float(sizes["sessions"]) / _MB,
                "MB",
                packed / _MB,
                reason=_OLD_ROWS,
            ),
        ],
    )


async def _append(run: Run, contender: Frontdesk, size: int) -> None:
    """Each session has a task that appends one message after the other, as many conversations at once do."""
    start = time.perf_counter()

    async def talk(session: str) -> None:
        for number in run.fresh(size // _SESSIONS):
            await contender.append(session, number)

    await asyncio.gather(*(talk(f"s{number}") for number in range(_SESSIONS)))
    run.note(f"set-up: {size:,} appends: {time.perf_counter() - start:.1f} s")


async def _figures(url: str) -> tuple[asyncpg.Record, asyncpg.Record, int]:
    """Sizes, updates, and the size of sessions without any old version of a row."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SELECT pg_stat_force_next_flush()")
        await connection.execute("VACUUM")
        sizes = await connection.fetchrow(_SIZES)
        updates = await connection.fetchrow(_UPDATES)
        await connection.execute("VACUUM FULL frontdesk.sessions")
        packed: int = await connection.fetchval("SELECT pg_total_relation_size('frontdesk.sessions')")
    finally:
        await connection.close()
    assert sizes is not None
    assert updates is not None
    return sizes, updates, packed
