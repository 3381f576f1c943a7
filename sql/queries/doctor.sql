-- What `skald doctor` asks. Not prepared: each is asked once.

-- Before each of them, in its transaction: what the comparison of defaults and the bounds on waiting rely on. A pooler by transaction would
-- give what is set for a session to its other clients.
-- name: doctor_session
SET LOCAL search_path = pg_catalog; SET LOCAL lock_timeout = '2s'; SET LOCAL statement_timeout = '60s';
SET LOCAL bytea_output = 'hex'; SET LOCAL intervalstyle = 'postgres';

-- name: doctor_unrouted
SELECT d.destination, extract(epoch FROM clock_timestamp() - skald.shown(d.since))::bigint AS seconds, d.dropped,
       (SELECT count(*) FROM skald.unrouted u WHERE u.destination = d.destination) AS kept
  FROM skald.unrouted_destination d ORDER BY d.destination LIMIT 50

-- name: doctor_server
SELECT current_setting('server_version') AS version, pg_is_in_recovery() AS is_standby,
       current_setting('default_transaction_read_only') AS default_transaction_read_only,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('default_transaction_isolation') AS default_transaction_isolation,
       (SELECT setting::bigint FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout') AS idle_timeout_ms,
       current_setting('max_connections')::int AS connections_max,
       current_setting('superuser_reserved_connections')::int AS connections_reserved,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
       current_setting('synchronous_standby_names') AS standbys,
       (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) AS standbys_connected

-- This role, and those of Skald's that are connected to this database, where they have a limit of their own. Without this session, which ends.
-- name: doctor_role_limits
SELECT r.rolname AS role, r.rolconnlimit AS most, count(*) FILTER (WHERE a.pid <> pg_backend_pid()) AS taken
  FROM pg_roles r LEFT JOIN pg_stat_activity a ON a.usesysid = r.oid AND coalesce(a.backend_type, 'client backend') = 'client backend'
 WHERE r.rolconnlimit >= 0 AND NOT r.rolsuper GROUP BY 1, 2
HAVING r.rolname = session_user OR bool_or(a.datname = current_database() AND a.application_name LIKE 'skald/%') ORDER BY 1 LIMIT 20

-- name: doctor_clock
SELECT extract(epoch FROM clock_timestamp())::float8 AS seconds

-- name: doctor_migrations
SELECT name, encode(checksum, 'hex') AS checksum FROM skald.migration WHERE owner = 'skald' ORDER BY name

-- For a role without a right in the schema, too.
-- name: doctor_schema
SELECT count(*) = 2 AS is_there
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'skald' AND c.relname IN ('migration', 'service')

-- name: doctor_owner
SELECT name, id::text AS id, place <> skald.place() AS is_copy FROM skald.service

-- How many sessions of processes of the service this role sees.
-- name: doctor_processes
SELECT count(*) AS sessions FROM pg_stat_activity
 WHERE datname = current_database() AND starts_with(application_name || '/', 'skald/' || :service::text || '/')

-- What processes of the service have run for over 5 s in one transaction.
-- name: doctor_slow
SELECT pid, application_name AS application, state, extract(epoch FROM clock_timestamp() - xact_start)::bigint AS seconds,
       coalesce(wait_event_type || ' ' || wait_event, 'the processor') AS waits_for,
       left(regexp_replace(query, '\s+', ' ', 'g'), 120) AS query
  FROM pg_stat_activity
 WHERE datname = current_database() AND starts_with(application_name || '/', 'skald/' || :service::text || '/')
   AND xact_start < clock_timestamp() - interval '5 s'
 ORDER BY xact_start LIMIT 10

-- Whoever has kept VACUUM from removing what is dead, which is most of an outbox, for over 5 s. Sessions of other databases do not.
-- name: doctor_xmin
SELECT format('pid %s (user %s, application %s, %s)', pid, coalesce(usename, '?'), coalesce(nullif(application_name, ''), backend_type),
              coalesce(state, 'no state')) AS holder, extract(epoch FROM clock_timestamp() - xact_start)::bigint AS seconds
  FROM pg_stat_activity
 WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start < clock_timestamp() - interval '5 s'
   AND backend_type <> 'autovacuum worker' AND (datname = current_database() OR datname IS NULL)
 UNION ALL
SELECT 'prepared transaction ' || gid, extract(epoch FROM clock_timestamp() - prepared)::bigint
  FROM pg_prepared_xacts WHERE prepared < clock_timestamp() - interval '5 s' AND database = current_database()
 UNION ALL
SELECT 'replication slot ' || slot_name || CASE WHEN active THEN '' ELSE ' (nobody reads it)' END, NULL
  FROM pg_replication_slots WHERE NOT active OR age(coalesce(xmin, catalog_xmin)) > 1000000
 ORDER BY seconds DESC NULLS LAST

-- name: doctor_parked
SELECT count(*) AS parked FROM skald.parked

-- name: doctor_saga
SELECT (SELECT count(*) FROM skald.saga WHERE status = 'stuck') AS stuck,
       (SELECT count(*) FROM skald.saga WHERE status = 'unknown') AS unknown,
       (SELECT count(*) FROM skald.saga
         WHERE status IN ('running', 'compensating') AND created_at < clock_timestamp() - interval '1 hour') AS old,
       (SELECT count(*) FROM skald.saga WHERE expiring <> '{}' AND asked_at < clock_timestamp() - interval '1 day') AS expiring

-- Versions that wait for a deployment: newer than any that processes of this service have had, or of a definition with steps of this
-- service of which none has had any; those whose data they could not read; and
-- those of which no saga is left, at their home.
-- name: doctor_versions
WITH under_way AS (
    SELECT s.definition, s.version, count(*) AS sagas
      FROM skald.saga s WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown') GROUP BY s.definition, s.version),
newest AS (SELECT h.definition, max(h.version) AS version FROM skald.hosted_version h GROUP BY h.definition)
SELECT 'not_hosted' AS kind, u.definition, u.version, u.sagas, n.version::text AS what
  FROM under_way u JOIN newest n ON n.definition = u.definition AND n.version < u.version
 UNION ALL
SELECT 'never_hosted', u.definition, u.version, u.sagas, ''
  FROM under_way u
 WHERE NOT EXISTS (SELECT FROM newest n WHERE n.definition = u.definition)
   AND EXISTS (SELECT FROM skald.saga s JOIN skald.service o ON strpos(s.itinerary, '@' || o.name || '=') > 0
                WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown') AND (s.definition, s.version) = (u.definition, u.version))
 UNION ALL
SELECT 'unreadable', h.definition, h.version, 0, h.unreadable FROM skald.hosted_version h WHERE h.unreadable IS NOT NULL
 UNION ALL
SELECT 'over', h.definition, h.version, 0, ''
  FROM skald.hosted_version h JOIN newest n ON n.definition = h.definition AND n.version > h.version
 WHERE NOT EXISTS (SELECT FROM under_way u WHERE (u.definition, u.version) = (h.definition, h.version))
   AND EXISTS (SELECT FROM skald.saga s WHERE s.definition = h.definition)
 ORDER BY 1, 2, 3

-- Steps whose messages wait for a process that has them, for SKALD_DEPLOY_WAIT_SECONDS: those that wait here, and those of the oldest sagas
-- of this home, as their services have reported.
-- name: doctor_awaited
SELECT w.service, w.step, w.definition, w.version, count(*) AS messages
  FROM (SELECT a.* FROM (SELECT o.name AS service, substring(m.idempotency_key FROM '[^:]*$') AS step, m.headers->>'x-saga' AS definition,
                                coalesce(m.headers->>'x-saga-version', '1') AS version, m.scope::text AS scope, m.aggregateid AS key
                           FROM skald.outbox m CROSS JOIN skald.service o
                          WHERE m.due_at > clock_timestamp() AND m.headers ? 'skald-waits-since' LIMIT 10000) AS a
         UNION
        SELECT p.service, p.step, s.definition, s.version::text, s.scope, s.key
          FROM (SELECT i.scope, i.key, i.definition, i.version FROM skald.saga i
                 WHERE i.status IN ('running', 'compensating') ORDER BY i.created_at LIMIT 10000) AS s
          JOIN skald.progress p USING (scope, key) WHERE starts_with(p.error, 'waits for a process that has it: ')) AS w
 GROUP BY w.service, w.step, w.definition, w.version ORDER BY w.service, w.definition, w.version, w.step LIMIT 20

-- Started steps of this database that nobody takes, whose end can't be recorded, or of which nobody knows what they have done.
-- name: doctor_started
SELECT count(*) FILTER (WHERE s.due_at < clock_timestamp() - interval '1 minute') AS overdue,
       coalesce(extract(epoch FROM clock_timestamp() - min(s.due_at)), 0)::bigint AS overdue_seconds,
       count(*) FILTER (WHERE s.error = 'the process that took it does not have this step') AS unhosted,
       min(s.step) FILTER (WHERE s.error = 'the process that took it does not have this step') AS unhosted_step,
       count(*) FILTER (WHERE s.tries >= 3) AS unsettled,
       count(*) FILTER (WHERE i.status = 'unknown') AS unknown
  FROM skald.started s
  LEFT JOIN skald.idempotency i ON (i.scope, i.key, i.step) = (s.scope, s.key, s.step)

-- The message handlers that processes of this service have had, and what their queues are to be bound to.
-- name: doctor_handlers
SELECT h.handler, b.value->>'exchange' AS exchange, b.value->>'routing_key' AS routing_key, b.value->>'type' AS type
  FROM skald.handler h LEFT JOIN LATERAL jsonb_array_elements(h.bindings) b ON true
 ORDER BY h.handler, 2, 3

-- The other services that sagas under way, of this home, go to: of the oldest ones, which are those that wait.
-- name: doctor_services
SELECT DISTINCT p.service
  FROM (SELECT DISTINCT o.itinerary
          FROM (SELECT i.itinerary FROM skald.saga i WHERE i.status IN ('running', 'compensating') ORDER BY i.created_at LIMIT 10000) AS o) AS s
 CROSS JOIN LATERAL skald.itinerary_steps(s.itinerary) AS p
 WHERE p.service NOT IN (SELECT o.name FROM skald.service o) ORDER BY p.service

-- Of how many sagas a step completed whose compensation found no record of it.
-- name: doctor_not_undone
SELECT count(DISTINCT (scope, key)) AS sagas FROM skald.not_undone

-- Sessions other than Skald's whose transactions have held locks on users' tables for a while: steps may be waiting for these.
-- name: doctor_locks
SELECT a.pid, coalesce(a.usename, '?') AS username, coalesce(nullif(a.application_name, ''), '?') AS application, a.state,
       extract(epoch FROM clock_timestamp() - a.xact_start)::bigint AS seconds,
       string_agg(DISTINCT l.relation::regclass::text, ', ') AS tables
  FROM pg_stat_activity a
  JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'relation' AND l.granted AND l.mode <> 'AccessShareLock'
                 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  JOIN pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'p') AND c.relnamespace <> 'skald'::regnamespace
 WHERE a.pid <> pg_backend_pid() AND a.application_name NOT LIKE 'skald/%'
   AND a.xact_start < clock_timestamp() - interval '5 s'
 GROUP BY a.pid, a.usename, a.application_name, a.state, a.xact_start ORDER BY seconds DESC LIMIT 10

-- Which of Skald's tables another session keeps from being written, or even read: who, since when, the statement that ends it, and whether
-- it has the lock: while it waits for one, everyone else queues up behind it. A prepared transaction belongs to no session.
-- name: doctor_locked
SELECT string_agg(DISTINCT 'skald.' || c.relname, ', ') AS tables,
       CASE WHEN a.pid IS NOT NULL THEN format('session %s (user %s, application %s, %s)', a.pid, coalesce(a.usename, '?'),
                                                coalesce(nullif(a.application_name, ''), '?'), coalesce(a.state, '?'))
            ELSE 'the prepared transaction ' || coalesce(x.gid, '?') END AS holder,
       to_char(coalesce(a.xact_start, x.prepared) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS began_at,
       extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, x.prepared))::bigint AS seconds,
       CASE WHEN a.pid IS NOT NULL THEN format('SELECT pg_terminate_backend(%s)', a.pid)
            WHEN x.gid IS NOT NULL THEN format('ROLLBACK PREPARED %L', x.gid) END AS ended_by,
       bool_or(l.granted) AS has_lock
  FROM pg_locks l
  JOIN pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'p') AND c.relnamespace = 'skald'::regnamespace
  LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  LEFT JOIN pg_prepared_xacts x ON l.pid IS NULL AND l.virtualtransaction LIKE '%/' || x.transaction
 WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
   AND l.pid IS DISTINCT FROM pg_backend_pid()
 GROUP BY a.pid, a.usename, a.application_name, a.state, x.gid, a.xact_start, x.prepared
