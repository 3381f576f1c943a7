-- What is asked before anything else, on a connection of which nothing is known yet.

-- name: backend
SELECT pg_backend_pid()
