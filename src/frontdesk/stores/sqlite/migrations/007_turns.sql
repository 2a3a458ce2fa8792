-- Who waits for a lease of a session, in the order of their tickets, and what is queued for whoever holds it.

CREATE TABLE lease_waiters (
    session INTEGER NOT NULL,
    name TEXT NOT NULL,
    ticket INTEGER NOT NULL,
    holder TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (session, name, ticket)
) STRICT, WITHOUT ROWID;

CREATE TABLE queued_messages (
    session INTEGER NOT NULL,
    name TEXT NOT NULL,
    ticket INTEGER NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    raw TEXT NOT NULL,
    derived TEXT,
    PRIMARY KEY (session, name, ticket)
) STRICT, WITHOUT ROWID;
