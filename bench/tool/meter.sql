-- What the server counts.

-- name: wal
SELECT wal_records, wal_fpi, wal_bytes::bigint, wal_write, wal_sync FROM pg_stat_wal

-- name: transactions
SELECT sum(xact_commit)::bigint, sum(xact_rollback)::bigint FROM pg_stat_database WHERE datname = ANY ($1::text[])

-- name: rows
SELECT schemaname || '.' || relname, n_tup_ins, n_tup_upd, n_tup_del
  FROM pg_stat_user_tables WHERE schemaname IN ('skald', 'public') ORDER BY 1

-- name: settings
SELECT name, current_setting(name) FROM pg_settings
 WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'wal_level', 'shared_buffers',
                'max_wal_size', 'wal_buffers', 'checkpoint_timeout', 'commit_delay', 'track_commit_timestamp', 'max_connections',
                'autovacuum', 'jit', 'wal_compression')
 ORDER BY name

-- name: others_connected
SELECT count(*) FROM pg_stat_activity
 WHERE datname = ANY ($1::text[]) AND pid <> pg_backend_pid() AND backend_type = 'client backend'

-- name: backend
SELECT pg_backend_pid()
