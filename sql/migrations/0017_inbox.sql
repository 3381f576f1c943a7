-- Messages without a broker (docs/transports.md): other services' relays write into the inbox of this database, and this service's
-- processes take them from it. At least once, as from any broker: the guard absorbs what comes twice.

-- What may be sent here: the service itself, and each of its message handlers as `payments.on.payment-created`.
CREATE TABLE skald.queue (
    name        text        COLLATE "C" NOT NULL,
    declared_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT queue_once PRIMARY KEY (name),
    CONSTRAINT queue_name_is_at_most_255_bytes CHECK (octet_length(name) BETWEEN 1 AND 255)
);

-- What else goes to them: to each that is bound, as by an exchange. A key that is a service's name, or that of one of its handlers, reaches
-- that service's database alone.
CREATE TABLE skald.binding (
    routing_key text COLLATE "C" NOT NULL,
    queue       text COLLATE "C" NOT NULL,
    CONSTRAINT binding_once PRIMARY KEY (routing_key, queue)
);

-- A process that takes messages. It holds the advisory lock of its id for as long as its session lives, so that whoever finds the lock free
-- knows that it is gone; `seen_at` tells of one that hangs. `queues`: what it takes from.
CREATE TABLE skald.consumer (
    id       bigint      GENERATED ALWAYS AS IDENTITY,
    seen_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    is_of    text        NOT NULL,
    queues   text[]      NOT NULL,
    CONSTRAINT consumer_once PRIMARY KEY (id)
);

-- `consumer`: who has it, NULL if nobody. `returns`: how often somebody had it and did not finish. The one index has none of the columns
-- that change, so that marking a row as taken writes no index (with room on its page for the new version).
CREATE TABLE skald.inbox (
    queue        text        COLLATE "C" NOT NULL,
    id           bigint      GENERATED ALWAYS AS IDENTITY,
    consumer     bigint,
    returns      integer     NOT NULL DEFAULT 0,
    arrived_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    message_id   text        NOT NULL,
    type         text        NOT NULL,
    content_type text        NOT NULL,
    headers      json        NOT NULL,
    body         bytea       NOT NULL,
    CONSTRAINT inbox_once PRIMARY KEY (queue, id),
    CONSTRAINT returns_count_up CHECK (returns >= 0),
    CONSTRAINT body_is_at_most_16_mib CHECK (octet_length(body) <= 16777216)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Puts messages into the inbox, and returns those of the destinations that nothing here is for: their messages are not taken. The arrays are
-- of equal length; `headers` are JSON arrays of pairs. Where each goes is in two places below, since a function of its own would be called
-- for each row.
CREATE FUNCTION skald.deliver(destinations text[], message_ids text[], types text[], content_types text[], headers text[], bodies bytea[])
RETURNS text[]
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    missing text[];
    wanted  bigint;
    written bigint;
BEGIN
    SELECT array_agg(d.name) FILTER (WHERE q.queues = 0), sum(d.messages * q.queues) INTO missing, wanted
      FROM (SELECT name, count(*) AS messages FROM unnest(destinations) AS name GROUP BY name) AS d
     CROSS JOIN LATERAL (SELECT (SELECT count(*) FROM skald.queue k WHERE k.name = d.name)
                              + (SELECT count(*) FROM skald.binding b WHERE b.routing_key = d.name) AS queues) AS q;
    IF wanted > 0 THEN
        INSERT INTO skald.inbox (queue, message_id, type, content_type, headers, body)
        SELECT q.queue, m.message_id, m.type, m.content_type, m.header_list::json, m.body
          FROM unnest(destinations, message_ids, types, content_types, headers, bodies)
               WITH ORDINALITY AS m(destination, message_id, type, content_type, header_list, body, place)
         CROSS JOIN LATERAL (SELECT k.name FROM skald.queue k WHERE k.name = m.destination
                              UNION ALL
                             SELECT b.queue FROM skald.binding b WHERE b.routing_key = m.destination) AS q(queue)
         ORDER BY m.place;
        GET DIAGNOSTICS written = ROW_COUNT;
        IF written <> wanted THEN PERFORM skald.assert_written('skald.inbox', wanted, written); END IF;
        PERFORM pg_notify('skald_inbox', '');
    END IF;
    RETURN coalesce(missing, '{}');
END $$;
