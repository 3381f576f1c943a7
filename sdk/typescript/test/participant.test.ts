// A participant on a real PostgreSQL and RabbitMQ: DATABASE_URL, AMQP_URL (scripts/stack.sh), SKALD (the command line).
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import pg from "pg";
import { Malformed, Participant, Reject, Snooze, type Context } from "../src/index.js";
import { OwnDatabase } from "./database.js";
import { body, message } from "./message.js";
import { participant, waitFor } from "./process.js";
import { AbsentStandby } from "./standby.js";

interface Order { id: string; cents: number; charge?: string }

const database = new OwnDatabase(), { url } = database;
let c: pg.Client;
let shop: Participant;
let acts: ((ctx: Context, order: Order) => Promise<Order | void>)[];
const charge = message("charge", 2);

const one = async (query: string): Promise<any> => Object.values((await c.query(query)).rows[0] ?? {})[0];
const cents = (): Promise<number> => one("SELECT cents FROM wallet");
const sent = (): Promise<string> =>
  one("SELECT string_agg(destination || ' ' || idempotency_key, ', ' ORDER BY id) FROM skald.outbox WHERE type <> 'skald.progress'");

before(async () => {
  await database.make("payments");
  c = new pg.Client(url);
  await c.connect();
});

beforeEach(async () => {
  await c.query("DROP TABLE IF EXISTS wallet; CREATE TABLE wallet (cents int CHECK (cents >= 0)); INSERT INTO wallet VALUES (100)");
  for (const table of ["idempotency", "outbox", "parked"]) await c.query(`DELETE FROM skald.${table}`);
  acts = [];
  await shop?.pool.end();
  shop = new Participant("payments", { databaseUrl: url, log: () => undefined })
    .compensatable<Order>("order", "charge", async (ctx, order) => {
      await ctx.sql("UPDATE wallet SET cents = cents - 10");
      await ctx.publish("mail", "charged", { id: order.id });
      return acts.shift()?.(ctx, order);
    }, async (ctx) => void (await ctx.sql("UPDATE wallet SET cents = cents + 10")), { attempts: 2, first_ms: 0 })
    .retriable<Order>("order", "pay-out", async () => undefined)
    .pivot<any>("trip", "buy", async (ctx, trip) => acts.shift()?.(ctx, trip) as any,
      { version: 3, upcast: (data: any, version) => ({ ...data, was: version }) });
  await shop.connect();
});

after(async () => {
  await shop.pool.end();
  await c.end();
  await database.drop();
});

test("a step runs once and hands on the data as it came", async () => {
  assert.equal(await shop.process(charge), "step.completed");
  assert.equal(await shop.process(charge), "step.duplicate");
  assert.equal(await cents(), 90);
  assert.equal(await sent(), "mail k:charge.1.charged, shipping k:ship");
  assert.deepEqual(await one("SELECT payload FROM skald.outbox WHERE type = 'ship'"), body);
});

test("copies at the same time run once", async () => {
  const all = await Promise.all(Array.from({ length: 8 }, () => shop.process(charge)));
  assert.equal(all.filter((event) => event === "step.completed").length, 1);
  assert.equal(await cents(), 90);
});

test("what a step changes goes on, and digits are not lost in silence", async () => {
  acts = [async (_, order) => ({ ...order, charge: "c1" })];
  await shop.process(charge);
  assert.equal(String(await one("SELECT payload FROM skald.outbox WHERE type = 'ship'")), '{"id":"1","cents":1.5,"charge":"c1"}');
  acts = [async (_, order) => void (order.charge = "c2")];
  const wide = Buffer.from('{"id":"1","cents":9007199254740993}');
  assert.equal(await shop.process(message("charge", 2, { key: "b", body: wide })), "step.failed");
  assert.match(await one("SELECT error FROM skald.idempotency WHERE key = 'b'"), /9007199254740993/);
  for (const [number, event] of [["0.9237841293847123", "completed"], ["1e23", "completed"], ["9007199254740992", "completed"],
    ["-9007199254740993", "failed"], ["4611686018427387904", "failed"]]) { // a double, which JSON.stringify writes as ...8000
    acts = [async (_, order) => void (order.charge = "c2")];
    assert.equal(await shop.process(message("charge", 2, { key: `n${number}`, body: Buffer.from(`{"id":"1","cents":${number}}`) })), `step.${event}`);
  }
});

