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

-- name: doctor_unrouted
SELECT d.destination, extract(epoch FROM clock_timestamp() - skald.shown(d.since))::bigint, d.dropped,
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

-- Of how many sagas a step completed whose compensation found no record of it: what it did may still be in effect. Of a step
-- of this very database the compensation has put a record that counts no attempt in the place of the one that is gone.
-- name: doctor_not_undone
SELECT count(DISTINCT (s.scope, s.key))
  FROM (SELECT scope, key, step FROM skald.progress
         WHERE status = 'cancelled' AND error = 'nothing to undo' AND step LIKE '%.compensate'
         UNION ALL
        SELECT scope, key, step FROM skald.idempotency
         WHERE status = 'cancelled' AND error = 'nothing to undo' AND step LIKE '%.compensate' AND skald.is_ours(home)) AS c
  JOIN skald.saga s ON s.scope = c.scope AND s.key = c.key
 CROSS JOIN LATERAL skald.known_steps(s.scope, s.key) AS k
 WHERE k.step = replace(c.step, '.compensate', '') AND (k.status = 'completed' OR (k.status = 'cancelled' AND k.attempts = 0))

-- Sessions other than Skald's whose transactions have held locks on users' tables for a while: what steps may be waiting for.
-- name: doctor_locks
SELECT a.pid, coalesce(a.usename, '?'), coalesce(nullif(a.application_name, ''), '?'), a.state,
       extract(epoch FROM clock_timestamp() - a.xact_start)::bigint, string_agg(DISTINCT l.relation::regclass::text, ', ')
  FROM pg_stat_activity a
  JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'relation' AND l.granted AND l.mode <> 'AccessShareLock'
                 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  JOIN pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'p')
 WHERE a.pid <> pg_backend_pid() AND a.application_name NOT LIKE 'skald/%'
   AND a.xact_start < clock_timestamp() - interval '5 s'
 GROUP BY 1, 2, 3, 4, 5 ORDER BY 5 DESC LIMIT 10

-- What is wrong with Skald's tables that no migration did, and that makes it stand still or run something twice: a trigger or
-- a rule of somebody else's, a policy that hides rows, a constraint that is gone, an index that is broken.
-- name: doctor_tables
WITH tables AS (
    SELECT c.oid, c.relname, c.relrowsecurity, c.relforcerowsecurity
      FROM pg_class c WHERE c.relnamespace = 'skald'::regnamespace AND c.relkind IN ('r', 'p'))
SELECT t.relname, format('has the trigger %s, which is not Skald''s', g.tgname)
  FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid JOIN pg_proc f ON f.oid = g.tgfoid
 WHERE NOT g.tgisinternal AND g.tgenabled <> 'D' AND f.pronamespace <> 'skald'::regnamespace
 UNION ALL
SELECT t.relname, format('has the rule %s, which is not Skald''s', r.rulename)
  FROM tables t JOIN pg_rewrite r ON r.ev_class = t.oid WHERE r.ev_enabled <> 'D'
 UNION ALL
SELECT t.relname, CASE WHEN NOT t.relforcerowsecurity THEN 'has row level security'
                       WHEN t.relrowsecurity THEN 'has row level security, for its owner too'
                       ELSE 'has FORCE ROW LEVEL SECURITY' END
  FROM tables t WHERE t.relrowsecurity OR t.relforcerowsecurity
 UNION ALL
SELECT t.relname, format('has the index %s, which is not valid', i.indexrelid::regclass)
  FROM tables t JOIN pg_index i ON i.indrelid = t.oid WHERE NOT i.indisvalid OR NOT i.indisready
 UNION ALL
SELECT w.name, CASE WHEN t.oid IS NULL THEN 'is missing' ELSE format('lacks the constraint %s', w.once) END
  FROM (VALUES ('idempotency', 'idempotency_once'), ('response', 'response_once'), ('service', 'one_service_owns_a_database'),
               ('saga', 'saga_once'), ('outbox', 'outbox_id'), ('progress', 'progress_once'), ('control', 'control_once'),
               ('audit', 'audit_id'), ('audit', 'command_taken_once'), ('parked', 'parked_id'), ('parked', 'parked_once'),
               ('ended', 'ended_once'), ('unrouted', 'unrouted_id'), ('unrouted_destination', 'unrouted_destination_once'),
               ('contention', 'contention_once'), ('migration', 'migration_once')) AS w(name, once)
  LEFT JOIN tables t ON t.relname = w.name
 WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = t.oid AND c.conname = w.once AND c.contype IN ('p', 'u'))
 ORDER BY 1, 2

-- What this role may not do that a worker has to. What migrations have run only their owner changes.
-- name: doctor_privileges
SELECT c.relname, string_agg(p.name, ', ' ORDER BY p.name), current_user
  FROM pg_class c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p(name)
 WHERE c.relnamespace = 'skald'::regnamespace AND c.relkind IN ('r', 'p') AND NOT has_table_privilege(c.oid, p.name)
   AND (c.relname <> 'migration' OR p.name = 'SELECT')
 GROUP BY 1 ORDER BY 1

-- Steps whose transactions were in each other's way within the last hour (docs/contention.md).
-- name: doctor_contention
SELECT step, lanes, batch, takes_turns, conflicts, last_conflict_at::timestamptz(0)::text
  FROM skald.contention
 WHERE last_conflict_at > clock_timestamp() - interval '1 hour' AND conflicts >= 10
 ORDER BY conflicts DESC
