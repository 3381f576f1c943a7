// The guard for Express on a real PostgreSQL, beside the order service in C++ on the same database: DATABASE_URL (scripts/stack.sh), SKALD (the
// command line), ORDER_SERVICE (examples/order_saga).
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { request, type Server } from "node:http";
import { createServer, type AddressInfo } from "node:net";
import { after, before, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import amqp from "amqplib";
import express, { type NextFunction, type Request, type Response } from "express";
import pg from "pg";
import { guard, type Guard, type GuardSettings, type RequestContext } from "../src/express.js";
import { OwnDatabase } from "./database.js";
import { AbsentStandby } from "./standby.js";

declare global {
  namespace Express { interface Request { user?: { id: string } } } // as the types of passport do
}
type Act = (ctx: RequestContext, req: Request, res: Response, next: NextFunction) => unknown;
interface Shop { guarded: Guard; server: Server }
interface Answer { status: number; headers: Record<string, string | string[] | undefined>; body: string }

const database = new OwnDatabase(), { url } = database;
const order = '{"customer": "ada", "sku": "tea", "quantity": 0, "cents": 5}';
let c: pg.Client;
let shop: Server;
let act: Act;
const shops: Shop[] = [];

const note: Act = async (ctx, _, res) => {
  await ctx.sql("INSERT INTO note VALUES ($1)", [ctx.key]);
  res.status(201).set({ Location: "/x", "Set-Cookie": ["a=b", "c=d"] }).json({ key: ctx.key });
};

function ask(port: number, key: string | undefined, body: string, more: Record<string, string> = {}, path = "/orders"): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const r = request({ port, path, method: "POST", host: "127.0.0.1",
      headers: { "Content-Type": "application/json", ...(key === undefined ? {} : { "Idempotency-Key": key }), ...more } }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (chunk) => (text += chunk))
        .on("end", () => resolve({ status: answer.statusCode!, headers: answer.headers, body: text }));
    });
    r.on("error", reject).end(body);
  });
}
const send = (key: string | undefined, body = order, more: Record<string, string> = {}, path?: string): Promise<Answer> =>
  ask((shop.address() as AddressInfo).port, key, body, more, path);
const problem = ({ status, headers, body }: Answer): string => {
  assert.equal(headers["content-type"], "application/problem+json");
  return `${status} ${JSON.parse(body).type.replace("/problems/", "")}`;
};
const one = async (query: string, values: unknown[] = []): Promise<any> => Object.values((await c.query(query, values)).rows[0] ?? {})[0];
const notes = async (): Promise<number> => Number(await one("SELECT count(*) FROM note"));

before(async () => {
  await database.make("orders");
  c = new pg.Client(url);
  await c.connect();
  await c.query("CREATE TABLE note (text text)");
  shop = await opened({ scope: (req) => String(req.headers["x-scope"] ?? "") });
});

async function opened(settings: GuardSettings): Promise<Server> {
  const app = express(), guarded = guard({ databaseUrl: url, log: () => undefined, ...settings });
  app.set("env", "test"); // its own error handler writes nothing
  app.use(guarded);
  app.use(express.json());
  app.post("/orders", async (req, res, next) => void (await act(req.skald!, req, res, next)));
  app.use((error: Error, _req: Request, res: Response, next: NextFunction) =>
    error.message === "broke" ? void res.status(500).json("broke") : error.message === "mapped" ? void res.status(400).json("mapped") : next(error));
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  shops.push({ guarded, server });
  return server;
}
const sendTo = (to: Server, key?: string, body = order, more: Record<string, string> = {}): Promise<Answer> =>
  ask((to.address() as AddressInfo).port, key, body, more);

beforeEach(async () => {
  act = note;
  await c.query("TRUNCATE note");
  for (const table of ["idempotency", "response", "outbox", "saga"]) await c.query(`DELETE FROM skald.${table}`);
});

after(async () => {
  for (const { guarded, server } of shops) {
    server.close();
    server.closeAllConnections();
    await guarded.close();
  }
  await c.end();
  await database.drop();
});

test("a request takes effect once, and its response is replayed", async () => {
  const first = await send("k"), again = await send('"k"');
  assert.deepEqual([first.status, first.body, first.headers["location"], first.headers["set-cookie"]], [201, '{"key":"k"}', "/x", ["a=b", "c=d"]]);
  const bare = ({ headers: { date, "idempotency-replayed": replayed, ...headers }, ...rest }: Answer) => ({ ...rest, headers, replayed });
  assert.deepEqual(bare(again), { ...bare(first), replayed: "true" });
  assert.equal(bare(first).replayed, undefined);
  assert.equal(await notes(), 1);
});

