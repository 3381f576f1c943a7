-- The tables of the bench's three services, for both Skald (shop/) and the hand-written baseline (baseline/).

-- name: orders
CREATE TABLE customer_order (
    id       text    PRIMARY KEY,
    customer text    NOT NULL,
    sku      text    NOT NULL,
    quantity integer NOT NULL,
    cents    bigint  NOT NULL,
    status   text    NOT NULL DEFAULT 'pending'
);

-- No unique constraint, on purpose: what runs twice is to be seen.
CREATE TABLE guarded_effect (key text NOT NULL);

-- name: payments
-- No unique constraint, on purpose: only the guard prevents a second charge.
CREATE TABLE charge (order_id text NOT NULL, customer text NOT NULL, cents bigint NOT NULL);

-- name: shipping
CREATE TABLE shipment (order_id text NOT NULL, sku text NOT NULL, quantity integer NOT NULL);

-- name: waiting
-- No unique constraint here either. A row is a step that came after a wait, or the end of a job.
CREATE TABLE passed (id text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
