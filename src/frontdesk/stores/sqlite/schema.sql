-- Sessions, their messages in segments, overlays and edits, and usage. `ns` is the name of the namespace.

CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    ns TEXT NOT NULL,
    id TEXT NOT NULL,
    agent TEXT,
    channel TEXT,
    peer TEXT,
    thread TEXT,
    key_current INTEGER NOT NULL DEFAULT 0,
    key_digest BLOB,
    name TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL DEFAULT 'active',
    end_reason TEXT,
    parent_session_id TEXT,
    model TEXT,
    source TEXT,
    tree INTEGER NOT NULL,
    family INTEGER NOT NULL,
    base_segment INTEGER,
    base_position INTEGER,
    head_segment INTEGER,
    head_position INTEGER,
    tail INTEGER NOT NULL DEFAULT 0,
    view TEXT NOT NULL DEFAULT 'plain',
    view_tokens INTEGER NOT NULL DEFAULT 0,
    view_messages INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL DEFAULT 0,
    message_count INTEGER NOT NULL DEFAULT 0,
    compaction_count INTEGER NOT NULL DEFAULT 0,
    prompt_tokens INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cost TEXT NOT NULL DEFAULT '0',
    max_tokens INTEGER,
    idle_after INTEGER,
    archive_after INTEGER,
    delete_after INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_active_at INTEGER NOT NULL,
    compacted_at INTEGER,
    ended_at INTEGER,
    tags TEXT NOT NULL DEFAULT '[]',
    metadata TEXT NOT NULL DEFAULT '{}',
    summary TEXT
) STRICT;

CREATE UNIQUE INDEX sessions_by_id ON sessions (ns, id);
CREATE UNIQUE INDEX sessions_by_key ON sessions (ns, key_digest) WHERE key_current;
-- A session is in one of these two: an append moves it within the first, and finding the active ones never means
-- scanning all that have ended.
CREATE INDEX sessions_by_activity ON sessions (ns, last_active_at, number) WHERE status = 'active';
CREATE INDEX sessions_by_number ON sessions (ns, number);
CREATE INDEX sessions_by_status ON sessions (ns, status, last_active_at, number) WHERE status <> 'active';
CREATE INDEX sessions_by_agent ON sessions (ns, agent, last_active_at, number) WHERE agent IS NOT NULL;
CREATE INDEX sessions_by_peer ON sessions (ns, peer) WHERE peer IS NOT NULL;
CREATE INDEX sessions_by_parent ON sessions (ns, parent_session_id) WHERE parent_session_id IS NOT NULL;
CREATE INDEX sessions_by_family ON sessions (family);
CREATE INDEX sessions_by_end ON sessions (ns, ended_at, number) WHERE status = 'archived';
-- Few sessions have thresholds (microseconds) of their own: the others are not in these indexes.
CREATE INDEX sessions_by_own_idle ON sessions (ns, last_active_at, number)
    WHERE idle_after IS NOT NULL AND status = 'active';
CREATE INDEX sessions_by_own_archive ON sessions (ns, last_active_at + archive_after, number)
    WHERE archive_after IS NOT NULL AND status = 'active';
CREATE INDEX sessions_by_own_delete ON sessions (ns, ended_at + delete_after, number)
    WHERE delete_after IS NOT NULL AND status = 'archived';

