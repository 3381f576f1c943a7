-- Indexes for `skald console`, which lists sagas by what an operator looks for. An index costs every saga a little, so there are few: the
-- others (docs/console.md) answer the rest. On a table of millions of rows, building the first takes a while, and sagas wait for it.

-- A key is known, and its scope is not.
CREATE INDEX saga_by_key ON skald.saga (key, scope);
-- In these two only few sagas ever are.
CREATE INDEX saga_stuck ON skald.saga (created_at) WHERE status = 'stuck';
CREATE INDEX saga_compensated ON skald.saga (finished_at) WHERE status = 'compensated' AND expiring IS NULL;

-- Why a delivery was replayed stands in skald.audit, as it does when one is dropped.
DROP FUNCTION skald.replay_parked(bigint, text, boolean, boolean);
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
