-- What the test kit queries in its own databases, and in no other. What runs in every schedule of a proof is prepared when it first runs.

-- name: may_create_databases
SELECT rolsuper OR rolcreatedb FROM pg_roles WHERE rolname = current_user

-- Names the session after its run, whatever name the URL gives, and keeps it from being ended while it is idle.
-- name: register_run
SELECT set_config('application_name', :name::text, false), set_config('idle_session_timeout', '0', false)

-- Databases of test runs that are over: a run has a session of that name for as long as it lasts.
-- name: leftovers
SELECT d.datname
  FROM pg_database d
 WHERE d.datname ~ '^skald_testing_[a-z]{12}_[0-9]+$'
   AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.application_name = substring(d.datname FROM '^skald_testing_[a-z]{12}'))
 ORDER BY 1

-- What this role may end of the sessions in a database.
-- name: end_sessions
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = :database_name::text AND usename = current_user

-- Switches off triggers and foreign keys, where this role may. For a session of its own: each change of it invalidates all plans.
-- name: prepare_to_rewind
SELECT set_config('session_replication_role', 'replica', false), set_config('synchronous_commit', 'off', false),
       set_config('lock_timeout', '250', false)

-- Copies every table as it is now, and writes the function that restores those that have changed since: cloning the database takes a tenth
-- of a second and dropping it longer; this takes a fraction of a millisecond. A table is as it was if it has as many rows, and one
-- transaction has written all of them: the one that restored it last, which the session knows. skald.hosted is record_hosted's.
-- name: remember
DO $do$
DECLARE
    t      record;
    n      integer := 0;
    has    bigint;
    tests  text := '';
    back   text := '';
    resets text := '';
