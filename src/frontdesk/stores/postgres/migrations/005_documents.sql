-- Versioned texts of a session (or, with session 0, of a namespace), and frozen prompts.

-- Label and key together can exceed what an index row holds: digests stand for them.
CREATE TABLE {schema}.documents (
    ns integer NOT NULL,
    session bigint NOT NULL,
    label_digest bytea NOT NULL,
    key_digest bytea NOT NULL,
    version bigint NOT NULL,
    label text NOT NULL,
    key text NOT NULL,
    content text NOT NULL,
    description text,
    author text,
    created_at bigint NOT NULL,
    PRIMARY KEY (ns, session, label_digest, key_digest, version)
);

CREATE TABLE {schema}.prompts (
    ns integer NOT NULL,
    session bigint NOT NULL,
    number bigint NOT NULL,
    text text NOT NULL,
    tokens bigint NOT NULL,
    fingerprint text NOT NULL,
    blocks text NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (ns, session)
);
