// A kept response does what Node's does, on a real PostgreSQL: DATABASE_URL (scripts/stack.sh), SKALD (the command line).
import assert from "node:assert/strict";
import { once } from "node:events";
import type { Server } from "node:http";
import { after, before, test } from "node:test";
import express, { type NextFunction, type Request, type RequestHandler, type Response } from "express";
import { guard, type GuardSettings } from "../src/express.js";
import { OwnDatabase } from "./database.js";
import { close, listening, send } from "./server.js";

const database = new OwnDatabase(), { url } = database;
let act: (req: Request, res: Response, next: NextFunction) => unknown;

before(async () => {
  await database.make("orders");
});

after(async () => {
  await close();
  await database.drop();
});

async function opened(settings: GuardSettings = {}, earlier: RequestHandler[] = []): Promise<Server> {
  const app = express().set("env", "test"), guarded = guard({ databaseUrl: url, connections: 1, log: () => undefined, ...settings });
  for (const one of [...earlier, guarded]) app.use(one);
  return listening(app.all("/", (req, res, next) => act(req, res, next)), guarded);
}

test("what Node refuses is refused, and leaves nothing", async () => {
  const shop = await opened();
  const all: [string, (res: any) => unknown][] = [["ERR_INVALID_ARG_TYPE", (res) => res.end({ a: 1 })], ["ERR_INVALID_ARG_TYPE", (res) => res.write(12)],
    ["ERR_STREAM_NULL_VALUES", (res) => res.write(null)], ["ERR_UNKNOWN_ENCODING", (res) => res.end("x", "nope")],
    ["ERR_HTTP_INVALID_HEADER_VALUE", (res) => res.writeHead(200, { "X-U": undefined })],
    ...[1000, 22012, "23505", 99, "abc"].map((status): [string, (res: any) => unknown] =>
      ["ERR_HTTP_INVALID_STATUS_CODE", (res) => { res.statusCode = status; res.end("x"); }]),
    ["ERR_HTTP_HEADERS_SENT", (res) => { res.write("a part"); res.status(400).json("another"); }],
    ["ERR_HTTP_HEADERS_SENT", (res) => res.writeHead(200).writeHead(400)]];
  for (const [n, [code, does]] of all.entries()) {
    let met: unknown;
    act = async ({ skald }, res) => {
      await skald!.sql("SELECT 1");
      try { await does(res); } catch (error: any) { met = error.code; throw error; }
      res.end();
    };
    const { status } = await send(shop, `node-${n}`, { Connection: "close" });
    assert.deepEqual([n, status, met], [n, 500, code]);
    act = (_, res) => void res.status(201).end();
    const again = await send(shop, `node-${n}`);
    assert.deepEqual([n, again.status, again.headers["idempotency-replayed"]], [n, 201, undefined]);
  }
});

test("a status that is a string is that status", async () => {
  const shop = await opened();
  act = ({ skald }, res) => { res.statusCode = (skald && "409") as unknown as number; res.end(); };
  for (let n = 0; n < 2; ++n) assert.deepEqual([(await send(shop, "string")).status, (await send(shop, "string")).headers["idempotency-replayed"]], [409, undefined]);
});

test("a status that is no whole number is that without its fraction", async () => {
  const shop = await opened();
  act = ({ skald }, res) => { res.statusCode = skald ? 201.7 : 500; res.end(); };
  for (const replayed of [undefined, "true"]) {
    const { status, headers } = await send(shop, "fraction");
    assert.deepEqual([status, headers["idempotency-replayed"]], [201, replayed]);
  }
});

test("a saga without data is refused with words", async () => {
  const said: string[] = [], shop = await opened({ log: (line) => said.push(line) });
  act = ({ skald }, res) => { void skald!.start("place", "a@orders=retriable", undefined); res.status(201).end(); };
  assert.equal((await send(shop, "undefined")).status, 500);
  assert.match(said.join(), /the data of start\(\) is undefined, which JSON does not have/);
});

test("a reason goes with its status", async () => {
  const shop = await opened();
  act = (_, res) => { res.statusMessage = "Made up"; res.status(201).end(); };
  assert.deepEqual([(await send(shop, "reason")).reason, (await send(shop, "reason")).reason], ["Created", "Created"]);
  act = async ({ skald }, res) => { res.statusMessage = "Made up"; void skald!.sql("SELECT 1/0"); res.status(201).end(); };
  assert.equal((await send(shop, "none")).reason, "Internal Server Error");
});

test("a response that middleware can't send is an error, and no request without an end", async () => {
  let isBroken = true;
  const shop = await opened({}, [(_, res, next) => {
    const { end } = res;
    if (isBroken) res.end = () => { res.end = end; throw new Error("no store for the session"); };
    next();
  }]);
  act = (_, res) => void res.status(201).end();
  assert.equal((await send(shop, "unsent")).status, 500);
  isBroken = false;
  const { status, headers } = await send(shop, "unsent");
  assert.deepEqual([status, headers["idempotency-replayed"]], [201, "true"]);
});

