-- The function that appends a batch of requests in one transaction, and what it asks. Small tables that grow fast would
-- leave a cached plan with full scans behind: hence no sequential scans here.

-- Whether tree `of_tree` sees an edit that another tree made at a revision.
CREATE FUNCTION {schema}.inherits(in_ns integer, of_tree bigint, from_tree bigint, at_revision bigint) RETURNS boolean
LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT of_tree = from_tree OR EXISTS (
        SELECT FROM {schema}.lineage l
        WHERE l.ns = in_ns AND l.tree = of_tree AND l.ancestor = from_tree AND at_revision <= l.until
    )
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

-- Write what an append has moved.
CREATE FUNCTION {schema}.save(s {schema}.sessions, t {schema}.segments) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE {schema}.segments x SET last = t.last, next = t.next, tokens = t.tokens
    WHERE x.ns = t.ns AND x.number = t.number;
    UPDATE {schema}.sessions x SET
        head_segment = s.head_segment, head_position = s.head_position, tail = s.tail, view = s.view,
        view_tokens = s.view_tokens, view_messages = s.view_messages, revision = s.revision,
        message_count = s.message_count, updated_at = s.updated_at, last_active_at = s.last_active_at
    WHERE x.ns = s.ns AND x.number = s.number;
END
$$;

-- Append any requests, one after the other. They come sorted by session, those of one session in the order of their
-- arrival; `r_number` is what a request is called in the answer, its messages are the r_size[r] after the first r_skip[r]. `r_parent` is an id, null to follow the head, '' for a new root (no id is
-- empty); `m_twin` is the index of an earlier message of the request with the same id, or 0. A session that is locked by
-- others is waited for if `patient`, and its requests come back as "busy" otherwise, with nothing done for them.
--
-- Gives one row for each request: code "done" with the id ahead of its first message and the session, "head" with the
-- actual head, "parent" or "busy". Ahead of a "done" that met known messages, one row for each message: "new", "old", or
-- "mine" for one that this very call had written before (its answer was lost).
CREATE FUNCTION {schema}.append_each(
    r_number integer[], r_namespace text[], r_id text[], r_call bigint[], r_now bigint[], r_parent text[], r_expected text[],
    r_skip integer[], r_size integer[], m_id text[], m_role text[], m_tokens bigint[], m_created_at bigint[],
    m_raw text[], m_derived text[], m_twin integer[], patient boolean
) RETURNS TABLE (
    request integer, code text, ahead text, id text, role text, tokens bigint, created_at bigint, raw text, derived text,
    edited text, session {schema}.sessions
)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    s {schema}.sessions;           -- the session of the request, as changed so far
    t {schema}.segments;           -- the segment that was last written to, as changed so far
    current_ns integer;
    busy boolean := false;
    changed boolean := false;      -- whether s and t are still to be written
    known_segment bigint[];
    known_position integer[];
    met boolean;                   -- whether any message of the request is known, or twice in it
    any_new boolean;
    head_id text;                  -- of s, where head_at says so
    head_at bigint;
    after_segment bigint;
    after_position integer;
    after_id text;
    extends boolean;
    at_head boolean;
    first_index integer;
    last_index integer;
    here integer;
    until integer;
    sum_tokens bigint;
    hit record;
