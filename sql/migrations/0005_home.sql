-- What a saga's home does: it starts the saga, and learns from the other services how it goes.

-- A time within the years 1 to 9999, which can be formatted and subtracted; NULL stays NULL. Skald writes no other, but a row that was
-- changed manually must not hide all the others.
CREATE FUNCTION skald.shown(at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN at < '0001-01-01 00:00:00+00' THEN '0001-01-01 00:00:00+00'
                WHEN at > '9999-12-31 23:59:59.999999+00' THEN '9999-12-31 23:59:59.999999+00' ELSE at END
$$;

-- A time as headers carry it: UTC, to the microsecond, always 27 characters.
CREATE FUNCTION skald.instant(at timestamptz) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT to_char(skald.shown(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;

-- The steps of an itinerary, numbered from 1.
CREATE FUNCTION skald.itinerary_steps(itinerary text) RETURNS TABLE (place integer, step text, service text, kind text)
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT w.n::integer - 2, split_part(w.token, '@', 1), split_part(split_part(w.token, '@', 2), '=', 1),
           split_part(w.token, '=', 2)
      FROM regexp_split_to_table(itinerary, ' ') WITH ORDINALITY AS w(token, n)
     WHERE w.n > 2
$$;

-- Whether a record here belongs to a saga that was started here: a saga of another home may have the same key.
CREATE FUNCTION skald.is_ours(home text) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT coalesce(home = (SELECT s.name FROM skald.service s), true) $$;

-- Every step of a saga that its home knows about: its own, and those that other services reported.
CREATE FUNCTION skald.known_steps(of_scope text, of_key text)
RETURNS TABLE (step text, service text, status text, attempts integer, error text, at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT i.step::text, (SELECT s.name FROM skald.service s), i.status::text, i.attempts, i.error, i.updated_at
      FROM skald.idempotency i
     WHERE (i.scope, i.key) = (of_scope, of_key) AND i.step <> '' AND skald.is_ours(i.home)
    UNION ALL
    SELECT p.step::text, p.service, p.status::text, p.attempts, p.error, p.at
      FROM skald.progress p
     WHERE (p.scope, p.key) = (of_scope, of_key)
       AND NOT EXISTS (SELECT FROM skald.idempotency i
                        WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step) AND skald.is_ours(i.home))
$$;

-- Starts a saga as part of the caller's transaction. `fresh`: it is started. `duplicate`: this key has started it before. `mismatch`: the
-- key was used for something else. `in_flight`: another transaction is starting it now. `deadline` counts from now, by this server's clock:
-- from then on no step up to the pivot begins any more, and the saga compensates. `attributes`: what it is to be found by.
--
-- A new key needs no checks: no command and no deadline stops a start, and its record is inserted as skald.claim() would do it. Only a key
-- that is not new goes to skald.claim() for its result. What the messages could not carry is refused.
CREATE FUNCTION skald.start(
    scope text, key text, definition text, version integer, data jsonb, itinerary text, fingerprint bytea,
    destination text, type text, payload bytea, headers jsonb, deadline interval DEFAULT NULL,
    attributes jsonb DEFAULT NULL)
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
        ON CONFLICT ON CONSTRAINT idempotency_once DO NOTHING;
    EXCEPTION WHEN lock_not_available THEN
        RETURN 'in_flight';  -- the transaction that has it may still roll back
    END;
    IF NOT FOUND THEN
        SELECT c.result INTO decided FROM skald.claim(ARRAY[scope], ARRAY[key], ARRAY[''], ARRAY[fingerprint]) AS c;
        -- The same data under the same key is still a mismatch if another definition was started with it.
        IF decided = 'duplicate' AND EXISTS (SELECT FROM skald.saga s WHERE s.scope = start.scope AND s.key = start.key
                                                                        AND s.definition <> start.definition) THEN
            decided := 'mismatch';
        END IF;
    END IF;
    IF decided = 'fresh' THEN
        ends := clock_timestamp() + deadline;
        INSERT INTO skald.saga AS s (scope, key, definition, version, data, itinerary, deadline_at, kept)
        VALUES (scope, key, definition, version, data, itinerary, ends, headers->>'skald-body');
        IF NOT FOUND THEN PERFORM skald.assert_written('skald.saga', 1, 0); END IF;
        IF attributes <> '{}' THEN PERFORM skald.add_attributes(scope, key, attributes); END IF;
        PERFORM skald.enqueue(destination, type, key || ':' || type, payload,
                              headers || jsonb_build_object('x-saga-home', home) ||
                                  CASE WHEN ends IS NULL THEN '{}' ELSE
                                      jsonb_build_object('x-saga-deadline', skald.instant(ends)) END,
                              scope, aggregatetype => definition, aggregateid => key);
    END IF;
    RETURN decided;
END $$;

-- For a step that names this database as its home although no such saga was started here: it is the wrong database, or one from a backup.
-- That must be seen, once for each saga; what the step did stands.
CREATE FUNCTION skald.record_unknown(for_scope text, for_key text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM skald.saga s WHERE s.scope = for_scope AND s.key = for_key) THEN
        INSERT INTO skald.parked (scope, key, reason, error, message_id, type, body, fingerprint)
        VALUES (for_scope, for_key, 'unknown_saga',
                'a step was run whose saga has this database as its home: it was not started here, or has expired',
                for_key, 'skald.saga', '', sha256(convert_to(jsonb_build_array(for_scope, for_key)::text, 'UTF8')))
        ON CONFLICT ON CONSTRAINT parked_once DO NOTHING;
    END IF;
END $$;

-- Whether a step that was reported has a record here, which counts: a delivery of a step of the home could not be read, and the right one
-- has come since.
CREATE FUNCTION skald.has_record(p skald.progress, ours text) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM skald.idempotency i
                    WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step) AND coalesce(i.home = ours, true))
$$;

-- Moves a saga's status according to what is known of its steps. Final states are never left. `stuck` ends when the parked step goes on: a
-- saga is stuck exactly while one of its steps is parked.
--
-- The two final states need only the saga's own row. For the others the row is locked before the steps are read: of two transactions that
-- move the same saga, the second sees what the first has recorded.
CREATE FUNCTION skald.advance(for_scope text, for_key text, wanted text, why text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- A plan made while the tables were small would be kept as they grow, until statistics are gathered again.
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    ours  text := (SELECT name FROM skald.service);  -- leaves out another home's saga with the same key
    was   skald.saga_status;
    is_to skald.saga_status;
BEGIN
    IF wanted IN ('completed', 'compensated') THEN
        -- Of a compensation the first reason is the one that counts; a completed saga has none. A call that ends `stuck` says why the saga
        -- compensates: until then the reason said why it was stuck.
        UPDATE skald.saga s
           SET status = wanted::skald.saga_status, updated_at = clock_timestamp(), finished_at = clock_timestamp(),
               reason = CASE WHEN wanted = 'completed' THEN NULL
                             WHEN s.status IN ('stuck', 'unknown') THEN coalesce(why, s.reason) ELSE coalesce(s.reason, why) END
         WHERE s.scope = for_scope AND s.key = for_key AND s.status NOT IN ('completed', 'compensated');
        IF NOT FOUND THEN PERFORM skald.record_unknown(for_scope, for_key); END IF;
        RETURN;
    END IF;

    SELECT s.status INTO was FROM skald.saga s WHERE s.scope = for_scope AND s.key = for_key FOR NO KEY UPDATE;
    IF was IS NULL THEN PERFORM skald.record_unknown(for_scope, for_key); END IF;
    IF was IS NULL OR was IN ('completed', 'compensated') THEN RETURN; END IF;
    SELECT CASE WHEN bool_or(k.parked) THEN 'stuck' WHEN bool_or(k.unknown) THEN 'unknown' WHEN bool_or(k.back) THEN 'compensating' ELSE 'running' END INTO is_to
      FROM (SELECT p.status = 'parked' AND NOT skald.has_record(p, ours), p.status = 'unknown', p.status IN ('rejected', 'cancelled') OR p.step LIKE '%.compensate'
              FROM skald.progress p WHERE p.scope = for_scope AND p.key = for_key
             UNION ALL
            SELECT i.status = 'parked', i.status = 'unknown', i.status IN ('rejected', 'cancelled') OR i.step LIKE '%.compensate'
              FROM skald.idempotency i WHERE i.scope = for_scope AND i.key = for_key AND coalesce(i.home = ours, true)) AS k(parked, unknown, back);
    UPDATE skald.saga s
       SET status = is_to, updated_at = clock_timestamp(),
           reason = CASE WHEN is_to = 'running' THEN NULL
                         WHEN is_to IN ('stuck', 'unknown') OR s.status IN ('stuck', 'unknown') THEN coalesce(why, s.reason)
                         ELSE coalesce(s.reason, why) END
     WHERE s.scope = for_scope AND s.key = for_key
       AND (s.status <> is_to OR (why IS NOT NULL AND s.reason IS NULL AND is_to <> 'running'));
END $$;

-- skald.advance() for all of the items, as if one after the other, but in a few statements. Once an item has ended a saga, no later item
-- moves it. In key order, so that two transactions that move the same sagas can't deadlock.
CREATE FUNCTION skald.advance_many(scopes text[], keys text[], wanted text[], reasons text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- A plan made while the tables were small would be kept as they grow, until statistics are gathered again.
SET enable_seqscan = off
SET jit = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    ours  text := (SELECT name FROM skald.service);
    moved integer := 0;
    ended integer;
BEGIN
    IF cardinality(keys) = 1 THEN
        PERFORM skald.advance(scopes[1], keys[1], wanted[1], reasons[1]);
        RETURN;
    END IF;
    IF NOT wanted <@ ARRAY['completed', 'compensated'] THEN
        -- The locks first, in sort order: below the sort, LATERAL finds the rows one by one.
        PERFORM FROM (SELECT w.s COLLATE "C" AS s, w.k COLLATE "C" AS k FROM unnest(scopes, keys) AS w(s, k) ORDER BY 1, 2) AS w
          CROSS JOIN LATERAL (SELECT FROM skald.saga s
                               WHERE s.scope = w.s AND s.key = w.k AND s.status NOT IN ('completed', 'compensated')
                                 FOR NO KEY UPDATE) AS locked;

        -- What skald.advance() does while a saga goes on. All items of one saga see it in the same state; the first item's reason counts
        -- or, if it gives none, the next one that is given.
        UPDATE skald.saga s
           SET status = n.is_to, updated_at = clock_timestamp(),
               reason = CASE WHEN n.is_to = 'running' THEN NULL
                             WHEN n.is_to IN ('stuck', 'unknown') OR s.status IN ('stuck', 'unknown') THEN coalesce(w.first, s.reason, w.said)
                             ELSE coalesce(s.reason, w.said) END
          FROM (SELECT u.s, u.k, (array_agg(u.y ORDER BY u.o))[1] AS first,
                       (array_agg(u.y ORDER BY u.o) FILTER (WHERE u.y IS NOT NULL))[1] AS said
                  FROM (SELECT i.s COLLATE "C" AS s, i.k COLLATE "C" AS k, i.y, i.o,
                               min(i.o) FILTER (WHERE i.n IN ('completed', 'compensated')) OVER (PARTITION BY i.s, i.k) AS ended
                          FROM unnest(scopes, keys, wanted, reasons) WITH ORDINALITY AS i(s, k, n, y, o)) AS u
                 WHERE u.ended IS NULL OR u.o < u.ended
                 GROUP BY u.s, u.k) AS w
         CROSS JOIN LATERAL (
                SELECT (CASE WHEN bool_or(t.parked) THEN 'stuck' WHEN bool_or(t.unknown) THEN 'unknown' WHEN bool_or(t.back) THEN 'compensating' ELSE 'running' END
                       )::skald.saga_status
                  FROM (SELECT p.status = 'parked' AND NOT skald.has_record(p, ours), p.status = 'unknown',
                               p.status IN ('rejected', 'cancelled') OR p.step LIKE '%.compensate'
                          FROM skald.progress p WHERE p.scope = w.s AND p.key = w.k
                         UNION ALL
                        SELECT i.status = 'parked', i.status = 'unknown', i.status IN ('rejected', 'cancelled') OR i.step LIKE '%.compensate'
                          FROM skald.idempotency i WHERE i.scope = w.s AND i.key = w.k AND coalesce(i.home = ours, true)) AS t(parked, unknown, back)) AS n(is_to)
         WHERE s.scope = w.s AND s.key = w.k AND s.status NOT IN ('completed', 'compensated')
           AND (s.status <> n.is_to OR (w.said IS NOT NULL AND s.reason IS NULL AND n.is_to <> 'running'));
        GET DIAGNOSTICS moved = ROW_COUNT;
    END IF;

    -- What skald.advance() does when a saga ends, row by row in sort order.
    UPDATE skald.saga s
       SET status = e.n::skald.saga_status, updated_at = clock_timestamp(), finished_at = clock_timestamp(),
           reason = CASE WHEN e.n = 'completed' THEN NULL
                         WHEN s.status IN ('stuck', 'unknown') THEN coalesce(e.y, s.reason) ELSE coalesce(s.reason, e.y) END
      FROM (SELECT DISTINCT ON (1, 2) u.s COLLATE "C" AS s, u.k COLLATE "C" AS k, u.n, u.y
              FROM unnest(scopes, keys, wanted, reasons) WITH ORDINALITY AS u(s, k, n, y, o)
             WHERE u.n IN ('completed', 'compensated') ORDER BY 1, 2, u.o) AS e
     WHERE s.scope = e.s AND s.key = e.k AND s.status NOT IN ('completed', 'compensated');
    GET DIAGNOSTICS ended = ROW_COUNT;
    IF moved + ended < cardinality(keys) THEN
        PERFORM skald.record_unknown(u.s, u.k) FROM unnest(scopes, keys) AS u(s, k);
    END IF;
END $$;

-- Records what other services report of their steps: members are {scope, key, step, service, status, attempts, at} and, where it changed,
-- the saga's state with its reason. A later report wins whatever the order of arrival. A report about a saga that was not started here is
-- parked as `unknown_saga`, once for each step: no one would look for it in skald.progress.
CREATE FUNCTION skald.record_progress(members jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    told record;
BEGIN
    WITH m AS MATERIALIZED (
        SELECT m.*, s.key IS NOT NULL AS is_known, s.status IN ('stuck', 'unknown') AS is_stuck
          FROM jsonb_to_recordset(members)
            AS m(scope text COLLATE "C", key text COLLATE "C", step text COLLATE "C", service text, status text,
                 attempts integer, error text, at timestamptz, saga text, reason text)
          LEFT JOIN LATERAL (SELECT s.key, s.status FROM skald.saga s WHERE s.scope = m.scope AND s.key = m.key LIMIT 1) AS s ON true),
    stray AS (
        -- One row for each step: a message that waits is reported at every try. The latest report is the one to send again.
        INSERT INTO skald.parked AS p (scope, key, reason, error, message_id, type, content_type, body, headers, fingerprint)
        SELECT DISTINCT ON (m.scope, m.key, m.step)
               m.scope, m.key, 'unknown_saga',
               format('%s of %s is %s, but no saga of this key was started in this database, or it has expired', m.step, m.service, m.status),
               r.id, 'skald.progress', 'application/json', r.body,
               jsonb_build_object('x-idempotency-key', r.id, 'x-saga-scope', m.scope),
               sha256(convert_to(jsonb_build_array(m.scope, m.key, m.step)::text, 'UTF8') || '\x00')  -- no other row's has that byte
          FROM m CROSS JOIN LATERAL (
               SELECT m.key || ':' || m.step || '.progress' AS id,
                      convert_to(jsonb_build_array(jsonb_strip_nulls(to_jsonb(m) - 'is_known' - 'is_stuck'))::text, 'UTF8') AS body) AS r
         WHERE NOT m.is_known ORDER BY m.scope, m.key, m.step, m.at DESC
        ON CONFLICT ON CONSTRAINT parked_once DO UPDATE SET error = excluded.error, body = excluded.body
         WHERE (convert_from(excluded.body, 'UTF8')::jsonb->0->>'at')::timestamptz > (convert_from(p.body, 'UTF8')::jsonb->0->>'at')::timestamptz),
    noted AS (
        -- In key order here too. Of two reports about one step the later counts, whatever the order of arrival.
        INSERT INTO skald.progress AS p (scope, key, step, service, status, attempts, error, at)
        SELECT DISTINCT ON (m.scope, m.key, m.step)
               m.scope, m.key, m.step, m.service, m.status::skald.step_status, m.attempts, m.error, m.at
          FROM m WHERE m.is_known ORDER BY m.scope, m.key, m.step, m.at DESC
        ON CONFLICT ON CONSTRAINT progress_once DO UPDATE
           SET service = excluded.service, status = excluded.status, attempts = excluded.attempts,
               error = excluded.error, at = excluded.at
         WHERE excluded.at > p.at)
    -- Of a saga that is stuck, any report may be of the step on which it is, whose message had arrived after all.
    SELECT array_agg(m.scope) AS scopes, array_agg(m.key) AS keys, array_agg(coalesce(m.saga, 'running')) AS wanted,
           array_agg(m.reason) AS reasons
      INTO told
      FROM m WHERE (m.saga IS NOT NULL OR m.is_stuck) AND m.is_known;

    IF told.keys IS NOT NULL THEN
        PERFORM skald.advance_many(told.scopes, told.keys, told.wanted, told.reasons);
    END IF;
END $$;
