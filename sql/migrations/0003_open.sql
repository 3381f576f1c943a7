-- A step that runs COMMIT would commit its own record and its batch's other records, all saying `completed`, without the messages that
-- follow. While `skald.is_open` is on, COMMIT fails; what finishes the transaction switches it off. The first record of a transaction arms
-- this: one row that fails COMMIT is enough. If that record is rolled back to a savepoint, so is the setting, and the next record arms it.
--
-- SET CONSTRAINTS ALL IMMEDIATE fires the trigger too, and a step may well run it: what the client has sent tells the two apart.
CREATE FUNCTION skald.refuse_open_transaction() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('skald.is_open', true) IN ('on', 'armed') AND current_query() ~* '\m(commit|end|prepare)\M' THEN
        RAISE EXCEPTION 'a step ran COMMIT itself'
              USING ERRCODE = 'invalid_transaction_termination',
                    HINT = 'A step must not run COMMIT or ROLLBACK: Skald commits it.';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER transaction_is_finished AFTER INSERT OR UPDATE ON skald.idempotency
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (CASE WHEN current_setting('skald.is_open', true) = 'on'
               THEN set_config('skald.is_open', 'armed', true) = 'armed' ELSE false END)
    EXECUTE FUNCTION skald.refuse_open_transaction();
