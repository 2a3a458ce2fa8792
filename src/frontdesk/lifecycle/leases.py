"""Leases for work that only one worker may do at a time. A lease is renewed in the background, so the work may take
longer than the lease."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError
from frontdesk.messages.ids import new_id
from frontdesk.store import LeaseRow, Store
from frontdesk.unattended import sleep

_TTL = 10_000_000
_RENEW_SECONDS = 3.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_PROCESS = new_id()
"""distinguishes this process from an earlier one with the same process id"""


@asynccontextmanager
async def hold_lease(runtime: Runtime, session_id: str, name: str) -> AsyncIterator[None]:
    """Hold a lease of a session, after waiting for its current holder. If a holder dies, its lease expires in seconds.

    Raises `SessionNotFoundError`."""
    pause = _FIRST_PAUSE
    while (lease := await runtime.store.acquire_lease(runtime.namespace, session_id, name, holder(), _TTL)) is None:
        await sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
    async with _renewed(runtime.store, runtime.namespace, session_id, lease):
        yield


@asynccontextmanager
async def try_lease(runtime: Runtime, name: str) -> AsyncIterator[bool]:
    """Hold a lease of the namespace if it is free. Yields False, without a lease, if it is not."""
    lease = await runtime.store.acquire_lease(runtime.namespace, None, name, holder(), _TTL)
    if lease is None:
        yield False
        return
    async with _renewed(runtime.store, runtime.namespace, None, lease):
        yield True


def holder() -> str:
    """A new holder name, which identifies this process and its machine."""
    pid = os.getpid()
    return f"{_machine(pid)}/{pid}/{_PROCESS}/{new_id()}"


def is_dead(name: str) -> bool:
    """Whether a holder was a process of this machine that has ended. False for holders on other machines."""
    machine, pid, process, *_ = (*name.split("/"), "", "")
    if machine != _machine(os.getpid()) or not pid.isdecimal():
        return False
    if int(pid) == os.getpid():
        return process != _PROCESS
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it is running, as another user
    return False


@cache
def _machine(pid: int) -> str:
    """The machine, and in a container its process namespace: where a process id is unique. Looked up once for each
    process: every turn has a holder, and a forked process may be in another namespace."""
    try:
        process_namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        process_namespace = ""
    return f"{socket.gethostname()} {process_namespace}".replace("/", "-")


@asynccontextmanager
async def _renewed(store: Store, namespace: str, session_id: str | None, lease: LeaseRow) -> AsyncIterator[None]:
    renewal = asyncio.create_task(_renew(store, namespace, session_id, lease.name, lease.number))
    try:
        yield
    finally:
        renewal.cancel()
        try:
            await asyncio.gather(renewal, return_exceptions=True)
        finally:  # even if the work is cancelled just now: others would wait until the lease expires
            await store.renew_lease(namespace, session_id, lease.name, lease.number, 0)


async def _renew(store: Store, namespace: str, session_id: str | None, name: str, number: int) -> None:
    """Renew a lease until cancelled. If it is lost anyway, work may be done twice, which does no other harm."""
    while True:
        await sleep(_RENEW_SECONDS)
        try:
            await store.renew_lease(namespace, session_id, name, number, _TTL)
        except FrontdeskError:
            pass  # the store is unreachable or the session was deleted: the work itself will run into that
