CREATE TABLE wallet (
    customer text   PRIMARY KEY,
    cents    bigint NOT NULL CONSTRAINT money_is_not_below_zero CHECK (cents >= 0)
);

-- No unique constraint, on purpose: the guard alone keeps a charge and its refund single.
CREATE TABLE charge (
    order_id text   NOT NULL,
    customer text   NOT NULL,
    cents    bigint NOT NULL,
    kind     text   NOT NULL CONSTRAINT kind_is_known CHECK (kind IN ('charge', 'refund'))
);
