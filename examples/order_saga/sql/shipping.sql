CREATE TABLE stock (
    sku  text    PRIMARY KEY,
    free integer NOT NULL CONSTRAINT stock_is_not_below_zero CHECK (free >= 0)
);

-- No unique constraint, on purpose: the guard alone keeps a shipment single.
CREATE TABLE shipment (
    order_id text    NOT NULL,
    sku      text    NOT NULL,
    quantity integer NOT NULL
);
