"""Pure: decides who gets a lease and who waits, for all stores.

In one transaction, a store reads the row of the lease, its queue and the time, calls a function here, and writes the
rows that it returns. The row of a lease is kept after its end, so that its number keeps growing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from frontdesk.errors import TurnLostError
from frontdesk.store import LeaseAnswer, LeaseRow, LeaseWanted


class Waiter(msgspec.Struct, frozen=True):
    """A caller in the queue for a lease, with its ticket, which expires at `expires_at`."""

    holder: str
    ticket: int
    expires_at: int


class QueueWrites(msgspec.Struct, frozen=True):
    """The answer to a `LeaseWanted`, and the rows to write for it."""

    answer: LeaseAnswer
    lease: LeaseRow | None = None
    """the new row of the lease, if it was taken"""
    leave: tuple[str, ...] = ()
    """callers to remove from the queue"""
    place: Waiter | None = None
    """the ticket of this caller, new or extended"""
    queues_message: bool = False
    """queue the message for the holder, unless one with its id is queued already"""


def held(lease: LeaseRow | None, now: int) -> LeaseRow | None:
    """The lease, if it is held now."""
    return lease if lease is not None and lease.expires_at > now else None


def take(last: LeaseRow | None, name: str, holder: str, ttl: int, now: int) -> LeaseRow:
    """A lease under the next number. The first number is the time, so that a session that is deleted and created again
    gets other numbers."""
    return LeaseRow(name, now if last is None else last.number + 1, holder, now + ttl, now)


def acquire(last: LeaseRow | None, name: str, holder: str, ttl: int, now: int) -> LeaseRow | None:
    """The row of a lease that is taken now; None if another holder has it."""
    return take(last, name, holder, ttl, now) if held(last, now) is None else None


def renew(last: LeaseRow | None, number: int, ttl: int, now: int) -> LeaseRow | None:
    """The row of a lease that ends `ttl` from now (0: it is released); None if it is not held under this number."""
    lease = held(last, now)
    return replace(lease, expires_at=now + ttl) if lease is not None and lease.number == number else None


def leave(last: LeaseRow | None, holder: str, now: int) -> LeaseRow | None:
    """The row of a lease that its holder releases; None if this is not the holder."""
    lease = held(last, now)
    return renew(last, lease.number, 0, now) if lease is not None and lease.holder == holder else None


def close_intake(last: LeaseRow | None, session_id: str, number: int, now: int, *, is_empty: bool) -> LeaseRow | None:
    """The row of a lease whose holder has taken all queued messages: no more may be queued for it.

    None while there are messages. Raises `TurnLostError` if the lease is not held under this number."""
    lease = held(last, now)
    if lease is None or lease.number != number:
        raise TurnLostError(session_id, number)
    return replace(lease, intake=False) if is_empty and lease.intake else None


def queue(
    last: LeaseRow | None, waiters: Sequence[Waiter], wanted: LeaseWanted, now: int, *, is_current: bool = True
) -> QueueWrites:
    """Take a lease, queue a message for its holder, or wait. `waiters` are in the order of their tickets; `is_current`
    says whether the session is current under its key."""
    lease = held(last, now)
    if lease is not None and lease.holder == wanted.holder:
        return QueueWrites(LeaseAnswer(lease))
    mine = next((waiter for waiter in waiters if waiter.holder == wanted.holder), None)
    if wanted.by_key and not is_current:
        return QueueWrites(LeaseAnswer(None, moved=True), leave=() if mine is None else (mine.holder,))
    # Expired tickets are removed, except the one of this caller.
    others = [waiter for waiter in waiters if waiter is not mine]
    expired = tuple(waiter.holder for waiter in others if waiter.expires_at <= now)
    ahead = sum(1 for waiter in others if waiter.expires_at > now and (mine is None or waiter.ticket < mine.ticket))
    gone = (*expired, wanted.holder) if mine is not None else expired
    if wanted.force or (lease is None and not ahead):
        taken = replace(take(last, wanted.name, wanted.holder, wanted.ttl, now), intake=wanted.intake)
        return QueueWrites(LeaseAnswer(taken), taken, gone, queues_message=wanted.message is not None)
    if wanted.message is not None and lease is not None and lease.intake:
        return QueueWrites(LeaseAnswer(lease, queued=True), leave=gone, queues_message=True)
    if not wanted.patience:
        return QueueWrites(LeaseAnswer(lease, 0 if mine is None else mine.ticket, ahead), leave=expired)
    if mine is None:
        mine = Waiter(wanted.holder, max((waiter.ticket for waiter in waiters), default=0) + 1, now + wanted.patience)
    elif mine.expires_at < now + wanted.patience * 2 // 3:
        mine = replace(mine, expires_at=now + wanted.patience)
    else:  # extended a short time ago: nothing needs to be written
        return QueueWrites(LeaseAnswer(lease, mine.ticket, ahead), leave=expired)
    return QueueWrites(LeaseAnswer(lease, mine.ticket, ahead), leave=expired, place=mine)
