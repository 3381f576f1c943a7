// The saga on DBOS Transact: a workflow of its steps, with its own records in PostgreSQL too (DATABASE_URL_SYSTEM).
import { DBOS } from '@dbos-inc/dbos-sdk';
import { connect, sagaNamed } from './saga.mjs';
import { drive, readArguments, tell } from './drive.mjs';

const { seconds, warmUp, callers, scenario, shape } = readArguments();
const { makeTables, makeOrder, steps, check } = await sagaNamed(scenario);
const pools = connect(20);
await makeTables(pools, shape);

const saga = DBOS.registerWorkflow(async (order) => {
  for (const [name, step] of steps) await DBOS.runStep(async () => { await step(pools, order); }, { name });
}, { name: 'place-order' });

DBOS.setConfig({ name: 'skald-bench-peer', systemDatabaseUrl: process.env.DATABASE_URL_SYSTEM, systemDatabasePoolSize: 40, logLevel: 'error' });
await DBOS.launch();
let sagas = 0;
for (const count of callers) {
  const figures = await drive(saga, (id) => makeOrder(id, shape), count, seconds, warmUp);
  sagas += figures.sagas;
  tell('DBOS Transact', `${count} callers`, figures);
}
await check(pools, sagas, shape);
await DBOS.shutdown();
process.exit(0);