test("another request under the key is refused, another scope is another key, and a key is needed", async () => {
  await send("k");
  assert.equal(problem(await send("k", "{}")), "422 key-reused");
  assert.equal(problem(await send("k", order, {}, "/orders?x=1")), "422 key-reused");
  assert.equal((await send("k", order, { "X-Scope": "b" })).status, 201);
  assert.equal(problem(await send("k", order, { "X-Scope": "b".repeat(65) })), "400 scope");
  for (const key of [undefined, " ", "a b", '"a', '""', "k".repeat(181), "k;"]) assert.equal(problem(await send(key)), "400 idempotency-key");
  assert.equal(await notes(), 2);
});

test("while the first is served, another is told or waits", async () => {
  let leave = (): void => undefined, enter = (): void => undefined;
  const left = new Promise<void>((resolve) => (leave = resolve)), entered = new Promise<void>((resolve) => (enter = resolve));
  act = async (ctx, req, res, next) => { enter(); await left; await note(ctx, req, res, next); };
  const first = send("k");
  await entered;
  const told = await send("k");
  assert.deepEqual([problem(told), told.headers["retry-after"]], ["409 in-flight", "1"]);
  const waiting = send("k", order, { Prefer: "wait=20" });
  leave();
  assert.deepEqual([(await first).body, (await waiting).body, (await waiting).headers["idempotency-replayed"]], ['{"key":"k"}', '{"key":"k"}', "true"]);
  assert.equal(await notes(), 1);
});

test("what is no outcome leaves nothing", async () => {
  for (const status of [500, 503, 401, 403, 408, 409, 425, 429, 307, 308]) {
    act = async (ctx, _, res) => { await ctx.sql("INSERT INTO note VALUES ('x')"); res.status(status).end(); };
    assert.equal((await send("k")).status, status);
  }
  act = async (ctx) => { await ctx.sql("INSERT INTO note VALUES ('x')"); throw new Error("broke"); };
  assert.equal((await send("k")).status, 500);
  act = async (ctx, _, res) => { ctx.leavesNothing = true; await ctx.sql("INSERT INTO note VALUES ('x')"); res.status(400).end(); };
  assert.equal((await send("k")).status, 400);
  assert.equal(problem(await send("k", "{")), "400 body");
  assert.deepEqual([await notes(), Number(await one("SELECT count(*) FROM skald.idempotency"))], [0, 0]);
  act = async (ctx, _, res) => { ctx.isFinal = true; res.status(409).send("taken"); };
  await send("k");
  assert.equal((await send("k")).headers["idempotency-replayed"], "true");
});

test("a deadlock and a lost connection are 503, and nothing was done", async () => {
  for (const [statement, said] of [["DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$", "503 about:blank"],
    ["SELECT pg_terminate_backend(pg_backend_pid())", "503 unavailable"], ["COMMIT", "500"]] as const) {
    act = async (ctx, req, res, next) => { await ctx.sql("INSERT INTO note VALUES ('x')"); await ctx.sql(statement); await note(ctx, req, res, next); };
    const answer = await send("k");
    assert.equal(said === "500" ? String(answer.status) : problem(answer), said);
  }
  assert.equal(await notes(), 0);
  act = note;
  assert.equal((await send("k")).status, 201);
});

test("what is thrown leaves nothing, and what is responded is an outcome", async () => {
  const refusal = Object.assign(new Error("over your limit"), { status: 402 });
  const inserted = (then: Act): Act => async (ctx, req, res, next) => { await ctx.sql("INSERT INTO note VALUES ('x')"); return then(ctx, req, res, next); };
  const deadlock = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$";
  for (const [then, status] of [[() => { throw refusal; }, 402], [(_, __, ___, next) => next(refusal), 402], [() => { throw new Error("mapped"); }, 400],
    [(_, __, res) => res.sendFile("/nowhere/x"), 404],
    [(ctx) => ctx.sql(deadlock).catch(() => { throw new Error("mapped"); }), 503]] as [Act, number][]) {
    act = inserted(then);
    assert.equal((await send("k")).status, status);
  }
  assert.deepEqual([await notes(), Number(await one("SELECT count(*) FROM skald.idempotency"))], [0, 0]);
  act = inserted((_, __, res) => res.status(402).end());
  await send("k");
  assert.deepEqual([(await send("k")).headers["idempotency-replayed"], await notes()], ["true", 1]);
});