BEGIN
    FOR r IN 1 .. cardinality(r_id) LOOP
        request := r_number[r];
        first_index := r_skip[r] + 1;
        last_index := r_skip[r] + r_size[r];

        IF r = 1 OR r_id[r] <> r_id[r - 1] OR r_namespace[r] <> r_namespace[r - 1] THEN
            IF changed THEN
                PERFORM {schema}.save(s, t);
                changed := false;
            END IF;
            t := NULL;
            head_at := NULL;
            IF r = 1 OR r_namespace[r] <> r_namespace[r - 1] THEN
                current_ns := {schema}.namespace(r_namespace[r]);
            END IF;
            IF patient THEN
                SELECT * INTO s FROM {schema}.sessions x WHERE x.ns = current_ns AND x.id = r_id[r] AND x.id <> '' FOR UPDATE;
            ELSE
                SELECT * INTO s FROM {schema}.sessions x WHERE x.ns = current_ns AND x.id = r_id[r] AND x.id <> ''
                FOR UPDATE SKIP LOCKED;
            END IF;
            busy := s.number IS NULL AND EXISTS (
                SELECT FROM {schema}.sessions x WHERE x.ns = current_ns AND x.id = r_id[r] AND x.id <> ''
            );
        END IF;
        code := 'busy';
        IF busy THEN
            RETURN NEXT;
            CONTINUE;
        END IF;

        -- What is known already. Even ids made for this call are looked up: after a lost connection the same call may
        -- be running twice.
        met := false;
        FOR i IN first_index .. last_index LOOP
            met := met OR m_twin[i] > 0;
        END LOOP;
        known_segment := '{}';
        known_position := '{}';
        IF s.message_count > 0 OR s.base_segment IS NOT NULL THEN
            FOR hit IN
                SELECT i.index, m.segment, m.position
                FROM generate_series(first_index, last_index) i(index),
                    LATERAL (
                        SELECT x.segment, x.position FROM {schema}.messages x
                        WHERE x.ns = s.ns AND x.family = s.family AND x.id = m_id[i.index] OFFSET 0
                    ) m
            LOOP
                IF {schema}.sees(s, hit.segment, hit.position) THEN
                    met := true;
                    known_segment[hit.index] := hit.segment;
                    known_position[hit.index] := hit.position;
                END IF;
            END LOOP;
        END IF;

        any_new := NOT met AND r_size[r] > 0;
        IF met THEN
            FOR i IN first_index .. last_index LOOP
                any_new := any_new OR known_segment[i] IS NULL;
            END LOOP;
        END IF;

        IF s.head_segment IS NULL THEN
            head_id := NULL;
        ELSIF head_at IS NULL THEN
            SELECT x.id INTO head_id FROM {schema}.messages x
            WHERE x.ns = s.ns AND x.segment = s.head_segment AND x.position = s.head_position;
            head_at := 1;
        END IF;
        IF any_new AND r_expected[r] IS DISTINCT FROM head_id AND r_expected[r] IS NOT NULL THEN
            code := 'head';
            ahead := head_id;
            RETURN NEXT;
            CONTINUE;
        END IF;

        after_segment := NULL;
        after_position := NULL;
        after_id := NULL;
        IF r_parent[r] IS NULL THEN
            after_segment := s.head_segment;
            after_position := s.head_position;
            after_id := head_id;
        ELSIF r_parent[r] <> '' AND any_new THEN
            SELECT f.in_segment, f.at_position INTO after_segment, after_position
            FROM {schema}.find(s, r_parent[r]) f;
            after_id := r_parent[r];
            IF after_segment IS NULL THEN
                code := 'parent';
                RETURN NEXT;
                CONTINUE;
            END IF;
        END IF;

        IF s.number IS NULL THEN
            -- Another transaction may have made it at this moment: this one has waited for it, and comes again.
            INSERT INTO {schema}.sessions (ns, number, id, tree, family, created_at, updated_at, last_active_at)
            SELECT current_ns, x.number, r_id[r], x.number, x.number, r_now[r], r_now[r], r_now[r]
            FROM {schema}.new_number(current_ns) x(number)
            ON CONFLICT DO NOTHING RETURNING * INTO s;
            IF s.number IS NULL THEN
                busy := true;
                RETURN NEXT;
                CONTINUE;
            END IF;
        END IF;

        ahead := after_id;
        here := first_index;
        WHILE here <= last_index LOOP
            IF m_twin[here] > 0 THEN
                known_segment[here] := known_segment[m_twin[here]];
                known_position[here] := known_position[m_twin[here]];
            END IF;
            IF known_segment[here] IS NOT NULL THEN
                SELECT
                    CASE WHEN m.call = r_call[r] AND m_twin[here] = 0 THEN 'mine' ELSE 'old' END,
                    {schema}.id_before(s, known_segment[here], known_position[here]),
                    m.id, m.role, m.tokens, m.created_at, m.raw, m.derived,
                    (
                        SELECT e.message FROM {schema}.edits e
                        WHERE e.ns = s.ns AND e.segment = m.segment AND e.first = m.position AND e.kind = 'replaced'
                            AND e.message IS NOT NULL AND {schema}.inherits(s.ns, s.tree, e.tree, e.revision)
                        ORDER BY e.tree DESC, e.revision DESC LIMIT 1
                    )
                INTO code, ahead, id, role, tokens, created_at, raw, derived, edited
                FROM {schema}.messages m
                WHERE m.ns = s.ns AND m.segment = known_segment[here] AND m.position = known_position[here];
                RETURN NEXT;
                after_segment := known_segment[here];
                after_position := known_position[here];
                after_id := id;
                here := here + 1;
                CONTINUE;
            END IF;

            -- The messages from here until the next known one follow each other.
            IF t.number IS DISTINCT FROM after_segment THEN
                IF changed AND t.number IS NOT NULL THEN
                    PERFORM {schema}.save(s, t);
                END IF;
                SELECT * INTO t FROM {schema}.segments x WHERE x.ns = s.ns AND x.number = after_segment;
            END IF;
            extends := t.number IS NOT NULL AND t.tree = s.tree AND t.last = after_position AND t.next < 16777216;
            at_head := (after_segment, after_position) IS NOT DISTINCT FROM (s.head_segment, s.head_position);
            until := here;
            WHILE until < last_index AND until - here < 16777215 AND known_segment[until + 1] IS NULL
                AND m_twin[until + 1] = 0 AND (NOT extends OR t.next + until - here < 16777215)
            LOOP
                until := until + 1;
            END LOOP;
            IF NOT extends THEN
                IF changed AND t.number IS NOT NULL THEN
                    PERFORM {schema}.save(s, t);
                END IF;
                INSERT INTO {schema}.segments VALUES (
                    s.ns, {schema}.new_number(s.ns), s.tree, after_segment, after_position,
                    -1, 0, -1, 0
                ) RETURNING * INTO t;
                s.revision := s.revision + 1;
                IF after_segment IS NULL THEN
                    s.view := 'plain';
                    s.tail := 0;
                    s.view_tokens := 0;
                    s.view_messages := 0;
                ELSIF at_head AND s.view = 'stored' AND s.tail > after_position THEN
                    s.tail := 0;
                ELSE
                    s.view := 'stale';
                END IF;
            ELSIF NOT at_head THEN
                s.view := 'stale';
                s.revision := s.revision + 1;
            END IF;

            IF until = here THEN
                sum_tokens := m_tokens[here];
                INSERT INTO {schema}.messages VALUES (
                    s.ns, t.next, t.number, s.family, r_call[r], m_created_at[here], m_tokens[here],
                    t.tokens + sum_tokens, m_id[here], m_role[here], m_raw[here], m_derived[here]
                );
            ELSE
                INSERT INTO {schema}.messages
                SELECT s.ns, t.next + x.index - here, t.number, s.family, r_call[r], m_created_at[x.index],
                    m_tokens[x.index], t.tokens + sum(m_tokens[x.index]) OVER (ORDER BY x.index), m_id[x.index],
                    m_role[x.index], m_raw[x.index], m_derived[x.index]
                FROM generate_series(here, until) x(index);
                sum_tokens := (SELECT sum(x.tokens) FROM unnest(m_tokens[here:until]) x(tokens));
            END IF;
            IF met THEN
                FOR i IN here .. until LOOP
                    known_segment[i] := t.number;
                    known_position[i] := t.next + i - here;
                    code := 'new';
                    ahead := after_id;
                    RETURN NEXT;
                    after_id := m_id[i];
                END LOOP;
            END IF;

            t.next := t.next + until - here + 1;
            t.last := t.next - 1;
            t.tokens := t.tokens + sum_tokens;
            s.head_segment := t.number;
            s.head_position := t.last;
            head_id := m_id[until];
            head_at := 1;
            s.message_count := s.message_count + until - here + 1;
            s.view_messages := s.view_messages + until - here + 1;
            s.view_tokens := s.view_tokens + sum_tokens;
            s.last_active_at := greatest(s.last_active_at, r_now[r]);
            s.updated_at := greatest(s.updated_at, r_now[r]);
            changed := true;
            after_segment := t.number;
            after_position := t.last;
            after_id := head_id;
            here := until + 1;
        END LOOP;
        code := 'done';
        session := s;
        RETURN NEXT;
        session := NULL;
    END LOOP;
    IF changed THEN
        PERFORM {schema}.save(s, t);
    END IF;
