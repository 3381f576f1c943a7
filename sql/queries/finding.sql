-- How sagas are found by their attributes (docs/finding.md), and chosen for an order for many. Not prepared: a plan for the values at hand
-- finds the right index.

-- name: attribute_names
SELECT n AS name FROM skald.attribute_names() AS n

-- name: attributes_of_saga
SELECT coalesce(jsonb_object_agg(a.name, a.value), '{}')::text AS attributes
  FROM skald.attribute a WHERE (a.scope, a.key) = (:scope::text, :key::text)

-- How many sagas have each of these attributes, up to :count_max, the rarest first.
-- name: attribute_counts
SELECT w.place - 1 AS place,
       (SELECT count(*) FROM (SELECT FROM skald.attribute a WHERE a.name = w.name COLLATE "C" AND a.value = w.value COLLATE "C"
                               LIMIT :count_max::integer) AS few) AS sagas
  FROM unnest(:names::text[], :vals::text[]) WITH ORDINALITY AS w(name, value, place) ORDER BY 2, 1

-- Sagas that have not ended, the oldest first; :status NULL: all but those that are stuck. After :after_time and so on, if given. No more
-- than :examined_max are looked at, so that a filter which few match takes bounded time; the last of them is told of though it may not match.
-- name: open_sagas
SELECT e.scope, e.key, e.definition, e.status::text AS status, coalesce(e.reason, '') AS reason, skald.instant(e.created_at) AS place,
       skald.instant(e.created_at) AS started, '' AS ended, extract(epoch FROM clock_timestamp() - skald.shown(e.created_at))::bigint AS age_seconds,
       0::bigint AS took_ms,
       skald.instant(e.updated_at) AS updated_at, skald.instant(e.deadline_at) AS deadline_at,
       extract(epoch FROM clock_timestamp() - skald.shown(e.created_at))::bigint AS old_seconds,
       (SELECT coalesce(jsonb_object_agg(a.name, a.value), '{}') FROM skald.attribute a WHERE (a.scope, a.key) = (e.scope, e.key))::text
           AS attributes,
       e.matches, e.nth = :examined_max::integer AS is_last
  FROM (SELECT s.*, row_number() OVER (ORDER BY s.created_at, s.scope, s.key) AS nth,
               coalesce((:definition::text IS NULL OR s.definition = :definition::text)
                        AND (:scope::text IS NULL OR s.scope = :scope::text)
                        AND (:reason::text IS NULL OR strpos(lower(s.reason), lower(:reason::text)) > 0)
                        AND (:older::bigint IS NULL OR s.created_at <= clock_timestamp() - :older::bigint * interval '1 second'),
                        false) AS matches
          FROM skald.saga s
         WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown')
           AND (:status::skald.saga_status IS NULL OR s.status = :status::skald.saga_status)
           AND (:status::skald.saga_status IS NOT NULL OR s.status <> 'stuck')
           -- A place has the time as it is shown: within the years 1 to 9999.
           AND (:after_time::timestamptz IS NULL
                OR (s.created_at >= CASE WHEN :after_time::timestamptz > '0001-01-01 00:00:00+00' THEN :after_time::timestamptz ELSE '-infinity' END
                AND (least(greatest(s.created_at, '0001-01-01 00:00:00+00'), '9999-12-31 23:59:59.999999+00'),
                     :home::text, s.scope::text, s.key::text)
                    > (:after_time::timestamptz, :after_home::text, :after_scope::text, :after_key::text)))
         ORDER BY s.created_at, s.scope, s.key LIMIT :examined_max::integer) AS e
 WHERE e.matches OR e.nth = :examined_max::integer
 ORDER BY e.created_at, e.scope, e.key LIMIT :rows_max::integer

