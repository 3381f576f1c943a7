-- The guard: skald.claim(), for any language. Call it first in a transaction (READ COMMITTED), do the work that must
-- happen once, and COMMIT: the record and the work become visible together, or neither.
--
--   BEGIN;
--   SELECT * FROM skald.claim(ARRAY[''], ARRAY['order-42'], ARRAY['charge-payment'], ARRAY[sha256('{...}')]);
--    ord | result | attempts | held | cause | reason
--   -----+---------+----------+------+-------+--------
--      1 | fresh   |        1 | t    |       |
--   UPDATE wallet SET ...;
--   SELECT skald.enqueue('shipping', 'arrange-shipping', 'order-42:arrange-shipping', '{...}');
--   COMMIT;
--
-- One result for each item:
-- fresh      no one has run it: run it now                                                  held
--   retry      it failed or was snoozed before: run it now; `attempts` is this one's number   held
--   duplicate  it is decided, or this fencing token is already recorded: acknowledge it and do nothing
--   in_flight  another transaction has it now: ask again later; never take it for done
--   mismatch   the key was used before with another body or, where `cause` is `home`, for a saga of the home that `reason` names
--   cancelled  it must not run. held: record it as `cancelled` and pass on what follows; not held: that has been done,
--              acknowledge it and do nothing
--   paused     an operator paused the saga: ask again later
--   closed     an operator closed the saga: park it for someone to look at; it must not run any more
-- `held` says that this transaction holds the record, and that its COMMIT makes the outcome final.
--
-- fencing_tokens: the item's fencing token, from 1: attempts + snoozes, as the message says. A token that is already recorded
--   makes the item a duplicate; NULL runs whatever may run.
-- past_pivot: true where a command to cancel no longer applies.
-- wait_ms: how long to wait for a transaction that has the same key; NULL keeps the session's lock_timeout.
-- deadlines: the time from which the item must not run any more; NULL for none. It counts where a command to cancel does: not
--   past the pivot, and not for a compensation.
-- homes: the home of the item's saga; NULL, for an item or for all: it is not known, and not compared.
-- cause: why a result is `cancelled` and held: `operator`, `deadline`, or `nothing to undo`; reason: the same for people.
--
-- A single claim decides: a step that gets its record before its deadline runs to its end, and one whose deadline has passed at the claim
-- never runs. A result and a deadline can't both win.
CREATE FUNCTION skald.claim(
    scopes text[], keys text[], steps text[], fingerprints bytea[],
    fencing_tokens integer[] DEFAULT NULL, past_pivot boolean[] DEFAULT NULL, wait_ms integer DEFAULT NULL,
    deadlines timestamptz[] DEFAULT NULL, homes text[] DEFAULT NULL)