test("older data is brought up to date, and goes on as it came unless the step changes it", async () => {
  const buy = (version: string): Promise<string> => shop.process(message("buy", 1, { key: `v${version}`, body: Buffer.from("{ }"), headers: {
    "x-saga": "trip", "x-saga-version": version, "x-saga-itinerary": "forward 1/2 buy@payments=pivot next@orders=retriable" } }));
  assert.deepEqual([await buy("2"), await buy("3"), await buy("4")], ["step.completed", "step.completed", "step.awaits_deploy"]);
  acts = [async (_, trip) => void ((trip as any).bought = true)];
  assert.equal(await buy("1"), "step.completed");
  assert.equal(await one("SELECT string_agg(convert_from(payload, 'UTF8') || (headers->>'x-saga-version'), ' ' ORDER BY id) " +
    "FROM skald.outbox WHERE type = 'next'"), '{ }2 { }3 {"was":1,"bought":true}3'); // an older process may be the next
});

test("a COMMIT that was made to stop waiting for a standby is not believed", async () => {
  const rejected = message("charge", 2, { key: "rejected" });
  await AbsentStandby.during(url, async (standby) => {
    acts = [async () => undefined, async () => { throw new Reject("no money"); }];
    for (const one of [charge, rejected, charge, rejected]) // and what is there of them is not, later
      await assert.rejects(standby.cancelled(shop.process(one)), /possibly not durably/);
  });
  assert.deepEqual([await shop.process(charge), await shop.process(rejected), await cents()], ["step.duplicate", "step.duplicate", 90]);
});

test("a rejection undoes what was written and compensates", async () => {
  acts = [async () => { throw new Reject("no money"); }];
  assert.equal(await shop.process(charge), "step.rejected");
  assert.equal(await cents(), 100);
  assert.equal(await sent(), "orders k:create.compensate");
});

test("a compensation undoes its step once, and before it keeps it from running", async () => {
  await shop.process(charge);
  const back = message("charge", 2, { back: true });
  assert.deepEqual([await shop.process(back), await shop.process(back)], ["step.completed", "step.duplicate"]);
  assert.equal(await shop.process(message("charge", 2, { back: true, key: "early" })), "step.cancelled");
  assert.equal(await shop.process(message("charge", 2, { key: "early" })), "step.duplicate");
  assert.equal(await cents(), 100);
});

test("a fault is tried again until its attempts are used up, a snooze uses none", async () => {
  const broke = async (): Promise<void> => { throw new Error("broke"); };
  acts = [async () => { throw new Snooze(3_600_000); }, broke, broke];
  assert.equal(await shop.process(charge), "step.snoozed");
  assert.equal(await shop.process(message("charge", 2, { headers: { "x-snoozes": "1" } })), "step.failed");
  assert.equal(await sent(), "payments k:charge, payments k:charge");
  assert.equal(await shop.process(message("charge", 2, { headers: { "x-snoozes": "1", "x-attempt": "2" } })), "step.attempts_exhausted");
  assert.equal(await one("SELECT error FROM skald.idempotency"), "failed its last attempt: Error: broke");
});

test("a snooze of no time is the step's fault, a body that is too large is parked", async () => {
  acts = [async () => { throw new Snooze(NaN); }];
  assert.equal(await shop.process(charge), "step.failed");
  const large = message("charge", 2, { key: "large", body: Buffer.from(JSON.stringify({ id: "1", more: "x".repeat(1048576) })) });
  assert.deepEqual([await shop.process(large), await shop.process(large)], ["step.parked", "step.duplicate"]);
  assert.equal(await one("SELECT reason FROM skald.parked"), "unprocessable");
});

test("what can never run is parked with the reason", async () => {
  acts = [async () => { throw new Malformed("no customer"); }, async (ctx) => void (await ctx.sql("COMMIT"))];
  assert.equal(await shop.process(charge), "step.parked");
  assert.equal(await shop.process(message("charge", 2, { key: "a" })), "step.parked");
  assert.equal(await shop.process(message("charge", 2, { key: "b", body: Buffer.from("{") })), "step.parked");
  assert.equal(await shop.process(message("charge", 2, { key: "c", headers: { "x-saga-itinerary": "x" } })), "delivery.parked");
  assert.equal(await shop.process({ type: "\0", headers: { a: {}, b: true, c: "\ud800\0", d: Buffer.from("\0"), e: { "!": "timestamp", value: 1 } }, body: Buffer.from([255, 0]) }), "delivery.parked");
  assert.equal(await one("SELECT string_agg(reason, ' ' ORDER BY id) FROM skald.parked"),
    "malformed transaction_ended malformed malformed malformed");
  assert.equal(await one("SELECT (headers->>'d') || (headers->>'e') FROM skald.parked ORDER BY id DESC LIMIT 1"), "\\x001");
  assert.equal(await cents(), 100);
});

