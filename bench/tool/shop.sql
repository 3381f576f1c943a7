-- The order example's sagas, as their home starts and sees them.

-- One call for each order, as docs/protocol.md shows it. The key of a saga is its order's id.
-- name: start_shop
SELECT count(*) FILTER (WHERE skald.start(
           '', o.id, 'place-order', 1, o.data, i.plan, sha256(o.payload), 'orders', 'create-order', o.payload,
           jsonb_build_object('x-idempotency-key', o.id || ':create-order', 'x-saga-scope', '', 'x-saga', 'place-order',
                              'x-saga-itinerary', i.plan)) = 'fresh')
  FROM (SELECT data, data ->> 'id' AS id, convert_to(data::text, 'UTF8') AS payload
          FROM jsonb_array_elements($1::jsonb) AS wanted(data)) AS o,
       (VALUES ('forward 1/4 create-order@orders=compensatable charge-payment@payments=compensatable '
                'arrange-shipping@shipping=pivot confirm-order@orders=retriable')) AS i(plan)

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
