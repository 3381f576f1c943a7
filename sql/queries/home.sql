-- name: insert_saga
INSERT INTO skald.saga (scope, key, definition, version, data, itinerary)
VALUES ($1::text, $2::text, $3::text, $4::integer, $5::jsonb, $6::text)

-- name: advance
SELECT skald.advance($1::text, $2::text, $3::text, $4::text)

-- name: note_progress
SELECT skald.note_progress($1::jsonb)

-- name: note_ended
SELECT skald.note_ended($1::jsonb)

-- name: note_forgotten
SELECT skald.note_forgotten($1::jsonb)

-- name: start
SELECT skald.start($1::text, $2::text, $3::text, $4::integer, $5::jsonb, $6::text, $7::bytea, $8::text, $9::text,
                   $10::bytea, $11::jsonb)

-- name: show_saga
SELECT definition, status::text, reason, itinerary,
       to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at,
       to_char(finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS finished_at
  FROM skald.saga
 WHERE (scope, key) = ($1::text, $2::text)

-- Every step that is known of: those of this database, and what other services told of theirs.
-- name: show_steps
SELECT step::text, NULL AS service, status::text, attempts, error,
       to_char(updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at
  FROM skald.idempotency
 WHERE (scope, key) = ($1::text, $2::text) AND step <> ''
UNION ALL
SELECT p.step::text, p.service, p.status::text, p.attempts, p.error,
       to_char(p.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
  FROM skald.progress p
 WHERE (p.scope, p.key) = ($1::text, $2::text)
   AND NOT EXISTS (SELECT FROM skald.idempotency i WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step))
 ORDER BY at
