// Which saga is measured: the order example's, or three inserts.
import pg from 'pg';

const services = ['ORDERS', 'PAYMENTS', 'SHIPPING'];

export function connect(connections) {
  return services.map((name) => new pg.Pool({ connectionString: process.env[`DATABASE_URL_${name}`], max: connections }));
}

/// { makeTables(pools, shape), makeOrder(id, shape), steps, check(pools, sagas, shape) }
export function sagaNamed(scenario) {
  return import(scenario === 'shop' ? './shop.mjs' : './inserts.mjs');
}
