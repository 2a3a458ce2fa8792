-- What a session sees, asked by the functions that append. Small tables that grow fast would leave a cached plan with
-- full scans behind: hence no sequential scans here.

-- Whether tree `of_tree` sees an edit that another tree made at a revision. An ancestor has the lower number, so that
-- the way up from a tree that does not descend from the other ends where it passes it by.
CREATE FUNCTION {schema}.inherits(in_ns integer, of_tree bigint, from_tree bigint, at_revision bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    here bigint := of_tree;
    seen_until bigint := at_revision;
BEGIN
    WHILE here > from_tree LOOP
        SELECT l.ancestor, l.until INTO here, seen_until FROM {schema}.lineage l WHERE l.ns = in_ns AND l.tree = here;
    END LOOP;
    RETURN here IS NOT DISTINCT FROM from_tree AND at_revision <= seen_until;
END
$$;

-- The first position of the stretch around a position that the session's tree does not see any more; null if it does.
CREATE FUNCTION {schema}.removed_from(in_ns integer, of_tree bigint, in_segment bigint, at_position integer)
RETURNS integer LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT min(e.first) FROM {schema}.edits e
    WHERE e.ns = in_ns AND e.segment = in_segment AND e.kind = 'removed' AND at_position BETWEEN e.first AND e.last
        AND {schema}.inherits(in_ns, of_tree, e.tree, e.revision)
$$;

CREATE FUNCTION {schema}.sees(s {schema}.sessions, in_segment bigint, at_position integer) RETURNS boolean
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    owner bigint;
    up_segment bigint := s.base_segment;
    up_position integer := s.base_position;
BEGIN
    SELECT t.tree INTO owner FROM {schema}.segments t WHERE t.ns = s.ns AND t.number = in_segment;
    IF owner <> s.tree THEN
        WHILE up_segment <> in_segment LOOP
            SELECT t.parent_segment, t.parent_position INTO up_segment, up_position
            FROM {schema}.segments t WHERE t.ns = s.ns AND t.number = up_segment;
        END LOOP;
        IF up_segment IS NULL OR at_position > up_position THEN
            RETURN false;
        END IF;
    END IF;
    RETURN {schema}.removed_from(s.ns, s.tree, in_segment, at_position) IS NULL;
END
$$;

-- The id of the message that the session sees ahead of a place; null if there is none.
CREATE FUNCTION {schema}.id_before(s {schema}.sessions, in_segment bigint, at_position integer) RETURNS text
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
DECLARE
    gone integer := at_position;
BEGIN
    LOOP
        IF gone > 0 THEN
            at_position := gone - 1;
        ELSE
            SELECT t.parent_segment, t.parent_position INTO in_segment, at_position
            FROM {schema}.segments t WHERE t.ns = s.ns AND t.number = in_segment;
        END IF;
        EXIT WHEN in_segment IS NULL;
        gone := {schema}.removed_from(s.ns, s.tree, in_segment, at_position);
        EXIT WHEN gone IS NULL;
    END LOOP;
    RETURN (
        SELECT m.id FROM {schema}.messages m
        WHERE m.ns = s.ns AND m.segment = in_segment AND m.position = at_position
    );
END
$$;

-- Where the session sees a message with an id.
CREATE FUNCTION {schema}.find(
    s {schema}.sessions, wanted text, OUT in_segment bigint, OUT at_position integer
) LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    FOR in_segment, at_position IN
        SELECT m.segment, m.position FROM {schema}.messages m
        WHERE m.ns = s.ns AND m.family = s.family AND m.id = wanted
    LOOP
        IF {schema}.sees(s, in_segment, at_position) THEN
            RETURN;
        END IF;
    END LOOP;
    in_segment := NULL;
    at_position := NULL;
END
$$;

CREATE FUNCTION {schema}.namespace(wanted text) RETURNS integer LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    found_number integer;
BEGIN
    LOOP
        SELECT n.number INTO found_number FROM {schema}.namespaces n WHERE n.name = wanted;
        EXIT WHEN found_number IS NOT NULL;
        INSERT INTO {schema}.namespaces (name) VALUES (wanted) ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN found_number;
END
$$;

CREATE FUNCTION {schema}.new_number(in_ns integer) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (in_ns::bigint << 39) | nextval('{schema}.numbers')
$$;

CREATE FUNCTION {schema}.this_xid() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT pg_current_xact_id()::text::bigint
$$;

-- Write what an append has moved.
CREATE FUNCTION {schema}.save(s {schema}.sessions, t {schema}.segments) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE {schema}.segments x SET last = t.last, next = t.next, tokens = t.tokens
    WHERE x.ns = t.ns AND x.number = t.number;
    UPDATE {schema}.sessions x SET
        head_segment = s.head_segment, head_position = s.head_position, tail = s.tail, view = s.view,
        view_tokens = s.view_tokens, view_messages = s.view_messages, revision = s.revision,
        message_count = s.message_count, updated_at = s.updated_at, last_active_at = s.last_active_at,
        changed_in = s.changed_in
    WHERE x.ns = s.ns AND x.number = s.number;
END
$$;
