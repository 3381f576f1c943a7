-- A step that runs COMMIT in the middle of a batch would commit its neighbours' records, which say `completed`, without
-- their effects. While `skald.batch_is_open` is on, COMMIT fails; what finishes the batch switches it off. The first record of
-- a batch arms it: one that fails COMMIT is enough. Where that record is rolled back to a savepoint, so is the setting, and the
-- next one arms it.
CREATE FUNCTION skald.refuse_open_batch() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('skald.batch_is_open', true) IN ('on', 'armed') THEN
        RAISE EXCEPTION 'a step ran COMMIT itself'
              USING ERRCODE = 'invalid_transaction_termination',
                    HINT = 'A step must not run COMMIT or ROLLBACK: Skald commits it.';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER batch_is_finished AFTER INSERT ON skald.idempotency
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (CASE WHEN current_setting('skald.batch_is_open', true) = 'on'
               THEN set_config('skald.batch_is_open', 'armed', true) = 'armed' ELSE false END)
    EXECUTE FUNCTION skald.refuse_open_batch();