HAVING coalesce(a.xact_start, x.prepared, '-infinity') < clock_timestamp() - interval '1 s'
 ORDER BY began_at

-- What is wrong with Skald's tables that no migration did, and that stops Skald, loses something in a crash, or runs something twice: the
-- table, what is wrong, and whether it is an addition, which a newer Skald may have made. Names and defaults are all that is compared of
-- constraints and columns: their text differs between versions of PostgreSQL.
-- name: doctor_tables
WITH tables AS (
    SELECT c.oid, c.relname::text, c.relrowsecurity, c.relforcerowsecurity, c.relpersistence
      FROM pg_class c WHERE c.relnamespace = 'skald'::regnamespace AND c.relkind IN ('r', 'p')),
expected_constraints AS (
    SELECT split_part(t.line, ': ', 1) AS relname, w.name
      FROM regexp_split_to_table($$attribute: attribute_once name_is_a_name value_is_1_to_256_bytes
audit: audit_id command_taken_once
binding: binding_once
body: body_once fingerprint_is_sha256 size_is_at_most_64_mib
body_part: body_part_once
breaker: breaker_once state_is_known
consumer: consumer_once
contention: contention_once
control: control_once action_is_known
deliveries_seen: deliveries_seen_once delivered_more_than_once
ended: ended_once
handler: handler_once
hosted: hosted_once
hosted_version: hosted_version_once
idempotency: idempotency_once fingerprint_is_sha256 attempts_and_snoozes_count_up
inbox: inbox_once returns_count_up body_is_at_most_16_mib
migration: migration_once
outbox: outbox_id idempotency_key_fits_a_message_id type_fits_the_wire destination_fits_a_routing_key content_type_fits_the_wire payload_is_at_most_1_mib headers_are_an_object_that_can_be_sent if_unrouted_is_known
parked: parked_id parked_once fingerprint_is_sha256 reason_is_known
progress: progress_once attempts_are_counted at_is_between_years_1_and_9999
queue: queue_once queue_name_is_at_most_255_bytes
reply: reply_once
response: response_once only_answers_that_are_an_outcome_are_stored
saga: saga_once finished_exactly_in_final_states only_what_has_ended_expires
service: one_service_owns_a_database only_one_is_true
signal: signal_once
started: started_once kind_is_known only_a_call_is_in_doubt counts_count_up
unrouted: unrouted_id
unrouted_destination: unrouted_destination_once$$, '\n') AS t(line),
           regexp_split_to_table(split_part(t.line, ': ', 2), ' ') AS w(name)),