RETURNS TABLE (ord integer, result text, attempts integer, held boolean, cause text, reason text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- A plan made while the table was small would be kept as it grows, until statistics are gathered again.
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    before  text := current_setting('lock_timeout');
    ignored text;
    paused  integer[];
    closed  integer[];  -- of a saga that was closed: not part of `paused`
    ordered integer[];  -- cancelled by an operator; their reasons, in the same order
    reasons text[];
    late    integer[];  -- their deadline has passed
    idle    integer[];  -- compensations with nothing to undo
    theirs  integer[];  -- compensations of a step that was another home's
    fresh   integer[];
BEGIN
    IF wait_ms IS NOT NULL THEN ignored := set_config('lock_timeout', wait_ms::text, true); END IF;

    IF EXISTS (SELECT FROM skald.control) THEN
        SELECT array_agg(w.o) FILTER (WHERE c.action = 'pause'),
               array_agg(w.o) FILTER (WHERE c.action = 'close'),
               array_agg(w.o) FILTER (WHERE v.stops),
               array_agg(coalesce(c.reason, 'cancelled by ' || c.requested_by)) FILTER (WHERE v.stops)
          INTO paused, closed, ordered, reasons
          FROM unnest(scopes, keys, steps, homes) WITH ORDINALITY AS w(s, k, t, h, o)
          JOIN skald.control c ON c.scope = w.s AND c.key = w.k AND coalesce(c.home = w.h, true)
         CROSS JOIN LATERAL (SELECT c.action = 'cancel' AND w.t NOT LIKE '%.compensate'
                                                        AND NOT coalesce(past_pivot[w.o], false)) AS v(stops)
         WHERE w.t <> '';
    END IF;

    BEGIN
        -- Insert first. FOR UPDATE on a row that does not exist locks nothing, so two would run (traps G3, F5); a caught unique_violation
        -- would have aborted the transaction (G1). The insert waits for another transaction that inserts the same key, so that only one of
        -- them gets it. In key order, so that two batches can't deadlock on each other.
        WITH want AS (
            SELECT w.s, w.k, w.t, w.f, w.h, w.o
              FROM unnest(scopes, keys, steps, fingerprints, homes) WITH ORDINALITY AS w(s, k, t, f, h, o)
             WHERE w.o <> ALL (coalesce(paused || closed, '{}'))),
        inserted AS (
            INSERT INTO skald.idempotency AS i (scope, key, step, fingerprint, home)
            SELECT w.s, w.k, w.t, w.f, w.h FROM want w ORDER BY w.s, w.k, w.t, w.o
            ON CONFLICT ON CONSTRAINT idempotency_once DO NOTHING
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
                                     AND i.status IN ('started', 'unknown', 'retrying', 'parked')
                                     FOR UPDATE) AS locked;
            -- Where nothing was inserted, this update is what makes a step's own COMMIT fail (0003_open.sql).
            IF current_setting('skald.is_open', true) = 'on' THEN
                UPDATE skald.idempotency i SET updated_at = i.updated_at
                  FROM unnest(scopes, keys, steps) AS w(s, k, t)
                 WHERE i.scope = w.s AND i.key = w.k AND i.step = w.t AND i.status IN ('retrying', 'parked');
            END IF;
        END IF;

        IF array_to_string(steps, ' ') LIKE '%.compensate%' THEN
            SELECT array_agg(o) FILTER (WHERE NOT u.yes), array_agg(o) FILTER (WHERE u.yes IS NULL) INTO idle, theirs
              FROM (SELECT o FROM unnest(fresh) AS o WHERE steps[o] LIKE '%.compensate'
                     ORDER BY scopes[o] COLLATE "C", keys[o] COLLATE "C", steps[o] COLLATE "C" OFFSET 0) AS c
             CROSS JOIN LATERAL (SELECT skald.undoable(scopes[o], keys[o], steps[o], homes[o])) AS u(yes);
            IF theirs IS NOT NULL THEN
                -- The record would block the compensation that the other home may still request.
                DELETE FROM skald.idempotency i USING unnest(theirs) AS o
                 WHERE i.scope = scopes[o] AND i.key = keys[o] AND i.step = steps[o];
                fresh := ARRAY(SELECT o FROM unnest(fresh) AS o WHERE o <> ALL (theirs));
            END IF;
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        -- The transaction that has it may still roll back: busy is never a duplicate (G13). This call claimed nothing.
        ignored := set_config('lock_timeout', before, true);
        RETURN QUERY SELECT o, 'in_flight', 0, false, NULL, NULL FROM generate_subscripts(keys, 1) AS o;
        RETURN;
    END;
    IF wait_ms IS NOT NULL THEN ignored := set_config('lock_timeout', before, true); END IF;

    -- Checked only now: waiting for locks took time.
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
    SELECT w.o::integer, v.result,
           coalesce(i.attempts, 0) + (v.result = 'retry')::integer,
           v.result = 'retry' OR v.stopped, c.cause,
           CASE c.cause WHEN 'operator' THEN reasons[array_position(ordered, w.o::integer)]
                        WHEN 'deadline' THEN 'deadline passed' WHEN 'home' THEN i.home END
      FROM unnest(scopes, keys, steps, fingerprints, homes) WITH ORDINALITY AS w(s, k, t, f, h, o)
      LEFT JOIN LATERAL (SELECT i.status, i.fingerprint, i.attempts, i.snoozes, i.home FROM skald.idempotency i
                          WHERE i.scope = w.s AND i.key = w.k
                            AND i.step = CASE WHEN w.o = ANY (theirs) THEN replace(w.t, '.compensate', '') ELSE w.t END
                          LIMIT 1) AS i ON true
     CROSS JOIN LATERAL (SELECT w.o = ANY (coalesce(ordered, '{}')) OR w.o = ANY (coalesce(late, '{}'))) AS n(no)
     CROSS JOIN LATERAL (SELECT CASE
            WHEN i.home <> w.h THEN 'mismatch'
            WHEN w.o = ANY (closed) AND i.status IS NULL THEN 'closed'
            WHEN w.o = ANY (paused) AND i.status IS NULL THEN 'paused'
            WHEN i.fingerprint <> w.f THEN 'mismatch'
            -- What goes on with one that has started is its row in skald.started, and no delivery.
            WHEN i.status IN ('completed', 'rejected', 'started', 'unknown') THEN 'duplicate'
            WHEN i.status = 'cancelled' THEN 'cancelled'
            WHEN i.status IN ('retrying', 'parked') AND fencing_tokens[w.o] <= i.attempts + i.snoozes THEN 'duplicate'
            WHEN w.o = ANY (closed) THEN 'closed'
            WHEN w.o = ANY (paused) THEN 'paused'
            WHEN i.status IN ('retrying', 'parked') AND n.no THEN 'cancelled'
            WHEN i.status IN ('retrying', 'parked') THEN 'retry'
            ELSE skald.result_without_record(w.s, w.k, w.t) END) AS t(result)
     CROSS JOIN LATERAL (SELECT t.result, t.result = 'cancelled' AND i.status <> 'cancelled') AS v(result, stopped)
     CROSS JOIN LATERAL (SELECT CASE WHEN i.home <> w.h THEN 'home' WHEN NOT v.stopped THEN NULL
                                     WHEN w.o = ANY (ordered) THEN 'operator' ELSE 'deadline' END) AS c(cause)
     WHERE w.o <> ALL (fresh);
END $$;

-- The result for a key whose record was neither inserted nor found: it was purged after the insert had met it (traps G5). If it can't be
-- inserted now either, the table swallows it, and nothing would ever run.
CREATE FUNCTION skald.result_without_record(for_scope text, for_key text, for_step text) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO skald.idempotency (scope, key, step) VALUES (for_scope, for_key, for_step)
    ON CONFLICT ON CONSTRAINT idempotency_once DO NOTHING;
    IF FOUND THEN
        DELETE FROM skald.idempotency WHERE scope = for_scope AND key = for_key AND step = for_step;
    ELSIF NOT EXISTS (SELECT FROM skald.idempotency WHERE scope = for_scope AND key = for_key AND step = for_step) THEN
        PERFORM skald.assert_written('skald.idempotency', 1, 0);
    END IF;
    RETURN 'in_flight';
END $$;

-- Whether a compensation has something to undo, decided once and for all: where the step never ran, a `cancelled` record is left in its
-- place, so that the step does not run if it arrives late (S2). NULL: the step ran for another home's saga.
CREATE FUNCTION skald.undoable(for_scope text, for_key text, compensation text, for_home text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    undone text := left(compensation, -length('.compensate'));
    was    skald.step_status;
    ran    text;  -- the home of the saga that the step ran for
BEGIN
    INSERT INTO skald.idempotency (scope, key, step, status, attempts, home)
    VALUES (for_scope, for_key, undone, 'cancelled', 0, for_home)
    ON CONFLICT ON CONSTRAINT idempotency_once DO NOTHING;
    IF FOUND THEN RETURN false; END IF;

    SELECT status, home INTO was, ran FROM skald.idempotency
     WHERE scope = for_scope AND key = for_key AND step = undone
       FOR UPDATE;
    IF ran <> for_home THEN RETURN NULL; END IF;
    -- What it did outside is not known before it ends; nothing asks to undo it before that.
    IF was IN ('started', 'unknown') THEN
        RAISE EXCEPTION '% of saga % has not ended, and can''t be undone yet', undone, for_key USING ERRCODE = 'lock_not_available';
    END IF;
    IF was IN ('retrying', 'parked') THEN
        UPDATE skald.idempotency SET status = 'cancelled', updated_at = clock_timestamp()
         WHERE scope = for_scope AND key = for_key AND step = undone;
    END IF;
    RETURN was = 'completed';
END $$;

-- Fails unless the transaction is still the one that claimed. In a transaction that an SQL error has aborted, calling
-- anything fails (25P02); in one that a step ended by itself, the id differs (traps F1, G9).
CREATE FUNCTION skald.assert_transaction(claimed xid8) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF pg_current_xact_id() <> claimed THEN
        RAISE EXCEPTION 'the transaction that claimed the step was ended by the step itself'
              USING ERRCODE = 'invalid_transaction_termination',
                    HINT = 'A step must not run COMMIT or ROLLBACK: Skald commits it.';
    END IF;
END $$;

-- Claims a request's key. A request that was answered before gets its response at once, without an attempt to insert: a response is final.
CREATE FUNCTION skald.claim_request(
    scope text, key text, fingerprint bytea, wait_ms integer,
    OUT result text, OUT attempts integer, OUT held boolean,
    OUT status_code smallint, OUT content_type text, OUT headers jsonb, OUT body bytea, OUT kept text, OUT stored_at timestamptz)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    before  text := current_setting('lock_timeout');
    ignored text;
BEGIN
    FOR look IN 1..2 LOOP
        SELECT CASE WHEN i.fingerprint = claim_request.fingerprint THEN 'duplicate' ELSE 'mismatch' END, i.attempts, false,
               r.status_code, r.content_type, r.headers, r.body, r.kept, r.created_at
          INTO result, attempts, held, status_code, content_type, headers, body, kept, stored_at
          FROM skald.idempotency i JOIN skald.response r ON r.scope = i.scope AND r.key = i.key
         WHERE i.scope = claim_request.scope AND i.key = claim_request.key AND i.step = '' AND i.status = 'completed';
        IF FOUND THEN RETURN; END IF;

        -- Most keys are new and need no checks: no command and no deadline stops a request. The record is inserted as skald.claim() would
        -- do it, at a third of the cost.
        ignored := set_config('lock_timeout', coalesce(wait_ms::text, before), true);
        BEGIN
            INSERT INTO skald.idempotency AS i (scope, key, step, fingerprint)
            VALUES (claim_request.scope, claim_request.key, '', claim_request.fingerprint)
            ON CONFLICT ON CONSTRAINT idempotency_once DO NOTHING;
            IF FOUND THEN SELECT 'fresh', 1, true INTO result, attempts, held; END IF;
        EXCEPTION WHEN lock_not_available THEN
            SELECT 'in_flight', 0, false INTO result, attempts, held;
        END;
        ignored := set_config('lock_timeout', before, true);
        IF result IS NOT NULL THEN RETURN; END IF;

        SELECT c.result, c.attempts, c.held INTO result, attempts, held
          FROM skald.claim(ARRAY[claim_request.scope], ARRAY[claim_request.key], ARRAY[''],
                           ARRAY[claim_request.fingerprint], wait_ms => claim_request.wait_ms) AS c;
        -- Of a request that committed while the claim waited for it, the response can be seen now. A saga that was started otherwise has none.
        EXIT WHEN result NOT IN ('duplicate', 'mismatch');
    END LOOP;
END $$;
