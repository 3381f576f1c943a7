-- The transport without a broker: what a sender does in its peer's database, and a consumer in its own.

-- Until `flush`, what was delivered may be lost with the server: a consumer begins with it before that. Whatever the consumer commits for good is
-- written after the delivery, and so is flushed after it. (docs/adr/0058-delivered-before-the-flush.md)
-- Nothing is sent to a copy, or to what was restored, before it was adopted: until then its service does not run. Whoever may not ask which
-- server it is compares the rest of the place.
-- name: sender_session
SELECT set_config('skald.durable', current_setting('synchronous_commit'), false),
       set_config('synchronous_commit', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false),
       s.id::text AS id, s.name AS service, coalesce(here <> s.place AND here <> regexp_replace(s.place, '^[^/]*', ''), false) AS is_copy
  FROM skald.place() AS here LEFT JOIN skald.service s ON true

-- name: deliver
SELECT name FROM unnest(skald.deliver(:destinations::text[], :message_ids::text[], :types::text[], :content_types::text[], :headers::text[],
                                      :bodies::bytea[])) AS name

-- Flushes what this session has delivered, and waits for standbys as the database is set: a commit without a record before it would do neither.
-- name: flush
SELECT set_config('synchronous_commit', current_setting('skald.durable'), true), pg_logical_emit_message(true, 'skald', '')

-- What a consumer writes may be lost with the server: then its messages come again. A plan that was made while the inbox was small is kept as
-- it grows: only the index is right then. To plan a statement for a message takes longer than to run it.
-- name: consumer_session
SELECT set_config('synchronous_commit', 'off', false), set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false), set_config('jit', 'off', false),
       set_config('plan_cache_mode', 'force_generic_plan', false)

-- name: declare
WITH queues AS (INSERT INTO skald.queue (name) SELECT unnest(:queues::text[]) ON CONFLICT DO NOTHING)
INSERT INTO skald.binding (routing_key, queue)
SELECT * FROM unnest(:routing_keys::text[], :bound_queues::text[]) ON CONFLICT DO NOTHING

-- Before anybody can see the row its lock is held.
-- name: begin_consumer
WITH made AS (INSERT INTO skald.consumer (is_of, queues) VALUES (:is_of::text, :queues::text[]) RETURNING id)
SELECT id, pg_advisory_lock(hashtextextended('skald.consumer', id)) FROM made

-- No queue has a message before its first id, so that the search does not walk over the dead rows of all that was taken since the oldest
-- snapshot (traps R11). A consumer that others hold for dead takes nothing: its row is locked, so that whoever ends it sees afterwards all that it has taken.
-- What was found is written by its place: a join may be planned as a walk over the whole index, once a table full of dead rows counts as empty.
-- name: take
WITH alive AS MATERIALIZED (SELECT id FROM skald.consumer WHERE id = :me::bigint FOR KEY SHARE),
free AS MATERIALIZED (
    SELECT f.place
      FROM unnest(:queues::text[], :rooms::bigint[], :first_ids::bigint[]) AS r(queue, room, first_id)
     CROSS JOIN LATERAL (SELECT i.ctid AS place FROM skald.inbox i
                          WHERE i.queue = r.queue AND i.id >= r.first_id AND i.consumer IS NULL
                          ORDER BY i.id LIMIT r.room FOR UPDATE SKIP LOCKED) AS f)
UPDATE skald.inbox i SET consumer = :me::bigint
 WHERE i.ctid = ANY (ARRAY (SELECT place FROM free)) AND EXISTS (SELECT FROM alive)
RETURNING i.queue, i.id, i.returns, i.message_id, i.type, i.content_type, i.headers::text AS headers, encode(i.body, 'hex') AS body

-- The last id that was given out. Whoever was given one up to that has the table locked until its transaction ends: asked for afterwards.
-- name: last_id
SELECT coalesce(pg_sequence_last_value('skald.inbox_id_seq'), 0) AS id

-- name: inbox_writers
SELECT DISTINCT virtualtransaction AS writer
  FROM pg_locks
 WHERE locktype = 'relation' AND relation = 'skald.inbox'::regclass AND mode = 'RowExclusiveLock'
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())

-- What is left, up to :last_id; everything up to there is visible by now.
-- name: first_ids
SELECT least(:last_id::bigint + 1,
             (SELECT min(i.id) FROM skald.inbox i WHERE i.queue = r.queue AND i.id >= r.first_id)) AS id
  FROM unnest(:queues::text[], :first_ids::bigint[]) WITH ORDINALITY AS r(queue, first_id, place)
 ORDER BY r.place

-- name: delete_acked
DELETE FROM skald.inbox i
 WHERE i.ctid = ANY (ARRAY (SELECT f.place FROM unnest(:queues::text[], :ids::bigint[]) AS a(queue, id)
                             CROSS JOIN LATERAL (SELECT x.ctid AS place FROM skald.inbox x
                                                  WHERE x.queue = a.queue AND x.id = a.id LIMIT 1) AS f))
   AND i.consumer = :me::bigint

-- name: put_back
WITH back AS (
    UPDATE skald.inbox i SET consumer = NULL, returns = least(i.returns, 1000000) + 1
     WHERE i.ctid = ANY (ARRAY (SELECT f.place FROM unnest(:queues::text[], :ids::bigint[]) AS a(queue, id)
                                 CROSS JOIN LATERAL (SELECT x.ctid AS place FROM skald.inbox x
                                                      WHERE x.queue = a.queue AND x.id = a.id LIMIT 1) AS f))
       AND i.consumer = :me::bigint
    RETURNING 1)
SELECT pg_notify('skald_inbox', '') FROM back LIMIT 1

-- Still known to the others? No row: they have given its messages to somebody else.
-- name: keep_consumer
UPDATE skald.consumer SET seen_at = clock_timestamp() WHERE id = :me::bigint RETURNING id

-- Consumers that are gone, or hang. :ended names those of this process that have ended, whatever the server knows of them.
-- name: end_consumers
DELETE FROM skald.consumer
 WHERE id <> :me::bigint
   AND (id = ANY (:ended::bigint[]) OR seen_at < clock_timestamp() - :silence::bigint * interval '1 millisecond'
        OR pg_try_advisory_xact_lock(hashtextextended('skald.consumer', id)))
RETURNING id

-- name: end_consumer
DELETE FROM skald.consumer WHERE id = :me::bigint

-- What nobody has, though it is marked as taken. Walks over the whole inbox: only when a consumer begins, or has ended. A statement of its
-- own after that end, whose snapshot has what was taken until then.
-- name: free_orphans
WITH freed AS (
    UPDATE skald.inbox i SET consumer = NULL, returns = least(i.returns, 1000000) + 1
     WHERE i.consumer IS NOT NULL AND NOT EXISTS (SELECT FROM skald.consumer c WHERE c.id = i.consumer)
    RETURNING 1)
SELECT pg_notify('skald_inbox', '') FROM freed LIMIT 1