constraints AS (
    SELECT t.relname, c.conname::text AS name, c.convalidated AS is_valid, pg_get_constraintdef(c.oid) AS definition
      FROM tables t JOIN pg_constraint c ON c.conrelid = t.oid WHERE c.contype IN ('p', 'u', 'c', 'f', 'x')),
expected_defaults AS (
    SELECT split_part(w.line, '.', 1) AS relname, split_part(split_part(w.line, ' ', 1), '.', 2) AS name,
           substring(w.line FROM ' (.*)$') AS value
      FROM regexp_split_to_table($$audit.at clock_timestamp()
audit.scope ''::text
audit.key ''::text
audit.detail '{}'::jsonb
body.created_at clock_timestamp()
body.touched_at clock_timestamp()
breaker.changed_at clock_timestamp()
breaker.seen_at clock_timestamp()
consumer.seen_at clock_timestamp()
contention.changed_at clock_timestamp()
control.requested_at clock_timestamp()
control.requested_by SESSION_USER
deliveries_seen.last_at clock_timestamp()
ended.noted_at clock_timestamp()
handler.recorded_at clock_timestamp()
hosted_version.recorded_at clock_timestamp()
idempotency.status 'completed'::step_status
idempotency.attempts 1
idempotency.snoozes 0
idempotency.created_at clock_timestamp()
idempotency.updated_at clock_timestamp()
inbox.returns 0
inbox.arrived_at clock_timestamp()
migration.applied_at clock_timestamp()
outbox.scope ''::text
outbox.headers '{}'::jsonb
outbox.content_type 'application/json'::text
outbox.due_at clock_timestamp()
outbox.attempts 0
outbox.created_at clock_timestamp()
parked.scope ''::text
parked.key ''::text
parked.step ''::text
parked.error ''::text
parked.message_id ''::text
parked.type ''::text
parked.content_type ''::text
parked.headers '{}'::jsonb
parked.attempts 0
parked.parked_at clock_timestamp()
parked.handler ''::text
queue.declared_at clock_timestamp()
response.content_type ''::text
response.headers '{}'::jsonb
response.body '\x'::bytea
response.created_at clock_timestamp()
saga.version 1
saga.status 'running'::saga_status
saga.created_at clock_timestamp()
saga.updated_at clock_timestamp()
service.only_one true
service.id gen_random_uuid()
service.place place()
service.epoch 1
signal.received_at clock_timestamp()
started.dependency ''::text
started.fence 0
started.in_doubt false
started.calls 0
started.looks 0
started.tries 0
started.created_at clock_timestamp()
unrouted_destination.since clock_timestamp()
unrouted_destination.returned_at clock_timestamp()
unrouted_destination.dropped 0
unrouted_destination.probe_at (clock_timestamp() + '00:00:15'::interval)$$, '\n') AS w(line)),
defaults AS (
    SELECT t.relname, a.attname::text AS name, replace(pg_get_expr(d.adbin, d.adrelid), 'skald.', '') AS value
      FROM tables t JOIN pg_attrdef d ON d.adrelid = t.oid
      JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum)
