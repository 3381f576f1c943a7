-- The databases that the bench creates for itself, and what it fills them with.

-- name: unix_socket
SELECT split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_user

-- In the scope of the new ones (load.sql): the index begins with it, and these must meet the pages of the old ones.
-- name: old_records
INSERT INTO skald.idempotency (scope, key, step, fingerprint, created_at, updated_at)
SELECT '', CASE WHEN $2::boolean
                -- A UUIDv7 of the last year: its first 48 bits are milliseconds, so it comes after the one before.
                THEN left(h, 8) || '-' || substr(h, 9, 4) || '-7' || substr(md5(n::text), 1, 3) || '-8' ||
                     substr(md5(n::text), 4, 3) || '-' || substr(md5(n::text), 7, 12)
                ELSE gen_random_uuid()::text END,
       $3::text, decode(md5(n::text) || md5(n::text), 'hex'), t.at, t.at
  FROM generate_series(1, $1::bigint) AS n
 CROSS JOIN LATERAL (SELECT clock_timestamp() - interval '365 days' + n * (interval '360 days' / $1::float8)) AS t(at)
 CROSS JOIN LATERAL (SELECT lpad(to_hex((extract(epoch FROM t.at) * 1000)::bigint), 12, '0')) AS m(h)

-- name: drop_key
ALTER TABLE skald.idempotency DROP CONSTRAINT idempotency_once

-- Ordered keys leave full pages behind; random ones leave split pages, on average about 70 % full.
-- name: add_key_for_ordered
ALTER TABLE skald.idempotency ADD CONSTRAINT idempotency_once PRIMARY KEY (scope, key, step) WITH (fillfactor = 90)

-- name: add_key_for_random
ALTER TABLE skald.idempotency ADD CONSTRAINT idempotency_once PRIMARY KEY (scope, key, step) WITH (fillfactor = 70)

-- name: key_bytes
SELECT pg_relation_size('skald.idempotency_once'), pg_relation_size('skald.idempotency')

-- A service that has not consumed yet has no queues (sink.hpp).
-- name: open_inbox
INSERT INTO skald.queue (name) VALUES ('bench-' || $1::text), ('bench-' || $1::text || '.on.payment-due') ON CONFLICT DO NOTHING

-- name: open_queue
INSERT INTO skald.queue (name) VALUES ($1::text) ON CONFLICT DO NOTHING

-- name: empty_inbox
TRUNCATE skald.inbox

-- A backlog that only the relay handles: its messages go to a queue that keeps the last few, or to an inbox.
-- name: backlog
INSERT INTO skald.outbox (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, destination)
SELECT 'bench-order', k.key, 'create-order', convert_to(b.body, 'UTF8'), 'plain', k.key || ':create-order',
       jsonb_build_object('x-idempotency-key', k.key || ':create-order', 'x-saga-scope', 'plain', 'x-saga', 'bench-order',
                          'x-saga-version', '1', 'x-saga-itinerary', $2::text, 'x-saga-home', 'bench-orders', 'x-attempt', '1'),
       'bench-sink'
  FROM (SELECT gen_random_uuid()::text AS key FROM generate_series(1, $1::bigint)) AS k
 CROSS JOIN LATERAL (SELECT format('{"id":"%s","customer":"ada","sku":"tea","quantity":1,"cents":1200}', k.key)) AS b(body)

-- For a step, or for a handler of the same service: each inserts the same row and sends the same message.
-- name: messages_for_step
INSERT INTO skald.outbox (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, destination)
SELECT 'bench-order', k.key, 'charge-payment', convert_to(b.body, 'UTF8'), '', k.key || ':charge-payment',
       jsonb_build_object('x-idempotency-key', k.key || ':charge-payment', 'x-saga-scope', '', 'x-saga', 'bench-order',
                          'x-saga-version', '1', 'x-saga-itinerary', $2::text, 'x-saga-home', 'bench-orders', 'x-attempt', '1'),
       'bench-payments'
  FROM (SELECT gen_random_uuid()::text AS key FROM generate_series(1, $1::bigint)) AS k
 CROSS JOIN LATERAL (SELECT format('{"id":"%s","customer":"ada","sku":"tea","quantity":1,"cents":1200}', k.key)) AS b(body)

-- name: messages_for_handler
INSERT INTO skald.outbox (aggregatetype, aggregateid, type, payload, scope, idempotency_key, destination, if_unrouted)
SELECT 'shop', k.key, 'payment-due', convert_to(b.body, 'UTF8'), '', k.key, 'bench-payments.on.payment-due', 'keep'
  FROM (SELECT gen_random_uuid()::text AS key FROM generate_series(1, $1::bigint)) AS k
 CROSS JOIN LATERAL (SELECT format('{"id":"%s","customer":"ada","sku":"tea","quantity":1,"cents":1200}', k.key)) AS b(body)

-- From the first record to the last.
-- name: handled
SELECT count(*), coalesce(extract(epoch FROM max(updated_at) - min(updated_at)), 0)::float8, (SELECT count(*) FROM charge)
  FROM skald.idempotency WHERE step = $1::text

-- name: is_backlog_left
SELECT EXISTS (SELECT FROM skald.outbox)
