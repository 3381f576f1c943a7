-- What one would write by hand for a request that inserts one row: its key, the row, its response. Prepared once for each connection.

-- name: prepare_claim
PREPARE claim AS
INSERT INTO skald.idempotency (scope, key, step, fingerprint)
VALUES ('', $1, '', '\x6bb5b0e2d3f7a5bd6bb5b0e2d3f7a5bd6bb5b0e2d3f7a5bd6bb5b0e2d3f7a5bd') ON CONFLICT DO NOTHING

-- name: prepare_row
PREPARE add_row AS
INSERT INTO customer_order (id, customer, sku, quantity, cents) VALUES ($1, 'ada', 'tea', 1, 1200)

-- name: prepare_answer
PREPARE answer AS
INSERT INTO skald.response (scope, key, status_code, content_type, headers, body)
VALUES ('', $1, 201, 'application/json', '[]', '\x7b22696e736572746564223a317d')

-- name: count_rows
SELECT count(*) FROM customer_order
