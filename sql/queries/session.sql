-- What is queried and set before anything else, on a connection of which nothing is known yet; and what must work even where the statements
-- of the other files are not prepared.

-- name: backend
SELECT pg_backend_pid()

-- What all statements rely on; the timeouts are in milliseconds. Warnings come in the server's language, so any of them counts, and notices
-- must not come at all. A weaker synchronous_commit would create ghosts: a message published whose step is gone after a crash;
-- :skips_disk_wait is for callers that lose nothing by it. Unless :writes_outside, what a step runs after its own COMMIT or ROLLBACK is in
-- no transaction of ours, and must write nothing. :role is the session's user; RESET ALL leaves roles as they are.
-- name: session_settings
SELECT set_config('standard_conforming_strings', 'on', false),
       set_config('client_encoding', 'UTF8', false),
       set_config('datestyle', 'ISO', false),
       set_config('client_min_messages', 'warning', false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('client_connection_check_interval', '1s', false),
       set_config('lock_timeout', :lock_timeout::bigint::text, false),
       set_config('statement_timeout', :statement_timeout::bigint::text, false),
       set_config('idle_in_transaction_session_timeout', :idle_timeout::bigint::text, false),
       CASE WHEN :skips_disk_wait::boolean THEN set_config('synchronous_commit', 'off', false)
            WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')
            THEN set_config('synchronous_commit', 'on', false) END,
       CASE WHEN NOT :writes_outside::boolean THEN set_config('default_transaction_read_only', 'on', false) END,
       CASE WHEN session_user <> :role::text THEN set_config('session_authorization', :role::text, false) END,
       CASE WHEN current_setting('role') <> 'none' AND :role::text IS NOT NULL THEN set_config('role', 'none', false) END

-- What else a step may have left in its session, except for its advisory locks and prepared statements.
-- (docs/adr/0025-a-session-is-set-right.md)
-- name: reset_session
RESET ALL;
CLOSE ALL;
UNLISTEN *;
DISCARD TEMP;

-- Whether there is a schema that the other statements can be prepared against: checks for one of the newest functions.
-- name: schema_is_there
SELECT to_regprocedure('skald.refuse_open_transaction()') IS NOT NULL

-- What distinguishes this database from every other, copies of it and what is restored from a dump of it included; and the table that every
-- claim asks for (guard.sql), which is another one after a restore in place. NULL while no service owns the database.
-- name: database_identity
SELECT (SELECT concat(id, ' ', skald.place()) FROM skald.service) AS identity, 'skald.service'::regclass::oid AS service_table

-- The id of the open transaction, if it has written.
-- name: current_transaction
SELECT pg_current_xact_id_if_assigned()::text

-- Whether the server answers.
-- name: ping
SELECT 1