SELECT t.relname, format('has the trigger %s, which is not Skald''s', g.tgname) AS what, true AS is_addition
  FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid JOIN pg_proc f ON f.oid = g.tgfoid
 WHERE NOT g.tgisinternal AND g.tgenabled <> 'D' AND f.pronamespace <> 'skald'::regnamespace
 UNION ALL
SELECT 'idempotency', 'lacks the trigger transaction_is_finished, or it is disabled', false
 WHERE NOT EXISTS (SELECT FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid
                    WHERE t.relname = 'idempotency' AND g.tgname = 'transaction_is_finished' AND g.tgenabled IN ('O', 'A'))
 UNION ALL
SELECT t.relname, format('has the rule %s, which is not Skald''s', r.rulename), true
  FROM tables t JOIN pg_rewrite r ON r.ev_class = t.oid WHERE r.ev_enabled <> 'D'
 UNION ALL
SELECT t.relname, CASE WHEN NOT t.relforcerowsecurity THEN 'has row level security'
                       WHEN t.relrowsecurity THEN 'has row level security, for its owner too'
                       ELSE 'has FORCE ROW LEVEL SECURITY' END, false
  FROM tables t WHERE t.relrowsecurity OR t.relforcerowsecurity
 UNION ALL
SELECT t.relname, 'is UNLOGGED: a crash of the server empties it', false FROM tables t WHERE t.relpersistence <> 'p'
 UNION ALL
