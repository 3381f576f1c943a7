-- What happens to a parked delivery: it is put back, under the same derived key and through the same guard, or dropped.

-- Whether a delivery parked at that time may still be sent again: not so late that the guard's record of its step could be gone, because
-- the step would then run a second time (traps G19). The only place that knows this limit.
CREATE FUNCTION skald.is_replayable(parked_at timestamptz) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT parked_at > clock_timestamp() - interval '30 days' $$;

-- Whether a parked delivery belongs to its saga, by the reason for which it was parked.
CREATE FUNCTION skald.is_of_its_saga(reason text) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT reason NOT IN ('mismatch', 'unsigned', 'forged') $$;

-- Parks a delivery. False: it is parked already.
CREATE FUNCTION skald.park(p skald.parked) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO skald.parked (scope, key, step, reason, error, message_id, type, content_type, body, headers, attempts, fingerprint,
                              handler)
    VALUES (p.scope, p.key, p.step, p.reason, p.error, p.message_id, p.type, p.content_type, p.body, p.headers, p.attempts,
            p.fingerprint, p.handler)
    ON CONFLICT ON CONSTRAINT parked_once DO NOTHING;
    IF FOUND THEN RETURN true; END IF;
    IF NOT EXISTS (SELECT FROM skald.parked q WHERE (q.fingerprint, q.reason, q.handler) = (p.fingerprint, p.reason, p.handler)) THEN
        PERFORM skald.assert_written('skald.parked', 1, 0);
    END IF;
    RETURN false;
END $$;

-- Why a parked delivery can't be sent again by anybody but its sender; NULL: it can be. The limits are those of
-- framework/src/transports/message_limits.cpp, and of the headers what a message handler may get: without what Skald adds to them.
CREATE FUNCTION skald.unsendable(p skald.parked) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE
        WHEN p.headers ? '' THEN 'a header has no name'
        WHEN EXISTS (SELECT FROM jsonb_object_keys(p.headers) AS h(name) WHERE octet_length(h.name) > 255)
            THEN 'the name of a header has over 255 bytes'
        WHEN greatest(octet_length(p.message_id), octet_length(p.type), octet_length(p.content_type),
                      octet_length(coalesce(p.headers->>'skald-reply-to', ''))) > 255
            THEN 'its id, type, content type or reply_to has over 255 bytes'
        WHEN octet_length(p.message_id) + octet_length(p.type) + octet_length(p.content_type)
             + skald.header_bytes(p.headers - ARRAY['skald-message-key', 'skald-message-scope', 'skald-message-id', 'skald-message-type',
                                                    'x-attempt', 'x-snoozes', 'skald-waits-since', 'skald-signature']) > 127989
            THEN 'its headers have over 125 KiB'
        WHEN octet_length(p.body) > 1048576 THEN 'its body has over 1 MiB' END
$$;

-- Why a parked delivery is not sent again; NULL where it may be. `was` is the status of its step's record.
CREATE FUNCTION skald.refusal(p skald.parked, was skald.step_status, forced boolean) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('parked delivery %s: ', p.id) || CASE
        WHEN NOT skald.is_replayable(p.parked_at)
            THEN format('parked at %s, more than 30 days ago: look up what has run, and see docs/repair.md, "Parked deliveries"',
                        skald.instant(p.parked_at))
        WHEN skald.unsendable(p) IS NOT NULL
            THEN format('it can''t be sent again: %s. Its sender must send it anew; drop it', skald.unsendable(p))
        WHEN p.reason = 'forged' AND NOT forced
            THEN format('its signature is not valid: drop it. If a key was missing here, add it; '
                        '`skald parked replay %s --yes` then sends it as it came, to be checked again', p.id)
        WHEN p.type IN ('skald.progress', 'skald.control', 'skald.signal') AND p.step = '' THEN NULL
        WHEN p.handler <> '' AND p.step = '' THEN NULL
        WHEN p.step = '' THEN 'its headers name no step of a saga: fix the sender, and drop it'
        WHEN p.reason = 'mismatch' THEN 'its key was used before with another body, or by another home, and that one counts: drop it'
        WHEN was IN ('completed', 'rejected', 'cancelled')
            THEN format('%s of saga %s is %s by now: there is nothing to replay. Drop it', p.step, p.key, was)
        WHEN was IN ('started', 'unknown') THEN format('%s of saga %s is under way', p.step, p.key)
        WHEN p.reason = 'transaction_ended' AND NOT forced
            THEN format('%s committed by itself, and what it wrote would be written again: check its rows, and repair '
                        'them. `skald parked replay %s --yes` then sends it', p.step, p.id) END
