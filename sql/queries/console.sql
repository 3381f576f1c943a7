-- What `skald console` asks. Not prepared: a page asks each once, and a plan for the values at hand finds the right index. Each is bounded:
-- a console that looks at a database in trouble must not add to it.

-- name: only_read
SET default_transaction_read_only = on

-- name: owner
SELECT s.name FROM skald.service s

-- Sagas by the beginning of their key, in order of keys, whatever their status. The bounds are those of the index: :key_until is the first
-- text behind all that begin with :key_from.
-- name: sagas_by_key
SELECT e.scope, e.key, e.definition, e.status::text AS status, coalesce(e.reason, '') AS reason, e.key AS place,
       skald.instant(e.created_at) AS started, coalesce(skald.instant(e.finished_at), '') AS ended,
       extract(epoch FROM clock_timestamp() - coalesce(e.finished_at, e.created_at))::bigint AS age_seconds,
       coalesce((extract(epoch FROM e.finished_at - e.created_at) * 1000)::bigint, 0) AS took_ms,
       e.matches, e.nth = :examined_max::integer AS is_last
  FROM (SELECT s.*, row_number() OVER (ORDER BY s.key, s.scope) AS nth,
               coalesce((:status::skald.saga_status IS NULL OR s.status = :status::skald.saga_status)
                        AND (:definition::text IS NULL OR s.definition = :definition::text)
                        AND (:scope::text IS NULL OR s.scope = :scope::text)
                        AND (:reason::text IS NULL OR strpos(lower(s.reason), lower(:reason::text)) > 0)
                        AND (:older::bigint IS NULL OR s.created_at <= clock_timestamp() - :older::bigint * interval '1 second'),
                        false) AS matches
          FROM skald.saga s
         WHERE s.key >= :key_from::text COLLATE "C" AND s.key < :key_until::text COLLATE "C"
           AND (:after_key::text IS NULL OR (s.key >= :after_key::text COLLATE "C"
                AND (s.key::text COLLATE "C", :home::text, s.scope::text COLLATE "C") > (:after_key::text, :after_home::text, :after_scope::text)))
         ORDER BY s.key, s.scope LIMIT :examined_max::integer) AS e
 WHERE e.matches OR e.nth = :examined_max::integer
 ORDER BY e.key, e.scope LIMIT :rows_max::integer

-- How many sagas have not ended, up to :count_max, and about how many there are on record: counting ten million takes seconds.
-- name: saga_counts
SELECT count(*) FILTER (WHERE o.status = 'running') AS running, count(*) FILTER (WHERE o.status = 'compensating') AS compensating,
       (SELECT count(*) FROM (SELECT FROM skald.saga s WHERE s.status = 'stuck' LIMIT :count_max::integer) AS u) AS stuck,
       (SELECT count(*) FROM (SELECT FROM skald.saga s WHERE s.status = 'unknown' LIMIT :count_max::integer) AS u) AS unknown,
       count(*) AS looked_at, (SELECT greatest(c.reltuples, 0)::bigint FROM pg_class c WHERE c.oid = 'skald.saga'::regclass) AS about
  FROM (SELECT s.status FROM skald.saga s WHERE s.status IN ('running', 'compensating') LIMIT :count_max::integer) AS o

