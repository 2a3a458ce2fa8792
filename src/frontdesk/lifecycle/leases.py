"""Leases for work that is to be done once over all workers: taken, renewed beside the work, and given back. Apart from
the work itself, which may take far longer than a lease."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from frontdesk.config.runtime import Runtime
from frontdesk.errors import FrontdeskError
from frontdesk.messages import new_id
from frontdesk.store import LeaseRow, Store

_TTL = 10_000_000
_RENEWED_EVERY = 3.0
_FIRST_LOOK, _LONGEST_LOOK = 0.02, 0.5
_PROCESS = new_id()
"""tells this process from an earlier one that had its number"""


@asynccontextmanager
async def holding(runtime: Runtime, session_id: str, name: str) -> AsyncIterator[None]:
    """Hold a lease of a session, after waiting for whoever holds it. When its holder dies, it expires within seconds.

    Raises `SessionNotFoundError`."""
    look = _FIRST_LOOK
    while (lease := await runtime.store.acquire_lease(runtime.namespace, session_id, name, holder(), _TTL)) is None:
        await asyncio.sleep(look)
        look = min(look * 2, _LONGEST_LOOK)
    async with _kept(runtime.store, runtime.namespace, session_id, lease):
        yield


@asynccontextmanager
async def trying(runtime: Runtime, name: str) -> AsyncIterator[bool]:
    """Hold a lease of the namespace, if nobody does; False, and no lease, otherwise."""
    lease = await runtime.store.acquire_lease(runtime.namespace, None, name, holder(), _TTL)
    if lease is None:
        yield False
        return
    async with _kept(runtime.store, runtime.namespace, None, lease):
        yield True


def holder() -> str:
    """A name for whoever takes a lease from here on, which says where its process runs."""
    return f"{_place()}/{os.getpid()}/{_PROCESS}/{new_id()}"


def is_dead(name: str) -> bool:
    """Whether a holder was a process of this machine that is there no more. Of others nothing is known."""
    place, pid, process, *_ = (*name.split("/"), "", "")
    if place != _place() or not pid.isdecimal():
        return False
    if int(pid) == os.getpid():
        return process != _PROCESS
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it is there, and another user's
    return False


def _place() -> str:
    """The machine, or the container: where a process id means one process."""
    try:
        room = os.readlink("/proc/self/ns/pid")
    except OSError:
        room = ""
    return f"{socket.gethostname()} {room}".replace("/", "-")


@asynccontextmanager
async def _kept(store: Store, namespace: str, session_id: str | None, lease: LeaseRow) -> AsyncIterator[None]:
    renewing = asyncio.create_task(_renew(store, namespace, session_id, lease.name, lease.number))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await store.release_lease(namespace, session_id, lease.name, lease.number)


async def _renew(store: Store, namespace: str, session_id: str | None, name: str, number: int) -> None:
    """Until cancelled. A lease that is lost all the same costs work done twice, nothing else."""
    while True:
        await asyncio.sleep(_RENEWED_EVERY)
        try:
            await store.renew_lease(namespace, session_id, name, number, _TTL)
        except FrontdeskError:
            pass  # unreachable for a moment, or deleted: whoever works will find out