test("the first response counts, and req.skald ends with it", async () => {
  const errors: unknown[] = [];
  const failing = async (what: () => unknown) => { try { await what(); } catch (error: any) { errors.push(error.code ?? error.message); } };
  act = async (ctx, _, res) => {
    const { client } = ctx;
    await ctx.sql("INSERT INTO note VALUES ('x')");
    res.status(402).json({ no: "money" });
    await failing(() => res.status(201).json({ charged: 1 }));
    await failing(() => ctx.sql("INSERT INTO note VALUES ('late')"));
    await failing(() => client.query("INSERT INTO note VALUES ('late')"));
    throw Object.assign(new Error("late"), { status: 400 });
  };
  const ended = "the request has been responded to: what a handler does with req.skald comes before its response";
  for (const replayed of [undefined, "true"]) {
    const { status, body, headers } = await send("k", order, { Connection: "close" }); // Express ends it, because of the error
    assert.deepEqual([status, body, headers["idempotency-replayed"]], [402, '{"no":"money"}', replayed]);
  }
  assert.deepEqual([errors, await notes()], [["ERR_HTTP_HEADERS_SENT", ended, ended], 1]);
});

test("a session is set right", async () => {
  const small = await opened({ connections: 1 });
  for (const last of ["RESET ROLE", "SELECT 1/0"]) {
    act = async (ctx, _, res) => {
      for (const statement of ["CREATE TEMP TABLE note (text text)", "SET app.tenant = 'a'", "SET ROLE pg_monitor", "SELECT pg_advisory_lock(7)", "LISTEN x",
        "SET lock_timeout = 1", "SET search_path = nowhere", last]) await ctx.sql(statement);
      res.status(201).end();
    };
    assert.equal((await sendTo(small, `a${last[0]}`)).status, last === "RESET ROLE" ? 201 : 500);
    act = async (ctx, req, res) => {
      const { rows: [row] } = await ctx.sql(`SELECT coalesce(current_setting('app.tenant', true), '') AS tenant, current_user = session_user AS is_own,
        current_setting('lock_timeout') AS wait, (SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND objid = 7) AS locks,
        (SELECT count(*)::int FROM pg_listening_channels()) AS channels`);
      await ctx.sql("INSERT INTO note VALUES ($1)", [ctx.key]);
      res.json(row);
    };
    assert.deepEqual(JSON.parse((await sendTo(small, `b${last[0]}`)).body), { tenant: "", is_own: true, wait: "5s", locks: 0, channels: 0 });
  }
  assert.equal(await notes(), 2);
});

test("a handler that never responds is ended, whether its client waits or not", async () => {
  const small = await opened({ connections: 1, handlerMs: 200 });
  let enter = (): void => undefined;
  const entered = new Promise<void>((resolve) => (enter = resolve));
  act = async (ctx) => { await ctx.sql("INSERT INTO note VALUES ('x')"); enter(); };
  const answer = await sendTo(small, "k");
  assert.deepEqual([problem(answer), answer.headers["retry-after"]], ["503 about:blank", "1"]);
  const gone = request({ port: (small.address() as AddressInfo).port, method: "POST", path: "/orders", headers: { "Idempotency-Key": "gone" } });
  gone.on("error", () => undefined).end(order);
  await entered;
  gone.destroy();
  act = note;
  for (const key of ["k", "gone"]) assert.equal((await sendTo(small, key, order, { Prefer: "wait=20" })).status, 201);
  assert.equal(await notes(), 2);
});

test("a full pool is not said to be the database", async (t) => {
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  const client = await pool.connect();
  pool.options.connectionTimeoutMillis = 1;
  const error = await pool.connect().then(() => undefined, (failed) => failed); // as pg says it
  client.release();
  await pool.end();
  t.mock.method(pg.Pool.prototype, "connect", async () => { throw error; });
  const answer = await send("k");
  assert.deepEqual([problem(answer), JSON.parse(answer.body).detail.includes("have all connections")], ["503 about:blank", true]);
});

test("a server that was made read-only is left", async () => {
  const fenced = await opened({ databaseUrl: `${url}?options=-c%20default_transaction_read_only%3Don` });
  assert.deepEqual([problem(await sendTo(fenced, "k")), await notes()], ["503 unavailable", 0]);
});