-- The definitions in use, as far as a glance tells.
-- name: definitions
SELECT DISTINCT g.definition
  FROM ((SELECT s.definition FROM skald.saga s WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown') ORDER BY s.created_at LIMIT 500)
        UNION ALL
        (SELECT s.definition FROM skald.saga s WHERE s.finished_at IS NOT NULL AND s.expiring IS NULL
          ORDER BY s.finished_at DESC LIMIT 500)) AS g
 ORDER BY 1

-- name: parked_count
SELECT count(*) FROM (SELECT FROM skald.parked LIMIT :count_max::integer) AS p

-- name: start_of_saga
SELECT s.version, s.data::text AS data,
       coalesce((SELECT jsonb_object_agg(a.name, a.value) FROM skald.attribute a WHERE (a.scope, a.key) = (s.scope, s.key)), '{}')::text AS attributes
  FROM skald.saga s WHERE (s.scope, s.key) = (:scope::text, :key::text)

-- What a service has recorded of one saga's steps.
-- name: records_of_saga
SELECT i.step, i.status::text AS status, i.attempts, i.snoozes, coalesce(i.error, '') AS error,
       skald.instant(i.created_at) AS first_at, skald.instant(i.updated_at) AS at
  FROM skald.idempotency i
 WHERE (i.scope, i.key) = (:scope::text, :key::text) AND i.step <> '' AND coalesce(i.home = :home::text, true)

-- Whether anyone counts deliveries.
-- name: counts_deliveries
SELECT to_regclass('skald.deliveries_seen') IS NOT NULL

-- How often steps of one saga were delivered, of those that were delivered more than once.
-- name: deliveries_of_saga
SELECT d.step, d.delivered FROM skald.deliveries_seen d WHERE (d.scope, d.key, d.home) = (:scope::text, :key::text, :home::text)

-- Messages of one saga that have not left a service. The outbox has no index by key, which every step would pay for: it is searched from
-- its oldest row on, and no further than :examined_max.
-- name: messages_of_saga
SELECT o.type, o.destination, o.attempts, coalesce(o.error, '') AS error, skald.instant(o.created_at) AS at,
       o.due_at > clock_timestamp() + interval '1 second' AS waits,
       CASE WHEN octet_length(o.payload) <= 65536 THEN encode(o.payload, 'hex') ELSE '' END AS body,
       coalesce(o.headers->>'skald-body', '') AS kept
  FROM (SELECT * FROM skald.outbox ORDER BY due_at LIMIT :examined_max::integer) AS o
 WHERE (o.scope, o.aggregateid) = (:scope::text, :key::text) AND o.headers ? 'x-saga-itinerary'
   AND coalesce(o.headers->>'x-saga-home' = :home::text, true)
 ORDER BY o.created_at, o.id

-- name: parked_of_saga
SELECT p.id, p.step, p.reason, p.error, p.attempts, skald.instant(p.parked_at) AS at,
       CASE WHEN octet_length(p.body) <= 65536 THEN encode(p.body, 'hex') ELSE '' END AS body,
       coalesce(p.headers->>'skald-body', '') AS kept
  FROM skald.parked p
 WHERE (p.scope, p.key) = (:scope::text, :key::text) AND coalesce(p.headers->>'x-saga-home' = :home::text, true)
 ORDER BY p.id

-- The latest command for a saga that has arrived in a service.
-- name: command_of_saga
SELECT c.action, c.requested_by AS by, coalesce(c.reason, '') AS reason, skald.instant(c.requested_at) AS at
  FROM skald.control c WHERE (c.scope, c.key, c.home) = (:scope::text, :key::text, :home::text)

-- name: audit_of_saga
SELECT a.id, skald.instant(a.at) AS at, a.actor, a.verb, a.scope, a.key, a.detail::text AS detail
  FROM skald.audit a WHERE (a.scope, a.key) = (:scope::text, :key::text) ORDER BY a.id DESC LIMIT 50

-- The latest first; :before and :actor NULL: from the latest on, whoever did it. An order for many is one, without what each saga was told.
-- The last of :examined_max is there whoever did it: the search goes on from it. What was done at one time is never divided.
-- name: audit_before
SELECT e.id, skald.instant(e.at) AS at, e.actor, e.verb, e.scope, e.key, e.detail::text AS detail, e.matches,
       e.nth = :examined_max::integer AS is_last
  FROM (SELECT a.*, row_number() OVER (ORDER BY a.at DESC) AS nth, (:actor::text IS NULL OR strpos(a.actor, :actor::text) > 0) AS matches
          FROM (SELECT * FROM skald.audit
                 WHERE (:before::timestamptz IS NULL OR at < :before::timestamptz) AND NOT detail ? 'act'
                 ORDER BY at DESC FETCH FIRST (:examined_max::integer) ROWS WITH TIES) AS a) AS e
 WHERE e.matches OR e.nth = :examined_max::integer
 ORDER BY e.at DESC FETCH FIRST (:rows_max::integer) ROWS WITH TIES

-- What would become of a command for each of these sagas: NULL where it can be given; and when the same was asked for before, if it was the
-- latest.
-- name: saga_preview
SELECT w.scope, w.key, coalesce(s.definition, '') AS definition, coalesce(s.status::text, '') AS status,
       CASE WHEN s.key IS NULL THEN 'no such saga was started here' ELSE skald.refusal(:action::text, s) END AS refused,
       coalesce('at ' || skald.instant(c.requested_at) || ' by ' || c.requested_by, '') AS asked_before
  FROM unnest(:scopes::text[], :keys::text[]) WITH ORDINALITY AS w(scope, key, place)
  LEFT JOIN skald.saga s ON s.scope = w.scope AND s.key = w.key
  LEFT JOIN skald.control c ON c.scope = s.scope AND c.key = s.key AND skald.is_ours(c.home) AND c.action = :action::text
 ORDER BY w.place

-- The same of a replay, and whether a saga waits for the delivery.
-- name: parked_preview
SELECT w.id, coalesce(p.scope, '') AS scope, coalesce(p.key, '') AS key, coalesce(p.step, '') AS step, coalesce(p.reason, '') AS reason,
       CASE WHEN p.id IS NULL THEN 'it was replayed or dropped already' ELSE skald.refusal(p, i.status, false) END AS refused,
       coalesce(skald.is_waited_for(p, i.status), false) AS is_waited_for
  FROM unnest(:ids::bigint[]) WITH ORDINALITY AS w(id, place)
  LEFT JOIN skald.parked p ON p.id = w.id
  LEFT JOIN skald.idempotency i ON (i.scope, i.key, i.step) = (p.scope, p.key, p.step) AND skald.is_for(i.home, p)
 ORDER BY w.place

-- How much waits, among the first :examined_max to leave: the page is asked for every two seconds, and the outbox may have millions.
-- name: outbox_glance
SELECT count(*) AS messages, coalesce(extract(epoch FROM clock_timestamp() - skald.shown(min(o.created_at))), 0)::bigint AS oldest_seconds
  FROM (SELECT o.created_at FROM skald.outbox o ORDER BY o.due_at LIMIT :examined_max::integer) AS o

-- What the broker refused of them.
-- name: outbox_refused
SELECT o.destination, o.error, count(*) AS messages, max(o.attempts) AS attempts_max
  FROM (SELECT o.destination, o.error, o.attempts FROM skald.outbox o ORDER BY o.due_at LIMIT :examined_max::integer) AS o
 WHERE o.error IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 50

-- What waits for the broker, the oldest first.
-- name: waiting_messages
SELECT o.idempotency_key AS message_id, o.type, o.destination, o.scope, o.aggregateid AS key, o.attempts, coalesce(o.error, '') AS error,
       extract(epoch FROM clock_timestamp() - skald.shown(o.created_at))::bigint AS age_seconds,
       coalesce(o.headers->>'x-saga-home', '') AS home
  FROM skald.outbox o ORDER BY o.due_at LIMIT :rows_max::integer

-- Limits that contention has put on steps (docs/contention.md).
-- name: contention
SELECT c.step, c.lanes, c.batch, c.takes_turns, c.conflicts, c.reason, skald.instant(c.changed_at) AS changed_at,
       coalesce(skald.instant(c.last_conflict_at), '') AS last_conflict_at
  FROM skald.contention c ORDER BY c.conflicts DESC, c.step LIMIT 100

-- Where the sagas stand that have not ended, by the step that is retried or parked, or of which nobody knows what its call has done; of the oldest :examined_max.
-- name: held_up_steps
SELECT k.step, k.service, k.status, count(*) AS sagas, max(k.attempts) AS attempts, (array_agg(k.error ORDER BY k.at DESC))[1] AS error
  FROM (SELECT s.scope, s.key FROM skald.saga s WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown')
         ORDER BY s.created_at LIMIT :examined_max::integer) AS o
 CROSS JOIN LATERAL skald.known_steps(o.scope, o.key) AS k
 WHERE k.status IN ('retrying', 'parked', 'unknown')
 GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1 LIMIT 100

-- How the steps of the latest sagas that ended went, in the order in which they usually come.
-- name: latest_steps
SELECT e.definition, k.step, k.service, count(*) AS runs, count(*) FILTER (WHERE k.status = 'completed') AS completed,
       count(*) FILTER (WHERE k.status = 'rejected') AS rejected, count(*) FILTER (WHERE k.attempts > 1) AS retried,
       max(k.attempts) AS attempts
  FROM (SELECT s.scope, s.key, s.definition, s.created_at FROM skald.saga s WHERE s.finished_at IS NOT NULL AND s.expiring IS NULL
         ORDER BY s.finished_at DESC LIMIT :examined_max::integer) AS e
 CROSS JOIN LATERAL skald.known_steps(e.scope, e.key) AS k
 GROUP BY 1, 2, 3 ORDER BY 1, avg(extract(epoch FROM k.at - e.created_at)), 2 LIMIT 200

-- How many of the latest :examined_max sagas ended each way, and within what time.
-- name: latest_rate
SELECT e.definition, count(*) AS sagas, count(*) FILTER (WHERE e.status = 'compensated') AS compensated,
       extract(epoch FROM max(e.finished_at) - min(e.finished_at))::float8 AS seconds,
       (percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM e.finished_at - e.created_at)) * 1000)::bigint AS median_ms,
       (percentile_cont(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM e.finished_at - e.created_at)) * 1000)::bigint AS p95_ms
  FROM (SELECT s.definition, s.status, s.created_at, s.finished_at FROM skald.saga s WHERE s.finished_at IS NOT NULL AND s.expiring IS NULL
         ORDER BY s.finished_at DESC LIMIT :examined_max::integer) AS e
 GROUP BY 1 ORDER BY 2 DESC LIMIT 50

