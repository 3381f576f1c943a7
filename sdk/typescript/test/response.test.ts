// What comes to `res` before the guard, and what comes too late, on a real PostgreSQL: DATABASE_URL (scripts/stack.sh), SKALD (the command line).
import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type Server } from "node:http";
import { createRequire } from "node:module";
import { type AddressInfo } from "node:net";
import { PassThrough, pipeline, Readable } from "node:stream";
import { after, before, test } from "node:test";
import express, { Router, type NextFunction, type Request, type RequestHandler, type Response } from "express";
import pg from "pg";
import { guard, type GuardSettings, type RequestContext } from "../src/express.js";
import { OwnDatabase } from "./database.js";
import { close, listening, send } from "./server.js";

const cors = createRequire(import.meta.url)("cors"), session = createRequire(import.meta.url)("express-session");
const database = new OwnDatabase(), { url } = database;
let act: (req: Request, res: Response, next: NextFunction) => unknown;

before(async () => {
  await database.make("orders");
});

after(async () => {
  await close();
  await database.drop();
});

async function opened(earlier: RequestHandler[], settings: GuardSettings = {}, behind: RequestHandler[] = []): Promise<Server> {
  const app = express(), guarded = guard({ databaseUrl: url, log: () => undefined, ...settings });
  app.set("env", "test"); // its own error handler writes nothing
  for (const one of [...earlier, guarded, ...behind]) app.use(one);
  app.post("/", (req, res, next) => act(req, res, next));
  return listening(app, guarded);
}

test("what a handler does that was too slow comes to nothing, and ends nothing", async () => {
  const shop = await opened([], { handlerMs: 200 });
  const lates: ((res: Response, next: NextFunction) => unknown)[] = [
    (res) => void res.status(201).set("X-Late", "1").cookie("a", "b").json({}),
    (res) => void res.writeHead(201, { "X-Late": "1" }).end("late"),
    (res) => (res.removeHeader("X-Powered-By"), res.flushHeaders(), res.write("late"), new Promise<void>((done) => res.end(done))),
    (_, next) => next(new Error("late")), (_, next) => next(),
    () => { throw new Error("late"); }];
  for (const [n, late] of lates.entries()) {
    let go = (): void => undefined, ended = (): void => undefined;
    const slow = new Promise<void>((resolve) => (go = resolve)), end = new Promise<void>((resolve) => (ended = resolve));
    const run = async (res: Response, next: NextFunction): Promise<void> => {
      await slow;
      setImmediate(ended);
      await late(res, next);
    };
    act = n === lates.length - 1 ? (_, res, next) => run(res, next) // of an Express 5 handler, it is Express that hears of it
      : (_, res, next) => void slow.then(() => setImmediate(() => void run(res, next)));
    assert.equal((await send(shop, `slow-${n}`)).status, 503);
    go();
    await end;
    act = (_, res) => res.status(201).end();
    const { status, reused, headers } = await send(shop, `slow-${n}`);
    assert.deepEqual([status, reused, headers["x-late"]], [201, true, undefined]);
  }
});

test("what earlier middleware has put on the response is in whatever the guard sends", async () => {
  const earlier = [cors({ origin: true, exposedHeaders: "Location" }), session({ secret: "s", resave: false, saveUninitialized: true })];
  const shop = await opened(earlier, { handlerMs: 200, bodyMax: 10 });
  act = (_, res) => res.status(201).vary("Accept").cookie("a", "b").set("Location", "/x").json({});
  const sessions = new Set<unknown>();
  const of = async (from: string, key?: string, body = ""): Promise<unknown[]> => {
    const { status, headers } = await send(shop, key, { Origin: from }, body);
    const cookies = headers["set-cookie"] as string[], own = cookies.filter((cookie) => cookie.startsWith("connect.sid="));
    assert.equal(own.length, 1);
    sessions.add(own[0]);
    assert.deepEqual([headers["access-control-allow-origin"], headers["access-control-expose-headers"]], [from, "Location"]);
    assert.match(headers["vary"] as string, /Origin/);
    return [status, headers["location"], headers["idempotency-replayed"], ...cookies.filter((cookie) => cookie !== own[0])];
  };
  assert.deepEqual(await of("http://a", "k"), [201, "/x", undefined, "a=b; Path=/"]);
  assert.deepEqual(await of("http://b", "k"), [201, "/x", "true", "a=b; Path=/"]);
  assert.deepEqual(await of("http://c", "k", "x"), [422, undefined, undefined]);
  assert.deepEqual(await of("http://d"), [400, undefined, undefined]);
  act = () => undefined;
  assert.deepEqual(await of("http://e", "slow"), [503, undefined, undefined]);
  assert.deepEqual(await of("http://f", "k", "x".repeat(11)), [413, undefined, undefined]);
  assert.equal(sessions.size, 6);
});

