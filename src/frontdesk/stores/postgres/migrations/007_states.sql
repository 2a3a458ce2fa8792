-- Typed states with time-to-live. They belong to ids, which need not be those of sessions that exist.
--
-- A state expires `ttl` after `accessed_at`. `due` is when to look whether it has: reading moves the first alone, so
-- that it rewrites neither the value nor an index; the sweep moves the second.

CREATE TABLE {schema}.states (
    ns integer NOT NULL,
    id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    mark text NOT NULL,
    version bigint NOT NULL,
    ttl bigint,
    created_at bigint NOT NULL,
    accessed_at bigint NOT NULL,
    due bigint,
    value text NOT NULL,
    PRIMARY KEY (ns, id, name)
) WITH (fillfactor = 80);

CREATE INDEX states_by_due ON {schema}.states (due) WHERE due IS NOT NULL;
