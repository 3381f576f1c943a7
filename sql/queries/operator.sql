-- What the command line asks. Not prepared: each is asked once.

-- name: outbox_totals
SELECT count(*), coalesce(extract(epoch FROM clock_timestamp() - min(created_at)), 0)::bigint,
       count(*) FILTER (WHERE due_at <= clock_timestamp()), count(*) FILTER (WHERE error IS NOT NULL)
  FROM skald.outbox

-- What could leave now, or could not when it was tried.
-- name: outbox_unsent
SELECT count(*) FROM skald.outbox WHERE due_at <= clock_timestamp() OR error IS NOT NULL

-- name: outbox_by_destination
SELECT destination, count(*), extract(epoch FROM clock_timestamp() - min(created_at))::bigint,
       count(*) FILTER (WHERE error IS NOT NULL)
  FROM skald.outbox GROUP BY 1 ORDER BY 2 DESC, 1

-- name: outbox_by_reason
SELECT destination, error, count(*), max(attempts)
  FROM skald.outbox WHERE error IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 50

-- name: doctor_unrouted
SELECT d.destination, extract(epoch FROM clock_timestamp() - d.since)::bigint, d.dropped,
       (SELECT count(*) FROM skald.unrouted u WHERE u.destination = d.destination)
  FROM skald.unrouted_destination d ORDER BY 1 LIMIT 50

-- name: doctor_server
SELECT current_setting('server_version'), pg_is_in_recovery(), current_setting('default_transaction_read_only'),
       current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),
       current_setting('default_transaction_isolation'),
       (SELECT setting::bigint FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'),
       current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       current_setting('synchronous_standby_names'),
       (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))

-- name: doctor_clock
SELECT extract(epoch FROM clock_timestamp())::float8

-- name: doctor_migrations
SELECT name, encode(checksum, 'hex') FROM skald.migration WHERE owner = 'skald' ORDER BY name

-- name: doctor_schema
SELECT to_regclass('skald.migration') IS NOT NULL AND to_regclass('skald.service') IS NOT NULL

-- Whoever keeps VACUUM from removing what is dead, which is most of an outbox.
-- name: doctor_xmin
SELECT 'pid ' || pid || ' (' || coalesce(nullif(application_name, ''), usename, backend_type) || ', ' ||
       coalesce(state, 'no state') || ')', extract(epoch FROM clock_timestamp() - xact_start)::bigint
  FROM pg_stat_activity
 WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start < clock_timestamp() - interval '5 minutes'
   AND backend_type <> 'autovacuum worker'
 UNION ALL
SELECT 'prepared transaction ' || gid, extract(epoch FROM clock_timestamp() - prepared)::bigint FROM pg_prepared_xacts
 UNION ALL
SELECT 'replication slot ' || slot_name || CASE WHEN active THEN '' ELSE ' (nobody reads it)' END, NULL
  FROM pg_replication_slots WHERE NOT active OR age(coalesce(xmin, catalog_xmin)) > 1000000
 ORDER BY 2 DESC NULLS LAST

-- name: doctor_saga
SELECT (SELECT count(*) FROM skald.parked), (SELECT count(*) FROM skald.saga WHERE status = 'stuck'),
       (SELECT count(*) FROM skald.saga
         WHERE status IN ('running', 'compensating') AND created_at < clock_timestamp() - interval '1 hour'),
       (SELECT count(*) FROM skald.saga WHERE expiring <> '{}' AND asked_at < clock_timestamp() - interval '1 day')

-- Steps whose transactions were in each other's way within the last hour (docs/contention.md).
-- name: doctor_contention
SELECT step, lanes, batch, takes_turns, conflicts, last_conflict_at::timestamptz(0)::text
  FROM skald.contention
 WHERE last_conflict_at > clock_timestamp() - interval '1 hour' AND conflicts >= 10
 ORDER BY conflicts DESC
