-- One batch, in the caller's transaction. The outbox has no rows before :outbox_from.
-- name: purge
SELECT asked, sagas, answers, expired, records, postponed
  FROM skald.purge(:retention_days::integer * interval '1 day', :sagas_max::integer, :outbox_from::timestamptz)

-- name: purgeable
SELECT asked, sagas, answers, expired, postponed FROM skald.purgeable(:retention_days::integer * interval '1 day')

-- Sagas that wait for services to expire them, by service.
-- name: expiring
SELECT w.service, count(*) AS sagas, to_char(min(s.asked_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since
  FROM skald.saga s, unnest(s.expiring) AS w(service)
 WHERE s.expiring <> '{}'
 GROUP BY w.service ORDER BY sagas DESC

-- Whether more rows wait than may. There are none before :outbox_from.
-- name: outbox_is_over
SELECT skald.outbox_is_over(:rows_max::bigint, :outbox_from::timestamptz) AS is_over

-- The destinations that have a queue again.
-- name: retry_unrouted
SELECT destination FROM skald.retry_unrouted() AS destination
