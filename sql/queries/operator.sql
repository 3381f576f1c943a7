-- What the command line asks. Not prepared: each is asked once.

-- name: outbox_totals
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - skald.shown(min(created_at))), 0)::bigint,
       count(*) FILTER (WHERE due_at <= clock_timestamp()), count(*) FILTER (WHERE error IS NOT NULL)
  FROM skald.outbox

-- What could leave now, or could not when it was tried.
-- name: outbox_unsent
SELECT count(*) FROM skald.outbox WHERE due_at <= clock_timestamp() OR error IS NOT NULL

-- name: outbox_by_destination
SELECT destination, count(*), extract(epoch FROM clock_timestamp() - skald.shown(min(created_at)))::bigint,
       count(*) FILTER (WHERE error IS NOT NULL)
  FROM skald.outbox GROUP BY 1 ORDER BY 2 DESC, 1

-- name: outbox_by_reason
SELECT destination, error, count(*), max(attempts)
  FROM skald.outbox WHERE error IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 50
