-- What a rehearsal queries: in the transaction that it rolls back, and on a connection of its own that watches it. Not prepared.
-- (docs/adr/0040-a-rehearsal-rolls-back.md)

-- In the transaction, before its claim. A cursor that is held beyond COMMIT is read to its end by COMMIT, before anything is committed: this
-- one fails there, so that a COMMIT of the step's own rolls everything back, whatever it did to its constraints before. The counts are those
-- of earlier transactions of this session, which the server has not added up yet.
-- name: open_rehearsal
DECLARE skald_rehearsal NO SCROLL CURSOR WITH HOLD FOR SELECT skald.assert_transaction('0'::xid8);
SELECT set_config('skald.counted_before', coalesce((
    SELECT jsonb_object_agg(relid::text, jsonb_build_array(n_tup_ins, n_tup_upd, n_tup_del))
      FROM pg_catalog.pg_stat_xact_all_tables WHERE n_tup_ins + n_tup_upd + n_tup_del > 0), '{}')::text, true);

-- The newest parked delivery of the step, of those that can be sent again if there are any; and why it can't be, if so. One that is
-- forged, or that anybody may have sent, is not run even to see what it would do. `option`: what a replay of it needs.
-- name: parked_of_step
SELECT p.id, p.reason, (SELECT name FROM skald.service) AS destination, p.message_id, p.type, p.content_type,
       encode(p.body, 'hex') AS body, p.headers::text AS headers, r.refusal,
       CASE WHEN skald.refusal(p, NULL, false) IS NOT NULL THEN ' --yes' ELSE '' END AS option
  FROM skald.parked p
 CROSS JOIN LATERAL (SELECT CASE WHEN p.reason = 'unsigned' THEN format('parked delivery %s: it has no signature: find out who sent it', p.id)
                                 ELSE skald.refusal(p, NULL, p.reason <> 'forged') END) AS r(refusal)
 WHERE (p.scope, p.key, p.step, p.handler) = (:scope::text, :key::text, :step::text, '')
 ORDER BY r.refusal IS NOT NULL, p.id DESC LIMIT 1

-- What `skald parked replay` would send: the row that it leaves in the outbox. In a transaction that is rolled back.
-- name: replayed_message
SELECT o.destination, o.idempotency_key AS message_id, o.type, o.content_type, encode(o.payload, 'hex') AS body, o.headers::text AS headers
  FROM skald.outbox o
 WHERE o.xmin = pg_current_xact_id()::xid AND o.scope = :scope::text AND o.idempotency_key = :message_id::text
   AND o.destination = (SELECT name FROM skald.service)

-- name: put_back
SELECT skald.put_back(:id::bigint, true, true) AS refusal;

-- The newest message to this service for the step: a retry, a snoozed or a paused one, or one that its relay has not sent yet.
-- name: waiting_of_step
SELECT o.id, o.destination, o.idempotency_key AS message_id, o.type, o.content_type, encode(o.payload, 'hex') AS body, o.headers::text AS headers,
       skald.instant(o.due_at) AS due_at
  FROM skald.outbox o
 WHERE o.scope = :scope::text AND o.idempotency_key = :message_id::text
   AND o.destination = (SELECT name FROM skald.service) AND o.if_unrouted IS NULL
 ORDER BY o.id DESC LIMIT 1

-- name: record_of_step
SELECT status::text AS status, skald.instant(updated_at) AS at
  FROM skald.idempotency WHERE (scope, key, step) = (:scope::text, :key::text, :step::text)

-- The home of the saga, as far as it is known here.
-- name: home_of_saga
SELECT (SELECT name FROM skald.service) AS home FROM skald.saga WHERE (scope, key) = (:scope::text, :key::text)
UNION ALL
SELECT home FROM skald.idempotency WHERE (scope, key) = (:scope::text, :key::text) AND home IS NOT NULL
UNION ALL
SELECT home FROM skald.control WHERE (scope, key) = (:scope::text, :key::text)
 LIMIT 1

-- name: owner
SELECT name FROM skald.service

