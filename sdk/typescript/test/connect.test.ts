// How the servers are connected to: DATABASE_URL (scripts/stack.sh), SKALD (the command line).
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import express from "express";
import pg from "pg";
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