test("what a handler sets is stored, and what middleware has set before is not", async () => {
  const earlier: RequestHandler = (req, res, next) => {
    res.set({ "X-Frame-Options": "DENY", "X-Request-Id": req.get("X-Request-Id")!, "Cache-Control": "private", Link: ["<a>", "<b>"] });
    next();
  };
  const shop = await opened([earlier], {}, [(_, res, next) => {
    const { writeHead } = res;
    res.writeHead = (...given: any[]) => (res.setHeader("X-Took", "1"), (writeHead as any).apply(res, given)); // as on-headers does
    next();
  }]);
  act = (_, res) => { res.removeHeader("X-Frame-Options"), res.set({ "Cache-Control": "no-store", Link: ["<b>", "<c>"] }).sendStatus(201); };
  for (const id of ["1", "2"]) {
    const { headers: all } = await send(shop, "headers", { "X-Request-Id": id });
    assert.deepEqual(["x-frame-options", "x-request-id", "cache-control", "link", "x-took"].map((one) => all[one]), ["DENY", id, "no-store", "<b>, <c>", "1"]);
  }
});

test("a second response fails while the first one is being committed", async () => {
  const shop = await opened([]);
  let code: unknown;
  act = async (_, res) => {
    res.status(201).json("first");
    await new Promise(setImmediate);
    try { res.status(200).json("second"); } catch (error: any) { code = error.code; }
  };
  const { status, body } = await send(shop, "twice");
  assert.deepEqual([status, body, code], [201, '"first"', "ERR_HTTP_HEADERS_SENT"]);
});

test("what raises behind a part of its response is a 500, to which no error handler adds", async () => {
  const lines: string[] = [], app = express(), guarded = guard({ databaseUrl: url, connections: 1, log: (line) => void lines.push(line) });
  let does = (_res: Response): unknown => undefined, told: unknown;
  app.use(guarded);
  app.post("/", (req, res) => void (req.skald, assert.equal(res.headersSent, false), does(res)));
  app.use((error: Error, _: Request, res: Response, next: NextFunction) => ((told = res.headersSent), res.headersSent ? next(error) : res.json("another")));
  const shop = await listening(app.set("env", "test"), guarded);
  for (const [key, begins] of [["part", (res: Response) => res.write("part")], ["head", (res: Response) => res.writeHead(200)]] as const) {
    does = (res) => { begins(res); throw new Error("later"); };
    const { status, body, headers } = await send(shop, key); // Express ends the connection, because of the error
    assert.deepEqual([status, JSON.parse(body).detail, headers["connection"]], [500, "the response was never finished; nothing was done", "close"]);
    does = (res) => (begins(res), res.end(String(res.headersSent)));
    assert.match((await send(shop, key)).body, /^(part)?true$/);
  }
  assert.equal(told, true);
  assert.match(lines.join(), /^POST \/, key part: 500: Error: later\n/);
});

test("headers given as a list are headers", async () => {
  const shop = await opened([]);
  for (const [n, given] of [["Set-Cookie", "a=1", "Set-Cookie", "b=2", "X-A", 1], [["Set-Cookie", "a=1"], ["Set-Cookie", "b=2"], ["X-A", "1"]]].entries()) {
    act = (_, res) => res.writeHead(200, given as string[]).end("x");
    for (const key of Array(2).fill(`list-${n}`)) {
      const { headers } = await send(shop, key);
      assert.deepEqual([headers["set-cookie"], headers["x-a"]], [["a=1", "b=2"], "1"]);
    }
  }
});

test("a refusal by whoever has not asked for req.skald is not stored", async () => {
  let isStrict = true;
  const shop = await opened([], {}, [(_, res, next) => (isStrict ? void res.status(400).json("which tenant?") : next())]);
  const replays = async (key: string): Promise<unknown[]> => {
    const { status, headers } = await send(shop, key);
    return [status, headers["idempotency-replayed"]];
  };
  assert.deepEqual(await replays("middleware"), [400, undefined]);
  isStrict = false;
  act = (_, __, next) => next(); // as if there were no route
  for (const key of ["middleware", "route", "route"]) assert.deepEqual(await replays(key), [404, undefined]);
  act = (_, res) => res.status(201).end();
  for (const key of ["middleware", "route"]) assert.deepEqual([await replays(key), await replays(key)], [[201, undefined], [201, "true"]]);
  act = ({ skald }, res) => res.status(skald ? 404 : 500).end();
  assert.deepEqual([await replays("decided"), await replays("decided")], [[404, undefined], [404, "true"]]);
});