test("a handler that releases its client has not, and nothing remains", async () => {
  const small = await opened({ connections: 1 });
  act = async ({ client, sql }, _, res) => { await sql("INSERT INTO note VALUES ('x')"); client.release(); res.status(201).end(); };
  assert.deepEqual([(await sendTo(small, "k")).status, await notes()], [500, 0]);
  act = note;
  assert.deepEqual([(await sendTo(small, "k")).status, await notes()], [201, 1]);
});

test("a session may be idle for as long as a handler may take", async () => {
  act = async (ctx, _, res) => res.json((await ctx.sql("SHOW idle_in_transaction_session_timeout")).rows[0]);
  const idle: string[] = [];
  for (const handlerMs of [undefined, 200, 60_000]) idle.push((await sendTo(await opened({ handlerMs }), `k${handlerMs}`)).body);
  assert.match(idle.join(), /30s.*30s.*1min/);
  for (const handlerMs of [0, NaN, Infinity, 2 ** 31]) assert.throws(() => guard({ databaseUrl: url, handlerMs }), /handlerMs is a number/);
});

test("a saga that nobody awaits and that can't be started leaves nothing", async () => {
  act = async (ctx, _, res) => { void ctx.start("place", "a@orders=retriable", { x: 1n }), void ctx.sql("INSERT INTO note VALUES ('x')"); res.status(201).end(); };
  assert.deepEqual([problem(await send("k")), await notes()], ["500 about:blank", 0]);
});

test("a transaction that the handler ends stores nothing", async () => {
  const insert = "INSERT INTO note VALUES ('x')";
  for (const statements of [["ROLLBACK", insert], [insert, "ROLLBACK", "BEGIN", insert, "COMMIT"], ["COMMIT", insert], ["COMMIT", "BEGIN", insert]]) {
    for (const status of [201, 409, 0]) {
      act = async (ctx, _, res) => {
        for (const statement of statements) await ctx.sql(statement).catch((error) => assert.equal(error.code, "25006"));
        if (!status) throw new Error("mapped");
        res.status(status).end();
      };
      const answer = await send("k");
      assert.deepEqual([answer.status, answer.body.includes("ended its own transaction")], [500, true]);
    }
  }
  assert.deepEqual([await notes(), Number(await one("SELECT count(*) FROM skald.response"))], [0, 0]);
});

test("a statement that nobody awaits and that fails leaves nothing, and ends no process", async () => {
  act = async (ctx, _, res) => { void ctx.sql("INSERT INTO note VALUES ('x')"), void ctx.sql("SELECT 1/0"); res.status(201).end(); };
  assert.equal(problem(await send("k")), "500 about:blank");
  assert.equal(await notes(), 0);
});

test("a statement that fails behind the response leaves nothing", async () => {
  act = async (ctx, _, res) => {
    await ctx.sql("INSERT INTO note VALUES ('x')");
    ctx.client.once("drain", function (this: pg.ClientBase) { this.query("SELECT 1/0").catch(() => undefined); }); // after skald.respond
    res.status(201).end();
  };
  const answer = await send("k");
  assert.deepEqual([problem(answer), JSON.parse(answer.body).detail], ["500 about:blank", "the request could not be served; it had no effect"]);
  act = note;
  assert.deepEqual([(await send("k")).status, await notes()], [201, 1]);
});

test("the scope is of whom middleware has found, and a handler has the body's bytes", async () => {
  const app = express(), guarded = guard({ databaseUrl: url, scope: (req) => req.user!.id });
  app.use((req, _, next) => { req.user = { id: "ada" }; next(); });
  app.use(guarded);
  app.post("/orders", (req, res) => void res.json([req.user!.id, req.skald!.scope, req.rawBody!.toString()]));
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  shops.push({ guarded, server });
  assert.equal((await sendTo(server, "k", '{"a": 1}')).body, JSON.stringify(["ada", "ada", '{"a": 1}']));
});

