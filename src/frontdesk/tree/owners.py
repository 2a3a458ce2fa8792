"""Pure: which owner a document has, which owners an erasure means, and which sessions read an owner's documents."""

from __future__ import annotations

from frontdesk.store import NewSession, Owner, OwnerQuery, Scope, SessionRow

Key = tuple[str, str, str, str | None]
"""agent, channel, peer and thread, as a session's row has them"""

KEY_SCOPES: tuple[Scope, ...] = ("key", "guest", "agent")
"""the scopes whose owner depends on the key of a session"""


def owner_of(scope: Scope, session_id: str, key: Key | None) -> Owner:
    """The owner of a block of a session. Without a key, what would belong to a key, a guest or an agent is the
    session's own."""
    if scope == "namespace":
        return Owner("namespace")
    if scope == "session" or key is None:
        return Owner("session", session_id)
    agent, channel, peer, thread = key
    if scope == "agent":
        return Owner("agent", None, agent)
    return Owner(scope, None, agent, channel, peer, thread if scope == "key" else None)


def key_of(row: SessionRow | NewSession) -> Key | None:
    """The key of a session, whether it is the current one or not."""
    return None if row.agent is None else (row.agent, row.channel or "", row.peer or "", row.thread)


def is_of(row: SessionRow, namespace: str, owner: Owner) -> bool:
    """Whether a session reads the documents of an owner."""
    return row.namespace == namespace and owner_of(owner.scope, row.id, key_of(row)) == owner


def matches(owner: Owner, query: OwnerQuery) -> bool:
    """Whether an erasure means an owner."""
    wanted = (
        (query.agent, owner.agent),
        (query.channel, owner.channel),
        (query.peer, owner.peer),
        (query.thread, owner.thread),
    )
    return owner.scope != "namespace" and all(want in (None, have) for want, have in wanted)
