-- How often a step's message was delivered, for operators: "delivered 4 times, applied once". Only keys that were met more than once have a
-- row: of all others one delivery is what the guard's record says. Processes count in memory and write once a second, so what a killed
-- process had not written yet is lost. Nothing depends on it.
CREATE TABLE skald.deliveries_seen (
    scope      skald.scope      NOT NULL,
    key        skald.key        NOT NULL,
    step       skald.step       NOT NULL,
    home       text COLLATE "C" NOT NULL,
    delivered  bigint           NOT NULL,  -- the first one included
    duplicates bigint           NOT NULL,  -- of those, the ones that met a record of what was decided before, and had no effect
    last_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT deliveries_seen_once PRIMARY KEY (scope, key, step, home),
    CONSTRAINT delivered_more_than_once CHECK (delivered > 1 AND duplicates >= 0 AND duplicates < delivered)
) WITH (fillfactor = 80);

-- It goes with the guard's record, whatever removes that.
CREATE FUNCTION skald.forget_deliveries() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
    DELETE FROM skald.deliveries_seen d USING gone g
     WHERE d.scope = g.scope AND d.key = g.key AND d.step = g.step AND d.home = coalesce(g.home, d.home);
    RETURN NULL;
END $$;
CREATE TRIGGER deliveries_are_forgotten AFTER DELETE ON skald.idempotency
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION skald.forget_deliveries();
