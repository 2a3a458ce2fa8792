-- The log of changes. Lines hold numbers and, in `detail`, a few names: never what was said. Lines of a session that is
-- gone are not shown any more; those with a detail go with it, and the others, which only hold numbers, by trimming.

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

-- How far each log was trimmed.
CREATE TABLE changes_trimmed (
    namespace TEXT PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
