// How the servers are connected to: DATABASE_URL (scripts/stack.sh), SKALD (the command line).
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
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
