-- A start refuses what its messages could not carry: a deadline beyond the year 9999, whose form has no room for it, made the
-- saga malformed at its first step.

-- As in 0013_start.sql, with these two checks.
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
    IF extract(epoch FROM deadline) > 31557600000 THEN
        RAISE EXCEPTION 'a deadline is at most 1000 years from now: % is more', deadline
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF version NOT BETWEEN 1 AND 2000000000 THEN
        RAISE EXCEPTION 'a version is 1 to 2000000000: % is not', version USING ERRCODE = 'invalid_parameter_value';
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
