-- Sessions, their messages in segments, what lies over them, and the ledger.

CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    agent TEXT,
    channel TEXT,
    peer TEXT,
    thread TEXT,
    key_current INTEGER NOT NULL DEFAULT 0,
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
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    last_active_at INTEGER NOT NULL,
    compacted_at INTEGER,
    ended_at INTEGER,
    tags TEXT NOT NULL DEFAULT '[]',
    metadata TEXT NOT NULL DEFAULT '{}',
    summary TEXT,
    UNIQUE (namespace, id)
) STRICT;

-- A unique index takes all NULLs for different, so that an absent thread needs a text of its own.
CREATE UNIQUE INDEX sessions_by_key
    ON sessions (namespace, agent, coalesce(channel, ''), coalesce(peer, ''), coalesce('=' || thread, ''))
    WHERE key_current;
-- A session is in one of these two: an append moves it within the first, and finding the active ones never means going
-- through all that ever ended.
CREATE INDEX sessions_by_activity ON sessions (namespace, last_active_at, number) WHERE status = 'active';
CREATE INDEX sessions_by_status ON sessions (namespace, status, last_active_at, number) WHERE status <> 'active';
CREATE INDEX sessions_by_agent ON sessions (namespace, agent, last_active_at, number) WHERE agent IS NOT NULL;
CREATE INDEX sessions_by_peer ON sessions (namespace, peer) WHERE peer IS NOT NULL;
CREATE INDEX sessions_by_family ON sessions (family);

CREATE TABLE session_tags (
    session INTEGER NOT NULL,
    tag TEXT NOT NULL,
    namespace TEXT NOT NULL,
    PRIMARY KEY (session, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_tags_by_tag ON session_tags (namespace, tag, session);

CREATE TABLE views (
    session INTEGER PRIMARY KEY,
    row TEXT NOT NULL
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

CREATE TABLE usage_lines (
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

CREATE TABLE usage_days (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    day TEXT NOT NULL,
    model TEXT,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    cost TEXT NOT NULL
) STRICT;
CREATE INDEX usage_days_by_day ON usage_days (namespace, day, model);