BEGIN
    CREATE SCHEMA skald_testing;
    -- What a step creates or drops is not restored: then the database is thrown away. In PL/pgSQL, which keeps its plans.
    CREATE FUNCTION skald_testing.shape() RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $shape$ BEGIN RETURN (
        SELECT count(*) || ' ' || coalesce(sum(hashtext(concat(c.oid, c.relname, c.relnatts, c.relhastriggers))::bigint), 0)
          FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
         WHERE c.oid >= 16384 AND s.nspname !~ '^pg_(toast|temp)');
    END $shape$;
    FOR t IN
        SELECT c.oid::regclass AS name,
               (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') AS columns
          FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
         WHERE c.relkind = 'r' AND s.nspname NOT IN ('pg_catalog', 'information_schema', 'skald_testing')
           AND s.nspname !~ '^pg_(toast|temp)' AND c.oid <> 'skald.hosted'::regclass
           AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')
         ORDER BY c.oid
    LOOP
        n := n + 1;
        EXECUTE format('SELECT count(*) FROM ONLY %s', t.name) INTO has;
        back := back || format('IF changed[%s] THEN DELETE FROM ONLY %s;', n, t.name);
        IF has = 0 THEN
            tests := tests || format(', EXISTS (SELECT FROM ONLY %s)', t.name);
        ELSE
            tests := tests || format(', (SELECT count(*) <> %s OR bool_or(xmin <> coalesce(written[%s], ''0'')) FROM ONLY %s)', has, n, t.name);
            back := back || format('written[%s] := pg_current_xact_id()::xid;', n);
        END IF;
        IF has > 0 AND t.columns IS NOT NULL THEN
            EXECUTE format('CREATE TABLE skald_testing.copy_%s AS SELECT %s FROM ONLY %s', n, t.columns, t.name);
            back := back || format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT * FROM skald_testing.copy_%s;', t.name, t.columns, n);
        END IF;
        back := back || 'END IF;';
    END LOOP;
    FOR t IN
        SELECT format('%I.%I', schemaname, sequencename) AS name, start_value, last_value FROM pg_sequences
    LOOP
        resets := resets || format('setval(%L, %s, %L), ', t.name, coalesce(t.last_value, t.start_value), t.last_value IS NOT NULL);
    END LOOP;
    EXECUTE format('CREATE FUNCTION skald_testing.rewind(was text) RETURNS boolean LANGUAGE plpgsql AS %L', format(
        $rewind$
        DECLARE
            written xid[] := nullif(current_setting('skald_testing.written', true), '')::xid[];
            changed boolean[];
        BEGIN
            IF skald_testing.shape() <> was THEN RETURN false; END IF;
            changed := ARRAY[%s];
            %s
            PERFORM %s set_config('skald_testing.written', written::text, false);
            RETURN true;
        END $rewind$, substr(tests, 3), back, resets));
END $do$

-- name: shape
SELECT skald_testing.shape()

-- name: has_messages
SELECT EXISTS (SELECT FROM skald.outbox)

-- False: something has been created or dropped since, and the database is no longer usable.
-- name: rewind
SELECT skald_testing.rewind(:shape::text)

-- One statement that shows every one of the user's tables, for tests that name no effects. Empty if there are none. `t.*` is the row also
-- where a column is named t.
-- name: every_table
SELECT coalesce(string_agg(format('SELECT %L AS effect, to_jsonb(t.*)::text COLLATE "C" AS line FROM %s AS t', name, name),
                           ' UNION ALL ' ORDER BY name), '')
  FROM (SELECT c.oid::regclass::text AS name
          FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
         WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
           AND s.nspname NOT IN ('pg_catalog', 'information_schema', 'skald', 'skald_testing')
           AND s.nspname !~ '^pg_(toast|temp)') AS tables

-- A query whose result is the statement that puts every one of the user's sequences back to where it is now: ROLLBACK does not. Empty if
-- there are none.
-- name: every_sequence
SELECT coalesce('SELECT ''SELECT '' || concat_ws('', '', '
                || string_agg(format('(SELECT format(%L, %L, last_value, is_called) FROM %s)', 'setval(%L, %s, %L)', name, name), ', ')
                || ')', '')
  FROM (SELECT c.oid::regclass::text AS name
          FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
         WHERE c.relkind = 'S' AND s.nspname NOT IN ('pg_catalog', 'information_schema', 'skald', 'skald_testing')
           AND s.nspname !~ '^pg_(toast|temp)') AS sequences

-- For each of the user's tables: a statement that shows its rows without the columns that may differ, each with its primary key if there
-- is one. `remaining` names tables, and `columns` for each of them such columns as JSON; without any, all of that table may differ.
-- name: restored_tables
WITH remaining AS (
    SELECT to_regclass(t) AS name, ARRAY(SELECT jsonb_array_elements_text(c::jsonb)) AS columns
      FROM unnest(:remaining::text[], :columns::text[]) AS named (t, c)
)
SELECT c.oid::regclass::text AS name,
       format('SELECT coalesce((SELECT jsonb_object_agg(k, to_jsonb(t.*) -> k) FROM unnest(%L::text[]) AS k)::text, ''''),
                      (to_jsonb(t.*) - %L::text[])::text
                 FROM %s AS t',
              ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                     WHERE i.indrelid = c.oid AND i.indisprimary),
              ARRAY(SELECT DISTINCT unnest(r.columns) FROM remaining r WHERE r.name = c.oid), c.oid::regclass) AS rows
  FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
   AND s.nspname NOT IN ('pg_catalog', 'information_schema', 'skald', 'skald_testing')
   AND s.nspname !~ '^pg_(toast|temp)'
   AND NOT EXISTS (SELECT FROM remaining r WHERE r.name = c.oid AND cardinality(r.columns) = 0)
 ORDER BY 1

-- Why what may remain can't be: no such table, or the columns that it does not have. NULL if it can.
-- name: wrong_remaining
SELECT CASE WHEN c.oid IS NULL THEN 'there is no such table'
            ELSE (SELECT 'there is no such column: ' || string_agg(e, ', ') FROM unnest(:columns::text[]) AS e
                   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = e AND a.attnum > 0)) END AS why
  FROM (SELECT to_regclass(:table_name::text)::oid AS oid) AS named
  LEFT JOIN pg_class c ON c.oid = named.oid AND c.relkind IN ('r', 'p')

-- What Skald itself stores, without its times; and without the attempts of calls, which a crash may use up.
-- name: state
SELECT kind, line
  FROM (SELECT 'saga' AS kind, concat(key, ' ', definition, ': ', status) AS line FROM skald.saga
        UNION ALL
        SELECT 'record', concat(key, ':', step, ' ', status, CASE WHEN step <> ALL (:calls::text[]) THEN concat(', attempts: ', attempts) END) FROM skald.idempotency WHERE step <> ''
        UNION ALL
        SELECT 'progress', concat(key, ':', step, ' ', status, ' in ', service) FROM skald.progress
        UNION ALL
        SELECT 'parked', concat(key, ':', step, ' ', reason) FROM skald.parked
        UNION ALL
        SELECT 'started', concat(key, ':', step, ' ', kind, CASE WHEN in_doubt THEN ' in doubt' END) FROM skald.started
        UNION ALL
        SELECT 'reply', concat(key, ':', handler, ' ', convert_from(body, 'UTF8')) FROM skald.reply
        UNION ALL
        SELECT 'signal', concat(key, ':', step, ' ', body) FROM skald.signal
        UNION ALL
        SELECT 'outbox', concat(idempotency_key, ' for ', destination) FROM skald.outbox) AS all_of_it
 ORDER BY 1, 2

-- Around one step alone.
-- name: mark
SAVEPOINT skald_alone

-- name: back_to_mark
ROLLBACK TO SAVEPOINT skald_alone

-- name: transaction
SELECT pg_current_xact_id_if_assigned()::text

-- name: sagas
SELECT key, status::text AS status, coalesce(reason, '') AS reason, data::text AS data FROM skald.saga WHERE scope = :scope::text AND key = :key::text

-- name: records
SELECT step, status::text AS status, attempts, coalesce(error, '') AS error FROM skald.idempotency
 WHERE scope = :scope::text AND key = :key::text AND step <> '' ORDER BY created_at, step

-- Of steps that did not end well, and why.
-- name: unfinished
SELECT step, status::text AS status, coalesce(error, '') AS error FROM skald.idempotency WHERE status <> 'completed' AND step <> '' ORDER BY created_at, step

-- name: parked_errors
SELECT coalesce(nullif(step, ''), handler) AS step, reason, error FROM skald.parked ORDER BY id

-- In milliseconds, below 0 if it is overdue; NULL where nothing waits. What waits for a saga that is paused comes back for ever.
-- name: next_due
SELECT ceil(extract(epoch FROM min(due_at) - clock_timestamp()) * 1000)::bigint
  FROM (SELECT scope, aggregateid AS key, due_at FROM skald.outbox
        UNION ALL
        SELECT scope, key, s.due_at FROM skald.started s JOIN skald.idempotency i USING (scope, key, step) WHERE i.status <> 'unknown') AS waiting
 WHERE NOT EXISTS (SELECT FROM skald.control c WHERE c.scope = waiting.scope AND c.key = waiting.key AND c.action = 'pause')

-- Of steps whose end could not be recorded as often as that: nothing ends that but another code or another answer.
-- name: unsettled
SELECT s.step, s.kind, s.tries, coalesce(s.error, '') AS error FROM skald.started s
 WHERE s.tries >= :tries_max::integer ORDER BY s.due_at, s.key, s.step

-- name: started
SELECT s.scope, s.key, s.step, s.kind, s.in_doubt, s.calls, coalesce(s.error, '') AS error,
       ceil(extract(epoch FROM s.due_at - clock_timestamp()) * 1000)::bigint AS due_in
  FROM skald.started s
 ORDER BY s.due_at, s.key, s.step

-- Instead of what was hosted before.
-- name: record_hosted
DELETE FROM skald.hosted;
SELECT skald.record_hosted(:steps::text[], :take_signals::boolean[])

-- name: end_leases
UPDATE skald.started SET due_at = clock_timestamp() WHERE owner IS NOT NULL

-- Makes time pass: every stored time is moved back by that much. What becomes due by this is due now, and no earlier.
-- name: advance
WITH lapse AS (SELECT :milliseconds::bigint * interval '1 millisecond' AS time),
sagas AS (
    UPDATE skald.saga SET deadline_at = deadline_at - lapse.time, created_at = created_at - lapse.time,
                          updated_at = updated_at - lapse.time, finished_at = finished_at - lapse.time, asked_at = asked_at - lapse.time
      FROM lapse),
records AS (
    UPDATE skald.idempotency SET created_at = created_at - lapse.time, updated_at = updated_at - lapse.time FROM lapse),
responses AS (
    UPDATE skald.response SET created_at = created_at - lapse.time FROM lapse),
progress AS (
    UPDATE skald.progress SET at = at - lapse.time FROM lapse),
parked AS (
    UPDATE skald.parked SET parked_at = parked_at - lapse.time FROM lapse),
attributes AS (
    UPDATE skald.attribute SET created_at = created_at - lapse.time FROM lapse),
signals AS (
    UPDATE skald.signal SET received_at = received_at - lapse.time FROM lapse),
started AS (
    UPDATE skald.started
       SET due_at = CASE WHEN due_at > clock_timestamp() THEN greatest(due_at - lapse.time, clock_timestamp()) ELSE due_at END,
           until = until - lapse.time, doubt_since = doubt_since - lapse.time, created_at = created_at - lapse.time,
           headers = headers || coalesce(
               (SELECT jsonb_object_agg(h.key, to_char((h.value::timestamptz - lapse.time) AT TIME ZONE 'UTC',
                                                       'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
                  FROM jsonb_each_text(headers) AS h
                 WHERE h.key IN ('x-saga-deadline', 'x-step-deadline', 'skald-waits-since')), '{}')
      FROM lapse)
UPDATE skald.outbox
   SET due_at = CASE WHEN due_at > clock_timestamp() THEN greatest(due_at - lapse.time, clock_timestamp()) ELSE due_at END,
       created_at = created_at - lapse.time,
       headers = headers || coalesce(
           (SELECT jsonb_object_agg(h.key, to_char((h.value::timestamptz - lapse.time) AT TIME ZONE 'UTC',
                                                   'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
              FROM jsonb_each_text(headers) AS h
             WHERE h.key IN ('x-saga-deadline', 'x-step-deadline', 'skald-waits-since')), '{}')
  FROM lapse
