-- Retention: how records of ended sagas are deleted without anything being expired too early. See docs/retention.md, and
-- docs/adr/0011-forgetting-is-asked-for.md for why it is done this way.
--
--   home                                              every other service on the plan
--   saga ended longer ago than the retention
-- --- skald.expire {scope, key, steps, ...} --->  recorded in skald.ended; purged when nothing holds it back
--     <-- skald.expired ---------------------------  its records are gone
-- when all have answered: purges its own records, together
--
-- The home goes last: until then the key stays taken, so that a new saga under it can't meet records of the old one.

-- A saga that its home has declared ended, and of whose steps this service may have records.
CREATE TABLE skald.ended (
    scope    skald.scope NOT NULL,
    key      skald.key   NOT NULL,
    home     text        NOT NULL,
    steps    text[]      NOT NULL,
    ended_at timestamptz NOT NULL,
    asked_at timestamptz NOT NULL,  -- by its home, which still had the saga then
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT ended_once PRIMARY KEY (scope, key, home)
);
CREATE INDEX ended_in_order ON skald.ended (noted_at);

-- What holds records back, whatever their age: a message that has not been sent, a delivery that waits for an operator. The key is also
-- read from the derived key, for messages that other languages enqueue. Reports about several sagas are sent in one message, which has the
-- key of one of them: all of them are busy until it is sent, or a service would expire a saga before its report has reached the home. This
-- reads the whole outbox, whatever is known of where its rows begin: a message missed here would find no record any more when it arrives,
-- and its step would run again.
CREATE VIEW skald.busy AS
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

-- The home's sagas that ended before `before`, and that the other services have not been asked to expire.
CREATE FUNCTION skald.sagas_to_ask_about(before timestamptz) RETURNS SETOF skald.saga
LANGUAGE sql STABLE
AS $$
    SELECT s.* FROM skald.saga s
     WHERE s.finished_at < before AND s.finished_at IS NOT NULL AND s.expiring IS NULL
       AND NOT EXISTS (SELECT FROM skald.busy b WHERE b.scope = s.scope AND b.key = s.key)
       -- All records of an ended saga are final. One that is not may still be claimed.
       AND NOT EXISTS (SELECT FROM skald.idempotency i
                        WHERE i.scope = s.scope AND i.key = s.key AND i.status IN ('started', 'unknown', 'retrying', 'parked')
                          AND skald.is_ours(i.home))
$$;

-- The home's sagas that every service has expired.
CREATE FUNCTION skald.sagas_to_collect() RETURNS SETOF skald.saga
LANGUAGE sql STABLE
AS $$
    SELECT s.* FROM skald.saga s
     WHERE s.expiring = '{}'
       AND NOT EXISTS (SELECT FROM skald.busy b WHERE b.scope = s.scope AND b.key = s.key)
$$;

-- Requests that were answered without starting a saga: they ended with that response.
CREATE FUNCTION skald.answers_to_collect(before timestamptz) RETURNS SETOF skald.response
LANGUAGE sql STABLE
AS $$
    SELECT r.* FROM skald.response r
     WHERE r.created_at < before
       AND NOT EXISTS (SELECT FROM skald.saga s WHERE s.scope = r.scope AND s.key = r.key)
       AND NOT EXISTS (SELECT FROM skald.busy b WHERE b.scope = r.scope AND b.key = r.key)
$$;

