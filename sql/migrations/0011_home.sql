-- What a saga's home does for each step of its own, and for each report of the others'.

-- As in 0005_control.sql, at less than a tenth of the time: an SQL function is planned anew at each call, and this one was most of
-- what a home's database did. The two final states need nothing but the saga's own row. For the others the row is locked
-- before the steps are looked at: of two that move the same saga the second sees what the first has noted.
CREATE OR REPLACE FUNCTION skald.advance(for_scope text, for_key text, wanted text, why text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
-- A plan that was made while the tables were small would be kept while they grow, until statistics are taken anew.
SET enable_seqscan = off
AS $$
DECLARE
    was   skald.saga_status;
    is_to skald.saga_status;
BEGIN
    IF wanted IN ('completed', 'compensated') THEN
        -- Of a walk back, the first reason is the one that counts; of what goes well there is none. Whoever leaves `stuck` says
        -- why the saga goes back: until then the reason was why it was stuck.
        UPDATE skald.saga s
           SET status = wanted::skald.saga_status, updated_at = clock_timestamp(), finished_at = clock_timestamp(),
               reason = CASE WHEN wanted = 'completed' THEN NULL
                             WHEN s.status = 'stuck' THEN coalesce(why, s.reason) ELSE coalesce(s.reason, why) END
         WHERE s.scope = for_scope AND s.key = for_key AND s.status NOT IN ('completed', 'compensated');
        RETURN;
    END IF;

    SELECT s.status INTO was FROM skald.saga s WHERE s.scope = for_scope AND s.key = for_key FOR NO KEY UPDATE;
    IF was IS NULL OR was IN ('completed', 'compensated') THEN RETURN; END IF;
    SELECT CASE WHEN bool_or(k.parked) THEN 'stuck' WHEN bool_or(k.back) THEN 'compensating' ELSE 'running' END INTO is_to
      FROM (SELECT p.status = 'parked', p.status IN ('rejected', 'cancelled') OR p.step LIKE '%.compensate'
              FROM skald.progress p WHERE p.scope = for_scope AND p.key = for_key
             UNION ALL
            SELECT i.status = 'parked', i.status IN ('rejected', 'cancelled') OR i.step LIKE '%.compensate'
              FROM skald.idempotency i WHERE i.scope = for_scope AND i.key = for_key) AS k(parked, back);
    UPDATE skald.saga s
       SET status = is_to, updated_at = clock_timestamp(),
           reason = CASE WHEN is_to = 'running' THEN NULL
                         WHEN is_to = 'stuck' OR s.status = 'stuck' THEN coalesce(why, s.reason)
                         ELSE coalesce(s.reason, why) END
     WHERE s.scope = for_scope AND s.key = for_key
       AND (s.status <> is_to OR (why IS NOT NULL AND s.reason IS NULL AND is_to <> 'running'));
END $$;
