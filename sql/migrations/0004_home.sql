-- What a saga's home does: starts it, and learns from the other services how it goes.

-- Starts a saga as part of the caller's transaction. `fresh`: it is started. `duplicate`: this key has started it before.
-- `mismatch`: the key was used for something else. `in_flight`: another transaction is starting it now.
CREATE FUNCTION skald.start(
    scope text, key text, definition text, version integer, data jsonb, itinerary text, fingerprint bytea,
    destination text, type text, payload bytea, headers jsonb)
RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    decided text;
    home    text := (SELECT name FROM skald.service);
BEGIN
    IF home IS NULL THEN
        RAISE EXCEPTION 'no service owns this database yet'
              USING HINT = 'Start its worker once, or run `skald migrate --service NAME`.';
    END IF;
    SELECT c.verdict INTO decided FROM skald.claim(ARRAY[scope], ARRAY[key], ARRAY[''], ARRAY[fingerprint]) AS c;
    IF decided = 'fresh' THEN
        INSERT INTO skald.saga AS s (scope, key, definition, version, data, itinerary)
        VALUES (scope, key, definition, version, data, itinerary);
        PERFORM skald.enqueue(destination, type, key || ':' || type, payload,
                              headers || jsonb_build_object('x-saga-home', home), scope,
                              aggregatetype => definition, aggregateid => key);
    END IF;
    RETURN decided;
END $$;

-- Moves a saga's status by what is known of its steps. Final states are never left. `stuck` is left by the step that
-- was parked when it goes on: it is stuck exactly while one of its steps is parked.
CREATE FUNCTION skald.advance(for_scope text, for_key text, wanted text, why text) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE skald.saga s
       SET status      = n.status,
           -- Of a walk back, the first reason is the one that counts; of what goes well there is none.
           reason      = CASE WHEN n.status IN ('running', 'completed') THEN NULL
                              WHEN n.status = 'stuck' THEN coalesce(why, s.reason)
                              ELSE coalesce(s.reason, why) END,
           updated_at  = clock_timestamp(),
           finished_at = CASE WHEN n.status IN ('completed', 'compensated') THEN clock_timestamp() END
      FROM (SELECT CASE
                WHEN wanted IN ('completed', 'compensated') THEN wanted::skald.saga_status
                WHEN EXISTS (SELECT FROM skald.progress p
                              WHERE p.scope = for_scope AND p.key = for_key AND p.status = 'parked')
                  OR EXISTS (SELECT FROM skald.idempotency i
                              WHERE i.scope = for_scope AND i.key = for_key AND i.status = 'parked') THEN 'stuck'
                WHEN EXISTS (SELECT FROM skald.progress p
                              WHERE p.scope = for_scope AND p.key = for_key
                                AND (p.status IN ('rejected', 'cancelled') OR p.step LIKE '%.compensate'))
                  OR EXISTS (SELECT FROM skald.idempotency i
                              WHERE i.scope = for_scope AND i.key = for_key
                                AND (i.status IN ('rejected', 'cancelled') OR i.step LIKE '%.compensate'))
                  THEN 'compensating'
                ELSE 'running' END::skald.saga_status AS status) n
     WHERE s.scope = for_scope AND s.key = for_key
       AND s.status NOT IN ('completed', 'compensated')
       AND (s.status <> n.status OR (why IS NOT NULL AND s.reason IS NULL AND n.status <> 'running'));
$$;

-- Takes in what other services report of their steps: members as {scope, key, step, service, status, attempts, at} and,
-- where it changed, the saga's state with its reason. A later report wins whatever the order of arrival.
CREATE FUNCTION skald.note_progress(members jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO skald.progress AS p (scope, key, step, service, status, attempts, error, at)
    SELECT DISTINCT ON (m.scope, m.key, m.step)
           m.scope, m.key, m.step, m.service, m.status::skald.step_status, m.attempts, m.error, m.at
      FROM jsonb_to_recordset(members)
           AS m(scope text, key text, step text, service text, status text, attempts integer, error text, at timestamptz)
     ORDER BY m.scope, m.key, m.step, m.at DESC
    ON CONFLICT ON CONSTRAINT progress_once DO UPDATE
       SET service = excluded.service, status = excluded.status, attempts = excluded.attempts,
           error = excluded.error, at = excluded.at
     WHERE excluded.at > p.at;

    PERFORM skald.advance(m.scope, m.key, m.saga, m.reason)
       FROM jsonb_to_recordset(members) AS m(scope text, key text, saga text, reason text)
      WHERE m.saga IS NOT NULL;
END $$;