-- Dependencies of the service's processes that are ill. Who has not said so for half a minute is dead, or can't reach the database.
-- name: breakers
SELECT b.owner, b.dependency, b.state, b.why, b.ok, b.failed, b.slow, skald.instant(b.changed_at) AS since,
       coalesce(skald.instant(b.tries_at), '') AS tries_at, b.seen_at > clock_timestamp() - interval '30 seconds' AS is_alive
  FROM skald.breaker b ORDER BY b.dependency, b.owner LIMIT 100

-- name: about_service
SELECT current_setting('server_version') AS server, current_database() AS database, pg_size_pretty(pg_database_size(current_database())) AS size,
       (SELECT count(*) FROM skald.migration m WHERE m.owner = 'skald') AS migrations,
       coalesce((SELECT max(m.name) FROM skald.migration m WHERE m.owner = 'skald'), '') AS newest,
       skald.instant(clock_timestamp()) AS now,
       (SELECT count(*) FROM (SELECT FROM skald.outbox LIMIT 10000) AS o) AS waiting,
       (SELECT count(*) FROM (SELECT FROM skald.parked LIMIT 10000) AS p) AS parked

-- Sessions of Skald in this database. What a session does is shown only to its own role, and to members of pg_read_all_stats.
-- name: sessions
SELECT a.application_name AS name, coalesce(host(a.client_addr), 'local') AS host, count(*) AS sessions,
       coalesce(skald.instant(min(a.backend_start)), '') AS since, coalesce(skald.instant(max(a.state_change)), '') AS last_sign,
       count(*) FILTER (WHERE a.wait_event_type = 'Lock') AS waiting_for_locks
  FROM pg_stat_activity a
 WHERE a.datname = current_database() AND a.application_name LIKE 'skald/%' AND a.pid <> pg_backend_pid()
 GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 200
