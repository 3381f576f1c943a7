-- The baseline's statements, prepared by name on every connection. Each takes a whole batch.

-- name: claim
INSERT INTO skald.idempotency (scope, key, step, fingerprint)
SELECT w.scope, w.key, w.step, w.fingerprint
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) AS w(scope, key, step, fingerprint)
 ORDER BY w.scope, w.key, w.step
ON CONFLICT DO NOTHING
RETURNING scope, key, step

-- What the claim found: it must be the same message, or the key was used for something else.
-- name: count_mismatches
SELECT count(*)
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) AS w(scope, key, step, fingerprint)
  JOIN skald.idempotency i ON i.scope = w.scope AND i.key = w.key AND i.step = w.step
 WHERE i.fingerprint <> w.fingerprint

-- name: create_orders
INSERT INTO customer_order (id, customer, sku, quantity, cents)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]::integer[], $5::text[]::bigint[])

-- name: create_order
INSERT INTO customer_order (id, customer, sku, quantity, cents) VALUES ($1::text, $2::text, $3::text, $4::integer, $5::bigint)

-- name: cancel_orders
UPDATE customer_order SET status = 'cancelled' WHERE id = ANY ($1::text[])

-- name: charge_all
INSERT INTO charge (order_id, customer, cents) SELECT * FROM unnest($1::text[], $2::text[], $3::text[]::bigint[])

-- name: charge
INSERT INTO charge (order_id, customer, cents) VALUES ($1::text, $2::text, $3::bigint)

-- name: ship_all
INSERT INTO shipment (order_id, sku, quantity) SELECT * FROM unnest($1::text[], $2::text[], $3::text[]::integer[])

-- name: ship
INSERT INTO shipment (order_id, sku, quantity) VALUES ($1::text, $2::text, $3::integer)

-- name: reject
UPDATE skald.idempotency i
   SET status = 'rejected', error = w.reason, updated_at = clock_timestamp()
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS w(scope, key, step, reason)
 WHERE i.scope = w.scope AND i.key = w.key AND i.step = w.step

-- name: record_progress
INSERT INTO skald.progress AS p (scope, key, step, service, status, attempts, at)
SELECT DISTINCT ON (m.scope, m.key, m.step)
       m.scope, m.key, m.step, m.service, m.status::skald.step_status, m.attempts, m.at
  FROM jsonb_to_recordset($1::jsonb)
       AS m(scope text, key text, step text, service text, status text, attempts integer, at timestamptz)
 ORDER BY m.scope, m.key, m.step, m.at DESC
ON CONFLICT ON CONSTRAINT progress_once DO UPDATE
   SET service = excluded.service, status = excluded.status, attempts = excluded.attempts, at = excluded.at
 WHERE excluded.at > p.at

-- name: advance
UPDATE skald.saga s
   SET status = m.state::skald.saga_status, updated_at = clock_timestamp(),
       reason = CASE WHEN m.state <> 'completed' THEN coalesce(s.reason, nullif(m.reason, '')) END,
       finished_at = CASE WHEN m.state IN ('completed', 'compensated') THEN clock_timestamp() END
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS m(scope, key, state, reason)
 WHERE s.scope = m.scope AND s.key = m.key AND s.status NOT IN ('completed', 'compensated')

-- The row is the insurance: it comes due only if what was published from memory is not confirmed by then.
-- name: enqueue
INSERT INTO skald.outbox (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, destination, due_at)
SELECT $8::text, w.aggregateid, w.type, w.payload, w.scope, w.idempotency_key, w.headers::jsonb, w.destination,
       clock_timestamp() + interval '5 seconds'
  FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[])
       AS w(aggregateid, type, payload, scope, idempotency_key, headers, destination)
RETURNING id

-- From where the last poll ended, so as not to walk over rows deleted since and not yet vacuumed.
-- name: take_due
SELECT id, due_at::text, type, payload, idempotency_key, headers::text, destination
  FROM skald.outbox
 WHERE due_at <= clock_timestamp() AND (due_at, id) > ($1::timestamptz, $2::bigint)
 ORDER BY due_at, id LIMIT $3::integer

-- name: delete_confirmed
DELETE FROM skald.outbox WHERE id = ANY ($1::bigint[])
