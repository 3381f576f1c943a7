-- Steps that have begun and not ended (sql/migrations/0014_started.sql).

-- name: start_step
SELECT skald.start_step(ROW(:scope::text, :key::text, :step::text, :kind::text, :dependency::text, clock_timestamp(),
                            :lease::bigint * interval '1 millisecond', :unknown_after::bigint * interval '1 millisecond', NULL, NULL, NULL, 0,
                            false, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, :message_id::text, :type::text,
                            :content_type::text, :body::bytea, :headers::jsonb, clock_timestamp())::skald.started,
                        :due_in::bigint * interval '1 millisecond', :deadline::timestamptz)

-- `silence_ms`: for how long the session may stand still in this transaction; 0: for any time.
-- name: claim_started
SELECT w.ord::integer AS ord, c.result, c.attempts, c.held, c.cause, c.reason,
       pg_current_xact_id_if_assigned()::text AS transaction,
       to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at,
       set_config('default_transaction_read_only', NULL, true) AS read_only, current_setting('synchronous_standby_names') <> '' AS standbys,
       'skald.service'::regclass::oid AS service_table,
       (extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000)::bigint AS silence_ms
  FROM unnest(:scopes::text[], :keys::text[], :steps::text[], :fences::bigint[]::integer[]) WITH ORDINALITY AS w(scope, key, step, fence, ord)
 CROSS JOIN LATERAL skald.claim_started(w.scope, w.key, w.step, w.fence) AS c

-- It has ended.
-- name: end_started
WITH gone AS (
    DELETE FROM skald.started WHERE (scope, key, step) = (:scope::text, :key::text, :step::text) AND fence = :fence::integer RETURNING 1)
SELECT CASE WHEN count(*) <> 1 THEN skald.assert_written('skald.started', 1, count(*)) END FROM gone

-- name: take_started
SELECT (t.taken).scope, (t.taken).key, (t.taken).step, (t.taken).fence, (t.taken).kind, (t.taken).calls, (t.taken).looks,
       (t.taken).tries, (t.taken).checkpoint::text AS checkpoint, (t.taken).answer::text AS answer, coalesce((t.taken).error, '') AS error, (t.taken).message_id, (t.taken).type,
       (t.taken).content_type, encode((t.taken).body, 'hex') AS body, (t.taken).headers::text AS headers, t.was_in_doubt, (t.taken).unknown_at IS NOT NULL AS is_unshown,
       coalesce(t.command, '') AS command, coalesce(t.command_reason, '') AS command_reason, skald.instant(t.at) AS at,
       (extract(epoch FROM skald.owned_for((t.taken).kind, (t.taken).lease)) * 1000)::bigint AS lease,
       coalesce((extract(epoch FROM (t.taken).until - t.at) * 1000)::bigint, 0) AS left_ms,
       coalesce((extract(epoch FROM t.at - (t.taken).doubt_since) * 1000)::bigint, 0) AS in_doubt_ms
  FROM skald.take_started(:owner::text, :kind::text, :dependency::text, :most::integer) AS t

-- name: renew_started
SELECT r.ord, r.is_extended, coalesce(r.command, '') AS command
  FROM skald.renew_started(:scopes::text[], :keys::text[], :steps::text[], :fences::bigint[]::integer[], :checkpoints::text[]) AS r

-- name: release_started
SELECT skald.release_started(:scope::text, :key::text, :step::text, :fence::integer, :due_in::bigint * interval '1 millisecond',
                             :is_in_doubt::boolean, :looks::integer, :tries::integer, :answer::jsonb,
                             :waits_on::boolean, :is_uncalled::boolean, :is_shown::boolean, :why::text) AS is_ours

-- name: take_signals
SELECT skald.take_signals(:signals::jsonb)

-- name: send_signal
SELECT skald.send_signal(:scope::text, :key::text, :step::text, :body::jsonb) AS outcome

-- name: resolve_step
SELECT skald.resolve_step(:scope::text, :key::text, :step::text, :answer::jsonb, :reason::text, :by::text) AS refusal

-- What waits, oldest first. `seconds`: since it began; `due_in`: below 0 if it is late.
-- name: list_started
SELECT s.scope, s.key, s.step, s.kind, s.dependency, coalesce(s.owner, '') AS owner, s.fence, s.in_doubt, s.calls, s.looks, s.tries,
       s.answer IS NOT NULL AS is_answered,
       EXISTS (SELECT FROM skald.control c
                WHERE (c.scope, c.key, c.action) = (s.scope, s.key, 'pause')
                  AND c.home = coalesce(s.headers->>'x-saga-home', (SELECT o.name FROM skald.service o))) AS is_paused, i.status::text AS status, coalesce(s.error, '') AS error,
       skald.instant(s.created_at) AS since, skald.instant(s.due_at) AS due_at, skald.instant(s.until) AS until,
       extract(epoch FROM clock_timestamp() - s.created_at)::bigint AS age_seconds,
       extract(epoch FROM s.due_at - clock_timestamp())::bigint AS due_in_seconds
  FROM skald.started s
  JOIN skald.idempotency i ON (i.scope, i.key, i.step) = (s.scope, s.key, s.step)
 WHERE (:key::text IS NULL OR s.key = :key::text) AND (:scope::text IS NULL OR s.scope = :scope::text) AND (NOT :unknown::boolean OR i.status = 'unknown')
 ORDER BY s.created_at, s.scope, s.key, s.step
 LIMIT :rows_max::integer

-- `tries_in`: of an open one, in milliseconds.
-- name: note_breaker
SELECT skald.note_breaker(ROW(:owner::text, :dependency::text, :state::text, :why::text, :ok::bigint, :failed::bigint, :slow::bigint,
                              NULL, NULL, NULL)::skald.breaker, :tries_in::bigint * interval '1 millisecond')
