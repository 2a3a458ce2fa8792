-- Versioned texts of a session (or, with session 0, of a namespace), and frozen prompts.

CREATE TABLE documents (
    session INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    label TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    content TEXT NOT NULL,
    description TEXT,
    author TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (session, namespace, label, key, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE prompts (
    session INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    blocks TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
