-- Attributes for the sagas of sagas.sql: psql DATABASE -f attributes.sql. A country that five million have, a customer that 2,000 have, and
-- a cart of each saga's own.
\set ON_ERROR_STOP on
SET synchronous_commit = off;
SET maintenance_work_mem = '512MB';

DROP INDEX skald.attribute_by_value;
ALTER TABLE skald.attribute DROP CONSTRAINT attribute_once;
INSERT INTO skald.attribute (scope, key, name, value, created_at)
SELECT s.scope, s.key, a.name, a.value, s.created_at
  FROM skald.saga s
 CROSS JOIN LATERAL (VALUES ('cart', 'cart-' || (s.data->>'id')), ('customer', s.data->>'customer'),
                            ('country', CASE WHEN (s.data->>'id')::bigint / 3 % 2 = 0 THEN 'no' ELSE 'se' END)) AS a(name, value);
ALTER TABLE skald.attribute ADD CONSTRAINT attribute_once PRIMARY KEY (scope, key, name);
CREATE INDEX attribute_by_value ON skald.attribute (name, value, created_at);
VACUUM ANALYZE skald.attribute;
