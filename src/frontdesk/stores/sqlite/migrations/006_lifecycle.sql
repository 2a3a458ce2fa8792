-- A session's own thresholds (microseconds), and the ways to those that are idle, compacting, or due for a sweep.

ALTER TABLE sessions ADD COLUMN idle_after INTEGER;
ALTER TABLE sessions ADD COLUMN archive_after INTEGER;
ALTER TABLE sessions ADD COLUMN delete_after INTEGER;

CREATE INDEX sessions_by_end ON sessions (namespace, ended_at, number) WHERE status = 'archived';
-- Few sessions have thresholds of their own: the others are not in these.
CREATE INDEX sessions_by_own_idle ON sessions (namespace, last_active_at, number)
    WHERE idle_after IS NOT NULL AND status = 'active';
CREATE INDEX sessions_by_own_archive ON sessions (namespace, last_active_at + archive_after, number)
    WHERE archive_after IS NOT NULL AND status = 'active';
CREATE INDEX sessions_by_own_delete ON sessions (namespace, ended_at + delete_after, number)
    WHERE delete_after IS NOT NULL AND status = 'archived';

CREATE INDEX leases_by_end ON leases (namespace, name, expires_at);

CREATE INDEX sessions_by_parent ON sessions (namespace, parent_session_id) WHERE parent_session_id IS NOT NULL;