test("what strangers have sent begins no line of the log", async () => {
  const said: string[] = [], log = (line: string): void => void said.push(line);
  const other = new Participant("payments", { databaseUrl: url, log }).retriable("order", "pay-out", async (ctx) => void (await ctx.sql("SELECT 'a\nb'::int")));
  await other.connect();
  for (const m of [{ ...message("pay-out", 4, { headers: { "x-saga-itinerary": "x" } }), messageId: "a\nb" }, message("pay-out", 4)]) await other.process(m);
  await other.pool.end();
  assert.match(said.join(";"), /^delivery.parked of a\\x0ab: [^\n]*;step.failed of k:pay-out: error: [^\n]*"a\\x0ab"(\n    at .*)+$/);
});

test("a lost connection and a deadlock are no attempt", async () => {
  const deadlock = async (ctx: Context): Promise<void> =>
    void (await ctx.sql("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$"));
  acts = [deadlock, async (ctx) => {
    const { rows } = await ctx.sql("SELECT pg_backend_pid() AS pid");
    await c.query("SELECT pg_terminate_backend($1)", [rows[0]!["pid"]]);
    await ctx.sql("SELECT 1");
  }, deadlock];
  assert.equal(await shop.process(charge), "step.completed");
  assert.deepEqual([await cents(), await one("SELECT attempts FROM skald.idempotency")], [90, 1]);
});

test("a connection that is lost in an old transaction is an attempt", async (t) => {
  let runs = 0;
  const now = Date.now;
  acts = Array(9).fill(async (ctx: Context) => {
    ++runs;
    t.mock.method(Date, "now", () => now() + runs * 30_001);
    await ctx.sql("SELECT pg_terminate_backend(pg_backend_pid())").catch(() => undefined);
    await ctx.sql("SELECT 1"); // which the driver refuses without the cause
  });
  assert.deepEqual([await shop.process(charge), runs], ["step.failed", 1]);
  assert.match(await one("SELECT error FROM skald.idempotency"), /terminat/);
});

test("a statement that fails behind the step is the step's fault", async () => {
  acts = [async (ctx) => void ctx.client.once("drain", function (this: pg.ClientBase) { // after skald.done, and before COMMIT
    this.query("SELECT 1/0").catch(() => undefined);
  })];
  assert.equal(await shop.process(charge), "step.failed");
  assert.match(await one("SELECT error FROM skald.idempotency"), /rolled back: a statement of the step was not awaited/);
  assert.deepEqual([await cents(), await sent()], [100, "payments k:charge"]);
});

test("a statement that nobody awaits is the step's fault, and no other's", async () => {
  let late: () => Promise<unknown> = async () => undefined;
  const keeps = (ctx: Context): void => void (late = () => ctx.sql("UPDATE wallet SET cents = 0"));
  acts = [async (ctx) => void ctx.sql("SELECT 1/0"), async (ctx) => keeps(ctx), async (ctx) => { keeps(ctx); throw new Reject("no money"); }];
  assert.equal(await shop.process(charge), "step.failed");
  for (const [key, event] of [["b", "step.completed"], ["c", "step.rejected"]] as const) {
    assert.equal(await shop.process(message("charge", 2, { key })), event);
    await assert.rejects(late, /the step of [bc]:charge has ended/);
  }
  assert.equal(await cents(), 90);
});

test("a statement whose error nobody saw, or that was caught, is named", async () => {
  const nope = "INSERT INTO nope VALUES (1)";
  const unseen: ((ctx: Context) => unknown)[] = [(ctx) => void ctx.sql(nope), (ctx) => void (ctx.sql("SELECT pg_sleep(0.01)"), ctx.sql(nope)),
    (ctx) => ctx.sql(nope).catch(() => undefined), (ctx) => ctx.sql(nope).catch(() => ctx.sql("SELECT 1")), (ctx) => ctx.client.query(nope, () => undefined)];
  for (const [n, act] of unseen.entries()) {
    acts = [async (ctx) => void (await act(ctx))];
    assert.equal(await shop.process(message("charge", 2, { key: `k${n}` })), "step.failed");
    assert.equal(await one(`SELECT error FROM skald.idempotency WHERE key = 'k${n}'`),
      'Error: the transaction was rolled back: a statement of the step was not awaited, and failed, or its error was caught: relation "nope" does not exist');
  }
  acts = [async (ctx) => void ctx.sql("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$")]; // which is no attempt
  assert.equal(await shop.process(charge), "step.completed");
});

