-- Skald's tables: one set in the database of every service. No table references a user's table. What each column means to other programs is
-- in docs/protocol.md; the invariants are here, each with a name.

CREATE SCHEMA IF NOT EXISTS skald;

CREATE TYPE skald.step_status AS ENUM ('completed', 'started', 'retrying', 'rejected', 'parked', 'cancelled', 'unknown');
CREATE TYPE skald.saga_status AS ENUM ('running', 'compensating', 'completed', 'compensated', 'stuck', 'unknown');

-- Fails unless as many rows were written as were to be. A trigger that returns NULL, or a policy, swallows a row without an error: a message
-- would be gone, or a step would run twice.
CREATE FUNCTION skald.assert_written(into_table text, wanted bigint, written bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF written <> wanted THEN
        RAISE EXCEPTION '% took % of % rows: a trigger, a rule or a policy that is not Skald''s is on it', into_table, written, wanted
              USING HINT = '`skald doctor` names it.';
    END IF;
END $$;

-- The three parts of an identity, checked wherever they are stored. The regular expressions have no bounded repetition, which is what
-- PostgreSQL's engine is slowest at: two such checks took 40 µs for each row, ten times what the insert itself takes.
CREATE DOMAIN skald.scope AS text COLLATE "C"
    CONSTRAINT scope_is_at_most_64_bytes CHECK (octet_length(VALUE) <= 64);
CREATE DOMAIN skald.key AS text COLLATE "C"
    CONSTRAINT key_is_1_to_180_bytes_of_printable_ascii
    CHECK (octet_length(VALUE) BETWEEN 1 AND 180 AND VALUE !~ '[^\x20-\x7e]');
CREATE DOMAIN skald.step AS text COLLATE "C"
    CONSTRAINT step_is_a_name_with_an_optional_compensate
    CHECK (VALUE = '' OR (octet_length(split_part(VALUE, '.', 1)) <= 48
                          AND VALUE ~ '^[a-z][a-z0-9-]*(\.compensate)?$'));

-- What happened to (scope, key, step): both the guard's record and the saga's history. The row of a step is inserted as `completed` in the
-- step's own transaction: no one can see it before COMMIT, so writing the row a second time would be a waste. Step '' is the request that
-- started the saga. `home` is the service whose saga it is, NULL where it is not known: two homes that start sagas under one key share a
-- single record, and the second is refused. A message that belongs to no saga has the home `-`, and its handler's name as the step.
CREATE TABLE skald.idempotency (
    scope       skald.scope       NOT NULL,
    key         skald.key         NOT NULL,
    step        skald.step        NOT NULL,
    status      skald.step_status NOT NULL DEFAULT 'completed',
    attempts    integer           NOT NULL DEFAULT 1,
    snoozes     integer           NOT NULL DEFAULT 0,
    fingerprint bytea,
    error       text,
    created_at  timestamptz       NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz       NOT NULL DEFAULT clock_timestamp(),
    home        text COLLATE "C",
    CONSTRAINT idempotency_once PRIMARY KEY (scope, key, step),
    CONSTRAINT fingerprint_is_sha256 CHECK (octet_length(fingerprint) = 32),
    CONSTRAINT attempts_and_snoozes_count_up CHECK (attempts >= 0 AND snoozes >= 0)
);

-- Messages of no saga are purged by their age: no home says when.
CREATE INDEX idempotency_of_messages ON skald.idempotency (updated_at) WHERE home = '-';

-- The stored response to an entry request, byte for byte. bytea, because a response need not be JSON, or even text.
CREATE TABLE skald.response (
    scope        skald.scope NOT NULL,
    key          skald.key   NOT NULL,
    status_code  smallint    NOT NULL,
    content_type text        NOT NULL DEFAULT '',
    headers      jsonb       NOT NULL DEFAULT '{}',
    body         bytea       NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    kept         text,       -- the reference to a body that is too large for this row (0016_bodies.sql)
    CONSTRAINT response_once PRIMARY KEY (scope, key),
    CONSTRAINT only_answers_that_are_an_outcome_are_stored CHECK (status_code BETWEEN 200 AND 499)
);
-- Responses are written in order of time: a summary of each range of pages is enough, and adds nothing to the cost of an insert.
CREATE INDEX response_by_age ON skald.response USING brin (created_at) WITH (pages_per_range = 32, autosummarize = on);

-- The reply of a message handler, byte for byte, for whoever sends the same message again.
CREATE TABLE skald.reply (
    scope   skald.scope NOT NULL,
    key     skald.key   NOT NULL,
    handler skald.step  NOT NULL,
    body    bytea       NOT NULL,
    kept    text,       -- the reference to one that is too large for this row (0016_bodies.sql)
    CONSTRAINT reply_once PRIMARY KEY (scope, key, handler)
);

-- Identifies this place: the server, the database and its table skald.service. It differs in a copy of the database and after a restore
-- from a dump; it is the same after a failover, and in a copy of the server's files.
CREATE FUNCTION skald.place() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    server text := '';
BEGIN
    BEGIN
        server := (SELECT system_identifier FROM pg_control_system());
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN  -- the other two still identify it
    END;
    RETURN format('%s/%s/%s', server, (SELECT oid FROM pg_database WHERE datname = current_database()),
                  to_regclass('skald.service')::oid);
END $$;

-- Which service owns this database: one row. Sagas started here have it as their home, and two services in one database would take each
-- other's records for their own. `id` distinguishes this database from every other: the service's queue is bound to it, so that a process
-- with a wrong DATABASE_URL takes nothing from the queue. A copy has the same `id`, but not the same `place`: no worker starts in it before
-- an operator has said that it may (docs/adr/0028-a-copy-is-not-the-database.md).
CREATE TABLE skald.service (
    only_one boolean NOT NULL DEFAULT true,
    name     text    NOT NULL,
    id       uuid    NOT NULL DEFAULT gen_random_uuid(),
    place    text    NOT NULL DEFAULT skald.place(),
    epoch    bigint  NOT NULL DEFAULT 1,
    forgot_before timestamptz,  -- records of what ended before were deleted, to the hour: what comes again from then would run again
    CONSTRAINT one_service_owns_a_database PRIMARY KEY (only_one),
    CONSTRAINT only_one_is_true CHECK (only_one)
);

-- A copy of a stored response, kept somewhere else, is good while this is the same. It changes with a failover and with a restore to a point
-- in time (the timeline), with another database, and with skald.begin_epoch(). Where the server does not say its timeline, it is NULL, and a
-- failover is not noticed. The timeline is the log's own, at once after a promotion: pg_control_checkpoint() has the old one until the next
-- checkpoint ends.
CREATE FUNCTION skald.epoch() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    timeline text;
BEGIN
    BEGIN
        timeline := left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported THEN
        RETURN NULL;
    END;
    RETURN (SELECT concat(s.id, '/', s.place, '/', timeline, '/', s.epoch) FROM skald.service s);
END $$;

-- To be called in the transaction that deletes or changes a stored response by hand, and after a restore that changes nothing else of the
-- epoch: a process that has a copy drops it at the next claim that it makes after COMMIT. Random, since a number that counts would come back
-- after a restore. The purge need not call it: a response that it deletes is a day old at least, and no process keeps a copy for so long.
CREATE FUNCTION skald.begin_epoch() RETURNS bigint
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE skald.service SET epoch = ('x' || left(replace(gen_random_uuid()::text, '-', ''), 15))::bit(60)::bigint
    RETURNING epoch
$$;

-- A saga, in the database of the service that started it: its home.
CREATE TABLE skald.saga (
    scope       skald.scope       NOT NULL,
    key         skald.key         NOT NULL,
    definition  text COLLATE "C"  NOT NULL,
    version     integer           NOT NULL DEFAULT 1,
    status      skald.saga_status NOT NULL DEFAULT 'running',
    reason      text,
    data        jsonb             NOT NULL,
    itinerary   text              NOT NULL,
    created_at  timestamptz       NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz       NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    deadline_at timestamptz,
    expiring  text[],       -- NULL before the other services were asked to expire it; then those that have not answered yet
    asked_at    timestamptz,
    kept        text,       -- the reference to data that is too large for this row (0016_bodies.sql)
    CONSTRAINT saga_once PRIMARY KEY (scope, key),
    CONSTRAINT finished_exactly_in_final_states
        CHECK ((finished_at IS NOT NULL) = (status IN ('completed', 'compensated'))),
    CONSTRAINT only_what_has_ended_expires CHECK (expiring IS NULL OR finished_at IS NOT NULL)
);
-- Operators list the sagas that have not ended; there are few of them.
CREATE INDEX saga_not_ended ON skald.saga (created_at) WHERE status IN ('running', 'compensating', 'stuck', 'unknown');
CREATE INDEX saga_ended ON skald.saga (finished_at) WHERE finished_at IS NOT NULL AND expiring IS NULL;
CREATE INDEX saga_expiring ON skald.saga (asked_at) WHERE expiring <> '{}';
CREATE INDEX saga_expired ON skald.saga (finished_at) WHERE expiring = '{}';

-- What headers take on the wire, as framework/src/transports/message_limits.cpp counts it.
CREATE FUNCTION skald.header_bytes(headers jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(sum(octet_length(h.key) + coalesce(octet_length(h.value), 0) + 6), 0)::bigint FROM jsonb_each_text(headers) AS h
$$;

-- A message that the broker has not confirmed yet. Rows are inserted and deleted, never updated: an update would leave a dead row behind
-- for every poll to walk over. A row that could not be sent is deleted and inserted again in one transaction, with the reason and a later
-- due_at.
CREATE TABLE skald.outbox (
    id              bigint GENERATED ALWAYS AS IDENTITY,
    aggregatetype   text        NOT NULL,
    aggregateid     text        NOT NULL,
    type            text        NOT NULL,
    payload         bytea       NOT NULL,
    scope           skald.scope NOT NULL DEFAULT '',
    idempotency_key text        NOT NULL,
    headers         jsonb       NOT NULL DEFAULT '{}',
    content_type    text        NOT NULL DEFAULT 'application/json',
    destination     text        NOT NULL,
    due_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts        integer     NOT NULL DEFAULT 0,
    error           text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What happens to it if no queue is bound for its destination: `keep` or `drop`. NULL: it is for a service, whose worker creates the
    -- queue; until then it waits here.
    if_unrouted     text,
    CONSTRAINT outbox_id PRIMARY KEY (id),
    -- What AMQP can't carry must not get this far: its short strings end at 255 bytes.
    CONSTRAINT idempotency_key_fits_a_message_id CHECK (octet_length(idempotency_key) BETWEEN 1 AND 255),
    CONSTRAINT type_fits_the_wire CHECK (octet_length(type) BETWEEN 1 AND 255),
    CONSTRAINT destination_fits_a_routing_key CHECK (octet_length(destination) BETWEEN 1 AND 255),
    CONSTRAINT content_type_fits_the_wire CHECK (octet_length(content_type) <= 255),
    CONSTRAINT payload_is_at_most_1_mib CHECK (octet_length(payload) <= 1048576),
    -- What framework/src/transports/message_limits.cpp lets out, with the signature that a relay adds; and so whatever a message handler may
    -- get, with what Skald adds when it sends that again. They are counted where they could be too large only.
    CONSTRAINT headers_are_an_object_that_can_be_sent
        CHECK (CASE WHEN jsonb_typeof(headers) <> 'object' THEN false
                    WHEN octet_length(headers::text) <= 65536 THEN true
                    ELSE skald.header_bytes(headers) + octet_length(idempotency_key) + octet_length(type) + octet_length(content_type)
                         <= 128927 END),
    CONSTRAINT if_unrouted_is_known CHECK (if_unrouted IN ('keep', 'drop'))
);
-- Without the id: while a snapshot is held the table is full of dead rows and counts as empty, all plans cost the same, and a row is then
-- looked for by its id in the whole of any index that has it.
CREATE INDEX outbox_due ON skald.outbox (due_at);
-- Rows come and go all day; the table must stay small whatever autovacuum's defaults are.
ALTER TABLE skald.outbox SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
                              autovacuum_vacuum_cost_delay = 0);

-- What the home knows about a step that ran elsewhere.
CREATE TABLE skald.progress (
    scope    skald.scope       NOT NULL,
    key      skald.key         NOT NULL,
    step     skald.step        NOT NULL,
    service  text              NOT NULL,
    status   skald.step_status NOT NULL,
    attempts integer           NOT NULL,
    error    text,
    at       timestamptz       NOT NULL,
    CONSTRAINT progress_once PRIMARY KEY (scope, key, step),
    CONSTRAINT attempts_are_counted CHECK (attempts >= 0),
    -- A time outside this range has no text form that could be shown.
    CONSTRAINT at_is_between_years_1_and_9999 CHECK (at >= '0001-01-02' AND at < '9999-12-31')
);

-- The latest command of a home for one of its sagas, read by every claim in this database.
CREATE TABLE skald.control (
    scope        skald.scope      NOT NULL,
    key          skald.key        NOT NULL,
    home         text COLLATE "C" NOT NULL,
    action       text             NOT NULL,
    reason       text,
    requested_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
    requested_by text             NOT NULL DEFAULT session_user,
    CONSTRAINT control_once PRIMARY KEY (scope, key, home),
    CONSTRAINT action_is_known CHECK (action IN ('pause', 'resume', 'cancel', 'close'))
);

-- Every repair leaves a row here, in its own transaction.
CREATE TABLE skald.audit (
    id       bigint GENERATED ALWAYS AS IDENTITY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor    text        NOT NULL,
    verb     text        NOT NULL,
    scope    text        NOT NULL DEFAULT '',
    key      text        NOT NULL DEFAULT '',
    detail   jsonb       NOT NULL DEFAULT '{}',
    command_id uuid,
    CONSTRAINT audit_id PRIMARY KEY (id),
    -- A command that arrives again, as any message may, has already been taken.
    CONSTRAINT command_taken_once UNIQUE (command_id)
);
CREATE INDEX audit_of_a_saga ON skald.audit (scope, key);
-- Without what each saga of an order for many was told: that may be a million rows behind each other.
CREATE INDEX audit_by_hand ON skald.audit (at) WHERE NOT detail ? 'act';

-- A delivery that Skald parked, as it came. Its identity is text as received, since that may be what was wrong with it.
CREATE TABLE skald.parked (
    id           bigint GENERATED ALWAYS AS IDENTITY,
    scope        text        NOT NULL DEFAULT '',
    key          text        NOT NULL DEFAULT '',
    step         text        NOT NULL DEFAULT '',
    reason       text        NOT NULL,
    error        text        NOT NULL DEFAULT '',
    message_id   text        NOT NULL DEFAULT '',
    type         text        NOT NULL DEFAULT '',
    content_type text        NOT NULL DEFAULT '',
    body         bytea       NOT NULL,
    headers      jsonb       NOT NULL DEFAULT '{}',
    attempts     integer     NOT NULL DEFAULT 0,
    fingerprint  bytea       NOT NULL,
    parked_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The message handler that it was for; '': it is a saga's.
    handler      text        NOT NULL DEFAULT '',
    CONSTRAINT parked_id PRIMARY KEY (id),
    -- A delivery that comes again while it is parked is still a single parked delivery.
    CONSTRAINT parked_once UNIQUE (fingerprint, reason, handler),
    CONSTRAINT fingerprint_is_sha256 CHECK (octet_length(fingerprint) = 32),
    CONSTRAINT reason_is_known CHECK (reason IN
        ('malformed', 'unknown_step', 'mismatch', 'attempts_exhausted', 'delivery_limit', 'transaction_ended',
         'unprocessable', 'unknown_saga', 'closed', 'unsigned', 'forged', 'no_key', 'body_missing', 'body_damaged'))
);
CREATE INDEX parked_of_a_saga ON skald.parked (scope, key);
