-- An operator's orders (pause, resume, cancel, retry) and deadlines: both meet a saga in one place, the claim.
--
-- An order is given at the saga's home, in one transaction: skald.request_control(). It is taken there and, as a message
-- `skald.control`, in the database of every other service of the itinerary: skald.take_control(). Neither stops a step that
-- runs; the next claim finds it. See docs/repair.md, "Orders", and docs/adr/0010-orders-and-deadlines.md.

ALTER TABLE skald.saga ADD COLUMN deadline_at timestamptz;

ALTER TABLE skald.control
    DROP CONSTRAINT action_is_pause_or_cancel,
    ADD CONSTRAINT action_is_known CHECK (action IN ('pause', 'resume', 'cancel')),
    ADD COLUMN requested_by text NOT NULL DEFAULT session_user;

-- Every repair leaves a row here, in its own transaction.
CREATE TABLE skald.audit (
    id       bigint GENERATED ALWAYS AS IDENTITY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor    text        NOT NULL,
    verb     text        NOT NULL,
    scope    text        NOT NULL DEFAULT '',
    key      text        NOT NULL DEFAULT '',
    detail   jsonb       NOT NULL DEFAULT '{}',
    order_id uuid,
    CONSTRAINT audit_id PRIMARY KEY (id),
    -- An order that comes again, as any message may, has been taken.
    CONSTRAINT order_taken_once UNIQUE (order_id)
);
CREATE INDEX audit_of_a_saga ON skald.audit (scope, key);

