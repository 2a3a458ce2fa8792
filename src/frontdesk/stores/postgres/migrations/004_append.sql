-- Append requests that come grouped by session. Groups that only add new messages at the end of what the session owns,
-- as nearly all do, are appended together, by a few statements for all of them; the others by `append_each`. The former
-- give one row for the group: its first request, code "added", the id ahead of its first message, and the session.
--
-- For each group: its session, first request, number of messages, sum of tokens and latest time of all its requests;
-- `g_plain` is false where a request is known to need more. The other arguments are those of `append_each`, and
-- `m_group`.
CREATE FUNCTION {schema}.append(
    g_namespace text[], g_id text[], g_request integer[], g_size integer[], g_tokens bigint[], g_now bigint[],
    g_plain boolean[], r_group integer[], r_namespace text[], r_id text[], r_call bigint[], r_now bigint[],
    r_parent text[], r_expected text[], r_fence bigint[], r_dequeue boolean[], r_reopen boolean[], r_existing boolean[],
    r_skip integer[], r_size integer[], m_group integer[], m_call bigint[], m_id text[], m_role text[],
    m_tokens bigint[], m_created_at bigint[], m_raw text[], m_derived text[], m_twin integer[], patient boolean
) RETURNS TABLE (
    request integer, code text, ahead text, id text, role text, tokens bigint, created_at bigint, raw text,
    derived text, edited text, session {schema}.sessions
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
    last_xid bigint[];             -- of whoever wrote to the session last
    this_xid bigint;
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
            array_agg(t.next ORDER BY g.index), array_agg(t.tokens ORDER BY g.index), array_agg(m.id ORDER BY g.index),
            array_agg(s.changed_in ORDER BY g.index)
        INTO to_segment, of_family, from_position, from_tokens, head_id, last_xid
        FROM unnest(in_ns, of_session, g_size) WITH ORDINALITY g(ns, session, size, index)
            LEFT JOIN LATERAL (
                SELECT x.tree, x.family, x.head_segment, x.head_position, x.changed_in FROM {schema}.sessions x
                WHERE x.ns = g.ns AND x.number = g.session AND x.status = 'active' OFFSET 0
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

        this_xid := {schema}.this_xid();
        INSERT INTO {schema}.changes (ns, xid, position, at, session, segment, first, last, kind)
        SELECT g.ns, greatest(g.last_xid, this_xid), nextval('{schema}.change_positions'), g.now, g.session, g.segment,
            g.first, g.first + g.size - 1, 'message.appended'
        FROM unnest(in_ns, of_session, to_segment, from_position, g_size, g_now, last_xid)
            g(ns, session, segment, first, size, now, last_xid)
        WHERE g.segment IS NOT NULL;

        UPDATE {schema}.segments x
        SET last = g.first + g.size - 1, next = g.first + g.size, tokens = x.tokens + g.tokens
        FROM unnest(in_ns, to_segment, from_position, g_size, g_tokens) g(ns, segment, first, size, tokens)
        WHERE x.ns = g.ns AND x.number = g.segment;

        RETURN QUERY
        UPDATE {schema}.sessions x SET
            head_position = g.first + g.size - 1, message_count = x.message_count + g.size,
            view_tokens = x.view_tokens + g.tokens, view_messages = x.view_messages + g.size,
            updated_at = greatest(x.updated_at, g.now), last_active_at = greatest(x.last_active_at, g.now),
            changed_in = greatest(x.changed_in, this_xid)
        FROM unnest(in_ns, of_session, to_segment, from_position, g_request, g_size, g_tokens, g_now, head_id)
            g(ns, session, segment, first, request, size, tokens, now, ahead)
        WHERE x.ns = g.ns AND x.number = g.session AND g.segment IS NOT NULL
        RETURNING g.request, 'added', g.ahead, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::text,
            NULL::text, NULL::text, x;
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
                array_agg(r_fence[o.r] ORDER BY o.r) AS fences, array_agg(r_dequeue[o.r] ORDER BY o.r) AS dequeues,
                array_agg(r_reopen[o.r] ORDER BY o.r) AS reopens, array_agg(r_existing[o.r] ORDER BY o.r) AS existing,
                array_agg(r_skip[o.r] ORDER BY o.r) AS skips, array_agg(r_size[o.r] ORDER BY o.r) AS sizes
            FROM unnest(others) o(r)
        ) q, {schema}.append_each(
            others, q.namespaces, q.ids, q.calls, q.nows, q.parents, q.expected, q.fences, q.dequeues,
            q.reopens, q.existing, q.skips, q.sizes,
            m_id, m_role, m_tokens, m_created_at, m_raw, m_derived, m_twin, patient
        ) a;
    END IF;
END
$$;
