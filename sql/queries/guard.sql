-- The statements of one step, prepared by name on every lane's connection. A block ends where the next begins. The times are formatted
-- inline as skald.instant() does it: a call of an SQL function costs more than the rest of the row.

-- `read_only`: this node's setting, which may differ from the session's (postgres_store.cpp). `standbys`: COMMIT waits for some.
-- `service_table`: another one, if the schema was replaced under this session, by a restore.
-- name: claim
SELECT c.ord, c.result, c.attempts, c.held, c.cause, c.reason,
       pg_current_xact_id_if_assigned()::text AS transaction,
       to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at,
       set_config('default_transaction_read_only', NULL, true) AS read_only, current_setting('synchronous_standby_names') <> '' AS standbys,
       'skald.service'::regclass::oid AS service_table
  FROM skald.claim(:scopes::text[], :keys::text[], :steps::text[], :fingerprints::bytea[], :fencing_tokens::integer[],
                   :past_pivot::boolean[], :key_wait::integer, :deadlines::text[]::timestamptz[],
                   array_replace(:homes::text[], '', NULL)) AS c

-- The same for a request, with its response if it was answered before. The epoch is as of when the statement began, and so never later than
-- the response: skald.epoch() is STABLE, and the claim looks with snapshots of its own.
-- name: claim_request
SELECT c.result, c.attempts, c.held, NULL AS cause, NULL AS reason, pg_current_xact_id_if_assigned()::text AS transaction,
       to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at,
       set_config('default_transaction_read_only', NULL, true) AS read_only, current_setting('synchronous_standby_names') <> '' AS standbys,
       'skald.service'::regclass::oid AS service_table,
       c.status_code, c.content_type, c.headers::text AS headers, encode(c.body, 'hex') AS body, c.kept,
       to_char(c.stored_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS stored_at, skald.epoch() AS epoch
  FROM skald.claim_request(:scope::text, :key::text, :fingerprint::bytea, :key_wait::integer) AS c

-- The same where nothing is claimed. It requests a transaction id, by which assert_transaction recognizes it.
-- name: claim_nothing
SELECT pg_current_xact_id()::text AS transaction,
       to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at,
       set_config('default_transaction_read_only', NULL, true) AS read_only, current_setting('synchronous_standby_names') <> '' AS standbys,
       'skald.service'::regclass::oid AS service_table

-- A commit that waits for the standbys, which then have all before it in the log too: one of those commits may have been made to stop
-- waiting.
-- name: wait_for_standbys
SELECT pg_logical_emit_message(true, 'skald', '')

-- Ends the wait for standbys of a session whose client is gone, if that is what it does: it has committed, and then finds its client gone.
-- name: end_wait_for_standbys
SELECT pg_catalog.pg_cancel_backend(pid) FROM pg_catalog.pg_stat_activity
 WHERE pid = :backend::integer AND wait_event = 'SyncRep' AND usename = session_user
   AND application_name = current_setting('application_name')

-- COMMIT fails from here on (0003_open.sql), until assert_transaction or close_transaction.
-- name: open_transaction
SELECT set_config('skald.is_open', 'on', true)

-- From its COMMIT on, and only if it commits, the session remembers the transaction as `skald.committed`.
-- name: assert_transaction
SELECT skald.assert_transaction(:transaction::text::xid8), set_config('skald.committed', :transaction::text, false),
       set_config('skald.is_open', 'off', true)

-- name: close_transaction
SELECT set_config('skald.is_open', 'off', true)

-- Steps whose transactions get in each other's way take turns: one such transaction at a time in this database. The lock's number is
-- Skald's own, 'skald' in ASCII. (docs/contention.md)
-- name: take_turn
SELECT pg_advisory_xact_lock(495722785892)

-- For the rest of the transaction.
-- name: set_lock_timeout
SELECT set_config('lock_timeout', :milliseconds::bigint::text, true)

-- The session's own locks, which others may wait for. After COMMIT: what they guard has to be visible first.
-- name: unlock_session
SELECT pg_advisory_unlock_all()

-- The same, after listing everything that a step may have left in its session: a line for each thing, with its kind, its name and its
-- value. PostgreSQL does not list users' own settings (`app.tenant`). What ctx.sql() prepares is Skald's, and what was prepared
-- before :prepared_since is an earlier step's.
-- name: inspect_session
WITH things (kind, name, value) AS (
    SELECT 'setting', name, setting FROM pg_catalog.pg_settings WHERE source = 'session' AND name NOT LIKE 'transaction\_%'
    UNION ALL
    SELECT 'role', current_setting('role'), '' WHERE current_setting('role') <> 'none'
    UNION ALL
    SELECT 'session authorization', session_user, ''
    UNION ALL
    SELECT 'advisory lock', CASE objsubid WHEN 1 THEN (classid::bigint << 32 | objid::bigint)::text
                                          ELSE concat('(', classid, ', ', objid, ')') END, mode
      FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
    UNION ALL
    SELECT 'temporary table', relname, '' FROM pg_catalog.pg_class
     WHERE relnamespace = pg_my_temp_schema() AND relkind IN ('r', 'p', 'v')
    UNION ALL
    SELECT 'prepared statement', name, '' FROM pg_catalog.pg_prepared_statements
     WHERE name !~ '^user_[0-9]+$' AND prepare_time >= :prepared_since::timestamptz
    UNION ALL
    SELECT 'cursor', name, '' FROM pg_catalog.pg_cursors WHERE is_holdable
    UNION ALL
    SELECT 'channel', c, '' FROM pg_listening_channels() AS c),
seen AS MATERIALIZED (
    SELECT string_agg(concat(kind, E'\t', translate(name, E'\t\n', '  '), E'\t', translate(value, E'\t\n', '  ')), E'\n') AS text
      FROM things)
SELECT text, pg_advisory_unlock_all() FROM seen

-- The last transaction that Skald has committed here after a step; none if the step did that itself.
-- name: committed_here
SELECT current_setting('skald.committed', true)

-- This and the others that write check that as many rows were written as asked: a trigger of somebody else's may swallow some.
-- name: record_step
WITH written AS (
    UPDATE skald.idempotency
       SET status = :status::skald.step_status, attempts = :attempts::integer, snoozes = snoozes + :snoozes_added::integer,
           error = :error::text, fingerprint = CASE WHEN NOT :drop_fingerprint::boolean THEN fingerprint END,
           updated_at = clock_timestamp()
     WHERE (scope, key, step) = (:scope::text, :key::text, :step::text)
    RETURNING 1)
SELECT CASE WHEN count(*) <> 1 THEN skald.assert_written('skald.idempotency', 1, count(*)) END FROM written

-- name: insert_record
WITH written AS (
    INSERT INTO skald.idempotency (scope, key, step, fingerprint, home)
    VALUES (:scope::text, :key::text, :step::text, :fingerprint::bytea, (SELECT name FROM skald.service))
    RETURNING 1)
SELECT CASE WHEN count(*) <> 1 THEN skald.assert_written('skald.idempotency', 1, count(*)) END FROM written

-- name: store_response
WITH written AS (
    INSERT INTO skald.response (scope, key, status_code, content_type, headers, body, kept)
    VALUES (:scope::text, :key::text, :status_code::smallint, :content_type::text, :headers::jsonb, :body::bytea, :kept::text)
    RETURNING 1)
SELECT CASE WHEN count(*) <> 1 THEN skald.assert_written('skald.response', 1, count(*)) END FROM written

-- name: store_reply
WITH written AS (
    INSERT INTO skald.reply (scope, key, handler, body, kept)
    VALUES (:scope::text, :key::text, :handler::text, :body::bytea, :kept::text)
    RETURNING 1)
SELECT CASE WHEN count(*) <> 1 THEN skald.assert_written('skald.reply', 1, count(*)) END FROM written

-- The stored reply, to whoever sent the message again; nothing if there is none.
-- name: repeat_reply
SELECT skald.enqueue(:destination::text, :type::text, :message_id::text, r.body,
                     :headers::jsonb || jsonb_strip_nulls(jsonb_build_object('skald-body', r.kept)), r.scope,
                     aggregateid => r.key, if_unrouted => 'drop')
  FROM skald.reply r WHERE (r.scope, r.key, r.handler) = (:scope::text, :key::text, :handler::text)

-- name: park
SELECT skald.park(ROW(0, :scope::text, :key::text, :step::text, :reason::text, :error::text, :message_id::text, :type::text,
                      :content_type::text, :body::bytea, :headers::jsonb, :attempts::integer, :fingerprint::bytea, NULL,
                      :handler::text)::skald.parked)

-- The same for one whose headers can't be read, and a report to its home, if they name that.
-- name: park_unreadable
SELECT skald.park_unreadable(ROW(0, :scope::text, :key::text, :step::text, :reason::text, :error::text, :message_id::text, :type::text,
                                 :content_type::text, :body::bytea, :headers::jsonb, :attempts::integer, :fingerprint::bytea,
                                 NULL, :handler::text)::skald.parked)

-- How a step's transactions get in each other's way (0010_contention.sql): for operators, and not part of any guarantee.
-- name: record_contention
INSERT INTO skald.contention AS c (step, lanes, batch, takes_turns, conflicts, reason)
VALUES (:step::text, :lanes::integer, :batch::integer, :takes_turns::boolean, :conflicts::bigint, :reason::text)
ON CONFLICT ON CONSTRAINT contention_once DO UPDATE
   SET lanes = excluded.lanes, batch = excluded.batch, takes_turns = excluded.takes_turns,
       conflicts = c.conflicts + excluded.conflicts, reason = excluded.reason, changed_at = clock_timestamp(),
       last_conflict_at = CASE WHEN excluded.conflicts > 0 THEN clock_timestamp() ELSE c.last_conflict_at END
