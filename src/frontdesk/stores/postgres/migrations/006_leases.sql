-- Leases of a session (or, with session 0, of a namespace). The row stays after its end, so that numbers only grow; the
-- first one is the time, so that those of a session made anew are others. `intake`: whether messages may be queued.

CREATE TABLE {schema}.leases (
    ns integer NOT NULL,
    session bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    holder text NOT NULL,
    expires_at timestamptz NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    intake boolean NOT NULL DEFAULT true,
    PRIMARY KEY (ns, session, name)
);
