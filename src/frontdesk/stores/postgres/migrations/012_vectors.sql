-- Vectors of texts, as arrays, which the extension `vector` compares: so the schema, and deleting, do without it.

CREATE TABLE {schema}.vector_spaces (
    ns integer PRIMARY KEY,
    dimensions integer NOT NULL,
    state text
);

-- `kind` is 0 for a message (number is its segment), 1 for an edit, 2 for an overlay, 3 for a session.
CREATE TABLE {schema}.vectors (
    ns integer NOT NULL,
    number bigint NOT NULL,
    position integer NOT NULL,
    kind smallint NOT NULL,
    vector real[] NOT NULL,
    PRIMARY KEY (ns, kind, number, position)
);
-- Numbers that look random do not compress: trying to would only cost.
ALTER TABLE {schema}.vectors ALTER COLUMN vector SET STORAGE EXTERNAL;
