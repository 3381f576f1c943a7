-- What operators find sagas by: the attributes that a definition names (docs/finding.md). A row for each that a saga has, at the saga's
-- home, as its data was at its start. A table of its own: sagas of definitions that name none pay nothing.
CREATE TABLE skald.attribute (
    scope      skald.scope      NOT NULL,
    key        skald.key        NOT NULL,
    name       text COLLATE "C" NOT NULL,
    value      text COLLATE "C" NOT NULL,
    created_at timestamptz      NOT NULL,  -- the saga's
    CONSTRAINT attribute_once PRIMARY KEY (scope, key, name),
    CONSTRAINT name_is_a_name CHECK (octet_length(name) <= 48 AND name ~ '^[a-z][a-z0-9-]*$'),
    CONSTRAINT value_is_1_to_256_bytes CHECK (octet_length(value) BETWEEN 1 AND 256)
);
-- The latest of those with a value come first, however many there are.
CREATE INDEX attribute_by_value ON skald.attribute (name, value, created_at);

-- Gives a saga that is in the table skald.saga these attributes: an object of names and values. Those that it has stay as they are; a value
-- that is null or empty is none. Also for sagas that were started before their definition named any. In plpgsql, which keeps the plan: a
-- function in SQL would be planned each time, and cost a start as much again.
CREATE FUNCTION skald.add_attributes(of_scope text, of_key text, attributes jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- A plan made while the tables were small would be kept as they grow, until statistics are gathered again.
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    INSERT INTO skald.attribute (scope, key, name, value, created_at)
    SELECT s.scope, s.key, a.name, a.value, s.created_at
      FROM skald.saga s CROSS JOIN jsonb_each_text(attributes) AS a(name, value)
     WHERE s.scope = of_scope AND s.key = of_key AND a.value <> ''
    ON CONFLICT ON CONSTRAINT attribute_once DO NOTHING;
END $$;

-- The names of all attributes in this database: one look into the index for each.
CREATE FUNCTION skald.attribute_names() RETURNS SETOF text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE known AS (
        (SELECT a.name FROM skald.attribute a ORDER BY a.name LIMIT 1)
        UNION ALL
        SELECT (SELECT a.name FROM skald.attribute a WHERE a.name > k.name ORDER BY a.name LIMIT 1) FROM known k WHERE k.name IS NOT NULL)
    SELECT k.name FROM known k WHERE k.name IS NOT NULL
$$;

-- Sagas that a command for many is given for: those that have not ended, were started by `until`, and have all of these attributes. Not
-- those for which it asks for nothing new, as a pause of a paused saga does. NULL: any.
CREATE FUNCTION skald.sagas_for_order(wanted text, of_status text, of_definition text, of_scope text, until timestamptz, names text[],
                                      vals text[]) RETURNS SETOF skald.saga
LANGUAGE sql STABLE
AS $$
    SELECT s.*
      FROM skald.saga s
      LEFT JOIN skald.control c ON c.scope = s.scope AND c.key = s.key AND skald.is_ours(c.home)
     WHERE s.status IN ('running', 'compensating', 'stuck', 'unknown')
       AND CASE wanted WHEN 'retry' THEN s.status = 'stuck'
                       WHEN 'cancel' THEN s.status <> 'compensating' AND c.action IS DISTINCT FROM 'cancel'
                       WHEN 'pause' THEN coalesce(c.action, '') NOT IN ('pause', 'cancel')
                       ELSE c.action = 'pause' END
       AND (of_status IS NULL OR s.status = of_status::skald.saga_status)
       AND (of_definition IS NULL OR s.definition = of_definition)
       AND (of_scope IS NULL OR s.scope = of_scope)
       AND s.created_at <= until
       AND NOT EXISTS (SELECT FROM unnest(names, vals) AS w(name, value)
                        WHERE NOT EXISTS (SELECT FROM skald.attribute a
                                           WHERE a.scope = s.scope AND a.key = s.key AND a.name = w.name COLLATE "C"
                                             AND a.value = w.value COLLATE "C"))
$$;

-- Gives one command for each of these sagas, in the caller's transaction, as a part of an order for many: `act` is the order's row in
-- skald.audit, which counts; NULL: a new one, which says `about` what it is. Returns {"act", "done", "refused": [{"scope", "key", "why"}],
-- "left": [the same]}: the last are done, and their sagas do not end by it.
--
-- All records, then all waits, then the sagas' rows, each in the order of keys: so do steps that run together (traps G22).
CREATE FUNCTION skald.request_control_of_many(
    action text, scopes text[], keys text[], reason text, by text, act bigint, about jsonb) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    one     record;
    answer  jsonb;
    done    integer := 0;
    refused jsonb := '[]';
    remains jsonb := '[]';
BEGIN
    PERFORM FROM (SELECT w.s COLLATE "C" AS s, w.k COLLATE "C" AS k FROM unnest(scopes, keys) AS w(s, k) ORDER BY 1, 2) AS w
      CROSS JOIN LATERAL (SELECT FROM skald.idempotency i
                           WHERE i.scope = w.s AND i.key = w.k AND i.status IN ('started', 'unknown', 'retrying', 'parked')
                           ORDER BY i.step FOR UPDATE) AS locked;
    PERFORM skald.lock_wait(w.s, w.k)
       FROM (SELECT w.s COLLATE "C" AS s, w.k COLLATE "C" AS k FROM unnest(scopes, keys) AS w(s, k) ORDER BY 1, 2) AS w;
    IF act IS NULL THEN
        INSERT INTO skald.audit AS a (actor, verb, detail)
        VALUES (skald.actor(by), 'sagas ' || action,
                jsonb_strip_nulls(about || jsonb_build_object('reason', nullif(reason, ''), 'done', 0, 'refused', 0, 'ended', false)))
        RETURNING a.id INTO act;
    END IF;
    FOR one IN SELECT w.s, w.k FROM unnest(scopes, keys) AS w(s, k) ORDER BY w.s COLLATE "C", w.k COLLATE "C" LOOP
        answer := skald.request_control(action, one.s, one.k, reason, by, act);
        IF answer ? 'refused' THEN
            refused := refused || jsonb_build_object('scope', one.s, 'key', one.k, 'why', answer->'refused');
        ELSE
            done := done + 1;
            IF answer ? 'left' THEN
                remains := remains || jsonb_build_object('scope', one.s, 'key', one.k, 'why', answer->'left');
            END IF;
        END IF;
    END LOOP;
    UPDATE skald.audit a
       SET detail = a.detail || jsonb_build_object('done', (a.detail->>'done')::bigint + done,
                                                   'refused', (a.detail->>'refused')::bigint + jsonb_array_length(refused))
     WHERE a.id = act;
    RETURN jsonb_build_object('act', act, 'done', done, 'refused', refused, 'left', remains);
END $$;
