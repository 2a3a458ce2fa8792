-- The search index: how far it is for each namespace, what is known of each text, and the terms of the texts.
--
-- `key` is the place of a message, or -(number << 2 | kind) for an edit (1), an overlay (2) and a session (3). Terms come
-- ready made, so that the tokenizer only parts them at spaces. Each begins with the number of its namespace and a mark.

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
-- Terms of one transaction come together in memory before they are written.
INSERT INTO search_terms (search_terms, rank) VALUES ('hashsize', 16777216);
CREATE VIRTUAL TABLE search_words USING fts5vocab (search_terms, row);
