-- How sagas are started, and how far they have got.

-- Many at once, with the rows that skald.start() makes for each (bench_tests compares them).
-- name: start_rows
WITH wanted AS MATERIALIZED (
    SELECT data, data ->> 'id' AS key, convert_to(data::text, 'UTF8') AS body FROM jsonb_array_elements($1::jsonb) AS w(data)),
records AS (
    INSERT INTO skald.idempotency (scope, key, step, fingerprint)
    SELECT '', key, '', sha256(body) FROM wanted),
sagas AS (
    INSERT INTO skald.saga (scope, key, definition, version, data, itinerary)
    SELECT '', key, $2::text, 1, data, $3::text FROM wanted)
INSERT INTO skald.outbox (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination)
SELECT $2::text, key, 'create-order', body, '', key || ':create-order',
       jsonb_build_object('x-idempotency-key', key || ':create-order', 'x-saga-scope', '', 'x-saga', $2::text,
                          'x-saga-version', '1', 'x-saga-itinerary', $3::text, 'x-saga-home', $4::text,
                          'x-attempt', '1'),
       'application/json', $4::text
  FROM wanted

-- The same by skald.start(), one call for each.
-- name: start_function
SELECT skald.start('', w.key, $2::text, 1, w.data, $3::text, sha256(w.body), $4::text, 'create-order', w.body,
                   jsonb_build_object('x-idempotency-key', w.key || ':create-order', 'x-saga-scope', '',
                                      'x-saga', $2::text, 'x-saga-version', '1', 'x-saga-itinerary', $3::text,
                                      'x-attempt', '1'))
  FROM (SELECT data, data ->> 'id' AS key, convert_to(data::text, 'UTF8') AS body FROM jsonb_array_elements($1::jsonb) AS e(data)) AS w

-- From the oldest that was under way at the last poll: so that this never walks over what ended long ago.
-- name: under_way
SELECT count(*), coalesce(min(created_at), clock_timestamp())::text
  FROM skald.saga
 WHERE status IN ('running', 'compensating', 'stuck') AND created_at >= $1::timestamptz

-- name: server_now
SELECT clock_timestamp()::text

-- name: ended_between
SELECT count(*) FROM skald.saga
 WHERE finished_at >= $1::timestamptz AND finished_at < $2::timestamptz AND finished_at IS NOT NULL AND expiring IS NULL

-- By parts of equal length of the time in between.
-- name: ended_by_part
SELECT floor(extract(epoch FROM finished_at - $1::timestamptz)
             / extract(epoch FROM $2::timestamptz - $1::timestamptz) * $3::integer)::integer, count(*)
  FROM skald.saga
 WHERE finished_at >= $1::timestamptz AND finished_at < $2::timestamptz AND finished_at IS NOT NULL AND expiring IS NULL
 GROUP BY 1 ORDER BY 1

-- name: ended_of
SELECT key FROM skald.saga WHERE scope = '' AND key = ANY ($1::text[]) AND status = 'completed'

-- name: state_of
SELECT status::text FROM skald.saga WHERE (scope, key) = ('', $1::text)

-- When each one started since then ended: at the latest time the server can report, which is when it wrote the COMMIT.
-- name: ends
SELECT key, extract(epoch FROM CASE WHEN current_setting('track_commit_timestamp') = 'on' THEN pg_xact_commit_timestamp(xmin)
                                    ELSE finished_at END)::float8
  FROM skald.saga WHERE created_at >= $1::timestamptz AND status = 'completed'

-- name: counts_orders
SELECT (SELECT count(*) FROM customer_order), (SELECT count(*) FROM skald.saga WHERE status = 'completed'),
       (SELECT count(*) FROM skald.parked), (SELECT count(*) FROM skald.outbox)

-- name: counts_payments
SELECT (SELECT count(*) FROM charge), (SELECT count(*) FROM skald.parked), (SELECT count(*) FROM skald.outbox)

-- name: counts_shipping
SELECT (SELECT count(*) FROM shipment), (SELECT count(*) FROM skald.parked), (SELECT count(*) FROM skald.outbox)

-- name: is_unsent
SELECT EXISTS (SELECT FROM skald.outbox)