-- Sagas that have ended, the latest first. Not those that are past their retention and about to go: a key finds these.
-- name: ended_sagas
SELECT e.scope, e.key, e.definition, e.status::text AS status, coalesce(e.reason, '') AS reason, skald.instant(e.finished_at) AS place,
       skald.instant(e.created_at) AS started, skald.instant(e.finished_at) AS ended,
       extract(epoch FROM clock_timestamp() - skald.shown(e.finished_at))::bigint AS age_seconds,
       (extract(epoch FROM skald.shown(e.finished_at) - skald.shown(e.created_at)) * 1000)::bigint AS took_ms,
       skald.instant(e.updated_at) AS updated_at, skald.instant(e.deadline_at) AS deadline_at,
       extract(epoch FROM clock_timestamp() - skald.shown(e.created_at))::bigint AS old_seconds,
       (SELECT coalesce(jsonb_object_agg(a.name, a.value), '{}') FROM skald.attribute a WHERE (a.scope, a.key) = (e.scope, e.key))::text
           AS attributes,
       e.matches, e.nth = :examined_max::integer AS is_last
  FROM (SELECT s.*, row_number() OVER (ORDER BY s.finished_at DESC, s.scope DESC, s.key DESC) AS nth,
               coalesce((:definition::text IS NULL OR s.definition = :definition::text)
                        AND (:scope::text IS NULL OR s.scope = :scope::text)
                        AND (:reason::text IS NULL OR strpos(lower(s.reason), lower(:reason::text)) > 0)
                        AND (:older::bigint IS NULL OR s.created_at <= clock_timestamp() - :older::bigint * interval '1 second'),
                        false) AS matches
          FROM skald.saga s
         WHERE s.finished_at IS NOT NULL AND s.expiring IS NULL
           AND (:status::skald.saga_status IS NULL OR s.status = :status::skald.saga_status)
           AND (:after_time::timestamptz IS NULL OR (s.finished_at <= :after_time::timestamptz
                AND (s.finished_at, :home::text, s.scope::text, s.key::text)
                    < (:after_time::timestamptz, :after_home::text, :after_scope::text, :after_key::text)))
         ORDER BY s.finished_at DESC, s.scope DESC, s.key DESC LIMIT :examined_max::integer) AS e
 WHERE e.matches OR e.nth = :examined_max::integer
 ORDER BY e.finished_at DESC, e.scope DESC, e.key DESC LIMIT :rows_max::integer