$$;

-- Whether a record of a parked delivery's step belongs to the same saga: a saga of another home may have the same key.
CREATE FUNCTION skald.is_for(home text, p skald.parked) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT CASE WHEN p.handler <> '' THEN coalesce(home = '-', false) ELSE coalesce(home = p.headers->>'x-saga-home', true) END $$;

-- Whether its headers say which saga it is part of and where that was started, whatever else is wrong with them. Bytes of a scope that are
-- no text are stored as `\xff`.
CREATE FUNCTION skald.names_its_saga(p skald.parked) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p.handler = '' AND p.step <> '' AND octet_length(p.scope) <= 64 AND strpos(p.scope, '\x') = 0 AND p.headers ? 'x-saga-scope'
           AND coalesce(p.headers->>'x-saga-home' ~ '^[a-z][a-z0-9-]{0,47}$', false)
$$;

-- Whether its saga waits for a parked delivery; `was` is the status of its step's record. An `unprocessable` delivery may lack one, and one
-- whose headers could not be read always does.
CREATE FUNCTION skald.is_waited_for(p skald.parked, was skald.step_status) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT p.handler = '' AND skald.is_of_its_saga(p.reason)
           AND CASE WHEN was IS NULL THEN p.reason = 'unprocessable' OR (p.reason = 'malformed' AND skald.names_its_saga(p))
                    ELSE was = 'parked' OR (was = 'retrying' AND p.reason = 'unprocessable') END
$$;

