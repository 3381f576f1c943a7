-- Users' own messages that no queue is bound for. They are moved here, by destination, until there is a queue: in the outbox they would be
-- retried indefinitely, count towards the backlog for which new requests are refused, and defer purges.

-- The outbox rows that were kept.
CREATE TABLE skald.unrouted (LIKE skald.outbox INCLUDING STORAGE);
ALTER TABLE skald.unrouted ADD CONSTRAINT unrouted_id PRIMARY KEY (id);
CREATE INDEX unrouted_by_destination ON skald.unrouted (destination, id);

-- A destination without a queue, from the first message that came back until one has gone through.
CREATE TABLE skald.unrouted_destination (
    destination text COLLATE "C" NOT NULL,
    since       timestamptz      NOT NULL DEFAULT clock_timestamp(),
    returned_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    error       text             NOT NULL,
    dropped     bigint           NOT NULL DEFAULT 0,
    -- One of the kept messages is sent now and then as a probe: its row in the outbox, and when the next one is sent.
    probe       bigint,
    probed_at   timestamptz,
    probe_at    timestamptz      NOT NULL DEFAULT clock_timestamp() + interval '15 seconds',
    CONSTRAINT unrouted_destination_once PRIMARY KEY (destination)
);

-- Takes rows that came back out of the outbox. The newest 10,000 of each destination are kept. A reply whose queue is gone leaves no trace:
-- nobody can bind one, and whoever asks again is answered.
CREATE FUNCTION skald.move_to_unrouted(ids bigint[], errors text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        WITH gone AS (
            DELETE FROM skald.outbox o USING unnest(ids, errors) AS a(id, error) WHERE o.id = a.id
            RETURNING o.*, a.error AS new_error),
        kept AS (
            INSERT INTO skald.unrouted
                (id, aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination,
                 due_at, attempts, error, created_at, if_unrouted)
            SELECT id, aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination,
                   due_at, least(attempts, 2000000000) + 1, new_error, created_at, if_unrouted
              FROM gone WHERE if_unrouted = 'keep')
        SELECT g.destination, max(g.new_error) AS error, count(*) FILTER (WHERE g.if_unrouted = 'drop') AS dropped
          FROM gone g WHERE NOT (g.if_unrouted = 'drop' AND g.headers ? 'skald-exchange') GROUP BY 1 ORDER BY 1
    LOOP
        INSERT INTO skald.unrouted_destination AS d (destination, error, dropped)
        VALUES (one.destination, one.error, one.dropped)
        ON CONFLICT (destination) DO UPDATE
           SET returned_at = clock_timestamp(), error = excluded.error, dropped = d.dropped + excluded.dropped;
        WITH oldest AS (
            DELETE FROM skald.unrouted u
             WHERE u.id = ANY (ARRAY (SELECT n.id FROM skald.unrouted n WHERE n.destination = one.destination
                                       ORDER BY n.id DESC OFFSET 10000))
            RETURNING 1)
        UPDATE skald.unrouted_destination d SET dropped = d.dropped + o.count
          FROM (SELECT count(*) FROM oldest) AS o
         WHERE d.destination = one.destination AND o.count > 0;
    END LOOP;
END $$;

-- Puts one message of each such destination back into the outbox now and then; once it has gone through, the others follow, 500 at a time.
-- Returns the destinations that have a queue again and no messages left in skald.unrouted.
CREATE FUNCTION skald.retry_unrouted() RETURNS SETOF text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    d         skald.unrouted_destination;
    is_routed boolean;
    last      bigint;
BEGIN
    FOR d IN SELECT * FROM skald.unrouted_destination WHERE probe_at <= clock_timestamp() ORDER BY destination
                FOR UPDATE SKIP LOCKED
    LOOP
        IF EXISTS (SELECT FROM skald.outbox WHERE id = d.probe) THEN
            -- The broker has not answered yet.
            UPDATE skald.unrouted_destination SET probe_at = clock_timestamp() + interval '1 second'
             WHERE destination = d.destination;
            CONTINUE;
        END IF;
        is_routed := d.probe IS NOT NULL AND d.returned_at < d.probed_at;
        WITH taken AS (
            DELETE FROM skald.unrouted u
             WHERE u.id = ANY (ARRAY (SELECT n.id FROM skald.unrouted n WHERE n.destination = d.destination
                                       ORDER BY n.id LIMIT CASE WHEN is_routed THEN 500 ELSE 1 END))
            RETURNING u.*),
        again AS (
            INSERT INTO skald.outbox
                (aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination,
                 attempts, error, created_at, if_unrouted)
            SELECT aggregatetype, aggregateid, type, payload, scope, idempotency_key, headers, content_type, destination,
                   attempts, error, created_at, if_unrouted
              FROM taken ORDER BY id
            RETURNING id)
        SELECT max(a.id) INTO last FROM again a, skald.assert_written('skald.outbox', (SELECT count(*) FROM taken),
                                                                     (SELECT count(*) FROM again));
        IF last IS NOT NULL THEN
            UPDATE skald.unrouted_destination
               SET probe = last, probed_at = clock_timestamp(),
                   probe_at = clock_timestamp() + CASE WHEN is_routed THEN interval '1 second' ELSE interval '15 seconds' END
             WHERE destination = d.destination;
        ELSIF is_routed THEN
            DELETE FROM skald.unrouted_destination WHERE destination = d.destination;
            RETURN NEXT d.destination;
        ELSIF d.returned_at < clock_timestamp() - interval '1 hour' THEN
            DELETE FROM skald.unrouted_destination WHERE destination = d.destination;  -- all were dropped, long ago
        ELSE
            UPDATE skald.unrouted_destination SET probe_at = clock_timestamp() + interval '15 seconds'
             WHERE destination = d.destination;
        END IF;
    END LOOP;
END $$;
