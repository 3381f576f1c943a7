// What steps do beside their transaction: with the pool, with other servers, and what they do not wait for: DATABASE_URL, AMQP_URL
// (scripts/stack.sh), SKALD (the command line).
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import pg from "pg";
import { Participant, type Context } from "../src/index.js";
import { OwnDatabase } from "./database.js";
import { message } from "./message.js";
import { participant, waitFor } from "./process.js";

const database = new OwnDatabase(), { url } = database;
let c: pg.Client;
let shop: Participant;
let act: (ctx: Context) => unknown;

const process = (key: string): Promise<string> => shop.process(message("charge", 2, { key }));
const error = async (key: string): Promise<string> => (await c.query("SELECT error FROM skald.idempotency WHERE key = $1", [key])).rows[0].error;

before(async () => {
  await database.make("payments");
  c = new pg.Client(url);
  await c.connect();
  await c.query("CREATE TABLE wallet AS SELECT 100 AS cents; CREATE PROCEDURE commits() LANGUAGE plpgsql AS 'BEGIN COMMIT; END'");
});

beforeEach(async () => {
  for (const table of ["idempotency", "outbox", "parked"]) await c.query(`DELETE FROM skald.${table}`);
  await shop?.pool.end();
  shop = new Participant("payments", { databaseUrl: url, lanes: 2, log: () => undefined })
    .compensatable("order", "charge", async (ctx) => void (await act(ctx)), async () => undefined, { first_ms: 0 });
});

after(async () => {
  await shop.pool.end();
  await c.end();
  await database.drop();
});

test("steps take turns with the pool, and who waits for a connection that it has itself is told", async () => {
  act = async (ctx) => { await ctx.sql("SELECT 1"); await shop.pool.query("SELECT 1"); };
  assert.deepEqual(await Promise.all(["a", "b", "c", "d", "e", "f"].map(process)), Array(6).fill("step.completed"));
  act = async () => {
    const own = [await shop.pool.connect(), await shop.pool.connect()];
    shop.pool.options.connectionTimeoutMillis = 1;
    try {
      await shop.pool.query("SELECT 1");
    } finally {
      own.forEach((client) => client.release());
    }
  };
  assert.equal(await process("g"), "step.failed");
  assert.equal(await error("g"), "Error: timeout exceeded when trying to connect");
});

test("a transaction of another's that was ended is the step's fault, and Skald's is not", async () => {
  const ended = Object.assign(new Error("of another server"), { code: "2D000" });
  const all: [(ctx: Context) => unknown, string][] = [[() => { throw ended; }, "failed"], [() => shop.pool.query("BEGIN; CALL commits()"), "failed"],
    [(ctx) => ctx.sql("CALL commits()"), "parked"], [(ctx) => ctx.sql("CALL commits()").catch(() => undefined), "parked"],
    [(ctx) => ctx.sql("COMMIT"), "parked"], [(ctx) => ctx.sql("ROLLBACK"), "parked"],
    [(ctx) => ctx.sql("COMMIT").catch(() => undefined), "parked"],
    [async (ctx) => { for (const own of ["ROLLBACK", "BEGIN"]) await ctx.sql(own); await ctx.publish("mail", "charged", {}); }, "parked"]];
  for (const [n, [does, event]] of all.entries()) {
    act = does;
    assert.equal(await process(`k${n}`), `step.${event}`, `k${n}`);
  }
});

test("what a then() or finally() of a statement throws is its own", async () => {
  const met: unknown[] = [];
  act = (ctx) => ctx.sql("SELECT 1").then(() => { throw new Error("its own"); }).catch((its) => met.push(its.message));
  assert.deepEqual([await process("b"), met], ["step.completed", ["its own"]]);
  act = (ctx) => ctx.sql("SELECT 1").finally(() => { throw new Error("its own too"); }).catch((its) => met.push(its.message));
  assert.deepEqual([await process("d"), met.pop()], ["step.completed", "its own too"]);
});

test("a process that ends by what a step did not await names it, and it comes again", async () => {
  const p = await participant(url);
  p.start();
  p.send("forgets");
  assert.equal(await p.exitCode(), 1);
  await waitFor(async () => p.said().includes("division by zero") && (await p.queue()).messageCount === 1);
  assert.match(p.said(), /what is under way comes again: forgets:pay-out\n/);
  await p.close();
});

test("what waits for a lane does not begin after the signal", async () => {
  await c.query("CREATE TABLE gate ()");
  const p = await participant(url);
  p.start("lanes: 2");
  p.send("first"); // which is alone
  await waitFor(async () => (await c.query("SELECT FROM wallet WHERE cents < 100")).rowCount === 1);
  for (let n = 0; n < 4; ++n) p.send(`waits-${n}`);
  const begun = (): number => p.said().split("begins").length - 1;
  await waitFor(async () => begun() === 2 && (await p.queue()).messageCount === 0);
  const ended = p.exitCode();
  p.stop();
  await waitFor(async () => p.said().includes("SIGTERM: payments waits for the steps under way"));
  await c.query("INSERT INTO gate DEFAULT VALUES");
  assert.equal(await ended, 0);
  assert.deepEqual([begun(), p.said().includes("is kept until")], [2, false]);
  await waitFor(async () => (await p.queue()).messageCount >= 2); // what was not acked is back
  await p.close();
});

test("a second signal ends a process whose step hangs", async () => {
  const p = await participant(url);
  p.start();
  p.send("hangs");
  await waitFor(async () => (await c.query(`SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND state = 'idle in transaction'`)).rowCount === 1);
  p.stop();
  await waitFor(async () => p.said().includes("SIGTERM: payments waits for the steps under way"));
  const ended = p.exitCode();
  p.stop("SIGINT");
  assert.equal(await ended, 130); // and not by the signal, of which PID 1 of a container would hear nothing
  await p.close();
});
