-- What a start costs, of which many come in one statement where sagas are started by SQL.

-- As in 0003_outbox.sql, with a plan that is kept: an SQL function is planned anew at each call, which took longer than its row.
CREATE OR REPLACE FUNCTION skald.enqueue(
    destination text, type text, idempotency_key text, payload bytea,
    headers jsonb DEFAULT '{}', scope text DEFAULT '', delay interval DEFAULT '0',
    aggregatetype text DEFAULT 'message', aggregateid text DEFAULT NULL,
    content_type text DEFAULT 'application/json')
RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    row_id bigint;
BEGIN
    INSERT INTO skald.outbox AS o
        (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination, due_at)
    VALUES (aggregatetype, coalesce(aggregateid, idempotency_key), type, payload, scope, idempotency_key, headers,
            content_type, destination, clock_timestamp() + delay)
    RETURNING o.id INTO row_id;
    RETURN row_id;
END $$;

-- As in 0005_control.sql. Of a key that is new there is nothing to ask: no order and no deadline stops a start, and its record
-- is inserted as skald.claim() would. Only a key that is not new goes there for its verdict.
CREATE OR REPLACE FUNCTION skald.start(
    scope text, key text, definition text, version integer, data jsonb, itinerary text, fingerprint bytea,
    destination text, type text, payload bytea, headers jsonb, deadline interval DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    decided text := 'fresh';
    home    text := (SELECT name FROM skald.service);
    ends    timestamptz;
BEGIN
    IF home IS NULL THEN
        RAISE EXCEPTION 'no service owns this database yet'
              USING HINT = 'Start its worker once, or run `skald migrate --service NAME`.';
    END IF;
    IF deadline <= interval '0' THEN
        RAISE EXCEPTION 'a deadline is later than now: % is not', deadline USING ERRCODE = 'invalid_parameter_value';
    END IF;
    BEGIN
        INSERT INTO skald.idempotency AS i (scope, key, step, fingerprint) VALUES (scope, key, '', fingerprint)
        ON CONFLICT DO NOTHING;
    EXCEPTION WHEN lock_not_available THEN
        RETURN 'in_flight';  -- whoever has it may still roll back
    END;
    IF NOT FOUND THEN
        SELECT c.verdict INTO decided FROM skald.claim(ARRAY[scope], ARRAY[key], ARRAY[''], ARRAY[fingerprint]) AS c;
    END IF;
    IF decided = 'fresh' THEN
        ends := clock_timestamp() + deadline;
        INSERT INTO skald.saga AS s (scope, key, definition, version, data, itinerary, deadline_at)
        VALUES (scope, key, definition, version, data, itinerary, ends);
        PERFORM skald.enqueue(destination, type, key || ':' || type, payload,
                              headers || jsonb_build_object('x-saga-home', home) ||
                                  CASE WHEN ends IS NULL THEN '{}' ELSE
                                      jsonb_build_object('x-saga-deadline', skald.instant(ends)) END,
                              scope, aggregatetype => definition, aggregateid => key);
    END IF;
    RETURN decided;
END $$;