-- Puts a parked delivery back into this service's outbox, with the step's next fencing token and its attempts counted from scratch; the
-- parked row is deleted in the same transaction. `vouched`: an operator says that an unsigned delivery is genuine. One whose signature is
-- invalid goes out as it came, with that signature: no relay signs it, and the service that receives it checks it again.
-- Returns NULL, or the reason why nothing was done.
CREATE FUNCTION skald.put_back(wanted bigint, forced boolean, vouched boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    gone    text := format('there is no parked delivery %s: it was replayed or dropped already, or never was here', wanted);
    p       skald.parked;
    was     skald.idempotency;
    refused text;
    sent    jsonb;
BEGIN
    SELECT * INTO p FROM skald.parked WHERE id = wanted;
    IF NOT FOUND THEN RETURN gone; END IF;
    -- The guard's record before the parked row, in the order in which parking a delivery locks them.
    SELECT * INTO was FROM skald.idempotency i
     WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step) AND skald.is_for(i.home, p) FOR UPDATE;
    SELECT * INTO p FROM skald.parked WHERE id = wanted FOR UPDATE;  -- a later report may have come
    IF NOT FOUND THEN RETURN gone; END IF;
    refused := skald.refusal(p, was.status, forced);
    IF refused IS NOT NULL THEN RETURN refused; END IF;
    IF p.reason = 'unsigned' AND NOT vouched THEN
        RETURN format('parked delivery %s: it has no signature, and a replay would add one: find out who sent it, and check its headers and '
                      'its body. `skald parked replay %s --vouch` then signs and sends it', wanted, wanted);
    END IF;

    IF p.reason = 'forged' THEN
        sent := p.headers || jsonb_build_object('skald-signature', coalesce(p.headers->>'skald-signature', ''));
    ELSE
        sent := p.headers - 'x-step-deadline' - 'skald-signature' - 'skald-waits-since';
    END IF;
    IF p.handler <> '' AND p.step <> '' THEN  -- the key that was found in it, and that its record has
        sent := sent || jsonb_build_object('skald-message-key', p.key, 'skald-message-scope', p.scope);
    END IF;
    IF p.handler <> '' THEN  -- a row of the outbox has both: what is made up for it here is no key
        sent := sent || CASE WHEN p.message_id = '' THEN '{"skald-message-id": ""}'::jsonb ELSE '{}' END
                     || CASE WHEN p.type = '' THEN '{"skald-message-type": ""}'::jsonb ELSE '{}' END;
    END IF;
    IF was.status IN ('retrying', 'parked') AND p.reason <> 'forged' THEN
        -- The fencing token keeps growing, or the claim would take the message for an old copy; the budget of attempts is new.
        sent := sent || jsonb_build_object('x-attempt', '1', 'x-snoozes', (was.attempts + was.snoozes)::text);
        UPDATE skald.idempotency i
           SET status = 'retrying', snoozes = i.attempts + i.snoozes, attempts = 0, error = 'put back', updated_at = clock_timestamp()
         WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step);
    END IF;
    PERFORM skald.enqueue((SELECT s.name FROM skald.service s) || CASE WHEN p.handler <> '' THEN '.on.' || p.handler ELSE '' END,
                          coalesce(nullif(p.type, ''), 'message'),
                          coalesce(nullif(p.message_id, ''), p.key || ':' || p.step), p.body, sent, p.scope,
                          aggregatetype => CASE WHEN p.handler = '' THEN coalesce(p.headers->>'x-saga', 'message') ELSE 'message' END,
                          aggregateid => p.key, content_type => p.content_type);
    DELETE FROM skald.parked WHERE id = wanted;
    IF (was.status = 'parked' AND p.reason <> 'forged') OR skald.is_waited_for(p, was.status) THEN
        PERFORM skald.report_home(p, 'retrying', 'put back');
    END IF;
    RETURN NULL;
END $$;

-- What is said of a step in a report to its saga's home; `headers` are those of the step's message.
CREATE FUNCTION skald.step_report(scope text, key text, step text, service text, status text, error text, at timestamptz, headers jsonb)
RETURNS jsonb
LANGUAGE sql STABLE
AS $$
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'scope', scope, 'key', key, 'step', step, 'service', service, 'status', status, 'attempts', 0, 'error', error,
        'at', skald.instant(at), 'saga', CASE status WHEN 'parked' THEN 'stuck' ELSE 'running' END,
        'reason', coalesce(CASE status WHEN 'parked' THEN error END, headers->>'x-saga-reason')))
$$;

