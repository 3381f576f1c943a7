-- What `skald conform` asks of the participant's database, and the ledger into which the participant writes (docs/conform.md).

-- The ledger's triggers say in which transaction a line was written, and whether its COMMIT waits for the disk; and hold one that trouble is to
-- come to: inside its step, or inside COMMIT. One that is refused fails as the victim of a deadlock does. That of the records holds the COMMIT of
-- what ends a step badly: it goes with the schema.
-- name: conform_tables
DROP SCHEMA IF EXISTS conform CASCADE;
CREATE SCHEMA conform;
CREATE TABLE conform.ledger (
    scope   text NOT NULL,
    saga    text NOT NULL,
    step    text NOT NULL,
    cents   bigint NOT NULL,
    written text,
    at      timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE conform.gate (scope text NOT NULL, saga text NOT NULL);
CREATE TABLE conform.not_flushed (scope text NOT NULL, saga text NOT NULL, step text NOT NULL);
CREATE TABLE conform.refused (line text NOT NULL, sqlstate text NOT NULL, transaction xid NOT NULL);
CREATE FUNCTION conform.note() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    state  text := coalesce(current_setting('skald.is_open', true), '');
    here   xid := pg_current_xact_id()::xid;
    name   text := concat_ws('|', NEW.scope, NEW.saga, NEW.step);
    code   text;
    record record;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7001, hashtext(name));
    SELECT r.sqlstate INTO code FROM conform.refused r WHERE r.line = name AND r.transaction = here;
    IF FOUND THEN RAISE EXCEPTION 'refused by skald conform, as another transaction might do' USING ERRCODE = code; END IF;
    -- The claim writes in a subtransaction, whose number no function compares with this one's: what is here and in progress is of this one.
    SELECT i.status, coalesce(pg_xact_status((((pg_current_xact_id()::text::bigint >> 32) << 32) | i.xmin::text::bigint)::text::xid8)
                              = 'in progress', false) AS is_new INTO record
      FROM skald.idempotency i WHERE (i.scope, i.key, i.step) = (NEW.scope, NEW.saga, NEW.step);
    NEW.written := CASE WHEN state IN ('on', 'armed') OR (record.is_new AND record.status = 'completed') THEN 'inside'
                        WHEN state = 'off' AND NOT (record.is_new AND record.status IN ('rejected', 'retrying')) THEN 'after ack'
                        WHEN record.status = 'completed' THEN 'after done'
                        ELSE 'outside' END;
    RETURN NEW;
END $$;
CREATE FUNCTION conform.hold() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        INSERT INTO conform.not_flushed (scope, saga, step) VALUES (NEW.scope, NEW.saga, NEW.step);
    END IF;
    PERFORM pg_advisory_xact_lock_shared(7002, hashtext(concat_ws('|', NEW.scope, NEW.saga, NEW.step)));
    RETURN NULL;
END $$;
CREATE FUNCTION conform.hold_end() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7003, hashtext(concat_ws('|', NEW.scope, NEW.key, NEW.step)));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER conform_hold_end AFTER INSERT OR UPDATE ON skald.idempotency DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.status IN ('retrying', 'rejected')) EXECUTE FUNCTION conform.hold_end();
CREATE TRIGGER note BEFORE INSERT ON conform.ledger FOR EACH ROW EXECUTE FUNCTION conform.note();
CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON conform.ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION conform.hold()

-- Whoever writes the line waits from now on: at `point` 7001 inside its step, at 7002 inside COMMIT, at 7003 where the step is rejected, has failed,
-- or is put off, inside COMMIT.
-- name: conform_hold
SELECT pg_advisory_lock(:point::integer, hashtext(:line::text))

-- name: conform_release
SELECT pg_advisory_unlock_all()

-- The session that waits there.
-- name: conform_held
SELECT l.pid FROM pg_locks l
 WHERE l.locktype = 'advisory' AND NOT l.granted AND l.classid = :point::integer::oid
   AND l.objid::bigint = (hashtext(:line::text)::bigint & 4294967295)
   AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())

-- name: conform_end_session
SELECT pg_terminate_backend(:pid::integer, 5000)

-- name: conform_refuse
INSERT INTO conform.refused (line, sqlstate, transaction)
SELECT :line::text, :sqlstate::text, a.backend_xid FROM pg_stat_activity a WHERE a.pid = :pid::integer AND a.backend_xid IS NOT NULL

-- name: conform_open_gate
INSERT INTO conform.gate (scope, saga) VALUES (:scope::text, :saga::text)

-- name: conform_snoozed
SELECT i.scope, i.key FROM skald.idempotency i WHERE starts_with(i.key, :run::text) AND i.snoozes > 0

-- name: conform_commanded
SELECT FROM skald.control c WHERE c.scope = :scope::text AND c.key = :key::text

-- name: conform_unsent
SELECT count(*) AS messages FROM skald.outbox

-- It was empty when the run began: these are the run's.
-- name: conform_forget
DELETE FROM skald.outbox

-- name: conform_clock
SELECT skald.instant(clock_timestamp()) AS at

-- name: conform_records
SELECT i.scope, i.key, i.step, i.status, i.attempts, i.snoozes FROM skald.idempotency i WHERE starts_with(i.key, :run::text)

-- name: conform_ledger
SELECT l.scope, l.saga, l.step, l.written, l.cents, count(*) AS lines,
       EXISTS (SELECT FROM conform.not_flushed f WHERE (f.scope, f.saga, f.step) = (l.scope, l.saga, l.step)) AS not_flushed
  FROM conform.ledger l WHERE starts_with(l.saga, :run::text) GROUP BY 1, 2, 3, 4, 5

-- A participant may leave out the message's id.
-- name: conform_parked
SELECT i.message_id, p.scope, p.key, p.step, p.reason, p.error
  FROM skald.parked p CROSS JOIN LATERAL (SELECT coalesce(p.headers->>'conform-id', p.message_id) AS message_id) AS i
 WHERE starts_with(i.message_id, :run::text)
