-- A saga's steps in any language. A participant is a consumer of its service's queue and these functions: skald.take() claims a delivery
-- under the guard and says whether its step is to run; one of the others ends it. What follows from that end (the record, the next message,
-- the report to the home) is decided here by the rules of the C++ (framework/src/core/transition.cpp, runtime/step_consequences.cpp), and
-- tests/languages/ holds the two equal. See docs/languages-sql.md.

-- What the headers of a message for a step say, or why that can't be read.
CREATE TYPE skald.envelope AS (
    refusal       text,
    scope         text,
    key           text,
    definition    text,
    version       integer,
    names         text[],
    services      text[],
    kinds         text[],
    plan          text,     -- the itinerary without its position
    is_back       boolean,
    place         integer,  -- from 1
    home          text,
    reason        text,
    attempt       integer,
    snoozes       integer,
    saga_deadline text,     -- as it came: in this form, times sort as texts do
    step_deadline text,
    waits_since   text,
    traceparent   text,
    tracestate    text,
    kept          text);    -- the reference in the place of a body

CREATE FUNCTION skald.is_name(t text) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$ SELECT octet_length(t) <= 48 AND t ~ '^[a-z][a-z0-9-]*$' $$;

-- The longest beginning of a text that has at most 1,000 bytes.
CREATE FUNCTION skald.short_text(t text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    bytes bytea;
    size  integer := 1000;
BEGIN
    IF t IS NULL OR octet_length(t) <= 1000 THEN RETURN t; END IF;
    bytes := convert_to(t, 'UTF8');
    WHILE get_byte(bytes, size) & 192 = 128 LOOP size := size - 1; END LOOP;
    RETURN convert_from(substr(bytes, 1, size), 'UTF8');
END $$;

-- Whether a header has a time in the one form in which Skald writes them.
CREATE FUNCTION skald.is_instant(t text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    year  integer;
    month integer;
BEGIN
    IF t IS NULL THEN RETURN NULL; END IF;
    IF t !~ '^\d\d\d\d-(0[1-9]|1[0-2])-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d\d\d\d\d\dZ$' THEN RETURN false; END IF;
    year := left(t, 4);
    month := substr(t, 6, 2);
    RETURN year > 0 AND substr(t, 9, 2)::integer BETWEEN 1 AND CASE
           WHEN month IN (4, 6, 9, 11) THEN 30 WHEN month <> 2 THEN 31
           WHEN year % 4 = 0 AND (year % 100 <> 0 OR year % 400 = 0) THEN 29 ELSE 28 END;
END $$;

-- A count in a header; NULL if it is none.
CREATE FUNCTION skald.header_count(t text, lowest integer, missing integer) RETURNS integer
LANGUAGE sql IMMUTABLE
AS $$
    SELECT CASE WHEN t IS NULL THEN missing WHEN t !~ '^-?[0-9]+$' THEN NULL
                WHEN t::numeric BETWEEN lowest AND 2000000000 THEN t::integer END
$$;

CREATE FUNCTION skald.is_traceparent(t text) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$
    SELECT substr(t, 1, 55) ~ '^[0-9a-f][0-9a-f]-[0-9a-f]+-[0-9a-f]+-[0-9a-f][0-9a-f]$' AND substr(t, 36, 1) = '-'
           AND substr(t, 53, 1) = '-' AND substr(t, 1, 2) <> 'ff'
           AND substr(t, 4, 32) <> repeat('0', 32) AND substr(t, 37, 16) <> repeat('0', 16)
           AND (length(t) = 55 OR (substr(t, 1, 2) <> '00' AND substr(t, 56, 1) = '-'))
$$;

-- The same checks in the same order as core::read_envelope(), with the same words.
CREATE FUNCTION skald.read_envelope(type text, headers jsonb) RETURNS skald.envelope
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    e     skald.envelope;
    id    text := headers->>'x-idempotency-key';
    colon integer := coalesce(strpos(reverse(id), ':'), 0);
    step  text := right(id, colon - 1);
    back  boolean := step LIKE '%.compensate';
    parts text[];
    many  integer;
    fine  boolean;
BEGIN
    IF id IS NULL THEN
        e.refusal := 'header x-idempotency-key is missing, so Skald did not send it; a message handler''s messages go to '
                     'its own address, SERVICE.on.NAME';
        RETURN e;
    END IF;
    e.refusal := 'header x-idempotency-key is missing or malformed';
    IF colon = 0 THEN RETURN e; END IF;
    IF back THEN step := left(step, -length('.compensate')); END IF;
    e.key := left(id, -colon);
    IF octet_length(e.key) NOT BETWEEN 1 AND 180 OR e.key ~ '[^\x20-\x7e]' OR NOT skald.is_name(step) THEN RETURN e; END IF;

    e.refusal := 'header x-saga-scope is missing or malformed';
    e.scope := headers->>'x-saga-scope';
    IF e.scope IS NULL OR octet_length(e.scope) > 64 THEN RETURN e; END IF;
    e.refusal := 'header x-saga is missing or malformed';
    e.definition := headers->>'x-saga';
    IF skald.is_name(e.definition) IS NOT TRUE THEN RETURN e; END IF;
    e.refusal := 'header x-saga-home is missing or malformed';
    e.home := headers->>'x-saga-home';
    IF skald.is_name(e.home) IS NOT TRUE THEN RETURN e; END IF;

    e.refusal := 'header x-saga-itinerary is missing or malformed';
    -- Without what is captured: that takes PostgreSQL twenty times as long.
    IF (headers->>'x-saga-itinerary' ~ '^(?:forward|back) [1-9][0-9]?/[1-9][0-9]?'
                                       '(?: [a-z][a-z0-9-]*@[a-z][a-z0-9-]*=(?:compensatable|pivot|retriable))+$') IS NOT TRUE THEN
        RETURN e;
    END IF;
    parts := string_to_array(headers->>'x-saga-itinerary', ' ');
    e.is_back := parts[1] = 'back';
    e.place := split_part(parts[2], '/', 1);
    e.plan := array_to_string(parts[3:], ' ');
    -- The kinds are in the order of the alphabet.
    SELECT array_agg(s.name ORDER BY s.o), array_agg(s.service ORDER BY s.o), array_agg(s.kind ORDER BY s.o), count(*),
           count(DISTINCT s.name) = count(*) AND max(octet_length(s.name)) <= 48 AND max(octet_length(s.service)) <= 48
           AND string_agg(left(s.kind, 1), '' ORDER BY s.o) ~ '^c*p?r*$'
      INTO e.names, e.services, e.kinds, many, fine
      FROM (SELECT split_part(t, '@', 1), split_part(split_part(t, '@', 2), '=', 1), split_part(t, '=', 2), o
              FROM unnest(parts[3:]) WITH ORDINALITY AS u(t, o)) AS s(name, service, kind, o);
    IF NOT fine OR many <> split_part(parts[2], '/', 2)::integer OR many > 64 OR e.place > many
       OR (e.is_back AND e.kinds[e.place] <> 'compensatable') THEN
        RETURN e;
    END IF;

    e.refusal := 'header x-saga-version is missing or malformed';
    e.version := skald.header_count(headers->>'x-saga-version', 1, 1);
    IF e.version IS NULL THEN RETURN e; END IF;
    e.refusal := 'header x-attempt is missing or malformed';
    e.attempt := skald.header_count(headers->>'x-attempt', 1, 1);
    IF e.attempt IS NULL THEN RETURN e; END IF;
    e.refusal := 'header x-snoozes is missing or malformed';
    e.snoozes := skald.header_count(headers->>'x-snoozes', 0, 0);
    IF e.snoozes IS NULL OR e.snoozes > 2000000000 - e.attempt THEN RETURN e; END IF;

    e.refusal := 'header x-saga-deadline is missing or malformed';
    e.saga_deadline := headers->>'x-saga-deadline';
    IF NOT skald.is_instant(e.saga_deadline) THEN RETURN e; END IF;
    e.refusal := 'header x-step-deadline is missing or malformed';
    e.step_deadline := headers->>'x-step-deadline';
    IF NOT skald.is_instant(e.step_deadline) THEN RETURN e; END IF;

    e.refusal := 'the key, the type and the itinerary do not refer to the same step';
    IF back <> e.is_back OR step <> e.names[e.place] OR type IS DISTINCT FROM step THEN RETURN e; END IF;

    e.refusal := NULL;
    e.reason := coalesce(skald.short_text(headers->>'x-saga-reason'), '');
    IF skald.is_instant(headers->>'skald-waits-since') THEN e.waits_since := headers->>'skald-waits-since'; END IF;
    IF skald.is_traceparent(headers->>'traceparent') THEN
        e.traceparent := headers->>'traceparent';
        IF octet_length(headers->>'tracestate') <= 512 AND headers->>'tracestate' !~ '[^\x20-\x7e]' THEN
            e.tracestate := nullif(headers->>'tracestate', '');
        END IF;
    END IF;
    e.kept := headers->>'skald-body';
    RETURN e;
END $$;

-- The name by which the guard knows the envelope's step, and whether its saga can only go forward from here.
CREATE FUNCTION skald.guarded_step(e skald.envelope) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT e.names[e.place] || CASE WHEN e.is_back THEN '.compensate' ELSE '' END $$;

CREATE FUNCTION skald.is_past_pivot(e skald.envelope) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$ SELECT e.kinds[e.place] = 'retriable' $$;

-- From when on the step must not begin.
CREATE FUNCTION skald.deadline_of(e skald.envelope) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN NOT e.is_back AND NOT skald.is_past_pivot(e) THEN least(e.saga_deadline COLLATE "C", e.step_deadline COLLATE "C") END $$;

-- The message to the service of the envelope's step, but for its body.
CREATE FUNCTION skald.message_of(e skald.envelope) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    id text := e.key || ':' || skald.guarded_step(e);
BEGIN
    RETURN jsonb_build_object('destination', e.services[e.place], 'type', e.names[e.place], 'id', id, 'headers',
        jsonb_strip_nulls(jsonb_build_object(
            'x-idempotency-key', id, 'x-saga-scope', e.scope, 'x-saga', e.definition, 'x-saga-version', e.version::text,
            'x-saga-itinerary', concat(CASE WHEN e.is_back THEN 'back ' ELSE 'forward ' END, e.place, '/', cardinality(e.names), ' ', e.plan),
            'x-saga-home', e.home, 'x-attempt', e.attempt::text, 'x-saga-reason', nullif(e.reason, ''),
            'x-snoozes', nullif(greatest(e.snoozes, 0), 0)::text, 'x-saga-deadline', e.saga_deadline, 'x-step-deadline', e.step_deadline,
            'skald-waits-since', e.waits_since, 'traceparent', e.traceparent, 'tracestate', e.tracestate, 'skald-body', e.kept)));
END $$;

-- The highest wait after so many failures: doubled each time, up to the longest.
CREATE FUNCTION skald.longest_wait(first_ms bigint, longest_ms bigint, failures integer) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    doublings integer := least(greatest(failures, 1), 63) - 1;
BEGIN
    RETURN CASE WHEN first_ms > longest_ms >> doublings THEN longest_ms ELSE first_ms << doublings END;
END $$;

-- What follows from a delivery: by what its claim said, and by how its step ended. Nothing is read and nothing is written here. Of `step`,
-- what the participant has said of it (skald.host). `ended`: {end: done, rejected, snoozed, failed or unrunnable, why, ...}; NULL where it
-- did not run. `began_at`: when it was first claimed here; `at`: now. `luck`: 0 to 1, of a wait how much of it.
--
-- The answer: `event`, as the C++ logs it, and `why`; and what there is of `record`, `next` (a message: `delay_ms`, and `data` where it is
-- the step's and not what came), `report` (`is_recorded`: the guard's record says so too) and `parked`.
CREATE FUNCTION skald.follow(e skald.envelope, step jsonb, result text, attempts integer, held boolean, cause text, reason text,
                             ended jsonb, service text, began_at timestamptz, at timestamptz, luck double precision) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    ending   text := ended->>'end';
    why      text := coalesce(ended->>'why', '');
    for_deploy bigint := coalesce((ended->>'for_deploy_ms')::bigint, 0);
    is_last  boolean := e.attempt + e.snoozes >= 1000000000;
    event    text;
    error    text;      -- of the event
    moved_by     text;      -- what the saga's state moves by: completed, rejected, cancelled or exhausted
    again    skald.envelope := e;
    wait     bigint;    -- of a message that comes again
    waited   bigint;
    tried    integer;   -- attempts made, of one that is tried again
    status   text;
    recorded   jsonb;
    follows     jsonb;
    parked   jsonb;
    saga     text := 'running';
    is_news  boolean := false;
    is_recorded boolean := held;
    reported integer := attempts;
    said     text := e.reason;  -- with the saga's state
    version  integer := e.version;
    report   jsonb;
BEGIN
    IF ending = 'rejected' AND (e.is_back OR skald.is_past_pivot(e)) THEN
        -- A fault of the step's code. It must cost this delivery its attempts, and no other.
        ending := 'failed';
        why := format('%s can''t be rejected, %s: %s', skald.guarded_step(e),
                      CASE WHEN e.is_back THEN 'it is a compensation' ELSE 'its saga can only go forward' END, why);
    END IF;
    IF result IN ('in_flight', 'paused') THEN
        follows := skald.message_of(e) || jsonb_build_object('delay_ms', CASE result WHEN 'paused' THEN 5000 ELSE 1000 END);
        RETURN jsonb_build_object('event', 'step.put_back', 'next', follows);
    ELSIF result = 'closed' THEN
        ending := 'unwanted';
        why := 'its saga was closed by an operator before this delivery was processed';
    ELSIF NOT held AND (result = 'duplicate' AND ending = 'unrunnable' AND ended->>'reason' = 'transaction_ended') IS NOT TRUE THEN
        IF cause = 'home' THEN
            why := 'here the key ' || e.key || ' is that of a saga of ' || reason;
            IF NOT e.is_back AND skald.is_past_pivot(e) THEN
                ending := 'unwanted';
            ELSE
                moved_by := CASE WHEN e.is_back THEN 'cancelled' ELSE 'rejected' END;
                event := 'step.rejected';
            END IF;
        ELSIF ending = 'unrunnable' AND for_deploy = 0 AND ended->>'reason' <> 'delivery_limit' OR result = 'mismatch' THEN
            IF ending IS DISTINCT FROM 'unrunnable' OR for_deploy > 0 THEN
                ended := jsonb_build_object('reason', 'mismatch');
                why := 'the key was used before with another body';
            END IF;
            RETURN jsonb_build_object('event', 'delivery.parked', 'why', why,
                                      'parked', jsonb_build_object('reason', ended->>'reason', 'error', why, 'attempts', 0));
        ELSE
            RETURN jsonb_build_object('event', 'step.duplicate');
        END IF;
    ELSIF result = 'cancelled' AND (ending IS DISTINCT FROM 'unrunnable' OR for_deploy > 0
                                    OR (cause IN ('operator', 'deadline') AND ended->>'reason' <> 'transaction_ended')) THEN
        moved_by := 'cancelled';
        why := reason;
        event := 'step.cancelled';
    ELSIF ending = 'done' THEN
        moved_by := 'completed';
        why := '';
        version := coalesce((ended->>'version')::integer, version);
        event := 'step.completed';
    ELSIF ending = 'rejected' THEN
        moved_by := 'rejected';
        event := 'step.rejected';
    ELSIF ending = 'snoozed' AND NOT is_last THEN
        tried := attempts - 1;
        why := 'snoozed';
        wait := least(greatest((ended->>'wait_ms')::bigint, 1), 31556952000000);
        error := '';
        event := 'step.snoozed';
    ELSIF ending = 'failed' AND NOT is_last AND attempts < coalesce((step->>'attempts')::integer, 8) THEN
        tried := attempts;
        wait := skald.longest_wait(coalesce((step->>'first_ms')::bigint, 200), coalesce((step->>'longest_ms')::bigint, 30000), attempts);
        wait := least(floor(luck * (wait + 1)), wait, 31556952000000);
        event := 'step.failed';
    ELSIF ending = 'unrunnable' THEN
        waited := greatest(floor(extract(epoch FROM at - e.waits_since::timestamptz) * 1000), 0);
        IF waited < for_deploy AND NOT is_last THEN
            tried := attempts - 1;
            wait := least(greatest(waited / 4, 200), 10000) / 2;
            wait := least(wait + least(floor(luck * (wait + 1)), wait), for_deploy - waited, 31556952000000);
            again.waits_since := coalesce(e.waits_since, skald.instant(at));
            event := 'step.awaits_deploy';
            error := why;
            why := 'waits for a process that has it: ' || why;
        END IF;
    ELSE
        IF ending = 'snoozed' THEN why := 'it was snoozed or retried as often as can be counted'; END IF;
        moved_by := 'exhausted';
        event := 'step.attempts_exhausted';
    END IF;
    error := coalesce(error, why);

    IF ending = 'unwanted' THEN
        -- Its saga waits for it, and the guard has no record that says so.
        parked := jsonb_build_object('reason', CASE result WHEN 'closed' THEN 'closed' ELSE 'mismatch' END, 'error', why, 'attempts', 0);
        event := 'delivery.parked';
        status := 'parked';
        saga := 'stuck';
        is_news := true;
        is_recorded := false;
        reported := 0;
        said := why;
    ELSIF moved_by IS NOT NULL THEN
        status := CASE moved_by WHEN 'exhausted' THEN CASE WHEN e.is_back OR skald.is_past_pivot(e) THEN 'parked' ELSE 'rejected' END ELSE moved_by END;
        IF status = 'parked' THEN
            saga := 'stuck';
            event := 'step.parked';
            parked := jsonb_build_object('reason', 'attempts_exhausted', 'error', why, 'attempts', e.attempt);
        ELSIF status = 'completed' AND NOT e.is_back THEN
            IF e.place = cardinality(e.names) THEN saga := 'completed'; ELSE again.place := e.place + 1; END IF;
        ELSIF e.place = 1 THEN
            saga := 'compensated';
        ELSE
            saga := 'compensating';
            again.is_back := true;
            again.place := e.place - 1;
        END IF;
        -- If it compensates, a last failure is recorded like a rejection.
        IF moved_by = 'exhausted' AND status = 'rejected' THEN why := 'failed its last attempt: ' || why; END IF;
        IF held AND (status <> 'completed' OR result <> 'fresh') THEN
            recorded := jsonb_build_object('status', status, 'attempts', attempts, 'snoozes', 0, 'error', why);
        END IF;
        said := CASE WHEN e.reason = '' THEN skald.short_text(why) ELSE e.reason END;
        IF saga IN ('running', 'compensating') THEN
            again.reason := said;
            again.version := version;
            again.attempt := 1;
            again.snoozes := 0;
            again.step_deadline := NULL;
            again.waits_since := NULL;
            IF ending = 'done' THEN again.kept := NULL; END IF;
            follows := skald.message_of(again) || jsonb_build_object('delay_ms', 0);
        END IF;
        is_news := saga <> 'running' OR result <> 'fresh';
    ELSIF tried IS NOT NULL THEN
        IF event <> 'step.awaits_deploy' THEN again.waits_since := NULL; END IF;
        again.attempt := tried + 1;
        again.snoozes := e.attempt + e.snoozes + 1 - again.attempt;
        IF again.waits_since IS NULL AND (step->>'deadline_ms')::bigint > 0 THEN
            again.step_deadline := coalesce(e.step_deadline, skald.instant(began_at + (step->>'deadline_ms')::bigint * interval '1 millisecond'));
        END IF;
        IF skald.deadline_of(again) IS NOT NULL THEN
            wait := greatest(least(ceil(extract(epoch FROM skald.deadline_of(again)::timestamptz - at) * 1000), wait), 0);
        END IF;
        status := 'retrying';
        reported := tried;
        recorded := jsonb_build_object('status', status, 'attempts', tried, 'snoozes', (event <> 'step.failed')::integer, 'error', why);
        follows := skald.message_of(again) || jsonb_build_object('delay_ms', wait);
    ELSE
        -- It can't be run. A delivery that was wrong, or whose body is missing, has made no attempt.
        status := 'parked';
        saga := 'stuck';
        event := 'step.parked';
        is_news := true;
        is_recorded := true;
        reported := attempts - (ended->>'reason' IN ('malformed', 'unknown_step', 'body_missing', 'body_damaged'))::integer;
        said := why;
        recorded := jsonb_build_object('status', status, 'attempts', reported, 'snoozes', 0, 'error', why,
                                     'drop_fingerprint', ended->>'reason' IN ('malformed', 'unknown_step'));
        parked := jsonb_build_object('reason', ended->>'reason', 'error', why, 'attempts', e.attempt);
    END IF;

    IF e.home <> service OR NOT is_recorded OR is_news THEN
        report := jsonb_build_object('scope', e.scope, 'key', e.key, 'step', skald.guarded_step(e), 'service', service, 'status', status,
                                     'attempts', reported, 'at', skald.instant(at));
        IF why <> '' THEN report := report || jsonb_build_object('error', skald.short_text(why)); END IF;
        IF is_news THEN
            report := report || jsonb_strip_nulls(jsonb_build_object('saga', saga, 'reason', skald.short_text(nullif(said, ''))));
        END IF;
        report := jsonb_build_object('member', report, 'is_recorded', is_recorded, 'version', version);
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object('event', event, 'why', nullif(error, ''), 'record', recorded, 'next', follows, 'report', report,
                                                'parked', parked));
END $$;

-- Why a body is not JSON that every reader understands in the same way; NULL if it is. Strings are taken out of it, so that what remains
-- shows its members and its levels. (detail::parse_checked)
CREATE FUNCTION skald.why_not_data(body bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    whole  text;
    read   jsonb;
    bare   text;
    levels text;
    number text;
BEGIN
    whole := regexp_replace(convert_from(body, 'UTF8'), U&'^\FEFF', '');
    read := whole;
    bare := regexp_replace(whole, '"(?:[^"\\]|\\.)*"', '', 'g');
    IF length(bare) - length(replace(bare, ':', '')) <>
       (SELECT length(b) - length(replace(b, ':', '')) FROM regexp_replace(read::text, '"(?:[^"\\]|\\.)*"', '', 'g') AS r(b)) THEN
        RETURN 'the body is not JSON that Skald accepts: a name twice in one object';
    END IF;
    levels := translate(translate(bare, translate(bare, '[]{}', ''), ''), '{}', '[]');
    FOR level IN 1..64 LOOP
        EXIT WHEN levels = '';
        levels := replace(levels, '[]', '');  -- the innermost ones
    END LOOP;
    IF levels <> '' THEN RETURN 'the body is not JSON that Skald accepts: nesting deeper than 64 levels'; END IF;
    IF bare ~ '[eE]|[0-9]{16}' THEN
        FOR number IN SELECT m[1] FROM regexp_matches(bare, '(-?[0-9][0-9.eE+-]*)', 'g') AS m LOOP
            IF number !~ '[.eE]' AND number::numeric NOT BETWEEN -9223372036854775808 AND 18446744073709551615 THEN
                RETURN 'the body is not JSON that Skald accepts: a whole number beyond 64 bits: ' || number;
            ELSIF number ~ '[.]' AND number !~ '[eE]' AND abs(number::float8) >= 9007199254740992 THEN
                RETURN 'the body is not JSON that Skald accepts: more digits than a double holds: ' || number;
            ELSIF number ~ '[eE]' AND abs(number::numeric) >= 1.7976931348623158e308 THEN
                RETURN 'the body is not JSON that Skald accepts: more than a double holds: ' || number;
            END IF;
        END LOOP;
    END IF;
    RETURN NULL;
EXCEPTION WHEN data_exception OR statement_too_complex THEN
    RETURN 'the body is not JSON that Skald accepts: ' || SQLERRM;
END $$;

-- A delivery that is to be parked, as it came. The same one again is the same row, in whatever order its headers are.
CREATE FUNCTION skald.parked_as(message jsonb, body bytea, of_scope text, of_key text, of_step text, reason text, error text, attempts integer)
RETURNS skald.parked
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ROW(0, skald.short_text(of_scope), of_key, of_step, reason, coalesce(skald.short_text(error), ''), skald.short_text(message->>'id'),
               skald.short_text(message->>'type'), skald.short_text(message->>'content_type'), body, h.headers, attempts, sha256(convert_to(concat(octet_length(i.id), ':', i.id, octet_length(body), ':'), 'UTF8') || body), NULL, '')::skald.parked
      FROM (SELECT coalesce(jsonb_object_agg(key, value), '{}') AS headers,
                   string_agg(E'\n' || key || ': ' || value, '' ORDER BY key COLLATE "C") AS text
              FROM jsonb_each_text(message->'headers') WHERE value IS NOT NULL) AS h
     CROSS JOIN LATERAL (SELECT concat(message->>'id', E'\n', message->>'type', E'\n', message->>'content_type', h.text)) AS i(id)
$$;

-- Writes what skald.follow() says, in the caller's transaction. `body` is what came, `data` what the step has made of it.
CREATE FUNCTION skald.carry_out(f jsonb, e skald.envelope, message jsonb, body bytea, data bytea DEFAULT NULL) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    step   text := skald.guarded_step(e);
    r      jsonb := f->'record';
    report jsonb := f->'report';
    member jsonb := f->'report'->'member';
    n      jsonb := f->'next';
    id     text := concat(e.key, ':', step, '.progress');
BEGIN
    IF r IS NOT NULL THEN
        UPDATE skald.idempotency i
           SET status = (r->>'status')::skald.step_status, attempts = (r->>'attempts')::integer, snoozes = i.snoozes + (r->>'snoozes')::integer,
               error = nullif(skald.short_text(r->>'error'), ''),
               fingerprint = CASE WHEN (r->>'drop_fingerprint')::boolean THEN NULL ELSE i.fingerprint END, updated_at = clock_timestamp()
         WHERE (i.scope, i.key, i.step) = (e.scope, e.key, step);
        IF NOT FOUND THEN PERFORM skald.assert_written('skald.idempotency', 1, 0); END IF;
    END IF;
    IF e.home = (SELECT s.name FROM skald.service s) AND report IS NOT NULL THEN
        IF (report->>'is_recorded')::boolean THEN
            PERFORM skald.advance(e.scope, e.key, member->>'saga', member->>'reason');
        ELSE
            PERFORM skald.record_progress(jsonb_build_array(member));
        END IF;
    END IF;
    IF f ? 'parked' THEN
        PERFORM skald.park(skald.parked_as(message, body, e.scope, e.key, step, f->'parked'->>'reason', f->'parked'->>'error',
                                           (f->'parked'->>'attempts')::integer));
    END IF;
    IF n IS NOT NULL THEN
        PERFORM skald.enqueue(n->>'destination', n->>'type', n->>'id', coalesce(data, body), n->'headers', e.scope,
                              (n->>'delay_ms')::bigint * interval '1 millisecond', aggregatetype => e.definition, aggregateid => e.key);
    END IF;
    IF e.home <> (SELECT s.name FROM skald.service s) AND report IS NOT NULL THEN
        PERFORM skald.enqueue(e.home, 'skald.progress', id, convert_to(jsonb_build_array(member)::text, 'UTF8'),
                              jsonb_strip_nulls(jsonb_build_object('x-idempotency-key', id, 'x-saga-scope', e.scope, 'x-saga', e.definition,
                                  'x-saga-version', report->>'version', 'traceparent', e.traceparent, 'tracestate', e.tracestate)),
                              e.scope, aggregatetype => e.definition, aggregateid => e.key);
    END IF;
END $$;

-- Writes it in a transaction that has no work of the step's, and ends the delivery. What PostgreSQL refuses because of its content it would
-- refuse each time: the delivery is parked then. Returns what happened, and why.
CREATE FUNCTION skald.conclude(f jsonb, e skald.envelope, held boolean, message jsonb, body bytea, OUT event text, OUT why text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    step text := skald.guarded_step(e);
BEGIN
    event := f->>'event';
    why := f->>'why';
    BEGIN
        PERFORM skald.carry_out(f, e, message, body);
    EXCEPTION WHEN data_exception OR check_violation OR not_null_violation OR program_limit_exceeded THEN
        event := 'step.parked';
        why := SQLERRM;
        IF held THEN  -- as it was claimed, it is `completed`
            UPDATE skald.idempotency i SET status = 'retrying' WHERE (i.scope, i.key, i.step) = (e.scope, e.key, step);
        END IF;
        PERFORM skald.park_unreadable(skald.parked_as(message, body, e.scope, e.key, step, 'unprocessable', why, e.attempt));
    END;
    PERFORM set_config('skald.is_open', 'off', true);
    IF NOT held THEN PERFORM skald.wait_for_standbys(); END IF;
END $$;

-- Why a command can't be read; NULL if it can. (core::read_command)
CREATE FUNCTION skald.why_not_command(c jsonb) RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE WHEN jsonb_typeof(c) <> 'object' THEN 'a command is a JSON object'
                WHEN w.wrong IS NOT NULL THEN format('the command''s %s is missing or malformed', w.wrong)
                WHEN (c->>'action' = 'retry') <> (c ? 'step') THEN 'a command to retry names its step, and no other command does' END
      FROM (SELECT (array_agg(m.name ORDER BY m.o))[1]
              FROM (VALUES (1, 'id', true), (2, 'scope', true), (3, 'key', true), (4, 'home', true), (5, 'action', true), (6, 'by', true),
                           (7, 'requested_at', true), (8, 'reason', false), (9, 'step', false), (10, 'act', false)) AS m(o, name, required)
             WHERE CASE WHEN NOT c ? m.name THEN m.required
                        WHEN jsonb_typeof(c->m.name) <> 'string' THEN true
                        ELSE NOT CASE m.name
                             WHEN 'id' THEN c->>'id' ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                             WHEN 'scope' THEN octet_length(c->>'scope') <= 64
                             WHEN 'key' THEN octet_length(c->>'key') BETWEEN 1 AND 180 AND c->>'key' !~ '[^\x20-\x7e]'
                             WHEN 'home' THEN skald.is_name(c->>'home')
                             WHEN 'action' THEN c->>'action' IN ('pause', 'resume', 'cancel', 'retry', 'close')
                             WHEN 'requested_at' THEN skald.is_instant(c->>'requested_at')
                             WHEN 'step' THEN skald.is_name(regexp_replace(c->>'step', '\.compensate$', ''))
                             WHEN 'act' THEN skald.is_name(split_part(c->>'act', '/', 1)) AND c->>'act' ~ '^[^/]*/[0-9]{1,19}$'
                             ELSE octet_length(c->>m.name) <= 4000 END END) AS w(wrong)
$$;

-- What Skald itself sends to a service: reports to a home, commands, requests to expire. Returns why it can't be taken, or NULL.
CREATE FUNCTION skald.take_own(type text, body bytea) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wrong text := skald.why_not_data(body);
    said  jsonb;
BEGIN
    IF wrong IS NOT NULL THEN RETURN wrong; END IF;
    said := regexp_replace(convert_from(body, 'UTF8'), U&'^\FEFF', '');
    IF type = 'skald.control' THEN
        wrong := skald.why_not_command(said);
        IF wrong IS NULL THEN
            PERFORM skald.take_control((SELECT jsonb_object_agg(m.key, m.value) FROM jsonb_each(said) AS m
                WHERE m.key IN ('id', 'scope', 'key', 'home', 'action', 'by', 'requested_at', 'reason', 'step', 'act')));
        END IF;
        RETURN wrong;
    END IF;
    IF jsonb_typeof(said) <> 'array' OR said = '[]' OR jsonb_path_exists(said, 'strict $[*] ? (@.type() != "object")') THEN
        RETURN 'a message ' || type || ' is a JSON array of one object or more';
    END IF;
    CASE type WHEN 'skald.progress' THEN PERFORM skald.record_progress(said);
              WHEN 'skald.expire' THEN PERFORM skald.record_ended(said);
              WHEN 'skald.expired' THEN PERFORM skald.record_expired(said);
              WHEN 'skald.signal' THEN PERFORM skald.take_signals(said); END CASE;
    RETURN NULL;
EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
    RETURN SQLERRM;
END $$;

-- Whether a participant has the step of a message: NULL, or how the message ends. `mine` is what it says of that step, if it has it.
CREATE FUNCTION skald.why_not_hosted(e skald.envelope, service text, mine jsonb, deploy_wait interval) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    why   text;
    waits boolean := e.services[e.place] = service;
BEGIN
    IF NOT waits OR mine IS NULL THEN
        why := format('service %s hosts no step %s of %s', service, e.names[e.place], e.definition);
    ELSIF e.version > coalesce((mine->>'version')::integer, 1) THEN
        why := format('the message is of version %s of %s, and this process knows up to %s', e.version, e.definition,
                      coalesce(mine->>'version', '1'));
    ELSIF mine->>'kind' IS DISTINCT FROM e.kinds[e.place] THEN
        why := format('the itinerary gives step %s another kind than this service', e.names[e.place]);
        waits := false;
    ELSE
        RETURN NULL;
    END IF;
    RETURN jsonb_build_object('end', 'unrunnable', 'reason', 'unknown_step', 'why', why, 'for_deploy_ms',
                              CASE WHEN waits THEN floor(extract(epoch FROM deploy_wait) * 1000) ELSE 0 END);
END $$;

-- Refuses a transaction in which nothing can be taken, and sets in it what a session of the C++ has (queries/session.sql). A weaker
-- synchronous_commit could lose a step whose delivery is acked; a statement whose client has gone ends within a second, and its claim with
-- it, and no claim is kept for ever otherwise; the warning comes that a COMMIT has not waited for its standbys. A pooler would lose, or refuse,
-- what clients set when they connect.
CREATE FUNCTION skald.enter_transaction() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'take in a READ COMMITTED transaction: this one is %', upper(current_setting('transaction_isolation'))
              USING ERRCODE = 'invalid_transaction_state';
    END IF;
    IF current_setting('skald.is_open', true) IN ('on', 'armed') THEN
        RAISE EXCEPTION 'something else was taken in this transaction, and has not ended'
              USING ERRCODE = 'invalid_transaction_state', HINT = 'End it with skald.done() or skald.respond(), or roll back.';
    END IF;
    PERFORM set_config('client_connection_check_interval', '1s', true),
            set_config('lock_timeout', '5s', true),
            set_config('statement_timeout', '30s', true),
            set_config('idle_in_transaction_session_timeout', '30s', true),
            CASE WHEN current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN set_config('synchronous_commit', 'on', true) END,
            CASE WHEN current_setting('client_min_messages') = 'error' THEN set_config('client_min_messages', 'warning', true) END;
END $$;

-- The claim of an envelope's step. COMMIT fails from here on, until what follows has been written (0003_open.sql).
CREATE FUNCTION skald.claim_step(e skald.envelope, fingerprint bytea, wait_ms integer)
RETURNS TABLE (ord integer, result text, attempts integer, held boolean, cause text, reason text)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    deadline text := skald.deadline_of(e);
    ignored  text := set_config('skald.is_open', 'on', true);
BEGIN
    RETURN QUERY SELECT * FROM skald.claim(
        ARRAY[e.scope], ARRAY[e.key], ARRAY[skald.guarded_step(e)], ARRAY[fingerprint], ARRAY[e.attempt + e.snoozes],
        ARRAY[skald.is_past_pivot(e)], wait_ms, CASE WHEN deadline IS NOT NULL THEN ARRAY[deadline::timestamptz] END, ARRAY[e.home]);
END $$;

-- What is recorded of a step may have been committed on this node alone: whoever acts on it waits until the standbys have it too.
CREATE FUNCTION skald.wait_for_standbys() RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$ SELECT pg_logical_emit_message(true, 'skald', '') WHERE current_setting('synchronous_standby_names') <> '' $$;

-- Takes a delivery, first of all in a transaction. `verdict`:
--   run   the step is to run: do its work in this transaction, end it with skald.done(), COMMIT, and ack. If it does not end well, ROLLBACK,
--         and skald.reject(), snooze(), fail() or give_up() it, which is a transaction of its own; then ack.
--   ack   nothing is to run, and what had to be written is: COMMIT, and ack. `event` and `why` say what it was.
-- `type` and `content_type` are the message's properties, `headers` its headers as text. `steps`: what this process has, as skald.host()
-- was told. `given_up`: it is in `skald.SERVICE.parked` by the delivery limit. `taken` is for the functions that end it.
CREATE FUNCTION skald.take(
    type text, headers jsonb, body bytea, steps jsonb, message_id text DEFAULT NULL, content_type text DEFAULT NULL,
    given_up boolean DEFAULT false, wait_ms integer DEFAULT 5000, deploy_wait interval DEFAULT '15 min',
    OUT verdict text, OUT event text, OUT why text, OUT scope text, OUT key text, OUT definition text, OUT version integer,
    OUT step text, OUT is_compensation boolean, OUT attempt integer, OUT data jsonb, OUT taken jsonb)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    own     text;
    message jsonb;
    e       skald.envelope;
    mine    jsonb;
    print   bytea;
    refused jsonb;
    claim   record;
    at      timestamptz;
    f       jsonb;
BEGIN
    PERFORM skald.enter_transaction();
    own := (SELECT s.name FROM skald.service s);
    IF own IS NULL THEN
        RAISE EXCEPTION 'no service owns this database yet' USING HINT = 'Run `skald migrate --service NAME`.';
    END IF;
    IF jsonb_typeof(headers) IS DISTINCT FROM 'object' OR body IS NULL THEN
        RAISE EXCEPTION 'take() needs the headers as a JSON object, and the body' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    verdict := 'ack';
    headers := headers - ARRAY['CC', 'BCC', 'x-death', 'x-delivery-count', 'x-acquired-count', 'x-opt-rabbitmq-delivery-time',
                               'x-first-death-exchange', 'x-first-death-queue', 'x-first-death-reason', 'x-last-death-exchange',
                               'x-last-death-queue', 'x-last-death-reason'];
    message := jsonb_build_object('type', coalesce(type, ''), 'headers', headers, 'content_type', coalesce(content_type, 'application/json'),
                                  'id', coalesce(message_id, headers->>'x-idempotency-key', ''));
    IF headers ? 'skald-body' THEN
        IF type LIKE 'skald.%' THEN why := 'its body is kept elsewhere: only a step''s or a handler''s may be';
        ELSIF body <> '' OR headers->>'skald-body' !~ '^sha256:[0-9a-f]{64};size=[0-9]+(;store=.*)?$'
              OR substring(headers->>'skald-body' FROM 'size=([0-9]+)')::numeric > 67108864 THEN
            why := 'header skald-body is malformed, is given twice, or comes with a body';
        END IF;
    END IF;
    IF why IS NULL AND type IN ('skald.progress', 'skald.expire', 'skald.expired', 'skald.signal', 'skald.control') THEN
        why := skald.take_own(type, body);
        IF why IS NULL THEN
            event := CASE type WHEN 'skald.control' THEN 'saga.command_taken' ELSE 'report.taken' END;
            RETURN;
        END IF;
    ELSIF why IS NULL THEN
        e := skald.read_envelope(type, headers);
        why := e.refusal;
    END IF;
    IF why IS NOT NULL THEN
        event := 'delivery.parked';
        SELECT m[1], m[2] INTO key, step
          FROM regexp_match(headers->>'x-idempotency-key', '^([\x20-\x7e]+):([a-z][a-z0-9-]*(?:\.compensate)?)$') AS m
         WHERE octet_length(m[1]) <= 180 AND octet_length(split_part(m[2], '.', 1)) <= 48;
        scope := CASE WHEN key IS NULL THEN '' ELSE coalesce(headers->>'x-saga-scope', '') END;
        PERFORM skald.park_unreadable(skald.parked_as(message, body, scope, coalesce(key, ''), coalesce(step, ''), 'malformed', why, 0));
        RETURN;
    END IF;

    scope := e.scope;
    key := e.key;
    definition := e.definition;
    version := e.version;
    step := e.names[e.place];
    is_compensation := e.is_back;
    mine := steps->(definition || '/' || step);
    IF given_up THEN
        refused := '{"end": "unrunnable", "reason": "delivery_limit", "why": "the broker stopped delivering it: it came back too often"}';
    ELSE
        refused := skald.why_not_hosted(e, own, mine, deploy_wait);
    END IF;
    print := CASE WHEN e.kept IS NULL THEN sha256(body) ELSE decode(substr(e.kept, 8, 64), 'hex') END;
    SELECT * INTO STRICT claim FROM skald.claim_step(e, print, wait_ms);
    at := clock_timestamp();
    attempt := claim.attempts;
    IF claim.result IN ('fresh', 'retry') AND refused IS NULL THEN
        IF e.kept IS NOT NULL THEN
            refused := jsonb_build_object('end', 'unrunnable', 'reason', 'body_missing', 'why',
                format('its body is kept apart (%s), and a participant reads none there: host its step in C++, or send less', e.kept));
        ELSE
            why := skald.why_not_data(body);
            refused := jsonb_build_object('end', 'unrunnable', 'reason', 'malformed', 'why', nullif(why, ''));
            IF why IS NULL THEN refused := NULL; END IF;
        END IF;
        IF refused IS NULL THEN
            verdict := 'run';
            data := regexp_replace(convert_from(body, 'UTF8'), U&'^\FEFF', '');
            taken := jsonb_build_object('message', message, 'kind', jsonb_typeof(data), 'step', coalesce(mine, '{}'),
                                        'result', claim.result, 'attempts', claim.attempts,
                                        'at', skald.instant(at), 'transaction', pg_current_xact_id()::text, 'fingerprint', encode(print, 'hex'));
            RETURN;
        END IF;
    END IF;
    f := skald.follow(e, mine, claim.result, claim.attempts, claim.held, claim.cause, claim.reason, refused, own, at, at, random());
    SELECT c.event, c.why INTO event, why FROM skald.conclude(f, e, claim.held, message, body) AS c;
END $$;

-- The step that was taken in this transaction is done: what follows is written, and COMMIT makes all of it true. `data` goes on to the next
-- step: what came, or what the step has made of it. `version`: of which it is, if the step has brought older data up to date.
CREATE FUNCTION skald.done(taken jsonb, data bytea, version integer DEFAULT NULL) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    e     skald.envelope := skald.read_envelope(taken->'message'->>'type', taken->'message'->'headers');
    at    timestamptz := taken->>'at';
    wrong text := skald.why_not_data(data);
BEGIN
    PERFORM skald.assert_taken(taken);
    IF data IS NULL OR wrong IS NOT NULL THEN
        RAISE EXCEPTION 'done() needs the data for the next step: %', coalesce(wrong, 'pass what came if the step does not change it')
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Such as what a step returns by accident: the next service could not read it, and the compensation neither.
    IF taken->>'kind' = 'object' AND ltrim(convert_from(data, 'UTF8'), U&'\FEFF' || E' \t\r\n') NOT LIKE '{%' THEN
        RAISE EXCEPTION 'the saga''s data are an object, and what the step makes of them is none: the next step could not read it'
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM skald.carry_out(
        skald.follow(e, taken->'step', taken->>'result', (taken->>'attempts')::integer, true, NULL, NULL,
                     jsonb_strip_nulls(jsonb_build_object('end', 'done', 'version', version)), (SELECT s.name FROM skald.service s), at, at, 0),
        e, taken->'message', NULL, data);
    PERFORM set_config('skald.is_open', 'off', true);
END $$;

-- Fails unless this is the transaction in which it was taken, and it has not ended.
CREATE FUNCTION skald.assert_taken(taken jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (taken->>'transaction') IS NULL THEN
        RAISE EXCEPTION 'this is not what skald.take() gave as `taken`' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM skald.assert_transaction((taken->>'transaction')::xid8);
    IF coalesce(current_setting('skald.is_open', true), '') NOT IN ('on', 'armed') THEN
        RAISE EXCEPTION 'the delivery has ended already' USING ERRCODE = 'invalid_transaction_state';
    END IF;
END $$;

-- Ends a step whose run was rolled back: claims it again, for it may have been decided meanwhile, and writes what follows. `body` is what
-- came. Returns what happened, as take() does.
CREATE FUNCTION skald.end_rolled_back(taken jsonb, body bytea, ended jsonb) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    own   text;
    e     skald.envelope := skald.read_envelope(taken->'message'->>'type', taken->'message'->'headers');
    print bytea := decode(taken->>'fingerprint', 'hex');
    claim record;
    at    timestamptz;
    f     jsonb;
BEGIN
    IF (taken->>'transaction') IS NULL THEN
        RAISE EXCEPTION 'this is not what skald.take() gave as `taken`' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF taken->>'transaction' = pg_current_xact_id_if_assigned()::text THEN
        RAISE EXCEPTION 'the transaction in which % was taken is still open', skald.guarded_step(e)
              USING ERRCODE = 'invalid_transaction_state', HINT = 'ROLLBACK first: what the step wrote must be undone.';
    END IF;
    IF sha256(body) IS DISTINCT FROM print THEN
        RAISE EXCEPTION 'this is not the body that came with %', skald.guarded_step(e)
              USING ERRCODE = 'invalid_parameter_value', HINT = 'Pass the bytes that take() was given.';
    END IF;
    PERFORM skald.enter_transaction();
    own := (SELECT s.name FROM skald.service s);
    SELECT * INTO STRICT claim FROM skald.claim_step(e, print, 5000);
    at := clock_timestamp();
    f := skald.follow(e, taken->'step', claim.result, claim.attempts, claim.held, claim.cause, claim.reason, ended, own,
                      (taken->>'at')::timestamptz, at, random());
    RETURN (skald.conclude(f, e, claim.held, taken->'message', body)).event;
END $$;

-- A business rejection: the saga compensates. Of a compensation, or after the pivot, it is a failure.
CREATE FUNCTION skald.reject(taken jsonb, body bytea, reason text) RETURNS text
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$ SELECT skald.end_rolled_back(taken, body, jsonb_build_object('end', 'rejected', 'why', coalesce(reason, ''))) $$;

-- Not yet: the same step later. It uses no attempt.
CREATE FUNCTION skald.snooze(taken jsonb, body bytea, wait interval) RETURNS text
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$ SELECT skald.end_rolled_back(taken, body, jsonb_build_object('end', 'snoozed', 'wait_ms', ceil(extract(epoch FROM wait) * 1000))) $$;

-- Something broke: another attempt after a random wait, until they are used up.
CREATE FUNCTION skald.fail(taken jsonb, body bytea, error text) RETURNS text
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$ SELECT skald.end_rolled_back(taken, body, jsonb_build_object('end', 'failed', 'why', coalesce(error, ''))) $$;

-- It can't be run, now or ever: parked, and its saga is stuck until an operator has looked. `reason`: `malformed` (its data does not fit)
-- or `transaction_ended` (the step ran COMMIT or ROLLBACK itself).
CREATE FUNCTION skald.give_up(taken jsonb, body bytea, reason text, error text) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF reason IS NULL OR reason NOT IN ('malformed', 'transaction_ended') THEN
        RAISE EXCEPTION 'a step is given up as `malformed` or `transaction_ended`, not as `%`', reason USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN skald.end_rolled_back(taken, body, jsonb_build_object('end', 'unrunnable', 'reason', reason, 'why', coalesce(error, '')));
END $$;

-- A message of the step's own, sent if the step commits. `if_unrouted`: what happens to it if no queue is bound: `keep` or `drop`.
CREATE FUNCTION skald.publish(taken jsonb, destination text, type text, payload bytea, if_unrouted text DEFAULT 'keep') RETURNS bigint
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    e      skald.envelope := skald.read_envelope(taken->'message'->>'type', taken->'message'->'headers');
    number integer;
    id     text;
BEGIN
    PERFORM skald.assert_taken(taken);
    IF coalesce(type, '') = '' OR strpos(type, ':') > 0 THEN
        RAISE EXCEPTION 'the type of a published message must not be empty or have a '':''' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Numbered, so that no two share a key. If the step goes back to a savepoint, so does the number.
    number := coalesce(nullif(current_setting('skald.published', true), ''), '0')::integer + 1;
    PERFORM set_config('skald.published', number::text, true);
    id := concat(e.key, ':', skald.guarded_step(e), '.', number, '.', type);
    RETURN skald.enqueue(destination, type, id, payload,
                         jsonb_strip_nulls(jsonb_build_object('x-idempotency-key', id, 'x-saga-scope', e.scope, 'x-saga', e.definition,
                                                              'traceparent', e.traceparent, 'tracestate', e.tracestate)),
                         e.scope, aggregatetype => e.definition, aggregateid => e.key, if_unrouted => if_unrouted);
END $$;

-- By a process of a participant that starts: checks that the database is that service's and what it says of its steps, and records them.
-- `steps`: {"DEFINITION/STEP": {"kind": ..., "version": 1, "attempts": 8, "first_ms": 200, "longest_ms": 30000, "deadline_ms": 0}};
-- all but the kind may be left out. Returns the database's id, to which the service's queue is bound.
CREATE FUNCTION skald.host(service text, steps jsonb) RETURNS uuid
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    own   skald.service;
    name  text;
    says  jsonb;
    wrong text;
BEGIN
    SELECT * INTO own FROM skald.service;
    IF own.name IS NULL THEN
        RAISE EXCEPTION 'no service owns this database yet' USING HINT = format('Run `skald migrate --service %s`.', service);
    ELSIF own.name <> service THEN
        RAISE EXCEPTION 'the database belongs to the service %: each service needs one of its own, and this is %', own.name, service;
    ELSIF own.place <> skald.place() THEN
        RAISE EXCEPTION 'this database of the service % is a copy, or was restored from a backup', service
              USING HINT = format('See docs/repair.md, "A database from a backup"; then run `skald migrate --service %s --adopt`.', service);
    END IF;
    IF jsonb_typeof(steps) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'steps are a JSON object: {"DEFINITION/STEP": {"kind": ...}}' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR name, says IN SELECT * FROM jsonb_each(steps) LOOP
        SELECT concat(m.key, ' can''t be ', m.value) INTO wrong FROM jsonb_each_text(says) AS m
         WHERE CASE m.key WHEN 'kind' THEN m.value NOT IN ('compensatable', 'pivot', 'retriable')
                          WHEN 'version' THEN coalesce(skald.header_count(m.value, 1, NULL), 0) = 0
                          WHEN 'attempts' THEN coalesce(skald.header_count(m.value, 1, NULL), 0) = 0
                          WHEN 'first_ms' THEN m.value !~ '^[0-9]{1,14}$' WHEN 'longest_ms' THEN m.value !~ '^[0-9]{1,14}$'
                          WHEN 'deadline_ms' THEN m.value !~ '^[0-9]{1,14}$' ELSE true END IS NOT FALSE LIMIT 1;
        IF NOT (skald.is_name(split_part(name, '/', 1)) AND skald.is_name(split_part(name, '/', 2))) OR name LIKE '%/%/%' THEN
            wrong := 'its name is not DEFINITION/STEP';
        ELSIF NOT says ? 'kind' THEN
            wrong := 'its kind is missing';
        ELSIF says->>'kind' = 'retriable' AND coalesce(says->>'deadline_ms', '0') <> '0' THEN
            wrong := 'deadline_ms is for a step that may reject, and this one is retriable';
        END IF;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION 'step %: %', name, wrong USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    PERFORM skald.record_hosted(ARRAY(SELECT split_part(k, '/', 2) FROM jsonb_object_keys(steps) AS k ORDER BY k),
                                ARRAY(SELECT false FROM jsonb_object_keys(steps)));
    INSERT INTO skald.hosted_version (definition, version)
    SELECT DISTINCT split_part(s.key, '/', 1), coalesce((s.value->>'version')::integer, 1) FROM jsonb_each(steps) AS s
    ON CONFLICT ON CONSTRAINT hosted_version_once DO NOTHING;
    RETURN own.id;
END $$;
