-- The tables of the bench's three services, whoever runs them: Skald (shop/) or the hand-written floor (floor/).

-- name: orders
CREATE TABLE customer_order (
    id       text    PRIMARY KEY,
    customer text    NOT NULL,
    sku      text    NOT NULL,
    quantity integer NOT NULL,
    cents    bigint  NOT NULL,
    status   text    NOT NULL DEFAULT 'pending'
);

-- name: payments
CREATE TABLE wallet (customer text PRIMARY KEY, cents bigint NOT NULL);
-- No unique constraint, on purpose: the guard alone keeps a charge single.
CREATE TABLE charge (order_id text NOT NULL, customer text NOT NULL, cents bigint NOT NULL);
INSERT INTO wallet (customer, cents) VALUES ('hot', 1000000000000);

-- name: shipping
CREATE TABLE shipment (order_id text NOT NULL, sku text NOT NULL, quantity integer NOT NULL);