CREATE TABLE session_tags (
    ns TEXT NOT NULL,
    digest BLOB NOT NULL,
    session INTEGER NOT NULL,
    PRIMARY KEY (ns, digest, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_tags_by_session ON session_tags (session);

-- `digest` is that of a name and a value at the top level of a session's metadata.
CREATE TABLE session_metadata (
    ns TEXT NOT NULL,
    digest BLOB NOT NULL,
    session INTEGER NOT NULL,
    PRIMARY KEY (ns, digest, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_metadata_by_session ON session_metadata (session);

CREATE TABLE views (
    session INTEGER PRIMARY KEY,
    items TEXT NOT NULL
) STRICT;

CREATE TABLE segments (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tree INTEGER NOT NULL,
    parent_segment INTEGER,
    parent_position INTEGER,
    last INTEGER NOT NULL,
    next INTEGER NOT NULL,
    shared INTEGER NOT NULL,
    tokens INTEGER NOT NULL
) STRICT;
CREATE INDEX segments_by_tree ON segments (tree);

-- `place` is segment << 24 | position.
CREATE TABLE messages (
    place INTEGER PRIMARY KEY,
    family INTEGER NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    running INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    raw TEXT NOT NULL,
    derived TEXT
) STRICT;
CREATE INDEX messages_by_id ON messages (family, id);

CREATE TABLE overlays (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tree INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    start_segment INTEGER NOT NULL,
    start_position INTEGER NOT NULL,
    end_segment INTEGER NOT NULL,
    end_position INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    stale INTEGER NOT NULL,
    details TEXT NOT NULL,
    summary TEXT
) STRICT;
CREATE INDEX overlays_by_tree ON overlays (tree);

CREATE TABLE edits (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tree INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    kind TEXT NOT NULL,
    segment INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    overlay INTEGER,
    message TEXT
) STRICT;
CREATE INDEX edits_by_tree ON edits (tree);
CREATE INDEX edits_by_segment ON edits (segment);

CREATE TABLE lineage (
    tree INTEGER PRIMARY KEY,
    ancestor INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT;
CREATE INDEX lineage_by_ancestor ON lineage (ancestor, until);

CREATE TABLE usage_entries (
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    day TEXT NOT NULL,
    model TEXT,
    at INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost TEXT NOT NULL,
    PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

-- The sessions of a family that an import writes in several transactions, until the last one. Another import of the same
-- ids removes what is there of it.
CREATE TABLE unfinished_sessions (
    ns TEXT NOT NULL,
    id TEXT NOT NULL,
    number INTEGER NOT NULL,
    family INTEGER NOT NULL,
    PRIMARY KEY (ns, id)
) STRICT, WITHOUT ROWID;

-- Totals of all entries, which stay when a session is deleted. `digest` replaces model, agent and channel in the key,
-- since they may be absent.
CREATE TABLE usage_days (
    ns TEXT NOT NULL,
    day TEXT NOT NULL,
    digest BLOB NOT NULL,
    model TEXT,
    agent TEXT,
    channel TEXT,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost TEXT NOT NULL,
    PRIMARY KEY (ns, day, digest)
) STRICT, WITHOUT ROWID;


-- Versioned texts, and frozen prompts. `session` of a document is the number of a session, or minus the number of
-- another owner: a key, a guest, an agent or the namespace.

CREATE TABLE document_owners (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    ns TEXT NOT NULL,
    digest BLOB NOT NULL,
    scope TEXT NOT NULL,
    agent TEXT,
    channel TEXT,
    peer TEXT,
    thread TEXT,
    UNIQUE (ns, digest)
) STRICT;

CREATE TABLE documents (
    ns TEXT NOT NULL,
    session INTEGER NOT NULL,
    label_digest BLOB NOT NULL,
    key_digest BLOB NOT NULL,
    version INTEGER NOT NULL,
    label TEXT NOT NULL,
    key TEXT NOT NULL,
    content TEXT NOT NULL,
    description TEXT,
    author TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (session, label_digest, key_digest, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE prompts (
    session INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    blocks TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    deployed_at INTEGER NOT NULL
) STRICT;


-- Leases of a session (or, with session 0, of a namespace). The row stays after its end, so that numbers only grow; the
-- first number is the time, so that a session that is deleted and created again does not repeat numbers. `intake`:
-- whether messages may be queued.

CREATE TABLE leases (
    session INTEGER NOT NULL,
    ns TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    holder TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    taken_at INTEGER NOT NULL,
    intake INTEGER NOT NULL,
    PRIMARY KEY (session, ns, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_by_end ON leases (ns, name, expires_at);


-- Typed states with time-to-live. They belong to ids, which need not be those of sessions that exist, and to the guest
-- with the key in `agent`, `channel`, `peer` and `thread`, if it is known.
--
-- A state expires `ttl` after `accessed_at`. `due` is when the sweep checks whether it has. Reading a state moves only
-- `accessed_at`, so that it rewrites neither the value nor an index; the sweep moves `due`. The columns that are read
-- most come before the value.

CREATE TABLE states (
    number INTEGER PRIMARY KEY,
    ns TEXT NOT NULL,
    name TEXT NOT NULL,
    id TEXT NOT NULL,
    mark TEXT NOT NULL,
    version INTEGER NOT NULL,
    ttl INTEGER,
    created_at INTEGER NOT NULL,
    accessed_at INTEGER NOT NULL,
    due INTEGER,
    type_version INTEGER NOT NULL,
    agent TEXT,
    channel TEXT,
    peer TEXT,
    thread TEXT,
    value TEXT NOT NULL,
    UNIQUE (ns, name, id)
) STRICT;

CREATE INDEX states_by_id ON states (ns, id);
CREATE INDEX states_by_owner ON states (ns, peer) WHERE peer IS NOT NULL;
CREATE INDEX states_by_due ON states (due) WHERE due IS NOT NULL;
-- SQLite writes to an index whenever a column of it is set, even to the same value.
CREATE TRIGGER states_move_due AFTER UPDATE OF ttl ON states WHEN old.ttl IS NOT new.ttl BEGIN
    UPDATE states SET due = new.accessed_at + new.ttl WHERE number = new.number;
END;

-- The other stores that a namespace keeps states in, so that an erasure finds all of them. A URL contains no password.
CREATE TABLE state_stores (
    ns TEXT NOT NULL,
    url TEXT NOT NULL,
    PRIMARY KEY (ns, url)
) STRICT, WITHOUT ROWID;


-- Shelves: bytes under ordered keys, for what is not a conversation. A shelf belongs to the guest with the key in `agent`,
-- `channel`, `peer` and `thread`, if it is known. `edition` is the version of the last write that deleted something.

CREATE TABLE shelves (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    ns TEXT NOT NULL,
    name TEXT NOT NULL,
    id TEXT NOT NULL,
    version INTEGER NOT NULL,
    edition INTEGER NOT NULL,
    agent TEXT,
    channel TEXT,
    peer TEXT,
    thread TEXT,
    UNIQUE (ns, name, id)
) STRICT;
CREATE INDEX shelves_by_owner ON shelves (ns, peer) WHERE peer IS NOT NULL;

CREATE TABLE blobs (
    shelf INTEGER NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (shelf, key)
) STRICT, WITHOUT ROWID;


-- The change log. Entries hold numbers and, in `detail`, a few names, but never the content of a message. Entries of a
-- deleted session are not returned any more; those with a detail are deleted with it, the others by trimming.

CREATE TABLE changes (
    namespace TEXT NOT NULL,
    position INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    session INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    number INTEGER NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (namespace, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX changes_with_detail ON changes (session) WHERE detail <> '';

-- The parts of the log that were written by one process each. `id` is random, so that the epochs of two copies of a file
-- differ. `ended` is the last position, of all namespaces, that the log had when the epoch began.
CREATE TABLE log_epochs (
    number INTEGER PRIMARY KEY,
    id INTEGER NOT NULL UNIQUE,
    ended INTEGER
) STRICT;

-- How far each log was trimmed.
CREATE TABLE changes_trimmed (
    namespace TEXT PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;


-- The queue for a lease of a session, in the order of tickets, and the messages that are queued for its holder.

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


-- The search index: its position in the change log for each namespace, the texts in it, and their terms.
--
-- `key` is the place of a message, or -(number << 2 | code) of another text, by `frontdesk.store.TEXT_KINDS`. Terms
-- come ready made, so that the tokenizer only splits them at spaces. Each begins with the number of its namespace and a
-- mark.

CREATE TABLE search_states (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    texts INTEGER NOT NULL,
    length INTEGER NOT NULL
) STRICT;

CREATE TABLE search_texts (
    key INTEGER PRIMARY KEY,
    state INTEGER NOT NULL,
    place INTEGER,
    family INTEGER NOT NULL,
    at INTEGER NOT NULL,
    length INTEGER NOT NULL
) STRICT;

CREATE VIRTUAL TABLE search_terms USING fts5 (
    terms,
    facets,
    content = '',
    contentless_delete = 1,
    tokenize = "ascii tokenchars '!""#$%&''()*+,-./:;<=>?@[\]^_`{|}~'"
);
-- Collect the terms of one transaction in memory before they are written.
INSERT INTO search_terms (search_terms, rank) VALUES ('hashsize', 16777216);
CREATE VIRTUAL TABLE search_words USING fts5vocab (search_terms, row);


-- Vectors of texts: an ordinary table, so that they are deleted with their texts even where sqlite-vec is not
-- installed.

CREATE TABLE vector_spaces (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL,
    state TEXT
) STRICT;

-- `address` is the key that the text has in `search_texts`.
CREATE TABLE vectors (
    address INTEGER PRIMARY KEY,
    space INTEGER NOT NULL,
    vector BLOB NOT NULL
) STRICT;

-- The signs of the numbers of each vector, one bit for each. They choose the vectors that are compared in full.
CREATE TABLE vector_codes (
    space INTEGER NOT NULL,
    address INTEGER NOT NULL,
    code BLOB NOT NULL,
    PRIMARY KEY (space, address)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER vectors_remove_code AFTER DELETE ON vectors BEGIN
    DELETE FROM vector_codes WHERE space = old.space AND address = old.address;
END;
