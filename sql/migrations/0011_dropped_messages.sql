-- Messages that can never be sent, to a service that does not exist any more, say: an operator drops them from the outbox.

-- What becomes of the saga whose step a dropped message was for: its home shows the step as parked, and so the saga as stuck, until it is
-- closed. The report has the time of the message: if that was delivered after all, what the step's own service reports is later, and counts.
-- For a step of this service the record here decides: one that has its outcome needs no message. Returns the report that the caller records
-- with others, of a saga of this database, of which it may drop thousands; NULL: nothing is left to do.
CREATE FUNCTION skald.report_dropped(m skald.outbox, why text) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    own  text := (SELECT s.name FROM skald.service s);
    home text := m.headers->>'x-saga-home';
    step text := substring(m.idempotency_key FROM '[^:]*$');
    at   timestamptz := m.created_at;
    was  skald.step_status;
BEGIN
    IF m.destination = own THEN
        at := clock_timestamp();
        SELECT i.status INTO was FROM skald.idempotency i
         WHERE (i.scope, i.key, i.step) = (m.scope, m.aggregateid, step) AND coalesce(i.home = home, true)
           FOR UPDATE;
        IF was NOT IN ('retrying', 'parked') THEN RETURN NULL; END IF;
        UPDATE skald.idempotency i SET status = 'parked', error = why, updated_at = at
         WHERE (i.scope, i.key, i.step) = (m.scope, m.aggregateid, step);
    ELSIF home = own AND NOT EXISTS (SELECT FROM skald.idempotency i WHERE (i.scope, i.key, i.step) = (m.scope, m.aggregateid, step)) THEN
        RETURN skald.step_report(m.scope, m.aggregateid, step, m.destination, 'parked', why, at, m.headers);
    END IF;
    PERFORM skald.report_step(home, m.scope, m.aggregateid, step, m.destination, 'parked', why, at, m.headers);
    RETURN NULL;
END $$;

-- Drops messages from the outbox, each with a row in skald.audit: those to a destination, those with a message id, or both; `of_scope`: of
-- one scope alone, which must be said of an id that waits in several: each is another saga's. `forced`: also those that a saga needs, and
-- those that the broker has not refused, and all of several that have one id. What a relay is sending at this moment is left alone.
-- `at_most`, with `forced`: so many in this transaction; given again, with the "before" that it returned, it goes on with the others.
-- `before`: only what was written by then, or by now: where the destination is also the sagas' home, the reports of those that were dropped
-- go there, and are not to be dropped in their turn.
-- Returns {"dropped": [{"message_id", "destination", "type", "scope", "key"}], "refused": [{"message_id", "why"}]}; beside a "why", "scopes":
-- those of which one must be said, or "messages": how many have that id; "before". The lists are arrays while they grow: each addition to a jsonb
-- copies it, and 10,000 messages took half a minute.
CREATE FUNCTION skald.drop_messages(to_destination text, with_id text, why text, by text DEFAULT NULL, forced boolean DEFAULT false,
                                    of_scope text DEFAULT NULL, at_most integer DEFAULT NULL,
                                    before timestamptz DEFAULT NULL)
RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    m       skald.outbox;
    own     text := (SELECT s.name FROM skald.service s);
    who     text := skald.actor(by);
    written timestamptz := coalesce(before, clock_timestamp());
    is_one  boolean := with_id IS NOT NULL AND before IS NULL;  -- is no report, whatever the clock was when it was written
    kept    text;
    scopes  text[];
    of_id   bigint;
    dropped jsonb[] := '{}';
    refused jsonb[] := '{}';
    report  jsonb;
    reports jsonb[] := '{}';
BEGIN
    IF coalesce(why, '') = '' THEN
        RAISE EXCEPTION 'say why they are dropped' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF to_destination IS NULL AND with_id IS NULL THEN
        RAISE EXCEPTION 'say which: a destination, a message id, or both' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF with_id IS NOT NULL AND of_scope IS NULL THEN
        scopes := ARRAY(SELECT DISTINCT o.scope FROM skald.outbox o
                         WHERE o.idempotency_key = with_id AND coalesce(o.destination = to_destination, true) ORDER BY o.scope);
        IF cardinality(scopes) > 1 THEN
            RETURN jsonb_build_object('dropped', '[]'::jsonb, 'refused', jsonb_build_array(jsonb_build_object(
                'message_id', with_id, 'why', format('it waits in %s scopes', cardinality(scopes)),
                'scopes', scopes)));
        END IF;
    END IF;
    -- An id is the writer's, who may have given the same one to many.
    IF with_id IS NOT NULL AND NOT forced THEN
        of_id := (SELECT count(*) FROM skald.outbox o
                   WHERE o.idempotency_key = with_id AND coalesce(o.destination = to_destination, true)
                     AND coalesce(o.scope = of_scope, true));
        IF of_id > 1 THEN
            RETURN jsonb_build_object('dropped', '[]'::jsonb, 'refused', jsonb_build_array(jsonb_build_object(
                'message_id', with_id, 'why', format('%s messages have this id', of_id), 'messages', of_id)));
        END IF;
    END IF;
    FOR m IN
        -- In key order, as all that locks many sagas; sorted after the limit, or each of many batches would sort the whole outbox.
        WITH chosen AS MATERIALIZED (
            SELECT * FROM skald.outbox o
             WHERE coalesce(o.destination = to_destination, true) AND coalesce(o.idempotency_key = with_id, true)
               AND coalesce(o.scope = of_scope, true) AND (o.created_at < written OR is_one)
             LIMIT at_most FOR UPDATE SKIP LOCKED)
        SELECT * FROM chosen c ORDER BY c.scope, c.aggregateid, c.id
    LOOP
        kept := CASE WHEN forced THEN NULL
                     WHEN m.error IS NULL THEN 'the broker has not refused it: it may be sent at any moment'
                     WHEN m.if_unrouted IS NULL THEN format('%s needs it, and can never end by itself without it',
                                                            CASE WHEN m.headers ? 'x-saga-itinerary' THEN 'saga ' || m.aggregateid
                                                                 ELSE 'Skald' END) END;
        IF kept IS NOT NULL THEN
            refused := refused || jsonb_build_object('message_id', m.idempotency_key, 'why', kept);
            CONTINUE;
        END IF;
        DELETE FROM skald.outbox o WHERE o.id = m.id;
        IF m.headers ? 'x-saga-itinerary' THEN
            report := skald.report_dropped(m, format('its message was dropped from the outbox of %s by %s: %s', own, who, why));
            IF report IS NOT NULL THEN reports := reports || report; END IF;
        END IF;
        INSERT INTO skald.audit (actor, verb, scope, key, detail)
        VALUES (who, 'outbox drop', m.scope, m.aggregateid,
                jsonb_build_object('message_id', m.idempotency_key, 'destination', m.destination, 'type', m.type, 'error', m.error,
                                   'attempts', m.attempts, 'created_at', skald.instant(m.created_at),
                                   'body_sha256', coalesce(substring(m.headers->>'skald-body' FROM '^sha256:([0-9a-f]{64})'),
                                                          encode(sha256(m.payload), 'hex')),
                                   'why', why));
        dropped := dropped || jsonb_build_object('message_id', m.idempotency_key, 'destination', m.destination, 'type', m.type,
                                                 'scope', m.scope, 'key', m.aggregateid);
    END LOOP;
    IF reports <> '{}' THEN PERFORM skald.record_progress(to_jsonb(reports)); END IF;
    RETURN jsonb_build_object('dropped', to_jsonb(dropped), 'refused', to_jsonb(refused), 'before', skald.instant(written));
END $$;