-- name: saga_of_step
SELECT definition, version, itinerary, data::text AS data, kept, (SELECT name FROM skald.service) AS home
  FROM skald.saga WHERE (scope, key) = (:scope::text, :key::text)

-- name: end_of_saga
SELECT status::text AS status, skald.instant(finished_at) AS at
  FROM skald.saga WHERE (scope, key) = (:scope::text, :key::text) AND finished_at IS NOT NULL

-- As if the step had not been decided.
-- name: undecide
DELETE FROM skald.idempotency WHERE (scope, key, step) = (:scope::text, :key::text, :step::text);

-- How many rows of which tables the transaction has written, what was rolled back to a savepoint included. Large objects are rows of catalogs.
-- name: written_tables
SELECT s.relid, format('%I.%I', s.schemaname, s.relname) AS name, s.schemaname IN ('skald', 'pg_catalog') AS is_only_counted,
       s.n_tup_ins - coalesce((b.was->(s.relid::text)->>0)::bigint, 0) AS inserted,
       s.n_tup_upd - coalesce((b.was->(s.relid::text)->>1)::bigint, 0) AS updated,
       s.n_tup_del - coalesce((b.was->(s.relid::text)->>2)::bigint, 0) AS deleted,
       pg_relation_size(s.relid) / current_setting('block_size')::bigint AS pages,
       has_schema_privilege(s.schemaname, 'USAGE') AND has_table_privilege(s.relid, 'SELECT') AS is_readable,
       (SELECT jsonb_agg(a.attname ORDER BY array_position(i.indkey::smallint[], a.attnum))
          FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid
           AND array_position(i.indkey::smallint[], a.attnum) < i.indnkeyatts
         WHERE i.indrelid = s.relid AND i.indisprimary)::text AS primary_key
  FROM pg_catalog.pg_stat_xact_all_tables s
 CROSS JOIN (SELECT current_setting('skald.counted_before')::jsonb) AS b(was)
 WHERE (s.schemaname NOT IN ('pg_catalog', 'pg_toast') OR s.relname IN ('pg_largeobject', 'pg_largeobject_metadata'))
   AND jsonb_build_array(s.n_tup_ins, s.n_tup_upd, s.n_tup_del) <> coalesce(b.was->(s.relid::text), '[0, 0, 0]')
   AND s.n_tup_ins + s.n_tup_upd + s.n_tup_del > 0
 ORDER BY name

-- In the transaction: the tables that nobody else can read, with the file of each. What replaces all of a table's rows takes such a lock, and
-- another file.
-- name: tables_locked_whole
SELECT coalesce(jsonb_agg(jsonb_build_object('id', c.oid::bigint, 'name', format('%I.%I', n.nspname, c.relname), 'file', c.relfilenode::bigint)),
                '[]')::text AS files
  FROM pg_catalog.pg_locks l
  JOIN pg_catalog.pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'm')
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname NOT IN ('pg_catalog', 'pg_toast')
 WHERE l.pid = pg_backend_pid() AND l.mode = 'AccessExclusiveLock' AND l.granted AND l.locktype = 'relation'
   AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())

-- On the other connection: those of them that have another file for everybody else.
-- name: rewritten_tables
SELECT f.name FROM jsonb_to_recordset(:files::text::jsonb) AS f(id bigint, name text, file bigint)
  JOIN pg_catalog.pg_class c ON c.oid = f.id::oid
 WHERE c.relfilenode::bigint <> f.file
 ORDER BY f.name

-- On the other connection: whether the table is older than the transaction.
-- name: is_there
SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = :relation::oid) AS is_there

-- name: transaction_of_rehearsal
SELECT pg_current_xact_id()::text AS id, current_setting('track_counts') = 'on' AS counts

-- The rows in a range of a table's pages whose xmin or xmax is the transaction's or a subtransaction's. That one is newer than the
-- transaction, and still in progress; what another transaction has in progress can't be seen here. In the transaction, xmin has the rows
-- that it has written; on the other connection, in whose snapshot nothing of it is done, xmax has those that it has deleted, replaced or
-- locked. A query over a table whose name is a value needs a cursor.
-- name: rows_by
DO $do$
DECLARE
    rows_of refcursor := 'skald_rehearsal_rows';
