-- What `skald audit` asks. Each is asked once, in a transaction that only reads; words in @ are replaced by the caller.

-- One moment for all that one database says.
-- name: audit_begin
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL timezone = 'UTC'

-- name: audit_end
ROLLBACK

-- name: audit_clock
SELECT skald.instant(clock_timestamp()) AS at

-- name: audit_service
SELECT name FROM skald.service

-- Whether a process of the service has ever had the step; and which it has had, for whoever mistook the name. Without any it is not known.
-- name: audit_step
SELECT coalesce(bool_or(h.step = :step::text), true) AS is_known, coalesce(string_agg(h.step, ', ' ORDER BY h.step), '') AS all_steps
  FROM (SELECT step FROM skald.hosted UNION SELECT handler FROM skald.handler) AS h

-- name: audit_fetch
FETCH 2000 FROM @cursor@

-- From when on no record has been deleted; NULL: none ever was. `forgot_before` is exact to the hour.
-- name: audit_memory
SELECT coalesce(skald.instant(forgot_before + interval '1 hour'), '') AS since FROM skald.service

-- When the earliest of what was completed in the period began: the other side may have it since then.
-- name: audit_begun
SELECT coalesce(skald.instant(min(i.created_at)), '') AS at
  FROM skald.idempotency i
 WHERE i.step = :step::text AND i.status = 'completed' AND i.updated_at >= :since::timestamptz AND i.updated_at < :until::timestamptz

-- What the user's own query has over a period. The types of its parameters are settled before it: it may use both, one or neither.
-- name: audit_ours
DECLARE @cursor@ NO SCROLL CURSOR FOR
WITH skald_period AS (SELECT :since::timestamptz AS since, :until::timestamptz AS until)
SELECT q.key::text AS audited_key, q.*
  FROM (
@ours@
       ) AS q ORDER BY convert_to(q.key::text, 'UTF8')

-- What the guard's records of a step say: those that touch the period, those that were undone since it began (a side that lists by the latest
-- change has them), and whatever is still unknown from before it. `settles_within`: it
-- began and was decided in the period itself, so the other side has to have it.
-- name: audit_records
DECLARE audit_records NO SCROLL CURSOR FOR
SELECT r.compared, r.scope, r.key, coalesce(nullif(r.home, '-'), (SELECT s.name FROM skald.service s)) AS home, r.status,
       skald.instant(r.updated_at) AS at,
       r.created_at >= :since::timestamptz AND r.updated_at < :until::timestamptz AS settles_within,
       r.created_at >= :since::timestamptz AS began_within, r.created_at < :until::timestamptz AS is_old
  FROM (SELECT CASE WHEN :by_saga::boolean THEN i.key::text ELSE i.key || ':' || i.step END AS compared, i.scope, i.key, i.home,
               i.created_at, i.updated_at,
               CASE WHEN i.status = 'completed' AND c.status = 'completed' THEN 'compensated'
                    WHEN i.status = 'completed' AND c.status IN ('started', 'unknown', 'retrying', 'parked') THEN 'compensating'
                    WHEN i.status = 'unknown' THEN 'started'
                    ELSE i.status::text END AS status
          FROM skald.idempotency i
          LEFT JOIN skald.idempotency c ON (c.scope, c.key, c.step) = (i.scope, i.key, i.step || '.compensate')
         WHERE i.step = :step::text
           AND (i.updated_at >= :wide_since::timestamptz OR c.updated_at >= :wide_since::timestamptz OR i.status IN ('started', 'unknown')) AND i.created_at < :wide_until::timestamptz) AS r
 ORDER BY convert_to(r.compared, 'UTF8'), r.scope, r.key

-- All that this database knows of all sagas, key by key; messages of no saga, which handlers take, are not among it. `is_old`: nothing is new about it since the grace period.
-- name: audit_facts
DECLARE audit_facts NO SCROLL CURSOR FOR
SELECT f.scope, f.key, f.what, f.fact, skald.instant(f.at) AS at,
       coalesce(f.at < clock_timestamp() - :grace_seconds::bigint * interval '1 second', true) AS is_old
  FROM (
    SELECT i.scope::text COLLATE "C" AS scope, i.key::text COLLATE "C" AS key, 'record' AS what,
           jsonb_build_object('step', i.step, 'status', i.status, 'home', i.home) AS fact, i.updated_at AS at
      FROM skald.idempotency i WHERE i.step <> '' AND i.home IS DISTINCT FROM '-'
     UNION ALL
    SELECT s.scope, s.key, 'saga',
           jsonb_build_object('status', s.status, 'itinerary', s.itinerary, 'expires', s.expiring IS NOT NULL), s.updated_at
      FROM skald.saga s
     UNION ALL
    SELECT c.scope, c.key, 'command', jsonb_build_object('action', c.action, 'home', c.home), c.requested_at
      FROM skald.control c
     UNION ALL
    SELECT o.scope, o.aggregateid, 'message',
           jsonb_build_object('id', o.idempotency_key, 'to', o.destination, 'home', o.headers->>'x-saga-home'), o.created_at
      FROM skald.outbox o WHERE o.headers ? 'x-saga-itinerary'
     UNION ALL
    SELECT p.scope, p.key, 'parked',
           jsonb_build_object('id', p.id, 'step', p.step, 'reason', p.reason, 'home', p.headers->>'x-saga-home'), p.parked_at
      FROM skald.parked p WHERE p.handler = ''
     UNION ALL
    SELECT b.scope, b.key, 'busy', '{}', NULL FROM skald.busy b
     UNION ALL
    SELECT w.scope, w.key, 'busy', '{}', NULL FROM skald.started w
     UNION ALL
    SELECT n.scope, n.key, 'not_undone', jsonb_build_object('step', n.step), NULL FROM skald.not_undone n) AS f
 ORDER BY f.scope COLLATE "C", f.key COLLATE "C"