test("a body that was read before the guard is an error that says so", async () => {
  const told: string[] = [], json = { "Content-Type": "application/json" };
  const telling = (error: Error, _: Request, res: Response, __: NextFunction): void => (told.push(error.message), void res.status(500).end());
  const drain: RequestHandler = (req, _, next) => void req.resume().on("end", () => next());
  for (const [n, reads] of [express.json(), express.text({ type: "*/*" }), drain].entries()) {
    const by = guard({ databaseUrl: url, guarded: (req) => req.headers["idempotency-key"] !== "free" });
    const shop = await listening(express().use(reads, by).post("/", (req, res) => void res.status(201).json(req.body)).use(telling), by);
    for (const body of ['{"cents":100}', '{"cents":5}']) assert.equal((await send(shop, `read-${n}`, json, body)).status, 500);
    for (const key of [`none-${n}`, "free"]) assert.equal((await send(shop, key, json)).status, 201);
    if (reads !== drain) assert.match((await send(shop, "free", json, '{"cents":5}')).body, /cents/);
  }
  assert.equal(told.length, 6);
  for (const one of told) assert.match(one, /the body was read before the guard: .* in front of what parses bodies/);
});

test("a number that JavaScript can't hold is refused, and not changed", async () => {
  const shop = await opened([]), json = { "Content-Type": "application/json" };
  let seen: unknown = "nothing";
  act = (req, res) => (seen = req.body, res.status(201).end());
  for (const number of ["9007199254740993", "1e400", "-1e999", "9007199254740993.00", "-9007199254740993.0"]) {
    const { status, body } = await send(shop, "digits", json, `{"note": "\\" 9007199254740993", "cents": ${number}}`);
    assert.deepEqual([status, JSON.parse(body).detail], [400, `the data has ${number}, which a number of JavaScript can't hold: send it as a string`]);
  }
  assert.equal(seen, "nothing");
  assert.equal((await send(shop, "digits", json, '{"note": "\\" 9007199254740993", "cents": 9007199254740992.0, "none": [-0.0, 0e-9], "rate": 0.1}')).status, 201);
  for (const cents of [NaN, Infinity]) {
    let why: unknown;
    act = async ({ skald }, res) => {
      await skald!.start("place", "charge@payments=retriable", { cents }).catch((error) => (why = error.message));
      res.status(201).end();
    };
    assert.deepEqual([(await send(shop, "saga")).status, why], [500, `${cents} can't be represented in JSON`]);
  }
});

test("an empty body is none, a byte order mark is skipped, and what is compressed is refused with words", async () => {
  const shop = await opened([]);
  act = ({ body }, res) => void res.status(201).json({ body });
  const post = (key: string, body: string, more: Record<string, string> = {}) => send(shop, key, { "Content-Type": "application/json", ...more }, body);
  for (const [n, [body, seen]] of [["", "{}"], ["\uFEFF", "{}"], ['\uFEFF{"a":1}', '{"body":{"a":1}}'], ["0", '{"body":0}']].entries()) {
    const answer = await post(`body-${n}`, body!, { "Content-Encoding": "Identity" });
    assert.deepEqual([answer.status, answer.body], [201, seen]);
  }
  const { status, headers, body } = await post("gzip", "{}", { "Content-Encoding": "gzip" });
  assert.deepEqual([status, headers["accept-encoding"], JSON.parse(body).detail],
    [415, "identity", "this server reads no JSON with Content-Encoding: gzip; send it as it is"]);
  assert.equal((await post("gzip", "{}")).status, 201);
});

test("a handler's parsers are its own, and the process's are not the guard's", async () => {
  const shop = await opened([], { connections: 1 }), jsonb = pg.types.getTypeParser(3802);
  let said: unknown;
  act = async ({ skald }, res) => {
    try { skald!.client.setTypeParser(3802, (value) => value); } catch (error: any) { said = error.message; }
    const types = { getTypeParser: () => (value: string) => `<${value}>` };
    res.status(201).set("X-Own", (await skald!.client.query({ text: "SELECT 1 AS n", types })).rows[0].n).end();
  };
  pg.types.setTypeParser(3802, (value) => value);
  try {
    for (const replayed of [undefined, "true"]) {
      const { status, headers } = await send(shop, "parsers");
      assert.deepEqual([status, headers["x-own"], headers["idempotency-replayed"]], [201, "<1>", replayed]);
    }
  } finally {
    pg.types.setTypeParser(3802, jsonb);
  }
  assert.equal(said, "the client is Skald's: do not release, end or change it; a query has its own parsers as `types`");
});

