-- One batch, in the caller's transaction. ($1 days, $2 sagas; the outbox has no rows before $3)
-- name: purge
SELECT asked, sagas, answers, expired, records, postponed
  FROM skald.purge($1::integer * interval '1 day', $2::integer, $3::timestamptz)

-- name: purgeable
SELECT asked, sagas, answers, expired FROM skald.purgeable($1::integer * interval '1 day')

-- Sagas that wait for services to expire them, by service.
-- name: expiring
SELECT w.service, count(*), to_char(min(s.asked_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
  FROM skald.saga s, unnest(s.expiring) AS w(service)
 WHERE s.expiring <> '{}'
 GROUP BY 1 ORDER BY 2 DESC

-- Whether more than $1 rows wait. There are none before $2.
-- name: outbox_is_over
SELECT skald.outbox_is_over($1::bigint, $2::timestamptz)

-- The destinations that have a queue again.
-- name: retry_unrouted
SELECT destination FROM skald.retry_unrouted() AS destination
