"""Append and history through the HTTP server with 32 connections, on SQLite and PostgreSQL, next to a bare FastAPI app
that inserts and reads the same messages."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from bench.http_load import Load, Request, Server, connected, serving
from bench.measure import Case, Timing, interleave
from bench.payload import message
from bench.run import Run
from bench.targets import Outcome, Table, Target, at_most
from tests.servers.postgres import PostgresServer

_ROUNDS = 15
_CONNECTIONS = 32
_REQUESTS = 25
"""of each connection in a round"""
_HISTORY = 50
_SHARE = 0.6
"""of the requests per second of the bare app"""
_OURS, _BARE = "Frontdesk", "bare FastAPI"


async def measure(run: Run) -> Outcome:
    outcome = Outcome("server")
    with tempfile.TemporaryDirectory(dir=run.disk) as folder:
        stores = {_OURS: f"sqlite:///{Path(folder) / 'ours.db'}", _BARE: f"sqlite:///{Path(folder) / 'bare.db'}"}
        await _measure_store(run, outcome, "SQLite", "disk, synchronous=FULL", stores)
    with PostgresServer(durable=True) as postgres:
        stores = {name: postgres.create_database() for name in (_OURS, _BARE)}
        await _measure_store(run, outcome, "PostgreSQL", "disk, fsync on", stores)
    return outcome


async def _measure_store(run: Run, outcome: Outcome, store: str, settings: str, urls: dict[str, str]) -> None:
    async with AsyncExitStack() as stack:
        loads: dict[str, dict[str, Load]] = {"append": {}, "history": {}}
        servers: list[Server] = []
        for name, url in urls.items():
            server = stack.enter_context(serving("frontdesk" if name == _OURS else "bare", url))
            connections = await stack.enter_async_context(connected(server.port, _CONNECTIONS))
            servers.append(server)
            loads["append"][name] = Load(connections, lambda number: _append(run, number), _REQUESTS)
            loads["history"][name] = Load(connections, _history, _REQUESTS)
        insert: Timing | None = None
        for operation, by_name in loads.items():
            cases = [Case(name, settings, _CONNECTIONS * _REQUESTS, by_name[name].run) for name in by_name]
            timings = await interleave(cases, run.rounds(_ROUNDS), cpu_clock=lambda: _cpu_time(servers))
            outcome.tables.append(_table(store, operation, timings))
            insert = insert or outcome.tables[-1][_BARE]
            outcome.targets.append(_target(store, operation, outcome.tables[-1][_OURS], insert))
            _note(run, store, operation, timings, by_name)


def _cpu_time(servers: Sequence[Server]) -> int:
    """Of both servers: one of them has nothing to do."""
    return sum(server.cpu_time() for server in servers)


def _append(run: Run, connection: int) -> Request:
    body = json.dumps({"message": message(run.fresh()[0])}).encode()
    return "POST", f"/v1/sessions/s{connection}/messages", body


def _history(connection: int) -> Request:
    return "GET", f"/v1/sessions/s{connection}/history?last={_HISTORY}", b""


def _table(store: str, operation: str, timings: list[Timing]) -> Table:
    title = f"{store} through HTTP: {operation}, {_CONNECTIONS} connections"
    return Table(title, "request", timings, ours=_OURS, measure="wall")


def _target(store: str, operation: str, ours: Timing, insert: Timing) -> Target:
    """Both are compared with the bare insert. The tables also show the bare read."""
    text = f"{store} through HTTP: {operation}, against a bare FastAPI route that inserts the message"
    return at_most(text, round(1 / _SHARE, 2), ours, insert, measure="wall", floor=1)


def _note(run: Run, store: str, operation: str, timings: list[Timing], loads: dict[str, Load]) -> None:
    figures = [f"{each.name} {1e6 / each.wall_us:,.0f}/s, p99 {loads[each.name].p99:.1f} ms" for each in timings]
    run.note(f"{store}, {operation}: {'; '.join(figures)}")
