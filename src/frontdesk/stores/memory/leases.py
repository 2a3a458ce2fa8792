"""Leases in the memory store, the queues for them, and the messages that are queued for their holders."""

from __future__ import annotations

from collections.abc import Sequence

from frontdesk.errors import SessionNotFoundError
from frontdesk.messages.stored import StoredMessage
from frontdesk.moments import now
from frontdesk.store import TURN, HeldLease, LeaseAnswer, LeaseRow, LeaseWanted, SessionRow
from frontdesk.stores.memory.rows import LeaseKey, Rows
from frontdesk.tree import leases as rules

_NOBODY = -1


def get(rows: Rows, namespace: str, session_id: str | None, name: str) -> LeaseRow | None:
    return rules.held(rows.leases.get(_key(rows, namespace, session_id, name)), now())


def held(rows: Rows, namespace: str, name: str | None = None) -> list[HeldLease]:
    at = now()
    return [
        HeldLease(rows.sessions[owner].id if owner else None, lease)
        for (where, owner, called), lease in rows.leases.items()
        if where == namespace and name in (None, called) and rules.held(lease, at)
    ]


def owners(rows: Rows, namespace: str, name: str) -> set[int]:
    """The numbers of the sessions for which somebody holds a lease."""
    at = now()
    return {
        owner
        for (where, owner, called), lease in rows.leases.items()
        if (where, called) == (namespace, name) and rules.held(lease, at)
    }


def turn_of(rows: Rows, session: SessionRow) -> int | None:
    """The number under which a session's turn is held now."""
    lease = rules.held(rows.leases.get((session.namespace, session.number, TURN)), now())
    return None if lease is None else lease.number


def acquire(rows: Rows, namespace: str, session_id: str | None, name: str, holder: str, ttl: int) -> LeaseRow | None:
    key = _known_key(rows, namespace, session_id, name)
    return _put(rows, key, rules.acquire(rows.leases.get(key), name, holder, ttl, now()))


def renew(rows: Rows, namespace: str, session_id: str | None, name: str, number: int, ttl: int) -> bool:
    key = _key(rows, namespace, session_id, name)
    return _put(rows, key, rules.renew(rows.leases.get(key), number, ttl, now())) is not None


def queue(rows: Rows, wanted: LeaseWanted) -> LeaseAnswer:
    key = _known_key(rows, wanted.namespace, wanted.session_id, wanted.name)
    waiters = rows.waiters.get(key, [])
    is_current = rows.sessions[key[1]].key_current
    writes = rules.queue(rows.leases.get(key), waiters, wanted, now(), is_current=is_current)
    waiters = [waiter for waiter in waiters if waiter.holder not in writes.leave]
    if writes.place is not None:
        others = [waiter for waiter in waiters if waiter.holder != wanted.holder]
        waiters = sorted([*others, writes.place], key=lambda waiter: waiter.ticket)
    rows.waiters[key] = waiters
    _put(rows, key, writes.lease)
    if writes.queues_message and wanted.message is not None:
        rows.queued.setdefault(key, {}).setdefault(wanted.message.id, wanted.message)
    return writes.answer


def leave(rows: Rows, namespace: str, session_id: str, name: str, holder: str) -> None:
    key = _key(rows, namespace, session_id, name)
    rows.waiters[key] = [waiter for waiter in rows.waiters.get(key, []) if waiter.holder != holder]
    _put(rows, key, rules.leave(rows.leases.get(key), holder, now()))


def hand_over(rows: Rows, namespace: str, source: int, to: int) -> None:
    """Give the turn of a session, and what is queued for its holder, to another one."""
    old, new = (namespace, source, TURN), (namespace, to, TURN)
    if old in rows.leases:
        rows.leases[new] = rows.leases.pop(old)
    if old in rows.queued:
        rows.queued[new] = rows.queued.pop(old)


def waiting(rows: Rows, namespace: str, session_id: str, name: str) -> list[str]:
    at = now()
    waiters = rows.waiters.get(_key(rows, namespace, session_id, name), [])
    return [waiter.holder for waiter in waiters if waiter.expires_at > at]


def next_queued(rows: Rows, namespace: str, session_id: str, name: str, number: int) -> StoredMessage | None:
    key = _key(rows, namespace, session_id, name)
    message = next(iter(rows.queued.get(key, {}).values()), None)
    last = rows.leases.get(key)
    _put(rows, key, rules.close_intake(last, session_id, number, now(), is_empty=message is None))
    return message


def queued(rows: Rows, namespace: str, session_id: str, name: str) -> list[StoredMessage]:
    return list(rows.queued.get(_key(rows, namespace, session_id, name), {}).values())


def remove_queued(rows: Rows, namespace: str, session_id: str, name: str, ids: Sequence[str]) -> None:
    waiting = rows.queued.get(_key(rows, namespace, session_id, name), {})
    for message_id in ids:
        waiting.pop(message_id, None)


def _put(rows: Rows, key: LeaseKey, lease: LeaseRow | None) -> LeaseRow | None:
    """Store the new row of a lease, if there is one."""
    if lease is not None:
        rows.leases[key] = lease
    return lease


def _key(rows: Rows, namespace: str, session_id: str | None, name: str) -> LeaseKey:
    owner = rows.owner(namespace, session_id)
    return namespace, _NOBODY if owner is None else owner, name


def _known_key(rows: Rows, namespace: str, session_id: str | None, name: str) -> LeaseKey:
    key = _key(rows, namespace, session_id, name)
    if key[1] == _NOBODY:
        raise SessionNotFoundError(session_id or "", namespace)
    return key