test("what a handler makes listen to its client hears no other's", async () => {
  const shop = await opened([], { connections: 1 });
  let heard = 0;
  act = async ({ skald }, res) => {
    await skald!.client.on("notice", () => ++heard).query("DO $$ BEGIN RAISE NOTICE 'x'; END $$");
    res.status(heard === 2 ? 500 : 201).end();
  };
  for (const key of ["hears-1", "hears-2", "hears-3"]) await send(shop, key);
  assert.equal(heard, 3);
});

test("why the guard has made a 500 of a response is in the log", async () => {
  const lines: string[] = [], shop = await opened([], { log: (line) => void lines.push(line) });
  const c = new pg.Client(url);
  await c.connect();
  await c.query("CREATE TABLE seat (n int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO seat VALUES (1)");
  await c.end();
  type Does = (ctx: RequestContext) => unknown;
  const nope = "INSERT INTO nope VALUES (1)", unseen = 'not awaited, and failed, or its error was caught: relation "nope" does not exist';
  const all: [Does, string][] = [[(ctx) => ctx.sql("INSERT INTO seat VALUES (1)"), "duplicate key value"], [(ctx) => void ctx.sql(nope), unseen],
    [(ctx) => ctx.sql(nope).catch(() => undefined), unseen], [(ctx) => ctx.client.query(nope, () => undefined), unseen],
    [(ctx) => ctx.sql("ROLLBACK"), "ended"], [(ctx) => ctx.client.query("ROLLBACK AND CHAIN; INSERT INTO seat VALUES (2); COMMIT"), "ended"]]; // with a 2
  for (const [n, [does, why]] of all.entries()) {
    act = async ({ skald }, res) => { await does(skald!); res.status(200).end(); };
    assert.equal((await send(shop, `why-${n}`)).status, 500);
    assert.ok(lines[n]!.startsWith(`POST /, key why-${n}: 500: `) && lines[n]!.includes(why), lines[n]);
  }
  act = async ({ skald }, res) => {
    await skald!.sql("SAVEPOINT before");
    await skald!.sql(nope).catch(() => skald!.sql("ROLLBACK TO before"));
    res.status(404).end();
  };
  for (const replayed of [undefined, "true"]) assert.equal((await send(shop, "savepoint")).headers["idempotency-replayed"], replayed);
  const deadlock = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$";
  act = async ({ skald }, res) => { await skald!.sql(deadlock).catch(() => undefined); res.status(200).end(); };
  assert.deepEqual([(await send(shop, "deadlock")).status, lines.length], [503, all.length]);
  const forged = "SELECT 'a\nPOST /, key forged: 500: no'::int";
  for (const [n, quotes] of [(ctx: RequestContext) => ctx.sql(forged), (ctx: RequestContext) => ctx.sql("SELECT '[\nPOST /, key forged'::json")].entries()) {
    act = async ({ skald }, res) => { await quotes(skald!).catch(() => undefined); res.status(200).end(); };
    assert.equal((await send(shop, `forged-${n}`)).status, 500);
    assert.match(lines.pop()!, /^POST \/, key forged-.*(\n    at .*)+$/);
  }
  const called = (client: pg.PoolClient, query: string): Promise<unknown> => new Promise((done) => client.query(query, (error) => done(error)));
  const ends: [(error: any, res: Response) => unknown, number][] = [[() => { throw Object.assign(new Error(), { status: 423 }); }, 423],
    [(_, res) => res.status(502).end(), 502], [(error) => { throw error; }, 503]];
  for (const [then, status] of ends) {
    act = async ({ skald }, res) => {
      await skald!.sql("SAVEPOINT before");
      const error = await skald!.sql(deadlock).catch((thrown) => thrown);
      await (status === 502 ? called(skald!.client, "ROLLBACK TO before") : skald!.sql("ROLLBACK TO before"));
      await then(error, res);
    };
    assert.equal((await send(shop, `undone-${status}`)).status, status);
  }
});

test("why the database is away is in the log, without its password", async () => {
  const lines: string[] = [], log = (line: string): void => void lines.push(line);
  for (const databaseUrl of [`${url}_none`, "postgresql://app:se%0Acret@127.0.0.1:1/none"]) await send(await opened([], { databaseUrl, log }), "away");
  assert.match(lines.join("\n"), /^POST \/: 503: database "\w+_none" does not exist\nPOST \/: 503: connect ECONNREFUSED 127\.0\.0\.1:1$/);
});

