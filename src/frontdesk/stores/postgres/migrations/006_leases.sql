-- Leases of a session (or, with session 0, of a namespace). The row stays after its end, so that numbers only grow.

CREATE TABLE {schema}.leases (
    ns integer NOT NULL,
    session bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    holder text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (ns, session, name)
);