-- Who does it: the database's user, and who that is in person where it was said.
CREATE FUNCTION skald.actor(by text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT CASE WHEN by <> '' THEN by || ' as ' || session_user ELSE session_user::text END $$;

-- A time as headers carry it: UTC, to the microsecond, always 27 characters.
CREATE FUNCTION skald.instant(at timestamptz) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;

-- The steps of an itinerary, from 1.
CREATE FUNCTION skald.itinerary_steps(itinerary text) RETURNS TABLE (place integer, step text, service text, kind text)
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT w.n::integer - 2, split_part(w.token, '@', 1), split_part(split_part(w.token, '@', 2), '=', 1),
           split_part(w.token, '=', 2)
      FROM regexp_split_to_table(itinerary, ' ') WITH ORDINALITY AS w(token, n)
     WHERE w.n > 2
$$;

-- Every step of a saga that its home knows of: its own, and what other services told.
CREATE FUNCTION skald.known_steps(of_scope text, of_key text)
RETURNS TABLE (step text, service text, status text, attempts integer, error text, at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT i.step::text, (SELECT s.name FROM skald.service s), i.status::text, i.attempts, i.error, i.updated_at
      FROM skald.idempotency i
     WHERE (i.scope, i.key) = (of_scope, of_key) AND i.step <> ''
    UNION ALL
    SELECT p.step::text, p.service, p.status::text, p.attempts, p.error, p.at
      FROM skald.progress p
     WHERE (p.scope, p.key) = (of_scope, of_key)
       AND NOT EXISTS (SELECT FROM skald.idempotency i WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step))
$$;

-- The guard (0002_guard.sql), which now knows deadlines, and says why a step is cancelled.
--
--   BEGIN;
--   SELECT * FROM skald.claim(ARRAY[''], ARRAY['order-42'], ARRAY['charge-payment'], ARRAY[sha256('{...}')]);
--    ord | verdict | attempts | held | cause | reason
--   -----+---------+----------+------+-------+--------
--      1 | fresh   |        1 | t    |       |
--   UPDATE wallet SET ...;
--   SELECT skald.enqueue('shipping', 'arrange-shipping', 'order-42:arrange-shipping', '{...}');
--   COMMIT;
--
-- The verdicts, turns, past_pivot and wait_ms are as they were.
--
-- deadlines: the time from which the item must not run any more; NULL for none. It counts where an order to cancel does: not
--   past the pivot, and not for a compensation.
-- cause: why a verdict is `cancelled` and held: `operator`, `deadline`, or `nothing to undo`; reason: the same for people.
--
-- One claim decides: a step that has its record before its deadline runs to its end, and one whose deadline has passed at
-- the claim never runs. A result and a deadline can't both win.
DROP FUNCTION skald.claim(text[], text[], text[], bytea[], integer[], boolean[], integer);
CREATE FUNCTION skald.claim(
    scopes text[], keys text[], steps text[], fingerprints bytea[],
    turns integer[] DEFAULT NULL, past_pivot boolean[] DEFAULT NULL, wait_ms integer DEFAULT NULL,
    deadlines timestamptz[] DEFAULT NULL)
RETURNS TABLE (ord integer, verdict text, attempts integer, held boolean, cause text, reason text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    before  text := current_setting('lock_timeout');
    paused  integer[];
    ordered integer[];  -- cancelled by an operator; their reasons, in the same order
    reasons text[];
    late    integer[];  -- their deadline has passed
    idle    integer[];  -- compensations with nothing to undo
    fresh   integer[];
BEGIN
    IF wait_ms IS NOT NULL THEN PERFORM set_config('lock_timeout', wait_ms::text, true); END IF;

    SELECT array_agg(w.o) FILTER (WHERE c.action = 'pause'),
           array_agg(w.o) FILTER (WHERE v.stops),
           array_agg(coalesce(c.reason, 'cancelled by ' || c.requested_by)) FILTER (WHERE v.stops)
      INTO paused, ordered, reasons
      FROM unnest(scopes, keys, steps) WITH ORDINALITY AS w(s, k, t, o)
      JOIN skald.control c ON c.scope = w.s AND c.key = w.k
     CROSS JOIN LATERAL (SELECT c.action = 'cancel' AND w.t NOT LIKE '%.compensate'
                                                    AND NOT coalesce(past_pivot[w.o], false)) AS v(stops)
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

        SELECT coalesce(array_agg(o), '{}') INTO idle
          FROM unnest(fresh) AS o
         WHERE steps[o] LIKE '%.compensate' AND NOT skald.undoable(scopes[o], keys[o], steps[o]);
    EXCEPTION WHEN lock_not_available THEN
        -- Whoever has it may still roll back: busy is never a duplicate (G13). Nothing of this call was claimed.
        PERFORM set_config('lock_timeout', before, true);
        RETURN QUERY SELECT o, 'in_flight', 0, false, NULL, NULL FROM generate_subscripts(keys, 1) AS o;
        RETURN;
    END;
    IF wait_ms IS NOT NULL THEN PERFORM set_config('lock_timeout', before, true); END IF;

    -- Asked only now: what was waited for took its time.
    IF deadlines IS NOT NULL THEN
        SELECT array_agg(o) INTO late
          FROM generate_subscripts(keys, 1) AS o
         WHERE deadlines[o] <= clock_timestamp() AND steps[o] <> '' AND steps[o] NOT LIKE '%.compensate'
           AND NOT coalesce(past_pivot[o], false);
    END IF;

    RETURN QUERY
    SELECT f.o, CASE WHEN w.cause IS NULL THEN 'fresh' ELSE 'cancelled' END, 1, true, w.cause,
           CASE w.cause WHEN 'operator' THEN reasons[array_position(ordered, f.o)]
                        WHEN 'deadline' THEN 'deadline passed' ELSE w.cause END
      FROM unnest(fresh) AS f(o)
     CROSS JOIN LATERAL (SELECT CASE WHEN f.o = ANY (idle) THEN 'nothing to undo'
                                     WHEN f.o = ANY (ordered) THEN 'operator'
                                     WHEN f.o = ANY (late) THEN 'deadline' END) AS w(cause);
    IF cardinality(fresh) = cardinality(keys) THEN RETURN; END IF;

    -- A later statement, so that its snapshot sees what the insert may have waited for.
    RETURN QUERY
    SELECT w.o::integer, v.verdict,
           coalesce(i.attempts, 0) + (v.verdict = 'retry')::integer,
           v.verdict = 'retry' OR v.stopped, c.cause,
           CASE c.cause WHEN 'operator' THEN reasons[array_position(ordered, w.o::integer)]
                        WHEN 'deadline' THEN 'deadline passed' END
      FROM unnest(scopes, keys, steps, fingerprints) WITH ORDINALITY AS w(s, k, t, f, o)
      LEFT JOIN skald.idempotency i ON i.scope = w.s AND i.key = w.k AND i.step = w.t
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

-- Starts a saga (0004_home.sql); `deadline` counts from now, by this server's clock. From that time on no step up to the
-- pivot begins any more, and the saga goes back.
DROP FUNCTION skald.start(text, text, text, integer, jsonb, text, bytea, text, text, bytea, jsonb);
CREATE FUNCTION skald.start(
    scope text, key text, definition text, version integer, data jsonb, itinerary text, fingerprint bytea,
    destination text, type text, payload bytea, headers jsonb, deadline interval DEFAULT NULL)
RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    decided text;
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
    SELECT c.verdict INTO decided FROM skald.claim(ARRAY[scope], ARRAY[key], ARRAY[''], ARRAY[fingerprint]) AS c;
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

-- As in 0004_home.sql, but whoever leaves `stuck` says why the saga goes back: until then the reason was why it was stuck.
CREATE OR REPLACE FUNCTION skald.advance(for_scope text, for_key text, wanted text, why text) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE skald.saga s
       SET status      = n.status,
           -- Of a walk back, the first reason is the one that counts; of what goes well there is none.
           reason      = CASE WHEN n.status IN ('running', 'completed') THEN NULL
                              WHEN n.status = 'stuck' OR s.status = 'stuck' THEN coalesce(why, s.reason)
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

-- What has passed the point of no return: the step and when it completed. No row: the saga can still go back.
CREATE FUNCTION skald.past_pivot(of_scope text, of_key text, itinerary text) RETURNS TABLE (step text, at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    -- Without a pivot, the last compensatable step is the last that can be undone before what can't.
    WITH turning AS (
        SELECT p.step, p.place FROM skald.itinerary_steps(itinerary) p WHERE p.kind <> 'retriable' ORDER BY p.place DESC LIMIT 1)
    SELECT k.step, k.at
      FROM skald.known_steps(of_scope, of_key) k JOIN skald.itinerary_steps(itinerary) p ON p.step = k.step
     WHERE (p.kind = 'retriable' OR (k.status = 'completed' AND p.step = (SELECT t.step FROM turning t)))
    UNION ALL
    SELECT p.step, NULL FROM skald.itinerary_steps(itinerary) p WHERE p.place = 1 AND p.kind = 'retriable'
     ORDER BY at NULLS LAST LIMIT 1
$$;

-- Why an order can't be given; NULL where it can.
CREATE FUNCTION skald.refusal(action text, s skald.saga) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    pivot  record;
    latest skald.control;
    called text := format('saga %s', s.key);
BEGIN
    IF s.status IN ('completed', 'compensated') THEN
        RETURN format('%s has ended: it is %s', called, s.status);
    END IF;
    SELECT * INTO pivot FROM skald.past_pivot(s.scope, s.key, s.itinerary);
    SELECT * INTO latest FROM skald.control c WHERE (c.scope, c.key) = (s.scope, s.key);
    IF action = 'cancel' THEN
        IF pivot.step IS NOT NULL THEN
            RETURN format('%s is past the pivot: %s %s; it can only go forward', called, pivot.step,
                          coalesce('completed at ' || skald.instant(pivot.at), 'can''t be undone'));
        ELSIF s.status = 'compensating'
           OR EXISTS (SELECT FROM skald.known_steps(s.scope, s.key) k
                       WHERE k.step LIKE '%.compensate' OR k.status IN ('rejected', 'cancelled')) THEN
            RETURN format('%s goes back already: %s', called, coalesce(s.reason, 'a step said no'));
        END IF;
    ELSIF action = 'retry' THEN
        IF NOT EXISTS (SELECT FROM skald.known_steps(s.scope, s.key) k WHERE k.status = 'parked') THEN
            RETURN format('no step of %s is parked: it is %s', called, s.status);
        END IF;
    ELSIF latest.action = 'cancel' AND pivot.step IS NULL THEN
        -- A pause would take the cancel's place, and what the cancel has not met yet would go on after it.
        RETURN format('%s was cancelled at %s by %s: it is on its way back', called, skald.instant(latest.requested_at),
                      latest.requested_by);
    ELSIF action = 'resume' AND latest.action IS NULL THEN
        RETURN format('%s is not paused: it is %s', called, s.status);
    END IF;
    RETURN NULL;
END $$;

-- Gives an order for one saga, at its home: `pause`, `resume`, `cancel`, or `retry` of the step that is parked. One
-- transaction: the order is taken here, sent to every service that it concerns, and noted in skald.audit.
-- Returns {"id", "action", "told": [services], "step" of a retry, "left": why a parked step was not put back}, or
-- {"refused": why}, and then nothing was done.
CREATE FUNCTION skald.request_control(action text, scope text, key text, reason text DEFAULT NULL, by text DEFAULT NULL)
RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    home    text := (SELECT o.name FROM skald.service o);
    was     skald.saga;
    refused text;
    ordered jsonb;
    told    text[];
    named   text;  -- the step of a retry
    kept    text;
BEGIN
    IF action IS NULL OR action NOT IN ('pause', 'resume', 'cancel', 'retry') THEN
        RAISE EXCEPTION 'an order is pause, resume, cancel or retry, and not %', action
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- The guard's records before the saga's row, as every step does (traps G22).
    PERFORM FROM skald.idempotency i
      WHERE (i.scope, i.key) = (scope, key) AND i.status = 'parked' ORDER BY i.step FOR UPDATE;
    SELECT * INTO was FROM skald.saga s WHERE (s.scope, s.key) = (scope, key) FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN jsonb_build_object('refused', format('no saga %s%s was started here: ask the database of its home', key,
                                                    CASE WHEN scope <> '' THEN ' of scope ' || scope ELSE '' END));
    END IF;
    refused := skald.refusal(action, was);
    IF refused IS NOT NULL THEN RETURN jsonb_build_object('refused', refused); END IF;

    IF action = 'retry' THEN
        SELECT k.step, ARRAY[k.service] INTO named, told
          FROM skald.known_steps(scope, key) k WHERE k.status = 'parked' ORDER BY k.at DESC LIMIT 1;
    ELSE
        told := ARRAY(SELECT DISTINCT p.service FROM skald.itinerary_steps(was.itinerary) p ORDER BY p.service);
    END IF;

    -- The latest order wins wherever they meet, whatever the order of arrival: so it is later than the one before, even
    -- where this server's clock was put back.
    ordered := jsonb_strip_nulls(jsonb_build_object(
        'id', gen_random_uuid(), 'scope', scope, 'key', key, 'action', action, 'reason', nullif(reason, ''),
        'step', named, 'by', skald.actor(by),
        'requested_at', skald.instant(greatest(clock_timestamp(), (
            SELECT c.requested_at + interval '1 microsecond' FROM skald.control c WHERE (c.scope, c.key) = (scope, key))))));
    -- A retry that has left the step parked did nothing else either; a cancel stands, and meets the step when that is sent.
    kept := substring(skald.take_control(ordered) FROM '^left parked: (.*)$');
    IF action = 'retry' AND kept IS NOT NULL THEN RETURN jsonb_build_object('refused', kept); END IF;
    PERFORM skald.enqueue(t.service, 'skald.control', key || '.control.' || (ordered->>'id'),
                          convert_to(ordered::text, 'UTF8'),
                          jsonb_build_object('x-idempotency-key', key || '.control.' || (ordered->>'id'),
                                             'x-saga-scope', scope, 'x-saga', was.definition),
                          scope, aggregatetype => was.definition, aggregateid => key)
       FROM unnest(told) AS t(service) WHERE t.service <> home;
    RETURN jsonb_strip_nulls(jsonb_build_object('id', ordered->'id', 'action', action, 'told', to_jsonb(told),
                                                'step', ordered->'step', 'left', kept));
END $$;

-- Takes an order in this database: once, however often it comes. Of two orders the one that was requested later counts.
-- What of the saga waits here is woken, so that the order meets it now. Returns `taken`, `outdated`, `duplicate`,
-- or `left parked: ` and why a parked step was not put back.
CREATE FUNCTION skald.take_control(ordered jsonb) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    o      record;
    noted  bigint;
    effect text := 'taken';
BEGIN
    SELECT r.*, ordered->>'by' AS giver INTO o FROM jsonb_to_record(ordered)
        AS r(id uuid, scope text, key text, action text, step text, reason text, requested_at timestamptz);
    PERFORM FROM skald.idempotency i
      WHERE (i.scope, i.key) = (o.scope, o.key) AND i.status = 'parked' ORDER BY i.step FOR UPDATE;

    INSERT INTO skald.audit (actor, verb, scope, key, detail, order_id)
    VALUES (o.giver, 'saga ' || o.action, o.scope, o.key, ordered, o.id)
    ON CONFLICT DO NOTHING
    RETURNING id INTO noted;
    IF noted IS NULL THEN RETURN 'duplicate'; END IF;

    IF o.action <> 'retry' THEN
        INSERT INTO skald.control AS c (scope, key, action, reason, requested_at, requested_by)
        VALUES (o.scope, o.key, o.action, o.reason, o.requested_at, o.giver)
        ON CONFLICT ON CONSTRAINT control_once DO UPDATE
           SET action = excluded.action, reason = excluded.reason, requested_at = excluded.requested_at,
               requested_by = excluded.requested_by
         WHERE excluded.requested_at > c.requested_at;
        IF NOT FOUND THEN effect := 'outdated'; END IF;
    END IF;

    IF effect = 'taken' AND o.action IN ('resume', 'cancel') THEN PERFORM skald.wake(o.scope, o.key); END IF;
    IF effect = 'taken' AND o.action IN ('cancel', 'retry') THEN
        effect := coalesce('left parked: ' || skald.put_back_open(o.scope, o.key, o.action, o.step), effect);
    END IF;
    UPDATE skald.audit SET detail = detail || jsonb_build_object('effect', effect) WHERE id = noted;
    RETURN effect;
END $$;

-- What of a saga waits in this outbox for its time is due now. What a relay has in its hands is under way already.
CREATE FUNCTION skald.wake(of_scope text, of_key text) RETURNS bigint
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    WITH waiting AS MATERIALIZED (
        SELECT id FROM skald.outbox
         WHERE scope = of_scope AND aggregateid = of_key AND due_at > clock_timestamp()
           FOR UPDATE SKIP LOCKED),
    gone AS (
        DELETE FROM skald.outbox o USING waiting w WHERE o.id = w.id RETURNING o.*),
    again AS (
        INSERT INTO skald.outbox
            (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination,
             due_at, attempts, error, created_at)
        SELECT aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination,
               clock_timestamp(), attempts, error, created_at
          FROM gone
        RETURNING 1)
    SELECT count(*) FROM again
$$;
