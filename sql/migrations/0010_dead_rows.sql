-- What is asked again and again of an outbox does not walk over its dead rows: where another session holds a snapshot open,
-- they are a million, and only a few live ones lie behind them (traps R11).

-- Whether more than `rows_max` rows wait, without counting beyond. None is left before `due_from`: there the count begins.
CREATE FUNCTION skald.outbox_is_over(rows_max bigint, due_from timestamptz) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
-- By the index on (due_at, id): a plan that was made while the table was small would be kept while it grows.
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
    SELECT count(*) > rows_max
      FROM (SELECT FROM skald.outbox WHERE due_at >= due_from ORDER BY due_at, id LIMIT rows_max + 1) AS o
$$;

-- As in 0007_retention.sql, in one walk over the outbox instead of two. All of the outbox, whatever is known of its beginning:
-- a message that is missed here would meet no record any more when it comes, and its step would run again.
CREATE OR REPLACE VIEW skald.busy AS
    SELECT o.scope::text COLLATE "C" AS scope, k.key COLLATE "C" AS key
      FROM skald.outbox o
     CROSS JOIN LATERAL (VALUES (o.aggregateid), (regexp_replace(o.idempotency_key, ':[^:]*$', ''))) AS k(key)
     UNION
    SELECT scope COLLATE "C", key COLLATE "C" FROM skald.parked;

