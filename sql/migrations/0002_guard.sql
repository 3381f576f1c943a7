-- The guard: skald.claim(), for any language. Call it first in a transaction (READ COMMITTED), do the work that must
-- happen once, and COMMIT: the record and the work become visible together, or neither.
--
--   BEGIN;
--   SELECT * FROM skald.claim(ARRAY[''], ARRAY['order-42'], ARRAY['charge-payment'], ARRAY[sha256('{...}')]);
--    ord | verdict | attempts | held
--   -----+---------+----------+------
--      1 | fresh   |        1 | t
--   UPDATE wallet SET ...;
--   SELECT skald.enqueue('shipping', 'arrange-shipping', 'order-42:arrange-shipping', '{...}');
--   COMMIT;
--
-- One verdict for each item:
--   fresh      nobody ran it: run it now                                               held
--   retry      it failed or was snoozed before: run it now; `attempts` is this one's number   held
--   duplicate  it is decided, or this turn of it is already recorded: acknowledge and forget
--   in_flight  another transaction has it now: ask again later; never take it for done
--   mismatch   the key was used before with another body
--   cancelled  it must not run. held: an operator's cancel, or a compensation with nothing to undo: record it as
--              `cancelled` and pass on what follows; not held: that has been done, acknowledge and forget
--   paused     an operator paused the saga: ask again later
-- `held` says that this transaction has the record, and that its COMMIT settles it.
--
-- turns: which turn of the item this is, from 1: attempts + snoozes, as the message says. A turn that is recorded
--   already is a duplicate; NULL runs whatever may run.
-- past_pivot: true where an order to cancel no longer applies.
-- wait_ms: how long to wait for a transaction that has the same key; NULL keeps the session's lock_timeout.
CREATE FUNCTION skald.claim(
    scopes text[], keys text[], steps text[], fingerprints bytea[],
    turns integer[] DEFAULT NULL, past_pivot boolean[] DEFAULT NULL, wait_ms integer DEFAULT NULL)
RETURNS TABLE (ord integer, verdict text, attempts integer, held boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    before    text := current_setting('lock_timeout');
    paused    integer[];
    cancelled integer[];
    fresh     integer[];
BEGIN
    IF wait_ms IS NOT NULL THEN PERFORM set_config('lock_timeout', wait_ms::text, true); END IF;

    SELECT array_agg(w.o) FILTER (WHERE c.action = 'pause'),
           array_agg(w.o) FILTER (WHERE c.action = 'cancel' AND w.t NOT LIKE '%.compensate'
                                                            AND NOT coalesce(past_pivot[w.o], false))
      INTO paused, cancelled
      FROM unnest(scopes, keys, steps) WITH ORDINALITY AS w(s, k, t, o)
      JOIN skald.control c ON c.scope = w.s AND c.key = w.k
     WHERE w.t <> '';

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
            PERFORM FROM skald.idempotency i
               JOIN unnest(scopes, keys, steps) AS w(s, k, t) ON i.scope = w.s AND i.key = w.k AND i.step = w.t
              WHERE i.status IN ('started', 'retrying', 'parked')
              ORDER BY i.scope, i.key, i.step
                FOR UPDATE OF i;
        END IF;

        SELECT coalesce(cancelled, '{}') || coalesce(array_agg(o), '{}') INTO cancelled
          FROM unnest(fresh) AS o
         WHERE steps[o] LIKE '%.compensate' AND NOT skald.undoable(scopes[o], keys[o], steps[o]);
    EXCEPTION WHEN lock_not_available THEN
        -- Whoever has it may still roll back: busy is never a duplicate (G13). Nothing of this call was claimed.
        PERFORM set_config('lock_timeout', before, true);
        RETURN QUERY SELECT o, 'in_flight', 0, false FROM generate_subscripts(keys, 1) AS o;
        RETURN;
    END;
    IF wait_ms IS NOT NULL THEN PERFORM set_config('lock_timeout', before, true); END IF;

    RETURN QUERY SELECT o, CASE WHEN o = ANY (cancelled) THEN 'cancelled' ELSE 'fresh' END, 1, true
                   FROM unnest(fresh) AS o;
    IF cardinality(fresh) = cardinality(keys) THEN RETURN; END IF;

    -- A later statement, so that its snapshot sees what the insert may have waited for.
    RETURN QUERY
    SELECT w.o::integer, v.verdict,
           coalesce(i.attempts, 0) + (v.verdict = 'retry')::integer,
           v.verdict = 'retry' OR (v.verdict = 'cancelled' AND i.status <> 'cancelled')
      FROM unnest(scopes, keys, steps, fingerprints) WITH ORDINALITY AS w(s, k, t, f, o)
      LEFT JOIN skald.idempotency i ON i.scope = w.s AND i.key = w.k AND i.step = w.t
     CROSS JOIN LATERAL (SELECT CASE
            WHEN w.o = ANY (paused) AND i.status IS NULL THEN 'paused'
            WHEN i.fingerprint <> w.f THEN 'mismatch'
            WHEN i.status IN ('completed', 'rejected') THEN 'duplicate'
            WHEN i.status = 'cancelled' THEN 'cancelled'
            WHEN i.status IN ('retrying', 'parked') AND turns[w.o] <= i.attempts + i.snoozes THEN 'duplicate'
            WHEN w.o = ANY (paused) THEN 'paused'
            WHEN i.status IN ('retrying', 'parked') AND w.o = ANY (cancelled) THEN 'cancelled'
            WHEN i.status IN ('retrying', 'parked') THEN 'retry'
            -- `started`: an external call is under way. No row: it was collected after the insert met it (G5).
            ELSE 'in_flight' END) AS v(verdict)
     WHERE w.o <> ALL (fresh);
END $$;

-- Whether a compensation has something to undo, decided for good: where the step never ran, a `cancelled` record is
-- left in its place, so that it does not run when it comes late (S2).
CREATE FUNCTION skald.undoable(for_scope text, for_key text, compensation text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    undone text := left(compensation, -length('.compensate'));
    was    skald.step_status;
BEGIN
    INSERT INTO skald.idempotency (scope, key, step, status, attempts)
    VALUES (for_scope, for_key, undone, 'cancelled', 0)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN RETURN false; END IF;

    SELECT status INTO was FROM skald.idempotency
     WHERE scope = for_scope AND key = for_key AND step = undone
       FOR UPDATE;
    IF was IN ('started', 'retrying', 'parked') THEN
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
