"""The status of a session: which status can follow which, how it is derived from the row, the time and the leases, and
the plans that end and reopen a session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec.structs import replace

from frontdesk.config.runtime import Runtime
from frontdesk.errors import InvalidInputError, InvalidTransitionError
from frontdesk.records import SessionStatus
from frontdesk.store import TURN, Columns, NewSession, Plan, SessionRow, changes
from frontdesk.tree import sessions

COMPACTION_LEASE = "compaction"
"""the lease that is held while a session is compacted"""

ACTIVE, IDLE, COMPACTING, SUSPENDED, ARCHIVED = SessionStatus
TRANSITIONS: dict[SessionStatus, tuple[SessionStatus, ...]] = {
    ACTIVE: (IDLE, COMPACTING, SUSPENDED, ARCHIVED),
    IDLE: (ACTIVE, COMPACTING, SUSPENDED, ARCHIVED),
    COMPACTING: (ACTIVE, IDLE, SUSPENDED, ARCHIVED),
    SUSPENDED: (ACTIVE, ARCHIVED),
    ARCHIVED: (ACTIVE,),
}
"""every status, and those that can follow it"""
_BY_NAME: dict[str, SessionStatus] = {status.value: status for status in SessionStatus}


class ManagerDefault:
    """Marks a threshold for which the manager's own setting applies."""


MANAGER_DEFAULT = ManagerDefault()


def check_transition(session_id: str, status: SessionStatus, wanted: SessionStatus) -> None:
    """Raises `InvalidTransitionError` if `wanted` cannot follow `status`."""
    if wanted not in TRANSITIONS[status]:
        raise InvalidTransitionError(session_id, status, wanted, TRANSITIONS[status])


def status_of(row: SessionRow, now: int, idle_after: int, *, is_compacting: bool) -> SessionStatus:
    """The status of a session. Its row says only whether it is active, suspended or archived."""
    return _BY_NAME[sessions.status_of(row, now, idle_after, is_compacting=is_compacting)]


class BusySince(NamedTuple):
    """The status of a session, and since when (in microseconds) a worker has its turn, or compacts it."""

    status: SessionStatus
    turn: int | None
    compaction: int | None


async def read_busy(
    runtime: Runtime, rows: Sequence[SessionRow], compacting: Sequence[bool] | None = None
) -> list[BusySince]:
    """The status of each of these sessions, with one read of leases for all of them. `compacting` says which of them
    are compacted, if that is known."""
    taken = await _taken_leases(runtime, rows)
    now, idle_after = runtime.now(), runtime.settings.lifecycle.idle_after
    found = []
    for index, row in enumerate(rows):
        since = taken.get((row.id, COMPACTION_LEASE))
        is_compacting = since is not None if compacting is None else compacting[index]
        status = status_of(row, now, idle_after, is_compacting=is_compacting)
        found.append(BusySince(status, taken.get((row.id, TURN)), since if status == COMPACTING else None))
    return found


async def _taken_leases(runtime: Runtime, rows: Sequence[SessionRow]) -> dict[tuple[str | None, str], int]:
    """When the leases that are held now were taken, by session and name."""
    store, namespace = runtime.store, runtime.namespace
    if len(rows) == 1:
        names = (COMPACTION_LEASE, TURN)
        leases = await asyncio.gather(*(store.get_lease(namespace, rows[0].id, name) for name in names))
        return {(rows[0].id, lease.name): lease.taken_at for lease in leases if lease is not None}
    held = await store.held_leases(namespace) if rows else []
    return {(session_id, lease.name): lease.taken_at for session_id, lease in held}


def status_query(runtime: Runtime, status: SessionStatus | None) -> dict[str, Any]:
    """The fields of a `SessionQuery` for the sessions with a status."""
    if status is None or status in (SUSPENDED, ARCHIVED):
        return {"status": status}
    if status == COMPACTING:
        return {"status": ACTIVE, "leased": COMPACTION_LEASE}
    return {
        "status": ACTIVE,
        "unleased": COMPACTION_LEASE,
        "idle": status == IDLE,
        "now": runtime.now(),
        "idle_after": runtime.settings.lifecycle.idle_after,
    }


@dataclass(frozen=True, slots=True)
class StatusFilter:
    """Decides which sessions have a status now."""

    status: SessionStatus
    now: int
    idle_after: int
    compacting: frozenset[str | None]

    def matches(self, row: SessionRow) -> bool:
        is_compacting = row.id in self.compacting
        return status_of(row, self.now, self.idle_after, is_compacting=is_compacting) == self.status


async def current_status_filter(runtime: Runtime, status: str) -> StatusFilter:
    """A filter for the sessions with a status. Raises `InvalidInputError` for an unknown status."""
    held = await runtime.store.held_leases(runtime.namespace, COMPACTION_LEASE)
    return StatusFilter(
        check_status(status),
        runtime.now(),
        runtime.settings.lifecycle.idle_after,
        frozenset(lease.session_id for lease in held),
    )


def check_status(status: str) -> SessionStatus:
    """The status with this name. Raises `InvalidInputError` if there is none."""
    if status not in tuple(SessionStatus):
        raise InvalidInputError(f"status must be one of {', '.join(SessionStatus)}, not {status!r}", status=status)
    return SessionStatus(status)


def end(session: SessionRow, reason: str, now: int) -> Plan:
    """Archive a session, unless it has been written to since `session` was read."""
    values = sessions.ended(reason, now)
    return Plan(
        guards=((session.number, session.revision),),
        now=now,
        head=session.head,
        set=values,
        log=(changes.session_changed(values),),
    )


def succeed(session: SessionRow, new_id: str, reason: str, now: int, labels: tuple[str, ...]) -> Plan:
    """End a session and give its key, its turn, its settings and the documents with these labels to a new one. A
    session that has already ended keeps its end reason."""
    new = NewSession(
        namespace=session.namespace,
        id=new_id,
        now=now,
        agent=session.agent,
        channel=session.channel,
        peer=session.peer,
        thread=session.thread,
        model=session.model,
        source=session.source,
        tags=session.tags,
        max_tokens=session.max_tokens,
        idle_after=session.idle_after,
        archive_after=session.archive_after,
        delete_after=session.delete_after,
    )
    plan = end(session, reason, now)
    values: Columns = {"updated_at": now} if session.status == "archived" else plan.set
    values = {**values, "key_current": False}
    return replace(plan, head=None, set=values, create=new, hand_over=labels, log=(changes.session_changed(values),))


def reopen(session: SessionRow, now: int) -> Plan:
    """Make a session active again, with the activity time `now`. If no other session has its key, it gets it back."""
    values: Columns = {
        "status": "active",
        "end_reason": None,
        "ended_at": None,
        "updated_at": now,
        "last_active_at": max(now, session.last_active_at),
    }
    log = (changes.session_changed(values),)
    return Plan(
        guards=((session.number, session.revision),), now=now, set=values, take_key=session.agent is not None, log=log
    )
