CREATE TABLE customer_order (
    id       text    PRIMARY KEY,
    customer text    NOT NULL,
    sku      text    NOT NULL,
    quantity integer NOT NULL CONSTRAINT quantity_is_positive CHECK (quantity > 0),
    cents    bigint  NOT NULL CONSTRAINT price_is_not_negative CHECK (cents >= 0),
    status   text    NOT NULL DEFAULT 'pending'
             CONSTRAINT status_is_known CHECK (status IN ('pending', 'confirmed', 'cancelled'))
);