END
$$;

-- Append requests that come grouped by session. Groups that only add new messages at the end of what the session owns, as
-- nearly all do, are appended together, by a few statements for all of them; the others by `append_each`. The former give
-- one row for the group: its first request, code "added", the id ahead of its first message, and the session.
--
-- For each group: its session, first request, and number of messages, sum of tokens and latest time of all its requests;
-- `g_plain` is false where a request is known to need more. The other arguments are those of `append_each`, and `m_group`.
CREATE FUNCTION {schema}.append(
    g_namespace text[], g_id text[], g_request integer[], g_size integer[], g_tokens bigint[], g_now bigint[],
    g_plain boolean[], r_group integer[], r_namespace text[], r_id text[], r_call bigint[], r_now bigint[],
    r_parent text[], r_expected text[], r_skip integer[], r_size integer[], m_group integer[], m_call bigint[],
    m_id text[], m_role text[], m_tokens bigint[], m_created_at bigint[], m_raw text[], m_derived text[],
    m_twin integer[], patient boolean
) RETURNS TABLE (
    request integer, code text, ahead text, id text, role text, tokens bigint, created_at bigint, raw text, derived text,
    edited text, session {schema}.sessions
)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    in_ns integer[];
    of_session bigint[];           -- null: not to be appended with the others
    of_family bigint[];
    to_segment bigint[];
    from_position integer[];
    from_tokens bigint[];
    head_id text[];
    known integer[];
    others integer[];
