-- name: enqueue
INSERT INTO skald.outbox
    (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination, due_at)
VALUES ($1::text, $2::text, $3::text, $4::bytea, $5::text, $6::text, $7::jsonb, $8::text, $9::text,
        clock_timestamp() + $10::integer * interval '1 millisecond')

-- What is due, taken by existence and never by a cursor over ids: ids do not commit in order (traps R1). The fence keeps
-- the limit from being planned away (R13). Another relay passes over rows that this one has. $2 bounds the bytes that one
-- batch holds in memory; one row always fits.
-- name: take_due
WITH due AS MATERIALIZED (
    SELECT id, due_at, octet_length(payload) AS bytes
      FROM skald.outbox WHERE due_at <= clock_timestamp() ORDER BY due_at, id LIMIT $1::integer
       FOR UPDATE SKIP LOCKED),
fitting AS (
    SELECT id, sum(bytes) OVER (ORDER BY due_at, id) - bytes AS bytes_before FROM due)
DELETE FROM skald.outbox o USING fitting f WHERE o.id = f.id AND f.bytes_before < $2::bigint
RETURNING o.id, o.type, encode(o.payload, 'hex') AS payload, o.idempotency_key, o.headers::text, o.content_type,
          o.destination, o.attempts

-- name: delete_confirmed
DELETE FROM skald.outbox WHERE id = ANY ($1::bigint[])

-- Deleted and inserted again, not updated: the table's rows never change (0001_tables.sql).
-- name: put_off
WITH failed AS (
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::integer[]) AS f(id, error, delay_ms)),
gone AS (
    DELETE FROM skald.outbox o USING failed f WHERE o.id = f.id
    RETURNING o.*, f.error AS new_error, f.delay_ms)
INSERT INTO skald.outbox
    (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination, due_at,
     attempts, error, created_at)
SELECT aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination,
       clock_timestamp() + delay_ms * interval '1 millisecond', attempts + 1, new_error, created_at
  FROM gone

-- name: backlog
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::bigint FROM skald.outbox
