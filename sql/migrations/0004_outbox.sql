-- Messages from any language: skald.enqueue() puts one into the outbox, as part of the caller's transaction. It is sent if and only if that
-- transaction commits, at least once, and stays here until the broker has confirmed it.
--
--   SELECT skald.enqueue('shipping', 'arrange-shipping', 'order-42:arrange-shipping', '{"id":"42"}',
--                        headers => '{"x-saga": "place-order"}', delay => '5 s');
--
-- A message that is neither a step's nor Skald's own is kept if no queue is bound for it, unless the caller says otherwise. In PL/pgSQL,
-- whose plans are cached: an SQL function is planned at each call, which took longer than inserting its row.
CREATE FUNCTION skald.enqueue(
    destination text, type text, idempotency_key text, payload bytea,
    headers jsonb DEFAULT '{}', scope text DEFAULT '', delay interval DEFAULT '0',
    aggregatetype text DEFAULT 'message', aggregateid text DEFAULT NULL,
    content_type text DEFAULT 'application/json', if_unrouted text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    row_id bigint;
BEGIN
    IF octet_length(payload) > 1048576 THEN
        RAISE EXCEPTION 'the payload of % has % bytes: at most 1048576 (1 MiB) may be sent', type, octet_length(payload)
              USING ERRCODE = 'program_limit_exceeded', HINT = 'Keep what is large elsewhere, and send where it is.';
    END IF;
    IF if_unrouted IS NULL AND NOT headers ? 'x-saga-itinerary' AND type NOT LIKE 'skald.%' THEN
        if_unrouted := 'keep';
    END IF;
    INSERT INTO skald.outbox AS o
        (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination, due_at,
         if_unrouted)
    VALUES (aggregatetype, coalesce(aggregateid, idempotency_key), type, payload, scope, idempotency_key, headers,
            content_type, destination, clock_timestamp() + delay, if_unrouted)
    RETURNING o.id INTO row_id;
    IF row_id IS NULL THEN PERFORM skald.assert_written('skald.outbox', 1, 0); END IF;
    RETURN row_id;
END $$;

-- Makes all messages of a saga that wait in this outbox due now. What a relay has already taken is under way.
CREATE FUNCTION skald.wake(of_scope text, of_key text, of_home text) RETURNS bigint
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    WITH waiting AS MATERIALIZED (
        SELECT id FROM skald.outbox
         WHERE scope = of_scope AND aggregateid = of_key AND due_at > clock_timestamp()
           AND coalesce(headers->>'x-saga-home' = of_home, true)
           FOR UPDATE SKIP LOCKED),
    gone AS (
        DELETE FROM skald.outbox o USING waiting w WHERE o.id = w.id RETURNING o.*),
    again AS (
        INSERT INTO skald.outbox
            (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination,
             due_at, attempts, error, created_at, if_unrouted)
        SELECT aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination,
               clock_timestamp(), attempts, error, created_at, if_unrouted
          FROM gone
        RETURNING 1)
    SELECT (SELECT count(*) FROM again)
      FROM skald.assert_written('skald.outbox', (SELECT count(*) FROM gone), (SELECT count(*) FROM again))
$$;

-- Whether more than `rows_max` rows wait that are due by `due_until`, without counting past that. No row is left before `due_from`: the
-- count begins there, and does not walk over dead rows. While another session holds a snapshot open there may be a million of them,
-- followed by only a few live rows (traps R11).
CREATE FUNCTION skald.outbox_is_over(rows_max bigint, due_from timestamptz, due_until timestamptz DEFAULT 'infinity')
RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
-- Use the index on due_at: a plan made while the table was small would be kept as it grows.
SET enable_seqscan = off
SET jit = off
SET enable_bitmapscan = off
AS $$
    SELECT count(*) > rows_max
      FROM (SELECT FROM skald.outbox WHERE due_at >= due_from AND due_at <= due_until ORDER BY due_at LIMIT rows_max + 1) AS o
$$;
