-- Leases of a session (or, with session 0, of a namespace). The row stays after its end, so that numbers only grow; the
-- first one is the time, so that those of a session made anew are others. `intake`: whether messages may be queued.

CREATE TABLE leases (
    session INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    holder TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    taken_at INTEGER NOT NULL,
    intake INTEGER NOT NULL,
    PRIMARY KEY (session, namespace, name)
) STRICT, WITHOUT ROWID;
