-- One batch, in the caller's transaction. ($1 days, $2 sagas)
-- name: purge
SELECT asked, sagas, answers, forgotten, records, postponed
  FROM skald.purge($1::integer * interval '1 day', $2::integer)

-- name: purgeable
SELECT asked, sagas, answers, forgotten FROM skald.purgeable($1::integer * interval '1 day')

-- Sagas that wait for services to forget them, by service.
-- name: forgetting
SELECT w.service, count(*), to_char(min(s.asked_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
  FROM skald.saga s, unnest(s.forgetting) AS w(service)
 WHERE s.forgetting <> '{}'
 GROUP BY 1 ORDER BY 2 DESC

-- Whether more than $1 rows wait, without counting beyond. None is left before $2: where the count begins, so that it does not
-- walk over all the dead rows that a snapshot keeps (R11). The order is what makes it go by the index.
-- name: outbox_is_over
SELECT count(*) > $1::bigint
  FROM (SELECT FROM skald.outbox WHERE due_at >= $2::timestamptz ORDER BY due_at, id LIMIT $1::bigint + 1) AS o