SELECT t.relname, format('has the index %s, which is not valid', i.indexrelid::regclass), false
  FROM tables t JOIN pg_index i ON i.indrelid = t.oid WHERE NOT i.indisvalid OR NOT i.indisready
 UNION ALL
SELECT e.relname, CASE WHEN t.oid IS NULL THEN 'is missing' ELSE format('lacks the constraint %s', e.name) END, false
  FROM expected_constraints e LEFT JOIN tables t USING (relname)
 WHERE NOT EXISTS (SELECT FROM constraints c WHERE (c.relname, c.name) = (e.relname, e.name))
 UNION ALL
SELECT c.relname, format('has the constraint %s, which is not Skald''s: %s', c.name, c.definition), true
  FROM constraints c
 WHERE NOT EXISTS (SELECT FROM expected_constraints e WHERE (e.relname, e.name) = (c.relname, c.name))
 UNION ALL
SELECT coalesce(e.relname, d.relname),
       format('column %s has %s, and not %s', coalesce(e.name, d.name), coalesce('the default ' || d.value, 'no default'),
              coalesce('the default ' || e.value, 'none')), e.name IS NULL
  FROM expected_defaults e FULL JOIN defaults d ON (e.relname, e.name) = (d.relname, d.name)
 WHERE e.value IS DISTINCT FROM d.value AND EXISTS (SELECT FROM tables t WHERE t.relname = coalesce(e.relname, d.relname))
 ORDER BY relname, what