test("the scope is asked first, then the key is looked for, then the body is read", async () => {
  const strict = await opened({ scope: async ({ headers: { authorization } }) => {
    if (!authorization) throw Object.assign(new Error("who are you"), { status: 401 });
    return authorization === "null" ? (null as unknown as string) : authorization.replace("nul", "\0");
  } });
  const statuses = async (...all: string[]) => {
    const answers: number[] = [];
    for (const who of all) answers.push((await sendTo(strict, "k", order, who ? { Authorization: who } : {})).status);
    return answers;
  };
  act = note;
  assert.deepEqual(await statuses("", "ada", "", "null", "nul"), [401, 201, 401, 500, 500]);
  assert.equal(await one("SELECT string_agg(scope, ',') FROM skald.idempotency"), "ada");
  const unread = await new Promise<number>((resolve) => {
    const r = request({ port: (shop.address() as AddressInfo).port, method: "POST", path: "/orders", headers: { "Content-Length": 1e6 } },
      ({ statusCode }) => (r.destroy(), resolve(statusCode!)));
    r.on("error", () => undefined).flushHeaders(); // nothing of the body is ever sent
  });
  assert.equal(unread, 400);
  assert.equal(problem(await send("big", "x".repeat(300_000))), "413 about:blank");
});

test("what is not known after COMMIT is found out", async () => {
  await c.query(`CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION cut()`);
  try {
    assert.equal(problem(await send("k")), "503 unavailable"); // it asked, and it had been rolled back
  } finally {
    await c.query("DROP FUNCTION cut() CASCADE");
  }
  assert.equal((await send("k")).status, 201);
  assert.equal(await notes(), 1);
});

test("a COMMIT that was made to stop waiting for a standby is not believed", async () => {
  await AbsentStandby.during(url, async (standby) => {
    for (let tries = 0; tries < 2; ++tries) assert.equal(problem(await standby.cancelled(send("k"))), "503 outcome-unknown");
    assert.equal(await notes(), 1);
    const found = send("b");
    while (!await standby.cancel());
    await standby.end();
    assert.equal((await found).status, 201);
  });
  assert.deepEqual([(await send("k")).headers["idempotency-replayed"], await notes()], ["true", 2]);
});

const rows = `SELECT i.status::text, i.attempts, i.snoozes, encode(i.fingerprint, 'hex') AS fingerprint, i.error, i.home, r.status_code,
    r.content_type, r.headers::text, convert_from(r.body, 'UTF8') AS body, r.kept
  FROM skald.idempotency i JOIN skald.response r USING (scope, key) WHERE i.key = $1 AND i.step = ''`;

test("a service in C++ writes the same rows, and each replays the other", async () => {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const port = (probe.address() as AddressInfo).port;
  probe.close();
  // The queues belong to one database, and an earlier test may have had another.
  const broker = await amqp.connect(process.env["AMQP_URL"]!);
  const channel = await broker.createChannel();
  for (const queue of ["", ".parked", ".database"]) await channel.deleteQueue(`skald.orders${queue}`);
  await broker.close();
  const cpp = spawn(process.env["ORDER_SERVICE"]!, ["--listen", `127.0.0.1:${port}`], { env: { ...process.env, DATABASE_URL: url }, stdio: "ignore" });
  const exited = once(cpp, "exit");
  try {
    const until = Date.now() + 30_000;
    let there: Answer | undefined;
    while (there === undefined) {
      there = await ask(port, "from-cpp", order, {}, "/orders?a=%20b").catch(() => undefined);
      assert.ok(Date.now() < until);
      if (there === undefined || there.status === 503) (there = undefined), await sleep(50);
    }
    act = async (_, __, res) => res.writeHead(400, { "Content-Type": "application/problem+json" })
      .end('{"type":"about:blank","title":"Bad Request","status":400,"detail":"quantity must be at least 1"}');
    const here = await send("from-express", order, {}, "/orders?a=%20b");
    assert.deepEqual([there.status, there.body], [400, here.body]);
    const [mine, theirs] = await Promise.all(["from-express", "from-cpp"].map(async (key) => (await c.query(rows, [key])).rows[0]));
    assert.ok(mine);
    assert.deepEqual(mine, theirs);
    const replayed = [await send("from-cpp", order, {}, "/orders?a=%20b"), await ask(port, "from-express", order, {}, "/orders?a=%20b")];
    assert.deepEqual(replayed.map((r) => [r.status, r.body, r.headers["idempotency-replayed"]]), Array(2).fill([400, here.body, "true"]));
    assert.equal((await ask(port, "from-express", "{}")).body, (await send("from-cpp", "{}")).body);
  } finally {
    cpp.kill("SIGTERM");
    assert.equal((await exited)[0], 0);
  }
});
