-- Large bodies, kept once each under their SHA-256, and what refers to them: a message by its header `skald-body`, a saga, a stored
-- response and a reply by their column `kept`. See docs/bodies.md.

-- One that is kept in this database. `touched_at`: when it was last referred to, as far as that matters (within an hour).
CREATE TABLE skald.body (
    fingerprint bytea       NOT NULL,
    size        bigint      NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    touched_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT body_once PRIMARY KEY (fingerprint),
    CONSTRAINT fingerprint_is_sha256 CHECK (octet_length(fingerprint) = 32),
    CONSTRAINT size_is_at_most_64_mib CHECK (size BETWEEN 0 AND 67108864)
);
CREATE INDEX body_by_age ON skald.body (touched_at);

-- Its bytes. In parts, so that whoever writes or reads it needs memory for one of them and not for all.
CREATE TABLE skald.body_part (
    fingerprint bytea   NOT NULL,
    part        integer NOT NULL,
    bytes       bytea   NOT NULL,
    CONSTRAINT body_part_once PRIMARY KEY (fingerprint, part)
);
-- Not compressed: that takes longer than to write it, and much of what is large is compressed already.
ALTER TABLE skald.body_part ALTER bytes SET STORAGE EXTERNAL;

-- What rows of this database refer to, by the name of the body. Few rows do: an index of those is small. What is parked may have anything
-- there, of which an index takes no more than 2.7 kB.
CREATE INDEX outbox_of_body ON skald.outbox (split_part(headers->>'skald-body', ';', 1)) WHERE headers ? 'skald-body';
CREATE INDEX unrouted_of_body ON skald.unrouted (split_part(headers->>'skald-body', ';', 1)) WHERE headers ? 'skald-body';
CREATE INDEX parked_of_body ON skald.parked (split_part(left(headers->>'skald-body', 500), ';', 1)) WHERE headers ? 'skald-body';
CREATE INDEX saga_of_body ON skald.saga (split_part(kept, ';', 1)) WHERE kept IS NOT NULL;
CREATE INDEX response_of_body ON skald.response (split_part(kept, ';', 1)) WHERE kept IS NOT NULL;
CREATE INDEX reply_of_body ON skald.reply (split_part(kept, ';', 1)) WHERE kept IS NOT NULL;

CREATE VIEW skald.body_in_use AS
    SELECT 'outbox' AS kind, split_part(headers->>'skald-body', ';', 1) AS name, headers->>'skald-body' AS reference FROM skald.outbox WHERE headers ? 'skald-body'
     UNION ALL
    SELECT 'unrouted', split_part(headers->>'skald-body', ';', 1), headers->>'skald-body' FROM skald.unrouted WHERE headers ? 'skald-body'
     UNION ALL
    SELECT 'parked', split_part(left(headers->>'skald-body', 500), ';', 1), headers->>'skald-body' FROM skald.parked WHERE headers ? 'skald-body'
     UNION ALL
    SELECT 'saga', split_part(kept, ';', 1), kept FROM skald.saga WHERE kept IS NOT NULL
     UNION ALL
    SELECT 'response', split_part(kept, ';', 1), kept FROM skald.response WHERE kept IS NOT NULL
     UNION ALL
    SELECT 'reply', split_part(kept, ';', 1), kept FROM skald.reply WHERE kept IS NOT NULL;

-- Holds what is there, and returns whether it is. A row that was touched within the hour is left alone: no purge is near it, and
-- transactions that refer to the same body need not wait for each other.
CREATE FUNCTION skald.hold_body(fingerprint bytea) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
    IF NOT EXISTS (SELECT FROM skald.body b
                    WHERE b.fingerprint = hold_body.fingerprint AND b.touched_at > clock_timestamp() - interval '1 hour') THEN
        UPDATE skald.body b SET touched_at = clock_timestamp() WHERE b.fingerprint = hold_body.fingerprint;
        IF NOT FOUND THEN RETURN false; END IF;
    END IF;
    RETURN true;
END $$;

-- The same, and if it is not there it will be: then the caller writes its parts in the same transaction. Another one that keeps the same
-- body waits for that.
CREATE FUNCTION skald.keep_body(fingerprint bytea, size bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    is_new boolean := false;
BEGIN
    WHILE NOT skald.hold_body(fingerprint) LOOP
        INSERT INTO skald.body AS b (fingerprint, size) VALUES (fingerprint, size) ON CONFLICT ON CONSTRAINT body_once DO NOTHING;
        is_new := FOUND;
    END LOOP;
    RETURN is_new;
END $$;

-- Removes what nobody has referred to for that long, and what no row refers to now. Before that, what is still
-- referred to is touched: when its last row has gone, a message of it may be at the broker for as long again. Returns how many went, at most
-- so many and 256 MiB: each MiB is hundreds of rows. `is_all`: the next call would find nothing.
CREATE FUNCTION skald.purge_bodies(older_than interval, most integer, OUT gone integer, OUT is_all boolean)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    touched integer;
BEGIN
    IF older_than < interval '1 day' OR older_than IS NULL THEN
        RAISE EXCEPTION 'a retention of % is too short', older_than USING ERRCODE = 'invalid_parameter_value';
    END IF;
    WITH found AS MATERIALIZED (
        SELECT b.fingerprint FROM skald.body b
         WHERE b.touched_at < clock_timestamp() - older_than / 2
           AND EXISTS (SELECT FROM skald.body_in_use u WHERE u.name = 'sha256:' || encode(b.fingerprint, 'hex'))
         ORDER BY b.touched_at LIMIT most FOR UPDATE OF b SKIP LOCKED)
    UPDATE skald.body b SET touched_at = clock_timestamp() FROM found f WHERE b.fingerprint = f.fingerprint;
    GET DIAGNOSTICS touched = ROW_COUNT;
    WITH old AS MATERIALIZED (
        SELECT b.fingerprint, b.size FROM skald.body b
         WHERE b.touched_at < clock_timestamp() - older_than
           AND NOT EXISTS (SELECT FROM skald.body_in_use u WHERE u.name = 'sha256:' || encode(b.fingerprint, 'hex'))
         ORDER BY b.touched_at LIMIT most FOR UPDATE OF b SKIP LOCKED),
    found AS MATERIALIZED (
        SELECT s.fingerprint FROM (SELECT o.fingerprint, sum(o.size) OVER (ORDER BY o.fingerprint) - o.size AS before FROM old o) AS s
         WHERE s.before < 268435456),
    parts AS (DELETE FROM skald.body_part p USING found f WHERE p.fingerprint = f.fingerprint)
    DELETE FROM skald.body b USING found f WHERE b.fingerprint = f.fingerprint;
    GET DIAGNOSTICS gone = ROW_COUNT;
    is_all := gone = 0 AND touched < most;
END $$;
