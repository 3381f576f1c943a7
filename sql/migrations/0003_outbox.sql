-- Messages of any language: skald.enqueue() puts one into the outbox, as part of the caller's transaction. It leaves
-- if and only if that transaction commits, at least once, and stays here until the broker has confirmed it.
--
--   SELECT skald.enqueue('shipping', 'arrange-shipping', 'order-42:arrange-shipping', '{"id":"42"}',
--                        headers => '{"x-saga": "place-order"}', delay => '5 s');
CREATE FUNCTION skald.enqueue(
    destination text, type text, idempotency_key text, payload bytea,
    headers jsonb DEFAULT '{}', scope text DEFAULT '', delay interval DEFAULT '0',
    aggregatetype text DEFAULT 'message', aggregateid text DEFAULT NULL,
    content_type text DEFAULT 'application/json')
RETURNS bigint
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO skald.outbox
        (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination, due_at)
    VALUES (aggregatetype, coalesce(aggregateid, idempotency_key), type, payload, scope, idempotency_key, headers,
            content_type, destination, clock_timestamp() + delay)
    RETURNING id;
$$;

-- A poll sees rows come and go all day; the table must stay small whatever autovacuum's defaults are.
ALTER TABLE skald.outbox SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
                              autovacuum_vacuum_cost_delay = 0);
