// The order example on the peers: the same tables and statements, with wallets and stock that many orders share. Two
// statements of one step are one round trip here, which is the fastest that they can do.

const wallet = 1_000_000_000_000, pieces = 1_000_000_000;

const tables = [
  `CREATE TABLE customer_order (id text PRIMARY KEY, customer text NOT NULL, sku text NOT NULL,
     quantity integer NOT NULL CHECK (quantity > 0), cents bigint NOT NULL CHECK (cents >= 0), status text NOT NULL DEFAULT 'pending')`,
  `CREATE TABLE wallet (customer text PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0));
   CREATE TABLE charge (order_id text NOT NULL, customer text NOT NULL, cents bigint NOT NULL, kind text NOT NULL)`,
  `CREATE TABLE stock (sku text PRIMARY KEY, free integer NOT NULL CHECK (free >= 0));
   CREATE TABLE shipment (order_id text NOT NULL, sku text NOT NULL, quantity integer NOT NULL)`,
];

export async function makeTables(pools, { customers, skus }) {
  for (const [i, pool] of pools.entries()) {
    await pool.query(`DROP TABLE IF EXISTS ${['customer_order', 'wallet, charge', 'stock, shipment'][i]}; ${tables[i]}`);
  }
  await pools[1].query("INSERT INTO wallet SELECT 'customer-' || n, $2::bigint FROM generate_series(1, $1::integer) AS n", [customers, wallet]);
  await pools[2].query("INSERT INTO stock SELECT 'sku-' || n, $2::integer FROM generate_series(1, $1::integer) AS n", [skus, pieces]);
  for (const pool of pools) await pool.query('VACUUM (ANALYZE)');
}

const among = (count) => 1 + Math.floor(Math.random() * count);

export function makeOrder(id, { customers, skus }) {
  return { id, customer: `customer-${among(customers)}`, sku: `sku-${among(skus)}`, quantity: 1, cents: 1200 };
}

async function one(pool, statement, values) {
  const { rowCount } = await pool.query(statement, values);
  if (rowCount !== 1) throw new Error(`${rowCount} rows by ${statement}`);
}

export const steps = [
  ['create-order', (pools, o) => one(pools[0], 'INSERT INTO customer_order (id, customer, sku, quantity, cents) VALUES ($1, $2, $3, $4, $5)',
    [o.id, o.customer, o.sku, o.quantity, o.cents])],
  ['charge-payment', (pools, o) => one(pools[1],
    `WITH paid AS (UPDATE wallet SET cents = cents - $3::bigint WHERE customer = $2 AND cents >= $3::bigint RETURNING customer)
     INSERT INTO charge (order_id, customer, cents, kind) SELECT $1::text, customer, $3::bigint, 'charge' FROM paid`, [o.id, o.customer, o.cents])],
  ['arrange-shipping', (pools, o) => one(pools[2],
    `WITH taken AS (UPDATE stock SET free = free - $3::integer WHERE sku = $2 AND free >= $3::integer RETURNING sku)
     INSERT INTO shipment (order_id, sku, quantity) SELECT $1::text, sku, $3::integer FROM taken`, [o.id, o.sku, o.quantity])],
  ['confirm-order', (pools, o) => one(pools[0], "UPDATE customer_order SET status = 'confirmed' WHERE id = $1", [o.id])],
];

/// Throws if a saga that was answered has not left exactly its rows, or money or stock does not add up.
export async function check(pools, sagas, { customers, skus }) {
  const expect = async (pool, statement, values, what) => {
    const { rows } = await pool.query(statement, values);
    if (!rows[0].well) throw new Error(`${what} after ${sagas} sagas: ${JSON.stringify(rows[0])}`);
  };
  await expect(pools[0], "SELECT count(*) AS orders, count(*) = $1 AND bool_and(status = 'confirmed') AS well FROM customer_order", [sagas], 'orders');
  await expect(pools[1],
    `SELECT c.charges, w.cents, c.charges = $1 AND w.cents = $2::numeric * $3 - c.cents AS well
       FROM (SELECT count(*) AS charges, sum(cents) AS cents FROM charge) AS c, (SELECT sum(cents) AS cents FROM wallet) AS w`,
    [sagas, customers, wallet], 'money');
  await expect(pools[2],
    `SELECT h.shipments, s.free, h.shipments = $1 AND s.free = $2::numeric * $3 - h.pieces AS well
       FROM (SELECT count(*) AS shipments, sum(quantity) AS pieces FROM shipment) AS h, (SELECT sum(free) AS free FROM stock) AS s`,
    [sagas, skus, pieces], 'stock');
}