-- Sagas with an attribute and all of some others, the latest started first. No more than :examined_max of those that have the first are
-- looked at; the last of them is told of though it may not match. The keys are plain text, so that the planner sees that only those few are
-- to be sorted, and it stops at :rows_max. With :by_status, those of a status that has not ended are looked at instead: for
-- attributes that very many have, and a status that few have. The planner drops the half that is not asked for.
-- name: sagas_by_attribute
SELECT e.scope, e.key, coalesce(e.definition, '') AS definition, coalesce(e.status::text, '') AS status, coalesce(e.reason, '') AS reason,
       skald.instant(e.created_at) AS place, skald.instant(e.created_at) AS started, coalesce(skald.instant(e.finished_at), '') AS ended,
       extract(epoch FROM clock_timestamp() - skald.shown(coalesce(e.finished_at, e.created_at)))::bigint AS age_seconds,
       coalesce((extract(epoch FROM skald.shown(e.finished_at) - skald.shown(e.created_at)) * 1000)::bigint, 0) AS took_ms,
       skald.instant(e.updated_at) AS updated_at, skald.instant(e.deadline_at) AS deadline_at,
       extract(epoch FROM clock_timestamp() - skald.shown(e.created_at))::bigint AS old_seconds,
       (SELECT coalesce(jsonb_object_agg(a.name, a.value), '{}') FROM skald.attribute a WHERE (a.scope, a.key) = (e.scope, e.key))::text
           AS attributes,
       e.matches, e.nth = :examined_max::integer AS is_last
  FROM (SELECT c.scope, c.key, c.created_at, c.nth, s.definition, s.status, s.reason, s.finished_at, s.updated_at, s.deadline_at,
               coalesce((:status::skald.saga_status IS NULL OR s.status = :status::skald.saga_status)
                        AND (:definition::text IS NULL OR s.definition = :definition::text)
                        AND (:scope::text IS NULL OR s.scope = :scope::text)
                        AND (:key_from::text IS NULL
                             OR (s.key >= :key_from::text COLLATE "C" AND s.key < :key_until::text COLLATE "C"))
                        AND (:reason::text IS NULL OR strpos(lower(s.reason), lower(:reason::text)) > 0)
                        AND (:older::bigint IS NULL OR s.created_at <= clock_timestamp() - :older::bigint * interval '1 second')
                        AND NOT EXISTS (SELECT FROM unnest(:names::text[], :vals::text[]) AS w(name, value)
                                         WHERE NOT EXISTS (SELECT FROM skald.attribute a
                                                            WHERE a.scope = s.scope AND a.key = s.key AND a.name = w.name COLLATE "C"
                                                              AND a.value = w.value COLLATE "C")),
                        false) AS matches
          FROM (SELECT p.*, row_number() OVER (ORDER BY p.created_at DESC, p.scope DESC, p.key DESC) AS nth
                  FROM ((SELECT a.scope::text AS scope, a.key::text AS key, a.created_at
                           FROM skald.attribute a
                          WHERE NOT :by_status::boolean AND a.name = :name::text COLLATE "C" AND a.value = :value::text COLLATE "C"
                            AND (:after_time::timestamptz IS NULL OR (a.created_at <= :after_time::timestamptz
                                 AND (a.created_at, :home::text, a.scope::text, a.key::text)
                                     < (:after_time::timestamptz, :after_home::text, :after_scope::text, :after_key::text)))
                          ORDER BY a.created_at DESC, a.scope::text DESC, a.key::text DESC LIMIT :examined_max::integer)
                         UNION ALL
                        (SELECT s.scope::text AS scope, s.key::text AS key, s.created_at
                           FROM skald.saga s
                          WHERE :by_status::boolean AND s.status IN ('running', 'compensating', 'stuck', 'unknown')
                            AND s.status = :status::skald.saga_status
                            AND (:after_time::timestamptz IS NULL OR (s.created_at <= :after_time::timestamptz
                                 AND (s.created_at, :home::text, s.scope::text, s.key::text)
                                     < (:after_time::timestamptz, :after_home::text, :after_scope::text, :after_key::text)))
                          ORDER BY s.created_at DESC, s.scope::text DESC, s.key::text DESC LIMIT :examined_max::integer)) AS p) AS c
          LEFT JOIN LATERAL (SELECT * FROM skald.saga s WHERE s.scope = c.scope AND s.key = c.key LIMIT 1) AS s ON true
         ORDER BY c.created_at DESC, c.scope DESC, c.key DESC) AS e
 WHERE e.matches OR e.nth = :examined_max::integer
 ORDER BY e.created_at DESC, e.scope DESC, e.key DESC LIMIT :rows_max::integer

-- How many sagas an order for many would be given for, and the time up to which it counts them: sagas that are started later are not its
-- own.
-- name: count_for_order
SELECT (SELECT count(*) FROM skald.sagas_for_order(:action::text, :status::text, :definition::text, :scope::text,
                                                   t.now - coalesce(:older::bigint, 0) * interval '1 second',
                                                   :names::text[], :vals::text[])) AS sagas,
       skald.instant(t.now - coalesce(:older::bigint, 0) * interval '1 second') AS until
  FROM (SELECT clock_timestamp() AS now) AS t

-- Those sagas, the oldest first. If :is_sample, also why the command would be refused.
-- name: sagas_for_order
SELECT s.scope, s.key, s.definition, s.status::text AS status, skald.instant(s.created_at) AS created_at,
       extract(epoch FROM clock_timestamp() - s.created_at)::bigint AS age_seconds,
       CASE WHEN :is_sample::boolean THEN skald.refusal(:action::text, s) END AS refused
  FROM skald.sagas_for_order(:action::text, :status::text, :definition::text, :scope::text, :until::timestamptz,
                             :names::text[], :vals::text[]) AS s
 WHERE :after_time::timestamptz IS NULL
    OR (s.created_at >= :after_time::timestamptz
        AND (s.created_at, s.scope::text, s.key::text) > (:after_time::timestamptz, :after_scope::text, :after_key::text))
 ORDER BY s.created_at, s.scope, s.key LIMIT :rows_max::integer

-- name: request_control_of_many
SELECT skald.request_control_of_many(:action::text, :scopes::text[], :keys::text[], :reason::text, :requested_by::text,
                                     :act::bigint, :about::jsonb)::text AS answer

-- name: end_order
UPDATE skald.audit a SET detail = a.detail || jsonb_build_object('ended', true, 'busy', :busy::integer) WHERE a.id = :act::bigint
