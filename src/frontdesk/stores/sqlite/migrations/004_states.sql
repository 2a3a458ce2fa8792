-- Typed states with time-to-live. They belong to ids, which need not be those of sessions that exist.
--
-- A state expires `ttl` after `accessed_at`. `due` is when to look whether it has: reading moves the first alone, so
-- that it rewrites neither the value nor an index; the sweep moves the second. What is read most stands before the
-- value.

CREATE TABLE states (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    mark TEXT NOT NULL,
    version INTEGER NOT NULL,
    ttl INTEGER,
    created_at INTEGER NOT NULL,
    accessed_at INTEGER NOT NULL,
    due INTEGER,
    value TEXT NOT NULL,
    UNIQUE (namespace, id, name)
) STRICT;

CREATE INDEX states_by_due ON states (due) WHERE due IS NOT NULL;
