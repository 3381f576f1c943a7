// Whoever handles an error, in whichever copy of Express, on a real PostgreSQL: DATABASE_URL (scripts/stack.sh), SKALD (the command line).
import assert from "node:assert/strict";
import { once } from "node:events";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import express, { type NextFunction, type Request, type RequestHandler, type Response } from "express";
import pg from "pg";
import { guard } from "../src/express.js";
import { OwnDatabase } from "./database.js";
import { close, listening, send } from "./server.js";

const database = new OwnDatabase(), { url } = database;
let c: pg.Client;

before(async () => {
  await database.make("orders");
  c = new pg.Client(url);
  await c.connect();
  await c.query("CREATE TABLE note (text text)");
});

after(async () => {
  await close();
  await c.end();
  await database.drop();
});

/** As if another package had it in its own node_modules. */
function anotherCopy(): typeof express {
  const require = createRequire(import.meta.url), had = { ...require.cache };
  for (const name of Object.keys(had)) delete require.cache[name];
  const made = require("express");
  for (const name of Object.keys(require.cache)) delete require.cache[name];
  Object.assign(require.cache, had);
  assert.notEqual(made.Router, express.Router);
  return made;
}

const writing: RequestHandler = async (req) => { await req.skald!.sql("INSERT INTO note VALUES ('x')"); throw new Error("broke"); };
const mapping = (_: Error, __: Request, res: Response, ___: NextFunction): void => void res.status(400).json("mapped");
const guarded = () => guard({ databaseUrl: url, connections: 1, log: () => undefined });

async function leavesNothing(app: express.Express, by: ReturnType<typeof guarded>, what: string): Promise<void> {
  const shop = await listening(app.set("env", "test"), by);
  for (let n = 0; n < 2; ++n) {
    const { status, body, headers } = await send(shop, what, {}, "", "/p/x");
    assert.deepEqual([what, status, body, headers["idempotency-replayed"]], [what, 400, '"mapped"', undefined]);
  }
  assert.deepEqual([what, (await c.query("SELECT count(*)::int AS n FROM note")).rows[0].n], [what, 0]);
}

test("what a Router or app of another copy of Express makes of an exception is no decision", async () => {
  type Mounted = (other: typeof express) => RequestHandler;
  const router: Mounted = (other) => other.Router().post("/x", writing).use(mapping);
  const nested: Mounted = (other) => express.Router().use("/", other.Router().use("/", router(anotherCopy())));
  const app: Mounted = (other) => other().use("/", router(other)) as unknown as RequestHandler;
  const own: Mounted = (other) => other().post("/x", writing).use(mapping) as unknown as RequestHandler;
  const bare: Mounted = (other) => other().use(writing).use(mapping) as unknown as RequestHandler;
  const called = (mounted: Mounted): Mounted => (other) => { const made = mounted(other); return (req, res, next) => made(req, res, next); };
  const all: Record<string, Mounted> = { router, nested, app, own, bare, "router-called": called(router), "app-called": called(own),
    "bare-called": called(bare) };
  for (const [what, mounted] of Object.entries(all)) {
    const by = guarded();
    await leavesNothing(express().use(by).use("/p", mounted(anotherCopy())), by, what);
  }
});

test("a guard in a Router or app of another copy of Express sees what is raised there", async () => {
  const other = anotherCopy(), inRouter = guarded(), inApp = guarded(), inCalled = guarded(), before: RequestHandler = (_, __, next) => next();
  await leavesNothing(express().use("/p", other.Router().use(inRouter).post("/x", writing).use(mapping)), inRouter, "in-router");
  await leavesNothing(express().use("/p", anotherCopy()().use(inApp).post("/x", writing)).use(before, mapping), inApp, "in-app");
  const called = anotherCopy().Router().post("/x", inCalled, writing).use(mapping);
  await leavesNothing(express().use("/p", (req, res, next) => called(req, res, next)), inCalled, "in-called");
});

test("an app that is called without what comes next makes no decision of what is raised", async () => {
  for (const copy of [express, anotherCopy()]) {
    const by = guarded(), sub = copy().set("env", "test");
    sub.post("/x", async (req) => { await req.skald!.sql("SELECT 1"); throw Object.assign(new Error("broke"), { status: 402 }); });
    const shop = await listening(express().use(by).use("/p", (req, res) => void (sub as any)(req, res)), by);
    for (let n = 0; n < 2; ++n) {
      const { status, headers } = await send(shop, `alone-${copy === express}`, {}, "", "/p/x");
      assert.deepEqual([status, headers["idempotency-replayed"]], [402, undefined]);
    }
  }
});

test("two guards on a request's way are an error that says so", async () => {
  const first = guarded(), second = guarded(), app = express().use(first);
  let told: unknown;
  app.post("/", second, (_, res) => void res.json("x"));
  app.use((error: Error, _: Request, res: Response, __: NextFunction) => ((told = error.message), void res.status(500).end()));
  const shop = await listening(app, first);
  assert.equal((await send(shop, "twice")).status, 500);
  assert.match(String(told), /guarded already: have one guard\(\)/);
  await second.close();
});
