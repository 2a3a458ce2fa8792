-- Append any requests, one after the other. They come sorted by session, those of one session in the order of their
-- arrival; `r_number` is what a request is called in the answer, its messages are the r_size[r] after the first
-- r_skip[r]. `r_parent` is an id, null to follow the head, '' for a new root (no id is empty); `m_twin` is the index of
-- an earlier message of the request with the same id, or 0. A session that is locked by others is waited for if
-- `patient`, and its requests come back as "busy" otherwise, with nothing done for them.
--
-- Gives one row for each request: code "done" with the id ahead of its first message and the session, "head" with the
-- actual head, "fence", "gone", "parent", "ended" with the session, or "busy"; "made" is a "done" that made the
-- session. Ahead of a "done" that met known messages, one row for each message: "new", "old", or "mine" for one that
-- this very call had written before (its answer was lost).
CREATE FUNCTION {schema}.append_each(
    r_number integer[], r_namespace text[], r_id text[], r_call bigint[], r_now bigint[], r_parent text[],
    r_expected text[], r_fence bigint[], r_dequeue boolean[], r_reopen boolean[], r_existing boolean[],
    r_skip integer[], r_size integer[],
    m_id text[], m_role text[], m_tokens bigint[], m_created_at bigint[], m_raw text[], m_derived text[],
    m_twin integer[], patient boolean
) RETURNS TABLE (
    request integer, code text, ahead text, id text, role text, tokens bigint, created_at bigint, raw text,
    derived text, edited text, session {schema}.sessions
)
LANGUAGE plpgsql SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    s {schema}.sessions;           -- the session of the request, as changed so far
    t {schema}.segments;           -- the segment that was last written to, as changed so far
    current_ns integer;
    busy boolean := false;
    made boolean;                  -- whether the request makes the session
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
    this_xid bigint := {schema}.this_xid();
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
                SELECT * INTO s FROM {schema}.sessions x WHERE x.ns = current_ns AND x.id = r_id[r] AND x.id <> ''
                FOR UPDATE;
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

        IF r_fence[r] IS NOT NULL AND NOT {schema}.has_turn(s.ns, s.number, r_fence[r]) THEN
            code := 'fence';
            RETURN NEXT;
            CONTINUE;
        END IF;

        IF r_existing[r] AND s.number IS NULL THEN
            code := 'gone';
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

        IF any_new AND s.status <> 'active' AND s.end_reason IS DISTINCT FROM 'timeout' AND NOT r_reopen[r] THEN
            code := 'ended';
            session := s;
            RETURN NEXT;
            session := NULL;
            CONTINUE;
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

        made := s.number IS NULL;
        IF any_new AND s.status <> 'active' THEN
            s := {schema}.wake(s, r_now[r]);
        END IF;
        IF made THEN
            -- Another transaction may have made it at this moment: this one has waited for it, and comes again.
            INSERT INTO {schema}.sessions (
                ns, number, id, tree, family, created_at, updated_at, last_active_at, changed_in
            )
            SELECT current_ns, x.number, r_id[r], x.number, x.number, r_now[r], r_now[r], r_now[r], this_xid
            FROM {schema}.new_number(current_ns) x(number)
            ON CONFLICT DO NOTHING RETURNING * INTO s;
            IF s.number IS NULL THEN
                busy := true;
                RETURN NEXT;
                CONTINUE;
            END IF;
            INSERT INTO {schema}.changes (ns, xid, position, at, session, kind)
            VALUES (s.ns, this_xid, nextval('{schema}.change_positions'), r_now[r], s.number, 'session.created');
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
            s.changed_in := greatest(s.changed_in, this_xid);
            INSERT INTO {schema}.changes (ns, xid, position, at, session, segment, first, last, kind) VALUES (
                s.ns, s.changed_in, nextval('{schema}.change_positions'), r_now[r], s.number,
                t.number, t.next, t.next + until - here, 'message.appended'
            );
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
        IF r_dequeue[r] THEN
            DELETE FROM {schema}.queued_messages q WHERE q.ns = s.ns AND q.session = s.number AND q.name = 'turn'
                AND q.id = ANY (m_id[first_index:last_index]);
        END IF;
        code := CASE WHEN made THEN 'made' ELSE 'done' END;
        session := s;
        RETURN NEXT;
        session := NULL;
    END LOOP;
    IF changed THEN
        PERFORM {schema}.save(s, t);
    END IF;
END
$$;
