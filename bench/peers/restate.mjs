// The saga on Restate: one ctx.run() for each step, and a server of its own with defaults (in RESTATE_FOLDER).
import './promise.mjs';
import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { createServer } from 'node:net';
import * as restate from '@restatedev/restate-sdk';
import { connect, sagaNamed } from './saga.mjs';
import { drive, readArguments, tell } from './drive.mjs';

const { seconds, warmUp, callers, scenario, shape } = readArguments();
const { makeTables, makeOrder, steps, check } = await sagaNamed(scenario);
const folder = process.env.RESTATE_FOLDER;
const pools = connect(20);
await makeTables(pools, shape);

const freePort = () => new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});
const [ingress, admin, node, endpoint] = [await freePort(), await freePort(), await freePort(), await freePort()];

await restate.serve({
  port: endpoint,
  services: [restate.service({
    name: 'orders',
    handlers: {
      place: async (ctx, order) => {
        for (const [name, step] of steps) await ctx.run(name, async () => { await step(pools, order); });
        return order.id;
      },
    },
  })],
});

const log = openSync(`${folder}/server.log`, 'a');
const server = spawn('node_modules/.bin/restate-server', ['--base-dir', folder], {
  stdio: ['ignore', log, log],
  env: { ...process.env, RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`, RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
    RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`, RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}`, RESTATE_LOG_FILTER: 'warn',
    DO_NOT_TRACK: '1', RESTATE_DISABLE_TELEMETRY: 'true' },
});
closeSync(log);
const stopped = new Promise((resolve) => server.on('exit', resolve));
process.on('exit', () => server.kill('SIGKILL')); // it is gone by then, unless something went wrong
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

const post = async (url, body) => {
  const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${await answer.text()}`);
  return answer.json();
};

// Until it accepts the registration it is still starting.
for (const until = Date.now() + 60_000; ;) {
  try {
    await post(`http://127.0.0.1:${admin}/deployments`, { uri: `http://127.0.0.1:${endpoint}` });
    break;
  } catch (error) {
    if (Date.now() > until || server.exitCode !== null) throw new Error(`restate-server did not start: ${folder}/server.log says why`, { cause: error });
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
let sagas = 0;
for (const count of callers) {
  const figures = await drive((order) => post(`http://127.0.0.1:${ingress}/orders/place`, order), (id) => makeOrder(id, shape), count, seconds, warmUp);
  sagas += figures.sagas;
  tell('Restate', `${count} callers`, figures);
}
await check(pools, sagas, shape);
server.kill('SIGTERM');
await stopped;
process.exit(0);
