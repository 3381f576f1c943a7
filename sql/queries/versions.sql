-- Versions of definitions: which are under way, and whether a process can read what is stored of them. Not prepared: each is asked once, and
-- the first of them on schemas before 0018_versions.sql too.

-- name: has_versions
SELECT to_regclass('skald.hosted_version') IS NOT NULL AS has_versions

-- name: record_versions
INSERT INTO skald.hosted_version (definition, version)
SELECT DISTINCT v.definition, v.version FROM unnest(:definitions::text[], :versions::integer[]) AS v(definition, version)
ON CONFLICT ON CONSTRAINT hosted_version_once DO NOTHING

-- name: known_versions
SELECT v.definition, v.version, EXISTS (SELECT FROM skald.saga s WHERE s.definition = v.definition) AS is_home
  FROM skald.hosted_version v ORDER BY v.definition, v.version

-- Of each version that is under way: how many, since when, and after or at which step they are: the latest that is known of each.
-- name: versions_under_way
WITH under_way AS (
    SELECT s.definition, s.version, s.status::text AS status, s.created_at, s.key::text AS key, k.step, k.status AS step_status
      FROM skald.saga s
      LEFT JOIN LATERAL (SELECT k.step, k.status FROM skald.known_steps(s.scope, s.key) AS k WHERE k.step <> '' ORDER BY k.at DESC LIMIT 1) AS k ON true
     WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown')),
places AS (
    SELECT definition, version, coalesce(step, '') AS step, coalesce(step_status, '') AS step_status, count(*) AS sagas
      FROM under_way GROUP BY 1, 2, 3, 4)
SELECT u.definition, u.version, count(*) AS sagas, count(*) FILTER (WHERE u.status IN ('stuck', 'unknown')) AS stuck,
       extract(epoch FROM clock_timestamp() - min(u.created_at))::bigint AS oldest_seconds,
       (array_agg(u.key ORDER BY u.created_at))[1] AS oldest,
       (SELECT jsonb_agg(jsonb_build_object('step', p.step, 'status', p.step_status, 'sagas', p.sagas) ORDER BY p.sagas DESC, p.step)
          FROM places p WHERE (p.definition, p.version) = (u.definition, u.version))::text AS places
  FROM under_way u GROUP BY u.definition, u.version ORDER BY u.definition, u.version

-- The plans of the sagas that were started here and have not ended.
-- name: stored_plans
SELECT s.definition, s.version, s.itinerary, count(*) AS sagas, min(s.key::text) AS key
  FROM skald.saga s WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown')
 GROUP BY s.definition, s.version, s.itinerary ORDER BY s.definition, s.version

-- Their data as of the start, the oldest first; from `created_at`, `scope` and `key` on.
-- name: stored_data
SELECT s.scope, s.key, s.definition, s.version, s.itinerary, s.data::text AS data, s.kept IS NOT NULL AS is_apart, s.created_at::text AS created_at
  FROM skald.saga s
 WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown')
   AND s.created_at >= :created_at::timestamptz AND (s.created_at, s.scope, s.key) > (:created_at::timestamptz, :scope::text, :key::text)
 ORDER BY s.created_at, s.scope, s.key LIMIT :most::bigint

-- What is stored for this service's own steps, wherever their sagas were started: started steps, and messages that wait to be tried again.
-- name: stored_messages
SELECT true AS is_started, o.name AS destination, s.message_id, s.type, s.content_type, s.headers, encode(s.body, 'hex') AS body
  FROM skald.started s CROSS JOIN skald.service o
 UNION ALL
SELECT false, m.destination, m.idempotency_key, m.type, m.content_type, m.headers, encode(m.payload, 'hex')
  FROM skald.outbox m JOIN skald.service o ON o.name = m.destination WHERE m.type NOT LIKE 'skald.%'
 LIMIT :most::bigint
