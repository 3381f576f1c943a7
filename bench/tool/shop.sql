-- The order example's sagas, as their home sees them.

-- name: under_way_in_shop
SELECT count(*) FROM skald.saga WHERE status IN ('running', 'compensating', 'stuck')

-- When the last one ended, counted from the first start: as late as the server can tell, which is when it wrote the COMMIT.
-- name: shop_seconds
SELECT coalesce(extract(epoch FROM max(CASE WHEN current_setting('track_commit_timestamp') = 'on'
                                            THEN pg_xact_commit_timestamp(xmin) ELSE finished_at END) - $1::timestamptz), 0)::float8
  FROM skald.saga WHERE status IN ('completed', 'compensated')

-- name: contention_counts
SELECT xact_commit, xact_rollback, deadlocks, (SELECT count(*) FROM skald.idempotency WHERE attempts > 1)
  FROM pg_stat_database WHERE datname = current_database()
