-- The guard for HTTP requests, in any language: skald.take_request() claims the request's key as the C++ does (framework/src/entry/), or has the
-- response to give; skald.respond() stores the handler's. A service in C++ and one in another language, on the same database, replay each other's
-- responses. See docs/http-languages.md.

-- What tells a request from another one under the same key: method, path and query as they were sent, and the body.
CREATE FUNCTION skald.request_fingerprint(method text, target bytea, body bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT sha256(string_agg(convert_to(length(p.part) || ':', 'UTF8') || p.part, '' ORDER BY p.place))
      FROM (SELECT nullif(position('\x3f'::bytea IN target), 0)) AS mark (at),
           unnest(ARRAY[convert_to(method, 'UTF8'), substr(target, 1, coalesce(mark.at - 1, length(target))),
                        coalesce(substr(target, mark.at + 1), ''), body]) WITH ORDINALITY AS p (part, place)
$$;

-- The key in the header's values: a quoted string or bare, with parameters that are ignored; or why there is none.
CREATE FUNCTION skald.read_request_key(given text[], OUT key text, OUT refusal text)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    rest  text := btrim(given[1], E' \t');
    parts text[];
BEGIN
    IF cardinality(given) > 1 THEN refusal := 'Idempotency-Key must be given once.';
    ELSIF coalesce(rest, '') = '' THEN refusal := 'The Idempotency-Key header is missing.';
    ELSIF rest ~ '[^\x20-\x7e]' THEN refusal := 'The Idempotency-Key may only hold printable ASCII.';
    END IF;
    IF refusal IS NOT NULL THEN RETURN; END IF;
    IF left(rest, 1) = '"' THEN
        parts := regexp_match(rest, '^"((?:[^"\\]|\\["\\])*)"(.*)$');
        IF parts IS NULL THEN refusal := 'The Idempotency-Key is badly quoted.';
        ELSIF parts[1] = '' THEN refusal := 'The Idempotency-Key is empty.';
        END IF;
        key := regexp_replace(parts[1], '\\(["\\])', '\1', 'g');
    ELSE
        parts := regexp_match(rest, '^([^",;\\ ]*)(.*)$');
        IF parts[2] ~ '^["\\]' THEN refusal := 'The Idempotency-Key is badly quoted.'; END IF;
        key := parts[1];
    END IF;
    IF refusal IS NULL AND (key = '' OR parts[2] !~
       '^(?:; *[a-z*][a-z*0-9_.-]*(?:=(?:"(?:[^"\\]|\\["\\])*"|[^",;\\ ]+))?)*$') THEN
        refusal := 'The Idempotency-Key header must hold one key and nothing else.';
    ELSIF refusal IS NULL AND key IN ('.', '..') THEN
        refusal := 'The Idempotency-Key may be neither . nor .., which no client can ask for in a path.';
    ELSIF refusal IS NULL AND octet_length(key) > 180 THEN refusal := 'The Idempotency-Key is longer than 180 bytes.';
    END IF;
    IF refusal IS NOT NULL THEN key := NULL; END IF;
END $$;

-- Takes a request, first of all in a transaction. `verdict`:
--   run      the handler is to run: let it work in this transaction, end it with skald.respond(), COMMIT, and send its response. If that is none to
--            keep (5xx; 401, 403, 408, 409, 425 and 429), ROLLBACK, and send it: the key may be used again
--   respond  nothing is to run: COMMIT, and send what is here
-- `keys`: all values of the header Idempotency-Key. `target`: as it was sent, "/orders?x=1". `headers`: [[name, value], ...], each byte as the
-- character of that number. `problem`: the type of an error, of docs/http.md.
CREATE FUNCTION skald.take_request(
    scope text, keys text[], method text, target bytea, body bytea, wait_ms integer DEFAULT 10,
    OUT verdict text, OUT key text, OUT taken jsonb, OUT problem text,
    OUT status_code integer, OUT content_type text, OUT headers jsonb, OUT response bytea)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    claim  record;
    title  text;
    detail text;
BEGIN
    PERFORM skald.enter_transaction();
    SELECT k.key, k.refusal INTO key, detail FROM skald.read_request_key(keys) AS k;
    verdict := 'respond';
    headers := '[]';
    IF octet_length(scope) > 64 THEN
        problem := 'scope';
        detail := 'the scope is longer than 64 bytes, or no UTF-8';
    ELSIF detail IS NOT NULL THEN
        problem := 'idempotency-key';
    ELSE
        PERFORM set_config('skald.is_open', 'on', true);
        -- A short wait may have been for something else, such as extending the table's file. A key in flight still is the second time.
        FOR look IN 1..2 LOOP
            SELECT * INTO STRICT claim FROM skald.claim_request(scope, key, skald.request_fingerprint(method, target, body), wait_ms);
            EXIT WHEN claim.result <> 'in_flight';
        END LOOP;
        IF claim.result = 'fresh' THEN
            verdict := 'run';
            taken := jsonb_build_object('scope', scope, 'key', key, 'transaction', pg_current_xact_id()::text);
            RETURN;
        END IF;
        PERFORM set_config('skald.is_open', 'off', true), skald.wait_for_standbys();
        IF claim.result = 'mismatch' AND claim.status_code IS NOT NULL THEN
            problem := 'key-reused';
            detail := 'the Idempotency-Key was used before with another request';
        ELSIF claim.result = 'in_flight' THEN
            problem := 'in-flight';
            detail := 'a request with this Idempotency-Key is being served; ask again';
            headers := '[["Retry-After", "1"]]';
        ELSIF claim.status_code IS NULL THEN
            problem := 'key-used-elsewhere';
            detail := 'the key was used outside of HTTP: there is no answer to replay';
        ELSIF claim.kept IS NOT NULL THEN
            -- It is the outcome, and can't be read here: a service in C++ that has the store can.
            problem := 'outcome-unknown';
            detail := 'it is not known whether the request took effect; send it again with the same key to learn it';
            headers := '[["Retry-After", "1"]]';
        ELSE
            status_code := claim.status_code;
            content_type := claim.content_type;
            headers := CASE jsonb_typeof(claim.headers) WHEN 'array' THEN claim.headers ELSE '[]' END || '[["Idempotency-Replayed", "true"]]';
            response := claim.body;
            RETURN;
        END IF;
    END IF;
    SELECT p.status, p.title INTO STRICT status_code, title
      FROM (VALUES ('scope', 400, 'It is not clear whose request this is'),
                   ('idempotency-key', 400, 'The Idempotency-Key is missing or malformed'),
                   ('in-flight', 409, 'A request with this Idempotency-Key is being served'),
                   ('key-used-elsewhere', 409, 'The Idempotency-Key was used outside of HTTP'),
                   ('key-reused', 422, 'The Idempotency-Key belongs to another request'),
                   ('outcome-unknown', 503, 'It is not known whether the request took effect')) AS p (name, status, title)
     WHERE p.name = problem;
    content_type := 'application/problem+json';
    response := convert_to(format('{"type":"/problems/%s","title":%s,"status":%s,"detail":%s}', problem, to_json(title), status_code,
                                  to_json(detail)), 'UTF8');
END $$;

-- Fails unless this is the transaction in which the request was taken, and it has not ended.
CREATE FUNCTION skald.assert_requested(taken jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (taken->>'transaction') IS NULL OR taken ? 'message' THEN
        RAISE EXCEPTION 'this is not what skald.take_request() gave as `taken`' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM skald.assert_taken(taken);
END $$;

-- Starts a saga under the request's key. `itinerary`: its steps, "create@orders=compensatable ship@shipping=pivot". `data` is passed on as it is.
CREATE FUNCTION skald.start_requested(
    taken jsonb, definition text, itinerary text, data bytea, version integer DEFAULT 1, deadline interval DEFAULT NULL,
    attributes jsonb DEFAULT NULL, traceparent text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    first text := split_part(itinerary, '@', 1);
    ends  timestamptz := clock_timestamp() + deadline;
    e     skald.envelope;
    m     jsonb;
    wrong text := skald.why_not_data(data);
BEGIN
    PERFORM skald.assert_requested(taken);
    IF data IS NULL OR wrong IS NOT NULL THEN
        RAISE EXCEPTION 'a saga starts with data: %', coalesce(wrong, 'it is missing') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF deadline <= interval '0' OR extract(epoch FROM deadline) > 31557600000 THEN
        RAISE EXCEPTION 'a deadline is later than now, and at most 1000 years: % is not', deadline USING ERRCODE = 'invalid_parameter_value';
    END IF;
    m := jsonb_strip_nulls(jsonb_build_object(
        'x-idempotency-key', (taken->>'key') || ':' || first, 'x-saga-scope', taken->>'scope', 'x-saga', definition,
        'x-saga-version', version::text, 'x-saga-home', (SELECT s.name FROM skald.service s),
        'x-saga-itinerary', concat('forward 1/', cardinality(string_to_array(itinerary, ' ')), ' ', itinerary),
        'x-saga-deadline', skald.instant(ends), 'traceparent', traceparent));
    e := skald.read_envelope(first, m);
    IF e.refusal IS NOT NULL THEN
        RAISE EXCEPTION 'no saga: %', e.refusal USING ERRCODE = 'invalid_parameter_value';
    END IF;
    m := skald.message_of(e);
    INSERT INTO skald.saga AS s (scope, key, definition, version, data, itinerary, deadline_at)
    VALUES (e.scope, e.key, definition, e.version, convert_from(data, 'UTF8')::jsonb, m->'headers'->>'x-saga-itinerary', ends);
    IF NOT FOUND THEN PERFORM skald.assert_written('skald.saga', 1, 0); END IF;
    IF attributes <> '{}' THEN PERFORM skald.add_attributes(e.scope, e.key, attributes); END IF;
    PERFORM skald.enqueue(m->>'destination', m->>'type', m->>'id', data, m->'headers', e.scope, aggregatetype => definition,
                          aggregateid => e.key);
END $$;

-- The request that was taken in this transaction has this outcome: COMMIT makes it and all that the handler wrote true.
CREATE FUNCTION skald.respond(taken jsonb, status_code integer, content_type text, headers jsonb, response bytea) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM skald.assert_requested(taken);
    INSERT INTO skald.response AS r (scope, key, status_code, content_type, headers, body)
    VALUES (taken->>'scope', taken->>'key', status_code, content_type, headers, response);
    IF NOT FOUND THEN PERFORM skald.assert_written('skald.response', 1, 0); END IF;
    PERFORM set_config('skald.is_open', 'off', true);
END $$;