BEGIN
    IF NOT patient AND true = ANY (g_plain) THEN
        SELECT array_agg(n.number ORDER BY g.index), array_agg(s.number ORDER BY g.index)
        INTO in_ns, of_session
        FROM unnest(g_namespace, g_id, g_plain) WITH ORDINALITY g(namespace, id, plain, index)
            LEFT JOIN LATERAL (
                SELECT x.number FROM {schema}.namespaces x WHERE x.name = g.namespace OFFSET 0
            ) n ON true
            LEFT JOIN LATERAL (
                SELECT x.number FROM {schema}.sessions x
                WHERE g.plain AND x.ns = n.number AND x.id = g.id AND x.id <> '' FOR UPDATE SKIP LOCKED
            ) s ON true;

        -- A statement of its own: only what is read after the lock is current.
        SELECT array_agg(t.number ORDER BY g.index), array_agg(s.family ORDER BY g.index),
            array_agg(t.next ORDER BY g.index), array_agg(t.tokens ORDER BY g.index), array_agg(m.id ORDER BY g.index)
        INTO to_segment, of_family, from_position, from_tokens, head_id
        FROM unnest(in_ns, of_session, g_size) WITH ORDINALITY g(ns, session, size, index)
            LEFT JOIN LATERAL (
                SELECT x.tree, x.family, x.head_segment, x.head_position FROM {schema}.sessions x
                WHERE x.ns = g.ns AND x.number = g.session OFFSET 0
            ) s ON true
            LEFT JOIN LATERAL (
                SELECT x.number, x.next, x.tokens FROM {schema}.segments x
                WHERE x.ns = g.ns AND x.number = s.head_segment AND x.tree = s.tree AND x.last = s.head_position
                    AND x.next + g.size <= 16777216 OFFSET 0
            ) t ON true
            LEFT JOIN LATERAL (
                SELECT x.id FROM {schema}.messages x
                WHERE x.ns = g.ns AND x.segment = s.head_segment AND x.position = s.head_position OFFSET 0
            ) m ON true;

        known := ARRAY(
            SELECT m.in_group FROM unnest(m_group, m_id) m(in_group, id), LATERAL (
                SELECT FROM {schema}.messages x
                WHERE x.ns = in_ns[m.in_group] AND x.family = of_family[m.in_group] AND x.id = m.id LIMIT 1
            ) x
        );
        FOR i IN 1 .. cardinality(known) LOOP
            to_segment[known[i]] := NULL;
        END LOOP;

        INSERT INTO {schema}.messages
        SELECT in_ns[m.in_group], from_position[m.in_group] + (row_number() OVER this)::integer - 1,
            to_segment[m.in_group], of_family[m.in_group], m.call, m.created_at, m.tokens,
            from_tokens[m.in_group] + sum(m.tokens) OVER this, m.id, m.role, m.raw, m.derived
        FROM unnest(m_group, m_call, m_id, m_role, m_tokens, m_created_at, m_raw, m_derived)
            WITH ORDINALITY m(in_group, call, id, role, tokens, created_at, raw, derived, index)
        WHERE to_segment[m.in_group] IS NOT NULL
        WINDOW this AS (PARTITION BY m.in_group ORDER BY m.index);

        UPDATE {schema}.segments x
        SET last = g.first + g.size - 1, next = g.first + g.size, tokens = x.tokens + g.tokens
        FROM unnest(in_ns, to_segment, from_position, g_size, g_tokens) g(ns, segment, first, size, tokens)
        WHERE x.ns = g.ns AND x.number = g.segment;

        RETURN QUERY
        UPDATE {schema}.sessions x SET
            head_position = g.first + g.size - 1, message_count = x.message_count + g.size,
            view_tokens = x.view_tokens + g.tokens, view_messages = x.view_messages + g.size,
            updated_at = greatest(x.updated_at, g.now), last_active_at = greatest(x.last_active_at, g.now)
        FROM unnest(in_ns, of_session, to_segment, from_position, g_request, g_size, g_tokens, g_now, head_id)
            g(ns, session, segment, first, request, size, tokens, now, ahead)
        WHERE x.ns = g.ns AND x.number = g.session AND g.segment IS NOT NULL
        RETURNING g.request, 'added', g.ahead, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::text, NULL::text,
            NULL::text, x;
    END IF;

    others := ARRAY(
        SELECT r.index::integer FROM unnest(r_group) WITH ORDINALITY r(in_group, index)
        WHERE to_segment[r.in_group] IS NULL ORDER BY r.index
    );
    IF cardinality(others) > 0 THEN
        RETURN QUERY
        SELECT a.*
        FROM (
            SELECT array_agg(r_namespace[o.r] ORDER BY o.r) AS namespaces, array_agg(r_id[o.r] ORDER BY o.r) AS ids,
                array_agg(r_call[o.r] ORDER BY o.r) AS calls, array_agg(r_now[o.r] ORDER BY o.r) AS nows,
                array_agg(r_parent[o.r] ORDER BY o.r) AS parents, array_agg(r_expected[o.r] ORDER BY o.r) AS expected,
                array_agg(r_skip[o.r] ORDER BY o.r) AS skips, array_agg(r_size[o.r] ORDER BY o.r) AS sizes
            FROM unnest(others) o(r)
        ) q, {schema}.append_each(
            others, q.namespaces, q.ids, q.calls, q.nows, q.parents, q.expected, q.skips, q.sizes,
            m_id, m_role, m_tokens, m_created_at, m_raw, m_derived, m_twin, patient
        ) a;
    END IF;
END
$$;
