-- Reports of several sagas leave in one message, which has the key of one of them: all of them are busy until it has left.
-- Otherwise a service forgets a saga of which its home has not heard yet.
CREATE OR REPLACE VIEW skald.busy AS
    SELECT o.scope::text COLLATE "C" AS scope, k.key COLLATE "C" AS key
      FROM skald.outbox o
     CROSS JOIN LATERAL (VALUES (o.aggregateid), (regexp_replace(o.idempotency_key, ':[^:]*$', ''))) AS k(key)
     UNION
    SELECT (m.report ->> 'scope') COLLATE "C", (m.report ->> 'key') COLLATE "C"
      FROM skald.outbox o
     CROSS JOIN LATERAL jsonb_array_elements(convert_from(o.payload, 'UTF8')::jsonb) AS m(report)
     WHERE o.type = 'skald.progress'
     UNION
    SELECT scope COLLATE "C", key COLLATE "C" FROM skald.parked;
