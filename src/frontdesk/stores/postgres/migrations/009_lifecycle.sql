-- A session's own thresholds (microseconds), the ways to those that are idle, compacting, or due for a sweep, and
-- waking.

ALTER TABLE {schema}.sessions
    ADD COLUMN idle_after bigint, ADD COLUMN archive_after bigint, ADD COLUMN delete_after bigint;

CREATE INDEX sessions_by_end ON {schema}.sessions (ns, ended_at, number) WHERE status = 'archived';
-- Few sessions have thresholds of their own: the others are not in these.
CREATE INDEX sessions_by_own_idle ON {schema}.sessions (ns, last_active_at, number)
    WHERE idle_after IS NOT NULL AND status = 'active';
CREATE INDEX sessions_by_own_archive ON {schema}.sessions (ns, (last_active_at + archive_after), number)
    WHERE archive_after IS NOT NULL AND status = 'active';
CREATE INDEX sessions_by_own_delete ON {schema}.sessions (ns, (ended_at + delete_after), number)
    WHERE delete_after IS NOT NULL AND status = 'archived';

CREATE INDEX leases_by_end ON {schema}.leases (ns, name, expires_at);

-- Make a session current under its key, unless another is: two that try it at once are told apart by the index.
CREATE FUNCTION {schema}.take_key(in_ns integer, session bigint) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE {schema}.sessions x SET key_current = true WHERE x.ns = in_ns AND x.number = session AND x.agent IS NOT NULL;
    RETURN FOUND;
EXCEPTION WHEN unique_violation THEN
    RETURN false;
END
$$;

-- Make a session active again, for a message that is about to be appended; the raised revision is saved with that.
CREATE FUNCTION {schema}.wake(s {schema}.sessions, at_time bigint) RETURNS {schema}.sessions
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE {schema}.sessions x SET status = 'active', end_reason = NULL, ended_at = NULL
    WHERE x.ns = s.ns AND x.number = s.number;
    s.key_current := s.key_current OR {schema}.take_key(s.ns, s.number);
    s.status := 'active';
    s.end_reason := NULL;
    s.ended_at := NULL;
    s.revision := s.revision + 1;
    s.changed_in := greatest(s.changed_in, {schema}.this_xid());
    PERFORM {schema}.log_changes(
        s.ns, s.number, at_time, '{session.changed}', '{0}', '{0}', '{0}', '{0}',
        ARRAY['{"status":"active","end_reason":null,"changed":["end_reason","ended_at","status"]}']
    );
    RETURN s;
END
$$;

CREATE INDEX sessions_by_parent ON {schema}.sessions (ns, parent_session_id) WHERE parent_session_id IS NOT NULL;
