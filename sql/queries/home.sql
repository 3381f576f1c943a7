-- name: insert_saga
WITH written AS (
    INSERT INTO skald.saga (scope, key, definition, version, data, itinerary, deadline_at, kept)
    VALUES (:scope::text, :key::text, :definition::text, :version::integer, :data::jsonb, :itinerary::text, :deadline::timestamptz, :kept::text)
    RETURNING 1)
SELECT CASE WHEN count(*) <> 1 THEN skald.assert_written('skald.saga', 1, count(*)) END FROM written

-- name: add_attributes
SELECT skald.add_attributes(:scope::text, :key::text, :attributes::jsonb)

-- name: advance
SELECT skald.advance(:scope::text, :key::text, :status::text, :reason::text)

-- Many at once; '' is no reason.
-- name: advance_many
SELECT skald.advance_many(:scopes::text[], :keys::text[], :statuses::text[],
                          (SELECT array_agg(nullif(r, '') ORDER BY o) FROM unnest(:reasons::text[]) WITH ORDINALITY AS u(r, o)))

-- name: record_progress
SELECT skald.record_progress(:progress::jsonb)

-- name: record_ended
SELECT skald.record_ended(:ended::jsonb)

-- name: record_expired
SELECT skald.record_expired(:expired::jsonb)

-- name: own_service
SELECT coalesce((SELECT s.name FROM skald.service s), '') AS name

-- name: start
SELECT skald.start(:scope::text, :key::text, :definition::text, :version::integer, :data::jsonb, :itinerary::text,
                   :fingerprint::bytea, :destination::text, :type::text, :payload::bytea, :headers::jsonb,
                   nullif(:deadline::bigint, 0) * interval '1 millisecond', :attributes::jsonb)

-- name: find_saga
SELECT s.definition, s.version, s.status::text, s.reason, s.data::text, skald.instant(s.created_at) AS created_at,
       skald.instant(s.finished_at) AS finished_at, skald.instant(s.deadline_at) AS deadline_at
  FROM skald.saga s WHERE (s.scope, s.key) = (:scope::text, :key::text)

-- name: show_saga
SELECT s.definition, s.status::text AS status, s.reason, s.itinerary, skald.instant(s.created_at) AS created_at,
       skald.instant(s.finished_at) AS finished_at, skald.instant(s.deadline_at) AS deadline_at,
       skald.instant(clock_timestamp()) AS now, c.action, c.requested_by AS command_by, c.reason AS command_reason,
       skald.instant(c.requested_at) AS command_at, skald.refusal('cancel', s) IS NULL AS can_be_cancelled,
       EXISTS (SELECT FROM skald.past_pivot(s.scope, s.key, s.itinerary)) AS past_pivot
  FROM skald.saga s LEFT JOIN skald.control c ON (c.scope, c.key) = (s.scope, s.key) AND skald.is_ours(c.home)
 WHERE (s.scope, s.key) = (:scope::text, :key::text)

-- Messages of no saga with that key: their records here.
-- name: messages_of_key
SELECT i.step AS handler, i.status::text AS status, i.attempts, coalesce(i.error, '') AS error, skald.instant(i.updated_at) AS at,
       r.handler IS NOT NULL AS has_reply, (SELECT min(p.id) FROM skald.parked p WHERE (p.scope, p.key, p.handler) = (i.scope, i.key, i.step)) AS parked
  FROM skald.idempotency i
  LEFT JOIN skald.reply r ON (r.scope, r.key, r.handler) = (i.scope, i.key, i.step)
 WHERE (i.scope, i.key) = (:scope::text, :key::text) AND i.home = '-' ORDER BY i.step

-- name: definition_of_saga
SELECT s.definition, s.version FROM skald.saga s WHERE (s.scope, s.key) = (:scope::text, :key::text)

-- name: not_started_here
SELECT skald.not_started_here(:scope::text, :key::text) AS why

-- Every known step: those of this database, and those that other services have reported.
-- name: show_steps
SELECT step, service, status, attempts, error, skald.instant(at) AS at FROM skald.known_steps(:scope::text, :key::text)
