-- Numbered migrations, each applied once, in a transaction of its own, by one process at a time.

-- Everyone else queues up behind a session that waits for an exclusive lock.
-- name: wait_for_locks_briefly
SET lock_timeout = '2s'

-- name: encoding
SELECT current_setting('server_encoding') AS encoding

-- name: lock_migrations
SELECT pg_advisory_lock(hashtextextended('skald.migration', 0))

-- name: create_migration_table
CREATE SCHEMA IF NOT EXISTS skald;
CREATE TABLE IF NOT EXISTS skald.migration (
    owner      text        NOT NULL,
    name       text        NOT NULL,
    checksum   bytea       NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT migration_once PRIMARY KEY (owner, name))

-- name: applied_migrations
SELECT name, encode(checksum, 'hex') AS checksum FROM skald.migration WHERE owner = :owner::text ORDER BY name

-- name: record_migration
INSERT INTO skald.migration (owner, name, checksum) VALUES (:owner::text, :migration::text, decode(:checksum::text, 'hex'))

-- What a schema of this name has that is none of Skald's.
-- name: others_in_schema
SELECT coalesce(string_agg(relname, ', ' ORDER BY relname), '') AS others
  FROM pg_class
 WHERE relnamespace = to_regnamespace('skald') AND relkind IN ('r', 'p', 'v', 'm')
   AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('skald.migration') AND attname = 'checksum')

-- name: is_migrated
SELECT to_regclass('skald.service') IS NOT NULL AS is_migrated

-- What a role that owns nothing needs, for workers and for operators' commands. Each row is a statement. A role that could change the list
-- of applied migrations could make the next one run again.
-- name: grants
SELECT format(g.statement, :role::text) AS statement
  FROM unnest(ARRAY['GRANT USAGE ON SCHEMA skald TO %I',
                    'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA skald TO %I',
                    'GRANT USAGE ON ALL SEQUENCES IN SCHEMA skald TO %I',
                    'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA skald TO %I',
                    'REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON skald.migration FROM %I']) AS g(statement)

-- name: own_database
INSERT INTO skald.service (name) VALUES (:service::text) ON CONFLICT DO NOTHING

-- name: owner_of_database
SELECT name, id::text AS id, concat(id, ' ', skald.place()) AS identity, place <> skald.place() AS is_copy,
       extract(epoch FROM forgot_before)::bigint AS forgot_before
  FROM skald.service

-- On a schema of any version.
-- name: name_of_owner
SELECT name FROM skald.service

-- name: own_schema
SELECT current_schema() IS NOT DISTINCT FROM 'skald' AS is_of_skald, quote_ident(current_user) AS role

-- name: adopt_database
WITH adopted AS (UPDATE skald.service SET place = skald.place() WHERE name = :service::text RETURNING name)
INSERT INTO skald.audit (actor, verb, scope, key, detail) SELECT skald.actor(NULL), 'adopt', '', '', '{}' FROM adopted

-- name: record_hosted
SELECT skald.record_hosted(:steps::text[], :take_signals::boolean[], :handlers::text[], :bindings::text[])
