-- Versions of definitions: which are under way, and whether a process can read what is stored of them. Not prepared: each is asked once, and
-- the first of them on schemas before 0018_versions.sql too.

-- name: has_versions
SELECT to_regclass('skald.hosted_version') IS NOT NULL AS has_versions

-- name: record_versions
INSERT INTO skald.hosted_version (definition, version)
SELECT DISTINCT v.definition, v.version FROM unnest(:definitions::text[], :versions::integer[]) AS v(definition, version)
ON CONFLICT ON CONSTRAINT hosted_version_once DO NOTHING

-- name: record_unreadable
WITH found AS (
    SELECT f.definition, f.version, string_agg(f.what, '; ') AS what
      FROM unnest(:definitions::text[], :versions::integer[], :whats::text[]) AS f(definition, version, what) GROUP BY 1, 2),
mended AS (
    UPDATE skald.hosted_version h SET unreadable = NULL
     WHERE h.unreadable IS NOT NULL AND NOT EXISTS (SELECT FROM found f WHERE (f.definition, f.version) = (h.definition, h.version)))
INSERT INTO skald.hosted_version (definition, version, unreadable) SELECT f.definition, f.version, f.what FROM found f
ON CONFLICT ON CONSTRAINT hosted_version_once DO UPDATE SET unreadable = excluded.unreadable

-- name: known_versions
SELECT v.definition, v.version, EXISTS (SELECT FROM skald.saga s WHERE s.definition = v.definition) AS is_home
  FROM skald.hosted_version v ORDER BY v.definition, v.version

