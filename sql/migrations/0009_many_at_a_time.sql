-- What many deliveries at a time still paid for each alone.

-- As in 0004_home.sql, but reports that say `completed`, as nearly all of the last ones do, move their sagas in one statement.
-- One skald.advance() for each was half of all that a saga cost its home's database under load.
CREATE OR REPLACE FUNCTION skald.note_progress(members jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- A plan that was made while the tables were small would be kept while they grow, until statistics are taken anew.
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    -- In key order, so that two that take in reports of the same sagas can't deadlock on each other.
    INSERT INTO skald.progress AS p (scope, key, step, service, status, attempts, error, at)
    SELECT DISTINCT ON (m.scope, m.key, m.step)
           m.scope, m.key, m.step, m.service, m.status::skald.step_status, m.attempts, m.error, m.at
      FROM jsonb_to_recordset(members)
           AS m(scope text COLLATE "C", key text COLLATE "C", step text COLLATE "C", service text, status text,
                attempts integer, error text, at timestamptz)
     ORDER BY m.scope, m.key, m.step, m.at DESC
    ON CONFLICT ON CONSTRAINT progress_once DO UPDATE
       SET service = excluded.service, status = excluded.status, attempts = excluded.attempts,
           error = excluded.error, at = excluded.at
     WHERE excluded.at > p.at;

    -- What skald.advance() does where a saga is completed. That is final, so that what else is told of it comes to nothing.
    UPDATE skald.saga s
       SET status = 'completed', reason = NULL, updated_at = clock_timestamp(), finished_at = clock_timestamp()
      FROM (SELECT DISTINCT m.scope, m.key
              FROM jsonb_to_recordset(members) AS m(scope text COLLATE "C", key text COLLATE "C", saga text)
             WHERE m.saga = 'completed' ORDER BY m.scope, m.key) AS m
     WHERE s.scope = m.scope AND s.key = m.key AND s.status NOT IN ('completed', 'compensated');

    PERFORM skald.advance(m.scope, m.key, m.saga, m.reason)
       FROM jsonb_to_recordset(members) AS m(scope text, key text, saga text, reason text)
      WHERE m.saga <> 'completed';
END $$;

-- As in 0008_batches.sql, and it asks which of the keys are new only where not all of them are.
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
        SELECT CASE WHEN (SELECT count(*) FROM inserted) = cardinality(keys) THEN ARRAY(SELECT generate_subscripts(keys, 1))
                    ELSE (SELECT coalesce(array_agg(o), '{}') FROM firsts) END
          INTO fresh;

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

-- As in 0008_batches.sql, armed by the first record of a batch alone: one that fails COMMIT is enough. Where that record is
-- rolled back to a savepoint, so is the setting, and the next one arms it.
CREATE OR REPLACE FUNCTION skald.refuse_open_batch() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('skald.batch_is_open', true) IN ('on', 'armed') THEN
        RAISE EXCEPTION 'a step ran COMMIT itself'
              USING ERRCODE = 'invalid_transaction_termination',
                    HINT = 'A step must not run COMMIT or ROLLBACK: Skald commits it.';
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER batch_is_finished ON skald.idempotency;
CREATE CONSTRAINT TRIGGER batch_is_finished AFTER INSERT ON skald.idempotency
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (CASE WHEN current_setting('skald.batch_is_open', true) = 'on'
               THEN set_config('skald.batch_is_open', 'armed', true) = 'armed' ELSE false END)
    EXECUTE FUNCTION skald.refuse_open_batch();