-- Sagas that homes have declared ended and that nothing here holds back. A later saga of the key can't begin before the home has deleted
-- this one, and so not before it asked: what was made earlier is this saga's, a step that ran late too, but for the clocks of two servers,
-- which are not half a day apart. What was made since may be a later saga's, and is not deleted; or this one's, whose home asks again in a
-- week. Until it is one or the other, there is no answer: a saga that the home starts under the key would meet it. (A home that was restored
-- from before it forgot the saga asks once more, and may mean a later one's: docs/repair.md, "A database from a backup".)
CREATE FUNCTION skald.ended_to_collect(before timestamptz) RETURNS SETOF skald.ended
LANGUAGE sql STABLE
AS $$
    SELECT e.* FROM skald.ended e
     WHERE NOT EXISTS (SELECT FROM skald.busy b WHERE b.scope = e.scope AND b.key = e.key)
       AND NOT EXISTS (SELECT FROM skald.idempotency i
                        WHERE i.scope = e.scope AND i.key = e.key
                          AND replace(i.step, '.compensate', '') = ANY (e.steps) AND coalesce(i.home = e.home, true)
                          AND (i.created_at >= e.asked_at - interval '12 hours'
                               OR i.updated_at >= before OR i.status IN ('started', 'unknown', 'retrying', 'parked')))
$$;

-- Records of messages whose outcome is decided, older than `before`, that nothing holds back. One that is `parked` is decided where nothing
-- is parked any more: somebody has deleted that by hand.
CREATE FUNCTION skald.messages_to_collect(before timestamptz) RETURNS SETOF skald.idempotency
LANGUAGE sql STABLE
AS $$
    SELECT i.* FROM skald.idempotency i
     WHERE i.home = '-' AND i.updated_at < before AND i.status NOT IN ('started', 'unknown', 'retrying')
       AND NOT EXISTS (SELECT FROM skald.busy b WHERE b.scope = i.scope AND b.key = i.key)
$$;

-- Deletes at most `batch_max` of them, with their replies. Returns how many messages there were, and rows.
CREATE FUNCTION skald.purge_messages(before timestamptz, batch_max integer, OUT messages integer, OUT records integer)
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    WITH found AS MATERIALIZED (
        SELECT m.scope, m.key, m.step FROM skald.messages_to_collect(before) m ORDER BY m.updated_at LIMIT batch_max),
    locked AS MATERIALIZED (
        SELECT i.scope, i.key, i.step FROM skald.idempotency i JOIN found f USING (scope, key, step)
         WHERE i.home = '-' FOR UPDATE OF i SKIP LOCKED),
    i AS (DELETE FROM skald.idempotency i USING locked l
           WHERE (i.scope, i.key, i.step) = (l.scope, l.key, l.step) RETURNING 1),
    r AS (DELETE FROM skald.reply r USING locked l WHERE (r.scope, r.key, r.handler) = (l.scope, l.key, l.step) RETURNING 1)
    SELECT (SELECT count(*) FROM i)::integer, ((SELECT count(*) FROM i) + (SELECT count(*) FROM r))::integer
$$;

-- Whether the relay is far behind: a message in the outbox takes precedence over the age of any record. Rows waiting there are counted from
-- `outbox_from` on: the caller knows that none is left before it. A row that is there all the same, because a clock was set back, postpones
-- nothing; it holds its saga's records back as any other row does. Rows that are due only later are no backlog, and need not be sent first;
-- but a purge reads all of them to see what they hold back, so there is a limit for them too.
CREATE FUNCTION skald.is_purge_postponed(outbox_from timestamptz DEFAULT '-infinity') RETURNS boolean
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT skald.outbox_is_over(10000, outbox_from, clock_timestamp()) OR skald.outbox_is_over(100000, outbox_from)
$$;

-- What a purge with that retention would find now, and whether it would be postponed all the same.
CREATE FUNCTION skald.purgeable(older_than interval)
RETURNS TABLE (asked bigint, sagas bigint, answers bigint, expired bigint, postponed boolean)
LANGUAGE sql
AS $$
    WITH t AS (SELECT clock_timestamp() - older_than AS before)
    SELECT (SELECT count(*) FROM skald.sagas_to_ask_about(t.before)),
           (SELECT count(*) FROM skald.sagas_to_collect()),
           (SELECT count(*) FROM skald.answers_to_collect(t.before)) + (SELECT count(*) FROM skald.messages_to_collect(t.before)),
           (SELECT count(*) FROM skald.ended_to_collect(t.before)),
           skald.is_purge_postponed()
      FROM t
$$;

-- Tells the services of the sagas' itineraries, in messages of a bounded size.
CREATE FUNCTION skald.ask_to_forget(sagas skald.saga[]) RETURNS void
LANGUAGE sql
AS $$
    SELECT skald.enqueue(m.service, 'skald.expire', m.id, convert_to(m.members::text, 'UTF8'),
                         jsonb_build_object('x-idempotency-key', m.id), aggregatetype => 'skald.expire')
      FROM (SELECT n.service, 'skald.expire.' || gen_random_uuid() AS id, jsonb_agg(n.member) AS members
              FROM (SELECT p.service,
                           jsonb_build_object('scope', s.scope, 'key', s.key, 'ended_at', s.finished_at, 'asked_at', s.asked_at,
                                              'home', (SELECT name FROM skald.service),
                                              'steps', jsonb_agg(p.step)) AS member,
                           row_number() OVER (PARTITION BY p.service) / 100 AS part
                      FROM unnest(sagas) AS s, skald.itinerary_steps(s.itinerary) AS p
                     WHERE p.service = ANY (s.expiring)
                     GROUP BY s.scope, s.key, s.finished_at, s.asked_at, p.service) n
             GROUP BY n.service, n.part) m
$$;

-- One batch of work, in the caller's transaction: at most `batch_max` of each kind; what others have locked is left for the next batch. All
-- zero: nothing is left to do now. `postponed`: nothing was looked at.
CREATE FUNCTION skald.purge(
    older_than interval, batch_max integer, outbox_from timestamptz DEFAULT '-infinity',
    OUT asked integer, OUT sagas integer, OUT answers integer, OUT expired integer, OUT records integer,
    OUT postponed boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- A table full of dead rows is so large that even a statement that finds nothing looks worth compiling.
SET jit = off
AS $$
DECLARE
    before timestamptz := clock_timestamp() - older_than;
    gone   integer;
    met    skald.saga[];
    again  skald.saga[];
BEGIN
    IF older_than < interval '1 day' OR older_than IS NULL THEN
        RAISE EXCEPTION 'a retention of % is too short', older_than
              USING ERRCODE = 'invalid_parameter_value',
                    HINT = 'Records are kept for a day at least: a message that comes again must still meet them.';
    END IF;
    IF batch_max NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'a batch is 1 to 1000 sagas, and not %', batch_max USING ERRCODE = 'invalid_parameter_value';
    END IF;
    asked := 0; sagas := 0; answers := 0; expired := 0; records := 0;
    postponed := skald.is_purge_postponed(outbox_from);
    IF postponed THEN RETURN; END IF;

    -- The home asks. A saga that ran only here waits for no other service.
    WITH found AS MATERIALIZED (
        SELECT f.scope, f.key FROM skald.sagas_to_ask_about(before) f ORDER BY f.finished_at LIMIT batch_max),
    locked AS MATERIALIZED (
        SELECT s.scope, s.key FROM skald.saga s JOIN found f ON f.scope = s.scope AND f.key = s.key
         WHERE s.expiring IS NULL
           FOR UPDATE OF s SKIP LOCKED),
    changed AS (
        UPDATE skald.saga s
           SET asked_at = clock_timestamp(),
               expiring = ARRAY(SELECT DISTINCT p.service FROM skald.itinerary_steps(s.itinerary) p
                                   WHERE p.service <> (SELECT name FROM skald.service) ORDER BY 1)
          FROM locked l WHERE s.scope = l.scope AND s.key = l.key
        RETURNING s)
    SELECT array_agg(c.s) INTO met FROM changed c;

    -- A service that has not answered for a week is asked again: the message may have been parked, or dropped.
    WITH locked AS MATERIALIZED (
        SELECT s.scope, s.key FROM skald.saga s
         WHERE s.expiring <> '{}' AND s.asked_at < clock_timestamp() - interval '7 days'
         ORDER BY s.asked_at LIMIT batch_max
           FOR UPDATE OF s SKIP LOCKED),
    changed AS (
        UPDATE skald.saga s SET asked_at = clock_timestamp()
          FROM locked l WHERE s.scope = l.scope AND s.key = l.key
        RETURNING s)
    SELECT array_agg(c.s) INTO again FROM changed c;
    asked := coalesce(cardinality(met), 0) + coalesce(cardinality(again), 0);
    IF asked > 0 THEN PERFORM skald.ask_to_forget(coalesce(met, '{}') || coalesce(again, '{}')); END IF;

    -- The home deletes what every service has expired.
    WITH found AS MATERIALIZED (
        SELECT f.scope, f.key FROM skald.sagas_to_collect() f ORDER BY f.finished_at LIMIT batch_max),
    locked AS MATERIALIZED (
        SELECT s.scope, s.key FROM skald.saga s JOIN found f ON f.scope = s.scope AND f.key = s.key
         WHERE s.expiring = '{}'
           FOR UPDATE OF s SKIP LOCKED),
    s AS (DELETE FROM skald.saga s USING locked l WHERE s.scope = l.scope AND s.key = l.key
          RETURNING s.scope, s.key, s.itinerary),
    i AS (DELETE FROM skald.idempotency i USING s
           WHERE i.scope = s.scope AND i.key = s.key AND skald.is_ours(i.home)
             AND (i.step = '' OR replace(i.step, '.compensate', '') IN (SELECT p.step FROM skald.itinerary_steps(s.itinerary) p))
          RETURNING 1),
    r AS (DELETE FROM skald.response r USING s WHERE r.scope = s.scope AND r.key = s.key RETURNING 1),
    p AS (DELETE FROM skald.progress p USING s WHERE p.scope = s.scope AND p.key = s.key RETURNING 1),
    c AS (DELETE FROM skald.control c USING s WHERE c.scope = s.scope AND c.key = s.key AND skald.is_ours(c.home)
          RETURNING 1),
    g AS (DELETE FROM skald.signal g USING s WHERE g.scope = s.scope AND g.key = s.key RETURNING 1),
    a AS (DELETE FROM skald.attribute a USING s WHERE a.scope = s.scope AND a.key = s.key RETURNING 1)
    SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM s) + (SELECT count(*) FROM i) + (SELECT count(*) FROM r) +
           (SELECT count(*) FROM p) + (SELECT count(*) FROM c)
      INTO sagas, records;

    WITH found AS MATERIALIZED (
        SELECT f.scope, f.key FROM skald.answers_to_collect(before) f ORDER BY f.created_at LIMIT batch_max),
    r AS (DELETE FROM skald.response r USING found f WHERE r.scope = f.scope AND r.key = f.key
          RETURNING r.scope, r.key),
    i AS (DELETE FROM skald.idempotency i USING r WHERE i.scope = r.scope AND i.key = r.key AND i.step = '' RETURNING 1)
    SELECT (SELECT count(*) FROM r), (SELECT count(*) FROM r) + (SELECT count(*) FROM i) INTO answers, gone;
    records := records + gone;

    -- What holds them back is read only if there are any: that reads the whole outbox.
    IF EXISTS (SELECT FROM skald.idempotency i
                WHERE i.home = '-' AND i.updated_at < before AND i.status NOT IN ('started', 'unknown', 'retrying')) THEN
        SELECT answers + m.messages, purge.records + m.records INTO answers, records
          FROM skald.purge_messages(before, batch_max) AS m;
    END IF;

    -- Sagas of other services: this service's records of them, and the answer to their home.
    WITH found AS MATERIALIZED (
        SELECT f.scope, f.key, f.home FROM skald.ended_to_collect(before) f ORDER BY f.noted_at LIMIT batch_max),
    locked AS MATERIALIZED (
        SELECT e.scope, e.key, e.home FROM skald.ended e
          JOIN found f ON f.scope = e.scope AND f.key = e.key AND f.home = e.home
           FOR UPDATE OF e SKIP LOCKED),
    e AS (DELETE FROM skald.ended e USING locked l WHERE e.scope = l.scope AND e.key = l.key AND e.home = l.home
          RETURNING e.*),
    i AS (DELETE FROM skald.idempotency i USING e
           WHERE i.scope = e.scope AND i.key = e.key AND replace(i.step, '.compensate', '') = ANY (e.steps)
             AND coalesce(i.home = e.home, true) AND i.created_at < e.asked_at - interval '12 hours'
          RETURNING 1),
    c AS (DELETE FROM skald.control c USING e
           WHERE c.scope = e.scope AND c.key = e.key AND c.home = e.home
             AND c.requested_at < e.asked_at - interval '12 hours'
          RETURNING 1),
    g AS (DELETE FROM skald.signal g USING e
           WHERE g.scope = e.scope AND g.key = e.key AND g.step = ANY (e.steps) AND g.received_at < e.asked_at - interval '12 hours'
          RETURNING 1),
    answer AS (
        SELECT n.home, 'skald.expired.' || gen_random_uuid() AS id, jsonb_agg(n.member) AS members
          FROM (SELECT e.home, row_number() OVER (PARTITION BY e.home) / 100 AS part,
                       jsonb_build_object('scope', e.scope, 'key', e.key, 'ended_at', e.ended_at,
                                          'service', (SELECT name FROM skald.service)) AS member
                  FROM e) n
         GROUP BY n.home, n.part),
    told AS (
        SELECT skald.enqueue(a.home, 'skald.expired', a.id, convert_to(a.members::text, 'UTF8'),
                             jsonb_build_object('x-idempotency-key', a.id), aggregatetype => 'skald.expire')
          FROM answer a)
    SELECT (SELECT count(*) FROM e), (SELECT count(*) FROM i) + (SELECT count(*) FROM c) + 0 * (SELECT count(*) FROM told)
      INTO expired, gone;
    records := records + gone;
    IF records > 0 THEN
        UPDATE skald.service SET forgot_before = before WHERE forgot_before < before - interval '1 hour' OR forgot_before IS NULL;
    END IF;
END $$;

-- Records that sagas of another home have ended: members are {scope, key, home, steps, ended_at, asked_at}. Without the last it was asked
-- when the shortest retention had passed, at the earliest.
CREATE FUNCTION skald.record_ended(members jsonb) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO skald.ended (scope, key, home, steps, ended_at, asked_at)
    SELECT DISTINCT ON (m.scope, m.key, m.home) m.scope, m.key, m.home, m.steps, m.ended_at, a.asked_at
      FROM jsonb_to_recordset(members)
        AS m(scope text, key text, home text, steps text[], ended_at timestamptz, asked_at timestamptz)
     CROSS JOIN LATERAL (SELECT coalesce(m.asked_at, m.ended_at + interval '1 day')) AS a(asked_at)
     ORDER BY m.scope, m.key, m.home, m.ended_at DESC, a.asked_at DESC
    ON CONFLICT ON CONSTRAINT ended_once DO UPDATE
       SET steps = excluded.steps, ended_at = excluded.ended_at, asked_at = excluded.asked_at
     WHERE (excluded.ended_at, excluded.asked_at) > (ended.ended_at, ended.asked_at);
$$;

-- Records that a service has expired sagas of this home: members are {scope, key, service, ended_at}. The time distinguishes an answer
-- about this saga from a late one about an earlier saga of the same key.
CREATE FUNCTION skald.record_expired(members jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    IF EXISTS (SELECT FROM jsonb_to_recordset(members) AS m(scope text, key text, service text, ended_at timestamptz)
                WHERE m.scope IS NULL OR m.key IS NULL OR m.service IS NULL OR m.ended_at IS NULL) THEN
        RAISE EXCEPTION 'a member of skald.expired has scope, key, service and ended_at'
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM FROM (SELECT m.scope, m.key
                    FROM jsonb_to_recordset(members) AS m(scope text COLLATE "C", key text COLLATE "C") ORDER BY 1, 2) AS m
      CROSS JOIN LATERAL (SELECT FROM skald.saga s WHERE s.scope = m.scope AND s.key = m.key FOR NO KEY UPDATE) AS locked;
    UPDATE skald.saga s SET expiring = array_remove(s.expiring, m.service)
      FROM jsonb_to_recordset(members) AS m(scope text, key text, service text, ended_at timestamptz)
     WHERE s.scope = m.scope AND s.key = m.key AND s.finished_at = m.ended_at AND m.service = ANY (s.expiring);
END $$;
