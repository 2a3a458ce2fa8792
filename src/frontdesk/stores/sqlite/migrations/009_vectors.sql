-- Vectors of texts: an ordinary table, so that what is deleted takes them along even where sqlite-vec is not installed.

CREATE TABLE vector_spaces (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL,
    state TEXT
) STRICT;

-- `address` is place << 2 for a message, and number << 2 | kind for an edit (1), an overlay (2) and a session (3).
CREATE TABLE vectors (
    address INTEGER PRIMARY KEY,
    space INTEGER NOT NULL,
    vector BLOB NOT NULL
) STRICT;
CREATE INDEX vectors_by_space ON vectors (space);
