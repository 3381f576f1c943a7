-- What the command line asks. Not prepared: each is asked once.

-- name: outbox_totals
SELECT count(*) AS messages, coalesce(extract(epoch FROM clock_timestamp() - skald.shown(min(created_at))), 0)::bigint AS oldest_seconds,
       count(*) FILTER (WHERE due_at <= clock_timestamp()) AS due, count(*) FILTER (WHERE error IS NOT NULL) AS deferred
  FROM skald.outbox

-- What could leave now, or could not when it was tried.
-- name: outbox_unsent
SELECT count(*) AS messages FROM skald.outbox WHERE due_at <= clock_timestamp() OR error IS NOT NULL

-- What of one saga is due and was not taken: looked for among the first, since there is no index by key.
-- name: outbox_of_saga
SELECT o.destination, coalesce(o.error, '') AS error, extract(epoch FROM clock_timestamp() - skald.shown(o.created_at))::bigint AS age_seconds
  FROM (SELECT * FROM skald.outbox ORDER BY due_at LIMIT 20000) AS o
 WHERE (o.scope, o.aggregateid) = (:scope::text, :key::text) AND o.due_at < clock_timestamp() - interval '5 s'
 ORDER BY o.created_at, o.id

-- name: outbox_by_destination
SELECT destination, count(*) AS messages,
       extract(epoch FROM clock_timestamp() - skald.shown(min(created_at)))::bigint AS oldest_seconds,
       count(*) FILTER (WHERE error IS NOT NULL) AS deferred
  FROM skald.outbox GROUP BY destination ORDER BY messages DESC, destination

-- name: outbox_by_reason
SELECT destination, error, count(*) AS messages, max(attempts) AS attempts_max
  FROM skald.outbox WHERE error IS NOT NULL GROUP BY destination, error ORDER BY messages DESC, destination, error LIMIT 50

-- Messages that wait because the broker takes none for their exchange: it closed the channel over one (ports::publish_status::barred). Without
-- a broker: those whose peer's database, or the file of peers, has to be put right by somebody (framework/src/inbox).
-- name: outbox_barred
SELECT error, count(*) AS messages, min(destination) AS destination,
       extract(epoch FROM clock_timestamp() - skald.shown(min(created_at)))::bigint AS seconds,
       error LIKE 'the broker closed the channel: %' AS is_broker
  FROM skald.outbox
 WHERE error LIKE ANY (ARRAY['the broker closed the channel: %', '%: it is another database than %', '%: this role lacks %',
                             '%: it is a copy of its service''s database%', 'no inbox is known for %',
                             'without a broker there is no exchange %'])
 GROUP BY error ORDER BY messages DESC, error LIMIT 10

-- The queues of an inbox, without a broker, also those that were deleted before their messages were; how many processes that are alive take
-- from each, and how many there are of the service; and what removes one that nobody takes from any more, bindings first.
-- name: inbox_queues
WITH alive AS (SELECT queues FROM skald.consumer WHERE seen_at > clock_timestamp() - interval '30 seconds')
SELECT q.name, count(i.id) FILTER (WHERE i.consumer IS NULL) AS waiting, count(i.consumer) AS taken,
       coalesce(extract(epoch FROM clock_timestamp() - min(i.arrived_at)), 0)::bigint AS oldest_seconds,
       (SELECT count(*) FROM alive a WHERE q.name = ANY (a.queues)) AS consumers, (SELECT count(*) FROM alive) AS processes,
       format('DELETE FROM skald.binding WHERE queue = %1$L; DELETE FROM skald.queue WHERE name = %1$L; '
              'DELETE FROM skald.inbox WHERE queue = %1$L', q.name) AS removed_by
  FROM (SELECT name FROM skald.queue UNION SELECT queue FROM skald.inbox) AS q LEFT JOIN skald.inbox i ON i.queue = q.name
 GROUP BY q.name ORDER BY q.name

-- Whether a sender of this user may write into this inbox, and whose it is. `is_copy`: as sender_session has it (inbox.sql).
-- name: inbox_of_peer
SELECT (SELECT name FROM skald.service) AS owner,
       EXISTS (SELECT FROM skald.service s CROSS JOIN skald.place() AS here
                WHERE here <> s.place AND here <> regexp_replace(s.place, '^[^/]*', '')) AS is_copy,
       array_to_string(ARRAY(
           SELECT 'SELECT on skald.' || name FROM unnest(ARRAY['queue', 'binding']) AS name WHERE NOT has_table_privilege('skald.' || name, 'SELECT')
            UNION ALL
           SELECT 'INSERT (' || name || ') on skald.inbox'
             FROM unnest(ARRAY['queue', 'message_id', 'type', 'content_type', 'headers', 'body']) AS name
            WHERE NOT has_column_privilege('skald.inbox', name, 'INSERT')
            UNION ALL
           SELECT 'EXECUTE on skald.deliver()'
            WHERE NOT has_function_privilege('skald.deliver(text[], text[], text[], text[], text[], bytea[])', 'EXECUTE')), ', ') AS missing

-- name: peer_consumes
SELECT EXISTS (SELECT FROM skald.queue WHERE name = :service::text) AS declared