test("a stream without an end is rolled back at once, and what is written without its client is stored", async () => {
  const older: RequestHandler = (_, res, next) => (Object.defineProperty(res, "closed", { value: undefined }), next()); // Node before 18.13
  const shops = [await opened([], { connections: 1 }), await opened([older], { connections: 1 })], ignore = (): void => undefined;
  const endless = (): Readable => { const made = new PassThrough(); made.write("x"); return made; };
  const all: [does: (res: Response, closed: Promise<unknown>) => unknown, isStored: boolean][] = [
    [(res) => endless().pipe(res), false], [(res) => pipeline(endless(), res, ignore), false],
    [(res) => pipeline(endless(), new PassThrough(), res, ignore), false],
    [(res, closed) => closed.then(() => pipeline(endless(), res, ignore)), false],
    [(res, closed) => closed.then(() => Readable.from(["x"]).pipe(res)), true],
    [(res, closed) => pipeline(async function* () { yield "x"; await closed; yield "y"; }, res, ignore), true],
    [(res, closed) => closed.then(() => res.json("x")), true]];
  for (const [n, [does, isStored]] of [...all, ...all].entries()) {
    const shop = shops[n < all.length ? 0 : 1]!;
    let enter = ignore;
    const entered = new Promise<void>((resolve) => (enter = resolve)), headers = { "Idempotency-Key": `gone-${n}` };
    act = async (req, res) => {
      await req.skald!.sql("SELECT 1");
      does(res, once(res, "close"));
      enter();
    };
    const gone = request({ agent: false, port: (shop.address() as AddressInfo).port, method: "POST", headers });
    gone.on("error", ignore).end();
    await entered;
    gone.destroy();
    act = (_, res) => res.status(201).end();
    const again = await send(shop, `gone-${n}`, { Prefer: "wait=20" });
    assert.deepEqual([n, again.status, again.headers["idempotency-replayed"]], isStored ? [n, 200, "true"] : [n, 201, undefined]);
  }
});

test("a response that its handler destroys, or whose source fails, is a 500 that leaves nothing", async () => {
  const lines: string[] = [], shop = await opened([], { connections: 1, log: (line) => void lines.push(line) });
  let told: unknown;
  const source = (): Readable => Readable.from((async function* () { yield "x"; throw new Error("no more"); })());
  for (const [n, does] of [(res: Response) => res.destroy(), (res: Response) => pipeline(source(), res, (error) => (told = error?.message))].entries()) {
    act = async ({ skald }, res) => { await skald!.sql("SELECT 1"); does(res); };
    assert.equal((await send(shop, `cut-${n}`)).status, 500);
    act = (_, res) => res.status(201).end();
    assert.equal((await send(shop, `cut-${n}`)).status, 201);
  }
  act = async ({ skald }, res) => {
    await skald!.sql("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$").catch(() => undefined);
    res.destroy();
  };
  assert.equal((await send(shop, "cut-2")).status, 503);
  assert.equal(told, "no more");
  assert.match(lines.join(), /cut-0: 500: the handler has destroyed its response,.*cut-1: 500: Error: no more(?!.*cut-2)/s);
});

test("what a parameter's callback or its decoding raises is no decision, whoever makes the response", async () => {
  for (const handler of [undefined, (error: any, _: Request, res: Response, __: NextFunction) => void res.status(error.status).end()]) {
    const raising = Router(), app = express(), guarded = guard({ databaseUrl: url, connections: 1 });
    raising.param("id", (_, __, next) => next(Object.assign(new Error("no such account"), { status: 404 })));
    raising.post("/:id", (_, res) => void res.end());
    app.set("env", "test").use(guarded, (req, _, next) => void req.skald!.sql("SELECT 1").then(() => next(), next), raising);
    app.param("id", (_, __, next) => next(Object.assign(new Error("no such account"), { status: 404 })));
    app.post("/own/:id", (_, res) => void res.end());
    if (handler) app.use(handler);
    const shop = await listening(app, guarded);
    for (const [path, status] of [["/own/x", 404], ["/x", 404], ["/own/%E0%A4%A", 400], ["/%E0%A4%A", 400]] as const) {
      for (const key of Array(2).fill(`param-${path.replace(/\W/g, "-")}-${handler ? 1 : 0}`)) {
        const answer = await send(shop, key, {}, "", path);
        assert.deepEqual([answer.status, answer.headers["idempotency-replayed"]], [status, undefined], path);
      }
    }
  }
});
