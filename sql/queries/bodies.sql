-- Large bodies (sql/migrations/0016_bodies.sql).

-- `is_new`: its parts have to follow.
-- name: keep_body
SELECT skald.keep_body(:fingerprint::bytea, :size::bigint) AS is_new

-- name: keep_body_part
WITH written AS (
    INSERT INTO skald.body_part (fingerprint, part, bytes) VALUES (:fingerprint::bytea, :part::integer, :bytes::bytea) RETURNING 1)
SELECT CASE WHEN count(*) <> 1 THEN skald.assert_written('skald.body_part', 1, count(*)) END FROM written

-- name: hold_body
SELECT skald.hold_body(:fingerprint::bytea) AS is_there

-- name: body_part
SELECT encode(bytes, 'hex') AS bytes FROM skald.body_part WHERE (fingerprint, part) = (:fingerprint::bytea, :part::integer)

-- Of this database's own.
-- name: purge_bodies
SELECT p.gone, p.is_all FROM skald.purge_bodies(:older_than::bigint * interval '1 second', :most::integer) AS p

-- Whether a row of this database refers to it, wherever it is kept.
-- name: body_is_in_use
SELECT EXISTS (SELECT FROM skald.body_in_use u WHERE u.name = :name::text) AS is_in_use
