-- name: effects_twice
SELECT count(*) - count(DISTINCT key) FROM guarded_effect WHERE starts_with(key, $1)
