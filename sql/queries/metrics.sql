-- What /metrics shows of the database (docs/observability.md). Run every few seconds, so each part is bounded: nothing is counted beyond
-- :rows_max, and an index says where to look.

-- One row for each figure: what it is, one or two labels, its value.
-- name: figures
-- Those that need an operator apart: as many as are counted may be older and wait for a signal.
WITH not_ended AS (
    SELECT s.scope, s.key, s.definition, s.status, s.created_at FROM skald.saga s
     WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown') ORDER BY s.created_at LIMIT :rows_max::bigint),
-- A saga that waits here for a signal or a time is as old as it should be.
under_way AS (
    SELECT n.definition, n.status::text AS state, count(*) AS sagas, min(n.created_at) FILTER (WHERE NOT EXISTS (
               SELECT FROM skald.started w WHERE (w.scope, w.key) = (n.scope, n.key) AND w.kind = 'wait')) AS since
      FROM not_ended n WHERE n.status IN ('running', 'compensating') GROUP BY 1, 2
    UNION ALL
    SELECT u.definition, u.status::text, count(*), min(u.created_at)
      FROM ((SELECT s.definition, s.status, s.created_at FROM skald.saga s
              WHERE s.status = 'stuck' ORDER BY s.created_at LIMIT :rows_max::bigint)
            UNION ALL
            (SELECT s.definition, s.status, s.created_at FROM skald.saga s
              WHERE s.status = 'unknown' ORDER BY s.created_at LIMIT :rows_max::bigint)) AS u
     GROUP BY 1, 2),
-- A refused row is put off again and again: it is as late as it is old.
waiting AS (
    SELECT w.state, count(*) AS messages, min(w.since) FILTER (WHERE w.state <> 'later' AND isfinite(w.since)) AS since
      FROM (SELECT CASE WHEN o.error IS NOT NULL THEN o.created_at ELSE o.due_at END AS since,
                   CASE WHEN o.error IS NOT NULL THEN 'refused'
                                  WHEN o.due_at <= clock_timestamp() THEN 'due'
                                  ELSE 'later' END AS state
              FROM skald.outbox o WHERE o.due_at >= :outbox_from::timestamptz ORDER BY o.due_at LIMIT :rows_max::bigint) AS w
     GROUP BY 1),
started_rows AS MATERIALIZED (
    SELECT kind, dependency, step, tries, created_at, due_at FROM skald.started ORDER BY kind, dependency, due_at LIMIT :rows_max::bigint),
started AS (
    SELECT s.kind, s.dependency, count(*) AS steps, min(s.created_at) AS since, min(s.due_at) AS due_at FROM started_rows s GROUP BY 1, 2),
-- As `skald doctor` counts them: what fails once or twice is tried again, and usually succeeds.
unsettled AS (
    SELECT regexp_replace(s.step, '\.compensate$', '') AS step,
           CASE WHEN s.step LIKE '%.compensate' THEN 'compensation' ELSE 'forward' END AS direction, count(*) AS steps
      FROM started_rows s WHERE s.tries >= 3 GROUP BY 1, 2),
unknown_calls AS (
    SELECT s.dependency, count(*) AS calls
      FROM (SELECT scope, key, step, dependency FROM skald.started WHERE kind = 'call' AND looks > 0
             ORDER BY kind, dependency, due_at LIMIT :rows_max::bigint) AS s
      JOIN skald.idempotency i ON (i.scope, i.key, i.step) = (s.scope, s.key, s.step) AND i.status = 'unknown'
     GROUP BY 1),
parked AS (
    SELECT p.reason, count(*) AS deliveries FROM (SELECT reason FROM skald.parked LIMIT :rows_max::bigint) AS p GROUP BY 1)
SELECT 'sagas' AS figure, definition AS first, state AS second, sagas::float8 AS value FROM under_way
UNION ALL
SELECT 'oldest', definition, state, extract(epoch FROM clock_timestamp() - since)::float8 FROM under_way WHERE since IS NOT NULL
UNION ALL
SELECT 'outbox', s.state, '', coalesce(w.messages, 0)::float8
  FROM unnest(ARRAY['due', 'refused', 'later']) AS s(state) LEFT JOIN waiting w ON w.state = s.state
UNION ALL
SELECT 'overdue', '', '', greatest(extract(epoch FROM clock_timestamp() - (SELECT min(since) FROM waiting)), 0)::float8
UNION ALL
SELECT 'parked', reason, '', deliveries::float8 FROM parked
UNION ALL
SELECT 'started', kind, dependency, steps::float8 FROM started
UNION ALL
SELECT 'oldest started', kind, dependency, extract(epoch FROM clock_timestamp() - since)::float8 FROM started
UNION ALL
SELECT 'overdue started', kind, dependency, greatest(extract(epoch FROM clock_timestamp() - due_at), 0)::float8 FROM started
UNION ALL
SELECT 'unsettled', step, direction, steps::float8 FROM unsettled
UNION ALL
SELECT 'unknown calls', dependency, '', calls::float8 FROM unknown_calls
UNION ALL
SELECT 'unrouted', '', '', count(*)::float8 FROM (SELECT FROM skald.unrouted LIMIT :rows_max::bigint) AS u
UNION ALL
SELECT 'deadlocks', '', '', deadlocks::float8 FROM pg_stat_database WHERE datname = current_database()

-- Sagas that ended after :after and until two seconds ago, by definition, end, and how many of :bounds they exceed; and until when that
-- was, and whether that is all: about :rows_max at a time. A transaction that is still committing has set finished_at already, so the last
-- two seconds are left for the next time.
-- name: ended_sagas
WITH read AS MATERIALIZED (
    SELECT coalesce(later.finished_at, n.now) AS until, later.finished_at IS NULL AS is_all
      FROM (SELECT clock_timestamp() - interval '2 seconds' AS now) AS n
      LEFT JOIN LATERAL (
           SELECT s.finished_at FROM skald.saga s
            WHERE s.finished_at IS NOT NULL AND s.expiring IS NULL AND s.finished_at > nullif(:after::text, '')::timestamptz
              AND s.finished_at <= n.now
            ORDER BY s.finished_at OFFSET :rows_max::bigint LIMIT 1) AS later ON true),
ended AS (
    SELECT s.definition, s.status::text AS status, extract(epoch FROM s.finished_at - s.created_at)::float8 AS seconds
      FROM skald.saga s
     WHERE s.finished_at IS NOT NULL AND s.expiring IS NULL AND s.finished_at > nullif(:after::text, '')::timestamptz
       AND s.finished_at <= (SELECT until FROM read))
SELECT NULL AS definition, NULL AS status, NULL::integer AS bucket, NULL::bigint AS sagas, NULL::float8 AS seconds, until::text, is_all FROM read
UNION ALL
SELECT definition, status, width_bucket(seconds, :bounds::float8[]), count(*), sum(seconds), NULL, NULL FROM ended GROUP BY 1, 2, 3

-- Adds to the counts of keys that were delivered more than once (0012_deliveries_seen.sql): `more` after the first. In the order of keys,
-- so that two processes can't deadlock. A key without a record is not kept: nothing would remove it.
-- name: record_deliveries
INSERT INTO skald.deliveries_seen AS d (scope, key, step, home, delivered, duplicates)
SELECT m.scope, m.key, m.step, m.home, 1 + m.more, m.duplicates
  FROM unnest(:scopes::text[], :keys::text[], :steps::text[], :homes::text[], :more::bigint[], :duplicates::bigint[])
       AS m(scope, key, step, home, more, duplicates)
 WHERE EXISTS (SELECT FROM skald.idempotency i WHERE i.scope = m.scope AND i.key = m.key AND i.step = m.step)
 ORDER BY m.scope COLLATE "C", m.key COLLATE "C", m.step COLLATE "C", m.home COLLATE "C"
ON CONFLICT ON CONSTRAINT deliveries_seen_once DO UPDATE
   SET delivered = d.delivered + excluded.delivered - 1, duplicates = d.duplicates + excluded.duplicates, last_at = clock_timestamp()