test("the client stays Skald's: to end, release or change it is the step's fault", async () => {
  const all: ((client: pg.PoolClient) => unknown)[] = [(client) => client.release(), (client) => client.release(true), (client) => client.end(),
    (client) => client.on("notice", () => undefined).release(), (client) => client.removeAllListeners(), (client) => (client.query = client.query),
    (client) => client.setTypeParser(25, (value) => value.toUpperCase())];
  for (const [n, ends] of all.entries()) {
    acts = [async (ctx) => void (await ends(ctx.client))];
    assert.equal(await shop.process(message("charge", 2, { key: `k${n}` })), "step.failed");
    assert.match(await one(`SELECT error FROM skald.idempotency WHERE key = 'k${n}'`), /^Error: the client is Skald's: do not release/);
  }
  let heard = 0;
  const hears = async (ctx: Context): Promise<void> => void (await ctx.client.on("notice", () => ++heard).query("DO $$ BEGIN RAISE NOTICE 'x'; END $$"));
  acts = [hears, hears];
  for (const key of ["a", "b"]) assert.equal(await shop.process(message("charge", 2, { key })), "step.completed");
  assert.equal(heard, 2);
  acts = [async (ctx) => { try { ctx.client.release(); } catch { /* its own finally */ } await ctx.sql("SELECT 1"); }];
  assert.equal(await shop.process(charge), "step.completed");
  assert.equal(await cents(), 70);
});

test("an error that is none, or has no text, is the step's fault", async () => {
  const odd = Object.defineProperty(new Error("x"), "message", { get() { throw new Error("no"); } });
  for (const [n, error] of [undefined, Object.create(null), Symbol("x"), odd, { message: Object.create(null) }, { toString() { throw this; } },
    new AggregateError([new Error("a")])].entries()) {
    acts = [async () => { throw error; }];
    assert.equal(await shop.process(message("charge", 2, { key: `k${n}` })), "step.failed");
  }
  assert.deepEqual([await cents(), await one("SELECT error FROM skald.idempotency WHERE key = 'k6'")], [100, "AggregateError: Error: a"]);
});

test("what nobody awaits and can't be sent is the step's fault", async () => {
  for (const [n, act] of [(ctx: Context) => ctx.publish("mail", "charged", { x: NaN }), (ctx: Context) => ctx.sql("SELECT $1", [{ x: 1n }]),
    (ctx: Context) => ctx.publish("mail", "charged", undefined)].entries()) {
    acts = [async (ctx) => void act(ctx)];
    assert.equal(await shop.process(message("charge", 2, { key: `k${n}` })), "step.failed");
  }
  assert.deepEqual([await cents(), await one("SELECT string_agg(error, ' ' ORDER BY key) FROM skald.idempotency")],
    [100, "Error: NaN can't be represented in JSON TypeError: Do not know how to serialize a BigInt Error: the body of publish() is undefined, " +
      "which JSON does not have: give null, or an object"]);
});

test("mistakes are said at the start", async () => {
  const other = new Participant("orders", { databaseUrl: url });
  await assert.rejects(other.connect(), /belongs to the service payments/).finally(() => other.pool.end());
  for (const lanes of [0, -1, 1.5, NaN]) assert.throws(() => new Participant("payments", { databaseUrl: url, lanes }), /whole number from 1/);
  assert.throws(() => shop.pivot("order", "charge", async () => undefined), /twice/);
  for (const amqpUrl of ["", "localhost", "amqp://u:pa%cret@localhost:1", "amqp://u:se/cret@localhost:1", "amqp://u:se?cret@localhost:1"])
    await assert.rejects(new Participant("none", { databaseUrl: url, amqpUrl }).run(), /^Error: AMQP_URL is not the URL of a broker((?!cret).)*$/);
});

test("signatures that are required are refused at the start", async () => {
  const nowhere = { databaseUrl: "postgresql://127.0.0.1:1/none", amqpUrl: "amqp://localhost" };
  try {
    for (const [signatures, why] of [["require", /^Error: SKALD_SIGNATURES=require: this SDK does not verify/], ["required", /=required: this SDK/],
      ["sign", /ECONNREFUSED/], ["off", /ECONNREFUSED/]] as const) {
      process.env["SKALD_SIGNATURES"] = signatures;
      await assert.rejects(new Participant("payments", nowhere).run(), why);
    }
  } finally {
    delete process.env["SKALD_SIGNATURES"];
  }
});

test("a process takes what comes, is killed, and ends when told", async () => {
  const p = await participant(url);
  p.start();
  for (let n = 0; n < 30; ++n) {
    p.send(n < 10 ? n : n - 10);
    if (n % 10 !== 5) continue;
    await waitFor(async () => (await p.queue()).messageCount === 0);
    p.kill();
    p.start();
  }
  await waitFor(async () => (await cents()) === 80);
  await p.end();
  assert.deepEqual([await cents(), Number(await one("SELECT count(*) FROM skald.idempotency"))], [80, 20]);
});

test("what a policy has parked is processed, and what came too often is not", async () => {
  const p = await participant(url);
  p.start();
  p.send(0, {}, "skald.parked");
  for (const [n, why] of ["expired", "delivery_limit"].entries()) p.send(n + 1, { "x-first-death-reason": why }, "skald.parked");
  await waitFor(async () => (await cents()) === 98 && (await one("SELECT count(*)::int FROM skald.parked")) === 1);
  await p.end();
  assert.equal(await one("SELECT reason || ' ' || key FROM skald.parked"), "delivery_limit k2");
});

test("what kills a process takes no other delivery along", async () => {
  const p = await participant(url);
  p.start();
  p.send(0);
  await waitFor(async () => (await p.queue()).consumerCount === 2); // then it has the whole prefetch
  p.kill();
  await waitFor(async () => (await p.queue()).consumerCount === 0);
  p.send("kills");
  for (let n = 1; n < 20; ++n) p.send(n);
  for (let n = 0; n < 4; ++n) {
    p.start();
    assert.equal(await p.exitCode(), 3);
  }
  await waitFor(async () => (await p.queue()).messageCount === 20);
  const cameBack = await p.cameBack();
  assert.equal(cameBack.get("kills:pay-out"), 4);
  cameBack.delete("kills:pay-out");
  assert.deepEqual([...cameBack.values()], Array(19).fill(0));
  await p.close();
});

test("what a database without writes does not take is kept", async () => {
  const p = await participant(url);
  p.start();
  await waitFor(async () => (await p.queue()).consumerCount > 0);
  await c.query(`ALTER DATABASE ${database.name} SET default_transaction_read_only = on`);
  try {
    await c.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'skald/payments'");
    for (let n = 0; n < 20; ++n) p.send(n);
    await waitFor(async () => /kept until the database takes it|trying again/.test(p.said()));
  } finally {
    await c.query(`ALTER DATABASE ${database.name} RESET default_transaction_read_only`);
  }
  await waitFor(async () => (await cents()) === 80);
  await p.end();
  assert.match(p.said(), /kept until the database takes it/);
  assert.doesNotMatch(p.said(), /trying again/); // it gives back all that it has, which counts as delivered once more
});

test("a process of another database takes nothing", async () => {
  const p = await participant(url);
  await c.query("UPDATE skald.service SET id = gen_random_uuid()");
  p.send(1);
  for (const more of ["", "declare: false"]) {
    p.start(more);
    assert.equal(await p.exitCode(), 1);
  }
  await waitFor(async () => p.said().split(/: the messages for payments belong to another database/).length === 3);
  assert.deepEqual([(await p.queue()).messageCount, await cents()], [1, 100]);
  await p.close();
});

test("a broker that can't be used is named, without the password", async () => {
  const p = await participant(url), broker = process.env["AMQP_URL"]!.replace(/\/$/, "");
  for (const [amqpUrl, why] of [[`${broker}/nope`, "/nope: the broker has refused the vhost (its log says why): it is not there"],
    ["amqp://guest:se:c@ret@127.0.0.1:1", "amqp://guest@127.0.0.1:1: connect ECONNREFUSED"],
    ["amqp://guest@shop:secret@127.0.0.1:1", "amqp://guest@shop@127.0.0.1:1: connect ECONNREFUSED"]] as const) {
    p.start(`amqpUrl: ${JSON.stringify(amqpUrl)}`);
    await waitFor(async () => p.said().includes(why));
    const ended = p.exitCode();
    p.stop();
    assert.equal(await ended, 0);
  }
  assert.doesNotMatch(p.said(), /guest:|secret/);
  await p.close();
});

test("a process that waits for a lock ends when told", async () => {
  const p = await participant(url);
  p.start();
  await waitFor(async () => (await p.queue()).consumerCount > 0);
  await c.query("BEGIN; LOCK TABLE skald.service");
  try {
    p.send(1);
    await waitFor(async () => one("SELECT bool_or(NOT granted) FROM pg_locks WHERE relation = 'skald.service'::regclass"));
    const ended = p.exitCode();
    p.stop();
    assert.equal(await ended, 0);
  } finally {
    await c.query("ROLLBACK");
  }
  p.start();
  await waitFor(async () => (await cents()) === 99);
  await p.end();
});
