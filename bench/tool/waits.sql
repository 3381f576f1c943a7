-- Sagas that wait, as the database has them. All times are of commits, where the server keeps them.

-- So many sagas, whose keys are the prefix and a number from $2 on. `due`: of timers, when the first is over and how far apart they are, in
-- milliseconds.
-- name: start_waiting
SELECT count(*) FILTER (WHERE skald.start('', o.id, $4, 1, o.data, p.plan, sha256(o.payload), 'bench-waiting', p.step, o.payload,
           jsonb_build_object('x-idempotency-key', o.id || ':' || p.step, 'x-saga-scope', '', 'x-saga', $4::text,
                              'x-saga-itinerary', p.plan)) = 'fresh')
  FROM (SELECT i.id, d.data, convert_to(d.data::text, 'UTF8') AS payload
          FROM generate_series($2::bigint, $2::bigint + $3::bigint - 1) AS n(n)
         CROSS JOIN LATERAL (SELECT $1::text || n.n) AS i(id)
         CROSS JOIN LATERAL (SELECT jsonb_build_object('id', i.id, 'due_ms', ($5::float8 + n.n * $6::float8)::bigint)) AS d(data)) AS o,
       (SELECT 'forward 1/2 ' || CASE $4::text WHEN 'bench-approval' THEN 'approve@bench-waiting=pivot approved@bench-waiting=retriable'
                                               ELSE 'sleep@bench-waiting=retriable woken@bench-waiting=retriable' END,
               CASE $4::text WHEN 'bench-approval' THEN 'approve' ELSE 'sleep' END) AS p(plan, step)

-- name: start_job
SELECT skald.start('', o.id, 'bench-job', 1, $2::jsonb, p.plan, sha256(o.payload), 'bench-waiting', 'work', o.payload,
                   jsonb_build_object('x-idempotency-key', o.id || ':work', 'x-saga-scope', '', 'x-saga', 'bench-job', 'x-saga-itinerary', p.plan))
  FROM (VALUES ($1::text, convert_to($2::text, 'UTF8'))) AS o(id, payload), (VALUES ('forward 1/1 work@bench-waiting=pivot')) AS p(plan)

-- `due_later`: those that still have to wait for their time.
-- name: waiting_now
SELECT count(*) FILTER (WHERE owner IS NULL), count(*) FILTER (WHERE owner IS NOT NULL), count(*) FILTER (WHERE until > clock_timestamp()),
       (SELECT count(*) FROM skald.outbox)
  FROM skald.started

-- What the service's sessions do at this moment.
-- name: sessions_now
SELECT count(*), count(*) FILTER (WHERE state <> 'idle'), count(*) FILTER (WHERE state LIKE 'idle in transaction%')
  FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'

-- name: send_signal
SELECT skald.send_signal('', $1::text, 'approve', '{"by": "ada"}')

-- name: passed
SELECT count(*), count(DISTINCT id), (SELECT count(*) FROM skald.saga WHERE status = 'completed' AND key LIKE $1::text || '%'), (SELECT count(*) FROM skald.parked)
  FROM passed WHERE id LIKE $1::text || '%'

-- When the step after each wait had ended, in milliseconds since 1970.
-- name: passed_at
SELECT id, extract(epoch FROM CASE WHEN current_setting('track_commit_timestamp') = 'on' THEN pg_xact_commit_timestamp(xmin) ELSE at END)::float8 * 1000
  FROM passed WHERE id LIKE $1::text || '%'

-- name: signal_seconds
SELECT extract(epoch FROM max(g.received_at) - min(g.received_at))::float8,
       extract(epoch FROM max(CASE WHEN current_setting('track_commit_timestamp') = 'on' THEN pg_xact_commit_timestamp(p.xmin) ELSE p.at END)
                          - min(g.received_at))::float8
  FROM passed p JOIN skald.signal g ON g.key = p.id WHERE p.id LIKE $1::text || '%'

-- From its time to the end of the wait, and to the end of the step after it, in milliseconds; and that time itself.
-- name: lateness
SELECT d.due, c.ended - d.due, c.passed - d.due
  FROM passed p
  JOIN skald.saga s ON s.key = p.id
  JOIN skald.idempotency i ON (i.scope, i.key, i.step) = (s.scope, s.key, 'sleep')
 CROSS JOIN LATERAL (SELECT (s.data->>'due_ms')::float8) AS d(due)
 CROSS JOIN LATERAL (
     SELECT extract(epoch FROM CASE WHEN t.kept THEN pg_xact_commit_timestamp(i.xmin) ELSE i.updated_at END)::float8 * 1000,
            extract(epoch FROM CASE WHEN t.kept THEN pg_xact_commit_timestamp(p.xmin) ELSE p.at END)::float8 * 1000
       FROM (SELECT current_setting('track_commit_timestamp') = 'on') AS t(kept)) AS c(ended, passed)
 WHERE p.id LIKE 'timer-%'
