-- What the command line asks. Not prepared: each is asked once.

-- name: outbox_totals
SELECT count(*) AS messages, coalesce(extract(epoch FROM clock_timestamp() - skald.shown(min(created_at))), 0)::bigint AS oldest_seconds,
       count(*) FILTER (WHERE due_at <= clock_timestamp()) AS due, count(*) FILTER (WHERE error IS NOT NULL) AS deferred
  FROM skald.outbox

-- What could leave now, or could not when it was tried.
-- name: outbox_unsent
SELECT count(*) AS messages FROM skald.outbox WHERE due_at <= clock_timestamp() OR error IS NOT NULL

-- name: outbox_by_destination
SELECT destination, count(*) AS messages,
       extract(epoch FROM clock_timestamp() - skald.shown(min(created_at)))::bigint AS oldest_seconds,
       count(*) FILTER (WHERE error IS NOT NULL) AS deferred
  FROM skald.outbox GROUP BY destination ORDER BY messages DESC, destination

-- name: outbox_by_reason
SELECT destination, error, count(*) AS messages, max(attempts) AS attempts_max
  FROM skald.outbox WHERE error IS NOT NULL GROUP BY destination, error ORDER BY messages DESC, destination, error LIMIT 50