-- Of each version that is under way: how many, since when, and after or at which step the oldest of them are, no more than :examined_max:
-- the latest that is known of each. All are counted: whether there is one decides what may be removed.
-- name: versions_under_way
WITH counted AS (
    SELECT s.definition, s.version, count(*) AS sagas, count(*) FILTER (WHERE s.status IN ('stuck', 'unknown')) AS stuck,
           min(s.created_at) AS oldest
      FROM skald.saga s WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown') GROUP BY s.definition, s.version)
SELECT c.definition, c.version, c.sagas, c.stuck,
       extract(epoch FROM clock_timestamp() - skald.shown(c.oldest))::bigint AS oldest_seconds,
       (SELECT s.key::text FROM skald.saga s
         WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown') AND s.created_at = c.oldest
           AND (s.definition, s.version) = (c.definition, c.version) LIMIT 1) AS oldest,
       (SELECT jsonb_agg(jsonb_build_object('step', p.step, 'status', p.step_status, 'sagas', p.sagas) ORDER BY p.sagas DESC, p.step)
          FROM (SELECT coalesce(k.step, '') AS step, coalesce(k.status, '') AS step_status, count(*) AS sagas
                  FROM (SELECT s.scope::text AS scope, s.key::text AS key FROM skald.saga s
                         WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown') AND s.created_at >= c.oldest
                           AND (s.definition, s.version) = (c.definition, c.version)
                         ORDER BY s.created_at LIMIT :examined_max::integer) AS u
                  LEFT JOIN LATERAL (SELECT k.step, k.status FROM skald.known_steps(u.scope, u.key) AS k
                                      WHERE k.step <> '' ORDER BY k.at DESC LIMIT 1) AS k ON true
                 GROUP BY 1, 2) AS p)::text AS places
  FROM counted c ORDER BY c.definition, c.version

-- The plans of the sagas that were started here and have not ended.
-- name: stored_plans
SELECT s.definition, s.version, s.itinerary, count(*) AS sagas, min(s.key::text) AS key
  FROM skald.saga s WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown')
 GROUP BY s.definition, s.version, s.itinerary ORDER BY s.definition, s.version

-- Those of :either_end: sagas at each end alone.
-- name: stored_plans_at_ends
WITH oldest AS MATERIALIZED (
    SELECT s.created_at, s.scope, s.key, s.definition, s.version, s.itinerary FROM skald.saga s
     WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown') ORDER BY s.created_at, s.scope, s.key LIMIT :either_end::bigint),
last AS (SELECT o.created_at, o.scope, o.key FROM oldest o ORDER BY o.created_at DESC, o.scope DESC, o.key DESC LIMIT 1),
newest AS (
    SELECT s.created_at, s.scope, s.key, s.definition, s.version, s.itinerary FROM skald.saga s
     WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown') AND s.created_at >= (SELECT l.created_at FROM last l)
       AND (s.created_at, s.scope, s.key) > (SELECT l.created_at, l.scope, l.key FROM last l)
     ORDER BY s.created_at DESC LIMIT :either_end::bigint)
SELECT u.definition, u.version, u.itinerary, count(*) AS sagas, min(u.key::text) AS key
  FROM (TABLE oldest UNION ALL TABLE newest) AS u
 GROUP BY u.definition, u.version, u.itinerary ORDER BY u.definition, u.version

-- Their data as of the start, the oldest first; from `created_at`, `scope` and `key` on.
-- name: stored_data
SELECT s.scope, s.key, s.definition, s.version, s.itinerary, s.data::text AS data, s.kept IS NOT NULL AS is_apart, s.created_at::text AS created_at
  FROM skald.saga s
 WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown')
   AND s.created_at >= :created_at::timestamptz AND (s.created_at, s.scope, s.key) > (:created_at::timestamptz, :scope::text, :key::text)
 ORDER BY s.created_at, s.scope, s.key LIMIT :most::bigint

-- A part of it: of each version among those at the two ends, the :each: first and the :each: last. The rows are looked up one by one.
-- name: stored_sample
WITH oldest AS MATERIALIZED (
    SELECT s.created_at, s.scope, s.key, s.definition, s.version FROM skald.saga s
     WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown') ORDER BY s.created_at, s.scope, s.key LIMIT :either_end::bigint),
last AS (SELECT o.created_at, o.scope, o.key FROM oldest o ORDER BY o.created_at DESC, o.scope DESC, o.key DESC LIMIT 1),
newest AS (
    SELECT s.created_at, s.scope, s.key, s.definition, s.version FROM skald.saga s
     WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown') AND s.created_at >= (SELECT l.created_at FROM last l)
       AND (s.created_at, s.scope, s.key) > (SELECT l.created_at, l.scope, l.key FROM last l)
     ORDER BY s.created_at DESC LIMIT :either_end::bigint),
placed AS (
    SELECT u.scope, u.key, row_number() OVER (PARTITION BY u.definition, u.version ORDER BY u.created_at) AS from_first,
           row_number() OVER (PARTITION BY u.definition, u.version ORDER BY u.created_at DESC) AS from_last
      FROM (TABLE oldest UNION ALL TABLE newest) AS u),
chosen AS (
    SELECT p.scope, p.key FROM placed p WHERE p.from_first <= :each::bigint OR p.from_last <= :each::bigint
     ORDER BY least(p.from_first, p.from_last) LIMIT :most::bigint)
SELECT c.scope, c.key, s.definition, s.version, s.itinerary, s.data, s.is_apart
  FROM chosen c
 CROSS JOIN LATERAL (SELECT s.definition, s.version, s.itinerary, s.data::text AS data, s.kept IS NOT NULL AS is_apart
                       FROM skald.saga s WHERE s.scope = c.scope AND s.key = c.key OFFSET 0) AS s

-- What is stored for this service's own steps, wherever their sagas were started: started steps, and messages that wait to be tried again,
-- among the :either_end: first and the last that were written.
-- name: stored_messages
(SELECT true AS is_started, o.name AS destination, s.message_id, s.type, s.content_type, s.headers, encode(s.body, 'hex') AS body
   FROM skald.started s CROSS JOIN skald.service o LIMIT :most::bigint)
 UNION ALL
(SELECT false, m.destination, m.idempotency_key, m.type, m.content_type, m.headers, encode(m.payload, 'hex')
   FROM (SELECT max(b.id) AS id FROM (SELECT b.id FROM skald.outbox b ORDER BY b.id LIMIT :either_end::bigint) AS b) AS middle
  CROSS JOIN LATERAL (SELECT * FROM skald.outbox f WHERE f.id <= middle.id
                       UNION ALL
                      (SELECT * FROM skald.outbox f WHERE f.id > middle.id ORDER BY f.id DESC LIMIT :either_end::bigint)) AS m
   JOIN skald.service o ON o.name = m.destination WHERE m.type NOT LIKE 'skald.%' LIMIT :most::bigint)
