-- The log of changes. Lines hold numbers and, in `detail`, a few names: never what was said. Lines of a session that is
-- gone are not shown any more; those with a detail go with it, and the others, which only hold numbers, by trimming.
--
-- Sequences are not in the order of commits. So a line is keyed by its transaction first, and a reader takes only those
-- below the oldest transaction that still runs: nothing can appear among them any more. A transaction that was early to
-- begin may come late to a session, though; it then takes the key of the latest one that wrote there (`changed_in`), so
-- that the lines of a session stand in the order of its changes. A key may only be raised: that merely lets a reader
-- wait.

CREATE SEQUENCE {schema}.change_positions;

CREATE TABLE {schema}.changes (
    ns integer NOT NULL,
    xid bigint NOT NULL,
    position bigint NOT NULL,
    at bigint NOT NULL,
    session bigint NOT NULL,
    segment bigint NOT NULL DEFAULT 0,
    number bigint NOT NULL DEFAULT 0,
    first integer NOT NULL DEFAULT 0,
    last integer NOT NULL DEFAULT 0,
    kind text NOT NULL,
    detail text NOT NULL DEFAULT '',
    PRIMARY KEY (ns, xid, position)
);
CREATE INDEX changes_with_detail ON {schema}.changes (ns, session) WHERE detail <> '';

-- How far each log was trimmed.
CREATE TABLE {schema}.changes_trimmed (
    ns integer PRIMARY KEY,
    xid bigint NOT NULL,
    position bigint NOT NULL
);

-- Log changes of a session whose row is locked (or, with session 0, of a namespace), in their order.
CREATE FUNCTION {schema}.log_changes(
    in_ns integer, of_session bigint, at_time bigint,
    kinds text[], segments bigint[], firsts integer[], lasts integer[], numbers bigint[], details text[]
) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    this_xid bigint := {schema}.this_xid();
    key bigint;
BEGIN
    UPDATE {schema}.sessions x SET changed_in = greatest(x.changed_in, this_xid)
    WHERE x.ns = in_ns AND x.number = of_session RETURNING x.changed_in INTO key;
    INSERT INTO {schema}.changes (ns, xid, position, at, session, kind, segment, first, last, number, detail)
    SELECT in_ns, coalesce(key, this_xid), nextval('{schema}.change_positions'), at_time, of_session,
        c.kind, c.segment, c.first, c.last, c.number, c.detail
    FROM unnest(kinds, segments, firsts, lasts, numbers, details) c(kind, segment, first, last, number, detail);
END
$$;
