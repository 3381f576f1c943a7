-- An operator's commands (pause, resume, cancel, retry) and deadlines: both take effect on a saga in one place, the claim.
--
-- A command is given at the saga's home, in one transaction: skald.request_control(). It is taken there and, as a message `skald.control`,
-- in the database of every other service of the itinerary: skald.take_control(). Neither stops a running step; the next claim finds the
-- command. See docs/repair.md, "Commands", and docs/adr/0010-orders-and-deadlines.md.

-- Who acts: the database's user and, if given, the person.
CREATE FUNCTION skald.actor(by text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT CASE WHEN by <> '' THEN by || ' as ' || session_user ELSE session_user::text END $$;

-- What has passed the point of no return: the step, and when it completed. No row: the saga can still compensate.
CREATE FUNCTION skald.past_pivot(of_scope text, of_key text, itinerary text) RETURNS TABLE (step text, at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    -- Without a pivot, the last compensatable step is the last one before what can't be undone.
    WITH turning AS (
        SELECT p.step, p.place FROM skald.itinerary_steps(itinerary) p WHERE p.kind <> 'retriable' ORDER BY p.place DESC LIMIT 1)
    SELECT k.step, k.at
      FROM skald.known_steps(of_scope, of_key) k JOIN skald.itinerary_steps(itinerary) p ON p.step = k.step
     WHERE (p.kind = 'retriable' OR (k.status = 'completed' AND p.step = (SELECT t.step FROM turning t)))
    UNION ALL
    SELECT p.step, NULL FROM skald.itinerary_steps(itinerary) p WHERE p.place = 1 AND p.kind = 'retriable'
     ORDER BY at NULLS LAST LIMIT 1
$$;

-- Why a command can't be given; NULL where it can.
CREATE FUNCTION skald.refusal(action text, s skald.saga) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    pivot  record;
    latest skald.control;
    called text := format('saga %s', s.key);
BEGIN
    IF s.status IN ('completed', 'compensated') THEN
        RETURN format('%s has ended: it is %s', called, s.status);
    END IF;
    SELECT * INTO pivot FROM skald.past_pivot(s.scope, s.key, s.itinerary);
    SELECT * INTO latest FROM skald.control c WHERE (c.scope, c.key) = (s.scope, s.key) AND skald.is_ours(c.home);
    IF action = 'cancel' THEN
        IF pivot.step IS NOT NULL THEN
            RETURN format('%s is past the pivot: %s %s; it can only go forward', called, pivot.step,
                          coalesce('completed at ' || skald.instant(pivot.at), 'can''t be undone'));
        ELSIF s.status = 'compensating'
           OR EXISTS (SELECT FROM skald.known_steps(s.scope, s.key) k
                       WHERE k.step LIKE '%.compensate' OR k.status IN ('rejected', 'cancelled')) THEN
            RETURN format('%s is compensating already: %s', called, coalesce(s.reason, 'a step was rejected'));
        END IF;
    ELSIF action = 'retry' THEN
        IF NOT EXISTS (SELECT FROM skald.known_steps(s.scope, s.key) k WHERE k.status = 'parked') THEN
            RETURN format('no step of %s is parked: it is %s', called, s.status);
        END IF;
    ELSIF latest.action = 'cancel' AND pivot.step IS NULL THEN
        -- A pause would replace the cancel, and what the cancel has not reached yet would go on after it.
        RETURN format('%s was cancelled at %s by %s: it compensates', called, skald.instant(latest.requested_at),
                      latest.requested_by);
    ELSIF action = 'resume' AND latest.action IS NULL THEN
        RETURN format('%s is not paused: it is %s', called, s.status);
    END IF;
    RETURN NULL;
END $$;

-- Which database this is, and, where a step of the saga has come here, whose home it is.
CREATE FUNCTION skald.not_started_here(scope text, key text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT format('no saga %s%s was started here, in the database of %s, %s: %s', n.key,
                    CASE WHEN n.scope <> '' THEN ' of scope ' || n.scope ELSE '' END,
                    coalesce((SELECT s.name FROM skald.service s), 'no service yet'), current_database(),
                    coalesce((SELECT 'the sagas of that key here have the scope ' || string_agg(format('%L', o.scope), ' or ')
                                FROM (SELECT g.scope FROM skald.saga g WHERE g.key = n.key ORDER BY g.scope LIMIT 3) AS o),
                             'ask the database of its home' ||
                             coalesce((SELECT ', ' || min(i.home) FROM skald.idempotency i
                                        WHERE (i.scope, i.key) = (n.scope, n.key) AND i.home <> '-'), '')))
        FROM (VALUES (scope, key)) AS n (scope, key) $$;

-- Why what is kept with a command for a saga can't be: who reads one takes no more (core::read_command). NULL: it can.
CREATE FUNCTION skald.too_long(reason text, by text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$ SELECT CASE WHEN octet_length(reason) > 4000
                  THEN format('the reason has %s bytes, of at most 4000: say where the rest is', octet_length(reason))
                  WHEN octet_length(skald.actor(by)) > 4000
                  THEN format('the name of who asks has %s bytes, of at most 4000', octet_length(skald.actor(by))) END $$;

-- Takes a command here and sends it to the services in `told`, as {"id", "scope", "key", "home", "action", "reason", "step", "by",
-- "requested_at"}, and "act" if it is part of an order for many. Returns the command, with `left` if the parked step of a retry was left parked: then it was not sent.
CREATE FUNCTION skald.send_command(was skald.saga, action text, reason text, step text, told text[], by text,
                                   act bigint DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    home    text := (SELECT o.name FROM skald.service o);
    command jsonb;
    kept    text;
    id      text;
BEGIN
    -- The latest command wins everywhere, whatever the order of arrival: so this one gets a later time than the one before, even if this
    -- server's clock was set back.
    command := jsonb_strip_nulls(jsonb_build_object(
        'id', gen_random_uuid(), 'scope', was.scope, 'key', was.key, 'home', home, 'action', action,
        'reason', nullif(reason, ''), 'step', step, 'by', skald.actor(by), 'act', home || '/' || act,
        'requested_at', skald.instant(greatest(clock_timestamp(), (
            SELECT c.requested_at + interval '1 microsecond' FROM skald.control c
             WHERE (c.scope, c.key, c.home) = (was.scope, was.key, home))))));
    kept := substring(skald.take_control(command) FROM '^left parked: (.*)$');
    id := was.key || '.control.' || (command->>'id');
    IF action <> 'retry' OR kept IS NULL THEN
        PERFORM skald.enqueue(t.service, 'skald.control', id, convert_to(command::text, 'UTF8'),
                              jsonb_build_object('x-idempotency-key', id, 'x-saga-scope', was.scope, 'x-saga', was.definition),
                              was.scope, aggregatetype => was.definition, aggregateid => was.key)
           FROM unnest(told) AS t(service) WHERE t.service <> home;
    END IF;
    RETURN command || jsonb_strip_nulls(jsonb_build_object('left', kept));
END $$;

-- Gives a command for one saga, at its home: `pause`, `resume`, `cancel`, or `retry` of the parked step. In one transaction the command is
-- taken here, sent to every service that it concerns, and recorded in skald.audit. `act`: the order for many that it is part of.
-- Returns {"id", "action", "told": [services], "step" of a retry, "left": why a parked step was not put back}, or {"refused": why}; then
-- nothing was done.
CREATE FUNCTION skald.request_control(action text, scope text, key text, reason text DEFAULT NULL, by text DEFAULT NULL,
                                      act bigint DEFAULT NULL)
RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    was     skald.saga;
    refused text;
    command jsonb;
    told    text[];
    named   text;  -- the step of a retry
    gone    text;  -- why nothing is left of it to put back
BEGIN
    IF action IS NULL OR action NOT IN ('pause', 'resume', 'cancel', 'retry') THEN
        RAISE EXCEPTION 'a command is pause, resume, cancel or retry, and not %', action
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    refused := skald.too_long(reason, by);
    IF refused IS NOT NULL THEN RETURN jsonb_build_object('refused', refused); END IF;
    -- The guard's records before the saga's row, as every step does (traps G22).
    PERFORM FROM skald.idempotency i
      WHERE (i.scope, i.key) = (scope, key) AND i.status IN ('started', 'unknown', 'retrying', 'parked') ORDER BY i.step FOR UPDATE;
    PERFORM skald.lock_wait(scope, key);
    PERFORM skald.limit_silence_of(scope, key);
    SELECT * INTO was FROM skald.saga s WHERE (s.scope, s.key) = (scope, key) FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN jsonb_build_object('refused', skald.not_started_here(scope, key));
    END IF;
    refused := skald.refusal(action, was);
    IF refused IS NOT NULL THEN RETURN jsonb_build_object('refused', refused); END IF;

    SELECT k.step, ARRAY[k.service], CASE WHEN k.error LIKE 'its delivery was dropped by %' OR k.error LIKE 'its message was dropped from %' THEN
               format('nothing of %s is left to retry: %s. Close the saga; pause it first, unless it was cancelled', k.step, k.error) END
      INTO named, told, gone
      FROM skald.known_steps(scope, key) k WHERE k.status = 'parked' ORDER BY k.at DESC LIMIT 1;
    IF action = 'retry' THEN
        IF gone IS NOT NULL THEN RETURN jsonb_build_object('refused', gone); END IF;
    ELSE
        named := NULL;
        told := ARRAY(SELECT DISTINCT p.service FROM skald.itinerary_steps(was.itinerary) p ORDER BY p.service);
    END IF;

    command := skald.send_command(was, action, reason, named, told, by, act);
    -- A retry that left the step parked did nothing else either; a cancel stands, and takes effect when the step is replayed, or when a
    -- message that was dropped turns up after all.
    IF action = 'retry' AND command ? 'left' THEN RETURN jsonb_build_object('refused', command->'left'); END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object('id', command->'id', 'action', action, 'told', to_jsonb(told),
                                                'step', command->'step', 'left',
                                                coalesce(command->'left', CASE WHEN action = 'cancel' THEN to_jsonb(gone) END)));
END $$;

-- Ends a saga that can't end by itself, because one of its messages is lost or a delivery was dropped. The operator has stopped it before,
-- has seen that every service has that command, has checked each service and has done manually what was missing. From this command on,
-- nothing of the saga runs in a service that has it: what still arrives there is parked as `closed`.
-- Returns {"id", "action", "told"}, or {"refused": why}; then nothing was done.
-- `even_with_calls`: also where a step is under way, whose end nothing will record then.
CREATE FUNCTION skald.close_saga(as_status text, scope text, key text, reason text, by text DEFAULT NULL,
                                 even_with_calls boolean DEFAULT false) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    was     skald.saga;
    told    text[];
    lost    text[];
    command jsonb;
BEGIN
    IF as_status IS NULL OR as_status NOT IN ('completed', 'compensated') THEN
        RAISE EXCEPTION 'a saga is closed as completed or compensated, and not as %', as_status
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF coalesce(reason, '') = '' THEN RETURN jsonb_build_object('refused', 'give a reason: it is kept with the saga'); END IF;
    reason := format('closed by an operator (%s): %s', skald.actor(by), reason);
    IF skald.too_long(reason, by) IS NOT NULL THEN RETURN jsonb_build_object('refused', skald.too_long(reason, by)); END IF;
    -- As in skald.request_control(): records before the saga's row.
    PERFORM FROM skald.idempotency i
      WHERE (i.scope, i.key) = (scope, key) AND i.status IN ('started', 'unknown', 'retrying', 'parked') ORDER BY i.step FOR UPDATE;
    PERFORM skald.lock_wait(scope, key);
    PERFORM skald.limit_silence_of(scope, key);
    SELECT * INTO was FROM skald.saga s WHERE (s.scope, s.key) = (scope, key) FOR NO KEY UPDATE;
    IF NOT FOUND THEN RETURN jsonb_build_object('refused', skald.not_started_here(scope, key)); END IF;
    IF was.finished_at IS NOT NULL THEN
        RETURN jsonb_build_object('refused', format('saga %s has ended: it is %s', key, was.status));
    END IF;
    IF NOT EXISTS (SELECT FROM skald.control c
                    WHERE (c.scope, c.key) = (scope, key) AND c.action IN ('pause', 'cancel') AND skald.is_ours(c.home)) THEN
        RETURN jsonb_build_object('refused', format(
            'a message of saga %s that is under way would still be processed: pause it, check that each service has that command, and '
            'then check what has run (docs/repair.md, "A message that is lost")', key));
    END IF;
    lost := skald.under_way(scope, key);
    IF lost <> '{}' AND NOT even_with_calls THEN
        RETURN jsonb_build_object('refused', format(
            'of saga %s is under way: %s. Once it is closed, what such a call has done or will do is recorded nowhere, and nothing undoes '
            'it. Let it end, or say with `skald saga resolve` what it has done; or check it on the other side, and close the saga '
            'with --even-with-calls', key, array_to_string(lost, '; ')));
    END IF;
    told := ARRAY(SELECT DISTINCT p.service FROM skald.itinerary_steps(was.itinerary) p ORDER BY p.service);
    command := skald.send_command(was, 'close', reason, NULL, told, by);
    UPDATE skald.saga s
       SET status = as_status::skald.saga_status, reason = reason, updated_at = clock_timestamp(), finished_at = clock_timestamp()
     WHERE (s.scope, s.key) = (scope, key);
    UPDATE skald.audit a SET detail = a.detail || jsonb_build_object('as', as_status, 'was', was.status, 'lost', to_jsonb(lost))
     WHERE a.command_id = (command->>'id')::uuid;
    RETURN jsonb_build_object('id', command->'id', 'action', 'close', 'told', to_jsonb(told), 'lost', to_jsonb(lost));
END $$;

-- Cancels the steps of a closed saga that were to be tried again here, and tells its home, which knows them as `retrying` or `parked`.
CREATE FUNCTION skald.cancel_open(of_scope text, of_key text, of_home text, why text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own     text := (SELECT s.name FROM skald.service s);
    id      text := of_key || '.closed.' || gen_random_uuid();
    members jsonb;
BEGIN
    WITH cancelled AS (
        UPDATE skald.idempotency i SET status = 'cancelled', error = why, updated_at = clock_timestamp()
         WHERE (i.scope, i.key) = (of_scope, of_key) AND i.status IN ('started', 'unknown', 'retrying', 'parked') AND coalesce(i.home = of_home, true)
        RETURNING i.step, i.attempts, i.updated_at)
    SELECT jsonb_agg(jsonb_build_object('scope', of_scope, 'key', of_key, 'step', c.step, 'service', own, 'status', 'cancelled',
                                        'attempts', c.attempts, 'error', why, 'at', skald.instant(c.updated_at)))
      INTO members FROM cancelled c;
    -- Whoever has one of them now finds its row gone, and can't record an end.
    DELETE FROM skald.started s
     WHERE (s.scope, s.key) = (of_scope, of_key)
       AND EXISTS (SELECT FROM skald.idempotency i WHERE (i.scope, i.key, i.step) = (s.scope, s.key, s.step) AND i.status = 'cancelled');
    IF members IS NOT NULL AND of_home <> own THEN
        PERFORM skald.enqueue(of_home, 'skald.progress', id, convert_to(members::text, 'UTF8'),
                              jsonb_build_object('x-idempotency-key', id, 'x-saga-scope', of_scope), of_scope,
                              aggregateid => of_key);
    END IF;
END $$;

-- Takes a command in this database: once, however often it arrives. Of two commands the one that was requested later counts. Waiting
-- messages of the saga are made due, so that the command takes effect now; if the saga was closed, none of its steps is tried again.
-- Returns `taken`, `outdated`, `duplicate`, or `left parked: ` and why a parked step was not put back.
CREATE FUNCTION skald.take_control(command jsonb) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    o      record;
    noted  bigint;
    effect text := 'taken';
BEGIN
    SELECT r.*, command->>'by' AS giver INTO o FROM jsonb_to_record(command)
        AS r(id uuid, scope text, key text, home text, action text, step text, reason text, requested_at timestamptz);
    PERFORM FROM skald.idempotency i
      WHERE (i.scope, i.key) = (o.scope, o.key) AND i.status IN ('started', 'unknown', 'retrying', 'parked') ORDER BY i.step FOR UPDATE;
    PERFORM skald.lock_wait(o.scope, o.key);
    PERFORM skald.limit_silence_of(o.scope, o.key);

    INSERT INTO skald.audit (actor, verb, scope, key, detail, command_id)
    VALUES (o.giver, 'saga ' || o.action, o.scope, o.key, command, o.id)
    ON CONFLICT DO NOTHING
    RETURNING id INTO noted;
    IF noted IS NULL THEN RETURN 'duplicate'; END IF;

    IF o.action <> 'retry' THEN
        INSERT INTO skald.control AS c (scope, key, home, action, reason, requested_at, requested_by)
        VALUES (o.scope, o.key, o.home, o.action, o.reason, o.requested_at, o.giver)
        ON CONFLICT ON CONSTRAINT control_once DO UPDATE
           SET action = excluded.action, reason = excluded.reason, requested_at = excluded.requested_at,
               requested_by = excluded.requested_by
         WHERE excluded.requested_at > c.requested_at;
        IF NOT FOUND THEN effect := 'outdated'; END IF;
    END IF;

    IF effect = 'taken' AND o.action IN ('resume', 'cancel', 'close') THEN
        PERFORM skald.wake(o.scope, o.key, o.home);
        -- What somebody owns hears of it when the lease is renewed.
        UPDATE skald.started s SET due_at = least(s.due_at, clock_timestamp()),
               ends_at = CASE WHEN s.kind = 'call' AND o.action = 'cancel' THEN clock_timestamp() ELSE s.ends_at END
         WHERE (s.scope, s.key) = (o.scope, o.key) AND s.owner IS NULL AND coalesce(s.headers->>'x-saga-home' = o.home, true);
    END IF;
    IF effect = 'taken' AND o.action = 'close' THEN PERFORM skald.cancel_open(o.scope, o.key, o.home, o.reason); END IF;
    IF effect = 'taken' AND o.action IN ('cancel', 'retry') THEN
        effect := coalesce('left parked: ' || skald.put_back_open(o.scope, o.key, o.home, o.action, o.step), effect);
    END IF;
    UPDATE skald.audit SET detail = detail || jsonb_build_object('effect', effect) WHERE id = noted;
    RETURN effect;
END $$;
