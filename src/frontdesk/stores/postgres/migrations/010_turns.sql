-- Who waits for a lease of a session, in the order of their tickets, and what is queued for whoever holds it. All
-- changes of the two tables are made under a lock of the lease's row.

CREATE TABLE {schema}.lease_waiters (
    ns integer NOT NULL,
    session bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    ticket bigint NOT NULL,
    holder text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (ns, session, name, ticket)
);

CREATE TABLE {schema}.queued_messages (
    ns integer NOT NULL,
    session bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    ticket bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    role text NOT NULL,
    tokens bigint NOT NULL,
    created_at bigint NOT NULL,
    raw text NOT NULL,
    derived text,
    PRIMARY KEY (ns, session, name, ticket)
);

-- Whether the turn of a session is held under a number. A takeover then waits until this transaction has ended.
CREATE FUNCTION {schema}.has_turn(in_ns integer, of_session bigint, under_number bigint) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM {schema}.leases l WHERE l.ns = in_ns AND l.session = of_session AND l.name = 'turn'
        AND l.number = under_number AND l.expires_at > clock_timestamp() FOR SHARE;
    RETURN FOUND;
END
$$;

-- Take a lease, or a place in the line for it, or (`m_id` is not null) leave a message for its holder. `known` is false
-- if there is no such session; `lease` is null if nobody holds it.
CREATE FUNCTION {schema}.queue_lease(
    in_namespace text, in_session text, in_name text, in_holder text, ttl interval, patience interval, forced boolean,
    m_id text, m_role text, m_tokens bigint, m_created_at bigint, m_raw text, m_derived text,
    OUT known boolean, OUT lease {schema}.leases, OUT ticket bigint, OUT ahead bigint, OUT queued boolean
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    in_ns integer;
    of_session bigint;
    at_time timestamptz;
    mine {schema}.lease_waiters;
BEGIN
    queued := false;
    LOOP
        SELECT s.ns, s.number INTO in_ns, of_session
        FROM {schema}.namespaces n JOIN {schema}.sessions s ON s.ns = n.number
        WHERE n.name = in_namespace AND s.id = in_session AND s.id <> '';
        known := FOUND;
        IF NOT known THEN
            RETURN;
        END IF;

        -- Nearly all calls are of those who wait on: nothing is locked or written for them.
        SELECT w.* INTO mine FROM {schema}.lease_waiters w
        WHERE w.ns = in_ns AND w.session = of_session AND w.name = in_name AND w.holder = in_holder;
        IF mine.expires_at > clock_timestamp() + patience * 2 / 3 AND m_id IS NULL AND NOT forced THEN
            SELECT l.* INTO lease FROM {schema}.leases l
            WHERE l.ns = in_ns AND l.session = of_session AND l.name = in_name AND l.expires_at > clock_timestamp()
                AND l.holder <> in_holder;
            IF FOUND THEN
                ticket := mine.ticket;
                ahead := (
                    SELECT count(*) FROM {schema}.lease_waiters w WHERE w.ns = in_ns AND w.session = of_session
                        AND w.name = in_name AND w.ticket < mine.ticket AND w.expires_at > clock_timestamp()
                );
                RETURN;
            END IF;
        END IF;

        SELECT l.* INTO lease FROM {schema}.leases l
        WHERE l.ns = in_ns AND l.session = of_session AND l.name = in_name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO {schema}.leases (ns, session, name, number, holder, expires_at)
        SELECT s.ns, s.number, in_name, extract(epoch FROM clock_timestamp()) * 1000000, '', 'epoch'
        FROM {schema}.sessions s WHERE s.ns = in_ns AND s.number = of_session FOR KEY SHARE
        ON CONFLICT DO NOTHING;
    END LOOP;

    at_time := clock_timestamp();
    ahead := 0;
    IF lease.expires_at > at_time AND lease.holder = in_holder THEN
        RETURN;
    END IF;
    DELETE FROM {schema}.lease_waiters w WHERE w.ns = in_ns AND w.session = of_session AND w.name = in_name
        AND w.expires_at <= at_time AND w.holder <> in_holder;
    SELECT w.* INTO mine FROM {schema}.lease_waiters w
    WHERE w.ns = in_ns AND w.session = of_session AND w.name = in_name AND w.holder = in_holder;
    ahead := (
        SELECT count(*) FROM {schema}.lease_waiters w WHERE w.ns = in_ns AND w.session = of_session
            AND w.name = in_name AND (mine.ticket IS NULL OR w.ticket < mine.ticket)
    );
    IF forced OR (lease.expires_at <= at_time AND ahead = 0) THEN
        UPDATE {schema}.leases l SET number = l.number + 1, holder = in_holder, expires_at = at_time + ttl,
            taken_at = at_time, intake = true
        WHERE l.ns = in_ns AND l.session = of_session AND l.name = in_name RETURNING l.* INTO lease;
        ahead := 0;
    ELSIF m_id IS NOT NULL AND lease.expires_at > at_time AND lease.intake THEN
        queued := true;
    ELSE
        ticket := mine.ticket;
        IF patience > interval '0' AND ticket IS NULL THEN
            ticket := {schema}.new_number(in_ns);
            INSERT INTO {schema}.lease_waiters VALUES (
                in_ns, of_session, in_name, ticket, in_holder, at_time + patience
            );
        ELSIF patience > interval '0' THEN
            UPDATE {schema}.lease_waiters w SET expires_at = at_time + patience WHERE w.ns = in_ns
                AND w.session = of_session AND w.name = in_name AND w.ticket = mine.ticket;
        END IF;
        IF lease.expires_at <= at_time THEN
            lease := NULL;
        END IF;
        RETURN;
    END IF;
    DELETE FROM {schema}.lease_waiters w WHERE w.ns = in_ns AND w.session = of_session AND w.name = in_name
        AND w.ticket = mine.ticket;
    IF m_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM {schema}.queued_messages q
        WHERE q.ns = in_ns AND q.session = of_session AND q.name = in_name AND q.id = m_id
    ) THEN
        INSERT INTO {schema}.queued_messages VALUES (
            in_ns, of_session, in_name, {schema}.new_number(in_ns), m_id, m_role, m_tokens, m_created_at, m_raw,
            m_derived
        );
    END IF;
END
$$;

-- The message that was queued first for the holder of a lease; if there is none, its intake is closed. `held` is false
-- if the lease is not held under this number.
CREATE FUNCTION {schema}.next_queued(
    in_namespace text, in_session text, in_name text, under_number bigint,
    OUT held boolean, OUT message {schema}.queued_messages
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    lease {schema}.leases;
BEGIN
    SELECT l.* INTO lease
    FROM {schema}.namespaces n JOIN {schema}.sessions s ON s.ns = n.number
        JOIN {schema}.leases l ON l.ns = s.ns AND l.session = s.number
    WHERE n.name = in_namespace AND s.id = in_session AND s.id <> '' AND l.name = in_name
        AND l.number = under_number AND l.expires_at > clock_timestamp() FOR UPDATE OF l;
    held := FOUND;
    -- A statement of its own: only what is read after the lock is current.
    SELECT q.* INTO message FROM {schema}.queued_messages q
    WHERE q.ns = lease.ns AND q.session = lease.session AND q.name = in_name ORDER BY q.ticket LIMIT 1;
    IF held AND NOT FOUND THEN
        UPDATE {schema}.leases l SET intake = false
        WHERE l.ns = lease.ns AND l.session = lease.session AND l.name = in_name;
    END IF;
END
$$;
