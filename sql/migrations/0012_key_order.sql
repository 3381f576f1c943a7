-- Many sagas move at once at their home: in key order, so that two transactions which move the same ones can't deadlock, and
-- in statements for all of them instead of one for each.

-- skald.advance() for each of the items, as if one after the other. A saga that an item ends is moved by none behind that.
CREATE FUNCTION skald.advance_many(scopes text[], keys text[], wanted text[], reasons text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- A plan that was made while the tables were small would be kept while they grow, until statistics are taken anew.
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    IF cardinality(keys) = 1 THEN
        PERFORM skald.advance(scopes[1], keys[1], wanted[1], reasons[1]);
        RETURN;
    END IF;
    IF NOT wanted <@ ARRAY['completed', 'compensated'] THEN
        -- The locks first, in the order of the sort: under it LATERAL finds the rows one by one.
        PERFORM FROM (SELECT w.s COLLATE "C" AS s, w.k COLLATE "C" AS k FROM unnest(scopes, keys) AS w(s, k) ORDER BY 1, 2) AS w
          CROSS JOIN LATERAL (SELECT FROM skald.saga s
                               WHERE s.scope = w.s AND s.key = w.k AND s.status NOT IN ('completed', 'compensated')
                                 FOR NO KEY UPDATE) AS locked;

        -- What skald.advance() does where a saga goes on. All of a saga's items find it in one state; of the reasons the first
        -- counts, and where it says nothing, the next that does.
        UPDATE skald.saga s
           SET status = n.is_to, updated_at = clock_timestamp(),
               reason = CASE WHEN n.is_to = 'running' THEN NULL
                             WHEN n.is_to = 'stuck' OR s.status = 'stuck' THEN coalesce(w.first, s.reason, w.said)
                             ELSE coalesce(s.reason, w.said) END
          FROM (SELECT u.s, u.k, (array_agg(u.y ORDER BY u.o))[1] AS first,
                       (array_agg(u.y ORDER BY u.o) FILTER (WHERE u.y IS NOT NULL))[1] AS said
                  FROM (SELECT i.s COLLATE "C" AS s, i.k COLLATE "C" AS k, i.y, i.o,
                               min(i.o) FILTER (WHERE i.n IN ('completed', 'compensated')) OVER (PARTITION BY i.s, i.k) AS ended
                          FROM unnest(scopes, keys, wanted, reasons) WITH ORDINALITY AS i(s, k, n, y, o)) AS u
                 WHERE u.ended IS NULL OR u.o < u.ended
                 GROUP BY u.s, u.k) AS w
         CROSS JOIN LATERAL (
                SELECT (CASE WHEN bool_or(t.parked) THEN 'stuck' WHEN bool_or(t.back) THEN 'compensating' ELSE 'running' END
                       )::skald.saga_status
                  FROM (SELECT p.status = 'parked', p.status IN ('rejected', 'cancelled') OR p.step LIKE '%.compensate'
                          FROM skald.progress p WHERE p.scope = w.s AND p.key = w.k
                         UNION ALL
                        SELECT i.status = 'parked', i.status IN ('rejected', 'cancelled') OR i.step LIKE '%.compensate'
                          FROM skald.idempotency i WHERE i.scope = w.s AND i.key = w.k) AS t(parked, back)) AS n(is_to)
         WHERE s.scope = w.s AND s.key = w.k AND s.status NOT IN ('completed', 'compensated')
           AND (s.status <> n.is_to OR (w.said IS NOT NULL AND s.reason IS NULL AND n.is_to <> 'running'));
    END IF;

    -- What skald.advance() does where a saga has ended, row by row in the order of the sort.
    UPDATE skald.saga s
       SET status = e.n::skald.saga_status, updated_at = clock_timestamp(), finished_at = clock_timestamp(),
           reason = CASE WHEN e.n = 'completed' THEN NULL
                         WHEN s.status = 'stuck' THEN coalesce(e.y, s.reason) ELSE coalesce(s.reason, e.y) END
      FROM (SELECT DISTINCT ON (1, 2) u.s COLLATE "C" AS s, u.k COLLATE "C" AS k, u.n, u.y
              FROM unnest(scopes, keys, wanted, reasons) WITH ORDINALITY AS u(s, k, n, y, o)
             WHERE u.n IN ('completed', 'compensated') ORDER BY 1, 2, u.o) AS e
     WHERE s.scope = e.s AND s.key = e.k AND s.status NOT IN ('completed', 'compensated');
END $$;

-- As in 0009_many_at_a_time.sql, and what the reports say of their sagas moves them in key order.
CREATE OR REPLACE FUNCTION skald.note_progress(members jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    told record;
BEGIN
    WITH m AS MATERIALIZED (
        SELECT * FROM jsonb_to_recordset(members)
            AS m(scope text COLLATE "C", key text COLLATE "C", step text COLLATE "C", service text, status text,
                 attempts integer, error text, at timestamptz, saga text, reason text)),
    noted AS (
        -- In key order here too. Of two reports of one step the later counts, whatever the order of arrival.
        INSERT INTO skald.progress AS p (scope, key, step, service, status, attempts, error, at)
        SELECT DISTINCT ON (m.scope, m.key, m.step)
               m.scope, m.key, m.step, m.service, m.status::skald.step_status, m.attempts, m.error, m.at
          FROM m ORDER BY m.scope, m.key, m.step, m.at DESC
        ON CONFLICT ON CONSTRAINT progress_once DO UPDATE
           SET service = excluded.service, status = excluded.status, attempts = excluded.attempts,
               error = excluded.error, at = excluded.at
         WHERE excluded.at > p.at)
    SELECT array_agg(m.scope) AS scopes, array_agg(m.key) AS keys, array_agg(m.saga) AS wanted, array_agg(m.reason) AS reasons
      INTO told
      FROM m WHERE m.saga IS NOT NULL;

    IF told.keys IS NOT NULL THEN
        PERFORM skald.advance_many(told.scopes, told.keys, told.wanted, told.reasons);
    END IF;
END $$;

-- As in 0007_retention.sql, in key order.
CREATE OR REPLACE FUNCTION skald.note_forgotten(members jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    IF EXISTS (SELECT FROM jsonb_to_recordset(members) AS m(scope text, key text, service text, ended_at timestamptz)
                WHERE m.scope IS NULL OR m.key IS NULL OR m.service IS NULL OR m.ended_at IS NULL) THEN
        RAISE EXCEPTION 'a member of skald.forgotten has scope, key, service and ended_at'
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM FROM (SELECT m.scope, m.key
                    FROM jsonb_to_recordset(members) AS m(scope text COLLATE "C", key text COLLATE "C") ORDER BY 1, 2) AS m
      CROSS JOIN LATERAL (SELECT FROM skald.saga s WHERE s.scope = m.scope AND s.key = m.key FOR NO KEY UPDATE) AS locked;
    UPDATE skald.saga s SET forgetting = array_remove(s.forgetting, m.service)
      FROM jsonb_to_recordset(members) AS m(scope text, key text, service text, ended_at timestamptz)
     WHERE s.scope = m.scope AND s.key = m.key AND s.finished_at = m.ended_at AND m.service = ANY (s.forgetting);
END $$;