-- Each function of the schema: its name, its text, its settings in order, its signature, and whether it runs with its owner's rights.
-- name: doctor_functions
SELECT p.proname::text AS name, p.prosrc AS body,
       coalesce(array_to_string(ARRAY(SELECT unnest(p.proconfig) ORDER BY 1), E'\n'), '') AS settings,
       p.oid::regprocedure::text AS signature, p.prosecdef AS is_security_definer
  FROM pg_proc p WHERE p.pronamespace = 'skald'::regnamespace AND p.prokind IN ('f', 'p') ORDER BY name, signature

-- What a role may not do that a worker has to: this one, and those as which processes of the service are connected now. What migrations
-- have run only their owner changes; a trigger's function is called by no role.
-- name: doctor_privileges
WITH roles AS (
    SELECT r.name, bool_or(r.works) AS works
      FROM (SELECT a.usename AS name, true AS works FROM pg_stat_activity a
             WHERE a.datname = current_database() AND a.usename IS NOT NULL
               AND :service::text <> '' AND starts_with(a.application_name || '/', 'skald/' || :service::text || '/')
             UNION ALL
            SELECT current_user, false) AS r GROUP BY r.name),
lacking AS (
    SELECT r.name, 1 AS place, 'USAGE on the schema skald' AS what FROM roles r WHERE NOT has_schema_privilege(r.name, 'skald', 'USAGE')
     UNION ALL
    SELECT r.name, 2, string_agg(p.name, ', ' ORDER BY p.name) || ' on skald.' || c.relname
      FROM roles r CROSS JOIN pg_class c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p(name)
     WHERE c.relnamespace = 'skald'::regnamespace AND c.relkind IN ('r', 'p') AND NOT has_table_privilege(r.name, c.oid, p.name)
       AND (c.relname <> 'migration' OR p.name = 'SELECT')
     GROUP BY r.name, c.relname
     UNION ALL
    SELECT r.name, 3, 'EXECUTE on skald.' || min(f.proname) || CASE WHEN count(*) > 1 THEN format(' and %s other functions', count(*) - 1) ELSE '' END
      FROM roles r CROSS JOIN pg_proc f
     WHERE f.pronamespace = 'skald'::regnamespace AND f.prorettype <> 'trigger'::regtype AND NOT has_function_privilege(r.name, f.oid, 'EXECUTE')
     GROUP BY r.name)
SELECT r.name AS role, r.works, string_agg(l.what, '; ' ORDER BY l.place, l.what) AS lacks
  FROM roles r JOIN lacking l USING (name) GROUP BY r.name, r.works ORDER BY r.name

-- Steps whose transactions were in each other's way within the last hour (docs/contention.md).
-- name: doctor_contention
SELECT step, lanes, batch, takes_turns, conflicts, last_conflict_at::timestamptz(0)::text AS last_conflict_at
  FROM skald.contention
 WHERE last_conflict_at > clock_timestamp() - interval '1 hour' AND conflicts >= 10
 ORDER BY conflicts DESC

-- Steps that have waited for a lock for as long as they may, within the last hour, and nothing has been noted of them since.
-- name: doctor_locked_out
SELECT step, changed_at::timestamptz(0)::text AS changed_at
  FROM skald.contention
 WHERE changed_at > clock_timestamp() - interval '1 hour' AND reason LIKE 'another session holds a lock%'
 ORDER BY step

-- Some of the large bodies that rows of this database refer to, of each kind of row.
-- name: doctor_bodies
SELECT k.kind, found.reference
  FROM unnest(ARRAY['parked', 'saga', 'outbox', 'response', 'reply', 'unrouted']) WITH ORDINALITY AS k(kind, place),
       LATERAL (SELECT DISTINCT u.reference
                  FROM (SELECT reference FROM skald.body_in_use i WHERE i.kind = k.kind LIMIT 20) AS u) AS found
 ORDER BY k.place

-- name: doctor_body_is_here
SELECT EXISTS (SELECT FROM skald.body WHERE fingerprint = :fingerprint::bytea) AS is_here
