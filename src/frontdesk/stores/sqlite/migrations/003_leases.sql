-- Leases of a session (or, with session 0, of a namespace). The row stays after its end, so that numbers only grow.

CREATE TABLE leases (
    session INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    holder TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (session, namespace, name)
) STRICT, WITHOUT ROWID;
