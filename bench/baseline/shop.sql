-- The order example's business, hand-written: a whole batch in one statement, which locks its rows in one order, whatever the batch, so
-- that two batches with the same rows do not deadlock. Each statement returns the orders that could be served.

-- name: confirm_orders
UPDATE customer_order SET status = 'confirmed' WHERE id = ANY ($1::text[])

-- Charges and refunds together. What costs more than its wallet has is rejected; of the others the first are paid, until it is empty.
-- name: pay_wallets
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[]::bigint[], $4::text[]) WITH ORDINALITY AS w(order_id, customer, cents, kind, n)),
locked AS MATERIALIZED (
    SELECT customer, cents AS has FROM wallet WHERE customer = ANY ($2::text[]) ORDER BY customer FOR NO KEY UPDATE),
covered AS MATERIALIZED (
    SELECT order_id, customer, cents, kind
      FROM (SELECT w.*, l.has, sum(w.cents) FILTER (WHERE w.kind = 'charge') OVER (PARTITION BY w.customer ORDER BY w.n) AS needed
              FROM wanted w JOIN locked l USING (customer)
             WHERE w.kind = 'refund' OR w.cents <= l.has) AS w
     WHERE kind = 'refund' OR needed <= has),
paid AS (
    UPDATE wallet w SET cents = w.cents + s.cents
      FROM (SELECT customer, sum(CASE kind WHEN 'refund' THEN cents ELSE -cents END)::bigint AS cents FROM covered GROUP BY customer) AS s
     WHERE w.customer = s.customer)
INSERT INTO charge (order_id, customer, cents, kind)
SELECT order_id, customer, cents, kind FROM covered RETURNING order_id

-- name: take_stock
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[]::integer[]) WITH ORDINALITY AS w(order_id, sku, quantity, n)),
locked AS MATERIALIZED (
    SELECT sku, free FROM stock WHERE sku = ANY ($2::text[]) ORDER BY sku FOR NO KEY UPDATE),
covered AS MATERIALIZED (
    SELECT order_id, sku, quantity
      FROM (SELECT w.*, l.free, sum(w.quantity) OVER (PARTITION BY w.sku ORDER BY w.n) AS needed
              FROM wanted w JOIN locked l USING (sku)
             WHERE w.quantity <= l.free) AS w
     WHERE needed <= free),
taken AS (
    UPDATE stock t SET free = t.free - s.quantity
      FROM (SELECT sku, sum(quantity)::integer AS quantity FROM covered GROUP BY sku) AS s
     WHERE t.sku = s.sku)
INSERT INTO shipment (order_id, sku, quantity)
SELECT order_id, sku, quantity FROM covered RETURNING order_id
