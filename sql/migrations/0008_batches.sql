-- The guard, made for many deliveries in one transaction: cheaper for each, and safe for all where one step misbehaves.

-- The same rules as before. A bounded repetition in a regular expression is what PostgreSQL's engine is slowest at: these
-- two checks took 40 µs for each row, ten times what the insert itself takes. Every stored row has passed the old ones.
ALTER DOMAIN skald.key DROP CONSTRAINT key_is_1_to_180_bytes_of_printable_ascii;
ALTER DOMAIN skald.key ADD CONSTRAINT key_is_1_to_180_bytes_of_printable_ascii
    CHECK (octet_length(VALUE) BETWEEN 1 AND 180 AND VALUE !~ '[^\x20-\x7e]') NOT VALID;
ALTER DOMAIN skald.step DROP CONSTRAINT step_is_a_name_with_an_optional_compensate;
ALTER DOMAIN skald.step ADD CONSTRAINT step_is_a_name_with_an_optional_compensate
    CHECK (VALUE = '' OR (octet_length(split_part(VALUE, '.', 1)) <= 48
                          AND VALUE ~ '^[a-z][a-z0-9-]*(\.compensate)?$')) NOT VALID;

-- As in 0005_control.sql, in fewer statements where nothing is unusual: no order for any saga, all of the items new.
CREATE OR REPLACE FUNCTION skald.claim(
    scopes text[], keys text[], steps text[], fingerprints bytea[],
    turns integer[] DEFAULT NULL, past_pivot boolean[] DEFAULT NULL, wait_ms integer DEFAULT NULL,
    deadlines timestamptz[] DEFAULT NULL)