BEGIN
    OPEN rows_of FOR EXECUTE format(
        $q$SELECT t.ctid::text AS place, to_jsonb(t.*)::text AS row FROM ONLY %1$s AS t
          WHERE t.ctid >= '(%2$s,0)' AND t.ctid < '(%3$s,0)'
            AND CASE WHEN t.%7$s = '0' OR age(t.%7$s) > age(%4$L::text::xid) THEN false WHEN t.%7$s = %4$L::text::xid THEN true
                     ELSE pg_xact_status((%5$s + (t.%7$s::text::bigint - %5$s %% 4294967296 + 4294967296) %% 4294967296)::text::xid8)
                          = 'in progress' END
          LIMIT %6$s$q$,
        :relation::oid::regclass, :first_page::bigint, :end_page::bigint,
        (:transaction::text::bigint % 4294967296)::text, :transaction::text, :rows_max::bigint, :by::text);
END $do$;
FETCH ALL FROM skald_rehearsal_rows

-- name: close_rows
CLOSE skald_rehearsal_rows

-- In the transaction: those of these places at which a row is still to be seen, which therefore was only locked.
-- name: places_still_there
DO $do$
DECLARE
    rows_of refcursor := 'skald_rehearsal_rows';
BEGIN
    OPEN rows_of FOR EXECUTE format('SELECT ctid::text AS place FROM ONLY %s WHERE ctid = ANY (%L::tid[])',
                                    :relation::oid::regclass, :places::text[]::text);
END $do$;
FETCH ALL FROM skald_rehearsal_rows

-- On the other connection: the rows with these primary keys, as they are for everybody else.
-- name: rows_before
DO $do$
DECLARE
    rows_of refcursor := 'skald_rehearsal_rows';
BEGIN
    OPEN rows_of FOR EXECUTE format(
        $q$SELECT to_jsonb(t.*)::text AS row FROM jsonb_to_recordset(%2$L) AS k(%3$s) JOIN ONLY %1$s AS t ON %4$s$q$,
        :relation::oid::regclass, :keys::text,
        (SELECT string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ') FROM pg_catalog.pg_attribute a
          WHERE a.attrelid = :relation::oid AND :primary_key::text::jsonb ? a.attname),
        (SELECT string_agg(format('t.%1$I = k.%1$I', name), ' AND ') FROM jsonb_array_elements_text(:primary_key::text::jsonb) AS name));
END $do$;
FETCH ALL FROM skald_rehearsal_rows

-- What the session has locked, except for reading and in catalogs. Locks on rows are in the rows, and not listed.
-- name: locks_of
SELECT DISTINCT CASE WHEN l.locktype = 'advisory' THEN concat('advisory ', l.classid, ' ', l.objid)
                     ELSE (SELECT format('%I.%I', n.nspname, c.relname)) END AS what,
       l.mode, coalesce(n.nspname = 'skald', false) AS is_skalds
  FROM pg_catalog.pg_locks l
  LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'p', 'm', 'v', 'S')
  LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE l.pid = :pid::integer AND l.granted
   AND (l.locktype = 'advisory'
        OR (l.locktype = 'relation' AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
            AND l.mode <> 'AccessShareLock' AND n.nspname NOT IN ('pg_catalog', 'pg_toast')))
 ORDER BY 1, 2

-- Who holds what the session waits for; no row while it waits for nothing. What a role may not see of other roles' sessions is NULL.
-- name: blockers_of
SELECT b.pid, coalesce(b.application_name, '') AS application, coalesce(b.usename, '') AS role, coalesce(b.state, '') AS state,
       coalesce(extract(epoch FROM clock_timestamp() - b.xact_start), 0)::bigint AS seconds, coalesce(left(b.query, 300), '') AS query
  FROM pg_stat_get_activity(:pid::integer) AS w
 CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS by(pid)
  JOIN pg_catalog.pg_stat_activity b ON b.pid = by.pid
 WHERE w.wait_event_type = 'Lock'