test("the callback of `end` comes when that response has been sent, and not when another was", async () => {
  const shop = await opened({ handlerMs: 10_000 }), told: string[] = [];
  const ends: [string, (res: Response, done: () => void) => unknown][] = [["done", (res, done) => res.end(done)],
    ["chunk", (res, done) => res.end("x", done)], ["coded", (res, done) => res.end("78", "hex", done)], ["late", (res, done) => res.end("x").end(done)]];
  for (const [name, end] of ends) {
    for (const statement of ["SELECT 1/0", "SELECT 1"]) {
      let finished: Promise<unknown> = Promise.resolve();
      act = ({ skald }, res) => {
        void skald!.sql(statement);
        finished = once(res, "finish");
        end(res, () => void told.push(`${name}: ${res.writableFinished}`));
        assert.deepEqual(told.filter((one) => one.startsWith(name)), []);
      };
      const { status, body } = await send(shop, name);
      await finished;
      assert.deepEqual([status, body], statement === "SELECT 1" ? [200, name === "done" ? "" : "x"] : [500, body]);
    }
  }
  assert.deepEqual(told, ends.map(([name]) => `${name}: true`));
});

test("the callback of `write` comes later, and tells what comes too late", async () => {
  const shop = await opened();
  act = (_, res) => {
    let left = 20_000;
    const more = (): unknown => (left-- ? res.write("x", more) : res.end());
    more();
  };
  assert.equal((await send(shop, "chunks")).body.length, 20_000);
  const codes: unknown[] = [];
  act = async (_, res) => {
    res.end("x");
    for (const what of ["write", "end"] as const)
      await new Promise<void>((done) => (res[what] as any)("y", (error: any) => (codes.push(error?.code), done())));
  };
  assert.equal((await send(shop, "too-late")).body, "x");
  assert.deepEqual(codes, ["ERR_STREAM_WRITE_AFTER_END", "ERR_STREAM_WRITE_AFTER_END"]);
});

test("JSON that is not UTF-8 is refused, and not changed", async () => {
  const shop = await opened();
  act = ({ body }, res) => void res.status(201).json(body);
  const latin1 = Buffer.from('{"n":"\xe9"}', "latin1");
  const post = async (key: string, type: string, body: Buffer): Promise<[number, string]> => {
    const answer = await send(shop, key, { "Content-Type": type }, body);
    return [answer.status, answer.status < 300 ? answer.body : JSON.parse(answer.body).type];
  };
  assert.deepEqual(await post("charset", "application/json; charset=iso-8859-1", latin1), [415, "about:blank"]);
  assert.deepEqual(await post("charset", 'application/json; a=b; charset="UTF-16"', latin1), [415, "about:blank"]);
  assert.deepEqual(await post("charset", "application/json", latin1), [400, "/problems/body"]);
  for (const [n, charset] of ["utf-8", '"UTF-8"', "utf8", "us-ascii"].entries())
    assert.deepEqual(await post(`charset-${n}`, `application/json;charset=${charset}`, Buffer.from('{"n":"é"}')), [201, '{"n":"é"}']);
});

test("a response that was waited for says for how long, and HEAD has no length of its own", async () => {
  let enter = (): void => undefined, leave = (): void => undefined;
  const shop = await opened({ connections: 3, guarded: () => true }, [(_, res, next) => {
    const { setHeader } = res;
    res.setHeader = (name, value) => {
      if (value === "wait=20") leave(); // it has been refused once
      return setHeader.call(res, name, value);
    };
    next();
  }]);
  const entered = new Promise<void>((resolve) => (enter = resolve)), left = new Promise<void>((resolve) => (leave = resolve));
  act = async (_, res) => { enter(); await left; res.status(500).end(); };
  const { port } = shop.address() as { port: number }, post = { method: "POST", headers: { "Idempotency-Key": "waits", Prefer: "wait=20" } };
  const first = fetch(`http://127.0.0.1:${port}/`, post);
  await entered;
  const told = await fetch(`http://127.0.0.1:${port}/`, { ...post, headers: { ...post.headers, Prefer: "wait=0" } });
  const waiting = fetch(`http://127.0.0.1:${port}/`, post);
  act = (_, res) => void res.status(201).end();
  assert.deepEqual([(await first).status, (await first).headers.get("preference-applied")], [500, null]);
  assert.deepEqual([(await waiting).status, (await waiting).headers.get("preference-applied"), told.headers.get("preference-applied")],
    [201, "wait=20", "wait=0"]);
  assert.equal((await fetch(`http://127.0.0.1:${port}/`, post)).headers.get("preference-applied"), null);
  act = (_, res) => void res.json("four");
  const head = await send(shop, "head", {}, "", "/", "HEAD");
  assert.deepEqual([head.status, head.headers["content-length"]], [200, undefined]);
});

test("a connection that is lost amid a handler is in the log", async () => {
  const lines: string[] = [], shop = await opened({ log: (line) => void lines.push(line) });
  for (const [key, status] of [["returns", 200], ["refuses", 409], ["raises", 0]] as const) {
    act = async ({ skald }, res) => {
      await skald!.sql("SELECT pg_terminate_backend(pg_backend_pid())").catch(() => undefined);
      if (!status) throw new Error("broke");
      res.status(status).end();
    };
    assert.equal((await send(shop, key)).status, 503);
    assert.match(lines.pop()!, new RegExp(`^POST /, key ${key}: 503: [^\\n]*terminat`));
  }
  assert.deepEqual(lines, []);
});