RETURNS TABLE (ord integer, verdict text, attempts integer, held boolean, cause text, reason text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- A plan that was made while the table was small would be kept while it grows, until statistics are taken anew.
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    before  text := current_setting('lock_timeout');
    ignored text;
    paused  integer[];
    ordered integer[];  -- cancelled by an operator; their reasons, in the same order
    reasons text[];
    late    integer[];  -- their deadline has passed
    idle    integer[];  -- compensations with nothing to undo
    fresh   integer[];
BEGIN
    IF wait_ms IS NOT NULL THEN ignored := set_config('lock_timeout', wait_ms::text, true); END IF;

    IF EXISTS (SELECT FROM skald.control) THEN
        SELECT array_agg(w.o) FILTER (WHERE c.action = 'pause'),
               array_agg(w.o) FILTER (WHERE v.stops),
               array_agg(coalesce(c.reason, 'cancelled by ' || c.requested_by)) FILTER (WHERE v.stops)
          INTO paused, ordered, reasons
          FROM unnest(scopes, keys, steps) WITH ORDINALITY AS w(s, k, t, o)
          JOIN skald.control c ON c.scope = w.s AND c.key = w.k
         CROSS JOIN LATERAL (SELECT c.action = 'cancel' AND w.t NOT LIKE '%.compensate'
                                                        AND NOT coalesce(past_pivot[w.o], false)) AS v(stops)
         WHERE w.t <> '';
    END IF;

    BEGIN
        -- Insert first. FOR UPDATE on a row that does not exist locks nothing, so two would run (traps G3, F5); a
        -- caught unique_violation would have aborted the transaction (G1). The insert waits for another transaction
        -- that inserts the same key, and that makes the decision single. In key order, so that two batches can't
        -- deadlock on each other.
        WITH want AS (
            SELECT w.s, w.k, w.t, w.f, w.o
              FROM unnest(scopes, keys, steps, fingerprints) WITH ORDINALITY AS w(s, k, t, f, o)
             WHERE w.o <> ALL (coalesce(paused, '{}'))),
        inserted AS (
            INSERT INTO skald.idempotency AS i (scope, key, step, fingerprint)
            SELECT w.s, w.k, w.t, w.f FROM want w ORDER BY w.s, w.k, w.t
            ON CONFLICT DO NOTHING
            RETURNING i.scope, i.key, i.step),
        -- The same key twice in one call: the first item has it, the others are its duplicates.
        firsts AS (
            SELECT min(w.o) AS o
              FROM want w JOIN inserted i ON i.scope = w.s AND i.key = w.k AND i.step = w.t
             GROUP BY w.s, w.k, w.t)
        SELECT coalesce(array_agg(o), '{}') INTO fresh FROM firsts;

        -- A record whose status may still change is locked, so that two attempts of one step never overlap. Final ones
        -- are only read, further down: no transaction id, no WAL, no flush.
        IF cardinality(fresh) < cardinality(keys) THEN
            PERFORM FROM (SELECT w.s COLLATE "C" AS s, w.k COLLATE "C" AS k, w.t COLLATE "C" AS t
                            FROM unnest(scopes, keys, steps) AS w(s, k, t) ORDER BY 1, 2, 3) AS w
              CROSS JOIN LATERAL (SELECT FROM skald.idempotency i
                                   WHERE i.scope = w.s AND i.key = w.k AND i.step = w.t
                                     AND i.status IN ('started', 'retrying', 'parked')
                                     FOR UPDATE) AS locked;
        END IF;

        IF array_to_string(steps, ' ') LIKE '%.compensate%' THEN
            SELECT array_agg(o) INTO idle
              FROM (SELECT o FROM unnest(fresh) AS o WHERE steps[o] LIKE '%.compensate'
                     ORDER BY scopes[o] COLLATE "C", keys[o] COLLATE "C", steps[o] COLLATE "C" OFFSET 0) AS c
             WHERE NOT skald.undoable(scopes[o], keys[o], steps[o]);
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        -- Whoever has it may still roll back: busy is never a duplicate (G13). Nothing of this call was claimed.
        ignored := set_config('lock_timeout', before, true);
        RETURN QUERY SELECT o, 'in_flight', 0, false, NULL, NULL FROM generate_subscripts(keys, 1) AS o;
        RETURN;
    END;
    IF wait_ms IS NOT NULL THEN ignored := set_config('lock_timeout', before, true); END IF;

    -- Asked only now: what was waited for took its time.
    IF deadlines IS NOT NULL THEN
        SELECT array_agg(o) INTO late
          FROM generate_subscripts(keys, 1) AS o
         WHERE deadlines[o] <= clock_timestamp() AND steps[o] <> '' AND steps[o] NOT LIKE '%.compensate'
           AND NOT coalesce(past_pivot[o], false);
    END IF;

    IF idle IS NULL AND ordered IS NULL AND late IS NULL THEN
        RETURN QUERY SELECT o, 'fresh', 1, true, NULL, NULL FROM unnest(fresh) AS o;
    ELSE
        RETURN QUERY
        SELECT f.o, CASE WHEN w.cause IS NULL THEN 'fresh' ELSE 'cancelled' END, 1, true, w.cause,
               CASE w.cause WHEN 'operator' THEN reasons[array_position(ordered, f.o)]
                            WHEN 'deadline' THEN 'deadline passed' ELSE w.cause END
          FROM unnest(fresh) AS f(o)
         CROSS JOIN LATERAL (SELECT CASE WHEN f.o = ANY (idle) THEN 'nothing to undo'
                                         WHEN f.o = ANY (ordered) THEN 'operator'
                                         WHEN f.o = ANY (late) THEN 'deadline' END) AS w(cause);
    END IF;
    IF cardinality(fresh) = cardinality(keys) THEN RETURN; END IF;

    -- A later statement, so that its snapshot sees what the insert may have waited for.
    RETURN QUERY
    SELECT w.o::integer, v.verdict,
           coalesce(i.attempts, 0) + (v.verdict = 'retry')::integer,
           v.verdict = 'retry' OR v.stopped, c.cause,
           CASE c.cause WHEN 'operator' THEN reasons[array_position(ordered, w.o::integer)]
                        WHEN 'deadline' THEN 'deadline passed' END
      FROM unnest(scopes, keys, steps, fingerprints) WITH ORDINALITY AS w(s, k, t, f, o)
      LEFT JOIN LATERAL (SELECT i.status, i.fingerprint, i.attempts, i.snoozes FROM skald.idempotency i
                          WHERE i.scope = w.s AND i.key = w.k AND i.step = w.t LIMIT 1) AS i ON true
     CROSS JOIN LATERAL (SELECT w.o = ANY (coalesce(ordered, '{}')) OR w.o = ANY (coalesce(late, '{}'))) AS n(no)
     CROSS JOIN LATERAL (SELECT CASE
            WHEN w.o = ANY (paused) AND i.status IS NULL THEN 'paused'
            WHEN i.fingerprint <> w.f THEN 'mismatch'
            WHEN i.status IN ('completed', 'rejected') THEN 'duplicate'
            WHEN i.status = 'cancelled' THEN 'cancelled'
            WHEN i.status IN ('retrying', 'parked') AND turns[w.o] <= i.attempts + i.snoozes THEN 'duplicate'
            WHEN w.o = ANY (paused) THEN 'paused'
            WHEN i.status IN ('retrying', 'parked') AND n.no THEN 'cancelled'
            WHEN i.status IN ('retrying', 'parked') THEN 'retry'
            -- `started`: an external call is under way. No row: it was collected after the insert met it (G5).
            ELSE 'in_flight' END) AS t(verdict)
     CROSS JOIN LATERAL (SELECT t.verdict, t.verdict = 'cancelled' AND i.status <> 'cancelled') AS v(verdict, stopped)
     CROSS JOIN LATERAL (SELECT CASE WHEN NOT v.stopped THEN NULL
                                     WHEN w.o = ANY (ordered) THEN 'operator' ELSE 'deadline' END) AS c(cause)
     WHERE w.o <> ALL (fresh);
END $$;

-- A request's key. One that was answered before gets its answer at once, without an attempt to insert: an answer is final.
CREATE FUNCTION skald.claim_request(
    scope text, key text, fingerprint bytea, wait_ms integer,
    OUT verdict text, OUT attempts integer, OUT held boolean,
    OUT status_code smallint, OUT content_type text, OUT headers jsonb, OUT body bytea)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    FOR look IN 1..2 LOOP
        SELECT CASE WHEN i.fingerprint = claim_request.fingerprint THEN 'duplicate' ELSE 'mismatch' END, i.attempts, false,
               r.status_code, r.content_type, r.headers, r.body
          INTO verdict, attempts, held, status_code, content_type, headers, body
          FROM skald.idempotency i JOIN skald.response r ON r.scope = i.scope AND r.key = i.key
         WHERE i.scope = claim_request.scope AND i.key = claim_request.key AND i.step = '' AND i.status = 'completed';
        IF FOUND THEN RETURN; END IF;

        SELECT c.verdict, c.attempts, c.held INTO verdict, attempts, held
          FROM skald.claim(ARRAY[claim_request.scope], ARRAY[claim_request.key], ARRAY[''],
                           ARRAY[claim_request.fingerprint], wait_ms => claim_request.wait_ms) AS c;
        -- A duplicate of one that committed while the claim waited for it: now its answer can be seen.
        EXIT WHEN verdict <> 'duplicate';
    END LOOP;
END $$;

-- A step that runs COMMIT in the middle of a batch would commit its neighbours' records, which say `completed`, without
-- their effects. While `skald.batch_is_open` is on, COMMIT fails; what finishes the batch switches it off.
CREATE FUNCTION skald.refuse_open_batch() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('skald.batch_is_open', true) = 'on' THEN
        RAISE EXCEPTION 'a step ran COMMIT itself'
              USING ERRCODE = 'invalid_transaction_termination',
                    HINT = 'A step must not run COMMIT or ROLLBACK: Skald commits it.';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER batch_is_finished AFTER INSERT ON skald.idempotency
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (current_setting('skald.batch_is_open', true) = 'on')
    EXECUTE FUNCTION skald.refuse_open_batch();