-- Reports to a saga's home what happened to a step, as the step's own commit would have done; `headers` are those of the step's message.
-- In the home itself the step's record says it, where there is one.
CREATE FUNCTION skald.report_step(home text, scope text, key text, step text, service text, status text, error text, at timestamptz,
                                  headers jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    own     text := (SELECT s.name FROM skald.service s);
    members jsonb := jsonb_build_array(skald.step_report(scope, key, step, service, status, error, at, headers));
    id      text := key || ':' || step || '.progress';
BEGIN
    IF home IS NULL THEN RETURN; END IF;
    IF home IS DISTINCT FROM own THEN
        PERFORM skald.enqueue(home, 'skald.progress', id, convert_to(members::text, 'UTF8'),
                              jsonb_strip_nulls(jsonb_build_object('x-idempotency-key', id, 'x-saga-scope', scope,
                                                                   'x-saga', headers->'x-saga', 'x-saga-version', headers->'x-saga-version')),
                              scope, aggregatetype => coalesce(headers->>'x-saga', 'message'), aggregateid => key);
    ELSIF EXISTS (SELECT FROM skald.progress r WHERE (r.scope, r.key, r.step) = (scope, key, step))
       OR NOT EXISTS (SELECT FROM skald.idempotency i WHERE (i.scope, i.key, i.step) = (scope, key, step) AND skald.is_ours(i.home)) THEN
        PERFORM skald.record_progress(members);
    ELSE
        PERFORM skald.advance(scope, key, 'running', coalesce(CASE status WHEN 'parked' THEN error END, headers->>'x-saga-reason'));
    END IF;
END $$;

-- The same for the step of a parked delivery.
CREATE FUNCTION skald.report_home(p skald.parked, status text, error text) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT skald.report_step(CASE WHEN p.handler = '' THEN p.headers->>'x-saga-home' END, p.scope, p.key, p.step, (SELECT s.name FROM skald.service s), status, error,
                             clock_timestamp(), p.headers)
$$;

-- Parks a delivery whose headers can't be read: no step was run for it, and no guard's record says so. If they still name its saga, that is
-- stuck from now on, and its home is told; not so if the step has its outcome already, from another copy. One for a message handler that is
-- not there may have a record of the times that it was tried where it was.
CREATE FUNCTION skald.park_unreadable(p skald.parked) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    was skald.step_status;
BEGIN
    IF NOT skald.park(p) OR NOT skald.is_of_its_saga(p.reason) THEN RETURN; END IF;
    IF p.handler = '' AND NOT skald.names_its_saga(p) THEN RETURN; END IF;
    SELECT i.status INTO was FROM skald.idempotency i
     WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step) AND skald.is_for(i.home, p) FOR UPDATE;
    IF was = 'retrying' THEN
        UPDATE skald.idempotency i SET status = 'parked', error = p.error, updated_at = clock_timestamp()
         WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step);
    END IF;
    IF was IS NULL OR was = 'retrying' THEN PERFORM skald.report_home(p, 'parked', p.error); END IF;
END $$;

-- What a command does to a saga's parked steps here. A cancel puts back what is still open up to the pivot, so that its claim finds the
-- cancel and compensation begins; a retry puts back the step that it names. What must not be put back unseen stays parked, and the reason
-- is reported to the home. Returns that reason, or NULL.
CREATE FUNCTION skald.put_back_open(of_scope text, of_key text, of_home text, action text, named text) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    p       skald.parked;
    refused text;
BEGIN
    IF action = 'retry' AND EXISTS (SELECT FROM skald.idempotency i
                                     WHERE (i.scope, i.key, i.step) = (of_scope, of_key, named) AND i.status = 'parked') THEN
        refused := 'its delivery is not parked here any more';
    END IF;
    FOR p IN
        SELECT DISTINCT ON (q.step) q.*
          FROM skald.parked q
          LEFT JOIN skald.idempotency i ON (i.scope, i.key, i.step) = (q.scope, q.key, q.step) AND skald.is_for(i.home, q)
         WHERE (q.scope, q.key) = (of_scope, of_key) AND skald.is_waited_for(q, i.status)
           AND skald.is_for(of_home, q)
           AND (   (action = 'retry' AND q.step = named)
                OR (action = 'cancel'
                    AND EXISTS (SELECT FROM skald.itinerary_steps(q.headers->>'x-saga-itinerary') AS l
                                 WHERE l.step = q.step AND l.kind <> 'retriable')))
         ORDER BY q.step, q.id DESC
    LOOP
        refused := skald.put_back(p.id, false);
        IF refused IS NOT NULL THEN PERFORM skald.report_home(p, 'parked', refused); END IF;
    END LOOP;
    RETURN refused;
END $$;

