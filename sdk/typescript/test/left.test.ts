// What steps and handlers leave open on their connection, which nothing else gets through then: DATABASE_URL (scripts/stack.sh), SKALD (the
// command line).
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import type { AddressInfo } from "node:net";
import { PassThrough, Readable } from "node:stream";
import { after, before, test } from "node:test";
import express, { type ErrorRequestHandler, type RequestHandler } from "express";
import pg from "pg";
import { guard } from "../src/express.js";
import { Participant, Reject, type Context } from "../src/index.js";
import { OwnDatabase } from "./database.js";
import { message } from "./message.js";
import { waitFor } from "./process.js";
import { close, listening, send } from "./server.js";

/** As pg-cursor and pg-copy-streams are made, of which the one waits for who reads on and the other for who writes. */
class Submitted extends EventEmitter {
  readonly isOpen = once(this, "open");
  handleRowDescription(): void { return undefined; }
  handleDataRow(): void { this.emit("open"); }
  handlePortalSuspended(): void { return undefined; }
  handleCommandComplete(): void { return undefined; }
  handleCopyInResponse(): void { this.emit("open"); }
  handleReadyForQuery(): void { return undefined; }
  handleError(error: Error): void { this.emit("error", error); } // which ends the process if nobody listens
}
class Cursor extends Submitted {
  submit(connection: any): void {
    connection.parse({ text: "SELECT generate_series(1, 100)" });
    connection.bind({ portal: "c" });
    connection.execute({ portal: "c", rows: 1 });
    connection.flush();
  }
}
class Copy extends Submitted {
  submit(connection: any): void { connection.query("COPY note FROM STDIN"); }
}

/** As pg-query-stream is made. */
class Stream extends Readable {
  override _read(): void { return undefined; }
  submit(connection: any): void { connection.query("SELECT 1/0"); }
  handleReadyForQuery(): void { return undefined; }
  handleError(error: Error): void { this.destroy(error); }
}
const piped = (stream: Stream): Promise<unknown> => once(stream.pipe(new PassThrough()), "finish");

const database = new OwnDatabase(), { url } = database;
const leave: Record<string, (client: pg.ClientBase) => unknown> = {
  cursor: (client) => client.query(new Cursor()).isOpen,
  copy: (client) => client.query(new Copy()).isOpen,
  long: (client) => void client.query("SELECT pg_sleep(60)"),
  // Which nothing cancels.
  deaf: (client) => void client.query("DO $$ BEGIN PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(60); END $$"),
};
const ends = Object.keys(leave).flatMap((left) => ["returns", "rejects", "throws"].map((end) => [left, end] as const));
let c: pg.Client;

before(async () => {
  await database.make("payments");
  c = new pg.Client(url);
  await c.connect();
  await c.query("CREATE TABLE note (text text)");
});

after(async () => {
  await close();
  await c.end();
  await database.drop();
});

/** What was left open: the server looks for its client once a second. */
const ended = (): Promise<void> => waitFor(async () => (await c.query(`SELECT FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL`)).rowCount === 0);

test("what a step leaves open is its fault, and keeps nobody", async () => {
  let isFirst = true;
  const said: string[] = [];
  const shop = new Participant("payments", { databaseUrl: url, lanes: ends.length, log: (line) => said.push(line) })
    .compensatable("order", "charge", async (ctx: Context) => {
      await ctx.sql("INSERT INTO note VALUES ($1)", [ctx.saga]);
      if (!isFirst) return;
      const [left, end] = ctx.saga.split("-");
      await leave[left!]!(ctx.client);
      if (end === "rejects") throw new Reject("no money");
      if (end === "throws") throw new Error("broke");
    }, async () => undefined, { first_ms: 0 });
  const all = (attempt: string): Promise<string[]> => Promise.all(ends.map(([left, end]) =>
    shop.process(message("charge", 2, { key: `${left}-${end}`, headers: { "x-attempt": attempt } }))));
  const failed = (end: string, event: string): string => (end === "rejects" ? "step.rejected" : event);
  try {
    assert.deepEqual(await all("1"), ends.map(([, end]) => failed(end, "step.failed")));
    await ended();
    assert.deepEqual(said.map((line) => /of (\w+-\w+):charge: Error: (broke|a cursor)/.exec(line)?.slice(1).join(" ")).sort(),
      ends.filter(([, end]) => end !== "rejects").map(([left, end]) => `${left}-${end} ${end === "throws" ? "broke" : "a cursor"}`).sort());
    isFirst = false;
    assert.deepEqual(await all("2"), ends.map(([, end]) => failed(end, "step.completed").replace("rejected", "duplicate")));
    assert.equal((await c.query("SELECT * FROM note")).rowCount, ends.filter(([, end]) => end !== "rejects").length);
  } finally {
    await shop.pool.end();
  }
});

