-- Ids for future rows, for a caller that must know them before they are inserted. From the same sequence as all others.
-- name: new_rows
SELECT nextval('skald.outbox_id_seq') FROM generate_series(1, :count::integer)

-- name: enqueue
WITH written AS (
    INSERT INTO skald.outbox
        (id, aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination, due_at,
         if_unrouted)
    OVERRIDING SYSTEM VALUE
    VALUES (coalesce(:row::bigint, nextval('skald.outbox_id_seq')), :definition::text, :key::text, :type::text, :payload::bytea,
            :scope::text, :message_id::text, :headers::jsonb, :content_type::text, :destination::text,
            clock_timestamp() + :delay::bigint * interval '1 millisecond', :if_unrouted::text)
    RETURNING 1)
SELECT CASE WHEN count(*) <> 1 THEN skald.assert_written('skald.outbox', 1, count(*)) END FROM written

-- The same for many. '' for a row that has no id of its own yet.
-- name: enqueue_many
WITH written AS (
    INSERT INTO skald.outbox
        (id, aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination, due_at,
         if_unrouted)
    OVERRIDING SYSTEM VALUE
    SELECT coalesce(nullif(m.id, '')::bigint, nextval('skald.outbox_id_seq')), m.definition, m.key, m.type, m.payload, m.scope,
           m.message_id, m.headers::jsonb, m.content_type, m.destination, clock_timestamp() + m.delay * interval '1 millisecond',
           nullif(m.if_unrouted, '')
      FROM unnest(:definitions::text[], :keys::text[], :types::text[], :payloads::bytea[], :scopes::text[], :message_ids::text[],
                  :headers::text[], :content_types::text[], :destinations::text[], :delays::bigint[], :rows::text[], :if_unrouted::text[])
           AS m(definition, key, type, payload, scope, message_id, headers, content_type, destination, delay, id, if_unrouted)
    RETURNING 1)
SELECT CASE WHEN count(*) <> cardinality(:definitions::text[])
            THEN skald.assert_written('skald.outbox', cardinality(:definitions::text[]), count(*)) END FROM written

-- What is due, selected by existence and never by a cursor over ids: ids do not commit in order (traps R1). The fence keeps the limit from
-- being planned away (R13). Another relay skips the rows that this one has. :bytes_max bounds what one batch holds in memory; one row
-- always fits. Before :search_from nothing is left, except perhaps many dead rows that VACUUM can't remove yet (R11). The clock is read in
-- a subquery, so that it bounds the search.
-- name: take_due
WITH due AS MATERIALIZED (
    SELECT id, due_at, octet_length(payload) AS bytes
      FROM skald.outbox
     WHERE due_at >= :search_from::timestamptz AND due_at <= (SELECT clock_timestamp()) ORDER BY due_at LIMIT :rows_max::integer
       FOR UPDATE SKIP LOCKED),
fitting AS (
    SELECT id, sum(bytes) OVER (ORDER BY due_at, id) - bytes AS bytes_before FROM due)
DELETE FROM skald.outbox WHERE id = ANY (ARRAY (SELECT id FROM fitting WHERE bytes_before < :bytes_max::bigint))
RETURNING id, type, encode(payload, 'hex') AS payload, idempotency_key, headers::text AS headers, content_type, destination,
          attempts, due_at < :mark::timestamptz AS was_behind, if_unrouted IS NOT NULL AS is_users,
          CASE WHEN isfinite(due_at) THEN (extract(epoch FROM clock_timestamp() - due_at) * 1000)::bigint ELSE 0 END AS overdue_ms,
          current_setting('synchronous_standby_names') <> '' AS standbys

-- Which transactions may have rows here that are not visible yet, and since when. A row's due_at is read from the clock by an INSERT that
-- already holds this lock and keeps it until its transaction ends. So once all of these have ended, everything due before `since` is
-- visible. statement_timestamp() is older than the reading of the locks.
-- name: outbox_writers
SELECT statement_timestamp()::text AS since, coalesce(string_agg(DISTINCT virtualtransaction, ' '), '') AS writers
  FROM pg_locks
 WHERE locktype = 'relation' AND relation = 'skald.outbox'::regclass AND mode = 'RowExclusiveLock'
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())

-- Where the next search begins: at the candidate, or at the oldest row left from the mark on.
-- name: oldest_from
SELECT least(:candidate::timestamptz, (SELECT min(due_at) FROM skald.outbox WHERE due_at >= :mark::timestamptz))::text

-- name: delete_confirmed
DELETE FROM skald.outbox WHERE id = ANY (:ids::bigint[])

-- The same without those that another relay has in the meantime. Locking rows before deleting them takes three times as long.
-- name: delete_confirmed_and_free
DELETE FROM skald.outbox
 WHERE id = ANY (ARRAY (SELECT id FROM skald.outbox WHERE id = ANY (:ids::bigint[]) FOR UPDATE SKIP LOCKED))

-- Deleted and inserted again, not updated: the table's rows never change (0001_tables.sql).
-- name: defer
WITH deferred AS (
    SELECT * FROM unnest(:ids::bigint[], :errors::text[], :delays::integer[]) AS f(id, error, delay_ms)),
gone AS (
    DELETE FROM skald.outbox o USING deferred f WHERE o.id = f.id
    RETURNING o.*, f.error AS new_error, f.delay_ms),
again AS (
    INSERT INTO skald.outbox
        (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination, due_at,
         attempts, error, created_at, if_unrouted)
    SELECT aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination,
           clock_timestamp() + delay_ms * interval '1 millisecond', least(attempts, 2000000000) + 1, new_error, created_at, if_unrouted
      FROM gone
    RETURNING 1)
SELECT skald.assert_written('skald.outbox', (SELECT count(*) FROM gone), (SELECT count(*) FROM again))

-- Users' own messages that no queue is bound for.
-- name: move_to_unrouted
SELECT skald.move_to_unrouted(:ids::bigint[], :reasons::text[])
