// The saga of `skald-bench --scenario throughput`: three inserts, one in each of three databases.
const tables = [
  `CREATE TABLE customer_order (id text PRIMARY KEY, customer text NOT NULL, sku text NOT NULL,
     quantity integer NOT NULL, cents bigint NOT NULL, status text NOT NULL DEFAULT 'pending')`,
  'CREATE TABLE charge (order_id text NOT NULL, customer text NOT NULL, cents bigint NOT NULL)',
  'CREATE TABLE shipment (order_id text NOT NULL, sku text NOT NULL, quantity integer NOT NULL)',
];

export async function makeTables(pools) {
  for (const [i, pool] of pools.entries()) {
    await pool.query(`DROP TABLE IF EXISTS ${['customer_order', 'charge', 'shipment'][i]}; ${tables[i]}`);
  }
}

export const makeOrder = (id) => ({ id, customer: 'ada', sku: 'tea', quantity: 1, cents: 1200 });

export const steps = [
  ['create-order', (pools, o) => pools[0].query('INSERT INTO customer_order (id, customer, sku, quantity, cents) VALUES ($1, $2, $3, $4, $5)',
    [o.id, o.customer, o.sku, o.quantity, o.cents])],
  ['charge-payment', (pools, o) => pools[1].query('INSERT INTO charge (order_id, customer, cents) VALUES ($1, $2, $3)', [o.id, o.customer, o.cents])],
  ['arrange-shipping', (pools, o) => pools[2].query('INSERT INTO shipment (order_id, sku, quantity) VALUES ($1, $2, $3)', [o.id, o.sku, o.quantity])],
];

/// Throws if a saga that was answered has not left exactly its three rows.
export async function check(pools, sagas) {
  for (const [i, table] of ['customer_order', 'charge', 'shipment'].entries()) {
    const { rows } = await pools[i].query(`SELECT count(*)::int AS count FROM ${table}`);
    if (rows[0].count !== sagas) throw new Error(`${rows[0].count} rows in ${table} after ${sagas} sagas`);
  }
}