-- As in 0007_retention.sql, and what waits in the outbox is counted from `outbox_from` on: the caller knows that nothing is left
-- before. A row that is there all the same, since a clock was set back, postpones nothing; it holds its saga's records back as
-- any other does.
DROP FUNCTION skald.purge(interval, integer);
CREATE FUNCTION skald.purge(
    older_than interval, batch_max integer, outbox_from timestamptz DEFAULT '-infinity',
    OUT asked integer, OUT sagas integer, OUT answers integer, OUT forgotten integer, OUT records integer,
    OUT postponed boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- The size of a table that is full of dead rows makes a statement which finds nothing look worth compiling.
SET jit = off
AS $$
DECLARE
    before timestamptz := clock_timestamp() - older_than;
    gone   integer;
    met    skald.saga[];
    again  skald.saga[];
BEGIN
    IF older_than < interval '1 day' OR older_than IS NULL THEN
        RAISE EXCEPTION 'a retention of % is too short', older_than
              USING ERRCODE = 'invalid_parameter_value',
                    HINT = 'Records are kept for a day at least: a message that comes again must still meet them.';
    END IF;
    IF batch_max NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'a batch is 1 to 1000 sagas, and not %', batch_max USING ERRCODE = 'invalid_parameter_value';
    END IF;
    asked := 0; sagas := 0; answers := 0; forgotten := 0; records := 0;
    postponed := skald.outbox_is_over(10000, outbox_from);
    IF postponed THEN RETURN; END IF;

    -- The home asks. A saga that only ran here waits for nobody.
    WITH found AS MATERIALIZED (
        SELECT f.scope, f.key FROM skald.sagas_to_ask_about(before) f ORDER BY f.finished_at LIMIT batch_max),
    locked AS MATERIALIZED (
        SELECT s.scope, s.key FROM skald.saga s JOIN found f ON f.scope = s.scope AND f.key = s.key
         WHERE s.forgetting IS NULL
           FOR UPDATE OF s SKIP LOCKED),
    changed AS (
        UPDATE skald.saga s
           SET asked_at = clock_timestamp(),
               forgetting = ARRAY(SELECT DISTINCT p.service FROM skald.itinerary_steps(s.itinerary) p
                                   WHERE p.service <> (SELECT name FROM skald.service) ORDER BY 1)
          FROM locked l WHERE s.scope = l.scope AND s.key = l.key
        RETURNING s)
    SELECT array_agg(c.s) INTO met FROM changed c;

    -- A service that has not answered for a week is asked again: its message may have been parked, or dropped.
    WITH locked AS MATERIALIZED (
        SELECT s.scope, s.key FROM skald.saga s
         WHERE s.forgetting <> '{}' AND s.asked_at < clock_timestamp() - interval '7 days'
         ORDER BY s.asked_at LIMIT batch_max
           FOR UPDATE OF s SKIP LOCKED),
    changed AS (
        UPDATE skald.saga s SET asked_at = clock_timestamp()
          FROM locked l WHERE s.scope = l.scope AND s.key = l.key
        RETURNING s)
    SELECT array_agg(c.s) INTO again FROM changed c;
    asked := coalesce(cardinality(met), 0) + coalesce(cardinality(again), 0);
    IF asked > 0 THEN PERFORM skald.ask_to_forget(coalesce(met, '{}') || coalesce(again, '{}')); END IF;

    -- The home collects what every service has forgotten.
    WITH found AS MATERIALIZED (
        SELECT f.scope, f.key FROM skald.sagas_to_collect() f ORDER BY f.finished_at LIMIT batch_max),
    locked AS MATERIALIZED (
        SELECT s.scope, s.key FROM skald.saga s JOIN found f ON f.scope = s.scope AND f.key = s.key
         WHERE s.forgetting = '{}'
           FOR UPDATE OF s SKIP LOCKED),
    s AS (DELETE FROM skald.saga s USING locked l WHERE s.scope = l.scope AND s.key = l.key
          RETURNING s.scope, s.key, s.itinerary),
    i AS (DELETE FROM skald.idempotency i USING s
           WHERE i.scope = s.scope AND i.key = s.key
             AND (i.step = '' OR replace(i.step, '.compensate', '') IN (SELECT p.step FROM skald.itinerary_steps(s.itinerary) p))
          RETURNING 1),
    r AS (DELETE FROM skald.response r USING s WHERE r.scope = s.scope AND r.key = s.key RETURNING 1),
    p AS (DELETE FROM skald.progress p USING s WHERE p.scope = s.scope AND p.key = s.key RETURNING 1),
    c AS (DELETE FROM skald.control c USING s WHERE c.scope = s.scope AND c.key = s.key RETURNING 1)
    SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM s) + (SELECT count(*) FROM i) + (SELECT count(*) FROM r) +
           (SELECT count(*) FROM p) + (SELECT count(*) FROM c)
      INTO sagas, records;

    WITH found AS MATERIALIZED (
        SELECT f.scope, f.key FROM skald.answers_to_collect(before) f ORDER BY f.created_at LIMIT batch_max),
    r AS (DELETE FROM skald.response r USING found f WHERE r.scope = f.scope AND r.key = f.key
          RETURNING r.scope, r.key),
    i AS (DELETE FROM skald.idempotency i USING r WHERE i.scope = r.scope AND i.key = r.key AND i.step = '' RETURNING 1)
    SELECT (SELECT count(*) FROM r), (SELECT count(*) FROM r) + (SELECT count(*) FROM i) INTO answers, gone;
    records := records + gone;

    -- Another service's sagas: its records of them, and the answer to their home.
    WITH found AS MATERIALIZED (
        SELECT f.scope, f.key, f.home FROM skald.ended_to_collect(before) f ORDER BY f.noted_at LIMIT batch_max),
    locked AS MATERIALIZED (
        SELECT e.scope, e.key, e.home FROM skald.ended e
          JOIN found f ON f.scope = e.scope AND f.key = e.key AND f.home = e.home
           FOR UPDATE OF e SKIP LOCKED),
    e AS (DELETE FROM skald.ended e USING locked l WHERE e.scope = l.scope AND e.key = l.key AND e.home = l.home
          RETURNING e.*),
    i AS (DELETE FROM skald.idempotency i USING e
           WHERE i.scope = e.scope AND i.key = e.key AND replace(i.step, '.compensate', '') = ANY (e.steps)
             AND i.created_at < e.ended_at + interval '12 hours'
          RETURNING 1),
    c AS (DELETE FROM skald.control c USING e
           WHERE c.scope = e.scope AND c.key = e.key AND c.requested_at < e.ended_at + interval '12 hours'
             AND NOT EXISTS (SELECT FROM skald.saga s WHERE s.scope = e.scope AND s.key = e.key)
          RETURNING 1),
    answer AS (
        SELECT n.home, 'skald.forgotten.' || gen_random_uuid() AS id, jsonb_agg(n.member) AS members
          FROM (SELECT e.home, row_number() OVER (PARTITION BY e.home) / 100 AS part,
                       jsonb_build_object('scope', e.scope, 'key', e.key, 'ended_at', e.ended_at,
                                          'service', (SELECT name FROM skald.service)) AS member
                  FROM e) n
         GROUP BY n.home, n.part),
    told AS (
        SELECT skald.enqueue(a.home, 'skald.forgotten', a.id, convert_to(a.members::text, 'UTF8'),
                             jsonb_build_object('x-idempotency-key', a.id), aggregatetype => 'skald.forget')
          FROM answer a)
    SELECT (SELECT count(*) FROM e), (SELECT count(*) FROM i) + (SELECT count(*) FROM c) + 0 * (SELECT count(*) FROM told)
      INTO forgotten, gone;
    records := records + gone;
END $$;