test("what a handler leaves open is a 500, a refusal stays one, and no other request waits", async () => {
  await c.query("TRUNCATE note");
  let isFirst = true;
  const said: string[] = [], app = express(), guarded = guard({ databaseUrl: url, connections: ends.length, log: (line) => said.push(line) });
  app.use(guarded);
  app.post("/:left/:end", async (req, res) => {
    await req.skald!.sql("INSERT INTO note VALUES ($1)", [req.path]);
    if (isFirst) await leave[req.params.left!]!(req.skald!.client);
    if (isFirst && req.params.end === "throws") throw Object.assign(new Error("not yours"), { status: 403 });
    res.status(isFirst && req.params.end === "rejects" ? 409 : 201).end();
  });
  const refusal: ErrorRequestHandler = (error, _req, res, _next) => void res.status(error.status).end();
  app.use(refusal);
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const all = (): Promise<number[]> => Promise.all(ends.map(async ([left, end]) =>
    (await fetch(`${base}/${left}/${end}`, { method: "POST", headers: { "Idempotency-Key": `${left}-${end}` } })).status));
  try {
    const status: Record<string, number> = { returns: 500, rejects: 409, throws: 403 };
    assert.deepEqual(await all(), ends.map(([, end]) => status[end]));
    await ended();
    assert.deepEqual([(await c.query("SELECT * FROM note")).rowCount, said.length], [0, Object.keys(leave).length]);
    for (const line of said) assert.match(line, /POST \/\w+\/returns, key \w+-returns: 500: Error: a cursor, stream or COPY was left open/);
    isFirst = false;
    assert.deepEqual(await all(), ends.map(() => 201));
    assert.equal((await c.query("SELECT * FROM note")).rowCount, ends.length);
  } finally {
    server.close();
    server.closeAllConnections();
    await guarded.close();
  }
});

test("a handler that was too slow keeps nothing, also amid a statement", async () => {
  await c.query("TRUNCATE note");
  const all = async (handlerMs: number, work: RequestHandler): Promise<number[]> => {
    const kinds = Object.keys(leave), guarded = guard({ databaseUrl: url, connections: kinds.length, handlerMs });
    const shop = await listening(express().use(guarded).post("/:left", work), guarded);
    return Promise.all(kinds.map(async (left) => (await send(shop, `slow-${left}`, {}, "", `/${left}`)).status));
  };
  assert.deepEqual(await all(500, async (req) => {
    await req.skald!.sql("INSERT INTO note VALUES ('x')");
    await leave[String(req.params["left"])]!(req.skald!.client);
  }), Object.keys(leave).map(() => 503));
  await ended();
  assert.equal((await c.query("SELECT * FROM note")).rowCount, 0);
  assert.deepEqual(await all(30_000, (_, res) => void res.status(201).end()), Object.keys(leave).map(() => 201));
});

test("a stream whose error nobody hears fails who waits for it", async () => {
  const said: string[] = [];
  const shop = new Participant("payments", { databaseUrl: url, log: (line) => said.push(line) })
    .retriable("order", "pay-out", async (ctx: Context) => {
      const stream = ctx.client.query(new Stream());
      assert.ok(!("callback" in stream)); // of pg's, for a timer that would go on behind the stream's end
      await piped(stream);
    }, { first_ms: 0 });
  assert.equal(await shop.process(message("pay-out", 4, { key: "unheard" })), "step.failed");
  assert.match(said.join(), /division by zero/);
  await shop.pool.end();
  const guarded = guard({ databaseUrl: url, connections: 1 });
  const server = await listening(express().set("env", "test").use(guarded).post("/", async ({ skald }, res) => {
    await piped(skald!.client.query(new Stream()));
    res.status(201).end();
  }), guarded);
  assert.equal((await send(server, "unheard")).status, 500);
});

test("a stream whose error nobody hears behind the response ends no connection", async () => {
  const guarded = guard({ databaseUrl: url, connections: 1, log: () => undefined });
  const server = await listening(express().set("env", "test").use(guarded).post("/:what", ({ params, skald }, res) => {
    if (params.what === "stream") skald!.client.query(new Stream());
    res.status(201).end();
  }), guarded);
  assert.equal((await send(server, "behind", {}, "", "/stream")).status, 500);
  const { status, reused } = await send(server, "next", {}, "", "/none");
  assert.deepEqual([status, reused], [201, true]);
});
