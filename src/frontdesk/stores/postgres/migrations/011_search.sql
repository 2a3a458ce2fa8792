-- The search index: how far it is for each namespace, and the terms of each text.
--
-- A text is named by its kind (3 a message, 2 an edit, 1 an overlay, 0 a session), its number (of a message its segment) and
-- position. A long one comes in parts, since a tsvector holds little; parts overlap by some terms, so that phrases are found.
-- Every term begins with the number of its namespace and a mark: a search touches no other's.

CREATE TABLE {schema}.search_states (
    ns integer PRIMARY KEY,
    state text NOT NULL,
    texts bigint NOT NULL,
    length bigint NOT NULL
);

CREATE TABLE {schema}.search_texts (
    ns integer NOT NULL,
    position integer NOT NULL,
    number bigint NOT NULL,
    kind smallint NOT NULL,
    parts smallint NOT NULL,
    part integer NOT NULL,
    length integer NOT NULL,
    family bigint NOT NULL,
    at bigint NOT NULL,
    place_segment bigint,
    place_position integer,
    terms tsvector NOT NULL,
    PRIMARY KEY (ns, kind, number, position, part)
);
CREATE INDEX search_texts_by_term ON {schema}.search_texts USING gin (terms);
-- So that the planner knows how common the common words are.
ALTER TABLE {schema}.search_texts ALTER COLUMN terms SET STATISTICS 1000;
