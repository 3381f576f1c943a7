-- Sagas for the console to search: psql DATABASE -v sagas=10000000 -f sagas.sql, in a database that `skald migrate --service orders` has
-- made. One in twenty was compensated, 1,000 are stuck, 5,500 are under way; half have a scope, of 10,000.
\set ON_ERROR_STOP on
SET synchronous_commit = off;
SET maintenance_work_mem = '512MB';

-- Indexes are built afterwards, which takes a tenth of the time.
CREATE TEMPORARY TABLE kept AS
    SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'skald' AND tablename = 'saga' AND indexname <> 'saga_once';
SELECT format('DROP INDEX skald.%I', indexname) FROM kept \gexec

INSERT INTO skald.saga (scope, key, definition, status, reason, data, itinerary, created_at, updated_at, finished_at)
SELECT CASE WHEN n % 2 = 0 THEN '' ELSE 'shop-' || n / 2 % 10000 END, 'order-' || to_char(n, 'FM00000000'),
       CASE WHEN n % 100000 = 7 THEN 'close-books' WHEN n % 11 = 0 THEN 'refund-order' ELSE 'place-order' END,
       k.status::skald.saga_status,
       CASE k.status WHEN 'compensated' THEN CASE WHEN n % 1000000 = 20 THEN 'the needle' WHEN n % 3 = 0 THEN 'insufficient funds' ELSE 'out of stock' END
                     WHEN 'compensating' THEN 'out of stock' WHEN 'stuck' THEN 'the till is jammed' END,
       jsonb_build_object('id', n, 'customer', 'c' || n % 5000, 'cents', n % 10000),
       'forward 1/4 create-order@orders=compensatable charge-payment@payments=compensatable arrange-shipping@shipping=pivot confirm-order@orders=retriable',
       k.at, k.at + interval '1 second', CASE WHEN k.status IN ('completed', 'compensated') THEN k.at + interval '1 second' END
  FROM generate_series(1, :sagas) AS n
 CROSS JOIN LATERAL (
       SELECT CASE WHEN n > :sagas - 5000 THEN 'running' WHEN n > :sagas - 5500 THEN 'compensating' WHEN n % (:sagas / 1000) = 3 THEN 'stuck'
                   WHEN n % 20 = 0 THEN 'compensated' ELSE 'completed' END,
              clock_timestamp() - (:sagas - n) * interval '200 milliseconds') AS k(status, at);

SELECT indexdef FROM kept ORDER BY indexname \gexec
VACUUM ANALYZE skald.saga;
