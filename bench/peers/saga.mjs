// The saga of `skald bench`: three inserts, one in each of three databases.
import pg from 'pg';

const services = ['ORDERS', 'PAYMENTS', 'SHIPPING'];

export function connect(connections) {
  return services.map((name) => new pg.Pool({ connectionString: process.env[`DATABASE_URL_${name}`], max: connections }));
}

const tables = [
  `CREATE TABLE IF NOT EXISTS customer_order (id text PRIMARY KEY, customer text NOT NULL, sku text NOT NULL,
     quantity integer NOT NULL, cents bigint NOT NULL, status text NOT NULL DEFAULT 'pending')`,
  'CREATE TABLE IF NOT EXISTS charge (order_id text NOT NULL, customer text NOT NULL, cents bigint NOT NULL)',
  'CREATE TABLE IF NOT EXISTS shipment (order_id text NOT NULL, sku text NOT NULL, quantity integer NOT NULL)',
];

export async function makeTables(pools) {
  for (const [i, pool] of pools.entries()) {
    await pool.query(tables[i]);
    await pool.query(`TRUNCATE ${['customer_order', 'charge', 'shipment'][i]}`);
  }
}

export const steps = [
  ['create-order', (pools, o) => pools[0].query('INSERT INTO customer_order (id, customer, sku, quantity, cents) VALUES ($1, $2, $3, $4, $5)',
    [o.id, o.customer, o.sku, o.quantity, o.cents])],
  ['charge-payment', (pools, o) => pools[1].query('INSERT INTO charge (order_id, customer, cents) VALUES ($1, $2, $3)', [o.id, o.customer, o.cents])],
  ['arrange-shipping', (pools, o) => pools[2].query('INSERT INTO shipment (order_id, sku, quantity) VALUES ($1, $2, $3)', [o.id, o.sku, o.quantity])],
];

/// Throws where a saga that was answered has not left exactly its three rows.
export async function check(pools, sagas) {
  for (const [i, table] of ['customer_order', 'charge', 'shipment'].entries()) {
    const { rows } = await pools[i].query(`SELECT count(*)::int AS count FROM ${table}`);
    if (rows[0].count !== sagas) throw new Error(`${rows[0].count} rows in ${table} after ${sagas} sagas`);
  }
}
