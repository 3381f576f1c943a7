-- name: insert_saga
INSERT INTO skald.saga (scope, key, definition, version, data, itinerary, deadline_at)
VALUES ($1::text, $2::text, $3::text, $4::integer, $5::jsonb, $6::text, $7::timestamptz)

-- name: advance
SELECT skald.advance($1::text, $2::text, $3::text, $4::text)

-- Many at once: scopes, keys, states, reasons; '' is no reason.
-- name: advance_many
SELECT skald.advance_many($1::text[], $2::text[], $3::text[], (SELECT array_agg(nullif(r, '') ORDER BY o) FROM unnest($4::text[]) WITH ORDINALITY AS u(r, o)))

-- name: record_progress
SELECT skald.record_progress($1::jsonb)

-- name: record_ended
SELECT skald.record_ended($1::jsonb)

-- name: record_expired
SELECT skald.record_expired($1::jsonb)

-- name: start
SELECT skald.start($1::text, $2::text, $3::text, $4::integer, $5::jsonb, $6::text, $7::bytea, $8::text, $9::text,
                   $10::bytea, $11::jsonb, nullif($12::bigint, 0) * interval '1 millisecond')

-- name: find_saga
SELECT s.definition, s.version, s.status::text, s.reason, s.data::text, skald.instant(s.created_at) AS created_at,
       skald.instant(s.finished_at) AS finished_at, skald.instant(s.deadline_at) AS deadline_at
  FROM skald.saga s WHERE (s.scope, s.key) = ($1::text, $2::text)

-- name: show_saga
SELECT s.definition, s.status::text, s.reason, s.itinerary, skald.instant(s.created_at) AS created_at,
       skald.instant(s.finished_at) AS finished_at, skald.instant(s.deadline_at) AS deadline_at,
       skald.instant(clock_timestamp()) AS now, c.action, c.requested_by AS command_by, c.reason AS command_reason,
       skald.instant(c.requested_at) AS command_at, skald.refusal('cancel', s) IS NULL AS can_be_cancelled,
       EXISTS (SELECT FROM skald.past_pivot(s.scope, s.key, s.itinerary)) AS past_pivot
  FROM skald.saga s LEFT JOIN skald.control c ON (c.scope, c.key) = (s.scope, s.key) AND skald.is_ours(c.home)
 WHERE (s.scope, s.key) = ($1::text, $2::text)

-- Every known step: those of this database, and those that other services have reported.
-- name: show_steps
SELECT step, service, status, attempts, error, skald.instant(at) AS at FROM skald.known_steps($1::text, $2::text)