-- Sends a parked delivery again, in one transaction with its row in skald.audit. `forced`: also one whose step committed by itself, or
-- whose signature is invalid; `vouched`: also an unsigned one. Returns NULL, or the reason why nothing was done.
CREATE FUNCTION skald.replay_parked(wanted bigint, by text DEFAULT NULL, forced boolean DEFAULT false,
                                    vouched boolean DEFAULT false, why text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    p       skald.parked;
    refused text;
BEGIN
    SELECT * INTO p FROM skald.parked WHERE id = wanted;
    refused := skald.put_back(wanted, forced, vouched);
    IF refused IS NULL THEN
        INSERT INTO skald.audit (actor, verb, scope, key, detail)
        VALUES (skald.actor(by), 'parked replay', p.scope, p.key,
                skald.summary(p) || CASE WHEN p.reason = 'unsigned' THEN '{"vouched": true}' ELSE '{}' END::jsonb
                                 || jsonb_strip_nulls(jsonb_build_object('why', nullif(why, ''))));
    END IF;
    RETURN refused;
END $$;

-- Drops a parked delivery for good, in one transaction with its row in skald.audit. `forced`: also one that a saga waits for. Returns NULL,
-- or the reason why nothing was done.
CREATE FUNCTION skald.drop_parked(wanted bigint, why text, by text DEFAULT NULL, forced boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    p             skald.parked;
    is_waited_for boolean;
    dropped       text := format('its delivery was dropped by %s: %s', skald.actor(by), why);
BEGIN
    IF coalesce(why, '') = '' THEN RETURN 'a reason is required'; END IF;
    SELECT * INTO p FROM skald.parked WHERE id = wanted;
    -- The guard's record first, as in put_back(): of two who drop one each, the second sees that it is the last.
    PERFORM FROM skald.idempotency i WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step) FOR UPDATE;
    SELECT * INTO p FROM skald.parked WHERE id = wanted FOR UPDATE;
    IF NOT FOUND THEN
        RETURN format('there is no parked delivery %s: it was replayed or dropped already, or never was here', wanted);
    END IF;
    is_waited_for := skald.is_waited_for(p, (SELECT i.status FROM skald.idempotency i
                                                     WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step)
                                                       AND skald.is_for(i.home, p)))
                     AND NOT EXISTS (SELECT FROM skald.parked q
                                      WHERE (q.scope, q.key, q.step) = (p.scope, p.key, p.step)
                                        AND skald.is_of_its_saga(q.reason) AND q.id <> p.id);
    IF is_waited_for AND NOT forced THEN
        RETURN format('parked delivery %s: saga %s is stuck on it, and can never continue without it. Replay it, or drop it '
                      'alone, with --yes', wanted, p.key);
    END IF;
    DELETE FROM skald.parked WHERE id = wanted;
    IF p.handler <> '' THEN
        UPDATE skald.idempotency i SET status = 'cancelled', error = dropped, updated_at = clock_timestamp()
         WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step) AND i.status = 'parked' AND skald.is_for(i.home, p)
           AND NOT EXISTS (SELECT FROM skald.parked q WHERE (q.scope, q.key, q.step) = (p.scope, p.key, p.step) AND q.handler <> '');
    ELSIF is_waited_for THEN
        UPDATE skald.idempotency i SET error = dropped, updated_at = clock_timestamp()
         WHERE (i.scope, i.key, i.step) = (p.scope, p.key, p.step) AND i.status = 'parked' AND skald.is_for(i.home, p);
        PERFORM skald.report_home(p, 'parked', dropped);
    ELSIF p.reason = 'closed' AND skald.names_its_saga(p) THEN
        PERFORM skald.report_home(p, 'cancelled', dropped);
    END IF;
    INSERT INTO skald.audit (actor, verb, scope, key, detail)
    VALUES (skald.actor(by), 'parked drop', p.scope, p.key, skald.summary(p) || jsonb_build_object('why', why));
    RETURN NULL;
END $$;

-- What the audit keeps of a parked delivery that is gone: enough to identify it, but not its contents.
CREATE FUNCTION skald.summary(p skald.parked) RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object('id', p.id, 'step', p.step, 'reason', p.reason, 'error', p.error, 'type', p.type,
                              'message_id', p.message_id, 'parked_at', skald.instant(p.parked_at),
                              'body_sha256', coalesce(substring(p.headers->>'skald-body' FROM '^sha256:([0-9a-f]{64})'),
                                                      encode(sha256(p.body), 'hex')))
$$;
