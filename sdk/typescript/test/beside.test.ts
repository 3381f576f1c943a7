// What steps do beside their transaction: with the pool: DATABASE_URL (scripts/stack.sh), SKALD (the command line).
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import pg from "pg";
import { Participant, type Context } from "../src/index.js";
import { OwnDatabase } from "./database.js";
import { message } from "./message.js";

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
