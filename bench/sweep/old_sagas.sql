-- Old ended sagas, as copies of one that has just run: $1 its key, $2 what the copies' keys begin with, $3 how many.
-- Copied whole, so that they are what the real code leaves behind, also when a table gets another column.

-- name: template_saga
SELECT key FROM skald.saga WHERE status = 'completed' AND forgetting IS NULL ORDER BY finished_at DESC LIMIT 1

-- name: copy_records
INSERT INTO skald.idempotency
SELECT c.* FROM skald.idempotency r CROSS JOIN generate_series(1, $3::integer) n
  CROSS JOIN LATERAL jsonb_populate_record(r, jsonb_build_object(
      'key', $2::text || n, 'created_at', r.created_at - interval '40 days', 'updated_at', r.updated_at - interval '40 days')) c
 WHERE r.key = $1

-- name: copy_sagas
INSERT INTO skald.saga
SELECT c.* FROM skald.saga s CROSS JOIN generate_series(1, $3::integer) n
  CROSS JOIN LATERAL jsonb_populate_record(s, jsonb_build_object(
      'key', $2::text || n, 'created_at', s.created_at - interval '40 days', 'updated_at', s.updated_at - interval '40 days',
      'finished_at', s.finished_at - interval '40 days')) c
 WHERE s.key = $1

-- name: copy_answers
INSERT INTO skald.response
SELECT c.* FROM skald.response r CROSS JOIN generate_series(1, $3::integer) n
  CROSS JOIN LATERAL jsonb_populate_record(r, jsonb_build_object(
      'key', $2::text || n, 'created_at', r.created_at - interval '40 days')) c
 WHERE r.key = $1

-- name: copy_progress
INSERT INTO skald.progress
SELECT c.* FROM skald.progress p CROSS JOIN generate_series(1, $3::integer) n
  CROSS JOIN LATERAL jsonb_populate_record(p, jsonb_build_object('key', $2::text || n, 'at', p.at - interval '40 days')) c
 WHERE p.key = $1

-- Whether the home still has some: by its partial indexes, so that asking costs the measurement nothing.
-- name: are_some_left
SELECT EXISTS (SELECT FROM skald.saga WHERE finished_at < clock_timestamp() - interval '1 day' AND forgetting IS NULL)
    OR EXISTS (SELECT FROM skald.saga WHERE forgetting <> '{}')
    OR EXISTS (SELECT FROM skald.saga WHERE forgetting = '{}')

-- What is left of them in one database, in all tables together.
-- name: count_leftovers
SELECT count(*)
  FROM (SELECT key FROM skald.idempotency UNION ALL SELECT key FROM skald.saga UNION ALL SELECT key FROM skald.response
         UNION ALL SELECT key FROM skald.progress UNION ALL SELECT key FROM skald.ended) AS everything
 WHERE key LIKE $1::text || '%'

-- name: time_to_end
SELECT key, status::text, extract(epoch FROM finished_at - created_at)::float8 * 1000
  FROM skald.saga WHERE created_at >= $1::timestamptz

-- name: server_now
SELECT clock_timestamp()

-- name: server_version
SELECT current_setting('server_version')
