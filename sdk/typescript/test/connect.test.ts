// How the servers are connected to: DATABASE_URL (scripts/stack.sh), SKALD (the command line).
import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { connect, createServer, type AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import express from "express";
import pg from "pg";
import { connected } from "../src/broker.js";
import { guard } from "../src/express.js";
import { Participant } from "../src/index.js";
import { OwnDatabase } from "./database.js";
import { close, listening, send } from "./server.js";

const database = new OwnDatabase(), { url } = database;

before(() => database.make("payments"));
after(async () => {
  await close();
  await database.drop();
});

test("a session starts with no limits of its own, which a pooler would refuse or lose", async () => {
  const limits = "SELECT string_agg(name || ' ' || reset_val, ', ' ORDER BY name) AS all FROM pg_settings WHERE name ~ '_timeout$'"; // which RESET gives
  const c = new pg.Client(url), shop = new Participant("payments", { databaseUrl: url }), guarded = guard({ databaseUrl: url });
  await c.connect();
  const server = await listening(express().use(guarded).post("/", async (req, res) => void res.json((await req.skald!.sql(limits)).rows[0])), guarded);
  const own = (await c.query(limits)).rows[0];
  assert.deepEqual((await shop.pool.query(limits)).rows[0], own);
  assert.deepEqual(JSON.parse((await send(server, "k")).body), own);
  await shop.pool.end();
  await c.end();
});

test("a broker that takes the connection and says nothing is given up, and named", async () => {
  const silent = createServer((socket) => socket.on("error", () => undefined).resume()).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const at = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
  await assert.rejects(connected(`amqp://guest:secret@${at}`, 1), { message: `amqp://guest@${at}: connect ETIMEDOUT` });
  silent.close();
});

test("a process ends beside a broker that says nothing any more", async () => {
  const at = new URL(process.env["AMQP_URL"]!), behind = Number(at.port), lines: string[] = [], own = new OwnDatabase(), service = own.name.replaceAll("_", "-");
  await own.make(service);
  let isSilent = false;
  const between = createServer((socket) => {
    const broker = connect(behind, at.hostname);
    for (const [from, to] of [[socket, broker], [broker, socket]] as const)
      from.on("error", () => undefined).on("close", () => to.destroy()).on("data", (data) => void (isSilent || to.write(data)));
  }).listen(0, "127.0.0.1");
  await once(between, "listening");
  at.port = String((between.address() as AddressInfo).port);
  const said = new EventEmitter(), log = (line: string): void => void (lines.push(line), said.emit(line));
  const running = new Participant(service, { databaseUrl: own.url, amqpUrl: at.href, log }).run();
  await Promise.race([once(said, `${service} is ready`), running]);
  isSilent = true;
  process.emit("SIGTERM", "SIGTERM");
  await running;
  await once(between.close(), "close"); // no connection is left
  assert.equal(lines.length, 2);
  await own.drop();
});

test("a participant that can't run takes no signal", async () => {
  await assert.rejects(new Participant("orders", { databaseUrl: url, log: () => undefined }).run(), /belongs to the service payments/);
  assert.equal(process.listenerCount("SIGTERM"), 0);
});
