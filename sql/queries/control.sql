-- What an operator does: commands for one saga, and parked deliveries.

-- name: take_control
SELECT skald.take_control(:command::jsonb)

-- name: request_control
SELECT skald.request_control(:action::text, :scope::text, :key::text, :reason::text, :requested_by::text)::text AS answer

-- name: close_saga
SELECT skald.close_saga(:status::text, :scope::text, :key::text, :reason::text, :requested_by::text,
                        :even_with_calls::boolean)::text AS answer

-- What waits for the broker, the oldest first. Ids of rows change with each try; message ids do not.
-- name: list_messages
SELECT o.idempotency_key AS message_id, o.type, o.destination, o.scope, o.aggregateid AS key, o.attempts,
       coalesce(o.error, '') AS error, extract(epoch FROM clock_timestamp() - skald.shown(o.created_at))::bigint AS age_seconds
  FROM skald.outbox o
 WHERE (:destination::text IS NULL OR o.destination = :destination::text) AND (:key::text IS NULL OR o.aggregateid = :key::text)
 ORDER BY o.created_at, o.id
 LIMIT :rows_max::integer

-- name: drop_messages
SELECT skald.drop_messages(:destination::text, :message_id::text, :reason::text, :by::text, :forced::boolean,
                           :of_scope::text, :at_most::integer, :before::timestamptz)::text AS answer

-- name: list_parked
SELECT p.id, p.scope, p.key, p.step, p.handler, p.reason, p.error, p.type, p.attempts, skald.instant(p.parked_at) AS parked_at,
       octet_length(p.body) AS body_bytes, CASE WHEN octet_length(p.body) = 0 THEN p.headers->>'skald-body' END AS kept
  FROM skald.parked p
 WHERE (:reason::text IS NULL OR p.reason = :reason::text)
   AND (:scope::text IS NULL OR p.scope = :scope::text)
   AND (:key::text IS NULL OR p.key = :key::text)
   AND (:step::text IS NULL OR p.step = :step::text)
   AND p.id > :after::bigint
 ORDER BY p.id
 LIMIT :rows_max::integer

-- name: newest_parked
SELECT max(id) AS id FROM skald.parked

-- name: show_parked
SELECT p.id, p.scope, p.key, p.step, p.handler, p.reason, p.error, p.message_id, p.type, p.content_type, p.attempts,
       skald.instant(p.parked_at) AS parked_at, encode(p.body, 'hex') AS body, p.headers::text AS headers,
       CASE WHEN octet_length(p.body) = 0 THEN p.headers->>'skald-body' END AS kept,
       i.status::text AS record, coalesce(i.attempts, 0) AS record_attempts, skald.is_replayable(p.parked_at) AS replayable,
       skald.unsendable(p) AS unsendable, skald.refusal(p, i.status, true) IS NOT NULL AS is_refused, skald.is_waited_for(p, i.status) AS is_waited_for,
       -- the service that runs its step by its itinerary, if that is another one
       CASE WHEN p.reason = 'unknown_step' AND p.handler = '' THEN
           (SELECT l.service FROM skald.itinerary_steps(p.headers->>'x-saga-itinerary') AS l
             WHERE l.step = p.type AND l.service <> (SELECT s.name FROM skald.service s) LIMIT 1) END AS elsewhere
  FROM skald.parked p
  LEFT JOIN skald.idempotency i ON (i.scope, i.key, i.step) = (p.scope, p.key, p.step) AND p.step <> '' AND skald.is_for(i.home, p)
 WHERE p.id = :id::bigint

-- name: recorded_parked
SELECT (SELECT s.name FROM skald.service s) || CASE WHEN p.handler <> '' THEN '.on.' || p.handler ELSE '' END AS destination, p.id, p.scope, p.key, p.step, p.reason, p.error, p.message_id, p.type,
       p.content_type, p.attempts, skald.instant(p.parked_at) AS parked_at, encode(p.body, 'hex') AS body,
       p.headers::text AS headers, i.status::text AS record, i.attempts AS record_attempts, i.snoozes AS record_snoozes
  FROM skald.parked p
  LEFT JOIN skald.idempotency i ON (i.scope, i.key, i.step) = (p.scope, p.key, p.step)
 WHERE p.id = :id::bigint

-- name: replay_parked
SELECT skald.replay_parked(:id::bigint, :by::text, :forced::boolean, :vouched::boolean, :why::text) AS refusal

-- name: drop_parked
SELECT skald.drop_parked(:id::bigint, :reason::text, :by::text, :forced::boolean) AS refusal
